"""The result of `hpabatch explain`: the steps of one decision.

JSON has every number beside them, and every pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.columns.history import EXPLANATION
from hpabatch.engine.explain import facts
from hpabatch.engine.explain.facts import Explanation
from hpabatch.model.printable import printable
from hpabatch.model.times import show_api_time, show_duration, show_instant
from hpabatch.report.base import Grid, Head, Layout, Result, View, label
from hpabatch.report.explain.metric import Step, amount_text, count_text, number_text
from hpabatch.report.explain.steps import ZERO_REASONS, explanation_steps
from hpabatch.report.forms import table_text

# Numbers that are points in time: shown as RFC 3339, under a name without the unit. Other `_ms` are
# lengths of time.
_INSTANTS: Final = {
    f"{name}_ms": name
    for name in (
        "asked", "sync", "started", "transition", "sample", "at", "up_since", "down_since",
        "since", "next", "restarted", "first", "last",
    )
}  # fmt: skip
_INDENT: Final = "  "
_LEGEND: Final = (
    "[…]: functions of Kubernetes' pkg/controller/podautoscaler: Get…Replicas, get…Count, "
    "calcPlainMetricReplicas, groupPods and Tolerances in replica_calculator.go, Get…Ratio in "
    "metrics/utilization.go, all others in horizontal.go."
)
_HEADS: Final = (
    Head.of(EXPLANATION["step"], "STEP", left=True),
    Head.of(EXPLANATION["text"], "RESULT", left=True, folds=True),
)


@dataclass(frozen=True, repr=False)
class Explained(Result):
    """The explanation of one sync of one HPA.

    Attributes:
        facts: every number that the rules read and wrote.
    """

    facts: Explanation
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        decision = self.facts.decision
        change = f"{decision.current}, unchanged"
        if decision.rescaled or decision.binding == "scale_write":
            change = f"{decision.current} -> {decision.limited}"
        return f"{change}: {decision.sentence}"

    def body(self, view: View) -> Iterator[str | Grid]:
        explanation, asked = self.facts, self.facts.asked_ms
        name = label(explanation.cluster, explanation.namespace, explanation.hpa, with_cluster=True)
        sync = f"{printable(name)}, sync of {show_instant(explanation.sync_ms)}"
        if asked is None:
            sync += ", the last one"
        elif asked != explanation.sync_ms:
            sync += f", the last one at or before {show_instant(asked)}"
        yield sync
        yield ""
        yield _steps_grid(explanation_steps(explanation))
        if view.legend:
            yield ""
            yield _LEGEND

    def basis(self) -> list[str]:
        of = self.facts.assumed.get
        return [
            f"Rules of Kubernetes {self.facts.k8s} ({of('k8s_source')}; "
            f"{of('k8s_evidence')}: {of('k8s_proof')}).",
            f"Syncs {of('syncs')}; samples visible after {of('delay')}, for {of('max_age')}; "
            f"policies' budgets spent by the {of('events')} changes.",
            f"Flags ({of('flags')}): tolerance {of('tolerance')}, cpu initialization period "
            f"{of('cpu_initialization_period')}, initial readiness delay "
            f"{of('initial_readiness_delay')}, downscale stabilization "
            f"{of('downscale_stabilization')}.",
        ]

    def hints(self) -> list[str]:
        return [summary_sentence(self.facts)]

    @property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(list(self._steps()), schema=EXPLANATION.schema)

    @property
    def text(self) -> str:
        """The steps, one below the other."""
        return table_text(self)

    def _steps(self) -> Iterator[dict[str, str | int | None]]:
        for s in explanation_steps(self.facts):
            yield {
                "step": s.step, "metric": s.metric, "text": s.text, "upstream": s.upstream or None,
            }  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return the numbers, the table's lines as `steps`, its last sentence as `summary`.

        Timestamps are RFC 3339, lengths of time ms, quantities milli; a ratio that is no number is
        a string.
        """
        numbers = _plain(asdict(self.facts))
        assert isinstance(numbers, dict)
        summary = summary_sentence(self.facts)
        return numbers | {"steps": list(self._steps()), "summary": summary}


