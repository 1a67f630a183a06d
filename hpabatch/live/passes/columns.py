"""Columns of a pass as kernels read them: lanes of two ticks, pods, responses of the metrics APIs.

Every pass builds them anew from the HPAs and pods: 1,000 HPAs of 10 pods take about 0.25 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import (
    ContainerUsage,
    ExternalMetricKey,
    ObjectMetricKey,
    PodKey,
    PodMetricKey,
    PodObject,
    PodSample,
    Responses,
    UsageSample,
    metric_key,
    response_to,
)
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.layout import codes
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I64,
    METRIC_WORDS,
    POD_STATE,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    Records,
    records,
    records_from,
)
from hpabatch.layout.results import Results, empty_results
from hpabatch.live.passes.lanes import Lane, LaneKey
from hpabatch.live.passes.result import MetricColumns
from hpabatch.model.messages import lacking_container
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.objects.stored import stored_order
from hpabatch.model.quantity import MIN_INT64
from hpabatch.model.requests import PodRequest, RequestRules, pod_request, request_rules
from hpabatch.model.selectors import Selector
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.specs import SpecRows, StreamKey, lane_streams, pack_lanes, stream_keys
from hpabatch.packing.texts import Texts, pod_flags

Samples = dict[PodKey, "tuple[int, int, int] | None"]
"""By pod that a response lists: (milli-units, UTC ms, window in ms), None: no value."""


class PodColumns:
    """All pods at a pass; a pod's slot is its place in the order of namespaces and names.

    Attributes:
        states: POD_STATE (P,), as kernels take them.
    """

    def __init__(self, pods: Mapping[PodKey, PodObject]) -> None:
        keys = sorted(pods)
        self.pods = [pods[key] for key in keys]
        self.keys = keys
        self.states: Records = records(POD_STATE, map(_state, self.pods))
        # Most selectors require a value of one label; "" stands for the namespace as a whole.
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        for slot, pod in enumerate(self.pods):
            for label, value in (("", ""), *pod.labels.items()):
                self._by_label.setdefault((pod.namespace, label, value), []).append(slot)

    def matching(self, namespace: str, selector: Selector | None) -> I64:
        """Return the slots of a namespace's pods that a selector matches, in order; None: none."""
        if selector is None:
            return np.zeros(0, np.int64)
        label = next(
            ((r.key, r.values[0]) for r in selector.requirements if r.operator in ("=", "==")),
            ("", ""),
        )
        slots = self._by_label.get((namespace, *label), ())
        return np.array([s for s in slots if selector.matches(self.pods[s].labels)], np.int64)

    def requests(
        self, resource: str, container: str, rules: RequestRules, texts: Texts
    ) -> list[tuple[int, int]]:
        """Return (known, milli or the number of the error in `texts`) by slot.

        "" for the resource: no requests are used.
        """
        if not resource:
            return [(1, 0)] * len(self.pods)
        found: list[tuple[int, int]] = []
        known: dict[int, PodRequest] = {}
        for pod in self.pods:
            template = pod.template
            request = known.get(id(template))
            if request is None or request.error is not None:  # an error names the pod
                request = known[id(template)] = pod_request(
                    pod.name,
                    [c.requests for c in template.containers],
                    [c.requests for c in template.init_containers],
                    template.pod_level,
                    template.overhead,
                    container=container,
                    resource=resource,
                    rules=rules,
                )
            failed = request.error is not None
            found.append((0, texts.number(request.error or "")) if failed else (1, request.milli))
        return found


def _state(pod: PodObject) -> tuple[int, int, int]:
    is_started = pod.started_ms is not None
    flags = pod_flags(pod.phase, pod.deletion_ms is not None, is_started, pod.ready)
    return flags, pod.started_ms or 0, pod.transition_ms or 0


def usage_samples(items: Iterable[UsageSample], resource: str, container: str) -> Samples:
    """Return the usage of a resource, of one container or ("") of all of a pod.

    A pod whose containers do not all have the resource has no value of it (metrics/client.go). Of
    several items of a pod the last one with a value counts.
    """
    found: Samples = {}
    for item in items:
        key = item.namespace, item.pod
        if container:
            named = (one for one in item.containers if one.name == container)
            value = next((_value_of(one, resource) for one in named), None)
        else:
            value = _sum_of(item.containers, resource)
        if value is None:
            found.setdefault(key)
        else:
            found[key] = value, item.ts_ms, item.window_ms or 0
    return found


def _value_of(container: ContainerUsage, resource: str) -> int | None:
    if resource == "cpu":
        return container.cpu_milli
    return container.memory_milli if resource == "memory" else None


