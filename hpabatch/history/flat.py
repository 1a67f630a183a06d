"""Flat history: a folder with one Parquet file, or a folder of files, per table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from hpabatch.history.base import SIZES, SPANS, Days, History, Wanted
from hpabatch.history.checks import (
    check_columns,
    conform,
    order_rows,
    run_starts,
    strictly_increasing,
)
from hpabatch.history.columns import TEXT, TIME, Table
from hpabatch.history.files import open_regular
from hpabatch.history.parquet import check_pages, load, open_file, row_count, unreadable
from hpabatch.history.schema import SCHEMA_KEY, TABLES, empty_frame
from hpabatch.history.store.catalog import Place
from hpabatch.history.store.writer import place_columns, split_places

# A table of which all columns together stay below this many bytes is read once and kept.
KEEP_BYTES = 1 << 29
_CELL_BYTES = 16
_PIECE_ROWS = 1 << 20
_PLACE = ["cluster", "namespace", "place"]

Span = tuple[int, int]
"""First row and number of rows."""


class _Survey(NamedTuple):
    """What one reading of a table tells: `SIZES`, `SPANS`, and where each place's rows lie.

    `held`: cluster, namespace, place, file (its number), the rows from `first` to before `end`,
    how many of them are the place's, and their days. `is_ordered`: all rows are in the order of
    the key, each key once, from file to file.
    """

    sizes: pl.DataFrame
    spans: pl.DataFrame
    held: pl.DataFrame
    is_ordered: bool


class FlatHistory(History):
    """A folder of tables by any writer, with rows in any order.

    Small tables are kept in memory after the first selection. Of large ones a selection reads, in
    each file, from the first row of its places to the last: such histories should be migrated to a
    store.
    """

    def __init__(self, path: Path, files: dict[str, tuple[Path, ...]], warnings: list[str]) -> None:
        """Use `open_history`."""
        super().__init__(path, files, warnings)
        self._kept: dict[str, tuple[pl.DataFrame, dict[str, dict[Place, Span]]]] = {}
        self._small: dict[str, bool] = {}
        self._surveys: dict[str, _Survey] = {}
        self._sound: set[Path] = set()
        self._opened: dict[Path, tuple[pl.Schema, str]] = {}

    def digests(self) -> dict[str, str]:
        """Return a sha256 over the bytes of every table's files.

        Raises:
            HistoryError: a file cannot be read.
        """
        found = {}
        for table, files in self.files.items():
            digest = hashlib.sha256()
            for file in files:
                try:
                    with open_regular(file) as stream:
                        while part := stream.read(1 << 20):
                            digest.update(part)
                except OSError as error:
                    raise unreadable(file, table, error) from error
            found[table] = digest.hexdigest()
        return found

    def versions(self, table: str) -> set[str]:
        """Return the schema versions of a table's files, "unknown" for other writers' files.

        Raises:
            HistoryError: a file is broken, or of a newer schema.
        """
        return {self._open(TABLES[table], file)[1] for file in self.files[table]}

    def check_file(self, table: str, file: Path) -> None:
        """Check that a file is Parquet of the table, and the checksums of its pages.

        Raises:
            HistoryError: it is not, or damaged.
        """
        self._open(TABLES[table], file)
        if file not in self._sound:
            check_pages(file, TABLES[table])
            self._sound.add(file)

    def times(self, table: str) -> tuple[datetime | None, datetime | None]:
        """Return the first and last time of a table (by `Table.day`), None for one without.

        Raises:
            HistoryError: a file is broken, or does not have the registered columns and values.
        """
        spec = TABLES[table]
        if not spec.day:
            return None, None
        ends = [
            piece.select(
                pl.col(spec.day).min().alias("first"), pl.col(spec.day).max().alias("last")
            )
            for _, _, piece in self._pieces(spec, [spec.day])
        ]
        if not ends:
            return None, None
        first, last = pl.concat(ends).select(pl.col("first").min(), pl.col("last").max()).row(0)
        return first, last

    def _pieces(
        self, spec: Table, needed: Sequence[str]
    ) -> Iterator[tuple[int, int, pl.DataFrame]]:
        """Yield a file's number, the first row and checked rows, one piece at a time in memory.

        A small table is one piece.
        """
        if self._is_small(spec):
            yield 0, 0, self._kept_table(spec)[0]
            return
        for number, file in enumerate(self.files[spec.name]):
            for start in range(0, row_count(file), _PIECE_ROWS):
                yield number, start, self._file(spec, file, needed, None, (start, _PIECE_ROWS))

    def _table(self, spec: Table, wanted: Sequence[str]) -> pl.DataFrame:
        # The key is always read: order and duplicates depend on it.
        needed = [name for name in spec.names if name in wanted or name in spec.key]
        parts = [self._file(spec, file, needed) for file in self.files[spec.name]]
        frame, dropped = order_rows(pl.concat(parts), spec)
        self._warn_of_dropped(spec, dropped)
        return frame

    def _select(
        self,
        spec: Table,
        cluster: str,
        places: set[Wanted] | None,
        days: Days | None,
        wanted: Sequence[str],
    ) -> pl.DataFrame:
        if not self._is_small(spec):
            return self._search(spec, cluster, places, days, wanted)
        frame, spans = self._kept_table(spec)
        chosen = spans.get(cluster, {})
        names = chosen if places is None else [place for place in chosen if place in places]
        columns = list(dict.fromkeys([*wanted, *_of_day(spec)]))
        parts = [frame.slice(*chosen[name]).select(columns) for name in names]
        rows = pl.concat(parts) if parts else frame.clear()
        if days is not None:
            rows = rows.filter(pl.col(spec.day).dt.date().is_between(*days))
        return rows.select(wanted)

    def _kept_table(self, spec: Table) -> tuple[pl.DataFrame, dict[str, dict[Place, Span]]]:
        """Return a small table, and first row and length of every cluster's places, in order."""
        if spec.name not in self._kept:
            frame = self._table(spec, spec.names)
            spans: dict[str, dict[Place, Span]] = {}
            row = 0
            for (cluster,), rows in frame.group_by(["cluster"], maintain_order=True):
                found = spans.setdefault(str(cluster), {})
                for place, part in split_places(rows, spec):
                    found[place] = (row, part.height)
                    row += part.height
            self._kept[spec.name] = (frame, spans)
        return self._kept[spec.name]

    def _search(
        self,
        spec: Table,
        cluster: str,
        places: set[Wanted] | None,
        days: Days | None,
        wanted: Sequence[str],
    ) -> pl.DataFrame:
        """Return selected rows of a table that is too large to keep."""
        survey = self._survey(spec)
        held = survey.held.filter(pl.col("cluster") == cluster)
        if places is not None:
            held = _of_places(held, "place", places)
        # (a file without any wanted column has rows all the same: one of the key tells how many)
        key = spec.key[:1] if survey.is_ordered else spec.key
        needed = [name for name in spec.names if name in wanted or name in key]
        parts = [empty_frame(spec.name).select(needed)]
        for number, first, since, end, until, rows in _joined_spans(held).iter_rows():
            # Rows of others between theirs have to be told apart, and rows of other days.
            alone = rows == end - first
            inside = not days or not spec.day or (days[0] <= since and until <= days[1])
            names = needed if alone else list(dict.fromkeys([*needed, *place_columns(spec)]))
            filters = partial(
                _filters,
                spec,
                cluster=None if alone else cluster,
                places=None if alone else places,
                days=None if inside else days,
            )
            found = self._file(
                spec, self.files[spec.name][number], names, filters, (first, end - first)
            )
            if not alone and places is not None:
                found = _of_places(found, spec.place, places)
            parts.append(found.select(needed))
        frame = pl.concat(parts)
        if survey.is_ordered:
            return frame.select(wanted)
        ordered, dropped = order_rows(frame, spec)
        self._warn_of_dropped(spec, dropped)
        return ordered.select(wanted)

    def forget_warnings(self, known: int) -> None:
        """Keep the first `known` warnings only; what is in memory is read again, to tell them."""
        super().forget_warnings(known)
        self._kept.clear()
        self._surveys.clear()

    def _is_small(self, spec: Table) -> bool:
        if spec.name not in self._small:
            rows = 0
            for file in self.files[spec.name]:
                self._open(spec, file)
                rows += row_count(file)
            self._small[spec.name] = rows * len(spec.names) * _CELL_BYTES <= KEEP_BYTES
        return self._small[spec.name]

    def _distinct(self, spec: Table, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        if self._is_small(spec):
            yield self._kept_table(spec)[0].select(wanted).unique()
            return
        for cluster, day in self._survey(spec).sizes.select("cluster", "day").unique().rows():
            yield self._search(spec, cluster, None, (day, day), wanted).unique()

    def _sizes(self, spec: Table) -> pl.DataFrame:
        return self._survey(spec).sizes

    def _survey(self, spec: Table) -> _Survey:
        """Return where a table's rows lie; of a large one only a piece at a time is in memory."""
        if spec.name not in self._surveys:
            key = {"cluster", "fetched_at", *_of_day(spec), *place_columns(spec), *spec.key}
            needed = [n for n in spec.names if n in key]
            sizes, spans, held = [pl.DataFrame(schema=SIZES)], [pl.DataFrame(schema=SPANS)], []
            last, is_ordered = empty_frame(spec.name).select(spec.key), not self._is_small(spec)
            for number, start, piece in self._pieces(spec, needed):
                runs = _runs(piece, spec)
                sizes.append(runs)
                spans.append(_spans(piece, spec))
                held.append(_held(runs, number, start))
                bounds = pl.concat([last, piece.select(spec.key).head(1)])
                is_ordered = is_ordered and all(
                    strictly_increasing(rows, spec.key) for rows in (bounds, piece)
                )
                last = piece.select(spec.key).tail(1)
            self._surveys[spec.name] = _Survey(
                _summed(sizes), _joined(spans), pl.concat(held), is_ordered
            )
        return self._surveys[spec.name]

    def _span(self, spec: Table) -> pl.DataFrame:
        return self._survey(spec).spans

    def _file(
        self,
        spec: Table,
        file: Path,
        needed: Sequence[str],
        filters: Callable[[pl.Schema], list[pl.Expr]] | None = None,
        span: Span | None = None,
    ) -> pl.DataFrame:
        """Return checked rows of a file: all, those that pass, or a span of rows."""
        self.check_file(spec.name, file)
        found, _ = self._open(spec, file)
        for warning in check_columns(list(found), spec, str(file)):
            self._warn(warning)
        frame = load(
            file, [name for name in needed if name in found], filters and filters(found), span
        )
        present = conform(frame, spec, str(file))
        return present.select(
            pl.col(name)
            if name in found
            else pl.lit(spec.column(name).fill, dtype=spec.column(name).dtype).alias(name)
            for name in needed
        )

    def _open(self, spec: Table, file: Path) -> tuple[pl.Schema, str]:
        """Return columns and schema version of a file, which is inspected once."""
        if file not in self._opened:
            found, metadata = open_file(file, spec)
            self._opened[file] = (found, metadata.get(SCHEMA_KEY, "unknown"))
        return self._opened[file]

    def _warn_of_dropped(self, spec: Table, dropped: int) -> None:
        if dropped:
            self._warn(
                f"{self._place(spec)}: {dropped} row{'s' * (dropped > 1)} with the key of a later "
                f"row ({', '.join(spec.key)}) dropped"
            )

    def _place(self, spec: Table) -> str:
        files = self.files[spec.name]
        return str(files[0]) if len(files) == 1 else str(files[0].parent)

    def _how_to_add(self, tables: Sequence[Table]) -> str:
        return (
            f"add {tables[0].name}.parquet{' and so on' if len(tables) > 1 else ''}"
            f"{other_formats(self.path, tables)}"
        )


def _of_day(spec: Table) -> list[str]:
    return [spec.day] if spec.day else []


def _of_places(frame: pl.DataFrame, place: str, places: Collection[Wanted]) -> pl.DataFrame:
    """Return the rows of some places, which the column `place` names."""
    names = ["namespace", place]
    chosen = pl.DataFrame(list(places), schema=dict.fromkeys(names, TEXT), orient="row")
    return frame.join(chosen, on=names, how="semi", nulls_equal=True, maintain_order="left")


def _filters(
    spec: Table,
    found: pl.Schema,
    cluster: str | None,
    places: set[Wanted] | None,
    days: Days | None,
) -> list[pl.Expr]:
    """Return conditions on a file's own columns that hold for the selected rows and few others."""
    conditions = []
    if cluster is not None:
        conditions.append(_as_text(spec, found, "cluster").is_in([cluster]))
    if places is not None:
        for index, name in enumerate(place_columns(spec)):
            conditions.append(
                _as_text(spec, found, name).is_in(
                    {place[index] for place in places}, nulls_equal=True
                )
            )
    kind = found.get(spec.day)
    if days is not None and isinstance(kind, pl.Datetime):
        ticks = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.time_unit]
        first, last = (
            int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) for day in days
        )
        moment = pl.col(spec.day).to_physical()
        conditions.append((moment >= first * ticks) & (moment < (last + 86_400) * ticks))
    return conditions


