"""Where the map file finds a value: a column, an expression, a constant or a list."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from hpabatch.history.expressions.compiler import Schema, compile_expression
from hpabatch.history.expressions.conditions import quoted
from hpabatch.history.expressions.matches import pattern_fault
from hpabatch.history.polars_errors import BROKEN
from hpabatch.importers.table.units import QUANTITY, TIME_PER_MS
from hpabatch.inputs.fields import (
    Section,
    quantity_milli,
    read_document,
    show,
)
from hpabatch.model.expressions.parser import parse_expression
from hpabatch.model.expressions.tokens import ExpressionError
from hpabatch.model.expressions.tree import columns
from hpabatch.model.suggestions import did_you_mean

AMBIGUOUS = ("earliest", "latest", "drop")
TEXT_TIME = "text"


@dataclass(frozen=True, slots=True)
class Source:
    """One value per row: exactly one of `column`, `sql` and `value` (a constant) is set.

    `factor` turns a number into the history's unit; `pattern` takes a part of a text (its first
    group); `statistic` says what a workload's usage is over its pods: mean, sum or max.
    """

    column: str | None = None
    sql: str | None = None
    value: str | int | float | None = None
    unit: str = ""
    factor: float = 1.0
    pattern: str | None = None
    statistic: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        if self.column is not None:
            return (self.column,)
        return columns(parse_expression(self.sql)) if self.sql is not None else ()

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
        """Return it as a person would say it."""
        if self.column is None and self.sql is None:
            return f"always {self.value!r}"
        told = f"column {self.column}" if self.column is not None else f"sql {self.sql}"
        if self.unit:
            told += f" in {self.unit}"
        if self.pattern:
            told += f", the part that matches {self.pattern}"
        return f"{self.statistic} over the pods: {told}" if self.statistic else told


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The time of a row. `unit`: s, ms, us, ns (numbers), text, or "" (by the column's type)."""

    source: Source
    unit: str = ""
    zone: str | None = None
    format: str | None = None
    ambiguous: str = "drop"

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

    def describe(self) -> str:
        """Return it as a person would say it."""
        if self.share is not None:
            return f"{self.share:g} of the limit"
        if self.source is not None:
            return self.source.describe()
        listed = f"listed for {len(self.listed)} workloads" if self.listed else ""
        constant = "" if self.constant is None else f"{self.constant / 1000:g} (core or byte)"
        return ", else ".join(text for text in (listed, constant) if text)

    def find(self, namespace: str, workload: str, container: str) -> int | None:
        """Return the listed or constant amount, None where there is none."""
        for key in (f"{namespace}/{workload}/{container}", f"{namespace}/{workload}", workload):
            if key in self.listed:
                return self.listed[key]
        return self.constant


def decode_source(
    section: Section, name: str, units: Collection[str] = (), *, statistic: Collection[str] = ()
) -> Source | None:
    """Take a source: the name of a column, or a mapping with `column`, `sql` or `value`.

    Raises:
        UsageError: anything else.
    """
    value = section.take(name)
    if value is None:
        return None
    if isinstance(value, str):
        value = {"column": value}
    if isinstance(value, bool):  # YAML's y, n, on and off
        section.refuse(name, f"{value} is no name of a column: put the name in quotes")
    inner = Section(value, section.source, section.at(name))
    source = _one_of(inner)
    if units:
        source = source.with_unit(inner.one_of("unit", units) or "")
    elif not statistic:
        source = replace(source, pattern=_pattern(inner))
    if statistic:
        chosen = inner.one_of("of", statistic)
        if chosen is None:
            inner.refuse("of", f"say what the usage is over the pods: {', '.join(statistic)}")
        source = replace(source, statistic=chosen)
    inner.close()
    if units and source.value is not None:
        milli = quantity_milli(source.value)
        if isinstance(milli, str):
            inner.refuse("value", milli)
    return source


def _one_of(inner: Section) -> Source:
    column, sql, value = inner.text("column"), inner.text("sql"), inner.take("value")
    given = [item for item in (column, sql, value) if item is not None]
    if len(given) != 1:
        inner.refuse("", "say exactly one of `column`, `sql` and `value`")
    if sql is not None:
        check_expression(inner, "sql", sql)
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        hint = ": put it in quotes" if isinstance(value, bool) else ""
        inner.refuse("value", f"a text or a number is wanted, found {show(value)}{hint}")
    assert value is None or isinstance(value, str | int | float)
    return Source(column=column, sql=sql, value=value)


