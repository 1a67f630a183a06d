"""Pods of a workload: start-up, termination, failures and differences, from recorded lives."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hpabatch.engine.fit.stats import t_quantile
from hpabatch.engine.fit.usage import Lives, SignalUsage, Usage, spacing_ms
from hpabatch.engine.fit.workload import ASSUMED, FITTED, NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.model.plant import REPLICA_SET, STATEFUL_SET, Pods

MOST_PAIRS: Final = 8
FEWEST_PODS: Final = 6
"""Fewer pods say nothing about how pods differ, or how memory grows."""

FEWEST_SAMPLES: Final = 40  # of a pod in each half of its samples
LEAST_SPREAD: Final = 0.03  # pods that are closer to each other than this are taken for equal
TOTALS: Final = "totals"
AT_ONCE: Final = "at once"
STARTS: Final = {
    TOTALS: "only the workload's size was recorded, not its pods",
    AT_ONCE: "pods are taken as ready at once, as the history has them",
}
"""Notes on times that are assumed, by what a sweep's `hpas` call the assumption."""
ENDED_MS: Final = 600_000  # a pod gone so soon after it ceased to be ready was being removed

_HOUR_MS: Final = 3_600_000


def fit_pods(
    usage: Usage, compared: SignalUsage | None, work_share: float
) -> tuple[Pods, list[Fact]]:
    """Return the parameters of a workload's pods, and what is known of each.

    Args:
        usage: what was observed of the workload.
        compared: the signal by which pods are compared with each other; None: they are not.
        work_share: how much of that signal's usage is work, and not the pod's base.
    """
    kind = usage.candidate.spec.scale_target_ref.kind
    removal = STATEFUL_SET if kind == "StatefulSet" else REPLICA_SET
    ends, note = (float(usage.ready.min()), float(usage.ready.max())), "mean of the ticks"
    mean, note = float(usage.ready.mean()), f"{note}, least and most"
    facts = [Fact("pods.ready", mean, "pods", *ends, RECORDED, note)]
    facts.append(Fact("pods.removal", None, "", None, None, RECORDED, f"{removal}: a {kind}"))
    if usage.lives.generated:
        times = (("startup", _mean_s(Pods())), ("termination", 30.0))
        facts += [_assumed(name, seconds, STARTS[TOTALS]) for name, seconds in times]
        return Pods(removal=removal), facts
    first_ms, last_ms = int(usage.now_ms[0]), int(usage.now_ms[-1])
    pairs, fact = _startup(usage.lives, first_ms, _unseen_ms(usage))
    termination_ms, of_termination = _termination(usage.lives)
    failure_at, restart_ms, of_failures = _failures(usage.lives, first_ms, last_ms)
    shares, of_shares = _shares(compared, work_share)
    age_ms, of_age = _age(usage.lives, first_ms)
    pods = Pods(
        startup_ms=pairs,
        termination_ms=termination_ms,
        removal=removal,
        shares=shares,
        costs=(0,) * len(shares),
        failure_at_ms=failure_at,
        restart_ms=restart_ms,
        initial_age_ms=age_ms,
    )
    return pods, [*facts, fact, of_termination, *of_failures, of_shares, of_age]


def _assumed(name: str, value: float, note: str) -> Fact:
    return Fact(f"pods.{name}", value, "s", None, None, ASSUMED, note)


def _mean_s(pods: Pods) -> float:
    return sum(map(sum, pods.startup_ms)) / len(pods.startup_ms) / 1000


def _unseen_ms(usage: Usage) -> int:
    """Return the spacing of samples where pods count as created at their first one, else 0."""
    created_ms = usage.lives.created_ms
    for signal in usage.signals.values():
        first_ms = signal.pods.first_ms
        if first_ms.size != created_ms.size:
            continue  # (a total has no pods)
        born = (first_ms >= 0) & (created_ms > usage.now_ms[0])
        if born.any() and (first_ms < created_ms)[born].all():
            return spacing_ms(signal)
    return 0