def _as_text(spec: Table, found: pl.Schema, name: str) -> pl.Expr:
    fill = spec.column(name).fill
    if name not in found:
        return pl.lit(fill, dtype=TEXT)
    text = pl.col(name).cast(TEXT)
    return text if fill is None else text.fill_null(fill)


def _runs(frame: pl.DataFrame, spec: Table) -> pl.DataFrame:
    """Return the runs of rows of one place and day, as `SIZES`."""
    none = pl.lit(None, dtype=TEXT)
    places = frame.select(
        "cluster",
        namespace="namespace" if spec.place else none,
        place=spec.place if spec.place else none,
        day=pl.col(spec.day).dt.date() if spec.day else pl.lit(None, dtype=pl.Date()),
    )
    starts = run_starts(places)
    rows = np.diff(np.append(starts, frame.height))
    return places[starts].with_columns(rows=rows).select(SIZES.names()).cast(SIZES)


_SPAN = (
    pl.col("first", "first_day").min(),
    pl.col("end", "last_day").max(),
    pl.col("rows").sum(),
)


def _held(runs: pl.DataFrame, file: int, start: int) -> pl.DataFrame:
    """Return where in a file each place's rows lie, from a piece's runs (`_Survey.held`)."""
    end = pl.col("rows").cum_sum() + start
    spans = runs.select(
        *_PLACE, "rows", first=end - pl.col("rows"), end=end, first_day="day", last_day="day"
    )
    return spans.group_by(_PLACE).agg(*_SPAN).with_columns(file=pl.lit(file))


