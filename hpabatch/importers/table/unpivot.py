"""Wide and long tables: `unpivot` of a map turns columns into rows, `pivot` rows into columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Scalar, WrongValueError, key
from hpabatch.inputs.documents import Place


def _two_groups(text: str) -> str:
    try:
        groups = re.compile(kinds.text().parse(text)).groups
    except re.error as error:
        raise ValueError(f"expected a regular expression, got {text!r}: {error}") from None
    if groups != 2:
        fix = "as in ^(.+)_(cpu|replicas)$: the name, and the column that gets the value"
        raise WrongValueError(f"expected two groups in (brackets), got {groups}", fix)
    return text


@dataclass(frozen=True, slots=True)
class Unpivot:
    """The columns of `keep` stay; each other column becomes rows, empty cells none.

    `name` gets the column's name and `value` its value. With `pattern`, only columns that match
    become rows: `name` gets the first group, and the second one is the column that gets the value.
    """

    keep: tuple[str, ...] = key(
        "keep", ListOf(kinds.text("a column"), "the columns that stay, such as time")
    )
    name: str = key("name", kinds.text("the column that gets the names of the others"))
    value: str = key("value", kinds.text(), "", "")
    pattern: str = key("pattern", Scalar("a regular expression", _two_groups), "", "")

    def checked(self, place: Place) -> Unpivot:
        """Refuse (MistakesError) both or none of value and pattern."""
        if bool(self.value) == bool(self.pattern):
            got = "both" if self.value else "neither"
            place.refuse(f"expected one of value and pattern, got {got}")
        return self

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
        # Each expression on a wide frame takes as long as it has columns: so none per column.
        series = {column.name: column for column in frame.with_row_index(order).get_columns()}
        empty = pl.Series(values=[None] * frame.height)
        parts = [
            pl.DataFrame(
                [
                    *(series[kept] for kept in (order, *self.keep)),
                    pl.repeat(name, frame.height, eager=True).alias(self.name),
                    *(series.get(members.get(value, ""), empty).alias(value) for value in values),
                ]
            )
            for name, members in self._turned(frame.columns).items()
        ]
        if not parts:
            return pl.DataFrame(schema=dict.fromkeys(self.columns_of(frame.columns), pl.String))
        found = pl.concat(parts, how="vertical_relaxed")
        found = found.filter(~pl.all_horizontal(pl.col(values).is_null()))
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


@dataclass(frozen=True, slots=True)
class Pivot:
    """A long table, a row per metric: `name` has the metric of a row and `value` its value.

    The map names a metric as if it were a column.
    """

    name: str = key("name", kinds.text("the column with the metric of a row"))
    value: str = key("value", kinds.text("the column with its value"))

    def checked(self, place: Place) -> Pivot:
        """Refuse (MistakesError) one column in the place of two."""
        if self.name == self.value:
            place.refuse(f"expected two columns, got {self.name} twice")
        return self

    def describe(self) -> str:
        """Return a description for people."""
        return f"the values of {self.name} become columns, with what {self.value} says"

    def metrics(self, values: Collection[str], columns: Collection[str]) -> list[str]:
        """Return those of a map's names of values that are metrics, as they are no columns."""
        return [name for name in values if name not in columns]

    def apply(self, frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        """Return the rows of some metrics, each with its value in the column of its metric."""
        name = pl.col(self.name).cast(pl.String)
        values = [pl.when(name == metric).then(self.value).alias(metric) for metric in metrics]
        return frame.filter(name.is_in(list(metrics))).with_columns(values)
