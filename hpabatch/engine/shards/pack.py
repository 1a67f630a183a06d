"""Packing of a shard: its arrays, built HPA by HPA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.clocks import Clock, HpaKey
from hpabatch.engine.fleet.frames import ALWAYS_MS
from hpabatch.engine.fleet.membership import selector_code
from hpabatch.engine.fleet.pod_columns import PodColumns, matched_pods
from hpabatch.engine.fleet.sources import TrackList
from hpabatch.engine.shards.initial import begun_anew, lives, status_seeds, takes_zero
from hpabatch.engine.shards.read import ShardInput
from hpabatch.engine.shards.shard import Epoch, Growing, Shard
from hpabatch.layout import codes
from hpabatch.layout.observations import (
    AMBIGUOUS,
    FETCH,
    LANE_POD,
    LANE_SOURCE,
    PERIOD,
    SCALE_ROW,
    SELECTOR,
    STREAM_SOURCE,
    Observations,
    empty_steps,
    new_cursors,
)
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I64,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    Lanes,
    records,
    records_from,
)
from hpabatch.layout.results import DECISION, DETAIL, METRIC_DECISION, STATUS, Results
from hpabatch.model.messages import lacking_container
from hpabatch.model.objects.hpa import LabelSelector, MetricSpec
from hpabatch.model.requests import request_rules
from hpabatch.model.selectors import parse_selector, selector_from_object, selector_words
from hpabatch.packing.arena import Arena
from hpabatch.packing.memory import make_sized_memory, slots_needed
from hpabatch.packing.specs import SpecRows, StreamKey, pack_lanes, stream_keys
from hpabatch.packing.status import make_status_memory
from hpabatch.packing.texts import NO_TEXT

ROWS_PER_BLOCK = 1024  # (tick, pod) rows of a lane: with their samples they fit an L1 cache

_TABLES: Final[dict[str, Any]] = {
    "clock": np.int64,
    "period": PERIOD,
    "scale": SCALE_ROW,
    "change": CHANGE,
    "selector": SELECTOR,
    "member": np.int8,
    "pod": LANE_POD,
    "ambiguous": AMBIGUOUS,
    "fetch": FETCH,
    "answer": np.int64,
    "stream": STREAM,
    "stream_source": STREAM_SOURCE,
    "stream_answer": ANSWER,
    "request": REQUEST,
    "tick": TICK,
    "row": np.int32,
    "sample": np.int64,
    "value": np.int64,
}
"""The types of the tables that grow by lanes and streams."""


def pack_shard(
    given: ShardInput,
    arena: Arena,
    rows_per_block: int | None = None,
    instants: Sequence[I64 | None] = (),
    windows: int = 1,
) -> Shard:
    """Return the arrays of a shard, and note in its facts which HPAs have generated pods.

    `rows_per_block` (tick, pod) rows of an HPA are filled at a time; 0: all of a load together.
    `instants`: of each HPA the only ones at which it is decided, in ms, ascending; None, or empty
    for every HPA: all that it has. Recommendation lists have room for `windows` times the longest
    window of the specs.
    """
    builder = ShardBuilder(given, rows_per_block, windows)
    for k, candidate in enumerate(given.candidates):
        series = given.series.get(candidate.namespace, ())
        builder.add(candidate, series, instants[k] if instants else None)
    shard = builder.build(arena)
    if given.statuses is not None:
        # The statuses with which a live loop began its HPAs.
        clocks = given.clocks
        lanes = [(c, clocks.instants(clocks.of(c.key))) for c in shard.candidates]
        zero = takes_zero(given.profile)
        shard.seeds = status_seeds(given.statuses, lanes, given.starts_ms, zero)
    given.facts.generated = _generated(shard, given.pods)
    return shard


class ShardBuilder:
    """Collects the lanes of a shard; `build` returns the arrays.

    A lane's dictionary says where its parts of the tables begin and end: the fields of LANE and
    LANE_SOURCE.
    """

    def __init__(
        self, given: ShardInput, rows_per_block: int | None = None, windows: int = 1
    ) -> None:
        """Take what all lanes share; `rows_per_block` 0 makes room for all of a lane's rows."""
        self.given = given
        self.windows = windows
        self.rows_per_block = ROWS_PER_BLOCK if rows_per_block is None else rows_per_block
        self.kept: list[Candidate] = []
        self.pod_numbers: list[list[int]] = []
        self.lanes: list[dict[str, int]] = []
        # Each lane's streams, with the metric that each is of, and where their samples come from.
        self.of_lanes: list[list[tuple[StreamKey, MetricSpec]]] = []
        self.tracks = TrackList()
        self.tables = {name: Growing(dtype) for name, dtype in _TABLES.items()}
        self._blocks: dict[tuple[str, str], int] = {}
        self.spec_rows = [
            SpecRows(period.flags, given.profile, given.whole) for period in given.flags
        ]
        self.recommendation_slots: list[int] = []
        self.event_slots: list[int] = []
        self._clocks: dict[Clock, tuple[int, I64]] = {}
        self._slots: dict[tuple[int, int, int], int] = {}

    def add(
        self, candidate: Candidate, series: Sequence[tuple[str, ...]], only: I64 | None = None
    ) -> None:
        """Add a lane, unless it has no tick; `series` are the external metrics' series.

        `only`: the instants at which it is decided; None: all that it has.
        """
        given = self.given
        clock, now_ms = self._instants(candidate, only)
        if not now_ms.size:
            return
        lane = {"first_clock": clock, "last_clock": clock + now_ms.size}
        lane["first_start"], lane["last_start"] = 0, given.starts_ms.size
        anew_ms = now_ms[:0]
        if candidate.cluster in given.clocks.passes:
            anew_ms = begun_anew(candidate, now_ms, given.starts_ms)
        self._reserve(lane, "tick", now_ms.size)
        metrics = _metrics_of_streams(candidate)
        self._add_specs(candidate, [*metrics], lives(candidate.periods, now_ms, anew_ms), lane)
        self._add_scale(candidate, now_ms, anew_ms, lane)
        pods = self._add_pods(candidate, lane)
        self._add_streams(candidate, metrics, pods, series, lane)
        self._add_memory(candidate, clock, now_ms, lane)
        self._add(lane, "ambiguous", given.ambiguous.get(candidate.key, records_from(AMBIGUOUS, 0)))
        fetches = given.fetches.get(candidate.key, records_from(FETCH, 0))
        self._add(lane, "fetch", fetches)
        lane["answers"] = int(fetches.metric.max()) + 1 if fetches.size else 0
        self._reserve(lane, "answer", lane["answers"])
        self.kept.append(candidate)
        self.pod_numbers.append(pods)
        self.lanes.append(lane)

    def _add(self, lane: dict[str, int], name: str, rows: Any) -> None:
        """Add a lane's rows of a table."""
        lane[f"first_{name}"], lane[f"last_{name}"] = self.tables[name].add(rows)

    def _reserve(self, lane: dict[str, int], name: str, length: int) -> None:
        """Make room for a lane's rows of a table."""
        lane[f"first_{name}"], lane[f"last_{name}"] = self.tables[name].reserve(length)

    def _instants(self, candidate: Candidate, only: I64 | None) -> tuple[int, I64]:
        """Return where a lane's instants begin in the clock, and they themselves."""
        clocks, table = self.given.clocks, self.tables["clock"]
        clock = clocks.of(candidate.key)
        if only is not None:
            first, instants = table.add(only)[0], only
        else:
            if clock not in self._clocks:
                instants = clocks.instants(clock)
                self._clocks[clock] = (table.add(instants)[0], instants)
            first, instants = self._clocks[clock]
        at = np.flatnonzero(candidate.spec_of(instants) >= 0)
        if not at.size:
            return first, instants[:0]
        return first + int(at[0]), instants[at[0] : at[-1] + 1]

    def _add_specs(
        self,
        candidate: Candidate,
        keys: Sequence[StreamKey],
        objects: Sequence[int],
        lane: dict[str, int],
    ) -> None:
        first = self.tables["stream"].size
        for rows in self.spec_rows:
            numbers = [rows.add(p.spec, first, keys) for p in candidate.periods]
        periods = [
            (p.from_ms, p.to_ms, n, life)
            for p, n, life in zip(candidate.periods, numbers, objects, strict=True)
        ]
        self._add(lane, "period", records(PERIOD, periods))

    def _add_scale(
        self, candidate: Candidate, now_ms: I64, anew_ms: I64, lane: dict[str, int]
    ) -> None:
        scale = self.given.scales[candidate.target]
        texts = np.array([self.given.texts.number(text) for text in scale.errors], np.int64)
        rows = records_from(
            SCALE_ROW,
            scale.ts_ms.size,
            ts_ms=scale.ts_ms,
            replicas=scale.replicas,
            status_replicas=scale.status_replicas,
            selector=scale.selector,
            code=scale.codes(),
            text=texts[scale.error],
        )
        self._add(lane, "scale", rows)
        # The controller has just started at the first tick and knows of no change before it.
        changed = scale.resized(self._begun(candidate.cluster))
        changed = changed[scale.ts_ms[changed] >= now_ms[0]]
        # A loop that decides an HPA anew knows of no change before that either.
        ticks_ms = now_ms[candidate.spec_of(now_ms) >= 0]
        after = np.searchsorted(ticks_ms, scale.ts_ms[changed], side="right")
        next_ms = ticks_ms[np.minimum(after, ticks_ms.size - 1)]
        changed = changed[(after == ticks_ms.size) | ~np.isin(next_ms, anew_ms)]
        changes = records_from(
            CHANGE,
            changed.size,
            ts_ms=scale.ts_ms[changed],
            before=scale.replicas[changed - 1],
            after=scale.replicas[changed],
        )
        self._add(lane, "change", changes)

    def _begun(self, cluster: str) -> list[tuple[int, int]]:
        """Return of each loop that began when the one before last looked, and its first pass."""
        passes = self.given.clocks.passes.get(cluster)
        if passes is None:
            return []
        starts = [int(ms) for ms in self.given.starts_ms]
        before = np.searchsorted(passes, starts) - 1
        ends = [int(passes[k]) if k >= 0 else ALWAYS_MS for k in before.tolist()]
        return list(zip(ends, starts, strict=True))

    def _add_pods(self, candidate: Candidate, lane: dict[str, int]) -> list[int]:
        """Add the pods that the scale's selectors match; return their numbers in the shard."""
        pods, target = self.given.pods, candidate.target
        selectors = self.given.scales[target].selectors
        numbers, member = matched_pods(pods, target[1], target[3], selectors)
        lane["selectors"] = len(selectors)
        self._add(lane, "selector", records(SELECTOR, [self._selector(text) for text in selectors]))
        self._add(lane, "member", member.reshape(-1))
        rows = records_from(
            LANE_POD,
            numbers.size,
            created_ms=pods.created_ms[numbers],
            gone_ms=pods.gone_ms[numbers],
            first_state=pods.state_first[numbers],
            last_state=pods.state_first[numbers + 1],
        )
        self._add(lane, "pod", rows)
        return [int(p) for p in numbers]

    def _selector(self, text: str | None) -> tuple[int, int]:
        """Return what a selector comes to, and the text of its error."""
        try:
            parse_selector(text or "", selector_words(self.given.profile))
        except ValueError as error:
            return codes.SELECTOR_INVALID, self.given.texts.number(str(error))
        return selector_code(text), NO_TEXT

    def _add_memory(
        self, candidate: Candidate, clock: int, now_ms: I64, lane: dict[str, int]
    ) -> None:
        """Size the lane's lists by the longest windows of its specs under any flags."""
        windows, periods = [0], [0]
        for flags, rows in zip(self.given.flags, self.spec_rows, strict=True):
            specs = rows.specs[-len(candidate.periods) :]
            windows += [int(max(spec[3], spec[4])) for spec in specs]
            windows.append(flags.flags.downscale_stabilization_ms)
            for spec in specs:
                periods += [p[2] for p in rows.policies[int(spec[8]) : int(spec[10])]]

        def slots(window_ms: int) -> int:
            key = (clock, now_ms.size, window_ms)
            if key not in self._slots:
                self._slots[key] = slots_needed(now_ms, window_ms)
            return self._slots[key]

        self.recommendation_slots.append(slots(max(windows) * self.windows))
        recorded = lane["last_change"] - lane["first_change"] + 1
        self.event_slots.append(recorded if self.given.recorded else slots(max(periods)))

    def _add_streams(
        self,
        candidate: Candidate,
        metrics: Mapping[StreamKey, MetricSpec],
        pods: list[int],
        series: Sequence[tuple[str, ...]],
        lane: dict[str, int],
    ) -> None:
        """Add a lane's streams with their tracks, and room for their rows, samples and answers.

        `pods` are numbers in the shard, `series` the external metrics' series.
        """
        tables, ticks = self.tables, lane["last_tick"] - lane["first_tick"]
        capacity = max(self.rows_per_block or ticks * max(len(pods), 1), len(pods))
        self._reserve(lane, "row", capacity)
        lane["row_capacity"] = capacity
        lane["first_sample"], lane["first_value"] = tables["sample"].size, tables["value"].size
        lane["first_track"], lane["first_stream"] = len(self.tracks), tables["stream"].size
        for key, metric in metrics.items():
            first_track = len(self.tracks)
            is_total = metric.type in ("Object", "External")
            _add_tracks(self.tracks, candidate, key, metric, pods, series)
            self._add_track_texts(candidate.namespace, key.container, pods, first_track)
            tables["stream_source"].add(
                records(STREAM_SOURCE, [(is_total, first_track, len(self.tracks))])
            )
            sample, _ = tables["sample"].reserve(capacity)
            answer, _ = tables["stream_answer"].reserve(ticks)
            if is_total:
                tables["value"].reserve(ticks * (len(self.tracks) - first_track))
            block = self._request_block("" if is_total else key.resource, key.container)
            offsets = (sample - lane["first_row"], block, answer - lane["first_tick"])
            tables["stream"].add(records(STREAM, [offsets]))
        lane["last_stream"], lane["last_track"] = tables["stream"].size, len(self.tracks)
        self.of_lanes.append(list(metrics.items()))

    def _add_track_texts(
        self, namespace: str, container: str, pods: Sequence[int], first_track: int
    ) -> None:
        """Word what old versions say of a sample that lacks a metric's container."""
        if self.given.profile.container_may_lack or not container:
            return
        for j, p in enumerate(pods):
            text = lacking_container(container, namespace, str(self.given.pods.names[p]))
            self.tracks.texts[first_track + j] = self.given.texts.number(text)

    def _request_block(self, resource: str, container: str) -> int:
        """Return where the requests of all states for a resource begin; equal ones are shared."""
        key = (resource, container if resource else "")
        if key not in self._blocks:
            rules = request_rules(self.given.profile)
            texts = self.given.texts if self.given.whole else None
            rows = self.given.pods.requests(*key, rules, texts)
            self._blocks[key] = self.tables["request"].add(rows)[0]
        return self._blocks[key]

    def build(self, arena: Arena) -> Shard:
        """Return the arrays of all lanes added, the large ones in the arena."""
        given, tables = self.given, self.tables
        epochs = [self._epoch(k) for k in range(len(given.flags))]
        own = self._epoch(0)  # (into which later flags are written)
        _, policies, metrics = self.spec_rows[0].tables()
        samples = tables["sample"].size
        fleet = Fleet(
            lanes=own.lanes,
            specs=own.specs,
            policies=policies,
            metrics=metrics,
            streams=tables["stream"].table(),
            ticks=tables["tick"].room(arena, "ticks"),
            row_state=tables["row"].room(arena, "row_state"),
            row_weight=np.zeros(0, np.int64),
            states=given.pods.states,
            present=arena.take("present", samples, np.int8),
            value_milli=tables["sample"].room(arena, "value_milli"),
            timing=arena.take("timing", samples, TIMING),
            requests=tables["request"].table(),
            answers=tables["stream_answer"].room(arena, "answers"),
            values_milli=tables["value"].room(arena, "values_milli"),
            changes=tables["change"].table(),
            metric_words=self.spec_rows[0].words(),
        )
        return Shard(
            asked=given.candidates,
            candidates=self.kept,
            streams=self.of_lanes,
            fleet=fleet,
            observations=self._observations(fleet.lanes),
            memory=make_sized_memory(
                np.array(self.recommendation_slots, np.int64), np.array(self.event_slots, np.int64)
            ),
            results=Results(
                arena.take("decisions", fleet.ticks.size, DECISION),
                arena.take("metric_decisions", fleet.answers.size, METRIC_DECISION),
                arena.take("details", fleet.answers.size * given.whole, DETAIL),
            ),
            tracks=self.tracks,
            numbers=given.pods.numbers,
            pods=self.pod_numbers,
            epochs=epochs,
            arena=arena,
            profile=given.profile,
            texts=given.texts,
            statuses=arena.take("statuses", fleet.ticks.size * given.whole, STATUS),
            status_memory=make_status_memory(fleet),
        )

    def _epoch(self, k: int) -> Epoch:
        period = self.given.flags[k]
        lanes = pack_lanes(len(self.lanes), period.flags, self.given.profile)
        self._set_places(lanes)
        return Epoch(period.from_ms, self.spec_rows[k].tables()[0], lanes)

    def _set_places(self, table: Any) -> None:
        """Write where the lanes' parts of the tables begin and end, as far as a table has it."""
        for name in {*table.dtype.names} & {*(self.lanes[0] if self.lanes else ())}:
            table[name] = [lane[name] for lane in self.lanes]

    def _observations(self, lanes: Lanes) -> Observations:
        given, tables = self.given, self.tables
        sources = records_from(LANE_SOURCE, len(self.lanes))
        self._set_places(sources)
        tracks, pods = self.tracks.table(), tables["pod"].table()
        return Observations(
            lanes=sources,
            clock_ms=tables["clock"].table(),
            periods=tables["period"].table(),
            scales=tables["scale"].table(),
            starts_ms=given.starts_ms,
            selectors=tables["selector"].table(),
            member=tables["member"].table(),
            pods=pods,
            state_ms=given.pods.state_ms,
            ambiguous=tables["ambiguous"].table(),
            fetches=tables["fetch"].table(),
            streams=tables["stream_source"].table(),
            tracks=tracks,
            steps=empty_steps(0),
            old_steps=empty_steps(0),
            parameters=np.array([given.delay_ms, given.max_age_ms], np.int64),
            cursors=new_cursors(
                lanes.first_tick.astype(np.int64), sources.first_value.astype(np.int64)
            ),
            state_cursor=pods.first_state.astype(np.int64),
            step_cursor=np.full(tracks.size, -1, np.int64),
            answers=np.zeros((tables["answer"].size, 2), np.int64),
            in_view=np.zeros(pods.size, np.int64),
            seen=np.zeros((tables["stream"].size, 2), np.int64),
        )