def _joined_spans(held: pl.DataFrame) -> pl.DataFrame:
    """Return the span of each file in which some places' rows lie, in the order of the files."""
    return held.group_by("file").agg(*_SPAN).sort("file")


def _summed(sizes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return sizes with each place and day once, as `SIZES`."""
    names = [name for name in SIZES if name != "rows"]
    return pl.concat(sizes).group_by(names).agg(pl.col("rows").sum()).select(SIZES.names())


def _joined(spans: Sequence[pl.DataFrame]) -> pl.DataFrame:
    least, most = pl.col("^.*_first$").min(), pl.col("^.*_last$").max()
    return pl.concat(spans).group_by("cluster").agg(least, most).select(SPANS.names())


def _spans(frame: pl.DataFrame, spec: Table) -> pl.DataFrame:
    none = pl.lit(None, dtype=TIME)
    seen = frame.select(
        "cluster",
        time=spec.day or none,
        fetched="fetched_at" if "fetched_at" in spec.names else none,
    )
    seen = seen.with_columns(bare=pl.when(pl.col("fetched").is_null()).then("time"))
    ends = {
        "fetched_first": pl.col("fetched").min(),
        "fetched_last": pl.col("fetched").max(),
        "unfetched_first": pl.col("bare").min(),
        "unfetched_last": pl.col("bare").max(),
    }
    if run_starts(frame.select("cluster")).size == 1:  # (a group takes ten times as long)
        return seen.select(pl.col("cluster").first(), **ends)
    return seen.group_by("cluster").agg(**ends)


def other_formats(folder: Path, tables: Sequence[Table]) -> str:
    """Return a note on files that hold these tables in another format, or ""."""
    names = {t.name for t in tables}
    others = sorted(p.name for p in folder.iterdir() if p.suffix and p.name.split(".")[0] in names)
    return f" ({', '.join(others)} is not Parquet: convert it)" if others else ""