def _sum_of(containers: tuple[ContainerUsage, ...], resource: str) -> int | None:
    if len(containers) == 1:
        return _value_of(containers[0], resource)
    total = 0
    for container in containers:
        value = _value_of(container, resource)
        if value is None:
            return None
        total += value
    if not MIN_INT64 <= total < -MIN_INT64:
        total = (total - MIN_INT64) % 2**64 + MIN_INT64  # as Go's sums wrap
    return total if containers else None


def custom_samples(items: Iterable[PodSample], namespace: str) -> Samples:
    """Return the samples of a custom metric; of several of one pod the last counts."""
    return {
        (namespace, item.pod): (
            item.value_milli,
            item.ts_ms,
            CUSTOM_WINDOW_MS if item.window_ms is None else item.window_ms,
        )
        for item in items
    }


TICKS = 2  # per lane: the last pass's, of which only the spec matters, and this one's


class Usage(NamedTuple):
    """Usage of a resource, of one container or ("") of all of a pod."""

    resource: str
    container: str = ""


Source = Usage | PodMetricKey | ObjectMetricKey | ExternalMetricKey | None
"""Source of a metric's samples; None: nothing is requested."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One metric of a lane: its source and spec."""

    lane: int
    key: StreamKey
    metric: MetricSpec
    source: Source

    @property
    def of_pods(self) -> bool:
        """Whether it has a sample for each pod."""
        return isinstance(self.source, Usage | PodMetricKey)


_WORDS = {
    codes.METRIC_OK: "ok",
    codes.METRIC_ANSWER_EMPTY: "empty",
    codes.METRIC_FETCH_FAILED: "error",
}
NOT_FETCHED = "not asked in this pass: the HPA had only just appeared"


