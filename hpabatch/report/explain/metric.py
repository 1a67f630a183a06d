"""One metric of an explanation in sentences: pods, ratios, substitutions, guards, proposal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hpabatch.engine.explain import facts
from hpabatch.engine.explain import metrics as why
from hpabatch.layout.codes import STEP_DIRECTION_GUARD, STEPS
from hpabatch.model.quantity import Quantity
from hpabatch.model.times import show_duration, show_instant

SHOWN_PODS: Final = 6
SHOWN_VALUES: Final = 8
SHOWN_RUNS: Final = 6

HORIZONTAL: Final = "horizontal.go"
CALCULATOR: Final = "replica_calculator.go"
RATIOS: Final = "metrics/utilization.go"
_GROUPS: Final = f"{CALCULATOR} groupPods"
_TOLERANCE: Final = f"{CALCULATOR} Tolerances.isWithin"
_READY_PODS: Final = f"{CALCULATOR} getReadyPodsCount"
_BY_COUNT: Final = f"{CALCULATOR} getUsageRatioReplicaCount"
_FUNCTIONS: Final = {
    ("Resource", "averageUtilization"): f"{CALCULATOR} GetResourceReplicas",
    ("ContainerResource", "averageUtilization"): f"{CALCULATOR} GetResourceReplicas",
    ("Resource", "averageValue"): f"{CALCULATOR} GetRawResourceReplicas",
    ("ContainerResource", "averageValue"): f"{CALCULATOR} GetRawResourceReplicas",
    ("Pods", "averageValue"): f"{CALCULATOR} GetMetricReplicas",
    ("Object", "value"): f"{CALCULATOR} GetObjectMetricReplicas",
    ("Object", "averageValue"): f"{CALCULATOR} GetObjectPerPodMetricReplicas",
    ("External", "value"): f"{CALCULATOR} GetExternalMetricReplicas",
    ("External", "averageValue"): f"{CALCULATOR} GetExternalPerPodMetricReplicas",
}
_FROM_PODS: Final = ("Resource", "ContainerResource", "Pods")

_WHY: Final = {
    why.DELETING: "being deleted",
    "failed": "phase Failed",
    "succeeded": "phase Succeeded",
    why.PENDING: "not Ready yet (Pending in the history)",
    why.NO_SAMPLE: "no visible sample",
    why.NO_READY_CONDITION: "no Ready condition",
    why.NOT_STARTED: "no start time",
    why.NOT_READY: "inside the cpu initialization period and not Ready",
    why.SAMPLE_TOO_EARLY: "inside the cpu initialization period, sample from before it was Ready",
    why.NEVER_READY: "not Ready since its first moments, so it never was",
    why.NOT_RUNNING_AND_READY: "not Running and Ready",
    why.NOT_CACHED: "samples of pods that the controller does not know",
}


def metric_steps(fact: facts.MetricFact, explanation: facts.Explanation) -> Iterator[Step]:
    """Yield the steps of one metric, in the order of the rules."""
    function = _FUNCTIONS.get((fact.type, fact.target), f"{HORIZONTAL} computeReplicasForMetric")
    yield Step("metric", f"{fact.name}{_target_text(fact)}", function, fact.number)
    for step in _parts(fact, explanation):
        upstream = step.upstream or _core(fact, function)
        yield step._replace(metric=fact.number, upstream=upstream)
    if fact.failure is not None:
        status = _STATUS.get(fact.type, "computeReplicasForMetric")
        yield Step("failed", fact.failure.event, f"{HORIZONTAL} {status}", fact.number)


_STATUS: Final = {
    "Object": "computeStatusForObjectMetric",
    "Pods": "computeStatusForPodsMetric",
    "Resource": "computeStatusForResourceMetric",
    "ContainerResource": "computeStatusForContainerResourceMetric",
    "External": "computeStatusForExternalMetric",
}


def _core(fact: facts.MetricFact, function: str) -> str:
    """Return the function that the arithmetic of a metric is in."""
    by_average = fact.target == "averageValue" and fact.type in _FROM_PODS
    return f"{CALCULATOR} calcPlainMetricReplicas" if by_average else function


def _parts(fact: facts.MetricFact, explanation: facts.Explanation) -> Iterator[Step]:
    current, now_ms = explanation.decision.current, explanation.sync_ms
    if fact.type in _FROM_PODS:
        yield from _pod_steps(fact, now_ms, _GROUPS)
        if fact.first is not None:
            yield from _pod_ratio_steps(fact, current)
    elif fact.values_milli:
        yield _value_step(fact)
        yield from _total_steps(fact, current, now_ms)


def _target_text(fact: facts.MetricFact) -> str:
    if fact.target_pct is not None:
        return f", target {fact.target_pct}%"
    if fact.target_milli is None:
        return ""
    return f", target {_amount(fact, fact.target_milli)} ({fact.target})"


def _amount(fact: facts.MetricFact, milli: int) -> str:
    return amount_text(milli, fact.is_memory)


# ---- pods ----------------------------------------------------------------------------------------


def _pod_steps(fact: facts.MetricFact, now_ms: int, function: str) -> Iterator[Step]:
    """Yield how many pods are in each group, then who and why."""
    counts = fact.counts
    if counts is None:
        return
    parts = [
        f"{n} {group}"
        for group, n in (
            (facts.READY, counts.ready),
            (facts.UNREADY, counts.unready),
            (facts.MISSING, counts.missing),
            (facts.IGNORED, counts.ignored),
            (facts.STRAY, counts.stray),
        )
        if n
    ]
    pods = counts.ready + counts.unready + counts.missing + counts.ignored
    yield Step("pods", f"{count_text(pods, 'pod')}: {', '.join(parts) or 'none'}", function)
    groups: dict[tuple[str, str], list[facts.PodFact]] = {}
    for pod in fact.pods:
        groups.setdefault((pod.group, pod.why), []).append(pod)
    order = (facts.READY, facts.UNREADY, facts.MISSING, facts.IGNORED, facts.STRAY)
    for group, reason in sorted(groups, key=lambda key: order.index(key[0])):
        words = f"{group}, {_WHY[reason]}" if reason else group
        listed = sorted(groups[group, reason], key=lambda pod: not pod.owner)
        names = [
            f"{_pod_text(fact, pod, now_ms)}{f' (of {pod.owner})' if pod.owner else ''}"
            for pod in listed
        ]
        yield Step("pods", f"{words}: {list_text(names, SHOWN_PODS)}", function)


def _pod_text(fact: facts.MetricFact, pod: facts.PodFact, now_ms: int) -> str:
    """Return a pod's name with the numbers that put it into its group."""
    name = pod.pod or "?"
    if pod.why == why.NOT_RUNNING_AND_READY:
        return f"{name} ({pod.phase or 'no phase'}, Ready {pod.ready or 'not set'})"
    if pod.value_milli is None:
        return name
    if pod.why in ("", why.NOT_CACHED):
        value = _amount(fact, pod.value_milli)
        asked = "" if pod.request_milli is None else f" of {_amount(fact, pod.request_milli)}"
        return f"{name} {value}{asked}"
    started = pod.started_ms
    if pod.why == why.NOT_READY and started is not None:
        return f"{name} (started {show_duration(now_ms - started)} ago)"
    if pod.why == why.SAMPLE_TOO_EARLY and pod.sample_ms is not None:
        window = show_duration(pod.window_ms or 0)
        since = clock_text(pod.transition_ms or 0, now_ms)
        sample = clock_text(pod.sample_ms, now_ms)
        return f"{name} (sample of {sample} over {window}, {pod.ready} since {since})"
    if pod.why == why.NEVER_READY and started is not None and pod.transition_ms is not None:
        return f"{name} (not Ready {show_duration(pod.transition_ms - started)} after its start)"
    return name


