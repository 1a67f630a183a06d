"""The controller: one reconcile per tick of a golden timeline.

Upstream: ``pkg/controller/podautoscaler/horizontal.go``. Memory (recommendations and scale events)
is kept in plain lists in upstream's slot order; times are integer microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .calculator import (
    Context,
    MetricError,
    Sample,
    calculate_requests,
    directional_tolerances,
    failure_reason,
    group_pods,
    per_pod_usage,
    propose,
)
from .gomath import MAX_INT32, MIN_INT32, ceil_to_int32, float_to_int32, wrap32
from .selector import selector_error
from .times import SECOND, format_time, parse_time

Json = dict[str, Any]

SCALE_UP_LIMIT_FACTOR = 2.0
SCALE_UP_LIMIT_MINIMUM = 4.0

# What the golden data's REST mapper knows: (group, kind).
KNOWN_TARGETS = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
}


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
) -> Limited:
    """Normalisation, two windows (``stabilizeRecommendationWithBehaviors``).

    The reason is returned even if nothing was changed.
    """
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
    current: int, rules: Json, ups: list[ScaleEvent], downs: list[ScaleEvent], now: int
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
) -> Limited:
    """``convertDesiredReplicasWithBehaviorRate``: only the bound of the direction is checked."""
    if want > current:
        limit = max(scale_up_limit(current, behavior["scaleUp"], ups, downs, now), current)
        if maximum > limit:
            highest = Limited(limit, "ScaleUpLimit")
        else:
            highest = Limited(maximum, "TooManyReplicas")
        if want > highest.replicas:
            return highest
    elif want < current:
        limit = min(scale_down_limit(current, behavior["scaleDown"], ups, downs, now), current)
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


# --- one HPA --------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """What one tick decided; failed: nothing may be written to the scale."""

    desired: int
    rescale: bool
    failed: bool = False


class Controller:
    """One HPA under control, with its status, and the controller's memory of it."""

    def __init__(self, timeline: Json, k8s: str = "1.38") -> None:
        flags, hpa = timeline["flags"], timeline["hpa"]
        spec, status = hpa["spec"], hpa.get("status") or {}
        self.k8s = k8s
        self.flags: Json = flags
        self.downscale_stabilization_s: int = flags.get("downscale_stabilization_s") or 0
        self.scale_to_zero_gate = bool(flags.get("hpa_scale_to_zero"))
        self.pod_template: Json = {
            "containers": timeline.get("containers"),
            "init_containers": timeline.get("init_containers"),
        }
        self.target: Json = spec["scaleTargetRef"]
        minimum = spec.get("minReplicas")
        self.minimum: int = 1 if minimum is None else minimum
        self.maximum: int = spec["maxReplicas"]
        self.metrics: list[Json] = spec.get("metrics") or []
        self.behavior: Json | None = spec.get("behavior")
        self.current_replicas: int = status.get("currentReplicas") or 0
        self.desired_replicas: int = status.get("desiredReplicas") or 0
        self.conditions = [
            {key: condition[key] for key in ("type", "status", "reason")}
            for condition in status.get("conditions") or []
        ]
        self.memory = Memory()
        if timeline.get("initial_recommendations") is not None:
            self.memory.recommendations = read_recommendations(timeline["initial_recommendations"])

    # --- conditions

    def set_condition(self, kind: str, status: str, reason: str) -> None:
        """``setCondition``: overwrite in place, or append."""
        for condition in self.conditions:
            if condition["type"] == kind:
                condition.update(status=status, reason=reason)
                return
        self.conditions.append({"type": kind, "status": status, "reason": reason})

    def remove_condition(self, kind: str) -> None:
        """Remove a condition if it is there."""
        self.conditions = [c for c in self.conditions if c["type"] != kind]

    def has_condition(self, kind: str) -> bool:
        """Tell whether a condition is there and True."""
        return any(c["type"] == kind and c["status"] == "True" for c in self.conditions)

    # --- the reconcile

    def tick(self, tick: Json) -> Json:
        """Apply the tick's edits, reconcile once, and return the observable result."""
        self.edit(tick)
        scale_to = self.reconcile(tick)
        return {
            "desired_replicas": self.desired_replicas,
            "status_current_replicas": self.current_replicas,
            "rescaled": scale_to is not None,
            "scale_to": scale_to,
            "conditions": [dict(condition) for condition in self.conditions],
        }

    def edit(self, tick: Json) -> None:
        """Apply what happened before this tick: edits of the spec, and a restart."""
        if tick.get("restart"):
            self.memory = Memory()
        if tick.get("set_behavior") is not None:
            self.behavior = tick["set_behavior"]
        if tick.get("remove_behavior"):
            self.behavior = None
        if tick.get("set_min_replicas") is not None:
            self.minimum = tick["set_min_replicas"]
        if tick.get("set_max_replicas") is not None:
            self.maximum = tick["set_max_replicas"]

    def reconcile(self, tick: Json) -> int | None:
        """Reconcile, one sync in order (``reconcileAutoscaler``): the new scale, or None."""
        now = parse_time(tick["now"])
        if tick.get("scale_get_error") is not None or not target_is_known(self.target):
            self.set_condition("AbleToScale", "False", "FailedGetScale")
            return None
        self.set_condition("AbleToScale", "True", "SucceededGetScale")
        current: int = tick["spec_replicas"]
        if self.memory.recommendations is None:
            self.memory.recommendations = [Recommendation(current, now)]
        decision = self.decide(tick, current, now)
        self.current_replicas = current
        if decision.failed:
            return None  # status.desiredReplicas keeps its old value
        if not decision.rescale:
            self.desired_replicas = current
            return None
        if tick.get("scale_update_error") is not None:
            self.set_condition("AbleToScale", "False", "FailedUpdateScale")
            return None
        self.after_rescale(current, decision.desired, now)
        self.desired_replicas = decision.desired
        return decision.desired

    def decide(self, tick: Json, current: int, now: int) -> Decision:
        """Reconcile, decision: disabled, forced into the limits, or by the metrics."""
        scaled_to_zero = self.scale_to_zero_gate and self.has_condition("ScaledToZero")
        if current == 0 and not (scaled_to_zero and (self.minimum != 0 or self.zero_capable())):
            self.set_condition("ScalingActive", "False", "ScalingDisabled")
            if not self.scale_to_zero_gate:
                self.remove_condition("ScaledToZero")
            return Decision(0, rescale=False)
        if current > self.maximum:
            return Decision(self.maximum, rescale=True)
        if current < self.minimum and current != 0:
            return Decision(self.minimum, rescale=True)

        proposal = self.compute(tick, current, now)
        if proposal is None:
            return Decision(0, rescale=False, failed=True)
        desired = self.normalize(current, max(proposal, 0), now)
        if current == 0 and self.minimum != 0 and desired < self.minimum:
            desired = self.minimum  # a target that this HPA put to zero, under a new minimum
        return Decision(desired, rescale=desired != current)

    def zero_capable(self) -> bool:
        """Tell whether some metric works without pods."""
        return any(metric["type"] in ("Object", "External") for metric in self.metrics)

    def after_rescale(self, current: int, desired: int, now: int) -> None:
        """Reconcile, scale write: what follows a success."""
        self.set_condition("AbleToScale", "True", "SucceededRescale")
        if not self.scale_to_zero_gate:
            self.remove_condition("ScaledToZero")
        elif current > 0 and desired == 0 and self.minimum == 0 and self.zero_capable():
            self.set_condition("ScaledToZero", "True", "ScaledToZero")
        else:
            self.set_condition("ScaledToZero", "False", "NotScaledToZero")
        if self.behavior is not None:
            upward = desired > current
            store_scale_event(
                self.memory.ups if upward else self.memory.downs,
                self.behavior["scaleUp" if upward else "scaleDown"],
                current,
                desired,
                now,
            )

    # --- metrics

    def compute(self, tick: Json, current: int, now: int) -> int | None:
        """Combining metrics (``computeReplicasForMetrics``): None if nothing may be done."""
        scale_selector = tick.get("selector")
        if scale_selector is None:
            scale_selector = "app=web"
        if not scale_selector or selector_error(scale_selector) is not None:
            self.set_condition("ScalingActive", "False", "InvalidSelector")
            return None
        context = self.context(tick, current, now)
        answers = tick.get("metrics") or []
        best = 0
        failures = []
        for index, metric in enumerate(self.metrics):
            answer = answers[index] if index < len(answers) else {}
            try:
                replicas = propose(metric, answer, context).replicas
            except MetricError:
                failures.append(failure_reason(metric))
                continue
            if best == 0 or replicas > best:  # a zero is replaced by anything, even less
                best = replicas
        if failures and (len(failures) == len(self.metrics) or best < current):
            self.set_condition("ScalingActive", "False", failures[0])
            return None
        self.set_condition("ScalingActive", "True", "ValidMetricFound")
        return best

    def context(self, tick: Json, current: int, now: int) -> Context:
        """Build the calculator's context of this tick."""
        behavior = self.behavior or {}
        down, up = directional_tolerances(
            self.flags["tolerance"],
            (behavior.get("scaleUp") or {}).get("tolerance"),
            (behavior.get("scaleDown") or {}).get("tolerance"),
        )
        return Context(
            now=now,
            cpu_initialization_period=self.flags.get("cpu_initialization_period_s", 0) * SECOND,
            initial_readiness_delay=self.flags.get("initial_readiness_delay_s", 0) * SECOND,
            tolerance_down=down,
            tolerance_up=up,
            current_replicas=current,
            status_replicas=tick["status_replicas"],
            pods=[{**self.pod_template, **pod} for pod in tick.get("pods") or []],
            k8s=self.k8s,
        )

    # --- normalisation

    def normalize(self, current: int, want: int, now: int) -> int:
        """Normalisation: stabilise, then limit, with or without behavior."""
        assert self.memory.recommendations is not None
        if self.behavior is None:
            window = self.downscale_stabilization_s * SECOND
            best = stabilize_legacy(self.memory.recommendations, want, now, window)
            stabilized = Limited(best, "ScaleDownStabilized")
            limited = limit_legacy(current, best, self.minimum, self.maximum)
        else:
            up_window, down_window = self.windows(self.behavior)
            stabilized = stabilize_with_windows(
                self.memory.recommendations, current, want, now, up_window, down_window
            )
            limited = limit_rate(
                current,
                stabilized.replicas,
                self.minimum,
                self.maximum,
                self.behavior,
                self.memory.ups,
                self.memory.downs,
                now,
            )
        changed = stabilized.replicas != want
        self.set_condition(
            "AbleToScale", "True", stabilized.reason if changed else "ReadyForNewScale"
        )
        is_limited = limited.replicas != stabilized.replicas
        self.set_condition("ScalingLimited", "True" if is_limited else "False", limited.reason)
        return limited.replicas

    def windows(self, behavior: Json) -> tuple[int, int]:
        """Return the (up, down) stabilization windows; only the down one has a flag to fall to."""
        up = behavior["scaleUp"].get("stabilizationWindowSeconds") or 0
        down = behavior["scaleDown"].get("stabilizationWindowSeconds")
        if down is None:
            down = wrap32(int(self.downscale_stabilization_s))
        return up * SECOND, down * SECOND


