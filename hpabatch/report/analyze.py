"""The result of `hpabatch analyze`: what the specs of HPAs amount to, one row per HPA.

JSON has everything, CSV and Parquet one row per HPA and metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.analyze.loop import REACHED, STUCK, Ramp
from hpabatch.engine.analyze.map import Band, Piece
from hpabatch.engine.analyze.remarks import Remark, ramp_text
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis, TimedCycle
from hpabatch.engine.analyze.smallest import Smallest
from hpabatch.engine.columns.history import ANALYSIS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration
from hpabatch.report import base
from hpabatch.report.base import Grid, Head, Layout, Result, Rows, View, label, plain
from hpabatch.report.numbers import memory

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
        return label("", self.hpa.namespace, self.hpa.shown_name)

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
        if not self.one:
            return [f"rules of Kubernetes {self.k8s}; each metric alone; -o json has all of them"]
        analysis = self.hpas[0].analysis
        return [
            f"{analysis.lowest} to {analysis.highest} replicas; tolerance "
            f"{analysis.down_tolerance:g} down, {analysis.up_tolerance:g} up; a sync every "
            f"{show_duration(self.sync_ms)}; rules of Kubernetes {self.k8s}"
        ]

    def document(self) -> dict[str, Any]:
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
        "hpa": plain(hpa.shown_name),
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
        "resting": None if unknown else [asdict(piece) for piece in metric.pieces],
        "cycles": None if unknown else [_cycle_json(timed) for timed in metric.cycles],
    }


def _measured(metric: MetricAnalysis) -> dict[str, object]:
    """Return what a metric is of, its target, and what a pod is taken to request and to use."""
    names = ("target_pct", "target_milli", "request_milli", "base_milli")
    kind = {"signal": plain(metric.signal), "target_type": KINDS[metric.kind]}
    return kind | {name: getattr(metric, name) for name in names}


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


# ---- one HPA: the lines of --hpa -----------------------------------------------------------------

_SHOWN_SIZES: Final = 40
_SHOWN_STEPS: Final = 12
_SHOWN_CYCLES: Final = 5
BAND_HEADS: Final = (
    Head("PODS", "number of pods"),
    Head("STAY AT", "the usage of a pod at which this size stays"),
    Head("TOTAL FROM", "the total usage from which on this size stays"),
    Head("TO BELOW", "the total usage below which this size stays"),
    Head("UP TO", "the nearest larger size that the metric asks for"),
    Head("DOWN TO", "the nearest smaller size that the metric asks for"),
)


def hpa_parts(analysis: Analysis, remarks: Sequence[Remark]) -> Iterator[str | Grid]:
    """Generate the metrics, the ways up and down, and the remarks."""
    for metric in analysis.metrics:
        yield from _metric_lines(analysis, metric)
        yield ""
    yield from _ramp_lines("up", analysis.up)
    yield from _ramp_lines("down", analysis.down)
    yield ""
    yield "Remarks:" if remarks else "Nothing stands out."
    yield from (f"  {remark.text}" for remark in remarks)


# ---- one metric ----------------------------------------------------------------------------------


def _metric_lines(analysis: Analysis, metric: MetricAnalysis) -> Iterator[str | Grid]:
    yield f"{metric.signal}, target {target_text(metric)}: {_assumption(metric)}"
    if metric.error:
        yield f"  can never be computed: {metric.error}"
        return
    shown = _shown(analysis, metric)
    yield Grid(BAND_HEADS, [_band_row(metric, band) for band in shown])
    if len(shown) < len(metric.bands):
        sizes = f"{metric.bands[0].size} to {metric.bands[-1].size}"
        yield f"  {len(shown)} of the sizes {sizes}: --at-size N adds another, -o json has all"
    if metric.smallest is not None:
        yield from _smallest_lines(analysis, metric, metric.smallest)
    if metric.divides is not None:
        yield from _resting_lines(metric)
        yield from _cycle_lines(metric)


def _assumption(metric: MetricAnalysis) -> str:
    if not metric.per_pod:
        return "a constant value, whatever the number of replicas"
    parts = ["a constant total that divides among the pods"]
    if metric.divides is None:
        parts = ["whether pods share it is not known"]
    if metric.request_milli is not None:
        parts.append(f"each taken to request {amount_text(metric, metric.request_milli)}")
    if metric.base_milli:
        parts.append(f"and using {amount_text(metric, metric.base_milli)} without any work")
    return ", ".join(parts)


def _shown(analysis: Analysis, metric: MetricAnalysis) -> Sequence[Band]:
    """Return the bands to show: all, or a selection that thins out, with the last."""
    bands = metric.bands
    if len(bands) <= _SHOWN_SIZES:
        return bands
    wanted = {analysis.lowest, analysis.middle, analysis.highest, *_sizes_that_matter(metric)}
    size = float(analysis.lowest)
    while size < bands[-1].size:
        wanted.add(round(size))
        size = max(size + 1, size * (analysis.highest / max(analysis.lowest, 1)) ** (1 / 16))
    return [band for band in bands if band.size in wanted]


def _sizes_that_matter(metric: MetricAnalysis) -> Iterator[int]:
    """Yield the sizes that the lines below the table name."""
    smallest = metric.smallest
    if smallest is None:
        return
    if smallest.asked is not None:
        yield smallest.asked.size
    for size in (smallest.pod_more, smallest.unit_more, *(smallest.below_max or ())):
        if size is not None:
            yield size


def _band_row(metric: MetricAnalysis, band: Band) -> tuple[str, ...]:
    stay = stay_text(metric, band.size)
    goals = tuple("-" if goal is None else str(goal) for goal in (band.up_to, band.down_to))
    if band.empty or metric.divides is None:
        return str(band.size), stay, "-", "-", *goals
    if metric.per_pod:
        low = max((band.low_milli or 0) - metric.base_milli, 0) * band.size
        high = None
        if band.high_milli is not None:
            high = max(band.high_milli + 1 - metric.base_milli, 0) * band.size
    else:
        low, high = band.low_milli or 0, None if band.high_milli is None else band.high_milli + 1
    above = "-" if high is None else _total(metric, high)
    return str(band.size), stay, _total(metric, low), above, *goals


def _total(metric: MetricAnalysis, milli: int) -> str:
    """Return a total: in requests of a pod for utilization, else in the metric's unit."""
    if metric.request_milli is not None:
        return f"{milli / metric.request_milli:.4g} requests"
    return amount_text(metric, milli)


