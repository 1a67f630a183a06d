"""HPA specs as columns: flags resolved, targets in milli, metrics assigned to streams.

Source of the branches: horizontal.go, computeStatusFor*Metric (which target a metric uses) and
metrics selectors; hpa defaults are expected to be filled in (`model.objects.defaults`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import (
    I64,
    LANE,
    METRIC,
    METRIC_WORDS,
    POLICY,
    SPEC,
    Lanes,
    Metrics,
    Policies,
    Specs,
    records,
    records_from,
)
from hpabatch.model.messages import metric_failure
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.hpa import Behavior, HPASpec, LabelSelector, MetricSpec, ScalingRules
from hpabatch.model.selectors import selector_from_object
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.texts import Texts


def pack_lanes(lanes: int, flags: ControllerFlags, profile: Profile) -> Lanes:
    """Return LANE records with one controller's flags and switches; positions are left 0."""
    return records_from(
        LANE,
        lanes,
        cpu_initialization_ms=flags.cpu_initialization_period_ms,
        readiness_delay_ms=flags.initial_readiness_delay_ms,
        downscale_stabilization_ms=flags.downscale_stabilization_ms,
        switches=profile.switches(),
    )


@dataclass(frozen=True, slots=True)
class PackedMetric:
    """One metric as the calculator sees it; fields as in `layout.METRIC`."""

    kind: int
    source: int
    error: int = codes.METRIC_OK
    is_cpu: bool = False
    target_milli: int = 0
    target_pct: int = 0


def _unusable(source: int, error: int) -> PackedMetric:
    return PackedMetric(codes.METRIC_UNUSABLE, source, error)


def _is_bad_selector(selector: LabelSelector | None) -> bool:
    try:
        selector_from_object(selector)
    except ValueError:
        return True
    return False


def _pack_resource(metric: MetricSpec, source: int) -> PackedMetric:
    member = metric.resource or metric.container_resource
    if member is None:
        return _unusable(source, codes.METRIC_BAD_TARGET)
    is_cpu = member.name == "cpu"
    target = member.target
    if target.average_value is not None:
        milli = target.average_value.milli()
        return PackedMetric(codes.RESOURCE_AVERAGE, source, is_cpu=is_cpu, target_milli=milli)
    if target.average_utilization is not None:
        return PackedMetric(
            codes.RESOURCE_UTILIZATION,
            source,
            is_cpu=is_cpu,
            target_pct=target.average_utilization,
        )
    return _unusable(source, codes.METRIC_BAD_TARGET)


def _pack_pods(metric: MetricSpec) -> PackedMetric:
    source = codes.SOURCE_PODS
    if metric.pods is None or metric.pods.target.average_value is None:
        return _unusable(source, codes.METRIC_BAD_TARGET)
    if _is_bad_selector(metric.pods.metric.selector):
        return _unusable(source, codes.METRIC_BAD_SELECTOR)
    milli = metric.pods.target.average_value.milli()
    return PackedMetric(codes.PODS_AVERAGE, source, target_milli=milli)


def _pack_object(metric: MetricSpec) -> PackedMetric:
    # The selector comes before the target here, and after it for External metrics.
    source = codes.SOURCE_OBJECT
    if metric.object is None:
        return _unusable(source, codes.METRIC_BAD_TARGET)
    if _is_bad_selector(metric.object.metric.selector):
        return _unusable(source, codes.METRIC_BAD_SELECTOR)
    target = metric.object.target
    if target.type == "Value" and target.value is not None:
        return PackedMetric(codes.OBJECT_VALUE, source, target_milli=target.value.milli())
    if target.type == "AverageValue" and target.average_value is not None:
        milli = target.average_value.milli()
        return PackedMetric(codes.OBJECT_AVERAGE, source, target_milli=milli)
    return _unusable(source, codes.METRIC_BAD_TARGET)


def _pack_external(metric: MetricSpec) -> PackedMetric:
    source = codes.SOURCE_EXTERNAL
    target = metric.external.target if metric.external else None
    if metric.external is None or target is None:
        return _unusable(source, codes.METRIC_BAD_TARGET)
    if target.average_value is not None:
        packed = PackedMetric(
            codes.EXTERNAL_AVERAGE, source, target_milli=target.average_value.milli()
        )
    elif target.value is not None:
        packed = PackedMetric(codes.EXTERNAL_VALUE, source, target_milli=target.value.milli())
    else:
        return _unusable(source, codes.METRIC_BAD_TARGET)
    if _is_bad_selector(metric.external.metric.selector):
        return _unusable(source, codes.METRIC_BAD_SELECTOR)
    return packed


def pack_metric(metric: MetricSpec) -> PackedMetric:
    """Return one metric as the calculator sees it, refusals included."""
    source = codes.SOURCE_TYPES.get(metric.type, codes.SOURCE_UNKNOWN)
    if source in (codes.SOURCE_RESOURCE, codes.SOURCE_CONTAINER_RESOURCE):
        return _pack_resource(metric, source)
    if source == codes.SOURCE_PODS:
        return _pack_pods(metric)
    if source == codes.SOURCE_OBJECT:
        return _pack_object(metric)
    if source == codes.SOURCE_EXTERNAL:
        return _pack_external(metric)
    return _unusable(source, codes.METRIC_UNKNOWN_TYPE)


@dataclass(frozen=True, slots=True)
class StreamKey:
    """The observation of a metric, without its target; `nth` counts repetitions within one spec."""

    type: str
    subject: Hashable
    nth: int
    resource: str = ""
    container: str = ""


