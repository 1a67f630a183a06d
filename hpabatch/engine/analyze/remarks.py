"""Remarks on a static analysis: what stands out, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hpabatch.engine.analyze.loop import REACHED, STUCK, Ramp
from hpabatch.engine.analyze.meter import VALUES
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis
from hpabatch.model.times import show_duration

SLOW_MS: Final = 3_600_000  # a way from bound to bound that takes longer is worth a word


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know about an HPA: a `code` for machines, a sentence for people."""

    code: str
    text: str


def remarks(analysis: Analysis) -> tuple[Remark, ...]:
    """Return what stands out, the weightiest first."""
    if analysis.lowest == analysis.highest:
        text = f"minReplicas = maxReplicas = {analysis.lowest}: it can never act"
        return (Remark("min_is_max", text),)
    return (
        *_errors(analysis),
        *(remark for metric in analysis.metrics for remark in _cycles(metric)),
        *_directions(analysis),
        *(remark for metric in analysis.metrics for remark in _reach(analysis, metric)),
        *_slow(analysis),
        *(remark for metric in analysis.metrics for remark in _limits(analysis, metric)),
    )


def _errors(analysis: Analysis) -> Iterator[Remark]:
    broken = [metric for metric in analysis.metrics if metric.error]
    if len(broken) == len(analysis.metrics):
        result = "so it never acts within its bounds"
    else:
        result = "so it never shrinks"
    for metric in broken:
        yield Remark(
            "metric_error", f"{metric.signal} can never be computed, {result}: {metric.error}"
        )


def _cycles(metric: MetricAnalysis) -> Iterator[Remark]:
    if not metric.cycles:
        return
    timed = metric.cycles[0]
    members = ", ".join(str(size) for size in timed.cycle.members)
    # A range of demand in requests of a pod, or for other targets in targets.
    is_share = metric.target_pct is not None
    whole = (metric.request_milli if is_share else metric.target_milli) or 1
    low, high = timed.cycle.low_milli / whole, (timed.cycle.high_milli + 1) / whole
    total = f"{low:.4g} to {high:.4g} {'requests' if is_share else 'targets'}"
    text = f"{metric.signal} never rests at a constant total of {total}: {members}, again"
    if len(metric.cycles) > 1:
        text += f" (and in {len(metric.cycles) - 1} more ranges)"
    settled = timed.settled
    if settled is not None and not settled.period_ms:
        text += f"; its windows and policies hold it at {settled.members[0]}"
    elif settled is not None:
        text += f"; with its windows and policies every {show_duration(settled.period_ms)}"
    yield Remark("cycle", text)


def _directions(analysis: Analysis) -> Iterator[Remark]:
    if not analysis.moves.grows:
        text = "scaling up is disabled: only minReplicas can make it grow"
        yield Remark("scale_up_disabled", text)
    if analysis.down_disabled:
        text = "scaling down is disabled: only maxReplicas can shrink it"
        yield Remark("scale_down_disabled", text)
    if analysis.moves.grows and not analysis.moves.leaves_zero:
        text = "from zero its policies never lead away: any percentage of nothing is nothing"
        yield Remark("stuck_at_zero", text)


def _reach(analysis: Analysis, metric: MetricAnalysis) -> Iterator[Remark]:
    """Yield what a metric can never bring about."""
    first = next((band for band in metric.bands if band.size > 0 and not band.empty), None)
    if first is None:
        return
    if analysis.moves.grows and first.high_milli is None:
        text = f"{metric.signal} never makes it grow: the tolerance covers any usage"
        yield Remark("never_grows", text)
    elif analysis.moves.grows and first.high_pct is not None and first.high_pct >= 100:
        text = (
            f"{metric.signal} makes it grow from {first.high_pct + 1}% of the request on: pods that"
            " cannot use more than they request never get there"
        )
        yield Remark("beyond_request", text)
    if not metric.pieces or not analysis.moves.shrinks:
        return
    idle = metric.pieces[0].runs
    if idle and idle[0][0] == analysis.highest:
        text = f"{metric.signal}: what pods use without any work already asks for maxReplicas"
        yield Remark("base_too_high", text)
    elif idle and idle[-1][1] > analysis.lowest:
        text = f"{metric.signal}: without any work it can stay at {idle[-1][1]} replicas for ever"
        yield Remark("never_idle", text)


def _slow(analysis: Analysis) -> Iterator[Remark]:
    for name, ramp in (("up", analysis.up), ("down", analysis.down)):
        if ramp is None or ramp.ended == STUCK:
            continue
        if ramp.reached_ms is not None and ramp.reached_ms < SLOW_MS:
            continue
        way = f"from {ramp.first_size} to {ramp.last_size} replicas"
        text = f"scaling {name} {way} takes at least {ramp_text(ramp)}"
        yield Remark(f"slow_{name}", text)


def ramp_text(ramp: Ramp | None) -> str:
    """Return how long a ramp takes: `45s`, `5m + 30s` (held, then moving), `never`, `over 1d`."""
    if ramp is None:
        return "-"
    if ramp.ended == STUCK:
        return "never"
    if ramp.ended != REACHED:
        return "over 1d"
    hold, reached = ramp.hold_ms or 0, ramp.reached_ms or 0
    moving = show_duration(reached - hold)
    return f"{show_duration(hold)} + {moving}" if hold else moving


def _limits(analysis: Analysis, metric: MetricAnalysis) -> Iterator[Remark]:
    """Yield what the analysis assumes or leaves out, and sizes that nothing keeps."""
    if metric.error:
        return
    inner = [
        b.size for b in metric.bands if analysis.lowest < b.size < analysis.highest and b.empty
    ]
    if inner:
        text = f"{metric.signal}: no usage at all keeps it at {_some(inner)} replicas"
        yield Remark("no_dead_band", text)
    if not metric.per_pod and metric.kind in VALUES:
        text = (
            f"{metric.signal}: a plain value multiplies the size, so unless more pods bring it down"
            " it runs to a bound"
        )
        one = metric.band(1)
        if one is not None and one.high_milli is not None and one.up_to is not None:
            stays = f"one pod stays up to {one.high_milli / 1000:g}"
            text += f"; {stays}, more gives {one.up_to} or more"
        yield Remark("plain_value", text)
    if metric.divides is None:
        text = (
            f"{metric.signal}: do pods share it (state --base memory=PCT, what each has of its "
            "own), or does each have its own? Until then its resting sizes are not known"
        )
        yield Remark("memory_kind", text)
    if not metric.complete:
        last = metric.bands[-1].size if metric.bands else 0
        text = f"{metric.signal}: of these many sizes only {len(metric.bands)} were looked at"
        if last < analysis.highest:
            text += f"; beyond {last} the calculator's integers overflow"
        yield Remark("not_all_sizes", text)


def _some(sizes: list[int]) -> str:
    shown = ", ".join(str(size) for size in sizes[:5])
    return shown if len(sizes) <= 5 else f"{shown} … ({len(sizes)} sizes)"