def _smallest_lines(
    analysis: Analysis, metric: MetricAnalysis, smallest: Smallest
) -> Iterator[str]:
    """Generate what tolerance and rounding up keep where it is."""
    asked = smallest.asked
    band = None if asked is None else metric.band(asked.size)
    if asked is not None and band is not None:
        yield f"  {asked}; {_stay_words(metric, band)}"
    if smallest.pod_more is not None:
        size = counted(smallest.pod_more, "pod")
        text = f"  from {size} on the work of one pod more changes nothing"
        if smallest.unit_more is not None and smallest.unit_more < smallest.pod_more:
            target = target_text(metric)
            text += f", from {smallest.unit_more} on one more than {target} x pods"
        yield text
    if smallest.below_max is not None:
        fits = _total(metric, smallest.fits_milli)
        yield (
            f"  maxReplicas {analysis.highest}: at a total of {fits}, which it fits, "
            f"these sizes stay: {_run_text(smallest.below_max)}"
        )


def _run_text(run: tuple[int, int]) -> str:
    first, last = run
    return str(first) if first == last else f"{first} to {last}"


def _stay_words(metric: MetricAnalysis, band: Band) -> str:
    if band.empty:
        return "no usage keeps it"
    row = _band_row(metric, band)
    if band.high_milli is None:
        return "any usage keeps it"
    if metric.per_pod:
        return f"it stays at {row[1]}"
    low, high = (amount_text(metric, milli) for milli in (band.low_milli or 0, band.high_milli))
    return f"it stays from {low} to {high}"


def _resting_lines(metric: MetricAnalysis) -> Iterator[str]:
    share = several_share(metric)
    if share is None:
        return
    if not share:
        yield "  every constant total has at most one size at which it rests"
        return
    most: Piece = max(metric.pieces, key=lambda piece: piece.sizes)
    first, last = most.runs[0][0], most.runs[-1][1]
    place = f"from {_total(metric, most.low_milli)} on"
    yield (
        f"  {share:.0%} of the totals have several sizes at which it rests, so the past decides; at"
        f" most {most.sizes}: {first} to {last} {place}"
    )


def _cycle_lines(metric: MetricAnalysis) -> Iterator[str]:
    if not metric.cycles:
        yield "  no constant total keeps it going round"
        return
    for timed in metric.cycles[:_SHOWN_CYCLES]:
        yield f"  {_cycle_line(metric, timed)}"
    more = len(metric.cycles) - _SHOWN_CYCLES
    if more > 0:
        yield f"  … and {more} more ranges like it: -o json has all"


def _cycle_line(metric: MetricAnalysis, timed: TimedCycle) -> str:
    cycle = timed.cycle
    low, high = (_total(metric, d) for d in (cycle.low_milli, cycle.high_milli + 1))
    text = f"from {low} to {high} it goes round: {', '.join(map(str, cycle.members))}"
    if timed.settled is None:
        return text
    runs = ", ".join(f"{n} for {show_duration(ms)}" for n, ms in timed.settled.runs)
    if timed.settled.period_ms:
        return f"{text}; with its windows and policies {runs}"
    return f"{text}; its windows and policies hold it at {timed.settled.members[0]}"


# ---- ramps ---------------------------------------------------------------------------------------


def _ramp_lines(name: str, ramp: Ramp | None) -> Iterator[str]:
    if ramp is None:
        return
    way = f"Fastest way {name}, {ramp.first_size} to {ramp.last_size}"
    if not ramp.steps:
        yield f"{way}: it never moves"
        return
    hold = f"held for {show_duration(ramp.hold_ms or 0)}, then " if ramp.hold_ms else ""
    steps = [f"{size} at {show_duration(ms)}" for ms, size in ramp.steps]
    if len(steps) > _SHOWN_STEPS:
        steps = [*steps[: _SHOWN_STEPS - 2], "…", steps[-1]]
    ends = {REACHED: "", STUCK: "; there it stays"}.get(ramp.ended, "; not there after a day")
    yield f"{way}: {hold}{', '.join(steps)}{ends}"


# ---- cells --------------------------------------------------------------------------------------


def target_text(metric: MetricAnalysis) -> str:
    """Return a target as a manifest has it: `70%`, `500m`."""
    if metric.target_pct is not None:
        return f"{metric.target_pct}%"
    return "-" if metric.target_milli is None else amount_text(metric, metric.target_milli)


def amount_text(metric: MetricAnalysis, milli: int) -> str:
    """Return an amount of a metric's unit, memory in Mi."""
    if metric.signal.endswith("/memory"):
        return ">0" if 0 < milli < 1000 else memory(milli / 1000)
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
