"""What `hpabatch analyze` found, as a table or JSON.

Pure functions of a `Findings`. The table has one row per HPA and the remarks below; JSON has
everything. `report.analyze_flat` has CSV and Parquet, `report.analyze_screen` shows one HPA.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from hpabatch.engine.analyze.loop import Ramp
from hpabatch.engine.analyze.map import Band, Piece
from hpabatch.engine.analyze.remarks import Remark, ramp_text
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis, TimedCycle
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.extras import json_rows
from hpabatch.report.texts import label

KINDS: Final = {
    codes.RESOURCE_UTILIZATION: "utilization",
    codes.RESOURCE_AVERAGE: "average",
    codes.PODS_AVERAGE: "average",
    codes.OBJECT_VALUE: "value",
    codes.OBJECT_AVERAGE: "average",
    codes.EXTERNAL_VALUE: "value",
    codes.EXTERNAL_AVERAGE: "average",
    codes.METRIC_UNUSABLE: "unusable",
}
_LEGEND: Final = (
    "STAY: the usage of a pod for which the metric asks for just as many, at minReplicas, in the "
    "middle (MID) and at maxReplicas;\nin % of the request, else in targets (x). UP, DOWN: the "
    "fastest way from bound to bound, from the first sync that asks for it: held by windows + "
    "moving.\nCYCLE: sizes among which a constant demand keeps it going round. Each metric alone; "
    "-o json has all of them."
)


@dataclass(frozen=True, slots=True)
class Analyzed:
    """One HPA, where it was read, and what its spec amounts to."""

    source: str
    line: int
    hpa: HPA
    analysis: Analysis
    remarks: tuple[Remark, ...]

    @property
    def name(self) -> str:
        """The name for people."""
        return label("", self.hpa.namespace, self.hpa.name or f"{self.hpa.generate_name}*")


@dataclass(frozen=True, slots=True)
class Findings:
    """All HPAs in the order of the input, and what was assumed of every one."""

    k8s: str
    sync_ms: int
    base_pct: int
    request_milli: Mapping[str, int]
    hpas: Sequence[Analyzed]


# ---- table ---------------------------------------------------------------------------------------


_HEADS = (
    "HPA", "RANGE", "METRIC", "TARGET", "STAY MIN", "MID", "STAY MID", "STAY MAX", "UP", "DOWN",
    "CYCLE",
)  # fmt: skip
_LEFT: Final = (0, 2)  # columns that are texts
_LONGEST_SIGNAL: Final = 40  # characters


def to_table(findings: Findings, width: int | None = None) -> str:
    """Return the text for people; `width` of the terminal, None: nothing is folded."""
    rows = [_HEADS, *(_row(item) for item in findings.hpas)]
    lines = list(_aligned(rows))
    if width is not None and max(map(len, lines)) > width:
        lines = _folded(rows, width)
    lines += ["", _LEGEND]
    told = [(item.name, remark) for item in findings.hpas for remark in item.remarks]
    lines += ["", f"Remarks ({len(told)}):" if told else "Nothing stands out."]
    width = max((len(name) for name, _ in told), default=0)
    lines += [f"  {printable(name).ljust(width)}  {printable_line(r.text)}" for name, r in told]
    return "\n".join(lines) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Generate lines of cells in columns; all but names flush right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (
            cell.ljust(width) if k in _LEFT else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(padded).rstrip()


def _folded(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the same in so many characters, cells folded."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for k, head in enumerate(rows[0]):
        is_text = k in _LEFT
        justify: Literal["left", "right"] = "left" if is_text else "right"
        table.add_column(head, justify=justify, overflow="fold", no_wrap=not is_text)
    for row in rows[1:]:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def _row(item: Analyzed) -> list[str]:
    analysis = item.analysis
    usable = [metric for metric in analysis.metrics if not metric.error]
    metric = (usable or list(analysis.metrics))[0]
    others = len(analysis.metrics) - 1
    return [
        item.name,
        f"{analysis.lowest}-{analysis.highest}",
        _short_signal(metric.signal) + (f" +{others}" if others else ""),
        target_text(metric),
        stay_text(metric, max(analysis.lowest, 1)),
        str(analysis.middle),
        stay_text(metric, analysis.middle),
        stay_text(metric, analysis.highest),
        ramp_text(analysis.up),
        ramp_text(analysis.down),
        _cycle_text(analysis),
    ]


def _short_signal(signal: str) -> str:
    """Return a signal that fits a column, without the kind where that is no news: `cpu`."""
    short = signal.removeprefix("resource/")
    return short if len(short) <= _LONGEST_SIGNAL else f"{short[: _LONGEST_SIGNAL - 1]}…"


def target_text(metric: MetricAnalysis) -> str:
    """Return a target as a manifest has it: `70%`, `500m`."""
    if metric.target_pct is not None:
        return f"{metric.target_pct}%"
    return "-" if metric.target_milli is None else amount_text(metric, metric.target_milli)


def amount_text(metric: MetricAnalysis, milli: int) -> str:
    """Return an amount of a metric's unit, memory in Mi."""
    if metric.signal.endswith("/memory"):
        return f"{milli / 1000 / 2**20:.4g}Mi"
    return f"{milli}m" if 0 < milli < 1000 else f"{milli / 1000:.6g}"


