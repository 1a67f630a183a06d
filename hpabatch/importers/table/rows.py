"""Rows of a table with the history's names and units, and reasons for dropped rows.

The result ("clean rows") has: cluster, namespace, kind, target; at pod level also pod, uid (""
where there is none) and container; ts (ms); then, as far as the map has them, cpu (milli), memory
(bytes) and `m.<metric>` (milli), not yet rounded; replicas, ready; `requests.cpu` and
so on (milli); and seq, the position in the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.checks import BROKEN, YEAR_2000_MS, YEAR_2100_MS, first_line
from hpabatch.history.columns import MEMORY_BYTES_MAX
from hpabatch.history.expressions.conditions import evaluate, quoted
from hpabatch.history.expressions.parser import compile_condition
from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.importers.common.rows import DURATION_MS, QUANTITY, TIME_PER_MS, quantities, whole
from hpabatch.importers.table.files import TableFile
from hpabatch.importers.table.map import MAX_REPLICAS, TIME_COLUMN, Level, TableMap
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.values import TEXT_TIME, Source, TimeSource
from hpabatch.inputs.document_kinds import quantity_milli
from hpabatch.inputs.documents import show
from hpabatch.model.printable import counted

MILLI_MAX = float(2**62)
POD_KEY = ("cluster", "namespace", "target", "pod", "uid", "container", "ts")
WORKLOAD_KEY = ("cluster", "namespace", "target", "ts")
KEY = "\0key"
"""Number of the key of a row (without ts) in a group: no column of a table has such a name."""

UNKNOWN_POD = "pod of a workload that the objects do not have (--objects)"

FRACTION = "replicas is not a whole number (of means over time, say rounding: {replicas: nearest})"

METRIC = "m."
"""Prefix of the column of a custom metric."""

# No column of a table has such a name.
_NO_TIME = "\0time"
_SAID = "\0said"
_ROW = "\0row"
_SEQ_BITS = 40
_UNREAD_TIME = "no such time"
_RANKS = 2**62
_TRUE = ["true", "t", "1", "yes", "ready"]
_FALSE = ["false", "f", "0", "no", "notready"]
_COMMA = r"^\s*[-+]?\d+,\d+\s*$"


@dataclass(slots=True)
class Tally:
    """Counts of rows: read, `dropped` by reason, `excluded` by `where` or as of other metrics.

    `metrics`: rows of a long table by metric. `first`: of each reason the position (seq) and the
    place of the first dropped row.
    """

    read: int = 0
    excluded: int = 0
    dropped: dict[str, int] = field(default_factory=Counter)
    metrics: dict[str, int] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the counts of another piece."""
        self.read += other.read
        self.excluded += other.excluded
        self.dropped.update(other.dropped)
        self.metrics.update(other.metrics)
        for reason, found in other.first.items():
            self.first[reason] = min(self.first.get(reason, found), found)

    def places(self) -> dict[str, str]:
        """Return by reason where the first dropped row is."""
        return {reason: place for reason, (_, place) in self.first.items()}


def dropped_lines(counts: Mapping[str, int], places: Mapping[str, str]) -> list[str]:
    """Return a line for each reason for which rows were dropped: how many, and the first."""
    lines = []
    for reason, count in counts.items():
        place = f" (the first is {places[reason]})" if reason in places else ""
        lines.append(f"{counted(count, 'row')}: {reason}{place}")
    return lines


def clean_schema(table: TableMap) -> dict[str, pl.DataType]:
    """Return names and types of the clean rows of a map."""
    names: dict[str, pl.DataType] = dict.fromkeys(
        ("cluster", "namespace", "kind", "target"), pl.String()
    )
    if table.level is Level.pod:
        names |= dict.fromkeys(("pod", "uid", "container"), pl.String())
    names["ts"] = pl.Int64()
    names |= {name: pl.Float64() for name in amounts(table)}
    if table.replicas is not None:
        names["replicas"] = pl.Int64()
    if table.ready is not None:
        names["ready"] = pl.Boolean()
    names["seq"] = pl.Int64()
    return names