# ---- ratios of pods ------------------------------------------------------------------------------


def _pod_ratio_steps(fact: facts.MetricFact, current: int) -> Iterator[Step]:
    """Yield the first ratio, what the other pods are taken for, and the ratio with them."""
    first, second, taken = fact.first, fact.second, fact.substitution
    assert first is not None
    yield _ratio_step(fact, first, "ratio")
    if fact.counts is not None and fact.counts.unready and not (taken and taken.unready):
        pods = count_text(fact.counts.unready, "unready pod")
        verb = "does" if fact.counts.unready == 1 else "do"
        text = f"{number_text(first.ratio)} is not above 1, so {pods} {verb} not count"
        yield Step("unready", text)
    if taken is not None and second is not None:
        yield from _substitution_steps(fact, taken, first.ratio)
        yield _ratio_step(fact, second, "second ratio")
    yield from _end_steps(fact, current)


def _cpu(fact: facts.MetricFact, milli: int) -> str:
    """Return an amount of cpu or memory: whole cores with their unit, which quantities lack."""
    whole = not fact.is_memory and milli % 1000 == 0
    return count_text(milli // 1000, "core") if whole else _amount(fact, milli)


def _ratio_step(fact: facts.MetricFact, ratio: facts.Ratio, step: str) -> Step:
    usage = _amount(fact, ratio.usage_milli)
    shown = number_text(ratio.ratio)
    if ratio.utilization_pct is not None:
        request = ratio.request_milli or 0
        percent = _percent_text(ratio.usage_milli, request, ratio.utilization_pct)
        text = (
            f"{_cpu(fact, ratio.usage_milli)} used of {_cpu(fact, request)} requested is "
            f"{percent}; "
            f"{ratio.utilization_pct} / {fact.target_pct} = {shown}"
        )
        return Step(step, text, f"{RATIOS} GetResourceUtilizationRatio")
    average_milli = ratio.average_milli or 0
    average, target = _amount(fact, average_milli), _amount(fact, fact.target_milli or 0)
    exact = average_milli * ratio.pods == ratio.usage_milli
    cut = "" if exact else " (truncated)"
    pods = count_text(ratio.pods, "pod")
    text = f"{usage} / {pods} = {average}{cut}; {average} / {target} = {shown}"
    return Step(step, text, f"{RATIOS} GetMetricUsageRatio")


def _percent_text(usage: int, request: int, percent: int) -> str:
    """Return a percentage as the rule has it, and what it was before truncation."""
    exact = usage * 100 / request if request else 0.0
    if exact == percent:
        return f"{percent}%"
    if int(exact) != percent:
        return f"{percent}% (the product overflows)"
    short = f"{exact:.6g}"
    return f"{short if '.' in short else repr(exact)}%, truncated to {percent}%"


def _substitution_steps(
    fact: facts.MetricFact, taken: facts.Substitution, ratio: float
) -> Iterator[Step]:
    missing = fact.counts.missing if fact.counts else 0
    shown = number_text(ratio)
    if missing and not taken.missing:
        text = f"{shown} is neither above nor below 1, so missing pods add nothing"
        yield Step("missing", text)
    elif missing:
        pods = (
            f"{count_text(missing, 'missing pod')} {'is' if missing == 1 else 'are'} taken to use"
        )
        way = "below" if ratio < 1.0 else "above" if ratio > 1.0 else "not off"
        text = f"{shown} is {way} 1, so {pods} {_charge_text(fact, taken, ratio)}"
        yield Step("missing", text)
    if taken.unready:
        pods = count_text(taken.unready, "unready pod")
        verb = "is" if taken.unready == 1 else "are"
        yield Step("unready", f"{shown} is above 1, so {pods} {verb} taken to use 0")


def _charge_text(fact: facts.MetricFact, taken: facts.Substitution, ratio: float) -> str:
    if not ratio < 1.0:
        return "0"
    amount = _amount(fact, taken.missing_milli)
    if taken.missing > 1:
        amount += " together"
    whose = "it requests" if taken.missing == 1 else "they request"
    if fact.target_pct is None:
        return f"{amount}, the target{' each' if taken.missing > 1 else ''}"
    asked = sum(pod.request_milli or 0 for pod in fact.pods if pod.group == facts.MISSING)
    if asked == taken.missing_milli:
        return f"{amount}, all that {whose}"
    return f"{amount}, {fact.target_pct}% of the {_amount(fact, asked)} that {whose}"


def _end_steps(fact: facts.MetricFact, current: int) -> Iterator[Step]:
    """Yield the test of the tolerance, the product, the guards and the proposal."""
    test = fact.tolerance
    assert test is not None
    assert fact.last is not None
    if test.within:
        yield _tolerance_step(test, f"so it proposes to stay at {current}")
        return
    yield _tolerance_step(test)
    pods = count_text(fact.multiplier or 0, "pod")
    product = f"ceil({number_text(test.ratio)} x {pods}) = {fact.wanted}"
    if fact.step == STEPS[STEP_DIRECTION_GUARD]:
        first = fact.first.ratio if fact.first else 1.0
        texts = number_texts(first, test.ratio)
        if (first < 1.0 < test.ratio) or (test.ratio < 1.0 < first):
            reason = f"the ratio turned from {texts[0]} to {texts[1]}"
        else:
            side = "below" if test.ratio < 1.0 else "above"
            reason = f"{product}, but a ratio {side} 1 may not lead from {current} to it"
        yield Step("guard", f"{reason}, so it proposes to stay at {current}")
        return
    yield Step("proposal", product)


def _tolerance_step(test: facts.Tolerance, conclusion: str = "") -> Step:
    """Return where the ratio lies, so that the comparison is true as it reads."""
    verdict = "within the tolerance" if test.within else "outside the tolerance"
    verdict += f", {conclusion}" if conclusion else ""
    if test.deviation is None or test.most is None:
        low, ratio, high = number_texts(test.low, test.ratio, test.high)
        place = f"is between {low} and {high}"
        if not test.within:
            place = "is no number"
            if not math.isnan(test.ratio):
                place = f"is below {low}" if test.ratio < test.low else f"is above {high}"
        return Step("tolerance", f"ratio {ratio} {place}: {verdict}", _TOLERANCE)
    deviation, most = number_texts(test.deviation, test.most)
    place = f"is {deviation} from 1, {'at most' if test.within else 'more than'} {most}"
    if math.isnan(test.deviation):
        place = "is no number"
    return Step("tolerance", f"ratio {number_text(test.ratio)} {place}: {verdict}")


# ---- totals --------------------------------------------------------------------------------------


def _value_step(fact: facts.MetricFact) -> Step:
    values = [_amount(fact, value) for value in fact.values_milli]
    total = _amount(fact, fact.total_milli or 0)
    if fact.type == "Object":
        return Step("value", f"the sample is {total}")
    exact = sum(fact.values_milli) == fact.total_milli
    capped = "" if exact else ", as upstream adds them up"
    shown = list_text(values, SHOWN_VALUES)
    return Step("value", f"{len(values)} series: {shown}; together {total}{capped}")


def _total_steps(fact: facts.MetricFact, current: int, now_ms: int) -> Iterator[Step]:
    """Yield the ratio of an Object or External metric and what it leads to."""
    total, target = _amount(fact, fact.total_milli or 0), _amount(fact, fact.target_milli or 0)
    if fact.target == "averageValue":
        yield from _total_average_steps(fact, total, target)
        return
    assert fact.first is not None
    yield Step("ratio", f"{total} / {target} = {number_text(fact.first.ratio)}")
    if fact.tolerance is None:
        product = f"ceil({number_text(fact.first.ratio)}) = {fact.wanted}"
        text = f"{product}: from 0 replicas neither tolerance nor pods count"
        yield Step("proposal", text, _BY_COUNT)
        return
    if fact.tolerance.within:
        yield _tolerance_step(fact.tolerance, f"so it proposes to stay at {current}")
        return
    yield _tolerance_step(fact.tolerance)
    yield from _pod_steps(fact, now_ms, _READY_PODS)
    if fact.wanted is not None:
        pods_text = count_text(fact.multiplier or 0, "pod")
        ratio = number_text(fact.first.ratio)
        yield Step("proposal", f"ceil({ratio} x {pods_text}) = {fact.wanted}", _BY_COUNT)


def _total_average_steps(fact: facts.MetricFact, total: str, target: str) -> Iterator[Step]:
    first, test = fact.first, fact.tolerance
    assert first is not None
    assert test is not None
    replicas = fact.status_replicas
    text = f"{total} / ({target} x {replicas} replicas of the status) = {number_text(first.ratio)}"
    yield Step("ratio", text)
    stays = f"so it proposes the status' {replicas} replicas"
    if test.within:
        yield _tolerance_step(test, stays)
    elif fact.wanted is None:
        text = f"ratio {number_text(test.ratio)} is no number: not outside the tolerance either"
        yield Step("tolerance", f"{text}, {stays}")
    else:
        yield _tolerance_step(test)
        yield Step("proposal", f"ceil({total} / {target}) = {fact.wanted}")


class Step(NamedTuple):
    """One line: which step of the rules, what it came to, and the upstream function it follows.

    `metric` is the number of the metric that it belongs to, None where it belongs to none; further
    lines of a step have its name too.
    """

    step: str
    text: str
    upstream: str = ""
    metric: int | None = None


# ---- numbers and times in a line -----------------------------------------------------------------


def number_text(value: float) -> str:
    """Return a ratio, shortened: `1.66667`; what Go prints for what is no number."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.6g}"


def number_texts(*values: float) -> list[str]:
    """Return ratios that are compared: unequal ones never look equal."""
    texts = [number_text(value) for value in values]
    pairs = set(zip(values, texts, strict=True))
    unequal = len({text for _, text in pairs}) < len(pairs) and not any(map(math.isnan, values))
    return [repr(float(value)) for value in values] if unequal else texts


def amount_text(milli: int, is_memory: bool = False) -> str:
    """Return a quantity as a status shows it: `250m`, `90Mi`."""
    return Quantity.from_milli(milli, binary=is_memory).canonical()


def count_text(count: int, what: str) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def clock_text(instant_ms: int, sync_ms: int) -> str:
    """Return a time, without its date where that is the sync's."""
    text, sync = show_instant(instant_ms), show_instant(sync_ms)
    day = len("2026-10-07T")
    return text[day:] if text[:day] == sync[:day] else text


def list_text(items: Sequence[str], most: int) -> str:
    """Return items with commas, the first ones and how many more there are."""
    shown = ", ".join(items[:most])
    more = len(items) - most
    return f"{shown} + {more} more" if more > 0 else shown


def run_texts(values: Iterable[tuple[int, int]], sync_ms: int) -> list[str]:
    """Return (value, time) pairs as runs of equal values: `3 (14:00:00Z to 14:01:45Z)`."""
    runs: list[tuple[int, int, int]] = []
    for value, ms in values:
        if runs and runs[-1][0] == value:
            runs[-1] = value, runs[-1][1], ms
        else:
            runs.append((value, ms, ms))
    texts = []
    for value, first, last in runs:
        times = dict.fromkeys(clock_text(ms, sync_ms) for ms in (first, last))
        texts.append(f"{value} ({' to '.join(times)})")
    return texts
