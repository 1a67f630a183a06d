"""Stabilisation, rate limits and scale events.

Upstream: ``pkg/controller/podautoscaler/horizontal.go``. Memory (recommendations and scale events)
is kept in plain lists in upstream's slot order; times are integer microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .gomath import MAX_INT32, MIN_INT32, ceil_to_int32, float_to_int32, wrap32
from .profiles import NEWEST, Profile
from .times import SECOND

Json = dict[str, Any]

SCALE_UP_LIMIT_FACTOR = 2.0
SCALE_UP_LIMIT_MINIMUM = 4.0


@dataclass
class Recommendation:
    """A recorded wish (``timestampedRecommendation``)."""

    value: int
    time: int


@dataclass
class ScaleEvent:
    """A recorded change (``timestampedScaleEvent``); outdated only means: slot may be reused."""

    change: int
    time: int
    outdated: bool


@dataclass
class Memory:
    """The controller's memory of one HPA; None: the HPA was never seen."""

    recommendations: list[Recommendation] | None = None
    ups: list[ScaleEvent] = field(default_factory=list)
    downs: list[ScaleEvent] = field(default_factory=list)


class Limited(NamedTuple):
    """A number and the reason that goes with it."""

    replicas: int
    reason: str


# --- normalisation without behavior ---------------------------------------------------------------


def stabilize_legacy(
    recommendations: list[Recommendation], want: int, now: int, downscale_stabilization: int
) -> int:
    """Normalisation, legacy path (``stabilizeRecommendation``): highest wish of the window."""
    cutoff = now - downscale_stabilization
    best = want
    reusable: int | None = None
    for index, recommendation in enumerate(recommendations):
        if recommendation.time < cutoff:
            reusable = index
        elif recommendation.value > best:
            best = recommendation.value
    record(recommendations, Recommendation(want, now), reusable)
    return best


def record(
    recommendations: list[Recommendation], new: Recommendation, reusable: int | None
) -> None:
    """Overwrite the slot found reusable, else append."""
    if reusable is None:
        recommendations.append(new)
    else:
        recommendations[reusable] = new


def limit_legacy(current: int, want: int, minimum: int, maximum: int) -> Limited:
    """Normalisation, legacy path (``convertDesiredReplicasWithRules``)."""
    limit = float_to_int32(max(SCALE_UP_LIMIT_FACTOR * float(current), SCALE_UP_LIMIT_MINIMUM))
    if maximum > limit:
        highest = Limited(limit, "ScaleUpLimit")
    else:
        highest = Limited(maximum, "TooManyReplicas")
    if want < minimum:
        return Limited(minimum, "TooFewReplicas")
    if want > highest.replicas:
        return highest
    return Limited(want, "DesiredWithinRange")


# --- normalisation with behavior ------------------------------------------------------------------


def stabilize_with_windows(
    recommendations: list[Recommendation],
    current: int,
    want: int,
    now: int,
    up_window: int,
    down_window: int,
    profile: Profile = NEWEST,
) -> Limited:
    """Normalisation, two windows (``stabilizeRecommendationWithBehaviors``).

    The reason is returned even if nothing was changed.
    """
    if not profile.two_sided_stabilization:
        return stabilize_one_side(recommendations, current, want, now, up_window, down_window)
    up_cutoff, down_cutoff = now - up_window, now - down_window
    lowest = highest = want
    reusable: int | None = None
    for index, recommendation in enumerate(recommendations):
        if recommendation.time > up_cutoff:
            lowest = min(lowest, recommendation.value)
        if recommendation.time > down_cutoff:
            highest = max(highest, recommendation.value)
        if recommendation.time < up_cutoff and recommendation.time < down_cutoff:
            reusable = index
    stabilized = min(max(current, lowest), highest)
    record(recommendations, Recommendation(want, now), reusable)
    return Limited(stabilized, "ScaleUpStabilized" if want >= current else "ScaleDownStabilized")


def stabilize_one_side(
    recommendations: list[Recommendation],
    current: int,
    want: int,
    now: int,
    up_window: int,
    down_window: int,
) -> Limited:
    """Normalisation with one window, the wish's direction's; the current size is not looked at."""
    upward = want >= current
    cutoff = now - (up_window if upward else down_window)
    obsolete = now - max(up_window, down_window)
    stabilized = want
    reusable: int | None = None
    for index, recommendation in enumerate(recommendations):
        if recommendation.time > cutoff:
            better = min if upward else max
            stabilized = better(recommendation.value, stabilized)
        if recommendation.time < obsolete:
            reusable = index
    record(recommendations, Recommendation(want, now), reusable)
    return Limited(stabilized, "ScaleUpStabilized" if upward else "ScaleDownStabilized")


def change_in_period(events: list[ScaleEvent], now: int, period_seconds: int) -> int:
    """Normalisation, rate limit (``getReplicasChangePerPeriod``): strictly newer events."""
    cutoff = now - period_seconds * SECOND
    return wrap32(sum(event.change for event in events if event.time > cutoff))