def stay_text(metric: MetricAnalysis, size: int) -> str:
    """Return the dead band at a size: `63-77%`, `0.9-1.1x` (of the target), `none`, `any`."""
    band = metric.band(size)
    if band is None:
        return "-"
    return "none" if band.empty else _range_text(metric, band)


def _range_text(metric: MetricAnalysis, band: Band) -> str:
    if band.high_milli is None:
        return "any"
    if metric.target_pct is not None:
        return f"{_edges(str(band.low_pct), str(band.high_pct))}%"
    target = (metric.target_milli or 1) * _pods_counted(metric, band.size)
    low, high = (round(edge / target, 2) for edge in (band.low_milli or 0, band.high_milli))
    return f"{_edges(f'{low:g}', f'{high:g}')}x"


def _edges(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


def _pods_counted(metric: MetricAnalysis, size: int) -> int:
    """Return the pods among which a value is divided before it is held against the target."""
    by_pod = metric.kind in (codes.OBJECT_AVERAGE, codes.EXTERNAL_AVERAGE)
    return max(size, 1) if by_pod else 1


def _cycle_text(analysis: Analysis) -> str:
    found = [timed.cycle for metric in analysis.metrics for timed in metric.cycles]
    if not found:
        return "-"
    sizes = ",".join(str(size) for size in found[0].members)
    return sizes + (f" +{len(found) - 1}" if len(found) > 1 else "")


def several_share(metric: MetricAnalysis) -> float | None:
    """Return the share of demands with more than one resting size, None without such pieces.

    Counted from 0 to where the last piece, which has no end, begins.
    """
    if not metric.pieces or not metric.pieces[-1].low_milli:
        return None
    lengths = [
        (piece.high_milli + 1 - piece.low_milli, piece.sizes)
        for piece in metric.pieces
        if piece.high_milli is not None
    ]
    return sum(n for n, sizes in lengths if sizes > 1) / sum(n for n, _ in lengths)


# ---- JSON ----------------------------------------------------------------------------------------


def to_json(findings: Findings) -> str:
    """Return one JSON object with everything; an HPA is a line."""
    head = {
        "k8s": findings.k8s,
        "sync_period_ms": findings.sync_ms,
        "base_pct": findings.base_pct,
        "request_milli": dict(findings.request_milli),
    }
    body = json.dumps(head, indent=2)[:-2]
    return f'{body},\n  "hpas": {json_rows(_hpa_json(item) for item in findings.hpas)}\n}}\n'


def _hpa_json(item: Analyzed) -> dict[str, object]:
    analysis = item.analysis
    return identity(item) | {
        "middle_replicas": analysis.middle,
        "can_grow": analysis.moves.grows,
        "can_shrink": analysis.moves.shrinks,
        "up": _ramp_json(analysis.up),
        "down": _ramp_json(analysis.down),
        "metrics": [_metric_json(metric) for metric in analysis.metrics],
        "remarks": [asdict(remark) for remark in item.remarks],
    }


def identity(item: Analyzed) -> dict[str, object]:
    """Return what names an HPA, and its bounds."""
    hpa, analysis = item.hpa, item.analysis
    return {
        "source": plain(item.source),
        "line": item.line,
        "namespace": plain(hpa.namespace),
        "hpa": plain(hpa.name or f"{hpa.generate_name}*"),
        "target_kind": plain(hpa.spec.scale_target_ref.kind),
        "target": plain(hpa.spec.scale_target_ref.name),
        "min_replicas": analysis.lowest,
        "max_replicas": analysis.highest,
        "has_behavior": analysis.has_behavior,
        "tolerance_down": analysis.down_tolerance,
        "tolerance_up": analysis.up_tolerance,
    }


def plain(text: str) -> str:
    """Return text that every encoding takes: a file's name may hold other bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _ramp_json(ramp: Ramp | None) -> dict[str, object] | None:
    if ramp is None:
        return None
    return {
        "from": ramp.first_size,
        "to": ramp.last_size,
        "ended": ramp.ended,
        "hold_ms": ramp.hold_ms,
        "reached_ms": ramp.reached_ms,
        "steps": [{"ms": ms, "replicas": size} for ms, size in ramp.steps],
    }


def _metric_json(metric: MetricAnalysis) -> dict[str, object]:
    return {
        "signal": plain(metric.signal),
        "target_type": KINDS[metric.kind],
        "target_pct": metric.target_pct,
        "target_milli": metric.target_milli,
        "request_milli": metric.request_milli,
        "base_milli": metric.base_milli,
        "divides": metric.per_pod,
        "complete": metric.complete,
        "error": metric.error,
        "dead_bands": [asdict(band) for band in metric.bands],
        "resting": [_piece_json(piece) for piece in metric.pieces],
        "cycles": [_cycle_json(timed) for timed in metric.cycles],
    }


def _piece_json(piece: Piece) -> dict[str, object]:
    return {
        "low_milli": piece.low_milli,
        "high_milli": piece.high_milli,
        "runs": [list(run) for run in piece.runs],
    }


def _cycle_json(timed: TimedCycle) -> dict[str, object]:
    settled = timed.settled
    return {
        "low_milli": timed.cycle.low_milli,
        "high_milli": timed.cycle.high_milli,
        "members": list(timed.cycle.members),
        "period_ms": None if settled is None else settled.period_ms,
        "runs": None
        if settled is None
        else [{"replicas": size, "ms": ms} for size, ms in settled.runs],
    }