class Columns:
    """The columns of one pass: lanes of two ticks, their pods, responses.

    Ticks are filled in later (`Decider`), then the kernels run over `fleet` into `results`.

    Attributes:
        specs: by row of the spec table.
        spec_now: (H,) the row of each lane's spec, and `spec_before` of the last pass's.
        texts: error messages of the pass by number.
        members: by lane the slots of its pods, in the order of their names.
        changes: (H,) the number of size changes of each lane since the last pass.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        pods: PodColumns,
        responses: Responses,
        flags: ControllerFlags,
        profile: Profile,
    ) -> None:
        self.lanes, self.pods, self._profile = lanes, pods, profile
        self.texts = Texts()
        self.streams: list[Stream] = []
        self.specs: list[HPASpec] = []
        rows = SpecRows(flags, profile, words=True)
        first_stream = self._add_specs(rows)
        self.tables = rows.tables()
        count, streams = len(lanes), len(self.streams)
        lane_table = pack_lanes(count, flags, profile)
        ticks = TICKS * np.arange(count)
        lane_table.first_tick, lane_table.last_tick = ticks, ticks + TICKS
        lane_table.first_stream = np.array(first_stream[:-1], np.int64)
        lane_table.last_stream = np.array(first_stream[1:], np.int64)
        changes = size_changes(lanes, lane_table)
        self.changes: I64 = np.array(lane_table.last_change - lane_table.first_change, np.int64)
        self.ticks = records_from(TICK, TICKS * count)
        self.answers = records_from(ANSWER, TICKS * streams)
        self.results: Results = empty_results(self.ticks.size, self.answers.size, details=True)
        # Rows of this pass, and before each the one of the last pass.
        self.tick_rows: I64 = ticks + TICKS - 1
        self.answer_rows: I64 = TICKS * np.arange(streams, dtype=np.int64) + TICKS - 1
        self.members = [pods.matching(lane.key[0], lane.selects) for lane in lanes]
        self.first_row = _starts(part.size for part in self.members)
        self._items = [
            item
            for key, response in responses.items()
            if isinstance(key, str) and not response.error
            for item in response.samples
            if isinstance(item, UsageSample)
        ]
        self._fetched_ms: list[int | None] = [None] * streams
        samples, listed = self._samples(responses)
        values = self._fill_answers(responses, listed)
        stream_table, requests = self._pack_streams()
        present, value_milli, ts_ms, window_ms = np.array(samples, np.int64).reshape(-1, 4).T
        specs, policies, metrics = self.tables
        self.fleet = Fleet(
            lanes=lane_table,
            specs=specs,
            policies=policies,
            metrics=metrics,
            streams=stream_table,
            ticks=self.ticks,
            row_state=np.concatenate([np.zeros(0, np.int64), *self.members]).astype(np.int32),
            row_weight=np.zeros(0, np.int64),
            states=pods.states,
            present=present.astype(np.int8),
            value_milli=value_milli.copy(),
            timing=records_from(TIMING, len(samples), ts_ms=ts_ms, window_ms=window_ms),
            requests=requests,
            answers=self.answers,
            values_milli=values,
            changes=changes,
            metric_words=rows.words() if streams else np.zeros((0, METRIC_WORDS), np.int64),
        )

    def _add_specs(self, rows: SpecRows) -> list[int]:
        """Add the specs of every lane; return the first stream of each, and the end."""
        first_stream, now, before = [0], [], []
        for h, lane in enumerate(self.lanes):
            specs = [lane.spec] if lane.before is None else [lane.before, lane.spec]
            keys = lane_streams(specs)
            numbers = [rows.add(spec, first_stream[-1], keys) for spec in specs]
            before.append(numbers[0])
            now.append(numbers[-1])
            self.specs += specs
            self.streams += _streams(h, lane.key[0], specs, keys)
            first_stream.append(len(self.streams))
        self.spec_now, self.spec_before = np.array(now, np.int64), np.array(before, np.int64)
        return first_stream

    def _pack_streams(self) -> tuple[Records, Records]:
        """Return the STREAM and REQUEST records; a stream of pods has a sample for each of them."""
        lane_of = np.array([s.lane for s in self.streams], np.int64)
        sizes = [self.members[s.lane].size if s.of_pods else 0 for s in self.streams]
        keys = [_request_key(stream) for stream in self.streams]
        blocks = {key: k * len(self.pods.pods) for k, key in enumerate(dict.fromkeys(keys))}
        rules = request_rules(self._profile)
        rows = [row for key in blocks for row in self.pods.requests(*key, rules, self.texts)]
        table = records_from(
            STREAM,
            len(self.streams),
            sample_offset=_starts(sizes)[:-1] - self.first_row[lane_of],
            request_offset=[blocks[key] for key in keys],
            # Responses of stream g are rows 2 g (last pass) and 2 g + 1 (this one).
            answer_offset=TICKS * (np.arange(len(self.streams)) - lane_of),
        )
        return table, records(REQUEST, rows)

    def _samples(self, responses: Responses) -> tuple[list[tuple[int, int, int, int]], I64]:
        """Return the samples of each stream's pods, end to end, and how many have one by stream.

        A sample: whether it is there, milli-units, UTC ms, window in ms.
        """
        found: dict[Usage | PodMetricKey, Samples] = {}
        rows: list[tuple[int, int, int, int]] = []
        listed, keys = np.zeros(len(self.streams), np.int64), self.pods.keys
        for g, stream in enumerate(self.streams):
            source = stream.source
            if not isinstance(source, Usage | PodMetricKey):
                continue
            if source not in found:
                found[source] = self._samples_of(source, responses)
            samples = found[source]
            for slot in self.members[stream.lane].tolist():
                sample = samples.get(keys[slot])
                listed[g] += keys[slot] in samples
                rows.append((0, 0, 0, 0) if sample is None else (1, *sample))
        return rows, listed

    def _samples_of(self, source: Usage | PodMetricKey, responses: Responses) -> Samples:
        if isinstance(source, Usage):
            return usage_samples(self._items, *source)
        response = responses.get(source)
        if response is None or response.error:
            return {}
        return custom_samples(response.samples, source.namespace)  # type: ignore[arg-type]

    def _fill_answers(self, responses: Responses, listed: I64) -> I64:
        """Write the code of every stream's response; return the values of totals, end to end."""
        table, rows = self.answers, self.answer_rows
        values: list[int] = []
        code = np.where(listed > 0, codes.METRIC_OK, codes.METRIC_ANSWER_EMPTY)
        first, last = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
        text = np.zeros(rows.size, np.int64)
        for g, stream in enumerate(self.streams):
            source = stream.source
            key = self.lanes[stream.lane].key[0] if isinstance(source, Usage) else source
            response = None if key is None else response_to(key, responses)
            self._fetched_ms[g] = response.fetched_ms if response else None
            if response is None or response.error:
                code[g] = codes.METRIC_FETCH_FAILED
                text[g] = self.texts.number(response.error if response else NOT_FETCHED)
            elif not stream.of_pods:
                first[g] = len(values)
                values += [sample.value_milli for sample in response.samples]  # type: ignore[union-attr]
                last[g] = len(values)
                code[g] = codes.METRIC_OK if response.samples else codes.METRIC_ANSWER_EMPTY
        if not self._profile.container_may_lack:
            self._refuse_lacking(code, text)
        table.code[rows], table.text[rows] = code, text
        table.first_value[rows], table.last_value[rows] = first, last
        return np.array(values, np.int64)

    def _refuse_lacking(self, code: I64, text: I64) -> None:
        """In old versions a sample that lacks the metric's container fails the whole metric."""
        keys, lacking = self.pods.keys, dict[str, set[PodKey]]()
        for g, stream in enumerate(self.streams):
            container = stream.key.container
            if code[g] != codes.METRIC_OK or not stream.of_pods or not container:
                continue
            if container not in lacking:
                lacking[container] = {
                    (item.namespace, item.pod)
                    for item in self._items
                    if all(one.name != container for one in item.containers)
                }
            pods = (keys[slot] for slot in self.members[stream.lane].tolist())
            pod = next((pod for pod in pods if pod in lacking[container]), None)
            if pod is not None:
                code[g] = codes.METRIC_CONTAINER_LACKS
                text[g] = self.texts.number(lacking_container(container, *pod))

    # ---- what came of it

    def metrics(self) -> MetricColumns:
        """Return the results of the metrics of every lane, in the order of the spec."""
        specs, _, metrics = self.tables
        first = np.asarray(specs.first_metric[self.spec_now], np.int64)
        counts = np.asarray(specs.last_metric[self.spec_now], np.int64) - first
        start = _starts(counts)
        rows = np.repeat(first - start[:-1], counts) + np.arange(start[-1])
        stream = np.asarray(metrics.stream[rows], np.int64)
        said = self.results.metrics[self.answer_rows[stream]]
        return MetricColumns(
            start=start,
            source=np.asarray(metrics.source[rows], np.int8),
            code=np.array(said["code"], np.int8),
            proposal=np.array(said["proposal"], np.int64),
        )

    def outcomes(self) -> dict[LaneKey, list[Outcome]]:
        """Return the outcome of the pass for each metric of every HPA's spec as read."""
        rows = self.answer_rows
        codes_of, texts_of = self.answers.code[rows].tolist(), self.answers.text[rows].tolist()
        specs, _, metrics = self.tables
        first = specs.first_metric[self.spec_now].tolist()
        streams = metrics.stream.tolist()
        found = {}
        for h, lane in enumerate(self.lanes):
            spec = lane.item.hpa.spec
            own = [Outcome("ok")] * len(spec.metrics)
            for j, k in enumerate(stored_order(spec, self._profile)):
                if k is not None:
                    g = streams[first[h] + j]
                    word = _WORDS.get(codes_of[g], "ok")
                    text = self.texts[texts_of[g]] if word == "error" else ""
                    own[k] = Outcome(word, text, self._fetched_ms[g])
            found[lane.key] = own
        return found


