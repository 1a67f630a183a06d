"""The rules' view of the naive simulator's cluster: pods, samples, responses, requests.

docs/simulation.md, the ends of "Pods" and "Samples", and "What the rules see of the scale". The
controller is asked in the golden data's form.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .simulator_pods import Cluster, Pod, Sample
from .simulator_signals import Signals, seen_pipeline
from .times import SECOND, format_time

Json = dict[str, Any]

_MICROSECONDS = SECOND // 1000


def signal_name(metric: Json) -> str:
    """Return the name of the signal that a metric of a spec measures."""
    if metric["type"] == "Resource":
        return f"resource/{metric['resource']['name']}"
    if metric["type"] == "ContainerResource":
        source = metric["containerResource"]
        return f"container/{source['container']}/{source['name']}"
    if metric["type"] == "Pods":
        return f"pods/{_identified(metric['pods']['metric'])}"
    if metric["type"] == "Object":
        described = metric["object"]["describedObject"]
        path = f"{described['kind']}/{described['name']}"
        return f"object/{path}/{_identified(metric['object']['metric'])}"
    return f"external/{_identified(metric['external']['metric'])}"


def _identified(metric: Json) -> str:
    """Write a metric's name with its selector, of which only matchLabels are known here."""
    labels = (metric.get("selector") or {}).get("matchLabels") or {}
    text = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return f"{metric['name']}{{{text}}}" if text else str(metric["name"])


def controller_input(case: Json) -> Json:
    """Build the golden-style timeline, without ticks, of which the controller takes its settings.

    The containers are those that a ContainerResource signal names, with its request; requests
    of whole pods are written at the pod level.
    """
    flags = case["flags"]
    containers: dict[str, Json] = {}
    for name, signal in case["plant"]["signals"].items():
        kind, *rest = name.split("/")
        if kind == "container" and signal["request_milli"] is not None:
            requests = containers.setdefault(rest[0], {})
            requests[rest[1]] = f"{signal['request_milli']}m"
    return {
        "flags": {
            "tolerance": flags["tolerance"],
            "cpu_initialization_period_s": _seconds(flags["cpu_initialization_period_ms"]),
            "initial_readiness_delay_s": _seconds(flags["initial_readiness_delay_ms"]),
            "downscale_stabilization_s": _seconds(flags["downscale_stabilization_ms"]),
            "hpa_scale_to_zero": flags["hpa_scale_to_zero"],
        },
        "hpa": {"spec": case["periods"][0]["spec"]},
        "containers": [{"name": name, "requests": r} for name, r in containers.items()],
    }