def amounts(table: TableMap) -> dict[str, Source]:
    """Return the sources of all amounts by the name of their clean column."""
    found = {"cpu": table.cpu, "memory": table.memory}
    found |= {METRIC + name: source for name, source in table.metrics.items()}
    for kind, listed in (("requests", table.requests), ("limits", table.limits)):
        found |= {f"{kind}.{resource}": amount.source for resource, amount in listed.items()}
    return {name: source for name, source in found.items() if source is not None}


def usage_names(table: TableMap) -> list[str]:
    """Return the clean columns that hold usage: cpu, memory and custom metrics."""
    return [name for name in amounts(table) if "." not in name or name.startswith(METRIC)]


def key_rank(rows: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Return numbers (UInt64) that are equal, and ordered, as the rows' keys of strings are.

    To sort by a number takes a fraction of what strings take.
    """
    rank = pl.repeat(0, rows.height, dtype=pl.UInt64(), eager=True)
    size = 1
    for name in names:
        # Most columns have one value: to compare takes a tenth of what to count values does.
        if not rows.height or (rows[name] == rows[name][0]).all():
            continue
        values = rows[name].unique().sort()
        if size * len(values) >= _RANKS:
            rank = rank.rank("dense").cast(pl.UInt64) - 1
            size = rank.n_unique()
        number = rows[name].cast(pl.Enum(values)).to_physical()
        rank = rank * len(values) + number.cast(pl.UInt64)
        size *= len(values)
    return rank


def clean_rows(
    raw: pl.DataFrame, first: int, file: TableFile, table: TableMap
) -> tuple[pl.DataFrame, Tally]:
    """Return the clean rows of a piece of a file whose first row has the number `first`.

    Raises:
        HistoryError: a column is of a type that cannot hold what the map says, the unit or zone of
            the time is not said, decimals have commas, or an expression fails.
    """
    tally = Tally(read=raw.height)
    piece = _Piece(raw.with_row_index(_ROW), table, str(file.path))
    times = piece.evaluate(table.time.source, "columns.time")
    raw = piece.raw.with_columns(
        times.is_null().alias(_NO_TIME),
        times.alias(_SAID),
        time_ms(times, table.time, piece.where).alias(TIME_COLUMN),
    )
    if table.where is not None:
        kept = piece.filter(raw, table.where)
        tally.excluded = raw.height - kept.height
        raw = kept
    if table.pivot is not None:
        names = raw[table.pivot.name].cast(pl.String).drop_nulls().alias("")
        tally.metrics.update(dict(names.value_counts(name="rows").rows()))
        kept = table.pivot.apply(raw, table.pivot.metrics(table.value_columns(), raw.columns))
        tally.excluded += raw.height - kept.height
        raw = kept
    piece = _Piece(raw, table, piece.where)
    piece.collect()
    seq = raw[_ROW].cast(pl.Int64) + first + (file.number << _SEQ_BITS)
    frame = pl.DataFrame([*piece.columns, seq.alias("seq")])
    kept = _without_faults(frame, piece, tally, file.path.name)
    return kept.select(list(clean_schema(table))), tally


def _without_faults(frame: pl.DataFrame, piece: _Piece, tally: Tally, name: str) -> pl.DataFrame:
    """Return the rows that fail no check; `tally` counts the others by the first one they fail.

    `name` is that of the file.
    """
    checks = piece.checks
    failed = frame.select(bad.any().alias(str(k)) for k, (_, bad) in enumerate(checks)).row(0)
    found = [check for check, any_row in zip(checks, failed, strict=True) if any_row]
    if not found:
        return frame  # (as most pieces are)
    reason = frame.select(
        pl.coalesce([pl.when(bad).then(pl.lit(text)) for text, bad in found])
    ).to_series()
    counts = reason.drop_nulls().value_counts(name="rows")
    tally.dropped.update(dict(counts.rows()))
    for text in counts[reason.name].to_list():
        row = (reason == text).arg_max() or 0
        seq = frame["seq"][row]
        place = f"row {(seq & ((1 << _SEQ_BITS) - 1)) + 1:,} of {name}"
        said = f": {show(str(piece.raw[_SAID][row]))}" if text == _UNREAD_TIME else ""
        tally.first[text] = seq, place + said
    return frame.filter(reason.is_null())


class _Piece:
    """A piece of a file: its clean columns, and what makes a row unfit (the first reason first).

    A column whose name begins with `!` says where there was something that could not be read.
    """

    def __init__(self, raw: pl.DataFrame, table: TableMap, where: str) -> None:
        self.raw = raw
        self.table = table
        self.where = where
        self.columns: list[pl.Series] = []
        self.checks: list[tuple[str, pl.Expr]] = []

    def collect(self) -> None:
        """Fill `columns` and `checks`."""
        ts = pl.col("ts")
        self.columns = [self.raw[TIME_COLUMN].alias("ts"), self.raw[_NO_TIME]]
        self.checks = [
            ("no time", pl.col(_NO_TIME)),
            (_UNREAD_TIME, ts.is_null()),
            ("time before 2000 or after 2100", ~ts.is_between(YEAR_2000_MS, YEAR_2100_MS - 1)),
        ]
        self._add_texts()
        self._add_amounts()
        if self.table.replicas is not None:
            self._add_replicas(self.table.replicas)
        if self.table.ready is not None:
            self._add_ready(self.table.ready)
        # A row of a long table may have a request alone.
        names = usage_names(self.table) if self.table.pivot is None else [*amounts(self.table)]
        names += ["replicas"] if self.table.replicas else []
        empty = pl.all_horizontal([pl.col(name).is_null() for name in names])
        self.checks.append(("no value", empty))

    def _add(self, column: pl.Series, name: str, bad: pl.Series, reason: str) -> None:
        self.columns += [column.alias(name), bad.alias(f"!{name}")]
        self.checks.append((reason, pl.col(f"!{name}")))

    def _add_texts(self) -> None:
        for name, source in self.table.texts.items():
            column = "target" if name == "workload" else name
            text = self._text(source, f"columns.{name}").alias(column)
            if name == "uid":
                text = text.fill_null("")
            else:
                self.checks.append((f"no {name}", pl.col(column).is_null() | (text == "")))
            self.columns.append(text)
        if self.table.beside is not None:
            self._add_names(self.table.beside)
        if self.table.level is Level.pod and "uid" not in self.table.texts:
            self.columns.append(pl.repeat("", self.raw.height, dtype=pl.String(), eager=True))
            self.columns[-1] = self.columns[-1].alias("uid")

    def _add_names(self, beside: Beside) -> None:
        """Add what the objects say of workloads, kinds and containers that the map leaves out."""
        names = ("namespace", "pod", "target", "kind")
        known = pl.DataFrame([column for column in self.columns if column.name in names])
        pods = self.table.level is Level.pod
        found = beside.names(known, container=pods and self.table.whole_pods)
        wanted = ("target", "kind", "container") if pods else ("target", "kind")
        there = {column.name for column in self.columns}
        self.columns += [found[name] for name in wanted if name not in there]
        if "workload" not in self.table.texts:
            self.checks.append((UNKNOWN_POD, pl.col("target").is_null()))

    def _add_amounts(self) -> None:
        for name, source in amounts(self.table).items():
            amount, bad = self._amount(source, name)
            told = name.removeprefix(METRIC)
            self._add(amount, name, bad, f"{told} is not a number")
            limit = float(MEMORY_BYTES_MAX) if name == "memory" else MILLI_MAX
            self.checks.append((f"{told} is impossibly large", pl.col(name).abs() > limit))
            if not name.startswith(METRIC):
                self.checks.append((f"{told} is negative", pl.col(name) < 0))

    def _add_replicas(self, source: Source) -> None:
        number, bad = self._number(source, "columns.replicas")
        number = number.clip(-1, MAX_REPLICAS + 1)  # (whole numbers that 64 bits have)
        rounding = self.table.rounding
        if rounding is not None:
            number = pl.select(whole(pl.lit(number), rounding).cast(pl.Float64)).to_series()
        self._add(number.cast(pl.Int64, strict=False), "replicas", bad, "replicas is not a number")
        fraction = (number != number.floor()).alias("!!replicas")
        self.columns.append(fraction)
        self.checks.append((FRACTION, pl.col(fraction.name)))
        outside = (pl.col("replicas") < 0) | (pl.col("replicas") > MAX_REPLICAS)
        self.checks.append((f"replicas below 0 or above {MAX_REPLICAS}", outside))

    def _add_ready(self, source: Source) -> None:
        text = self._text(source, "columns.ready").str.to_lowercase()
        known = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
        ready = text.replace_strict(
            list(known), list(known.values()), default=None, return_dtype=pl.Boolean
        )
        bad = ready.is_null() & text.is_not_null()
        self._add(ready, "ready", bad, "ready is neither true nor false")

    def evaluate(self, source: Source, place: str) -> pl.Series:
        """Return a source's raw values, one per row."""
        try:
            expression = source.expression(self.raw.schema)
            return evaluate(self.raw, expression)
        except (ExpressionError, *BROKEN) as error:
            told = f"{self.where}: {place}: sql {quoted(source.sql or '')}"
            raise HistoryError(f"{told}: {_reason(error)}") from None

    def filter(self, raw: pl.DataFrame, condition: str) -> pl.DataFrame:
        """Return the rows for which the map's `where` is true."""
        try:
            return raw.filter(evaluate(raw, compile_condition(condition, raw.schema)))
        except (ExpressionError, *BROKEN) as error:
            told = f"{self.where}: where {quoted(condition)}"
            raise HistoryError(f"{told}: {_reason(error)}") from None

    def _text(self, source: Source, place: str) -> pl.Series:
        found = self.evaluate(source, place)
        if found.dtype.is_nested() or found.dtype == pl.Binary():
            told = f"{place}: {source.describe()}"
            raise HistoryError(f"{self.where}: {told} is {found.dtype}, no text")
        constant = source.value is not None and len(found) > 0
        texts = (found.head(1) if constant else found).cast(pl.String).str.strip_chars()
        if source.pattern is not None:
            texts = texts.str.extract(source.pattern, 1)
        return texts.new_from_index(0, len(found)) if constant else texts

    def _amount(self, source: Source, name: str) -> tuple[pl.Series, pl.Series]:
        """Return an amount in the history's unit and where there was something else."""
        place = name.replace(METRIC, "columns.metrics.") if name.startswith(METRIC) else name
        if source.unit != QUANTITY and source.value is None:
            number, bad = self._number(source, place)
            return number * source.factor, bad
        texts = self._text(source, place)
        if source.value is None:
            texts = quantities(texts, self.table.format.decimal)
        milli = {text: quantity_milli(text) for text in texts.drop_nulls().unique()}
        fits = {text: float(value) for text, value in milli.items() if isinstance(value, int)}
        amount = texts.replace_strict(
            list(fits), list(fits.values()), default=None, return_dtype=pl.Float64
        )
        bad = amount.is_null() & texts.is_not_null()
        return amount / 1000 if name == "memory" else amount, bad

    def _number(self, source: Source, place: str) -> tuple[pl.Series, pl.Series]:
        """Return numbers (Float64; NaN is null) and where there was something else."""
        found = self.evaluate(source, place)
        told = f"{self.where}: {place}: {source.describe()}"
        bad = pl.repeat(value=False, n=self.raw.height, dtype=pl.Boolean(), eager=True)
        if found.dtype == pl.String():
            text = found.str.strip_chars()
            if self.table.format.decimal == ",":
                text = text.str.replace(",", ".", literal=True)
            number = text.cast(pl.Float64, strict=False)
            bad = number.is_null() & text.is_not_null() & (text != "")
            commas = text.filter(bad & text.str.contains(_COMMA))
            if len(commas):
                raise HistoryError(
                    f"{told} has decimal commas ({commas[0]!r}): say `decimal: comma` in the "
                    "map's `format`"
                )
        elif found.dtype.is_numeric() or found.dtype == pl.Null():
            number = found.cast(pl.Float64)
        else:
            raise HistoryError(f"{told} is {found.dtype}, no number")
        infinite = number.is_infinite()
        return number.fill_nan(None), (bad | infinite).fill_null(value=False)


def _reason(error: BaseException) -> str:
    """Return a reason in one line; that a CSV's columns are strings surprises in comparisons."""
    line = str(error) if isinstance(error, ExpressionError) else first_line(error)
    if "CAST(x AS DOUBLE)" not in line:
        return line
    return f"{line} (columns of a CSV are strings; the time is {TIME_COLUMN})"


_RFC3339 = (
    r"^\s*(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,9})\d*)?"
    r"\s*([Zz]|UTC|[+-](?:[01]\d|2[0-3]):?(?:[0-5]\d)?)?\s*$"
)
_OFFSET = r"^([+-])(\d{2}):?(\d{2})?$"
_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
# The years 1678 to 2261, which 64 bits can count in every unit.
_FIRST_MS, _LAST_MS = -9_214_560_000_000, 9_214_646_400_000


def time_ms(raw: pl.Series, source: TimeSource, where: str) -> pl.Series:
    """Return ms since 1970 (Int64), null where a value is null or no time.

    A time that is finer than a millisecond is cut off, one that does not exist in its zone is null.

    Raises:
        HistoryError: the column cannot hold such times, or its times need a zone or a unit.
    """
    at = f"{where}: column of columns.time"
    if isinstance(raw.dtype, pl.Datetime):
        if source.unit in TIME_PER_MS or source.unit == TEXT_TIME:
            raise HistoryError(f"{at} holds times already: drop columns.time.unit {source.unit!r}")
        if raw.dtype.time_zone is None:
            return _in_zone(raw, source, at)
        return raw.to_physical() // _MILLI[raw.dtype.time_unit]
    if raw.dtype == pl.String():
        # A time stands in a row of each pod, and its text takes longer to read than all the rest.
        texts = raw.drop_nulls().unique(maintain_order=True)
        if len(texts) < len(raw) // 2:
            times = time_ms(texts, source, where)
            return raw.replace_strict(texts, times, default=None, return_dtype=pl.Int64)
    if raw.dtype == pl.Date():
        raise HistoryError(f"{at} holds days without a time of day: name another column")
    if source.start_ms is not None:
        return _of_numbers(raw, 1 / DURATION_MS[source.unit], at) + source.start_ms
    if source.unit in TIME_PER_MS:
        return _of_numbers(raw, TIME_PER_MS[source.unit], at)
    if raw.dtype.is_numeric():
        raise HistoryError(
            f"{at} holds numbers such as {raw.drop_nulls()[:1].to_list()}: say columns.time.unit "
            "(s, ms, us or ns)"
        )
    if isinstance(raw.dtype, pl.Categorical | pl.Enum):
        raw = raw.cast(pl.String)
    if raw.dtype == pl.Null():
        return raw.cast(pl.Int64)
    if raw.dtype != pl.String():
        raise HistoryError(f"{at} is {raw.dtype}, which is no time")
    if source.format is not None:
        return _by_format(raw, source, at)
    return _of_texts(raw, source, at)


def _of_numbers(raw: pl.Series, per_ms: float, at: str) -> pl.Series:
    if raw.dtype == pl.String():
        whole = raw.str.strip_chars().cast(pl.Int64, strict=False)
        fractions = raw.str.strip_chars().cast(pl.Float64, strict=False)
        return _scaled(whole, per_ms).fill_null(_scaled(fractions, per_ms))
    if not raw.dtype.is_numeric() and raw.dtype != pl.Null():
        raise HistoryError(f"{at} is {raw.dtype}; expected numbers, by columns.time.unit")
    return _scaled(raw, per_ms)


def _scaled(raw: pl.Series, per_ms: float) -> pl.Series:
    """Return numbers as ms; whole numbers stay exact, what overflows is null."""
    if raw.dtype.is_integer():
        whole = raw.cast(pl.Int64, strict=False)
        if per_ms >= 1:
            return whole // round(per_ms)
        factor = round(1 / per_ms)
        inside = pl.select(pl.when(whole.abs() < 2**62 // factor).then(whole)).to_series()
        return inside * factor
    ms = raw.cast(pl.Float64, strict=False) / per_ms
    # Seconds with three decimals are not exact in binary: the nearest ms is meant.
    return ms.round(0).cast(pl.Int64, strict=False)


def _of_texts(raw: pl.Series, source: TimeSource, at: str) -> pl.Series:
    """Return RFC 3339 texts (a blank for the T will do) as ms; each may have its own offset."""
    frame = raw.alias("raw").to_frame()
    names = ["1", "2", "3", "4"]
    parts = frame.select(
        pl.col("raw").str.extract(_RFC3339, k + 1).alias(name) for k, name in enumerate(names)
    )
    clock = pl.when(pl.col("2").str.len_chars() == 5).then(pl.col("2") + ":00").otherwise("2")
    local = (pl.col("1") + " " + clock).str.strptime(
        pl.Datetime("ms"), "%Y-%m-%d %H:%M:%S", strict=False
    )
    fraction = (pl.col("3") + "00").str.slice(0, 3).cast(pl.Int64, strict=False).fill_null(0)
    offset = pl.col("4")
    minutes = offset.str.extract(_OFFSET, 2).cast(pl.Int64) * 60 + (
        offset.str.extract(_OFFSET, 3).cast(pl.Int64).fill_null(0)
    )
    sign = pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
    found = parts.select(
        local=local,
        fraction=fraction,
        shift=pl.when(offset.is_null()).then(None).otherwise((minutes * sign).fill_null(0)),
        naive=offset.is_null() & local.is_not_null(),
    )
    local_ms = found["local"].to_physical()
    if not found["naive"].any():
        return local_ms + found["fraction"] - found["shift"] * 60_000
    in_zone = _in_zone(found["local"].set(~found["naive"], None), source, at)
    both = pl.DataFrame(
        {"a": local_ms - found["shift"] * 60_000, "b": in_zone, "n": found["naive"]}
    )
    return both.select(pl.when("n").then("b").otherwise("a")).to_series() + found["fraction"]


def _by_format(raw: pl.Series, source: TimeSource, at: str) -> pl.Series:
    assert source.format is not None
    try:
        parsed = raw.str.strip_chars().str.to_datetime(
            source.format, time_unit="ms", strict=False, exact=True
        )
    except pl.exceptions.PolarsError as error:
        told = f"{at}: columns.time.format {source.format!r}"
        raise HistoryError(f"{told}: {first_line(error)}") from None
    assert isinstance(parsed.dtype, pl.Datetime)
    if parsed.dtype.time_zone is not None:
        return parsed.to_physical()
    return _in_zone(parsed, source, at)


def _in_zone(local: pl.Series, source: TimeSource, at: str) -> pl.Series:
    """Return naive times as ms by the map's zone."""
    assert isinstance(local.dtype, pl.Datetime)
    # Times that no calendar has make polars and Python fail.
    per_ms = _MILLI[local.dtype.time_unit]
    inside = local.to_physical().is_between(_FIRST_MS * per_ms, _LAST_MS * per_ms)
    naive = local.set(~inside.fill_null(value=True), None)
    if source.zone is None:
        raise HistoryError(
            f"{at}: expected times with a zone, got {naive.drop_nulls().first()!s}; add the "
            "zone to the map: time: {column: NAME, zone: UTC} (or Europe/Berlin)"
        )
    zoned = naive.dt.replace_time_zone(source.zone, ambiguous="null", non_existent="null")
    return zoned.to_physical() // per_ms
