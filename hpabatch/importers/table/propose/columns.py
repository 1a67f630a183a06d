"""Profile of a table's column: the words of its name, its values as numbers, their form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import polars as pl

from hpabatch.importers.common.units import WRITTEN, quantities
from hpabatch.importers.table.propose.sample import Sample

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|%")
# The window of a rate or mean: rate1m, usage_5m, usage:30s. Its letter is no unit of the values.
_WINDOW = re.compile(r"(?<!\d)\d+(?:ms|s|sec|m|min|h|d)(?![A-Za-z])")
_UNIT = r"\s*(%|[A-Za-z]{1,5})?\s*$"
_COMMA = r"^\s*[-+]?\d+,\d+" + _UNIT
_MAYBE_COMMA = r"^\s*[-+]?\d+(,\d+)?" + _UNIT
_PERCENT = r"\s*%$"
_BOOLEAN: Final = {"true", "false"}
_MOSTLY: Final = 0.9


class Kind(StrEnum):
    """The form of a column's values."""

    time = "time"
    number = "number"
    quantity = "quantity"
    boolean = "boolean"
    text = "text"
    empty = "empty"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the sample; `values` are raw, `numbers` are Float64 with nulls."""

    name: str
    words: tuple[str, ...]
    kind: Kind
    values: pl.Series
    numbers: pl.Series

    @property
    def key(self) -> str:
        """The words of the name, joined by underscores."""
        return "_".join(self.words)

    def has(self, *words: str) -> bool:
        """Whether the name has one of the words."""
        return not set(words).isdisjoint(self.words)

    def percent_signs(self) -> bool:
        """Whether the numbers are percentages such as 49.3%."""
        return self.values.dtype == pl.String() and self.share("%") > 0

    def distinct(self) -> int:
        """Return the number of different values."""
        return self.values.drop_nulls().n_unique()

    def examples(self, most: int = 3) -> list[str]:
        """Return a few different values as strings."""
        found = self.values.drop_nulls().unique(maintain_order=True).head(most)
        return [str(value) for value in found.to_list()]

    def share(self, pattern: str) -> float:
        """Return the share of the different values, as strings, in which a pattern is found."""
        texts = self.values.drop_nulls().unique().cast(pl.String, strict=False)
        return 0.0 if texts.is_empty() else float(texts.str.contains(pattern).mean() or 0.0)  # type: ignore[arg-type]

    def quantile(self, share: float) -> float:
        """Return a quantile of the numbers that are not zero, 0 where there are none."""
        known = self.numbers.drop_nulls().drop_nans()
        found = known.filter(known != 0).quantile(share)
        return 0.0 if found is None else float(found)

    def whole(self) -> bool:
        """Whether all numbers are whole."""
        known = self.numbers.drop_nulls().drop_nans()
        return bool((known == known.floor()).all())


def has_decimal_commas(sample: Sample) -> bool:
    """Return whether numbers such as 0,35 occur in a CSV."""
    if sample.file.parquet or sample.file.separator == ",":
        return False
    return any(
        bool(values.drop_nulls().str.contains(_COMMA).any()) and _is_comma_column(values)
        for values in sample.frame
    )


def _is_comma_column(values: pl.Series) -> bool:
    share = values.drop_nulls().str.contains(_MAYBE_COMMA).mean()
    return isinstance(share, float) and share >= _MOSTLY


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters: `cpu_mCPU:rate1m` is cpu, m, cpu, rate."""
    return tuple(word.lower() for word in _WORDS.findall(_WINDOW.sub(" ", name)))


def profile(name: str, values: pl.Series, *, comma: bool = False) -> Column:
    """Return the profile of a column."""
    numbers = _numbers(values, comma=comma)
    return Column(name, words_of(name), _kind(values, numbers, comma=comma), values, numbers)


def profiles(frame: pl.DataFrame, *, comma: bool = False) -> list[Column]:
    """Return the profiles of a frame's columns."""
    return [profile(values.name, values, comma=comma) for values in frame]


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
    if values.dtype != pl.String():
        return Kind.number
    if numbers.is_not_null().sum() >= _MOSTLY * len(known):
        return Kind.number
    few = set(known.str.to_lowercase().unique().head(3))
    if few <= _BOOLEAN:
        return Kind.boolean
    share = quantities(known, "," if comma else ".").str.contains(WRITTEN).mean()
    if isinstance(share, float) and share >= _MOSTLY:
        return Kind.quantity
    return Kind.text


def named(columns: Iterable[Column], names: Collection[str]) -> Column | None:
    """Return the column whose name comes first in a list of names."""
    by_key = {column.key: column for column in reversed(list(columns))}
    return next((by_key[name] for name in names if name in by_key), None)