def period_start(
    current: int, ups: list[ScaleEvent], downs: list[ScaleEvent], now: int, period_seconds: int
) -> int:
    """Replicas at the start of a policy's period, as far as the recorded events tell."""
    added = change_in_period(ups, now, period_seconds)
    removed = change_in_period(downs, now, period_seconds)
    return wrap32(current - added + removed)


def scale_up_limit(
    current: int,
    rules: Json,
    ups: list[ScaleEvent],
    downs: list[ScaleEvent],
    now: int,
) -> int:
    """``calculateScaleUpLimitWithScalingRules``: Max means the largest change."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = []
    for policy in rules.get("policies") or []:
        start = period_start(current, ups, downs, now, policy["periodSeconds"])
        if policy["type"] == "Pods":
            limits.append(wrap32(start + policy["value"]))
        else:  # the order of the operations is visible in the last bit
            limits.append(ceil_to_int32(float(start) * (1.0 + float(policy["value"]) / 100.0)))
    if rules.get("selectPolicy") == "Min":
        return min([MAX_INT32, *limits])
    return max([MIN_INT32, *limits])


def scale_down_limit(
    current: int, rules: Json, ups: list[ScaleEvent], downs: list[ScaleEvent], now: int
) -> int:
    """``calculateScaleDownLimitWithBehaviors``: Max means the largest change, so the minimum."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = []
    for policy in rules.get("policies") or []:
        start = period_start(current, ups, downs, now, policy["periodSeconds"])
        if policy["type"] == "Pods":
            limits.append(wrap32(start - policy["value"]))
        else:
            limits.append(float_to_int32(float(start) * (1.0 - float(policy["value"]) / 100.0)))
    if rules.get("selectPolicy") == "Min":
        return max([MIN_INT32, *limits])
    return min([MAX_INT32, *limits])


def limit_rate(
    current: int,
    want: int,
    minimum: int,
    maximum: int,
    behavior: Json,
    ups: list[ScaleEvent],
    downs: list[ScaleEvent],
    now: int,
    profile: Profile = NEWEST,
) -> Limited:
    """``convertDesiredReplicasWithBehaviorRate``: only the bound of the direction is checked."""
    both = profile.both_event_lists  # else each direction knows its own events only
    if want > current:
        seen = downs if both else []
        limit = max(scale_up_limit(current, behavior["scaleUp"], ups, seen, now), current)
        if maximum > limit:
            highest = Limited(limit, "ScaleUpLimit")
        else:
            highest = Limited(maximum, "TooManyReplicas")
        if want > highest.replicas:
            return highest
    elif want < current:
        seen = ups if both else []
        limit = min(scale_down_limit(current, behavior["scaleDown"], seen, downs, now), current)
        if minimum < limit:
            lowest = Limited(limit, "ScaleDownLimit")
        else:
            lowest = Limited(minimum, "TooFewReplicas")
        if want < lowest.replicas:
            return lowest
    return Limited(want, "DesiredWithinRange")


def store_scale_event(
    events: list[ScaleEvent], rules: Json, previous: int, new: int, now: int
) -> None:
    """``storeScaleEvent`` for the list and the rules of the direction of the change."""
    longest = max([0, *(policy["periodSeconds"] for policy in rules.get("policies") or [])])
    cutoff = now - longest * SECOND
    reusable: int | None = None
    for index, event in enumerate(events):
        if event.time < cutoff:
            event.outdated = True
        if event.outdated:
            reusable = index
    stored = ScaleEvent(abs(wrap32(new - previous)), now, outdated=False)
    if reusable is None:
        events.append(stored)
    else:
        events[reusable] = stored


# --- both parts -----------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """The current size and the bounds of the spec."""

    current: int
    minimum: int
    maximum: int


def stabilize_and_limit(
    memory: Memory,
    behavior: Json | None,
    downscale_stabilization: int,
    bounds: Bounds,
    want: int,
    now: int,
    profile: Profile,
) -> tuple[Limited, Limited]:
    """Normalisation: stabilise, then limit, with or without behavior; the wish is recorded."""
    assert memory.recommendations is not None
    recommendations, current = memory.recommendations, bounds.current
    if behavior is None:
        best = stabilize_legacy(recommendations, want, now, downscale_stabilization)
        limited = limit_legacy(current, best, bounds.minimum, bounds.maximum)
        return Limited(best, "ScaleDownStabilized"), limited
    up_window, down_window = windows(behavior, downscale_stabilization)
    stabilized = stabilize_with_windows(
        recommendations, current, want, now, up_window, down_window, profile
    )
    limited = limit_rate(
        current,
        stabilized.replicas,
        bounds.minimum,
        bounds.maximum,
        behavior,
        memory.ups,
        memory.downs,
        now,
        profile,
    )
    return stabilized, limited


def windows(behavior: Json, downscale_stabilization: int) -> tuple[int, int]:
    """Return the (up, down) stabilization windows; only the down one has a flag to fall to."""
    up = behavior["scaleUp"].get("stabilizationWindowSeconds") or 0
    down = behavior["scaleDown"].get("stabilizationWindowSeconds")
    if down is None:
        down = wrap32(downscale_stabilization // SECOND)
    return up * SECOND, down * SECOND