def check_expression(section: Section, key: str, text: str) -> None:
    """Refuse what is no expression, whatever columns there are.

    Raises:
        UsageError: the place in the map, and the position in the expression.
    """
    try:
        parse_expression(text)
    except ExpressionError as error:
        section.refuse(key, f"{quoted(text)} is not an expression: {error}")


def _pattern(inner: Section) -> str | None:
    pattern = inner.text("pattern")
    if pattern is None:
        return None
    if (fault := pattern_fault(pattern)) is not None:
        inner.refuse("pattern", f"{quoted(pattern)}: {fault}")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        inner.refuse("pattern", f"{quoted(pattern)}: expected a regular expression, got {error}")
    if groups < 1:
        inner.refuse("pattern", f"{pattern!r} has no group in (brackets) that says what to take")
    return pattern


def decode_time(columns: Section) -> TimeSource:
    """Take `columns.time`.

    Raises:
        UsageError: it is missing or is no time.
    """
    value = columns.take("time")
    if value is None:
        columns.refuse("time", "missing: say which column holds the time of the sample")
    if isinstance(value, str):
        value = {"column": value}
    inner = Section(value, columns.source, columns.at("time"))
    source = _one_of(inner)
    if source.value is not None:
        inner.refuse("value", "a constant is no time of a sample: name a column")
    unit = inner.one_of("unit", (*TIME_PER_MS, TEXT_TIME)) or ""
    zone, form = inner.text("zone"), inner.text("format")
    ambiguous = inner.one_of("ambiguous", AMBIGUOUS) or "drop"
    inner.close()
    if form is not None and unit not in ("", TEXT_TIME):
        inner.refuse("format", f"a format is for texts, but the unit is {unit}")
    if zone is not None:
        _check_zone(inner, zone)
    return TimeSource(source, TEXT_TIME if form is not None else unit, zone, form, ambiguous)


def _check_zone(inner: Section, zone: str) -> None:
    try:
        zoneinfo.ZoneInfo(zone)
        # Polars knows other names than Python: neither localtime nor posix/UTC, for example.
        pl.select(pl.lit(0).cast(pl.Datetime("ms")).dt.replace_time_zone(zone))
    except (*BROKEN, ValueError, OSError, LookupError):
        hint = did_you_mean(zone, zoneinfo.available_timezones() - {zone})
        inner.refuse("zone", f"{zone!r} is not a time zone such as UTC or Europe/Berlin{hint}")


def decode_amount(
    section: Section, name: str, units: Mapping[str, float], folder: Path, *, share: bool
) -> Amount | None:
    """Take a request or limit; with `share`, a share of the limit is allowed.

    Raises:
        UsageError: it is no amount.
    """
    value = section.take(name)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return Amount(constant=_quantity(section, name, value))
    inner = Section(value, section.source, section.at(name))
    if "column" in inner or "sql" in inner:
        source = _one_of(inner)
        unit = inner.one_of("unit", (*units, QUANTITY))
        if unit is None:
            inner.refuse("unit", f"missing: one of {', '.join(units)}, or quantity (500m, 1Gi)")
        inner.close()
        # Amounts are thousandths: of a core, which `units` give, or of a byte.
        per_unit = 1.0 if name == "cpu" else 1e3
        return Amount(source=source.with_unit(unit).with_factor(units.get(unit, 1.0) * per_unit))
    of_limit = inner.number("of_limit", 1e-6, 1.0)
    if of_limit is not None:
        if not share:
            inner.refuse("of_limit", "a limit is no share of itself: say an amount")
        inner.close()
        return Amount(share=of_limit)
    listed = _listed(inner, folder)
    constant = None
    for key in ("value", "default"):
        given = inner.take(key)
        if given is not None:
            constant = _quantity(inner, key, given)
    if constant is None and not listed:
        inner.refuse("", "say value, column, workloads, file" + (" or of_limit" if share else ""))
    inner.close()
    return Amount(constant=constant, listed=listed)


def _listed(inner: Section, folder: Path) -> dict[str, int]:
    listed: dict[str, int] = {}
    file = inner.text("file")
    if file is not None:
        place = str(folder / file)
        rows = Section(read_document(place, inner.at("file")), place)
        listed.update({key: _quantity(rows, key, item) for key, item in rows.rest().items()})
    workloads = inner.section("workloads")
    if workloads is not None:
        listed.update(
            {key: _quantity(workloads, key, item) for key, item in workloads.rest().items()}
        )
    return listed


def _quantity(section: Section, key: str, value: object) -> int:
    milli = quantity_milli(value)
    if isinstance(milli, str):
        section.refuse(key, milli)
    return milli