def _subject(metric: MetricSpec) -> tuple[Hashable, str, str]:
    """Return (identity, resource, container) of what the metric observes."""
    if metric.type == "Resource" and metric.resource:
        return metric.resource.name, metric.resource.name, ""
    if metric.type == "ContainerResource" and metric.container_resource:
        member = metric.container_resource
        return (member.name, member.container), member.name, member.container
    if metric.type == "Pods" and metric.pods:
        return metric.pods.metric, "", ""
    if metric.type == "Object" and metric.object:
        return (metric.object.described_object, metric.object.metric), "", ""
    if metric.type == "External" and metric.external:
        return metric.external.metric, "", ""
    return "", "", ""


def stream_keys(spec: HPASpec) -> list[StreamKey]:
    """Return the stream of each metric of a spec, in order."""
    seen: dict[Hashable, int] = {}
    keys = []
    for metric in spec.metrics:
        subject, resource, container = _subject(metric)
        nth = seen.get((metric.type, subject), 0)
        seen[(metric.type, subject)] = nth + 1
        keys.append(StreamKey(metric.type, subject, nth, resource, container))
    return keys


def lane_streams(specs: Sequence[HPASpec]) -> list[StreamKey]:
    """Return the distinct streams of a lane's specs, in order of first use."""
    return list(dict.fromkeys(key for spec in specs for key in stream_keys(spec)))


class SpecRows:
    """Rows that become the fleet's spec tables; add specs in order, then `tables`."""

    def __init__(self, flags: ControllerFlags, profile: Profile, words: bool = False) -> None:
        """Take what every spec's unset fields resolve to; `words`: statuses are asked for."""
        self.with_words = words
        self.flags = flags
        self.profile = profile
        self.specs: list[tuple[float, ...]] = []
        self.policies: list[tuple[int, int, int]] = []
        self.metrics: list[tuple[int, ...]] = []
        self._words: list[list[int]] = []
        self._texts = Texts()

    def add(self, spec: HPASpec, first_stream: int, streams: Sequence[StreamKey]) -> int:
        """Add a spec whose lane's streams start at `first_stream`; return the spec's row."""
        behavior = spec.behavior
        up = (behavior.scale_up if behavior else None) or ScalingRules()
        down = (behavior.scale_down if behavior else None) or ScalingRules()
        first_up, first_down, last_down = self._add_policies(up, down)
        first_metric, last_metric = self._add_metrics(spec, first_stream, streams)
        # The controller fills an unset scale-down window from its flag, in whole seconds.
        down_window = down.stabilization_window_seconds
        if down_window is None:
            down_window = self.flags.downscale_stabilization_ms // 1000
        up_tolerance, down_tolerance = self._tolerances(behavior)
        self.specs.append(
            (
                1 if spec.min_replicas is None else spec.min_replicas,
                spec.max_replicas,
                behavior is not None,
                (up.stabilization_window_seconds or 0) * 1000,
                down_window * 1000,
                codes.SELECTS.get(up.select_policy or "", codes.SELECT_MAX),
                codes.SELECTS.get(down.select_policy or "", codes.SELECT_MAX),
                any(metric.type in ("Object", "External") for metric in spec.metrics),
                first_up,
                first_down,
                last_down,
                first_metric,
                last_metric,
                up_tolerance,
                down_tolerance,
            )
        )
        return len(self.specs) - 1

    def _add_policies(self, up: ScalingRules, down: ScalingRules) -> tuple[int, int, int]:
        positions = [len(self.policies)]
        for rules in (up, down):
            for policy in rules.policies or ():
                kind = codes.POLICY_PODS if policy.type == "Pods" else codes.POLICY_PERCENT
                self.policies.append((kind, policy.value, policy.period_seconds * 1000))
            positions.append(len(self.policies))
        return positions[0], positions[1], positions[2]

    def _add_metrics(
        self, spec: HPASpec, first_stream: int, streams: Sequence[StreamKey]
    ) -> tuple[int, int]:
        first = len(self.metrics)
        position = {key: first_stream + k for k, key in enumerate(streams)}
        for metric, key in zip(spec.metrics, stream_keys(spec), strict=True):
            p = pack_metric(metric)
            self.metrics.append(
                (
                    p.kind,
                    p.source,
                    p.error,
                    p.is_cpu,
                    p.target_milli,
                    p.target_pct,
                    position[key],
                    position[replace(key, nth=0)],
                )
            )
            if self.with_words:
                self._words.append(
                    [self._word(metric, p.kind, code) for code in range(METRIC_WORDS)]
                )
        return first, len(self.metrics)

    def _word(self, metric: MetricSpec, kind: int, code: int) -> int:
        """Return the number of what is said of a metric of that code."""
        if code == codes.METRIC_OK:
            named = self.profile.container_metric_named
            return self._texts.number(metric_name(metric, kind, named))
        return self._texts.number(metric_failure(metric, kind, code, "", "", self.profile).event)

    def words(self) -> I64:
        """Return `Fleet.metric_words`, without rows where they were not asked for."""
        return np.array(self._words, np.int64).reshape(-1, METRIC_WORDS)

    def _tolerances(self, behavior: Behavior | None) -> tuple[float, float]:
        up = down = self.flags.tolerance
        if behavior is not None and self.profile.gate_configurable_tolerance:
            if behavior.scale_up and behavior.scale_up.tolerance is not None:
                up = behavior.scale_up.tolerance.approx_float()
            if behavior.scale_down and behavior.scale_down.tolerance is not None:
                down = behavior.scale_down.tolerance.approx_float()
        return up, down

    def tables(self) -> tuple[Specs, Policies, Metrics]:
        """Return the SPEC, POLICY and METRIC records."""
        return (
            records(SPEC, self.specs),
            records(POLICY, self.policies),
            records(METRIC, self.metrics),
        )
