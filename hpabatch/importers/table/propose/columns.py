"""Profile of a table's column: the words of its name, its values as numbers, their form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import polars as pl

from hpabatch.importers.common.units import WRITTEN, quantities
from hpabatch.importers.table.propose.sample import Sample

MOSTLY: Final = 0.9
"""Share of a column's values that must be of a form; a few may be faulty."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|%")
# The window of a rate or mean: rate1m, usage_5m, usage:30s. Its letter is no unit of the values.
_WINDOW = re.compile(r"(?<!\d)\d+(?:ms|s|sec|m|min|h|d)(?![A-Za-z])")
_UNIT = r"\s*(%|[A-Za-z]{1,5})?\s*$"
_COMMA = r"^\s*[-+]?\d+,\d+" + _UNIT
_MAYBE_COMMA = r"^\s*[-+]?\d+(,\d+)?" + _UNIT
_PERCENT = r"\s*%$"


class Kind(StrEnum):
    """The form of a column's values."""

    time = "time"
    number = "number"
    quantity = "quantity"
    boolean = "boolean"
    text = "text"
    empty = "empty"


NUMBERS: Final = (Kind.number, Kind.quantity)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the sample, or a label in it; `values` are raw, `numbers` Float64 with nulls.

    `origin` is the column's name in the table; `label` is the beginning of the pattern that finds
    the label in its values, "" for the whole column.
    """

    name: str
    words: tuple[str, ...]
    kind: Kind
    values: pl.Series
    numbers: pl.Series
    origin: str
    label: str = ""

    @property
    def key(self) -> str:
        """The words of the name, joined by underscores."""
        return "_".join(self.words)

    @property
    def known(self) -> pl.Series:
        """The numbers that are some."""
        return self.numbers.drop_nulls().drop_nans()

    def has(self, *words: str) -> bool:
        """Whether the name has one of the words."""
        return not set(words).isdisjoint(self.words)

    def percent_signs(self) -> bool:
        """Whether the numbers are percentages such as 49.3%."""
        return self.values.dtype == pl.String() and self.share("%") > 0

    def distinct(self) -> pl.Series:
        """Return the different values in the order of the rows."""
        return self.values.drop_nulls().unique(maintain_order=True)

    def examples(self, most: int = 3) -> list[str]:
        """Return a few different values as strings."""
        return [str(value) for value in self.distinct().head(most).to_list()]

    def share(self, pattern: str) -> float:
        """Return the share of the different values, as strings, in which a pattern is found."""
        return mean(self.distinct().cast(pl.String, strict=False).str.contains(pattern))

    def quantile(self, share: float) -> float:
        """Return a quantile of the numbers that are not zero, 0 where there are none."""
        found = self.known.filter(self.known != 0).quantile(share)
        return 0.0 if found is None else float(found)

    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool((self.known == self.known.floor()).all())


@dataclass(frozen=True, slots=True)
class Role:
    """What a column may be, by its name.

    Attributes:
        names: whole names, the likeliest first.
        parts: words of other names, the likeliest first.
        without: words of names that say something else than a part of them.
        values: pattern of all values of a column that is known by a part of its name.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    values: str = ""

    def rank(self, column: Column) -> int | None:
        """Return the place of a column among the likely ones, None for one that is none."""
        if column.key in self.names:
            return self.names.index(column.key)
        if column.has(*self.without):
            return None
        place = next((k for k, part in enumerate(self.parts) if column.has(part)), None)
        if place is None or (self.values and column.share(self.values) < 1):
            return None
        return len(self.names) + place

    def best(self, columns: Iterable[Column]) -> Column | None:
        """Return the likeliest column, of equal ones the first."""
        ranked = [(rank, item) for item in columns if (rank := self.rank(item)) is not None]
        return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def mean(mask: pl.Series) -> float:
    """Return the share of a mask that is true, 0 of an empty one."""
    return float(mask.mean() or 0.0)  # type: ignore[arg-type]


def has_decimal_commas(sample: Sample) -> bool:
    """Return whether numbers such as 0,35 occur in a CSV."""
    if sample.file.parquet or sample.file.separator == ",":
        return False
    columns = [values.drop_nulls() for values in sample.frame]
    return any(
        bool(known.str.contains(_COMMA).any()) and mean(known.str.contains(_MAYBE_COMMA)) >= MOSTLY
        for known in columns
    )


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters: `cpu_mCPU:rate1m` is cpu, m, cpu, rate."""
    return tuple(word.lower() for word in _WORDS.findall(_WINDOW.sub(" ", name)))


def profile(values: pl.Series, *, comma: bool = False, origin: str = "", label: str = "") -> Column:
    """Return the profile of a column, or of a label in the column `origin`."""
    name, numbers = values.name, _numbers(values, comma=comma)
    kind = _kind(values, numbers, comma=comma)
    return Column(name, words_of(name), kind, values, numbers, origin or name, label)


def profiles(frame: pl.DataFrame, *, comma: bool = False) -> list[Column]:
    """Return the profiles of a frame's columns."""
    return [profile(values, comma=comma) for values in frame]


def _numbers(values: pl.Series, *, comma: bool) -> pl.Series:
    if values.dtype == pl.String():
        text = values.str.strip_chars().str.replace(_PERCENT, "")
        if comma:
            text = text.str.replace(",", ".", literal=True)
        return text.cast(pl.Float64, strict=False)
    if values.dtype.is_numeric():
        return values.cast(pl.Float64)
    return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)


def _kind(values: pl.Series, numbers: pl.Series, *, comma: bool) -> Kind:
    known = values.drop_nulls()
    if known.is_empty():
        return Kind.empty
    if values.dtype.is_temporal():
        return Kind.time
    if values.dtype == pl.Boolean():
        return Kind.boolean
    if values.dtype != pl.String() or numbers.is_not_null().sum() >= MOSTLY * len(known):
        return Kind.number
    if set(known.str.to_lowercase().unique().head(3)) <= {"true", "false"}:
        return Kind.boolean
    written = quantities(known, "," if comma else ".").str.contains(WRITTEN)
    return Kind.quantity if mean(written) >= MOSTLY else Kind.text