class View:
    """What is seen at the instant of a tick."""

    def __init__(self, case: Json, cluster: Cluster, signals: Signals, now: int) -> None:
        self.pipelines: Json = case["plant"]["pipelines"]
        self.parameters: Json = case["plant"]["signals"]
        self.signals = signals
        self.now = now
        self.pods = [pod for pod in cluster.pods if pod.is_visible(now)]
        self.status_replicas = sum(
            pod.created <= now and (pod.deletion is None or pod.deletion > now)
            for pod in cluster.pods
        )

    # --- in the golden data's form, for the controller

    def tick(self, size: int, metrics: list[Json]) -> Json:
        """Build the controller's input of this tick."""
        return {
            "now": _time(self.now),
            "spec_replicas": size,
            "status_replicas": self.status_replicas,
            "pods": [self._golden_pod(pod) for pod in self.pods],
            "metrics": [self._answer(metric) for metric in metrics],
        }

    def _golden_pod(self, pod: Pod) -> Json:
        shown = self._state(pod)
        ready = shown["ready"]
        deletion = pod.deletion if shown["deleting"] else None
        return {
            "name": f"pod-{pod.number}",
            "phase": shown["phase"],
            "deletion_timestamp": None if deletion is None else _time(deletion),
            "start_time": None if ready is None else _time(shown["started_ms"]),
            "ready": None
            if ready is None
            else {"status": ready, "last_transition_time": _time(shown["transition_ms"])},
            "pod_requests": {
                name.removeprefix("resource/"): f"{signal['request_milli']}m"
                for name, signal in self.parameters.items()
                if name.startswith("resource/") and signal["request_milli"] is not None
            },
        }

    def _answer(self, metric: Json) -> Json:
        """Build what the metrics API answers to one metric; ``{}`` is the empty answer."""
        name = signal_name(metric)
        if metric["type"] in ("Object", "External"):
            total = self.totals().get(name)
            if total is None:
                return {}
            value = f"{total['value_milli']}m"
            one = metric["type"] == "Object"
            return {"object_value": value} if one else {"external_values": [value]}
        if self._needs_unknown_request(metric, name):
            return {"metrics_error": "the request is not known"}
        answers = {
            f"pod-{pod.number}": _golden_sample(metric, samples[name])
            for pod in self.pods
            for samples in [self._samples(pod)]
            if name in samples
        }
        return {"pod_metrics": answers} if answers else {}

    def _needs_unknown_request(self, metric: Json, name: str) -> bool:
        """Tell whether the metric fails for want of a request, whatever its samples are.

        Said through the answer, so that no containers have to be invented that lack just one
        of the requests.
        """
        source = metric.get("resource") or metric.get("containerResource")
        if source is None or source["target"].get("averageUtilization") is None:
            return False
        return self.parameters[name]["request_milli"] is None

    # --- in plain numbers, for the row

    def shown_pods(self) -> list[Json]:
        """Return number, state and shown samples of every visible pod."""
        return [
            {"number": pod.number, **self._state(pod), "samples": self._samples(pod)}
            for pod in self.pods
        ]

    def _state(self, pod: Pod) -> Json:
        deleting = pod.deletion is not None and pod.deletion <= self.now
        if not pod.scheduled or pod.started is None or self.now < pod.started:
            return {
                "phase": "Pending",
                "started_ms": None,
                "ready": None,
                "transition_ms": None,
                "deleting": deleting,
            }
        ready = pod.is_ready(self.now)
        return {
            "phase": "Running",
            "started_ms": pod.started,
            "ready": "True" if ready else "False",
            "transition_ms": pod.ready if ready else pod.unready_since,
            "deleting": deleting,
        }

    def _samples(self, pod: Pod) -> Json:
        return {
            name: {
                "ts_ms": s.ts,
                "value_milli": s.value,
                "window_ms": self._pipeline(name)["window_ms"],
            }
            for name, s in pod.samples.items()
            if self._shows(name, s)
        }

    def totals(self) -> Json:
        """Return the shown samples of the totals, by signal."""
        return {
            name: {"ts_ms": sample.ts, "value_milli": sample.value}
            for name, sample in self.signals.totals.items()
            if self._shows(name, sample)
        }

    def _pipeline(self, name: str) -> Json:
        signal = self.parameters[name]
        return seen_pipeline(self.pipelines[signal["api"]], signal)

    def _shows(self, name: str, sample: Sample) -> bool:
        return bool(self.now - sample.ts <= self._pipeline(name)["max_age_ms"])


def _golden_sample(metric: Json, sample: Json) -> Json:
    value = f"{sample['value_milli']}m"
    answer = {"timestamp": _time(sample["ts_ms"]), "window_s": _seconds(sample["window_ms"])}
    if metric["type"] == "Pods":
        return {**answer, "value": value}
    source = metric.get("resource") or metric["containerResource"]
    container = source.get("container", "all")  # a pod's value is the sum over all that are there
    return {**answer, "containers": {container: {source["name"]: value}}}


def _time(instant: int) -> str:
    return format_time(instant * _MICROSECONDS)


def _seconds(span_ms: int) -> Fraction:
    """Return a span in seconds, exactly."""
    return Fraction(span_ms, 1000)