def _steps_grid(steps: list[Step]) -> Grid:
    rows = []
    before = Step("", "")
    for step in steps:
        same_step = (step.step, step.metric) == (before.step, before.metric)
        line = step.text
        if step.upstream and not (same_step and step.upstream == before.upstream):
            line += f"  [{step.upstream.partition(' ')[2]}]"
        rows.append(("" if same_step else _label(step, steps), line))
        before = step
    return Grid(_HEADS, rows, with_heads=False, quotes=True)


def _label(step: Step, steps: list[Step]) -> str:
    """Return a step's name; those of a metric's parts are indented, the metric's has its number."""
    if step.metric is None:
        return step.step
    if step.step != "metric":
        return f"{_INDENT}{step.step}"
    count = max(s.metric or 0 for s in steps)
    return f"metric {step.metric}" if count > 1 else "metric"


def _plain(value: object) -> object:
    """Return what JSON can hold."""
    if isinstance(value, dict):
        return {_INSTANTS.get(k, k): _plain(_instant(k, v)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return value


def _instant(name: str, value: object) -> object:
    return show_api_time(value) if name in _INSTANTS and isinstance(value, int) else value


# ---- the last line: the decision in one plain sentence -------------------------------------------


def summary_sentence(explanation: facts.Explanation) -> str:
    """Return the decision and what led to it, for somebody who has not read the steps."""
    decision, name = explanation.decision, f"{explanation.namespace}/{explanation.hpa}"
    if explanation.path == "none":
        return f"What {name} decided is not known: its replicas were not recorded."
    change = f"stays at {count_text(decision.current, 'replica')}"
    if explanation.path == "scale":
        change = "changes nothing"  # (the decision has 0, which the size need not be)
    elif decision.rescaled:
        change = f"goes from {decision.current} to {count_text(decision.desired, 'replica')}"
    return f"{name} {change}: {'; '.join(_reasons(explanation))}."


def _reasons(explanation: facts.Explanation) -> Iterator[str]:
    """Generate what led to the size, in the order of the rules."""
    decision, highest = explanation.decision, explanation.max_replicas
    match explanation.path:
        case "scale":
            yield f"the scale of its target could not be read ({explanation.scale_error})"
        case "zero":
            yield f"a target at 0 is left alone, since {ZERO_REASONS[explanation.zero_reason]}"
        case "selector":
            yield f"its pods cannot be told, as {explanation.selector_error}"
        case "forced":
            above = decision.current > highest
            bound = f"maxReplicas {highest}" if above else f"minReplicas {explanation.min_replicas}"
            yield f"{decision.current} is {'above' if above else 'below'} {bound}"
        case _:
            yield from _metric_reasons(explanation)
    if decision.binding == "scale_write":
        error = explanation.scale_error
        yield f"the new size, {decision.limited}, could not be written ({error})"


# ---- metrics -------------------------------------------------------------------------------------


def _metric_reasons(explanation: facts.Explanation) -> Iterator[str]:
    combination = explanation.combination
    assert combination is not None
    failures = [m for m in explanation.metrics if m.failure is not None]
    if not combination.usable:
        first = failures[0]
        assert first.failure is not None
        if combination.failed < combination.count:
            yield (
                f"{combination.failed} of its {combination.count} metrics failed, and without "
                f"{'it' if combination.failed == 1 else 'them'} the target must not shrink "
                f"({first.failure.event})"
            )
        else:
            what = "its metric" if combination.count == 1 else "each of its metrics"
            yield f"{what} failed ({first.failure.event})"
        yield from _foreign_reasons(first)
        return
    winner = explanation.metrics[(combination.winner or 1) - 1]
    yield _wish(winner, combination, explanation.decision.current)
    yield from _foreign_reasons(winner)
    yield from _spread_reasons(winner)
    yield from _window_reasons(explanation)
    yield from _limit_reasons(explanation)
    if explanation.raised_to is not None:
        yield f"from 0 it goes to minReplicas {explanation.raised_to} at least"


def _wish(metric: facts.MetricFact, combination: facts.Combination, current: int) -> str:
    """Return where the metric that decides stands, and how many replicas it asks for."""
    place = f"{metric.subject} {_standing(metric)}"
    wish = f"asks for {count_text(combination.largest, 'replica')}"
    if combination.largest < 0:  # (a metric's value may be negative)
        wish = f"asks for 0 replicas ({combination.largest} counts as 0)"
    if combination.count > 1:
        wish += f", {_most(combination)}"
    told = combination.count > 1 or metric.proposal != current
    test, surge = metric.tolerance, _surge(metric, current)
    if surge and test is not None and test.within:
        return f"{place}, which is on target for {surge}, so it {wish}"
    if surge and metric.proposal != current:
        return f"{place}, which {wish}, as it counts {surge}"
    if test is not None and test.within:
        return f"{place}, within the tolerance{f', so it {wish}' if told else ''}"
    if metric.proposal == current and metric.wanted not in (None, current):
        doubt = "but pods without a usable sample leave that in doubt"
        return f"{place}, {doubt}{f', so it {wish}' if told else ''}"
    return f"{place}, which {wish}"


_COUNTED: Final = (facts.READY, facts.UNREADY, facts.MISSING)


def _surge(metric: facts.MetricFact, current: int) -> str:
    """Return which pods a metric counted if its target had others than its spec asked for.

    A total's average takes the status' replicas; a mean of pods those that the selector matches.
    """
    total = metric.status_replicas
    own = sum(p.group in _COUNTED and not p.owner for p in metric.pods)
    if total is None and (own <= current or metric.values_milli):
        return ""
    had = own if total is None else total
    if had == current:
        return ""
    surplus = "a rollout's surge, or a change of size under way"
    reason = surplus if had > current else "some were not created yet"
    pods = count_text(had, "pod")
    return f"the {pods} that the workload had while its spec asked for {current} ({reason})"


def _foreign_reasons(metric: facts.MetricFact) -> Iterator[str]:
    """Generate which pods of others the selector matches."""
    pods = [pod for pod in metric.pods if pod.owner and pod.group in _COUNTED]
    if pods:
        more = f" and {count_text(len(pods) - 1, 'more pod')} of others" if len(pods) > 1 else ""
        yield f"it counts pod {pods[0].pod}, which belongs to {pods[0].owner}{more}"


def _spread_reasons(metric: facts.MetricFact) -> Iterator[str]:
    """Generate the smallest and largest pod, where one alone would ask for fewer and one for more.

    Then the mean speaks for neither of them.
    """
    test, by_percent = metric.tolerance, metric.target_pct is not None
    target = (metric.target_pct or 0) / 100 if by_percent else metric.target_milli or 0
    ready = [p for p in metric.pods if p.group == facts.READY and p.value_milli is not None]
    if test is None or not target or not ready or metric.values_milli:
        return
    shares = [
        ((pod.value_milli or 0) / (pod.request_milli or 1 if by_percent else 1), pod)
        for pod in ready
        if pod.request_milli or not by_percent
    ]
    if not shares:
        return
    shares.sort(key=lambda share: share[0])
    (low, least), (high, most) = shares[0], shares[-1]
    if low < test.low * target and high > test.high * target:
        ends = f"{_pod_share(metric, low, least)} to {_pod_share(metric, high, most)}"
        yield f"its pods differ: {ends}"


def _pod_share(metric: facts.MetricFact, share: float, pod: facts.PodFact) -> str:
    amount = _amount(metric, pod.value_milli or 0)
    shown = amount if metric.target_pct is None else f"{share * 100:.3g}%"
    return f"{shown} ({pod.pod or '?'})"


def _most(combination: facts.Combination) -> str:
    """Return which of an HPA's metrics asks for the most: those that failed ask for nothing."""
    count, valid = combination.count, combination.count - combination.failed
    if valid == count:
        return f"the most of its {count} metrics"
    if valid == 1:
        return f"the only one of its {count} metrics that did not fail"
    return f"the most of those {valid} of its {count} metrics that did not fail"


def _standing(metric: facts.MetricFact) -> str:
    """Return a metric's value beside its target."""
    ratio = metric.last
    charged = ", with pods without a usable sample counted in" if metric.second is not None else ""
    if metric.target_pct is not None and ratio is not None and ratio.utilization_pct is not None:
        value = f"{ratio.utilization_pct}% of the requests"
        return f"is at {value} (target {metric.target_pct}%{charged})"
    target = _amount(metric, metric.target_milli or 0)
    if metric.values_milli:
        total = _amount(metric, metric.total_milli or 0)
        each = " a pod" if metric.target == "averageValue" else ""
        return f"is at {total} in all (target {target}{each})"
    if ratio is not None and ratio.average_milli is not None:
        average = _amount(metric, ratio.average_milli)
        return f"is at {average} a pod on average (target {target}{charged})"
    shown = number_text(ratio.ratio) if ratio is not None else "?"
    return f"is at {shown} times its target of {target}{charged}"


def _amount(metric: facts.MetricFact, milli: int) -> str:
    """Return a quantity; of memory four digits: a status shows an average as `70234521600m`."""
    if not metric.is_memory:
        return amount_text(milli)
    size, unit = milli / 1000, ""
    for unit in ("", "Ki", "Mi", "Gi"):
        if size < 1024 or unit == "Gi":
            break
        size /= 1024
    return f"{size:.4g}{unit}"


# ---- what holds it -------------------------------------------------------------------------------


def _window_reasons(explanation: facts.Explanation) -> Iterator[str]:
    windows, decision = explanation.windows, explanation.decision
    if windows is None or windows.stabilized == decision.proposal:
        return
    stabilized, is_down = windows.stabilized, windows.stabilized > decision.proposal
    length = show_duration(windows.down_window_ms if is_down else windows.up_window_ms or 0)
    end = (windows.highest if is_down else windows.lowest) or 0
    which = f"{'largest' if is_down else 'smallest'} recommendation of the last {length}"
    what = f"the {'scale-down' if is_down else 'scale-up'} window"
    if end != stabilized:  # both windows clamp the size, which is between the two
        yield f"{what} keeps it at {stabilized}, as the {which} is {end}"
    elif stabilized == decision.current:
        yield f"{what} keeps it at {stabilized}, the {which}"
    elif is_down and stabilized > decision.current:
        yield f"{what} raises that to {stabilized}, the {which}"
    else:
        yield f"{what} lets it go no further than {stabilized}, the {which}"


_LIMITS: Final = {
    "TooFewReplicas": "minReplicas does not allow fewer than {limited}",
    "TooManyReplicas": "maxReplicas does not allow more than {limited}",
    "ScaleUpLimit": "its scale-up policies allow no more than {limited} now",
    "ScaleDownLimit": "its scale-down policies allow no fewer than {limited} now",
}


def _limit_reasons(explanation: facts.Explanation) -> Iterator[str]:
    limits, decision = explanation.limits, explanation.decision
    if limits is None or limits.limited == decision.stabilized:
        return
    if limits.select == "Disabled":
        yield f"scaling {limits.direction} is disabled"
    elif not limits.has_behavior and limits.condition == "ScaleUpLimit":
        yield f"without behavior one sync goes to twice the size, or 4, at most: {limits.limited}"
    else:
        yield _LIMITS[limits.condition].format(limited=limits.limited)
