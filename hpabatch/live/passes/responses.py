"""Responses of the metrics APIs as columns of a pass: samples by pod, totals and codes."""

from __future__ import annotations

import numpy as np

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import (
    PodKey,
    PodMetricKey,
    Response,
    Responses,
    UsageSample,
    response_to,
)
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.live.passes.fleet import Layout, Stream, Structure, Usage
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.live.passes.pods import Samples, custom_samples, usage_samples
from hpabatch.model.messages import lacking_container
from hpabatch.model.objects.stored import stored_order
from hpabatch.model.versions import Profile

_WORDS = {
    codes.METRIC_OK: "ok",
    codes.METRIC_ANSWER_EMPTY: "empty",
    codes.METRIC_FETCH_FAILED: "error",
}
NOT_FETCHED = "not asked in this pass: the HPA had only just appeared"


class ResponseColumns:
    """The responses of a pass, written to its columns.

    Attributes:
        samples: (present, milli-units, UTC ms, window in ms) of each stream's pods, end to end.
        values: of totals, end to end.
    """

    def __init__(
        self, structure: Structure, layout: Layout, responses: Responses, profile: Profile
    ) -> None:
        """Write the responses."""
        self._structure, self._layout, self._profile = structure, layout, profile
        self.samples: list[tuple[int, int, int, int]] = []
        self._fetched_ms: list[int | None] = [None] * len(structure.streams)
        self._items = [
            item
            for key, response in responses.items()
            if isinstance(key, str) and not response.error
            for item in response.samples
            if isinstance(item, UsageSample)
        ]
        self.values = self._fill_streams(responses)

    def outcomes(self) -> dict[LaneKey, list[Outcome]]:
        """Return the outcome of the pass for each metric of every HPA's spec as read."""
        structure = self._structure
        rows = structure.answer_rows()
        codes_of, texts_of = (
            structure.answers.code[rows].tolist(),
            structure.answers.text[rows].tolist(),
        )
        specs, _, metrics = structure.tables
        first = specs.first_metric[structure.spec_now].tolist()
        streams = metrics.stream.tolist()
        found = {}
        for h, lane in enumerate(structure.lanes):
            spec = lane.item.hpa.spec
            own = [Outcome("ok")] * len(spec.metrics)
            for j, k in enumerate(stored_order(spec, self._profile)):
                if k is not None:
                    g = streams[first[h] + j]
                    word = _WORDS.get(codes_of[g], "ok")
                    text = structure.texts[texts_of[g]] if word == "error" else ""
                    own[k] = Outcome(word, text, self._fetched_ms[g])
            found[lane.key] = own
        return found

    def _fill_samples(self, responses: Responses) -> I64:
        """Write the samples of pods; return (G,) the number of each stream's pods that have one."""
        found: dict[Usage | PodMetricKey, Samples] = {}
        listed = np.zeros(len(self._structure.streams), np.int64)
        keys = self._layout.pods.keys
        for g, stream in enumerate(self._structure.streams):
            source = stream.source
            if not isinstance(source, Usage | PodMetricKey):
                continue
            if source not in found:
                found[source] = self._samples_of(source, responses)
            samples = found[source]
            for slot in self._layout.members[stream.lane].tolist():
                sample = samples.get(keys[slot])
                listed[g] += keys[slot] in samples
                self.samples.append((0, 0, 0, 0) if sample is None else (1, *sample))
        return listed

    def _samples_of(self, source: Usage | PodMetricKey, responses: Responses) -> Samples:
        if isinstance(source, Usage):
            return usage_samples(self._items, *source)
        response = responses.get(source)
        if response is None or response.error:
            return {}
        return custom_samples(response.samples, source.namespace)  # type: ignore[arg-type]

    def _fill_streams(self, responses: Responses) -> I64:
        """Write the code of every stream's response; return the values of totals, end to end."""
        structure = self._structure
        table = structure.answers
        rows = structure.answer_rows()
        listed = self._fill_samples(responses)
        values: list[int] = []
        code = np.where(listed > 0, codes.METRIC_OK, codes.METRIC_ANSWER_EMPTY)
        first, last = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
        text = np.zeros(rows.size, np.int64)
        for g, stream in enumerate(structure.streams):
            response = _response_of(stream, structure, responses)
            self._fetched_ms[g] = response.fetched_ms if response else None
            if response is None or response.error:
                code[g] = codes.METRIC_FETCH_FAILED
                text[g] = structure.texts.number(response.error if response else NOT_FETCHED)
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
        keys, lacking = self._layout.pods.keys, dict[str, set[PodKey]]()
        for g, stream in enumerate(self._structure.streams):
            container = stream.key.container
            if code[g] != codes.METRIC_OK or not stream.of_pods or not container:
                continue
            if container not in lacking:
                lacking[container] = {
                    (item.namespace, item.pod)
                    for item in self._items
                    if all(one.name != container for one in item.containers)
                }
            pods = (keys[slot] for slot in self._layout.members[stream.lane].tolist())
            pod = next((pod for pod in pods if pod in lacking[container]), None)
            if pod is not None:
                code[g] = codes.METRIC_CONTAINER_LACKS
                text[g] = self._structure.texts.number(lacking_container(container, *pod))


def _response_of(stream: Stream, structure: Structure, responses: Responses) -> Response | None:
    """Return the response that a stream's samples come from, None if nothing was requested."""
    source = stream.source
    key = structure.lanes[stream.lane].key[0] if isinstance(source, Usage) else source
    return None if key is None else response_to(key, responses)
