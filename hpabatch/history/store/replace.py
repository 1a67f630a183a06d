"""Rows of a store that an import would mix with its own: found, and taken away in one commit.

An import has rows of some workloads, of each from its first to its last time (`spans`: cluster,
namespace, target, first and last in ms). What the store has of the same workloads in that time is
in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import replace

from hpabatch.errors import RefusedError
from hpabatch.history.columns import TIME
from hpabatch.history.provenance import GUESSED, ROWS, TABLE, TARGET_ROWS
from hpabatch.history.schema import TABLES
from hpabatch.history.store.catalog import FileEntry, Snapshot
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import Storage
from hpabatch.history.store.upkeep import merged_pieces
from hpabatch.history.store.writer import Partition, Piece, write_run
from hpabatch.model.printable import counted

BEGIN: Final = "begin"
"""The part by which an import says that it will write rows."""

_REPLACED: Final = "replaced-by"

SAMPLES: Final = ("pod_metrics", "pod_custom_metrics")
_OF_PODS: Final = {"pods": "created", "pod_states": "ts", "pod_requests": "valid_from"}
_BESIDE: Final = ("object_metrics", "external_metrics", "hpa_status", "metric_fetches")
_WORKLOAD: Final = ["cluster", "namespace", "target"]
_POD: Final = ["namespace", "target", "uid"]
_MS: Final = pl.Int64()
WAY: Final = pl.Schema(
    {
        **dict.fromkeys(_WORKLOAD, pl.String()),
        **dict.fromkeys(("rows", "first", "last"), _MS),
        "imports": pl.List(pl.String()),
    }
)
"""Columns of what is in the way of an import: see `rows_in_the_way`."""
_FIRST_RUN: Final = 1 << 20  # apart from the runs that the commit adds itself


def replaced_mark(name: str, other: str) -> str:
    """Return the name of the part that says of an import that another one takes its place."""
    return f"{name}/{_REPLACED}/{other}"


def replaced_imports(parts: Collection[str]) -> set[str]:
    """Return the imports whose place another one took, from the names of a store's parts.

    A mark comes before the other import's first commit, and counts only from that one on: so an
    import that was killed in between has replaced nothing.
    """
    marks = (part.partition(f"/{_REPLACED}/") for part in parts)
    return {name for name, _, other in marks if other and f"{other}/{BEGIN}" in parts}


def rows_in_the_way(history: StoreHistory, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the workloads of which a store has samples or sizes in the same time, sorted.

    Columns: cluster, namespace, target; rows: number of samples; first and last: their times in ms;
    imports: names of the imports that wrote them, as far as they are known.
    """
    found = [_told(history, spans)]
    for table in SAMPLES:
        for cluster, day, places in _days(history, table, spans):
            columns = ["cluster", "namespace", "target", "ts"]
            rows = history.select(table, cluster, places, day=day, columns=columns)
            found.append(_within(rows.with_columns(pl.col("ts").to_physical()), spans))
    together = pl.concat(found).group_by(_WORKLOAD).agg(
        pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max(),
        imports=pl.col("import").drop_nulls().unique().sort(),
    )  # fmt: skip
    return together.sort(_WORKLOAD).select(WAY.names()).cast(WAY)