def _starts(sizes: Iterable[int]) -> I64:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _streams(
    h: int, namespace: str, specs: Sequence[HPASpec], keys: Sequence[StreamKey]
) -> list[Stream]:
    metric_of: dict[StreamKey, MetricSpec] = {}
    for spec in reversed(specs):  # the newest spec defines a metric
        for metric, key in zip(spec.metrics, stream_keys(spec), strict=True):
            metric_of.setdefault(key, metric)
    return [Stream(h, key, metric_of[key], source_of(namespace, metric_of[key])) for key in keys]


def source_of(namespace: str, metric: MetricSpec) -> Source:
    """Return the source of a metric of an HPA in a namespace."""
    member = metric.resource or metric.container_resource
    if metric.type == "Resource" and metric.resource:
        return Usage(metric.resource.name)
    if metric.type == "ContainerResource" and member is not None:
        own = metric.container_resource
        return Usage(member.name, own.container if own else "")
    try:
        return metric_key(namespace, metric)
    except ValueError:
        return None  # its selector does not convert


def _request_key(stream: Stream) -> tuple[str, str]:
    """Return resource and container of the requests that a stream uses."""
    resource = stream.key.resource if stream.of_pods else ""
    return resource, stream.key.container if resource else ""


def size_changes(lanes: Sequence[Lane], table: Records) -> Records:
    """Return the CHANGE records of all lanes since the last pass; set their ranges in `table`.

    `table`: the LANE records.
    """
    rows: list[tuple[int, int, int]] = []
    first, last = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.int64)
    for h, lane in enumerate(lanes):
        # (a controller that sees an HPA for the first time knows of no change before)
        if lane.changes and not lane.fresh:
            first[h] = len(rows)
            rows += lane.changes
            last[h] = len(rows)
    table.first_change, table.last_change = first, last
    return records(CHANGE, rows)