def target_is_known(reference: Json) -> bool:
    """Reconcile, steps 2 and 3: does the REST mapper know group and kind of the target?"""
    parts = (reference.get("apiVersion") or "").split("/")
    if len(parts) > 2:
        return False
    group = parts[0] if len(parts) == 2 else ""
    return (group, reference["kind"]) in KNOWN_TARGETS


def run_timeline(timeline: Json, k8s: str = "1.38") -> list[Json]:
    """Replay a golden timeline; one dict per tick, without texts and times."""
    controller = Controller(timeline, k8s)
    return [controller.tick(tick) for tick in timeline["ticks"]]


# --- rows of the unit tables ----------------------------------------------------------------------


def read_recommendations(rows: list[Json]) -> list[Recommendation]:
    """Read recommendations of the golden form."""
    return [Recommendation(row["recommendation"], parse_time(row["timestamp"])) for row in rows]


def write_recommendations(recommendations: list[Recommendation]) -> list[Json]:
    """Write recommendations in the golden form."""
    return [{"recommendation": r.value, "timestamp": format_time(r.time)} for r in recommendations]


def read_events(rows: list[Json]) -> list[ScaleEvent]:
    """Read scale events of the golden form."""
    return [
        ScaleEvent(row["replica_change"], parse_time(row["timestamp"]), bool(row["outdated"]))
        for row in rows
    ]


