"""Sources of values in a map file: columns, expressions, constants, lists.

A dataclass declares its keys. What they say together is checked once each of them is right.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from hpabatch.history.checks import BROKEN
from hpabatch.history.expressions.conditions import quoted
from hpabatch.history.expressions.parser import columns, compile_expression
from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.expressions.typed import Schema, checked
from hpabatch.importers.common.rows import DURATION_MS, QUANTITY, TIME_PER_MS
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import (
    Key,
    MapOf,
    Record,
    Scalar,
    WrongValueError,
    key,
    keys_of,
    never,
    record_of,
)
from hpabatch.inputs.documents import Mistakes, Place, read_document, show
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import parse_date_ms

TEXT_TIME = "text"
SHARED = ("Object", "External")
"""Types of metrics whose values are no pod's."""


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


def pattern_of(groups: int, fix: str = "") -> Scalar:
    """Return the kind of a regular expression with one group, or two."""

    def parse(text: str) -> str:
        kinds.text().parse(text)
        try:
            found = re.compile(checked(text)).groups
        except (ValueError, re.error) as error:
            raise ValueError(f"{quoted(text)}: {error}") from None
        if found < groups:
            wanted = "a group" if groups == 1 else "two groups"
            got = f"expected {wanted} in (brackets), got {found or 'none'} in {text!r}"
            raise WrongValueError(got, fix)
        return text

    return Scalar("a regular expression", parse)


def _described(text: str) -> str:
    if not re.fullmatch(r"[^/]+/[^/]+", kinds.text().parse(text)):
        raise ValueError(f"expected KIND/NAME such as Ingress/web, got {text!r}")
    return text


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


EXPRESSION: Final = Scalar("an expression", _expression)
_AMOUNT: Final = Scalar(kinds.MILLI.wants, _amount)
_CONSTANT: Final = Scalar("a string or a number", _constant)
_TYPES: Final = {"Pods": "", **dict(zip(SHARED, SHARED, strict=True))}