def _told(history: StoreHistory, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the workloads of which another import says that it has rows in that time.

    It may have said so a moment ago, and have written none yet; or all of them are of 0 replicas.
    """
    rows = history.read(TABLE, optional=True).filter(
        (pl.col("subject") == TARGET_ROWS) & (pl.col("method") == ROWS)
    )
    times = pl.col("valid_from").to_physical(), pl.col("valid_to").to_physical() - 1
    others = rows.select(
        "cluster",
        "namespace",
        pl.col("name").alias("target"),
        pl.col("detail").alias("import"),
        since=times[0],
        until=times[1],
    )
    both = others.join(spans, on=_WORKLOAD).filter(
        (pl.col("since") <= pl.col("last")) & (pl.col("until") >= pl.col("first"))
    )
    return both.select(
        *_WORKLOAD,
        pl.lit(0, _MS).alias("rows"),
        pl.max_horizontal("since", "first").alias("first"),
        pl.min_horizontal("until", "last").alias("last"),
        "import",
    )


def _within(rows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return how many rows of each workload are in its span, and the first and last of them."""
    inside = rows.join(spans, on=_WORKLOAD).filter(
        pl.col("ts").is_between(pl.col("first"), pl.col("last"))
    )
    return inside.group_by(_WORKLOAD).agg(
        pl.len().cast(_MS).alias("rows"),
        pl.col("ts").min().alias("first"),
        pl.col("ts").max().alias("last"),
        pl.lit(None, pl.String()).alias("import"),
    )


def _days(
    history: StoreHistory, table: str, spans: pl.DataFrame, *, all_days: bool = False
) -> Iterator[tuple[str, date | None, list[tuple[str, str | None]]]]:
    """Yield the places of the spans on the days on which they have rows, by cluster and day."""
    sizes = history.sizes(table).rename({"place": "target"}).join(spans, on=_WORKLOAD)
    if not all_days:
        since, until = (pl.col(name).cast(TIME).dt.date() for name in ("first", "last"))
        sizes = sizes.filter(pl.col("day").is_between(since, until))
    groups = sizes.group_by("cluster", "day").agg("namespace", "target").sort("cluster", "day")
    for cluster, day, namespaces, targets in groups.iter_rows():
        yield cluster, day, list(zip(namespaces, targets, strict=True))


@dataclass(frozen=True, slots=True)
class Removal:
    """Files of a store without some rows, and the paths of those that they replace."""

    add: tuple[FileEntry, ...]
    remove: tuple[str, ...]


def without_rows(
    storage: Storage,
    snapshot: Snapshot,
    spans: pl.DataFrame,
    folder: Path,
    *,
    every_table: bool = False,
) -> Removal:
    """Write what is left of a store without the rows in the way of `spans`.

    Pods that were sampled only in that time go with their states and requests; those of before end
    there, those of later begin after it. `every_table`: statuses, fetches and samples of objects go
    too, those of the workloads' namespaces in the whole time of their spans.

    Raises:
        RefusedError: a pod was sampled before that time and after it: its life cannot be cut.
    """
    history = StoreHistory(storage, snapshot)
    add: list[FileEntry] = []
    remove: list[str] = []
    for (cluster,), theirs in spans.group_by(["cluster"], maintain_order=True):
        cut = _Cut(history, str(cluster), theirs)
        for table in (*SAMPLES, *_OF_PODS, "scales", TABLE, *(_BESIDE if every_table else ())):
            for day, files in snapshot.partitions.get(table, {}).get(str(cluster), {}).items():
                if not any(cut.has(table, place) for file in files for place in file.spans):
                    continue
                partition = Partition(TABLES[table], str(cluster), day)
                pieces = cut.pieces(partition, merged_pieces(history, partition, files))
                written = write_run(pieces, partition, len(add), storage, folder)
                run = add[-1].run + 1 if add else _FIRST_RUN
                add += [replace(file, run=run) for file in written]
                remove += [file.path for file in files]
    kept = {file.path for file in add}
    return Removal(tuple(add), tuple(path for path in remove if path not in kept))


class _Cut:
    """What is left of a cluster's workloads; `fates` has a row per pod of theirs."""

    def __init__(self, history: StoreHistory, cluster: str, spans: pl.DataFrame) -> None:
        self.spans = spans.drop("cluster")
        self.places = set(self.spans.select("namespace", "target").rows())
        self.namespaces = set(self.spans["namespace"])
        seen = [pl.DataFrame(schema={**dict.fromkeys(_POD, pl.String()), **_SIDES})]
        for table in SAMPLES:
            for _, day, places in _days(history, table, spans, all_days=True):
                rows = history.select(table, cluster, places, day=day, columns=[*_POD, "ts"])
                seen.append(self._sides(rows))
        sides = pl.concat(seen).group_by(_POD).agg(pl.col(list(_SIDES)).any())
        both = sides.filter("before", "after")
        if both.height:
            namespace, target, _ = both.sort(_POD).row(0)[:3]
            raise RefusedError(
                f"{namespace}/{target} has pods in the store that were there before these rows and "
                "after them, so that the time between cannot be replaced alone: import all of the "
                "workload's time, and replace that; nothing is written"
            )
        open_ends = sides.group_by("namespace", "target").agg(pl.col(list(_SIDES)).any())
        known_sides = [pl.col(name).fill_null(value=False) for name in _SIDES]
        self.spans = self.spans.join(open_ends, on=_POD[:2], how="left").with_columns(known_sides)
        pods = history.select("pods", cluster, self.places, columns=[*_POD, "created"])
        known = pods.join(self.spans, on=["namespace", "target"])
        known = known.with_columns(pl.col("created").to_physical(), apart=_outside("created"))
        known = known.drop(list(_SIDES)).join(sides, on=_POD, how="left")
        self.fates = known.select(
            *_POD,
            fate=pl.when("before")
            .then(pl.lit("ends"))
            .when("after")
            .then(pl.lit("begins"))
            .when(pl.col("before").is_null() & pl.col("apart"))
            .then(pl.lit("stays"))
            .otherwise(pl.lit("goes")),
        )

    def _sides(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return per pod whether it was sampled before its workload's span, and after it."""
        timed = rows.with_columns(pl.col("ts").to_physical()).join(
            self.spans, on=["namespace", "target"]
        )
        return timed.group_by(_POD).agg(
            (pl.col("ts") < pl.col("first")).any().alias("before"),
            (pl.col("ts") > pl.col("last")).any().alias("after"),
        )

    def has(self, table: str, place: tuple[str | None, str | None]) -> bool:
        """Whether rows of a table's place may go."""
        return place[0] in self.namespaces if table in _BESIDE else place in self.places

    def pieces(self, partition: Partition, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield what is left of each place."""
        for place, frame in pieces:
            left = frame
            if self.has(partition.spec.name, place):
                left = self._left(partition.spec.name, frame).sort(partition.spec.key)
            if left.height:
                yield place, left.select(frame.columns).cast(frame.schema)

    def _left(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        if table in _BESIDE:
            first, last = self.spans["first"].min(), self.spans["last"].max()
            return frame.filter(~_ms("ts").is_between(pl.lit(first), pl.lit(last)))
        if table == TABLE:
            named = self.spans.rename({"target": "name"})
            return _told_before(frame.join(named, on=["namespace", "name"], how="left"))
        rows = frame.join(self.spans, on=["namespace", "target"], how="left", maintain_order="left")
        if table in SAMPLES:
            return rows.filter(~_ms("ts").is_between(pl.col("first"), pl.col("last")))
        if table == "scales":
            return _moved(rows, "ts", ["namespace", "target", "target_kind"])
        rows = rows.join(self.fates, on=_POD, how="left", maintain_order="left")
        fate = pl.col("fate").fill_null("stays")
        rows = rows.filter(fate != "goes")
        if table == "pods":
            return _cut_lives(rows)
        time = _OF_PODS[table]
        owner = [*_POD, *(n for n in ("kind", "index", "container") if n in frame.columns)]
        stays = rows.filter((fate == "stays") | ((fate == "ends") & (_ms(time) < pl.col("first"))))
        begins = rows.filter(fate == "begins")
        return pl.concat([stays, _later(begins, time, owner)])


_SIDES: Final[dict[str, pl.DataType]] = {"before": pl.Boolean(), "after": pl.Boolean()}


def _ms(name: str) -> pl.Expr:
    return pl.col(name).to_physical()


def _outside(time: str) -> pl.Expr:
    """Whether a time is outside of a workload's span, which is open where nothing is beyond it."""
    earlier = pl.col("before") & (_ms(time) < pl.col("first"))
    return earlier | (pl.col("after") & (_ms(time) > pl.col("last")))


def _moved(rows: pl.DataFrame, time: str, owner: Sequence[str]) -> pl.DataFrame:
    """Return changes without those of the span; what held at its end begins after it."""
    earlier = rows.filter(pl.col("before") & (_ms(time) < pl.col("first")))
    return pl.concat([earlier, _later(rows.filter("after"), time, owner)])


def _later(rows: pl.DataFrame, time: str, owner: Sequence[str]) -> pl.DataFrame:
    """Return changes after the span; the last one until its end as of then."""
    after = _ms(time) > pl.col("last")
    held = rows.filter(~after).sort(time).unique(list(owner), keep="last", maintain_order=True)
    held = held.with_columns((pl.col("last") + 1).cast(TIME).alias(time))
    # (one that really changed then comes later in the list, and counts)
    both = pl.concat([held, rows.filter(after)])
    return both.unique([*owner, time], keep="last", maintain_order=True)


def _told_before(rows: pl.DataFrame) -> pl.DataFrame:
    """Return provenance, in which no import says of the span that it has rows or guesses there."""
    own = (pl.col("subject") == TARGET_ROWS) & (pl.col("method") == ROWS)
    own |= pl.col("method") == GUESSED
    first, after = pl.col("first").cast(TIME), (pl.col("last") + 1).cast(TIME)
    until = pl.col("valid_to").fill_null(after)
    told = rows.filter(own)
    earlier = told.filter(pl.col("valid_from") < first).with_columns(
        valid_to=pl.min_horizontal(until, first)
    )
    later = told.filter(until > after).with_columns(
        valid_from=pl.max_horizontal("valid_from", after)
    )
    return pl.concat([rows.filter(~own), earlier, later])


def _cut_lives(rows: pl.DataFrame) -> pl.DataFrame:
    """Return pods that end with the begin of the span, or begin after its end."""
    fate, after = pl.col("fate").fill_null("stays"), (pl.col("last") + 1).cast(TIME)
    gone = pl.min_horizontal("gone", pl.col("first").cast(TIME))
    begun = [
        pl.when(fate == "begins").then(pl.max_horizontal(name, after)).otherwise(name).alias(name)
        for name in ("created", "started")
    ]
    return rows.with_columns(pl.when(fate == "ends").then(gone).otherwise("gone"), *begun)


def refuse_rows_in_the_way(history: StoreHistory, found: pl.DataFrame) -> None:
    """Refuse to mix an import with what `rows_in_the_way` found, if anything (RefusedError)."""
    if found.is_empty():
        return
    rows = found.select(_WORKLOAD).unique(maintain_order=True).rows()
    names = ["/".join(filter(None, row[1:])) for row in rows]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    ends = [int(found["first"].min()), int(found["last"].max())]  # type: ignore[arg-type]
    first, last = (f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}" for ms in ends)
    count = int(found["rows"].sum())
    # Samples of the first part of an import come a little after its claim.
    what = counted(count, "sample") if count else "an import"
    raise RefusedError(
        f"{history.location} has other rows of the same workloads: {what} of "
        f"{', '.join(names[:3])}{more} from {first} to {last}; nothing is written: name another "
        "store, or replace them with --replace"
    )


def refuse_uncut_lives(history: StoreHistory, spans: pl.DataFrame) -> None:
    """Refuse what `without_rows` would refuse, before anything is written (RefusedError)."""
    for (cluster,), theirs in spans.group_by(["cluster"], maintain_order=True):
        _Cut(history, str(cluster), theirs)
