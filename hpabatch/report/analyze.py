"""The result of `hpabatch analyze`: what the specs of HPAs amount to, one row per HPA.

JSON has everything, CSV and Parquet one row per HPA and metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.analyze.loop import Ramp
from hpabatch.engine.analyze.map import Piece
from hpabatch.engine.analyze.remarks import Remark, ramp_text
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis, TimedCycle
from hpabatch.engine.columns.history import ANALYSIS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration
from hpabatch.report import base
from hpabatch.report.analyze_one import hpa_parts, several_share, stay_text, target_text
from hpabatch.report.base import Grid, Head, Layout, Result, Rows, View, label, plain

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
HEADS: Final = (
    base.HPA._replace(value=lambda item: item.name),
    Head("RANGE", "minReplicas to maxReplicas",
         lambda item: f"{item.analysis.lowest}-{item.analysis.highest}"),
    Head("METRIC", "the metric that the row describes; +1: there is one more",
         lambda item: _short_signal(item), left=True, folds=True),
    Head("TARGET", "the metric's target", lambda item: target_text(item.metric)),
    Head("STAY MIN", "the usage of a pod at which the metric asks for the same size, at "
         "minReplicas; in percent of the request, else in targets (x)",
         lambda item: stay_text(item.metric, max(item.analysis.lowest, 1))),
    Head("MID", "the size in the middle of the range", lambda item: item.analysis.middle, room=140),
    Head("STAY MID", "the same in the middle of the range",
         lambda item: stay_text(item.metric, item.analysis.middle), room=140),
    Head("STAY MAX", "the same at maxReplicas",
         lambda item: stay_text(item.metric, item.analysis.highest)),
    Head("UP", "the fastest way from minReplicas to maxReplicas: held by windows + moving",
         lambda item: ramp_text(item.analysis.up)),
    Head("DOWN", "the fastest way from maxReplicas to minReplicas: held by windows + moving",
         lambda item: ramp_text(item.analysis.down)),
    Head("CYCLE", "sizes among which constant demand makes the HPA oscillate",
         lambda item: _cycle_text(item.analysis), room=120),
)  # fmt: skip
_LONGEST_SIGNAL: Final = 40  # characters


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

    @property
    def metric(self) -> MetricAnalysis:
        """The metric that the table shows: the first that can be computed."""
        metrics = self.analysis.metrics
        return next((metric for metric in metrics if not metric.error), metrics[0])


@dataclass(frozen=True, repr=False)
class StaticAnalysis(Result):
    """What specs amount to: dead bands, cycles, the fastest ways between the bounds.

    Attributes:
        k8s, sync_ms, base_pct, request_milli: what was assumed of each HPA.
        hpas: an analysis for each HPA in the order of the input, with remarks.
        skipped: HPAs whose spec is refused.
        one: the screen is about the first HPA.
    """

    k8s: str
    sync_ms: int
    base_pct: Mapping[str, int]
    request_milli: Mapping[str, int]
    hpas: Sequence[Analyzed]
    skipped: Sequence[Skipped] = ()
    one: bool = False
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        """How many remarks there are, or what the one HPA scales."""
        if self.one:
            item = self.hpas[0]
            target = item.hpa.spec.scale_target_ref
            return (
                f"{item.name}: scales {target.kind}/{target.name} ({item.source}:{item.line}); "
                f"{counted(len(item.remarks), 'remark')}"
            )
        count = self.remarks.height
        words = counted(count, "remark") if count else "nothing stands out"
        left_out = f", {len(self.skipped)} left out" if self.skipped else ""
        return f"{counted(len(self.hpas), 'HPA')}: {words}{left_out}"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per HPA and metric; `source` is the cluster of a recorded HPA."""
        rows = [row for item in self.hpas for row in _flat_rows(item)]
        return pl.DataFrame(rows, schema=ANALYSIS.schema)

    @property
    def remarks(self) -> pl.DataFrame:
        """One row per remark: source, namespace, hpa, code and sentence."""
        rows = [
            (item.source, item.hpa.namespace, item.hpa.name, remark.code, remark.text)
            for item in self.hpas
            for remark in item.remarks
        ]
        names = ("source", "namespace", "hpa", "code", "text")
        return pl.DataFrame(rows, dict.fromkeys(names, pl.String()), orient="row")

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate remarks and HPAs, or the metrics of the one."""
        if self.one:
            yield from hpa_parts(self.hpas[0].analysis, self.hpas[0].remarks)
            return
        told = [(item.name, remark) for item in self.hpas for remark in item.remarks]
        if told:
            yield f"Remarks ({len(told)}):"
            width = max(len(name) for name, _ in told)
            yield from (f"  {printable(name).ljust(width)}  {r.text}" for name, r in told)
            yield ""
        yield Grid.of(HEADS, self.hpas, frame=self.frame, columns=ANALYSIS.columns)

    def basis(self) -> list[str]:
        """Return rules and parameters."""
        if not self.one:
            return [f"rules of Kubernetes {self.k8s}; each metric alone; -o json has all of them"]
        analysis = self.hpas[0].analysis
        return [
            f"{analysis.lowest} to {analysis.highest} replicas; tolerance "
            f"{analysis.down_tolerance:g} down, {analysis.up_tolerance:g} up; a sync every "
            f"{show_duration(self.sync_ms)}; rules of Kubernetes {self.k8s}"
        ]

    def document(self) -> dict[str, Any]:
        """Return everything; an HPA is a line."""
        return {
            "k8s": self.k8s,
            "sync_period_ms": self.sync_ms,
            "base_pct": dict(self.base_pct),
            "request_milli": dict(self.request_milli),
            "hpas": Rows(_hpa_json(item) for item in self.hpas),
        }


# ---- table --------------------------------------------------------------------------------------


def _short_signal(item: Analyzed) -> str:
    """Return a signal that fits a column, without the kind of a resource: `cpu`."""
    short = item.metric.signal.removeprefix("resource/")
    if len(short) > _LONGEST_SIGNAL:
        short = f"{short[: _LONGEST_SIGNAL - 1]}…"
    others = len(item.analysis.metrics) - 1
    return short + (f" +{others}" if others else "")


def _cycle_text(analysis: Analysis) -> str:
    found = [timed.cycle for metric in analysis.metrics for timed in metric.cycles]
    if not found:
        return "-"
    sizes = ",".join(str(size) for size in found[0].members)
    return sizes + (f" +{len(found) - 1}" if len(found) > 1 else "")


# ---- JSON ----------------------------------------------------------------------------------------


def _hpa_json(item: Analyzed) -> dict[str, object]:
    analysis = item.analysis
    return _identity(item) | {
        "middle_replicas": analysis.middle,
        "can_grow": analysis.moves.grows,
        "can_shrink": analysis.moves.shrinks,
        "up": _ramp_json(analysis.up),
        "down": _ramp_json(analysis.down),
        "metrics": [_metric_json(metric) for metric in analysis.metrics],
        "remarks": [asdict(remark) for remark in item.remarks],
    }


def _identity(item: Analyzed) -> dict[str, object]:
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
    unknown = metric.divides is None
    return _measured(metric) | {
        "divides": metric.divides,
        "complete": metric.complete,
        "error": metric.error,
        "dead_bands": [asdict(band) for band in metric.bands],
        "smallest": None if metric.smallest is None else asdict(metric.smallest),
        "resting": None if unknown else [_piece_json(piece) for piece in metric.pieces],
        "cycles": None if unknown else [_cycle_json(timed) for timed in metric.cycles],
    }


def _measured(metric: MetricAnalysis) -> dict[str, object]:
    """Return what a metric is of, its target, and what a pod is taken to request and to use."""
    names = ("target_pct", "target_milli", "request_milli", "base_milli")
    kind = {"signal": plain(metric.signal), "target_type": KINDS[metric.kind]}
    return kind | {name: getattr(metric, name) for name in names}


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


# ---- CSV, Parquet --------------------------------------------------------------------------------


def _flat_rows(item: Analyzed) -> Iterator[dict[str, object]]:
    analysis = item.analysis
    common = _identity(item) | {
        "middle_replicas": analysis.middle,
        **_flat_ramp("up", analysis.up),
        **_flat_ramp("down", analysis.down),
        "remarks": "; ".join(plain(remark.text) for remark in item.remarks),
    }
    for index, metric in enumerate(analysis.metrics):
        yield common | {"metric_index": index} | _flat_metric(analysis, metric)


def _flat_ramp(name: str, ramp: Ramp | None) -> dict[str, object]:
    if ramp is None:
        return {}
    told = {n: getattr(ramp, n) for n in ("ended", "hold_ms", "reached_ms")}
    return {f"{name}_{n}": value for n, value in (told | {"steps": len(ramp.steps)}).items()}


def _flat_metric(analysis: Analysis, metric: MetricAnalysis) -> dict[str, object]:
    row = _measured(metric) | {
        "error": metric.error,
        "cycles": None if metric.divides is None else len(metric.cycles),
        "several_resting_share": several_share(metric),
    }
    sizes = (max(analysis.lowest, 1), analysis.middle, analysis.highest)
    for place, size in zip(("min", "middle", "max"), sizes, strict=True):
        if (band := metric.band(size)) is not None:
            edges = asdict(band)
            row |= {f"{place}_{n}": edges[n] for n in edges if n not in ("size", "empty")}
    if metric.pieces:
        row["most_resting_sizes"] = max(piece.sizes for piece in metric.pieces)
    if metric.cycles:
        first = _cycle_json(metric.cycles[0])
        row |= {f"cycle_{n}": first[n] for n in ("low_milli", "high_milli", "period_ms")}
        row["cycle_members"] = " ".join(map(str, metric.cycles[0].cycle.members))
    return row