@dataclass(frozen=True, slots=True)
class Source:
    """One value per row: exactly one of `column`, `sql` and `value` (a constant) is set.

    `factor` turns a number into the history's unit; `pattern` takes a part of a text (its first
    group); `statistic` says what a workload's usage is over its pods: mean, sum or max. A metric
    that is not the pods' has a `kind`, External or Object, that object as KIND/NAME, and the
    `selector` by which HPAs name its series.
    """

    column: str | None = key("column", kinds.text(), "", None)
    sql: str | None = key("sql", EXPRESSION, "", None)
    value: str | int | float | None = key("value", _CONSTANT, "", None)
    unit: str = ""
    factor: float = 1.0
    pattern: str | None = key("pattern", pattern_of(1), "", None)
    statistic: str = ""
    kind: str = key("type", kinds.choice(_TYPES), "", "")
    object: str = key("object", Scalar("KIND/NAME such as Ingress/web", _described), "", "")
    selector: str = key("selector", kinds.text(), "", "")

    def checked(self, place: Place) -> Source:
        """Refuse (MistakesError) none or several of column, sql and value, and a bad metric."""
        mistakes, at = Mistakes(), place.at("object")
        ways = [name for name in ("column", "sql", "value") if getattr(self, name) is not None]
        if len(ways) != 1:
            got = ", ".join(ways) or "none of them"
            wrong = f"expected exactly one of column, sql and value, got {got}"
            mistakes.add(place.problem(wrong))
        if self.kind == "Object" and not self.object:
            wanted = "expected the described object, as KIND/NAME: Ingress/web, got nothing"
            mistakes.add(at.problem(wanted))
        if self.kind != "Object" and self.object:
            wrong = f"expected no object of a {self.kind or 'Pods'} metric"
            mistakes.add(at.problem(wrong, "type: Object"))
        if not self.kind and self.selector:
            wrong = "expected no selector of a Pods metric"
            mistakes.add(place.at("selector").problem(wrong, "drop it"))
        mistakes.refuse()
        return self

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
class Sources:
    """The kind of a source: a column's name, or a mapping with `column`, `sql` or `value`.

    Attributes:
        wants: what it is, for a source that is missing.
        units: of its numbers, by their factor to the history's unit; none: it has no unit.
        of: the statistics of which one must be said.
        metric: whether it may be an External or Object metric.
        needs_unit: whether a number's unit must be said.
    """

    wants: str = "a column, or a mapping with column, sql or value"
    units: Mapping[str, float] = field(default_factory=dict)
    of: tuple[str, ...] = ()
    metric: bool = False
    needs_unit: bool = False

    def read(self, place: Place) -> Source:
        """Return the source; its factor is that of the unit, if one is said."""
        if isinstance(place.value, bool):  # YAML's y, n, on and off
            place.refuse(f"expected a column's name, got {place.value}", "put the name in quotes")
        if not isinstance(place.value, str | Mapping):
            place.expected(self.wants)
        without: tuple[str, ...] = () if self.metric else ("type", "object", "selector")
        more: list[Key] = []
        known = ", ".join(name for name in self.units if name != QUANTITY)
        wants = f"one of {known}" + (", or quantity (500m, 1Gi)" if QUANTITY in self.units else "")
        if self.units:
            without += ("pattern",)
            unit = replace(kinds.word(*self.units), wants=wants)
            more += [Key("value", _AMOUNT, field="value"), Key("unit", unit, field="unit")]
        if self.of:
            more.append(Key("of", kinds.word(*self.of), field="statistic"))
        record = Record(Source, more=tuple(more), short="column", nulls=True, without=without)
        source: Source = record.read(place)
        if self.of and not source.statistic and source.kind not in SHARED:
            wanted = f"one of {', '.join(self.of)} (of the usage over the pods)"
            place.at("of").expected(wanted)
        if self.needs_unit and not source.unit and source.value is None:
            place.at("unit").expected(wants)
        return replace(source, factor=self.units.get(source.unit, 1.0))


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The time of a row. `unit`: s, ms, us, ns (numbers), text, or "" (by the column's type).

    With `start_ms`, numbers (also of m and h) count from that time on, in ms since 1970.
    """

    source: Source
    unit: str = ""
    zone: str | None = None
    format: str | None = None
    start_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """The kind of `columns.time`; `start_ms` counts instead of the `start` in it."""

    start_ms: int | None = None
    wants: str = "the column with the time of the sample"

    def read(self, place: Place) -> TimeSource:
        """Return the times' source."""
        is_relative = self.start_ms is not None or place.at("start").value is not None
        units = tuple(DURATION_MS) if is_relative else (*TIME_PER_MS, TEXT_TIME)
        read = Record(
            dict,
            more=(
                *(item for item in keys_of(Source) if item.name in ("column", "sql")),
                Key("value", never("a column, got a constant time", ""), field="value"),
                Key(
                    "start",
                    Scalar("a time", lambda text: parse_date_ms(str(text))),
                    field="start_ms",
                ),
                Key("unit", kinds.word(*units), field="unit"),
                Key("zone", Scalar("a time zone", _zone), field="zone"),
                Key("format", kinds.text(), field="format"),
            ),
            short="column",
            nulls=True,
        ).read
        given: dict[str, Any] = read(place)
        source = Source(given.pop("column", None), given.pop("sql", None)).checked(place)
        if is_relative and "unit" not in given:
            place.at("unit").expected(f"one of {', '.join(units)} (of the times since the start)")
        if is_relative and given.keys() & {"format", "zone"}:
            place.at("start").refuse("expected no format and no zone beside start", "drop them")
        if "format" in given:
            if given.get("unit", TEXT_TIME) != TEXT_TIME:
                wrong = f"expected no format of times in {given['unit']}; only text has one"
                place.at("format").refuse(wrong)
            given["unit"] = TEXT_TIME
        if self.start_ms is not None:
            given["start_ms"] = self.start_ms
        return TimeSource(source, **given)


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

    def named(self, namespace: str, workload: str, container: str) -> int | None:
        """Return the listed amount, None where there is none."""
        names = (f"{namespace}/{workload}/{container}", f"{namespace}/{workload}", workload)
        return next((self.listed[name] for name in names if name in self.listed), None)


_BY_WORKLOAD: Final = MapOf(kinds.MILLI, "a mapping of amounts by workload", may_be_empty=True)


class _ListFile:
    """A file of amounts by workload; its path is relative to the folder of the map."""

    wants = "a file of amounts by workload"

    def read(self, place: Place) -> tuple[tuple[str, int], ...]:
        path = place.folder / kinds.text().read(place)
        listed: tuple[tuple[str, int], ...] = _BY_WORKLOAD.read(read_document(path, place.path))
        return listed


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
        if any(place.at(name).value is not None for name in ("column", "sql")):
            return Amount(source=Sources(units=self.units, needs_unit=True).read(place))
        share: Scalar = kinds.number(1e-6, 1.0)
        if not self.share:
            share = never("an amount, got a share of the limit itself", "")
        given = record_of(
            {
                **dict.fromkeys(("value", "default"), kinds.MILLI),
                **dict.fromkeys(("column", "sql"), kinds.text()),
                "workloads": _BY_WORKLOAD,
                "file": _ListFile(),
                "of_limit": share,
                "unit": never("no unit without a column", "write it in the amount, as in 500m"),
            }
        ).read(place)
        if not given:
            ways = "value, default, column, sql, workloads, file"
            place.refuse(f"expected one of {ways}{', of_limit' * self.share}, got none of them")
        if "of_limit" in given and len(given) > 1:
            place.at("of_limit").refuse("expected it alone, got other keys, too", "drop them")
        listed = dict(given.get("file", ())) | dict(given.get("workloads", ()))
        constant = given.get("default", given.get("value"))
        return Amount(constant, given.get("of_limit"), listed=listed)
