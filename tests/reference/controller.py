"""The controller: one reconcile per tick of a golden timeline, with all that can be seen of it.

Upstream: ``pkg/controller/podautoscaler/horizontal.go``.
"""

from __future__ import annotations

from typing import Any

from .combine import combine
from .normalize import Bounds, Memory, Recommendation, stabilize_and_limit, store_scale_event
from .profiles import Profile, profile_for_flags
from .replicas import Context, directional_tolerances
from .scale import ScaleError, read_scale
from .selector import matches, parse_selector
from .selector_store import SelectorCheckError, SelectorStore, check_ambiguity, convert_selector
from .status import Status
from .stored import stored_metrics, stored_statuses
from .sync import Decision, Sync
from .times import SECOND, format_time, parse_time

Json = dict[str, Any]

DEFAULT_SELECTOR = "app=web"
ABOVE_MAXIMUM = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM = "Current number of replicas below Spec.MinReplicas"


class Controller:
    """One HPA under control, with its status, and the controller's memory of it."""

    sync: Sync

    def __init__(
        self, timeline: Json, k8s: str | Profile = "1.38", store: SelectorStore | None = None
    ) -> None:
        flags, hpa = timeline["flags"], timeline["hpa"]
        spec, metadata = hpa["spec"], hpa.get("metadata") or {}
        self.profile = profile_for_flags(k8s, flags)
        self.flags: Json = flags
        self.downscale_stabilization_s: int = flags.get("downscale_stabilization_s") or 0
        self.pod_template: Json = {
            "containers": timeline.get("containers"),
            "init_containers": timeline.get("init_containers"),
        }
        self.name: str = metadata.get("name") or "hpa"
        self.namespace: str = metadata.get("namespace") or "default"
        self.usual_selector: str = timeline.get("selector") or DEFAULT_SELECTOR
        self.generation: int = metadata.get("generation") or 0
        self.target: Json = spec["scaleTargetRef"]
        minimum = spec.get("minReplicas")
        self.minimum: int = 1 if minimum is None else minimum
        self.maximum: int = spec["maxReplicas"]
        self.metrics: list[Json] = spec.get("metrics") or []
        self.behavior: Json | None = spec.get("behavior")
        self.status = Status.read(hpa.get("status") or {})
        self.status.current_metrics = stored_statuses(self.status.current_metrics, self.profile)
        self.store = store  # None: the only HPA of its namespace
        self.memory = Memory()
        if timeline.get("initial_recommendations") is not None:
            self.memory.recommendations = [
                Recommendation(row["recommendation"], parse_time(row["timestamp"]))
                for row in timeline["initial_recommendations"]
            ]

    @property
    def key(self) -> str:
        """Return namespace and name as texts show them."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> str:
        """Return the scale target as error texts name it."""
        return f"{self.target['kind']}/{self.namespace}/{self.target['name']}"

    # --- one tick

    def tick(self, tick: Json) -> Json:
        """Apply the tick's edits, reconcile once, and return the observable result."""
        self.edit(tick)
        self.sync = sync = Sync(tick, parse_time(tick["now"]), self.status.copy())
        scaled_before = self.status.last_scale_time
        self.reconcile(tick, sync)
        status = self.status
        return {
            "desired_replicas": status.desired_replicas,
            "status_current_replicas": status.current_replicas,
            "rescaled": sync.scale_to is not None,
            "scale_to": sync.scale_to,
            "conditions": [dict(condition) for condition in status.conditions],
            "current_metrics": status.current_metrics or [],
            "events": sync.events,
            "last_scale_time": status.last_scale_time,
            "last_scale_time_set": status.last_scale_time != scaled_before,
            "reconcile_error": sync.error,
            "status_written": sync.written,
            "action_label": sync.action if self.profile.labels else None,
            "error_label": sync.error_label if self.profile.labels else None,
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
        if tick.get("set_metrics") is not None:
            self.metrics = tick["set_metrics"]
        if tick.get("set_generation") is not None:
            self.generation = tick["set_generation"]

    def reconcile(self, tick: Json, sync: Sync) -> None:
        """Reconcile, one sync in order (``reconcileAutoscaler``)."""
        try:
            read_scale(self.target, tick, self.reference)
        except ScaleError as error:
            text = f"the HPA controller was unable to get the target's current scale: {error.inner}"
            sync.event("Warning", "FailedGetScale", error.inner)
            sync.condition("AbleToScale", "False", "FailedGetScale", text)
            self.write_status(sync)
            sync.fail(error.error, error.is_spec)
            return
        sync.condition("AbleToScale", "True", "SucceededGetScale")
        current: int = tick["spec_replicas"]
        if self.memory.recommendations is None:
            self.memory.recommendations = [Recommendation(current, sync.now)]
        decision = self.decide(tick, current, sync.now)
        if decision is None:
            return
        if decision.rescale and not self.rescale(tick, current, decision, sync):
            return
        desired = decision.desired if decision.rescale else current
        self.set_status(sync, current, desired, sync.metric_statuses)
        if decision.rescale:
            sync.status.last_scale_time = format_time(sync.now)
        error_text = self.write_status(sync)
        if error_text is not None:
            sync.fail(error_text)

    # --- the status

    def set_status(
        self, sync: Sync, current: int, desired: int, metrics: list[Json] | None
    ) -> None:
        """``setStatus``: everything but conditions and the time of the last scaling."""
        sync.status.current_replicas = current
        sync.status.desired_replicas = desired
        sync.status.current_metrics = metrics
        recorded = self.profile.on("HPAGeneration")
        sync.status.observed_generation = self.generation if recorded else None

    def set_failed_status(self, sync: Sync, current: int) -> None:
        """``setCurrentReplicasAndMetricsInStatus``, and write: an error of that is only logged."""
        old = self.status
        replaced = self.profile.metrics_replaced_on_failure
        metrics = sync.metric_statuses if replaced else old.current_metrics
        self.set_status(sync, current, old.desired_replicas, metrics)
        self.write_status(sync)

    def write_status(self, sync: Sync) -> str | None:
        """``updateStatusIfNeeded``: return the error of the write, if there was one."""
        if sync.status.equals(self.status):
            return None
        sync.written = True
        error = sync.tick.get("status_update_error")
        if error is not None:
            sync.event("Warning", "FailedUpdateStatus", error)
            return f"failed to update status for {self.name}: {error}"
        sync.status.current_metrics = stored_statuses(sync.status.current_metrics, self.profile)
        self.status = sync.status
        return None

    # --- the decision

    def decide(self, tick: Json, current: int, now: int) -> Decision | None:
        """Reconcile, decision: disabled, forced into the limits, or by the metrics.

        None: nothing can be decided, and the sync is over.
        """
        sync = self.sync
        gate = self.profile.on("HPAScaleToZero")
        own_zero = gate and sync.status.has_condition("ScaledToZero")
        if current == 0 and self.stays_at_zero(own_zero):
            sync.condition("ScalingActive", "False", "ScalingDisabled")
            if self.profile.zero_by_condition and not gate:
                sync.status.remove_condition("ScaledToZero")
            return Decision(0, rescale=False)
        if current > self.maximum:
            return Decision(self.maximum, rescale=True, reason=ABOVE_MAXIMUM)
        if current < self.minimum and current != 0:
            return Decision(self.minimum, rescale=True, reason=BELOW_MINIMUM)

        proposal = self.compute(tick, current, now)
        if proposal is None:
            self.give_up(sync, current)
            return None
        desired = max(proposal, 0)
        reason = ""
        if desired > current:
            reason = f"{sync.metric} above target"
        if desired < current:
            reason = "All metrics below target"
        desired = self.normalize(current, desired, now)
        if current == 0 and self.minimum != 0 and own_zero and desired < self.minimum:
            desired = self.minimum  # a target that this HPA put to zero, under a new minimum
            reason = reason or BELOW_MINIMUM
        return Decision(desired, desired != current, reason)

    def stays_at_zero(self, own_zero: bool) -> bool:
        """Tell whether a target without replicas is left alone."""
        if not self.profile.zero_by_condition:
            return self.minimum != 0
        return not (own_zero and (self.minimum != 0 or self.zero_capable()))

    def zero_capable(self) -> bool:
        """Tell whether some metric works without pods."""
        return any(metric["type"] in ("Object", "External") for metric in self.metrics)

    def give_up(self, sync: Sync, current: int) -> None:
        """Reconcile, failed metrics: the status, the event, and the error's full text."""
        inner = sync.error or ""
        self.set_failed_status(sync, current)
        sync.event("Warning", "FailedComputeMetricsReplicas", inner)
        sync.error = (
            "failed to compute desired number of replicas based on listed metrics for "
            f"{self.reference}: {inner}"
        )

    def rescale(self, tick: Json, current: int, decision: Decision, sync: Sync) -> bool:
        """Reconcile, scale write: what follows a success or a failure."""
        desired = decision.desired
        size = f"New size: {desired}; reason: {decision.reason}"
        error = tick.get("scale_update_error")
        if error is not None:
            text = f"the HPA controller was unable to update the target scale: {error}"
            sync.event("Warning", "FailedRescale", f"{size}; error: {error}")
            sync.condition("AbleToScale", "False", "FailedUpdateScale", text)
            self.set_failed_status(sync, current)
            sync.fail(f"failed to rescale {self.reference}: {error}")
            return False
        text = f"the HPA controller was able to update the target scale to {desired}"
        sync.condition("AbleToScale", "True", "SucceededRescale", text)
        if self.profile.zero_by_condition:
            self.mark_zero(sync, current, desired)
        sync.event("Normal", "SuccessfulRescale", size)
        sync.scale_to = desired
        sync.action = "scale_up" if desired > current else "scale_down"
        if self.behavior is not None:
            upward = desired > current
            store_scale_event(
                self.memory.ups if upward else self.memory.downs,
                self.behavior["scaleUp" if upward else "scaleDown"],
                current,
                desired,
                sync.now,
            )
        return True

    def mark_zero(self, sync: Sync, current: int, desired: int) -> None:
        """Reconcile, scale write: remember whether this HPA put the target to zero."""
        if not self.profile.on("HPAScaleToZero"):
            sync.status.remove_condition("ScaledToZero")
        elif current > 0 and desired == 0 and self.minimum == 0 and self.zero_capable():
            sync.condition("ScaledToZero", "True", "ScaledToZero")
        else:
            sync.condition("ScaledToZero", "False", "NotScaledToZero")

    # --- metrics

    def compute(self, tick: Json, current: int, now: int) -> int | None:
        """Combining metrics (``computeReplicasForMetrics``): None if nothing may be done."""
        sync = self.sync
        try:
            self.check_selector(tick)
        except SelectorCheckError as problem:
            if problem.event:
                message = self.profile.printed(problem.message)
                sync.event("Warning", problem.event, problem.text)
                sync.condition("ScalingActive", "False", problem.reason, message)
            sync.fail(self.profile.printed(problem.text))
            return None
        context = self.context(tick, current, now)
        answers = tick.get("metrics") or []
        read = stored_metrics(self.metrics, self.profile)
        return combine(
            [metric for metric, _ in read],
            [answers[index] if index < len(answers) else {} for _, index in read],
            context,
            sync,
        )

    def scale_selector(self, tick: Json) -> str:
        """Return the selector in the scale of this tick."""
        selector: str | None = tick.get("selector")
        return self.usual_selector if selector is None else selector

    def check_selector(self, tick: Json) -> None:
        """Combining metrics, selector check (``validateAndParseSelector``)."""
        text = self.scale_selector(tick)
        requirements = convert_selector(text, self.profile)
        if self.store is not None and self.profile.ambiguity_check:
            pods = self.selected_pods(tick)
            check_ambiguity(self.store, self.key, text, requirements, pods, self.profile)

    def selected_pods(self, tick: Json) -> list[Json]:
        """Return the pods that the scale's selector selects; without labels they all match."""
        requirements = parse_selector(self.scale_selector(tick), self.profile.selectors)
        return [
            {**self.pod_template, **pod}
            for pod in tick.get("pods") or []
            if pod.get("labels") is None or matches(requirements, pod["labels"])
        ]

    def context(self, tick: Json, current: int, now: int) -> Context:
        """Build the calculator's context of this tick."""
        behavior = self.behavior or {}
        if not self.profile.on("HPAConfigurableTolerance"):
            behavior = {}
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
            pods=self.selected_pods(tick),
            namespace=self.namespace,
            profile=self.profile,
        )

    # --- normalisation

    def normalize(self, current: int, want: int, now: int) -> int:
        """Normalisation: stabilise, then limit, with or without behavior."""
        stabilized, limited = stabilize_and_limit(
            self.memory,
            self.behavior,
            int(self.downscale_stabilization_s * SECOND),
            Bounds(current, self.minimum, self.maximum),
            want,
            now,
            self.profile,
        )
        changed = stabilized.replicas != want
        self.sync.condition(
            "AbleToScale", "True", stabilized.reason if changed else "ReadyForNewScale"
        )
        is_limited = limited.replicas != stabilized.replicas
        self.sync.condition("ScalingLimited", "True" if is_limited else "False", limited.reason)
        return limited.replicas


def run_timeline(timeline: Json, k8s: str | Profile = "1.38") -> list[Json]:
    """Replay a golden timeline; one dict per tick."""
    controller = Controller(timeline, k8s)
    return [controller.tick(tick) for tick in timeline["ticks"]]