def _startup(
    lives: Lives, first_ms: int, unseen_ms: int
) -> tuple[tuple[tuple[int, int], ...], Fact]:
    """Return up to MOST_PAIRS equally likely (scheduling, starting) times.

    Pods that were created while recorded, in order of both times together: each pair is that of a
    real pod, the middle one of an equal part of them. Pods were created up to `unseen_ms` before
    their first sample, or twice that where a sample is a mean over the time since the one before.
    """
    born = (lives.created_ms >= first_ms) & (lives.ready_ms < NEVER_MS)
    born &= lives.started_ms < NEVER_MS
    if not born.any():
        default = Pods()
        note = "no pod was seen to start"
        return default.startup_ms, _assumed("startup", _mean_s(default), note)
    scheduling = np.maximum(lives.started_ms - lives.created_ms, 0)[born]
    starting = np.maximum(lives.ready_ms - lives.started_ms, 0)[born]
    both = scheduling + starting
    order = np.lexsort((starting, both))
    count = min(MOST_PAIRS, order.size)
    middle = order[((2 * np.arange(count) + 1) * order.size) // (2 * count)]
    pairs = tuple((int(scheduling[k]), int(starting[k])) for k in middle)
    if not both.any():
        return pairs, _assumed("startup", 0.0, STARTS[AT_ONCE])
    seconds = both / 1000
    note = (
        f"{order.size} pods; scheduling {np.median(scheduling) / 1000:g} s, "
        f"starting {np.median(starting) / 1000:g} s (medians)"
    )
    low, mean, high = (float(value) for value in (seconds.min(), seconds.mean(), seconds.max()))
    apart = unseen_ms / 1000
    if low == high and order.size > 1:
        # No two pods start equally fast to the millisecond: a map or an importer said so.
        note = f"{note}; alike: stated or inferred, not measured"
        if not unseen_ms:
            return pairs, _assumed("startup", mean, note)
        note += f" (inferred of samples {apart:g} s apart: up to {2 * apart:g} s more)"
        return pairs, Fact("pods.startup", mean, "s", low, high + 2 * apart, ASSUMED, note)
    if unseen_ms:
        note += f"; samples are {apart:g} s apart, and when pods were created is not known"
    low, high = max(low - apart, 0.0), high + apart
    return pairs, Fact("pods.startup", mean, "s", low, high, RECORDED, note)


def _termination(lives: Lives) -> tuple[int, Fact]:
    ended = (lives.deleted_ms < NEVER_MS) & (lives.gone_ms < NEVER_MS)
    if not ended.any():
        default = Pods().termination_ms
        return default, _assumed("termination", default / 1000, "no pod was seen to end")
    took = np.maximum(lives.gone_ms - lives.deleted_ms, 0)[ended]
    middle, low, high = (float(np.quantile(took, q)) / 1000 for q in (0.5, 0.05, 0.95))
    note = f"median of {took.size} pods, 5 % and 95 %"
    return round(middle * 1000), Fact("pods.termination", middle, "s", low, high, RECORDED, note)


def _failures(lives: Lives, first_ms: int, last_ms: int) -> tuple[tuple[int, ...], int, list[Fact]]:
    """Return after how much serving time pods failed, how long restarts took, and the facts."""
    gone = lives.gone_ms[lives.lost_pod]
    lasting = (lives.again_ms < NEVER_MS) | (gone > lives.lost_ms + ENDED_MS)
    kept = lasting & (lives.lost_ms > first_ms) & (lives.lost_ms <= last_ms)
    ends = np.array([first_ms, last_ms], np.int64)
    start_ms, end_ms = lives.ready_ms_until(ends).tolist()
    served_days = (end_ms - start_ms) / (24 * _HOUR_MS)
    if not kept.any():
        note = f"no failure in {served_days:.1f} pod-days"
        return (), Pods().restart_ms, [Fact("pods.mtbf", None, "s", None, None, RECORDED, note)]
    at = np.sort(lives.ready_ms_until(lives.lost_ms[kept]) - start_ms)
    failure_at = tuple(np.unique(np.maximum(at, 1)).tolist())
    back = kept & (lives.again_ms < NEVER_MS)
    took = (lives.again_ms - lives.lost_ms)[back]
    restart_ms = int(np.median(took)) if took.size else Pods().restart_ms
    count = int(kept.sum())
    mean_s = (end_ms - start_ms) / count / 1000
    low, high = _poisson(count)
    note = f"{count} times readiness was lost in {served_days:.1f} pod-days"
    return (
        failure_at,
        restart_ms,
        [
            Fact("pods.mtbf", mean_s, "s", mean_s / high, mean_s / low, RECORDED, note),
            Fact(
                "pods.restart",
                restart_ms / 1000,
                "s",
                None,
                None,
                RECORDED if took.size else ASSUMED,
                f"median of {took.size}" if took.size else "none was ready again",
            ),
        ],
    )


def _poisson(count: int) -> tuple[float, float]:
    """Return by which factors a Poisson mean may lie below and above a count (95 %, Byar)."""
    low = (1 - 1 / (9 * count) - 1.96 / (3 * math.sqrt(count))) ** 3
    more = count + 1
    high = more / count * (1 - 1 / (9 * more) + 1.96 / (3 * math.sqrt(more))) ** 3
    return max(low, 1e-3), high


def _age(lives: Lives, first_ms: int) -> tuple[int, Fact]:
    there = (lives.ready_ms <= first_ms) & (lives.gone_ms > first_ms)
    if not there.any():
        default = Pods().initial_age_ms
        return default, _assumed("initial_age", default / 1000, "no pod was there at the start")
    ages = np.maximum(first_ms - lives.created_ms, 0)[there]
    middle = int(np.median(ages))
    note = f"median of the {ages.size} pods that were there at the start"
    low, high = float(ages.min()) / 1000, float(ages.max()) / 1000
    return middle, Fact("pods.initial_age", middle / 1000, "s", low, high, RECORDED, note)


def _shares(signal: SignalUsage | None, work_share: float) -> tuple[tuple[int, ...], Fact]:
    """Return shares of the work by class: three classes where pods differ for good, else one.

    A pod's ratio to the mean of its ticks is averaged over every other half hour and over the
    rest; what both have in common is the pod's own (their covariance is its variance: noise of
    half hours apart does not hang together). Three equally likely classes 1 - a, 1, 1 + a have
    the variance 2/3 a².
    """
    alike = (1000,)
    if signal is None or signal.is_total:
        return alike, Fact("pods.shares", None, "", None, None, ASSUMED, "1: not compared")
    pods = signal.pods
    pods = pods[(pods.even >= FEWEST_SAMPLES) & (pods.odd >= FEWEST_SAMPLES)]
    if pods.size < FEWEST_PODS:
        note = f"1: {pods.size} pods with samples enough to compare"
        return alike, Fact("pods.shares", None, "", None, None, NOT_IDENTIFIED, note)
    even, odd = pods.even_ratio / pods.even, pods.odd_ratio / pods.odd
    even, odd = even - even.mean(), odd - odd.mean()
    both = math.sqrt(float((even**2).sum() * (odd**2).sum()))
    common = float((even * odd).sum())
    freedom = pods.size - 2
    alike_r = common / both if both > 0 else 0.0
    strength = alike_r * math.sqrt(freedom / max(1 - alike_r**2, 1e-12))
    spread = math.sqrt(max(common, 0) / (pods.size - 1)) / max(work_share, 0.05)
    if strength < t_quantile(freedom) or spread < LEAST_SPREAD:
        note = f"1: {pods.size} pods do not differ for good by {LEAST_SPREAD:.0%} or more"
        return alike, Fact("pods.shares", 0.0, "", None, None, FITTED, note)
    off = min(round(1000 * spread * math.sqrt(1.5)), 950)
    shares = (1000 - off, 1000, 1000 + off)
    told = ", ".join(f"{share / 1000:g}" for share in shares)
    note = f"{told}: the standard deviation between {pods.size} pods"
    return shares, Fact("pods.shares", spread, "", None, None, FITTED, note)