def _generated(shard: Shard, pods: PodColumns) -> list[HpaKey]:
    return [
        c.key
        for c, theirs in zip(shard.candidates, shard.pods, strict=True)
        if pods.generated[theirs].any()
    ]


def _add_tracks(
    tracks: TrackList,
    candidate: Candidate,
    key: StreamKey,
    metric: MetricSpec,
    pods: Sequence[int],
    series: Sequence[tuple[str, ...]],
) -> None:
    """Add the tracks of one stream: one a pod, or one a series of an Object or External metric.

    `series` are the known (namespace, metric, selector, series) of external metrics, sorted.
    """
    namespace = candidate.namespace
    if metric.type == "Pods" and metric.pods is not None:
        name, selector = metric.pods.metric.name, _print_selector(metric.pods.metric.selector)
        for p in pods:
            tracks.add_plain(("pod_custom_metrics", name, selector, str(p)))
    elif metric.type == "Object" and metric.object is not None:
        described, identifier = metric.object.described_object, metric.object.metric
        # A Namespace metric is that of the HPA's own namespace, whatever name is given.
        is_namespace = described.kind == "Namespace" and "/" not in described.api_version
        name = namespace if is_namespace else described.name
        selector = _print_selector(identifier.selector)
        described_object = (namespace, described.kind, name)
        tracks.add_plain(("object_metrics", *described_object, identifier.name, selector))
    elif metric.type == "External" and metric.external is not None:
        identifier = metric.external.metric
        wanted = (namespace, identifier.name, _print_selector(identifier.selector))
        for owner in series:
            if owner[:3] == wanted:
                tracks.add_plain(("external_metrics", *owner))
    elif metric.type not in ("Object", "External"):
        tracks.add_usage(list(pods), key.resource, key.container)


def _print_selector(selector: LabelSelector | None) -> str:
    """Return a metric selector in the history's form; one that does not convert matches nothing."""
    try:
        return str(selector_from_object(selector))
    except ValueError:
        return "!"


def _metrics_of_streams(candidate: Candidate) -> dict[StreamKey, MetricSpec]:
    """Return the metric that each stream of a lane is of: the first spec's that has it."""
    found: dict[StreamKey, MetricSpec] = {}
    for period in candidate.periods:
        for metric, key in zip(period.spec.metrics, stream_keys(period.spec), strict=True):
            found.setdefault(key, metric)
    return found
