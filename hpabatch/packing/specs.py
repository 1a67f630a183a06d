"""HPA specs as columns: flags resolved, targets in milli, metrics assigned to streams.

Source of the branches: horizontal.go, computeStatusFor*Metric (which target a metric uses) and
metrics selectors; hpa defaults are expected to be filled in (`model.objects.defaults`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

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
from hpabatch.model.objects.hpa import (
    Behavior,
    ContainerResourceMetricSource,
    HPASpec,
    MetricSpec,
    ObjectMetricSource,
    ResourceMetricSource,
    ResourceSource,
    ScalingRules,
)
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


_OF_RESOURCE: Final = {
    "average_value": codes.RESOURCE_AVERAGE,
    "average_utilization": codes.RESOURCE_UTILIZATION,
}
# The members of a target that count for a source, the first that is set; and its kind then.
_TARGETS: Final = {
    codes.SOURCE_RESOURCE: _OF_RESOURCE,
    codes.SOURCE_CONTAINER_RESOURCE: _OF_RESOURCE,
    codes.SOURCE_PODS: {"average_value": codes.PODS_AVERAGE},
    codes.SOURCE_OBJECT: {"value": codes.OBJECT_VALUE, "average_value": codes.OBJECT_AVERAGE},
    codes.SOURCE_EXTERNAL: {
        "average_value": codes.EXTERNAL_AVERAGE,
        "value": codes.EXTERNAL_VALUE,
    },
}
# Of an Object metric that one counts which the target's type names.
_TYPES: Final = {"value": "Value", "average_value": "AverageValue"}


def pack_metric(metric: MetricSpec) -> PackedMetric:
    """Return one metric as the calculator sees it, refusals included."""
    source = codes.SOURCE_TYPES.get(metric.type, codes.SOURCE_UNKNOWN)
    if source not in _TARGETS:
        return PackedMetric(codes.METRIC_UNUSABLE, source, codes.METRIC_UNKNOWN_TYPE)
    is_object, kinds = source == codes.SOURCE_OBJECT, _TARGETS[source]
    of_resource = kinds is _OF_RESOURCE
    member = (metric.resource or metric.container_resource) if of_resource else metric.own
    named, is_bad_selector = None, False
    if member is not None:
        target = member.target
        named = next((n for n in kinds if getattr(target, n) is not None
                      and (not is_object or target.type == _TYPES[n])), None)  # fmt: skip
        if not isinstance(member, ResourceSource):
            try:
                selector_from_object(member.metric.selector)
            except ValueError:
                is_bad_selector = True
    # The selector comes before the target in Object metrics, and after it in others.
    if is_bad_selector and (is_object or named is not None):
        return PackedMetric(codes.METRIC_UNUSABLE, source, codes.METRIC_BAD_SELECTOR)
    if member is None or named is None:
        return PackedMetric(codes.METRIC_UNUSABLE, source, codes.METRIC_BAD_TARGET)
    asked = getattr(member.target, named)
    is_cpu = isinstance(member, ResourceSource) and member.name == "cpu"
    if named == "average_utilization":
        return PackedMetric(kinds[named], source, is_cpu=is_cpu, target_pct=asked)
    return PackedMetric(kinds[named], source, is_cpu=is_cpu, target_milli=asked.milli())


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
    match metric.own:
        case None:
            return "", "", ""
        case ResourceMetricSource(name=name):
            return name, name, ""
        case ContainerResourceMetricSource(name=name, container=container):
            return (name, container), name, container
        case ObjectMetricSource(described_object=described, metric=identifier):
            return (described, identifier), "", ""
        case member:
            return member.metric, "", ""


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
