"""Kind of a signal that is neither cpu nor memory: stated, shown by the data, or guessed by name.

Where the number of ready pods changes, the kinds answer differently: a value per pod falls as
1/replicas if the pods share work and stays if they do not; a total stays; a queue goes on from
where it was, but grows slower by what the further pods take out of it. Each is a regression on
changes of ready pods as that of the base (`engine.fit.base`), with its interval. A kind is decided
only if the interval has room for no other; else the name is a guess, and marked as one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hpabatch.engine.fit.base import BaseEstimate, base_from_changes
from hpabatch.engine.fit.stats import F64, Interval, past_means
from hpabatch.engine.fit.usage import Cells, Series, SignalUsage, Usage, cells_of, series_of
from hpabatch.engine.fit.workload import ASSUMED, FITTED, GIVEN, GUESSED, NOT_IDENTIFIED, Fact
from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER
from hpabatch.inputs.plants import SignalOverride
from hpabatch.model.plant import AGE, BACKLOG, DIVISIBLE, PER_POD, TOTAL, signal_name
from hpabatch.model.settings.setting import DEFAULT_FLAGS

OF_PODS: Final = (DIVISIBLE, PER_POD, AGE)
OF_TOTALS: Final = (TOTAL, BACKLOG)

FEWEST_TOLD: Final = "too few changes of ready pods"
SAYS_NOTHING: Final = "its name says nothing"
MIDDLE: Final = 0.5  # of the elasticity: halfway between the hypotheses
EMPTY_SHARE: Final = 0.05  # of the cells: a queue that is empty more often shows no rate
FALL_QUANTILE: Final = 0.99
TOLERATED: Final = 1 + DEFAULT_FLAGS.tolerance  # times a target
FIXED: Final = 0.03  # of the mean: median distance from a fixed total that counts as one
EXPLAINED: Final = 0.9
"""Share of the variance that a fixed total explains, noise and slow changes of it left: of caches
that fill, with pods of all ages, it explained 0.84 at most."""
ASKING_SHARE: Final = 0.01  # of the samples, above which a resource counts as asking for more pods
WIDER: Final = 1.3
"""Factor of an elasticity's interval. In closed loops on cpu that of the regression held the truth
of other signals in 85 to 94 % of the cases: a controller that looks at a better measure of the work
knows more than the signal's past tells, which no data of the signal show (docs/fit.md)."""
_LEVEL_MS: Final = 600_000

