"""The naive simulator: docs/simulation.md in plain Python, pod by pod, on the naive controller.

It imports nothing of the package that it checks, keeps every pod and every step, and recomputes
whatever it needs from them. A *case* is a JSON-like dict:

* ``start_ms``, ``period_ms``, ``steps``: the ticks; ``initial``: the target's size at the start
* ``k8s``: a version; ``flags``: ``tolerance``, ``cpu_initialization_period_ms``,
  ``initial_readiness_delay_ms``, ``downscale_stabilization_ms``, ``hpa_scale_to_zero``
* ``periods``: ``{from_ms, spec}`` in order of time, the first from the start or earlier; the specs
  are autoscaling/v2 after defaulting
* ``plant``: ``{signals, pods, pipelines, capacity_milli, first_draw}`` with the fields of the
  package's Plant, none left out; ``draws``: the table of random numbers
* ``work``: pieces in milli by signal, with ``work_start_ms`` and ``resolution_ms``
* ``events``: ``{at_ms, kind, value}`` with the kinds ``scale``, ``lose`` and ``rollout``

A *row* is what one tick and its step came to:

* the decision: ``now_ms, replicas`` (before it), ``size`` (after it), ``status_replicas, desired,
  rescaled, proposal`` (``replicas`` where the metrics were not asked or gave none), ``proposals``
  (of each metric, null: failed; empty: not asked), ``invalid`` (a metric failed),
  ``min_replicas, max_replicas`` (in force), ``conditions``
* what was seen: ``pods`` (``number, phase, started_ms, ready, transition_ms, deleting`` and shown
  ``samples`` by signal: ``ts_ms, value_milli, window_ms``), ``totals`` (shown samples by signal)
* the step: ``serving`` and ``existing`` (pod numbers; the latter are billed), and by signal
  ``work, unserved, saturated, queue`` (after the step) and ``usage`` (of each serving pod)
"""

from __future__ import annotations

from typing import Any

from .controller import Controller
from .metrics import MetricError, propose
from .simulator_pods import Cluster, Pod
from .simulator_signals import Signals, Step
from .simulator_view import View, controller_input

Json = dict[str, Any]


class WatchedController(Controller):
    """The naive controller, which also tells what each metric asked for."""

    proposals: list[int | None]
    combined: int | None

    def watch(self, tick: Json) -> Json:
        """Reconcile once, having forgotten what the metrics asked for in the last tick."""
        self.proposals, self.combined = [], None
        return self.tick(tick)

    def compute(self, tick: Json, current: int, now: int) -> int | None:
        """Combine the metrics as ever, and note what they asked for."""
        context = self.context(tick, current, now)
        for metric, answer in zip(self.metrics, tick["metrics"], strict=True):
            try:
                self.proposals.append(propose(metric, answer, context).replicas)
            except MetricError:
                self.proposals.append(None)
        self.combined = super().compute(tick, current, now)
        return self.combined


class Simulation:
    """One run, tick by tick."""

    def __init__(self, case: Json) -> None:
        self.case = case
        self.cluster = Cluster(case)
        self.signals = Signals(case, self.cluster.pods)
        self.controller = WatchedController(controller_input(case), case["k8s"])
        # sorted() is stable: events of one instant happen in the order in which they are given
        self.events: list[Json] = sorted(case["events"], key=lambda event: int(event["at_ms"]))

    def tick(self, index: int) -> Json:
        """Do the five parts of one tick."""
        cluster, clock = self.cluster, self.cluster.clock
        now, following = clock.now(index), clock.now(index + 1)
        self._let_events_happen(now)
        cluster.vanish(now)
        cluster.schedule_waiting(now)
        cluster.progress_rollout(now)
        self.signals.take_in(now, clock.now(index - 1) if index > 0 else None, cluster.pods)
        row = self._decide(now)
        serving = cluster.serving(now)
        step = self.signals.serve(now, following, serving)
        row.update(self._show_step(step, serving))
        cluster.fail(index, serving)
        return row

    def _let_events_happen(self, now: int) -> None:
        while self.events and self.events[0]["at_ms"] < now:
            event = self.events.pop(0)
            if event["kind"] == "scale":
                self.cluster.resize(event["value"], event["at_ms"])
            elif event["kind"] == "lose":
                self.cluster.lose(event["value"], event["at_ms"])
            else:
                self.cluster.start_rollout()

    def _decide(self, now: int) -> Json:
        controller = self.controller
        self._put_spec_in_force(now)
        before = self.cluster.size
        view = View(self.case, self.cluster, self.signals, now)
        result = controller.watch(view.tick(before, controller.metrics))
        if result["rescaled"]:
            self.cluster.resize(result["scale_to"], now)
        combined = controller.combined
        return {
            "now_ms": now,
            "replicas": before,
            "size": self.cluster.size,
            "status_replicas": view.status_replicas,
            "desired": result["desired_replicas"],
            "rescaled": result["rescaled"],
            "proposal": before if combined is None else max(combined, 0),
            "proposals": controller.proposals,
            "invalid": None in controller.proposals,
            "min_replicas": controller.minimum,
            "max_replicas": controller.maximum,
            "conditions": result["conditions"],
            "pods": view.shown_pods(),
            "totals": view.totals(),
        }

    def _put_spec_in_force(self, now: int) -> None:
        spec = [period["spec"] for period in self.case["periods"] if period["from_ms"] <= now][-1]
        minimum = spec.get("minReplicas")
        self.controller.minimum = 1 if minimum is None else minimum
        self.controller.maximum = spec["maxReplicas"]
        self.controller.metrics = spec["metrics"]
        self.controller.behavior = spec.get("behavior")

    def _show_step(self, step: Step, serving: list[Pod]) -> Json:
        by_signal = self.signals.parameters.items()
        return {
            "serving": [pod.number for pod in serving],
            "existing": [pod.number for pod in self.cluster.pods if pod.is_billed(step.begin)],
            "work": step.work,
            "unserved": {name: done.unserved for name, done in step.done.items()},
            "saturated": {name: done.saturated for name, done in step.done.items()},
            "queue": {name: done.queue for name, done in step.done.items()},
            "usage": {
                name: [self.signals.usage(name, pod, step) for pod in serving]
                for name, signal in by_signal
                if signal["kind"] in ("divisible", "per_pod", "age")
            },
        }


def simulate(case: Json) -> list[Json]:
    """Run a case; one row per tick. The case is left as it is."""
    simulation = Simulation(case)
    return [simulation.tick(index) for index in range(case["steps"])]
