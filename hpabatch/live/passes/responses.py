"""Responses of the metrics APIs as columns of a pass: samples by pod, totals and codes."""

from __future__ import annotations

import numpy as np

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    ObjectMetricKey,
    PodMetricKey,
    Response,
    Responses,
)
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.live.passes.fleet import Layout, Source, Stream, Structure
from hpabatch.live.passes.lanes import LaneKey, Lanes
from hpabatch.live.passes.pods import Samples, fill_custom, fill_usage
from hpabatch.model.messages import lacking_container
from hpabatch.model.objects.stored import stored_order

_WORDS = {
    codes.METRIC_OK: "ok",
    codes.METRIC_ANSWER_EMPTY: "empty",
    codes.METRIC_FETCH_FAILED: "error",
}
NOT_FETCHED = "not asked in this pass: the HPA had only just appeared"


class ResponseColumns:
    """Writes responses to the columns of a pass.

    Attributes:
        strays: samples of pods that the cluster does not show, in the last pass.
    """

    def __init__(self, lanes: Lanes) -> None:
        """Begin without samples."""
        self.strays = 0
        self._lanes, self._pods = lanes, lanes.pods
        self._usage: dict[tuple[str, str], Samples] = {}
        self._custom: dict[Source, Samples] = {}
        self._lacking: dict[str, list[int]] = {}
        self._fetched_ms: list[int | None] = []

    def fill(self, structure: Structure, layout: Layout, responses: Responses) -> I64:
        """Write responses to the columns; return the values of totals, end to end."""
        self._fill_samples(structure, layout, responses)
        return self._fill_streams(structure, layout, responses)

    def outcomes(self, structure: Structure) -> dict[LaneKey, list[Outcome]]:
        """Return the outcome of the last pass for each metric of every HPA's spec as read."""
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
            for j, k in enumerate(stored_order(spec, self._lanes.profile)):
                if k is not None:
                    g = streams[first[h] + j]
                    word = _WORDS.get(codes_of[g], "ok")
                    text = self._lanes.texts[texts_of[g]] if word == "error" else ""
                    own[k] = Outcome(word, text, self._fetched_ms[g])
            found[lane.key] = own
        return found

    def _fill_samples(self, structure: Structure, layout: Layout, responses: Responses) -> None:
        """Write samples to columns by pod."""
        room, streams = self._pods.room, structure.streams
        sources = {stream.source for stream in streams if stream.of_pods}
        usage = {(s[1], s[2]) for s in sources if s[0] == "usage"}
        self._usage = {key: _cleared(self._usage.get(key), room) for key in sorted(usage)}
        self.strays = 0
        self._lacking = {}
        for response in {id(a): a for a in responses.usage.values()}.values():
            if response.error:
                continue
            lacking, strays = fill_usage(self._usage, response.samples, self._pods)  # type: ignore[arg-type]
            self.strays += strays
            for container, slots in lacking.items():
                self._lacking.setdefault(container, []).extend(slots)
        custom = sorted(s for s in sources if s[0] == "pods")
        self._custom = {source: _cleared(self._custom.get(source), room) for source in custom}
        for key, response in responses.pods.items():
            column = self._custom.get(("pods", *key))
            if column is not None and not response.error:
                self.strays += fill_custom(column, key.namespace, response.samples, self._pods)  # type: ignore[arg-type]
        samples: dict[Source, Samples] = dict(self._custom)
        samples |= {("usage", *key): column for key, column in self._usage.items()}
        layout.gather(samples)

    def _fill_streams(self, structure: Structure, layout: Layout, responses: Responses) -> I64:
        """Write the code of every stream's response; return the values of totals, end to end."""
        table = structure.answers
        rows = structure.answer_rows()
        listed = layout.listed_of_streams()
        values: list[int] = []
        code = np.where(listed > 0, codes.METRIC_OK, codes.METRIC_ANSWER_EMPTY)
        first, last = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
        text = np.zeros(rows.size, np.int64)
        self._fetched_ms = [None] * rows.size
        for g, stream in enumerate(structure.streams):
            response = _response_of(stream, structure, responses)
            self._fetched_ms[g] = response.fetched_ms if response else None
            if response is None or response.error:
                code[g] = codes.METRIC_FETCH_FAILED
                text[g] = self._lanes.texts.number(response.error if response else NOT_FETCHED)
            elif not stream.of_pods:
                first[g] = len(values)
                values += [sample.value_milli for sample in response.samples]  # type: ignore[union-attr]
                last[g] = len(values)
                code[g] = codes.METRIC_OK if response.samples else codes.METRIC_ANSWER_EMPTY
        if not self._lanes.profile.container_may_lack and any(self._lacking.values()):
            self._refuse_lacking(structure, layout, code, text)
        table.code[rows], table.text[rows] = code, text
        table.first_value[rows], table.last_value[rows] = first, last
        return np.array(values, np.int64)

    def _refuse_lacking(self, structure: Structure, layout: Layout, code: I64, text: I64) -> None:
        """In old versions a sample that lacks the metric's container fails the whole metric."""
        sets = {container: set(slots) for container, slots in self._lacking.items()}
        for g, stream in enumerate(structure.streams):
            container = stream.key.container
            if code[g] != codes.METRIC_OK or container not in sets or not stream.of_pods:
                continue
            lane = structure.lanes[stream.lane]
            for slot in layout.members[stream.lane].tolist():
                if slot in sets[container]:
                    said = lacking_container(container, lane.key[0], self._pods.names[slot])
                    code[g] = codes.METRIC_CONTAINER_LACKS
                    text[g] = self._lanes.texts.number(said)
                    break


def _response_of(stream: Stream, structure: Structure, responses: Responses) -> Response | None:
    """Return the response that a stream's samples come from, None if nothing was requested."""
    kind, key = stream.source[0], stream.source[1:]
    if kind == "usage":
        return responses.usage_of(structure.lanes[stream.lane].key[0])
    if kind == "pods":
        return responses.pods.get(PodMetricKey(*key))
    if kind == "object":
        return responses.objects.get(ObjectMetricKey(*key))
    if kind == "external":
        return responses.external.get(ExternalMetricKey(*key))
    return None


def _cleared(samples: Samples | None, room: int) -> Samples:
    if samples is None or samples.present.size != room:
        return Samples(room)
    samples.clear()
    return samples