# Only rates are shared as work by default: a latency or a pod's queue is not.
_RATE: Final = re.compile(
    r"per_second|per_minute|(^|_)(rate|rps|qps|tps|request(?:s|ed)?|queries|throughput)($|_)"
)
_TIME: Final = re.compile(
    r"latency|duration|(^|_)(seconds|ms|millis|milliseconds|age|p50|p90|p95|p99|percentile)($|_)"
)
_STOCK: Final = re.compile(
    r"(^|_)(queues?|queued|lag|backlog|messages?|jobs|tasks|pending|waiting|ready|depth|length|"
    r"outstanding|unacked|undelivered)($|_)"
)
_SHARED: Final = re.compile(
    r"(^|_)(connections|sessions|active|busy|concurrency|concurrent|flight|inflight|utilization|"
    r"usage|workers|threads|clients|users|players|streams)($|_)"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is not stated of a signal: the best answer, and what it rests on.

    `kind` "": there is none, and the signal cannot be simulated; `source` FITTED (the data show
    it), GUESSED (its name does), ASSUMED (a rate of pods) or NOT_IDENTIFIED. `rate_milli` belongs
    to a backlog.
    """

    signal: str
    metric: str
    kind: str
    source: str
    rate_milli: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a signal, "" where it has none, and then the problem; with facts about it."""

    kind: str
    source: str
    rate_milli: int | None = None
    problem: str = ""
    facts: tuple[Fact, ...] = ()
    question: Question | None = None


UNASKED: Final = Kind("", ASSUMED)
"""Nothing is known of a kind but what is taken for granted."""


def kind_of(name: str, usage: Usage, signal: SignalUsage, stated: SignalOverride) -> Kind:
    """Return the kind of a signal: the stated one, else what the metric's type or the data say."""
    metric = signal.metric
    if stated.kind is not None:
        return _stated(name, signal, stated)
    if metric.pods is not None or signal.is_total:
        return _asked(name, usage, signal, stated)
    member = metric.resource or metric.container_resource
    if member is None or member.name == "cpu":
        return Kind(DIVISIBLE, ASSUMED)
    if member.name == "memory":
        return _of_memory(name, usage, signal)
    return Kind("", NOT_IDENTIFIED, problem=(
        f"{name}: usage of {member.name} is not in a history, only that of cpu and memory; "
        "without it the HPA cannot be simulated"
    ))  # fmt: skip


def _of_memory(name: str, usage: Usage, signal: SignalUsage) -> Kind:
    """Return what changes of size show: shared by the pods, or each pod's own, which may grow.

    Undecided it is taken to be each pod's own only where it never asks for more pods: else every
    size hangs on whether further pods take a share of it.
    """
    shown = shown_kind(name, usage, signal)
    if shown.kind == DIVISIBLE and _has_fixed_total(name, usage, signal):
        found = Question(name, name, DIVISIBLE, FITTED, None, shown.told)
        return Kind(DIVISIBLE, FITTED, facts=shown.facts, question=found)
    if shown.kind == PER_POD:
        return Kind(AGE, FITTED, facts=shown.facts)
    told = f"divisible if pods share it, age if each has its own; {shown.told}"
    found = Question(name, name, "", NOT_IDENTIFIED, None, told)
    if not _asks_for_more(usage, signal):
        return Kind(AGE, ASSUMED, facts=shown.facts, question=found)
    problem = (
        f"{name}: whether pods share their memory (divisible) or each has its own (age) is not "
        f"known ({shown.told}); state its kind in a plant file (`hpabatch fit "
        "HISTORY --init-plant FILE`)"
    )
    return Kind("", NOT_IDENTIFIED, None, problem, shown.facts, found)


def _has_fixed_total(name: str, usage: Usage, signal: SignalUsage) -> bool:
    """Say whether a base and a fixed total that all pods share explain the value per pod.

    Pods that fill a cache of their own have little of it when they come and when they go, as the
    youngest go first: their changes look like those of shared memory, their levels do not.
    """
    cells = cells_of(replace(usage, signals={name: signal}))
    assert cells is not None  # changes were seen
    series = series_of(usage, signal, cells)
    known = series.still & (series.ready > 0.5) & np.isfinite(series.usage)
    value, share = series.usage[known], 1 / series.ready[known]
    off = share - share.mean()
    steep = float((off * value).sum()) / max(float((off**2).sum()), 1e-12)
    left = value - value.mean() - steep * off
    if np.median(np.abs(left)) < FIXED * value.mean():
        return True
    return bool(steep > 0 and left.var() < (1 - EXPLAINED) * value.var())


def _asks_for_more(usage: Usage, signal: SignalUsage) -> bool:
    """Say whether a resource was above its target for more than the least of the time."""
    metrics = (
        m for m in usage.candidate.spec.metrics if signal_name(m) == signal_name(signal.metric)
    )
    source = next((m.resource or m.container_resource for m in metrics), None)
    kept = signal.counted > 0
    if source is None or not kept.any():
        return True
    if source.target.average_value is not None:
        target = np.full(kept.sum(), float(source.target.average_value.milli()))
    else:
        known = np.maximum(signal.requested[kept], 1)
        target = signal.request_milli[kept] / known * (source.target.average_utilization or 0) / 100
    used = signal.sum_milli[kept] / signal.counted[kept]
    return bool((used > TOLERATED * target).mean() > ASKING_SHARE)


def has_age(signal: SignalUsage, stated: SignalOverride) -> bool:
    """Return whether a signal depends on the age of pods: memory, or what is stated to."""
    if stated.kind is not None:
        return stated.kind == AGE
    member = signal.metric.resource or signal.metric.container_resource
    return member is not None and member.name == "memory"


def _stated(name: str, signal: SignalUsage, stated: SignalOverride) -> Kind:
    assert stated.kind is not None
    wanted = OF_TOTALS if signal.is_total else OF_PODS
    if stated.kind not in wanted:
        return Kind("", GIVEN, problem=(
            f"{name} cannot be {stated.kind}: a metric of {signal.metric.type} is "
            f"{' or '.join(wanted)}; correct its kind in the plant file"
        ))  # fmt: skip
    if stated.kind == BACKLOG and not stated.rate_milli:
        return Kind("", GIVEN, problem=(
            f"{name}: a backlog needs the rate at which one pod empties it; state it in the "
            f'plant file: signals: {{"{name}": {{kind: backlog, rate: 5/s}}}}'
        ))  # fmt: skip
    return Kind(stated.kind, GIVEN, stated.rate_milli)


def _asked(name: str, usage: Usage, signal: SignalUsage, stated: SignalOverride) -> Kind:
    shown = shown_kind(name, usage, signal)
    word = metric_name(signal)
    if shown.kind:
        rate = stated.rate_milli or shown.rate_milli
        found = Question(name, word, shown.kind, FITTED, rate, shown.told)
        return Kind(shown.kind, FITTED, rate, facts=shown.facts, question=found)
    if not signal.is_total and _RATE.search(_words(word)) and not shown.contradicts:
        found = Question(name, word, DIVISIBLE, ASSUMED, None, f"a rate; {shown.told}")
        return Kind(DIVISIBLE, ASSUMED, facts=shown.facts, question=found)
    guess, why = ("", "") if shown.contradicts else guessed_kind(word, signal.is_total)
    rate = (stated.rate_milli or shown.fastest_milli) if guess == BACKLOG else None
    if why == SAYS_NOTHING and shown.stays:
        guess, why = TOTAL, "no queue by its name, and it does not move with the replicas"
    if guess == BACKLOG and not rate:
        guess, why = "", "a queue by its name, which never fell, so nothing bounds its rate"
    told = "; ".join(part for part in (why, shown.told) if part)
    source = GUESSED if guess else NOT_IDENTIFIED
    found = Question(name, word, guess, source, rate, told)
    problem = "" if guess else f"{UNKNOWN_DRIVER}{name}: {why or shown.told}"
    return Kind(guess, source, rate, problem, shown.facts, found)


def metric_name(signal: SignalUsage) -> str:
    """Return the name of the metric behind a Pods, Object or External signal."""
    source = signal.metric.pods or signal.metric.object or signal.metric.external
    return source.metric.name if source is not None else ""


def _words(metric: str) -> str:
    """Return a metric's name in lower case, its words parted by underscores."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", metric)
    return re.sub(r"[^a-z0-9]+", "_", apart.lower())


def guessed_kind(metric: str, is_total: bool) -> tuple[str, str]:
    """Return what a metric's name suggests, "" for nothing, and why."""
    words = _words(metric)
    if _TIME.search(words):
        return "", "a time by its name, which is not modelled"
    if _RATE.search(words):
        return (TOTAL if is_total else DIVISIBLE), "a rate by its name"
    if _STOCK.search(words):
        return (BACKLOG, "a queue by its name") if is_total else (DIVISIBLE, "work by its name")
    if _SHARED.search(words):
        return (TOTAL if is_total else DIVISIBLE), "work in progress by its name"
    return "", SAYS_NOTHING


# ---- what the data show ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """What changes of ready pods show of a signal: its kind, "" if they do not decide.

    `fastest_milli` is how fast a total fell, per pod and second. `contradicts`: they exclude every
    kind that such a metric can have; `stays`: the value does not move with the replicas at once,
    as that of neither total nor backlog does.
    """

    kind: str
    told: str
    facts: tuple[Fact, ...] = ()
    rate_milli: int | None = None
    fastest_milli: int | None = None
    contradicts: bool = False
    stays: bool = False


def shown_kind(name: str, usage: Usage, signal: SignalUsage) -> Shown:
    """Return what changes of ready pods show, on the signal's own grid."""
    cells = cells_of(replace(usage, signals={name: signal}))
    if cells is None:
        return Shown("", "it has no samples")
    series = series_of(usage, signal, cells)
    if signal.is_total:
        return _shown_of_total(name, series, cells)
    found = base_from_changes(series, cells)
    elasticity = _elasticity(found, _mean(series), -1.0)
    if found is None or elasticity is None:
        return Shown("", FEWEST_TOLD)
    kind = kind_of_pods(elasticity)
    told, fact = _told(name, found, elasticity)
    if kind == DIVISIBLE:
        return Shown(kind, f"{told}: value × replicas stays", (fact,))
    if kind == PER_POD:
        return Shown(kind, f"{told}: the value stays", (fact,))
    beyond = elasticity.high < -1 - MIDDLE or elasticity.low > MIDDLE
    return Shown("", f"{told}: undecided", (fact,), contradicts=beyond)


def kind_of_pods(elasticity: Interval) -> str:
    """Return the kind of a value per pod, "" unless its elasticity against replicas decides.

    -1: shared by the pods, which with a base is somewhat more; 0: each pod's own.
    """
    _, low, high = elasticity
    if low >= -1 - MIDDLE and high <= -MIDDLE and low <= -1 + MIDDLE:
        return DIVISIBLE
    if low >= -MIDDLE and high <= MIDDLE and low <= 0 <= high:
        return PER_POD
    return ""


def _shown_of_total(name: str, series: Series, cells: Cells) -> Shown:
    """Return what changes show of an Object or External metric: its level, and its slope."""
    ready = np.where(series.ready > 0.5, series.ready, np.nan)
    shared = replace(series, usage=series.usage / ready)
    found = base_from_changes(shared, cells)
    elasticity = _elasticity(found, _mean(shared), 0.0)
    slopes = slopes_of(series, cells)
    fastest = fastest_fall(slopes)
    whole = round(fastest) or None
    taken = base_from_changes(slopes, cells, level=past_means(ready, (cells.per(_LEVEL_MS),))[:, 0])
    if found is None or elasticity is None or taken is None:
        return Shown("", FEWEST_TOLD, fastest_milli=whole)
    rate = Interval(-taken.interval.value, -taken.interval.high, -taken.interval.low)
    told, fact = _told(name, found, elasticity)
    per = f"a pod takes out {_amount(rate.low)} to {_amount(rate.high)} per second"
    if empty_share(series) > EMPTY_SHARE:
        return Shown("", f"{told}; it is often empty, which hides a rate", (fact,), None, whole)
    kind = kind_of_total(elasticity, rate, fastest)
    if kind == BACKLOG:
        of_rate = Fact(f"signals.{name}.rate", rate.value / 1000, "/s", rate.low / 1000,
                       rate.high / 1000, FITTED, f"{taken.changes} changes of ready pods in "
                       f"{taken.hours} hours")  # fmt: skip
        told = f"{taken.changes} changes of replicas: {per}"
        return Shown(kind, told, (of_rate,), round(rate.value), whole)
    if kind == TOTAL:
        return Shown(kind, f"{told}: the value stays", (fact,), None, whole)
    beyond = elasticity.high < -MIDDLE or elasticity.low > MIDDLE
    beyond &= rate.low <= 0  # (a queue that falls fast also has a lower level soon)
    why = "it moves with the replicas" if beyond else "undecided"
    stays = reach_of(elasticity) < MIDDLE
    return Shown("", f"{told}, {per}: {why}", (fact,), None, whole, beyond, stays)


def kind_of_total(elasticity: Interval, rate: Interval, fastest: float) -> str:
    """Return the kind of an Object or External metric, "" unless the intervals decide.

    Args:
        elasticity: of the value against replicas.
        rate: what one pod takes out of it per second, by how its slope changes with replicas.
        fastest: how fast it fell, per pod and second. What pods empty never falls faster than they
            can, so a rate that is surely below that is none.
    """
    reach = (rate.high - rate.low) / 2
    if rate.low > reach and rate.high >= fastest:
        return BACKLOG
    if reach_of(elasticity) < MIDDLE and rate.high < fastest / 2:
        return TOTAL
    return ""


def reach_of(interval: Interval) -> float:
    """Return how far an interval reaches from 0."""
    return max(abs(interval.low), abs(interval.high))


def slopes_of(series: Series, cells: Cells) -> Series:
    """Return the change per second of a total in each cell, per ready pod, as a series.

    Still only where the cell before is so too, with the same pods: a total is seen late, and then
    is that of the pods of before.
    """
    before = np.append(np.nan, series.usage[:-1])
    same = np.append(False, np.rint(series.ready[1:]) == np.rint(series.ready[:-1]))
    slope = (series.usage - before) * 1000 / cells.resolution_ms
    ready = np.where(series.ready > 0.5, series.ready, np.nan)
    still = series.still & np.append(False, series.still[:-1]) & same & np.isfinite(slope)
    return Series(slope / ready, slope / ready, series.ready, still)


def fastest_fall(slopes: Series) -> float:
    """Return how fast a total fell per ready pod: the FALL_QUANTILE of its cells, at least 0."""
    falls = -slopes.usage[slopes.still & np.isfinite(slopes.usage)]
    return max(float(np.quantile(falls, FALL_QUANTILE)), 0.0) if falls.size else 0.0


def empty_share(series: Series) -> float:
    """Return in what share of the cells with samples the value was 0."""
    known = series.usage[np.isfinite(series.usage)]
    return float((known <= 0).mean()) if known.size else 1.0


def _mean(series: Series) -> float:
    usage: F64 = series.usage[series.still & np.isfinite(series.usage)]
    return float(usage.mean()) if usage.size else 0.0


def _elasticity(found: BaseEstimate | None, mean: float, by: float) -> Interval | None:
    """Return d ln(value) / d ln(replicas): the base relative to the mean per pod, plus `by`."""
    if found is None or mean <= 0:
        return None
    value, low, high = (end / mean + by for end in found.interval)
    return Interval(value, value - WIDER * (value - low), value + WIDER * (high - value))


def _told(name: str, found: BaseEstimate, elasticity: Interval) -> tuple[str, Fact]:
    value, low, high = elasticity
    note = f"of the value against replicas, {found.changes} changes in {found.hours} hours"
    fact = Fact(f"signals.{name}.elasticity", value, "", low, high, FITTED, note)
    told = f"{found.changes} changes of replicas, elasticity {low:.2f} to {high:.2f}"
    return told, fact


def _amount(milli: float) -> str:
    return f"{milli / 1000:.3g}"
