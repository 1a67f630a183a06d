"""Sources of values in a map file: columns, expressions, constants, lists."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from hpabatch.history.expressions.conditions import quoted
from hpabatch.history.expressions.functions import pattern_fault
from hpabatch.history.expressions.parser import Schema, columns, compile_expression
from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.polars_errors import BROKEN
from hpabatch.importers.common.units import DURATION_MS, QUANTITY, TIME_PER_MS
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.documents import read_document, show
from hpabatch.inputs.fields import Fields, amount_milli, quantity_milli
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

    def with_unit(self, unit: str) -> Source:
        """Return the same with another unit."""
        return replace(self, unit=unit)

    def with_factor(self, factor: float) -> Source:
        """Return the same with another factor."""
        return replace(self, factor=factor)

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

    def find(self, namespace: str, workload: str, container: str) -> int | None:
        """Return the listed or constant amount, None where there is none."""
        named = self.named(namespace, workload, container)
        return self.constant if named is None else named

    def named(self, namespace: str, workload: str, container: str) -> int | None:
        """Return the listed amount, None where there is none."""
        for key in (f"{namespace}/{workload}/{container}", f"{namespace}/{workload}", workload):
            if key in self.listed:
                return self.listed[key]
        return None


def decode_source(
    fields: Fields,
    name: str,
    units: Collection[str] = (),
    *,
    statistic: Collection[str] = (),
    metric: bool = False,
) -> Source | None:
    """Read a source: the name of a column, or a mapping with `column`, `sql` or `value`.

    That of a `metric` may say that it is an External or Object metric.
    """
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool):  # YAML's y, n, on and off
        fields.mistake(name, f"expected a column's name, got {value}", "put the name in quotes")
        return None
    inner = _inner(fields, name)
    source = _one_of(inner)
    if units:
        source = source.with_unit(inner.one_of("unit", units))
    elif not statistic:
        source = replace(source, pattern=_pattern(inner))
    if metric:
        source = _with_kind(inner, source)
    if statistic and not source.kind:
        inner.missing("of", f"one of {', '.join(statistic)} (of the usage over the pods)")
        source = replace(source, statistic=inner.one_of("of", statistic))
    inner.close()
    if units and source.value is not None:
        milli = quantity_milli(source.value)
        if isinstance(milli, str):
            inner.mistake("value", milli)
    return source


def _with_kind(inner: Fields, source: Source) -> Source:
    """Return the source of a metric with its type, and the object that it describes."""
    kind = inner.one_of("type", ("Pods", *SHARED))
    described: str = inner.read("object", kinds.text()) or ""
    if kind == "Object":
        inner.missing("object", "the described object, as KIND/NAME: Ingress/web")
        if described and not re.fullmatch(r"[^/]+/[^/]+", described):
            inner.mistake("object", f"expected KIND/NAME such as Ingress/web, got {described!r}")
    elif described:
        inner.mistake("object", f"expected no object of a {kind or 'Pods'} metric", "type: Object")
    selector: str = inner.read("selector", kinds.text()) or ""
    if kind in SHARED:
        return replace(source, kind=kind, object=described, selector=selector)
    if selector:
        inner.mistake("selector", "expected no selector of a Pods metric", "drop it")
    return source


def _inner(fields: Fields, name: str) -> Fields:
    """Return a source's mapping, made of a column's name where that stands alone."""
    place = fields.at(name)
    if isinstance(place.value, str):
        place = place.within(place.path, {"column": place.value})
    return Fields(place, fields.mistakes)


def _one_of(inner: Fields) -> Source:
    column, sql = (inner.read(key, kinds.text()) for key in ("column", "sql"))
    value = inner.get("value")
    given = [key for key in ("column", "sql", "value") if key in inner]
    if inner.is_mapping and len(given) != 1:
        found = ", ".join(given) or "none of them"
        inner.mistake("", f"expected exactly one of column, sql and value, got {found}")
    if sql is not None:
        check_expression(inner, "sql", sql)
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        fix = "put it in quotes" if isinstance(value, bool) else ""
        inner.mistake("value", f"expected a string or a number, got {show(value)}", fix)
        value = None
    return Source(column=column, sql=sql, value=value)


def check_expression(fields: Fields, key: str, text: str) -> None:
    """Note a string that is no expression, whatever columns there are."""
    try:
        columns(text)
    except ExpressionError as error:
        fields.mistake(key, f"{quoted(text)} is not an expression: {error}")


def _pattern(inner: Fields) -> str | None:
    pattern: str | None = inner.read("pattern", kinds.text())
    if pattern is None:
        return None
    if (fault := pattern_fault(pattern)) is not None:
        inner.mistake("pattern", f"{quoted(pattern)}: {fault}")
        return None
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        inner.mistake("pattern", f"{quoted(pattern)}: expected a regular expression, got {error}")
        return None
    if groups < 1:
        inner.mistake("pattern", f"expected a group in (brackets), got none in {pattern!r}")
    return pattern


def decode_time(columns: Fields, start_ms: int | None = None) -> TimeSource:
    """Read `columns.time`; `start_ms` counts instead of the `start` in it."""
    if columns.get("time") is None:
        columns.missing("time", "the column with the time of the sample")
        return TimeSource(Source())
    inner = _inner(columns, "time")
    source = _one_of(inner)
    if source.value is not None:
        inner.mistake("value", "expected a column, got a constant time")
    start = inner.get("start")
    if start_ms is None and start is not None:
        try:
            start_ms = parse_date_ms(str(start))
        except ValueError as error:
            inner.mistake("start", str(error))
    relative = start is not None or start_ms is not None
    if relative:
        inner.missing("unit", f"one of {', '.join(DURATION_MS)} (of the times since the start)")
    unit = inner.one_of("unit", DURATION_MS if relative else (*TIME_PER_MS, TEXT_TIME))
    zone, form = (inner.read(key, kinds.text()) for key in ("zone", "format"))
    ambiguous = inner.one_of("ambiguous", AMBIGUOUS) or "drop"
    inner.close()
    if relative and (form is not None or zone is not None):
        inner.mistake("start", "expected no format and no zone beside start", "drop them")
    if form is not None and unit not in ("", TEXT_TIME):
        inner.mistake("format", f"expected no format of times in {unit}; only text has one")
    if zone is not None:
        _check_zone(inner, zone)
    unit = TEXT_TIME if form is not None and not relative else unit
    return TimeSource(source, unit, zone, form, ambiguous, start_ms)


def _check_zone(inner: Fields, zone: str) -> None:
    try:
        zoneinfo.ZoneInfo(zone)
        # Polars knows other names than Python: neither localtime nor posix/UTC, for example.
        pl.select(pl.lit(0).cast(pl.Datetime("ms")).dt.replace_time_zone(zone))
    except (*BROKEN, ValueError, OSError, LookupError):
        hint = did_you_mean(zone, zoneinfo.available_timezones() - {zone})
        wanted = "a time zone such as UTC or Europe/Berlin"
        inner.mistake("zone", f"expected {wanted}, got {show(zone)}", hint[2:])


def decode_amount(
    fields: Fields, name: str, units: Mapping[str, float], *, share: bool
) -> Amount | None:
    """Read a request or limit; with `share`, a share of the limit is allowed."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return Amount(constant=fields.mistakes.tried(amount_milli, fields.at(name)))
    inner = Fields(fields.at(name), fields.mistakes)
    if "column" in inner or "sql" in inner:
        source = _one_of(inner)
        inner.missing("unit", f"one of {', '.join(units)}, or quantity (500m, 1Gi)")
        unit = inner.one_of("unit", (*units, QUANTITY))
        inner.close()
        # Amounts are thousandths: of a core, which `units` give, or of a byte.
        per_unit = 1.0 if name == "cpu" else 1e3
        return Amount(source=source.with_unit(unit).with_factor(units.get(unit, 1.0) * per_unit))
    if "of_limit" in inner:
        of_limit = inner.read("of_limit", kinds.number(1e-6, 1.0))
        if not share:
            inner.mistake("of_limit", "expected an amount, got a share of the limit itself")
        inner.close()
        return Amount(share=of_limit)
    listed = _listed(inner)
    constant = None
    for key in ("value", "default"):
        if inner.get(key) is not None:
            constant = fields.mistakes.tried(amount_milli, inner.at(key))
    if not any(key in inner for key in ("value", "default", "file", "workloads")):
        known = "value, default, column, sql, workloads, file" + (", of_limit" if share else "")
        inner.mistake("", f"expected one of {known}, got none of them")
    inner.close()
    return Amount(constant=constant, listed=listed)


def _listed(inner: Fields) -> dict[str, int]:
    mistakes = inner.mistakes
    listed: dict[str, int] = {}
    file: str | None = inner.read("file", kinds.text())
    if file is not None:
        # Paths are relative to the folder of the map.
        path = str(inner.here.folder / file)
        document = mistakes.tried(read_document, path, inner.path("file"))
        rows = Fields(document, mistakes).members() if document is not None else {}
        listed |= {key: mistakes.tried(amount_milli, place) for key, place in rows.items()}
    workloads = inner.child("workloads")
    rows = {} if workloads is None else workloads.members()
    return listed | {key: mistakes.tried(amount_milli, place) for key, place in rows.items()}