def write_events(events: list[ScaleEvent]) -> list[Json]:
    """Write scale events in the golden form."""
    return [
        {"replica_change": e.change, "timestamp": format_time(e.time), "outdated": e.outdated}
        for e in events
    ]


def _rate_row(data: Json) -> Json:
    replicas, reason = limit_rate(
        data["current_replicas"],
        data["desired_replicas"],
        data["min_replicas"],
        data["max_replicas"],
        data["behavior"],
        read_events(data["scale_up_events"]),
        read_events(data["scale_down_events"]),
        parse_time(data["now"]),
    )
    return {"replicas": replicas, "reason": reason}


def _legacy_limit_row(data: Json) -> Json:
    replicas, reason = limit_legacy(
        data["current_replicas"],
        data["desired_replicas"],
        data["min_replicas"],
        data["max_replicas"],
    )
    return {"replicas": replicas, "reason": reason}


def _legacy_stabilize_row(data: Json) -> Json:
    recommendations = read_recommendations(data["recommendations"])
    best = stabilize_legacy(
        recommendations,
        data["desired_replicas"],
        parse_time(data["now"]),
        data["downscale_stabilization_s"] * SECOND,
    )
    return {"stabilized": best, "recommendations_after": write_recommendations(recommendations)}


def _windows_row(data: Json) -> Json:
    recommendations = read_recommendations(data["recommendations"])
    stabilized, reason = stabilize_with_windows(
        recommendations,
        data["current_replicas"],
        data["desired_replicas"],
        parse_time(data["now"]),
        data["scale_up_stabilization_s"] * SECOND,
        data["scale_down_stabilization_s"] * SECOND,
    )
    return {
        "stabilized": stabilized,
        "reason": reason,
        "recommendations_after": write_recommendations(recommendations),
    }


