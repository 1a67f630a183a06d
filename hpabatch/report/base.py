"""Results: a verdict, what it rests on, tables for people, a frame and a document for programs.

What a use case returns is a subclass of `Result`, in Python and on the command line;
`report.forms` writes every form of it. This module needs the standard library only, so that the
command line can read `Output` without loading anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from html import escape
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, Self

from hpabatch.model.printable import counted

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.engine.fleet.candidates import Skipped

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S%.3fZ"
"""Timestamps in JSON and CSV, as Polars formats them: RFC 3339 with milliseconds."""


class Output(StrEnum):
    """The form of a result on stdout."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    parquet = "parquet"
    markdown = "markdown"


class CheckOutput(StrEnum):
    """The form of a result that names faults: code hosts and CI servers read two more."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    parquet = "parquet"
    markdown = "markdown"
    sarif = "sarif"
    junit = "junit"


class View(NamedTuple):
    """How a table is shown.

    Attributes:
        width: of the terminal, in characters; None: no terminal, so nothing is cut or wrapped.
        styled: with ANSI styles.
        wide: all columns and rows.
        legend: with the meaning of the columns shown; None: it is not offered either.
    """

    width: int | None = None
    styled: bool = False
    wide: bool = False
    legend: bool | None = None


class Named(Protocol):
    """A column of the registry (`engine.columns`), as heads need it."""

    @property
    def name(self) -> str:
        """Its name in frames."""

    @property
    def meaning(self) -> str:
        """Its sentence."""


class Head(NamedTuple):
    """A column on the screen.

    Attributes:
        name: in capitals.
        meaning: one sentence, for --legend and the glossary.
        value: what it shows of a row: the name or place of a field, or a function of the row.
        show: makes a cell of that.
        left: strings; numbers stand at the right.
        folds: a long cell may take several lines.
        room: width of a terminal from which on the column is shown.
        needs: a column of the table's frame; where that has no value the column is left out.
    """

    name: str
    meaning: str = ""
    value: str | int | Callable[[Any], Any] = ""
    show: Callable[[Any], str] = str
    left: bool = False
    folds: bool = False
    room: int = 0
    needs: str = ""

    @classmethod
    def of(cls, column: Named, name: str, show: Callable[[Any], str] = str, **details: Any) -> Head:
        """Return a registered column under the name it has on the screen."""
        return cls(name, column.meaning, column.name, show, **details)

    def cell(self, row: Any) -> str:
        """Return the cell of a row."""
        return self.show(self.value(row) if callable(self.value) else row[self.value])


LEAST_FOLDED: Final = 16  # characters of a column that folds on a narrow terminal
_GAP: Final = 2  # between two columns

HPA: Final = Head(
    "HPA", "namespace and name; with several clusters the cluster, too", "label",
    left=True, folds=True,
)  # fmt: skip
UNRELIABLE: Final = Head(
    "", "`?`: the row is not to be relied on", lambda row: "" if row["usable"] else "?"
)
ALL_AS_CSV: Final = "--output csv shows all"


def more(left: int, where: str = ALL_AS_CSV) -> str:
    """Return the line below rows of which some are left out, "" where none are."""
    return f"… and {left:,} more: {where}" if left > 0 else ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table on the screen.

    Attributes:
        heads: of the columns.
        rows: one string for each head.
        more: the line below a table that leaves rows out.
        with_heads: whether the heads are shown.
        styles: of each row, as rich names them; empty: none.
        quotes: cells are messages, whose backslashes are those of values they quote.
        frame: what the wide form shows instead, all columns and rows; None: it shows the same.
        columns: the registry's columns of the frame.
        dropped: names of columns for which a terminal had no room.
    """

    heads: Sequence[Head]
    rows: Sequence[Sequence[str]]
    more: str = ""
    with_heads: bool = True
    styles: Sequence[str] = ()
    quotes: bool = False
    frame: pl.DataFrame | None = None
    columns: Sequence[Named] = ()
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        heads: Sequence[Head],
        rows: pl.DataFrame | Sequence[Any],
        most: int | None = None,
        where: str = ALL_AS_CSV,
        fleet: pl.DataFrame | None = None,
        **details: Any,
    ) -> Grid:
        """Return a table of the first rows.

        Args:
            heads: its columns.
            rows: values, or a frame of HPAs, whose rows get a `label`.
            most: rows to show; None: all.
            where: what shows the others.
            fleet: the frame whose clusters labels tell apart; None: `frame`, or else `rows`.
            details: further attributes of the table.
        """
        frame: Any = details.get("frame")
        heads = [h for h in heads if not h.needs or frame[h.needs].null_count() < frame.height]
        every: Any = next((f for f in (fleet, frame) if f is not None), rows)
        shown: Any = rows if most is None else rows[:most]
        if hasattr(shown, "iter_rows"):
            many = many_clusters(every)
            shown = [row | {"label": row_label(row, many)} for row in shown.iter_rows(named=True)]
        lines = [[head.cell(row) for head in heads] for row in shown]
        return cls(heads, lines, more(len(rows) - len(lines), where), **details)

    def keep(self, chosen: Sequence[bool]) -> Grid:
        """Return the table with the chosen columns only."""
        rows = [tuple(compress(row, chosen)) for row in self.rows]
        return replace(self, heads=tuple(compress(self.heads, chosen)), rows=rows)

    def fitted(self, width: int) -> Grid:
        """Return the columns for which a terminal has room: no number is cut."""
        shown = self.keep([width >= head.room for head in self.heads])
        while len(shown.heads) > 2 and shown._least_width() > width:
            name = shown.heads[-1].name
            shown = shown.keep([True] * (len(shown.heads) - 1) + [False])
            shown = replace(shown, dropped=(name, *shown.dropped))
        return shown

    def _least_width(self) -> int:
        found = -_GAP
        for k, head in enumerate(self.heads):
            name = len(head.name) if self.with_heads else 0
            longest = max([name, *(len(row[k]) for row in self.rows)])
            found += _GAP + (max(min(longest, LEAST_FOLDED), name) if head.folds else longest)
        return found


