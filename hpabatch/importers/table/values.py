"""Sources of values in a map file: columns, expressions, constants, lists."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from hpabatch.history.expressions.conditions import quoted
from hpabatch.history.expressions.parser import columns, compile_expression
from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.expressions.typed import Schema, pattern_fault
from hpabatch.history.polars_errors import BROKEN
from hpabatch.importers.common.rows import DURATION_MS, QUANTITY, TIME_PER_MS
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key, MapOf, Record, Scalar, WrongValueError
from hpabatch.inputs.documents import Mistakes, Place, read_document, show
from hpabatch.model.printable import counted
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import parse_date_ms

AMBIGUOUS = ("earliest", "latest", "drop")
TEXT_TIME = "text"
SHARED = ("Object", "External")
"""Types of metrics whose values are no pod's."""


@dataclass(frozen=True, slots=True)
class Source:
    """One value per row: exactly one of `column`, `sql` and `value` (a constant) is set.

    `factor` turns a number into the history's unit; `pattern` takes a part of a text (its first
    group); `statistic` says what a workload's usage is over its pods: mean, sum or max. A metric
    that is not the pods' has a `kind`, External or Object, that object as KIND/NAME, and the
    `selector` by which HPAs name its series.
    """

    column: str | None = None
    sql: str | None = None
    value: str | int | float | None = None
    unit: str = ""
    factor: float = 1.0
    pattern: str | None = None
    statistic: str = ""
    kind: str = ""
    object: str = ""
    selector: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        if self.column is not None:
            return (self.column,)
        return columns(self.sql) if self.sql is not None else ()

    def expression(self, schema: Schema) -> pl.Expr:
        """Return the raw value as an expression on the table's columns.

        Raises:
            ExpressionError: `sql` is not an expression on columns of these types.
        """
        if self.column is not None:
            return pl.col(self.column)
        if self.sql is not None:
            return compile_expression(self.sql, schema)
        return pl.lit(self.value)

    def describe(self) -> str:
        """Return a description for people."""
        if self.column is None and self.sql is None:
            return f"always {self.value!r}"
        told = f"column {self.column}" if self.column is not None else f"sql {self.sql}"
        if self.unit:
            told += f" in {self.unit}"
        if self.pattern:
            told += f", the part that matches {self.pattern}"
        if self.kind:
            return f"{self.kind} {self.object}".strip() + f": {told}"
        return f"{self.statistic} over the pods: {told}" if self.statistic else told


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The time of a row. `unit`: s, ms, us, ns (numbers), text, or "" (by the column's type).

    With `start_ms`, numbers (also of m and h) count from that time on, in ms since 1970.
    """

    source: Source
    unit: str = ""
    zone: str | None = None
    format: str | None = None
    ambiguous: str = "drop"
    start_ms: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return self.source.columns


@dataclass(frozen=True, slots=True)
class Amount:
    """A request or limit in thousandths: a constant, a share of the limit, a source, or a list.

    `listed` is keyed by `workload`, `namespace/workload` or `namespace/workload/container`; the
    most exact key counts, `constant` is for what is not listed.
    """

    constant: int | None = None
    share: float | None = None
    source: Source | None = None
    listed: Mapping[str, int] = field(default_factory=dict)

    def describe(self, unit: str) -> str:
        """Return a description for people."""
        if self.share is not None:
            return f"{self.share:g} of the limit"
        if self.source is not None:
            return self.source.describe()
        listed = f"listed for {counted(len(self.listed), 'workload')}" if self.listed else ""
        constant = "" if self.constant is None else f"{self.constant / 1000:,.15g} {unit}"
        return ", else ".join(text for text in (listed, constant) if text)

    def named(self, namespace: str, workload: str, container: str) -> int | None:
        """Return the listed amount, None where there is none."""
        for key in (f"{namespace}/{workload}/{container}", f"{namespace}/{workload}", workload):
            if key in self.listed:
                return self.listed[key]
        return None


def _constant(value: object) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        fix = "put it in quotes" if isinstance(value, bool) else ""
        raise WrongValueError(f"expected a string or a number, got {show(value)}", fix)
    return value


def _amount(value: object) -> str | int | float:
    kinds.MILLI.parse(_constant(value))
    return _constant(value)


def _expression(text: str) -> str:
    try:
        columns(kinds.text().parse(text))
    except ExpressionError as error:
        raise ValueError(f"{quoted(text)} is not an expression: {error}") from None
    return text


def _pattern(text: str) -> str:
    """Return a regular expression with a group (ValueError: it is none)."""
    if (fault := pattern_fault(kinds.text().parse(text))) is not None:
        raise ValueError(f"{quoted(text)}: {fault}")
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"{quoted(text)}: expected a regular expression, got {error}") from None
    if groups < 1:
        raise ValueError(f"expected a group in (brackets), got none in {text!r}")
    return text


def _described(text: str) -> str:
    if not re.fullmatch(r"[^/]+/[^/]+", kinds.text().parse(text)):
        raise ValueError(f"expected KIND/NAME such as Ingress/web, got {text!r}")
    return text


EXPRESSION: Final = Scalar("an expression", _expression)
_AMOUNT: Final = Scalar(kinds.MILLI.wants, _amount)
_COLUMN_KEYS: Final = (
    Key("column", kinds.text(), field="column"),
    Key("sql", EXPRESSION, field="sql"),
)
_VALUE: Final = Key("value", Scalar("a string or a number", _constant), field="value")
_METRIC_KEYS: Final = (
    Key("type", kinds.choice({"Pods": "", **dict(zip(SHARED, SHARED, strict=True))}), field="kind"),
    Key("object", Scalar("KIND/NAME such as Ingress/web", _described), field="object"),
    Key("selector", kinds.text(), field="selector"),
)
_PATTERN: Final = Key("pattern", Scalar("a regular expression", _pattern), field="pattern")


def _record(*keys: Key) -> Record:
    return Record(dict, more=(*_COLUMN_KEYS, *keys), short="column", nulls=True)


def _meant(place: Place, record: Record) -> set[str]:
    """Return the keys of a source that have a value, and those that unknown keys seem to mean."""
    if not isinstance(place.value, Mapping):
        return {"column"}
    near = {nearest for _, nearest in place.unknown(record.names).values()}
    return near | {name for name, value in place.value.items() if value is not None}


def _ways_mistakes(place: Place, there: Container[str]) -> list[str]:
    """Return the mistake of a source that is not given in exactly one way."""
    ways = [name for name in ("column", "sql", "value") if name in there]
    got = ", ".join(ways) or "none of them"
    wrong = place.problem(f"expected exactly one of column, sql and value, got {got}")
    return [] if len(ways) == 1 else [wrong]


@dataclass(frozen=True, slots=True)
class Sources:
    """The kind of a source: a column's name, or a mapping with `column`, `sql` or `value`.

    Attributes:
        wants: what it is, for a source that is missing.
        units: of its numbers, by their factor to the history's unit; none: it has no unit.
        of: the statistics of which one must be said.
        metric: whether it may be an External or Object metric.
    """

    wants: str = "a column, or a mapping with column, sql or value"
    units: Mapping[str, float] = field(default_factory=dict)
    of: tuple[str, ...] = ()
    metric: bool = False

    def read(self, place: Place) -> Source:
        """Return the source; its factor is that of the unit, if one is said."""
        if isinstance(place.value, bool):  # YAML's y, n, on and off
            place.refuse(f"expected a column's name, got {place.value}", "put the name in quotes")
        if not isinstance(place.value, str | Mapping):
            place.expected(self.wants)
        keys = [Key("value", _AMOUNT, field="value") if self.units else _VALUE]
        keys.append(Key("unit", kinds.word(*self.units), field="unit") if self.units else _PATTERN)
        if self.metric:
            keys += _METRIC_KEYS
        if self.of:
            keys.append(Key("of", kinds.word(*self.of), field="statistic"))
        record, mistakes = _record(*keys), Mistakes()
        given, there = mistakes.tried(record.read, place), _meant(place, record)
        mistakes.add(*_ways_mistakes(place, there))
        if self.metric:
            mistakes.add(*_metric_mistakes(place, there))
        if self.of and "of" not in there and place.at("type").value not in SHARED:
            wanted = f"expected one of {', '.join(self.of)} (of the usage over the pods)"
            mistakes.add(place.at("of").problem(f"{wanted}, got nothing"))
        mistakes.refuse()
        source = Source(**given)
        return replace(source, factor=self.units.get(source.unit, 1.0))


def _metric_mistakes(place: Place, there: Container[str]) -> Iterator[str]:
    kind = place.at("type").value or ("" if "type" in there else "Pods")
    if kind == "Object" and "object" not in there:
        wanted = "expected the described object, as KIND/NAME: Ingress/web, got nothing"
        yield place.at("object").problem(wanted)
    if kind in ("Pods", "External") and "object" in there:
        wrong = f"expected no object of a {kind} metric"
        yield place.at("object").problem(wrong, "type: Object")
    if kind == "Pods" and "selector" in there:
        yield place.at("selector").problem("expected no selector of a Pods metric", "drop it")


def _zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(kinds.text().parse(name))
        # Polars knows other names than Python: neither localtime nor posix/UTC, for example.
        pl.select(pl.lit(0).cast(pl.Datetime("ms")).dt.replace_time_zone(name))
    except (*BROKEN, ValueError, OSError, LookupError):
        hint = did_you_mean(name, zoneinfo.available_timezones() - {name})
        wanted = "a time zone such as UTC or Europe/Berlin"
        raise WrongValueError(f"expected {wanted}, got {show(name)}", hint[2:]) from None
    return name


@dataclass(frozen=True, slots=True)
class Times:
    """The kind of `columns.time`; `start_ms` counts instead of the `start` in it."""

    start_ms: int | None = None
    wants: str = "the column with the time of the sample"

    def read(self, place: Place) -> TimeSource:
        """Return the times' source."""
        is_relative = self.start_ms is not None or place.at("start").value is not None
        units = DURATION_MS if is_relative else (*TIME_PER_MS, TEXT_TIME)
        record = _record(
            _VALUE,
            Key("start", Scalar("a time", lambda text: parse_date_ms(str(text))), field="start"),
            Key("unit", kinds.word(*units), field="unit"),
            Key("zone", Scalar("a time zone", _zone), field="zone"),
            Key("format", kinds.text(), field="format"),
            Key("ambiguous", kinds.word(*AMBIGUOUS), field="ambiguous"),
        )
        mistakes, there = Mistakes(), _meant(place, record)
        given = mistakes.tried(record.read, place)
        mistakes.add(*_ways_mistakes(place, there))
        unit = place.at("unit").value
        if "value" in there:
            wrong = "expected a column, got a constant time"
            mistakes.add(place.at("value").problem(wrong))
        if is_relative and "unit" not in there:
            wanted = f"expected one of {', '.join(units)} (of the times since the start)"
            mistakes.add(place.at("unit").problem(f"{wanted}, got nothing"))
        if is_relative and ("format" in there or "zone" in there):
            wrong = "expected no format and no zone beside start"
            mistakes.add(place.at("start").problem(wrong, "drop them"))
        elif "format" in there and unit in tuple(TIME_PER_MS):
            wrong = f"expected no format of times in {unit}; only text has one"
            mistakes.add(place.at("format").problem(wrong))
        mistakes.refuse()
        return TimeSource(
            Source(given.get("column"), given.get("sql")),
            TEXT_TIME if "format" in given else given.get("unit", ""),
            given.get("zone"),
            given.get("format"),
            given.get("ambiguous", "drop"),
            given.get("start") if self.start_ms is None else self.start_ms,
        )


_BY_WORKLOAD: Final = MapOf(kinds.MILLI, "a mapping of amounts by workload", may_be_empty=True)


class _ListFile:
    """A file of amounts by workload; its path is relative to the folder of the map."""

    wants = "a file of amounts by workload"

    def read(self, place: Place) -> tuple[tuple[str, int], ...]:
        path = place.folder / kinds.text().read(place)
        document = read_document(path, place.path)
        listed: tuple[tuple[str, int], ...] = _BY_WORKLOAD.read(document)
        return listed


_AMOUNT_KEYS: Final = (
    Key("value", kinds.MILLI, field="value"),
    Key("default", kinds.MILLI, field="default"),
    *_COLUMN_KEYS,
    Key("workloads", _BY_WORKLOAD, field="workloads"),
    Key("file", _ListFile(), field="file"),
)


@dataclass(frozen=True, slots=True)
class Amounts:
    """The kind of a request or limit; with `share`, a share of the limit is allowed.

    `units` are by their factor to thousandths.
    """

    units: Mapping[str, float]
    share: bool
    wants: str = kinds.MILLI.wants

    def read(self, place: Place) -> Amount:
        """Return the amount."""
        if not isinstance(place.value, Mapping):
            return Amount(constant=kinds.MILLI.read(place))
        if place.at("of_limit").value is not None and not self.share:
            place.at("of_limit").refuse("expected an amount, got a share of the limit itself")
        is_source = any(place.at(name).value is not None for name in ("column", "sql"))
        keys = self._keys(is_source)
        given = Record(dict, more=keys, nulls=True).read(place)
        if not given.keys() - {"unit"}:
            known = ", ".join(item.name for item in keys if item.name != "unit")
            place.refuse(f"expected one of {known}, got none of them")
        together = ["value", "default", "workloads", "file"]
        if is_source:
            together = ["column", "sql", "value", "unit"]
        elif "of_limit" in given:
            together = ["of_limit"]
        mistakes = Mistakes()
        mistakes.add(*place.unknown_keys(together))
        if is_source:
            mistakes.add(*_ways_mistakes(place, given))
        mistakes.refuse()
        if is_source:
            unit = given.pop("unit")
            return Amount(source=Source(**given, unit=unit, factor=self.units[unit]))
        listed = dict(given.get("file", ())) | dict(given.get("workloads", ()))
        constant = given.get("default", given.get("value"))
        return Amount(constant, given.get("of_limit"), listed=listed)

    def _keys(self, is_source: bool) -> tuple[Key, ...]:
        share = (Key("of_limit", kinds.number(1e-6, 1.0), field="of_limit"),) if self.share else ()
        known = ", ".join(name for name in self.units if name != QUANTITY)
        unit = replace(kinds.word(*self.units), wants=f"one of {known}, or quantity (500m, 1Gi)")
        return (*_AMOUNT_KEYS, *share, Key("unit", unit, field="unit", required=is_source))