def _limit_row(data: Json) -> Json:
    limit_of = scale_up_limit if data["direction"] == "up" else scale_down_limit
    limit = limit_of(
        data["current_replicas"],
        data["rules"],
        read_events(data["scale_up_events"]),
        read_events(data["scale_down_events"]),
        parse_time(data["now"]),
    )
    return {"limit": limit}


def _store_row(data: Json) -> Json:
    now = parse_time(data["now"])
    events = read_events(data["events"])
    before = change_in_period(events, now, 60)
    if data["rules"] is not None:  # null: there is no behavior, so nothing is stored
        store_scale_event(events, data["rules"], data["prev_replicas"], data["new_replicas"], now)
    return {"change_in_last_60s_before": before, "events_after": write_events(events)}


def _group_row(data: Json) -> Json:
    samples = {
        name: Sample(
            parse_time(item["timestamp"]), (item["window_s"] or 0) * SECOND, item["value_milli"]
        )
        for name, item in data["pod_metrics"].items()
    }
    groups = group_pods(
        data["pods"],
        samples,
        data["resource"],
        parse_time(data["now"]),
        data["cpu_initialization_period_s"] * SECOND,
        data["initial_readiness_delay_s"] * SECOND,
    )
    return {
        "ready_pod_count": groups.ready_count,
        "unready": sorted(groups.unready),
        "missing": sorted(groups.missing),
        "ignored": sorted(groups.ignored),
    }


def _requests_row(data: Json) -> Json:
    try:
        requests = calculate_requests(
            data["pods"], data["container"], data["resource"], data["pod_level_resources_gate"]
        )
    except MetricError:
        return {"requests_milli": None}
    return {"requests_milli": requests}


def _per_pod_row(data: Json) -> Json:
    usage = per_pod_usage(data["usage_milli"], data["status_replicas"], "External")
    return {"per_pod_milli": usage}


_ROWS: dict[str, Callable[[Json], Json]] = {
    "TestScalingWithRules": _rate_row,
    "TestConvertDesiredReplicasWithRules": _legacy_limit_row,
    "TestNormalizeDesiredReplicas": _legacy_stabilize_row,
    "TestNormalizeDesiredReplicasWithBehavior": _windows_row,
    "TestCalculateScaleUpLimitWithScalingRules": _limit_row,
    "TestCalculateScaleDownLimitWithBehaviors": _limit_row,
    "TestStoreScaleEvents": _store_row,
    "TestGroupPods": _group_row,
    "TestCalculateRequests": _requests_row,
    "TestGetPerPodUsage": _per_pod_row,
}


def run_behavior_row(row: Json) -> Json:
    """Run one row of the unit tables; as ``expected``, but without ``error`` and ``message``.

    The pod names of TestGroupPods are sorted.
    """
    return _ROWS[row["test"]](row["input"])