class Rows:
    """Rows of a JSON document, written one object a line."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any]] | pl.DataFrame, time_format: str = TIME_FORMAT
    ) -> None:
        """Take mappings, or a frame, whose timestamps become strings."""
        self._rows = rows
        self._time_format = time_format

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Return the rows as mappings that JSON can hold."""
        import polars as pl

        if not isinstance(self._rows, pl.DataFrame):
            return iter(self._rows)
        from hpabatch.report.forms import with_time_strings

        return with_time_strings(self._rows, self._time_format).iter_rows(named=True)


class Line(NamedTuple):
    """A value of a JSON document that is written on one line."""

    value: object


@dataclass(frozen=True, slots=True)
class Layout:
    """How a JSON document is written: blanks before its keys, and of each level of its values."""

    keys: int = 0
    values: int = 2
    ascii_only: bool = True


class Fault(NamedTuple):
    """Something that is wrong: a finding, and what a gate does not let pass.

    Attributes:
        finding: its id in the catalogue.
        name: label of the HPA, "" of the fleet.
        text: the sentence.
        source, line: of the manifest, "" and 0 where there is none.
        ignored: an annotation says that it does not count; `text` ends with the reason.
        part: what tells several of one finding and HPA apart, such as the limit of a gate.
    """

    finding: str
    name: str
    text: str
    source: str = ""
    line: int = 0
    ignored: bool = False
    part: str = ""


class Result:
    """A result in all its forms; a subclass says what is in them.

    Attributes:
        csv_times: form of timestamps in CSV.
        layout: form of the JSON document.
        shows_verdict: forms for people begin with it.
    """

    csv_times: ClassVar[str] = TIME_FORMAT
    layout: ClassVar[Layout] = Layout()
    shows_verdict: ClassVar[bool] = True

    @classmethod
    def of(cls, computed: Any, **more: Any) -> Self:
        """Return a result that has the fields of what was computed, and more."""
        return cls(**{f.name: getattr(computed, f.name) for f in fields(computed)} | more)

    @property
    def verdict(self) -> str:
        """The result in one sentence; "": the table says it."""
        return ""

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of CSV and Parquet; docs/output.md explains the columns."""
        raise NotImplementedError

    @property
    def evidence(self) -> Mapping[str, str] | None:
        """What it rests on: versions, parameters and digests; Parquet files have it, too."""
        return None

    def body(self, view: View) -> Iterable[str | Grid]:
        """Return lines and tables below the verdict, what matters most first."""
        return ()

    def basis(self) -> Sequence[str]:
        """Return what the result rests on: rules, parameters, assumptions."""
        return ()

    def hints(self) -> Sequence[str]:
        """Return what to type next, and where files are."""
        return ()

    def document(self) -> Mapping[str, Any] | Rows:
        """Return what JSON and YAML hold; by default the frame's rows."""
        return Rows(self.frame)

    def faults(self) -> Iterable[Fault]:
        """Return what SARIF and JUnit hold, of a command that has these forms."""
        return ()

    def own(self, output: Output, view: View) -> str | bytes | None:
        """Return a form that follows another program, such as kubectl; None: the usual one."""
        return None

    def __repr__(self) -> str:
        """Return the verdict."""
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the verdict and the frame, for notebooks."""
        return f"<p>{escape(self.verdict)}</p>\n{self.frame._repr_html_()}"


def label(cluster: str, namespace: str, hpa: str, *, with_cluster: bool = False) -> str:
    """Return `namespace/hpa`, with the cluster in front where there are several."""
    return "/".join(part for part in (cluster if with_cluster else "", namespace, hpa) if part)


def row_label(row: Mapping[str, Any], many: bool) -> str:
    """Return the label of a frame's row; `many`: there are several clusters."""
    return label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)


def skipped_line(skipped: Sized) -> Iterator[str]:
    """Yield how many HPAs were left out, if any were."""
    if len(skipped):
        yield f"skipped: {counted(len(skipped), 'HPA')} (why: on stderr)"


def skipped_rows(skipped: Iterable[Skipped]) -> Rows:
    """Return the HPAs that were left out, each with the reason, as a document has them."""
    return Rows(
        {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
        for s in skipped
    )


def many_clusters(hpas: pl.DataFrame) -> bool:
    """Say whether a frame of HPAs is of several clusters."""
    return len({*hpas["cluster"].unique()} - {""}) > 1


def plain(text: str) -> str:
    """Return a string that every encoding takes: a file's name may hold other bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")
