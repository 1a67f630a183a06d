"""Wide tables: columns that become rows, as `unpivot` of a map says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf
from hpabatch.inputs.fields import Fields


@dataclass(frozen=True, slots=True)
class Unpivot:
    """The columns of `keep` stay; each other column becomes rows, empty cells none.

    `name` gets the column's name and `value` its value. With `pattern`, only columns that match
    become rows: `name` gets the first group, and the second one is the column that gets the value.
    """

    keep: tuple[str, ...]
    name: str
    value: str = ""
    pattern: str = ""

    def describe(self) -> str:
        """Return a description for people."""
        told = f"the columns beside {', '.join(self.keep)} become rows, their names {self.name}"
        return f"{told}, by {self.pattern}" if self.pattern else told

    def needed(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a file that are read."""
        turned = [name for column in self._turned(columns).values() for name in column.values()]
        return [*self.keep, *turned]

    def columns_of(self, columns: Sequence[str]) -> list[str]:
        """Return the columns that the rows of a file have."""
        return [*self.keep, self.name, *self._values(columns)]

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a wide frame: all of a row's before those of the next."""
        values = self._values(frame.columns)
        order = "\0row"
        rows = frame.with_row_index(order)
        parts = [
            rows.select(
                order,
                *self.keep,
                pl.lit(name).alias(self.name),
                *(
                    pl.col(members[value]).alias(value)
                    if value in members
                    else pl.lit(None).alias(value)
                    for value in values
                ),
            ).filter(~pl.all_horizontal(pl.col(values).is_null()))
            for name, members in self._turned(frame.columns).items()
        ]
        if not parts:
            return pl.DataFrame(schema=dict.fromkeys(self.columns_of(frame.columns), pl.String))
        found = pl.concat(parts, how="vertical_relaxed")
        return found.sort(order, maintain_order=True).drop(order)

    def _turned(self, columns: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the columns that become rows: by name, then by the column that gets the value."""
        found: dict[str, dict[str, str]] = {}
        for column in columns:
            if column in self.keep:
                continue
            if not self.pattern:
                found[column] = {self.value: column}
            elif (match := re.search(self.pattern, column)) is not None:
                found.setdefault(match[1], {})[match[2]] = column
        return found

    def _values(self, columns: Sequence[str]) -> list[str]:
        turned = self._turned(columns).values()
        return list(dict.fromkeys(value for members in turned for value in members))


def decode_unpivot(top: Fields) -> Unpivot | None:
    """Read `unpivot` of a map."""
    section = top.child("unpivot")
    if section is None:
        return None
    section.missing("keep", "the columns that stay, such as time")
    keep: tuple[str, ...] = tuple(section.read("keep", _NAMES) or ())
    name, value, pattern = (section.text(key) for key in ("name", "value", "pattern"))
    section.missing("name", "the column that gets the names of the others")
    if section.is_mapping and bool(value) == bool(pattern):
        got = "both" if value else "neither"
        section.mistake("", f"expected one of value and pattern, got {got}")
    if pattern:
        _check(section, pattern)
    section.close()
    return Unpivot(keep, name, value, pattern)


def _check(section: Fields, pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        section.mistake("pattern", f"expected a regular expression, got {pattern!r}: {error}")
        return
    if groups != 2:
        fix = "as in ^(.+)_(cpu|replicas)$: the name, and the column that gets the value"
        section.mistake("pattern", f"expected two groups in (brackets), got {groups}", fix)


_NAMES = ListOf(kinds.text("a column"), "a column or a list of columns")
