"""Results of imports; the preview of a dry run, and what an import assumed in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from hpabatch.model.printable import counted
from hpabatch.report.base import Grid, Layout, Result, View, more
from hpabatch.report.forms import frame_grid

if TYPE_CHECKING:
    from hpabatch.importers.prometheus import result as prometheus
    from hpabatch.importers.table import run as table

_LAYOUT: Final = Layout(1, 1, ascii_only=False)
_SHOWN_WORKLOADS: Final = 20
_PREVIEW_WORKLOADS: Final = 3
_SAMPLE_ROWS: Final = 3
_SAMPLES: Final = ("pod_metrics", "pod_custom_metrics")
_SAMPLE_COLUMNS: Final = ("target", "pod", "container", "metric", "ts", "cpu_milli",
                          "memory_bytes", "value_milli")  # fmt: skip
# Parts of sentences that `assumed` has, the one with the largest consequence first.
_CONSEQUENCES: Final = (
    "no cpu request", "requests are the limits", "has no HPA", " is in ", "whole units",
    "lives.ready_after", "namespace", "recorded sizes", "no window", "minReplicas",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class TableImport(Result):
    """An import of tables; of a dry run, what would be imported.

    Attributes:
        result: rows read, left out and written, assumptions and warnings.
        out: the store; None: a dry run.
    """

    result: table.ImportResult
    out: str | None
    layout: ClassVar[Layout] = _LAYOUT
    shows_verdict: ClassVar[bool] = False  # stderr says more

    @property
    def verdict(self) -> str:
        result = self.result
        written = ", ".join(f"{count:,} {name}" for name, count in result.written.items())
        where = f"{self.out}: " if self.out else "nothing is written (dry run); it would be "
        told = f"{where}{written or 'nothing new'} from {counted(result.rows_read, 'row')}"
        dropped = sum(result.dropped.values())
        return told + (f", {dropped:,} left out" if dropped else "")

    @property
    def frame(self) -> pl.DataFrame:
        return self.result.workloads

    def body(self, view: View) -> Iterator[str | Grid]:
        frame, most = self.frame, _SHOWN_WORKLOADS
        if frame.is_empty() and self.out is not None:
            return
        shown = frame
        if self.out is None:
            yield from _preview(self.result, whole=bool(view.legend))
            if not (view.legend or view.wide):
                most = _PREVIEW_WORKLOADS
                # (one cluster needs no name)
                shown = frame.drop("cluster") if frame["cluster"].n_unique() <= 1 else frame
        yield replace(frame_grid(shown.head(most)), more=more(frame.height - most), frame=frame)

    def document(self) -> dict[str, Any]:
        result = self.result
        return {
            "files": result.files,
            "rows_read": result.rows_read,
            "rows_excluded": result.rows_excluded,
            "dropped": result.dropped,
            "first_dropped": result.places,
            "duplicates": result.duplicates,
            "written": result.written,
            "resumed_parts": result.resumed,
            "assumed": result.assumed,
            "warnings": result.warnings,
            "dry_run": self.out is None,
            "workloads": result.workloads.to_dicts(),
            "first_rows": {name: frame.to_dicts() for name, frame in result.first.items()},
        }

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the map leaves open, and what was taken for it."""
        return self.result.assumed

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.result.warnings


@dataclass(frozen=True, repr=False)
class TableMap(Result):
    """A map that `init` proposes.

    Attributes:
        text: the map (YAML), with a comment where something is assumed.
        assumed: what it assumes.
        path: the file that it was written to; None: none was named.
    """

    text: str
    assumed: tuple[str, ...]
    path: str | None

    @property
    def verdict(self) -> str:
        return f"{self.path or 'a map'}: {counted(len(self.assumed), 'assumption')}"

    @property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame({"assumed": list(self.assumed)}, schema={"assumed": pl.String})


@dataclass(frozen=True, repr=False)
class PrometheusImport(Result):
    """An import from Prometheus.

    Attributes:
        result: windows, rows, findings and warnings.
        out: the store.
    """

    result: prometheus.ImportResult
    out: str
    layout: ClassVar[Layout] = _LAYOUT
    shows_verdict: ClassVar[bool] = False  # stderr says more

    @property
    def verdict(self) -> str:
        tables = ", ".join(f"{n:,} {name}" for name, n in sorted(self.result.written.items()))
        return f"{self.out}: {counted(self.result.windows, 'window')}: {tables or 'nothing new'}"

    @property
    def frame(self) -> pl.DataFrame:
        return self.result.places

    def body(self, view: View) -> Iterator[str | Grid]:
        if self.frame.height:
            yield frame_grid(self.frame)

    def document(self) -> dict[str, Any]:
        return self.result.as_dict()

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self.result.warnings())


def assumed_line(assumed: Sequence[str]) -> str:
    """Return what was assumed in one line that names what matters most, "" for nothing."""
    if len(assumed) < 2:
        return "".join(assumed)
    first = next((s for part in _CONSEQUENCES for s in assumed if part in s), assumed[0])
    return f"{first}; and {len(assumed) - 1} more: -v lists them"


def _preview(result: table.ImportResult, *, whole: bool) -> Iterator[str | Grid]:
    """Generate first rows: of the samples, or (`whole`) of all tables."""
    if whole:
        for name, frame in result.first.items():
            yield from (f"first rows of {name}:", frame_grid(frame), "")
        return
    for name in _SAMPLES:
        if name in result.first:
            yield f"first rows of {name} (-v: of all tables):"
            yield frame_grid(_short_rows(result.first[name]))
            yield ""
            break


def _short_rows(frame: pl.DataFrame) -> pl.DataFrame:
    names = [name for name in _SAMPLE_COLUMNS if name in frame.columns]
    return frame.select(n for n in names if frame[n].null_count() < frame.height).head(_SAMPLE_ROWS)
