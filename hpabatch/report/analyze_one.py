"""One HPA of a static analysis: the lines that `hpabatch analyze --hpa` shows, and their cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpabatch.engine.analyze.loop import REACHED, STUCK, Ramp
from hpabatch.engine.analyze.map import Band, Piece
from hpabatch.engine.analyze.remarks import Remark
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis, TimedCycle
from hpabatch.engine.analyze.smallest import Smallest
from hpabatch.layout import codes
from hpabatch.model.printable import counted
from hpabatch.model.times import show_duration
from hpabatch.report.base import Grid, Head
from hpabatch.report.numbers import memory

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
    if smallest.value is not None and asked is not None:
        percent = metric.target_pct is not None
        value = f"{smallest.value}%" if percent else amount_text(metric, smallest.value)
        goal = "stay" if smallest.goal == asked.size else f"go to {smallest.goal}"
        if asked.size == 1:
            goal = goal.replace("stay", "stays").replace("go ", "goes ")
        runs = ", ".join(map(_run_text, smallest.staying)) or "none"
        yield f"  at {value} {counted(asked.size, 'pod')} {goal}; sizes that stay: {runs}"
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
