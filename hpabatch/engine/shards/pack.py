"""Packing of a shard: the rows of its HPAs one after another, places by lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.clocks import Clock
from hpabatch.engine.fleet.frames import ALWAYS_MS
from hpabatch.engine.fleet.membership import selector_code
from hpabatch.engine.fleet.pod_columns import matched_pods
from hpabatch.engine.fleet.sources import TrackList
from hpabatch.engine.shards.initial import begun_anew, lives, status_seeds, takes_zero
from hpabatch.engine.shards.read import ShardInput
from hpabatch.engine.shards.shard import Epoch, ScaleColumns, Shard
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
    Requests,
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
    "period": PERIOD,
    "scale": SCALE_ROW,
    "change": CHANGE,
    "selector": SELECTOR,
    "member": np.int8,
    "pod": LANE_POD,
    "ambiguous": AMBIGUOUS,
    "fetch": FETCH,
}
"""The tables of which every lane has rows, one lane after the other."""

_COUNTED: Final = (
    *(*_TABLES, "tick", "stream", "track", "row", "sample", "value", "answer", "stream_answer"),
    *("recommendation", "event", "first_clock"),
)
"""What is counted of each lane: rows of those tables, and of what kernels fill."""


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
    packing = _Packing(given, windows)
    per_block = ROWS_PER_BLOCK if rows_per_block is None else rows_per_block
    for k, candidate in enumerate(given.candidates):
        packing.add(candidate, per_block, instants[k] if instants else None)
    shard, clocks = packing.shard(arena), given.clocks
    if given.statuses is not None:
        # The statuses with which a live loop began its HPAs.
        lanes = [(c, clocks.instants(clocks.of(c.key))) for c in shard.candidates]
        zero = takes_zero(given.profile)
        shard.seeds = status_seeds(given.statuses, lanes, given.starts_ms, zero)
    given.facts.generated = [
        c.key
        for c, theirs in zip(shard.candidates, shard.pods, strict=True)
        if given.pods.generated[theirs].any()
    ]
    return shard


class _Packing:
    """Lanes of a shard: their rows of `_TABLES`, and how many rows of other tables each has.

    Where a lane's rows begin and end follows from these lengths once all lanes are there.
    """

    def __init__(self, given: ShardInput, windows: int) -> None:
        self.given, self.windows = given, windows
        self.kept: list[Candidate] = []
        self.lanes: list[dict[str, int]] = []
        self.pods: list[list[int]] = []
        self.tables: dict[str, list[Any]] = {n: [np.zeros(0, t)] for n, t in _TABLES.items()}
        # Each lane's streams, with the metric that each is of; of each stream where the requests
        # of its pods begin, and whether it is a total.
        self.streams: list[list[tuple[StreamKey, MetricSpec]]] = []
        self.of_streams: list[tuple[int, bool]] = []
        self.tracks = TrackList()
        self.tracks_until: list[int] = []
        self.requests: list[Requests] = []
        self._blocks: dict[tuple[str, str], int] = {}
        self.spec_rows = [
            SpecRows(period.flags, given.profile, given.whole) for period in given.flags
        ]
        self.clock_ms: list[I64] = [np.zeros(0, np.int64)]
        self._clocks: dict[Clock, tuple[int, I64]] = {}
        self._slots: dict[tuple[int, int, int], int] = {}
        self._begun = _begun(given)

    def add(self, candidate: Candidate, rows_per_block: int, only: I64 | None) -> None:
        """Add a lane, unless it has no tick; `only`: the instants at which it is decided."""
        given = self.given
        first_clock, now_ms = self._instants(candidate, only)
        if not now_ms.size:
            return
        anew_ms = now_ms[:0]
        if candidate.cluster in given.clocks.passes:
            anew_ms = begun_anew(candidate, now_ms, given.starts_ms)
        # The metric that each stream of the lane is of: the first spec's that has it.
        metrics: dict[StreamKey, MetricSpec] = {}
        for period in candidate.periods:
            for metric, key in zip(period.spec.metrics, stream_keys(period.spec), strict=True):
                metrics.setdefault(key, metric)
        scale, target, pods = given.scales[candidate.target], candidate.target, given.pods
        numbers, member = matched_pods(pods, target[1], target[3], scale.selectors)
        fetches = given.fetches.get(candidate.key, records_from(FETCH, 0))
        rows: dict[str, Any] = {
            "period": self._periods(
                candidate, [*metrics], lives(candidate.periods, now_ms, anew_ms)
            ),
            "scale": self._scale_rows(scale),
            "change": self._changes(candidate, scale, now_ms, anew_ms),
            "selector": records(SELECTOR, [self._selector(text) for text in scale.selectors]),
            "member": member.reshape(-1).astype(np.int8),
            "pod": records_from(
                LANE_POD,
                numbers.size,
                created_ms=pods.created_ms[numbers],
                gone_ms=pods.gone_ms[numbers],
                first_state=pods.state_first[numbers],
                last_state=pods.state_first[numbers + 1],
            ),
            "ambiguous": given.ambiguous.get(candidate.key, records_from(AMBIGUOUS, 0)),
            "fetch": fetches,
        }
        for name, part in rows.items():
            self.tables[name].append(part)
        self.pods.append(numbers.tolist())
        first_track, first_value = len(self.tracks), 0
        for key, metric in metrics.items():
            before = len(self.tracks)
            is_total = self._add_stream(candidate, key, metric)
            first_value += is_total * now_ms.size * (len(self.tracks) - before)
        capacity = max(rows_per_block or now_ms.size * max(numbers.size, 1), numbers.size)
        recorded = rows["change"].size + 1
        longest, policy_ms = self._windows(candidate)

        def slots(window_ms: int) -> int:
            key = (first_clock, now_ms.size, window_ms)
            if key not in self._slots:
                self._slots[key] = slots_needed(now_ms, window_ms)
            return self._slots[key]

        lengths = {name: len(part) for name, part in rows.items()} | {
            "tick": now_ms.size,
            "stream": len(metrics),
            "track": len(self.tracks) - first_track,
            "row": capacity,
            "sample": capacity * len(metrics),
            "value": first_value,
            "answer": int(fetches.metric.max()) + 1 if fetches.size else 0,
            "stream_answer": now_ms.size * len(metrics),
            "recommendation": slots(longest * self.windows),
            "event": recorded if given.recorded else slots(policy_ms),
        }
        self.lanes.append(lengths | {"first_clock": first_clock})
        self.kept.append(candidate)
        self.streams.append(list(metrics.items()))

    def _instants(self, candidate: Candidate, only: I64 | None) -> tuple[int, I64]:
        """Return where a lane's instants begin among those of all clocks, and they themselves."""
        clocks = self.given.clocks
        clock = clocks.of(candidate.key)
        known = None if only is not None else self._clocks.get(clock)
        if known is None:
            instants = clocks.instants(clock) if only is None else only
            known = sum(part.size for part in self.clock_ms), instants
            self.clock_ms.append(instants)
            if only is None:
                self._clocks[clock] = known
        first, instants = known
        at = np.flatnonzero(candidate.spec_of(instants) >= 0)
        if not at.size:
            return first, instants[:0]
        return first + int(at[0]), instants[at[0] : at[-1] + 1]

    def _periods(
        self, candidate: Candidate, keys: Sequence[StreamKey], objects: Sequence[int]
    ) -> Any:
        for rows in self.spec_rows:
            numbers = [rows.add(p.spec, len(self.of_streams), keys) for p in candidate.periods]
        periods = zip(candidate.periods, numbers, objects, strict=True)
        return records(PERIOD, [(p.from_ms, p.to_ms, n, life) for p, n, life in periods])

    def _scale_rows(self, scale: ScaleColumns) -> Any:
        texts = np.array([self.given.texts.number(text) for text in scale.errors], np.int64)
        return records_from(
            SCALE_ROW,
            scale.ts_ms.size,
            ts_ms=scale.ts_ms,
            replicas=scale.replicas,
            status_replicas=scale.status_replicas,
            selector=scale.selector,
            code=scale.codes(),
            text=texts[scale.error],
        )

    def _changes(self, candidate: Candidate, scale: ScaleColumns, now_ms: I64, anew_ms: I64) -> Any:
        # The controller has just started at the first tick and knows of no change before it.
        changed = scale.resized(self._begun)
        changed = changed[scale.ts_ms[changed] >= now_ms[0]]
        # A loop that decides an HPA anew knows of no change before that either.
        ticks_ms = now_ms[candidate.spec_of(now_ms) >= 0]
        after = np.searchsorted(ticks_ms, scale.ts_ms[changed], side="right")
        next_ms = ticks_ms[np.minimum(after, ticks_ms.size - 1)]
        changed = changed[(after == ticks_ms.size) | ~np.isin(next_ms, anew_ms)]
        return records_from(
            CHANGE,
            changed.size,
            ts_ms=scale.ts_ms[changed],
            before=scale.replicas[changed - 1],
            after=scale.replicas[changed],
        )

    def _selector(self, text: str | None) -> tuple[int, int]:
        """Return what a selector comes to, and the text of its error."""
        try:
            parse_selector(text or "", selector_words(self.given.profile))
        except ValueError as error:
            return codes.SELECTOR_INVALID, self.given.texts.number(str(error))
        return selector_code(text), NO_TEXT

    def _windows(self, candidate: Candidate) -> tuple[int, int]:
        """Return the longest window and the longest period of a policy, ms, under any flags."""
        windows, periods = [0], [0]
        for flags, rows in zip(self.given.flags, self.spec_rows, strict=True):
            windows.append(flags.flags.downscale_stabilization_ms)
            for spec in rows.specs[-len(candidate.periods) :]:
                windows.append(int(max(spec[3], spec[4])))
                periods += [p[2] for p in rows.policies[int(spec[8]) : int(spec[10])]]
        return max(windows), max(periods)

    def _add_stream(self, candidate: Candidate, key: StreamKey, metric: MetricSpec) -> bool:
        """Add a stream of the lane whose pods were added last; say if it is a total."""
        given, pods = self.given, self.pods[-1]
        is_total, first_track = metric.type in ("Object", "External"), len(self.tracks)
        series = given.series.get(candidate.namespace, ())
        _add_tracks(self.tracks, candidate, key, metric, pods, series)
        if key.container and not given.profile.container_may_lack:
            # What old versions say of a sample that lacks a metric's container.
            for j, p in enumerate(pods):
                name = str(given.pods.names[p])
                text = lacking_container(key.container, candidate.namespace, name)
                self.tracks.texts[first_track + j] = given.texts.number(text)
        # Requests of all states for a resource: equal ones are shared.
        resource = "" if is_total else key.resource
        asked = (resource, key.container if resource else "")
        if asked not in self._blocks:
            texts = given.texts if given.whole else None
            self._blocks[asked] = len(self.requests) * given.pods.state_ms.size
            self.requests.append(given.pods.requests(*asked, request_rules(given.profile), texts))
        self.of_streams.append((self._blocks[asked], is_total))
        self.tracks_until.append(len(self.tracks))
        return is_total

    def shard(self, arena: Arena) -> Shard:
        """Return the arrays of all lanes added, the large ones in the arena."""
        given, pods = self.given, self.given.pods
        place, length = self._places()
        tables = {name: _joined(parts) for name, parts in self.tables.items()}
        epochs = [self._epoch(k, place) for k in range(len(given.flags))]
        own = self._epoch(0, place)  # (into which later flags are written)
        _, policies, metrics = self.spec_rows[0].tables()
        streams = np.repeat(np.arange(len(self.lanes)), length["stream"])
        block, is_total = np.array([*self.of_streams, (0, 0)], np.int64).T[:, :-1]
        ends = np.array([0, *self.tracks_until], np.int64)
        ticks = length["tick"][streams]
        nth = np.arange(streams.size) - place["first_stream"][streams]
        fleet = Fleet(
            lanes=own.lanes,
            specs=own.specs,
            policies=policies,
            metrics=metrics,
            streams=records_from(
                STREAM,
                streams.size,
                sample_offset=place["first_sample"][streams]
                + nth * length["row"][streams]
                - place["first_row"][streams],
                request_offset=block,
                answer_offset=np.cumsum(ticks) - ticks - place["first_tick"][streams],
            ),
            ticks=arena.take("ticks", length["tick"].sum(), TICK),
            row_state=arena.take("row_state", length["row"].sum(), np.int32),
            row_weight=np.zeros(0, np.int64),
            states=pods.states,
            present=arena.take("present", length["sample"].sum(), np.int8),
            value_milli=arena.take("value_milli", length["sample"].sum(), np.int64),
            timing=arena.take("timing", length["sample"].sum(), TIMING),
            requests=_joined([records_from(REQUEST, 0), *self.requests]),
            answers=arena.take("answers", length["stream_answer"].sum(), ANSWER),
            values_milli=arena.take("values_milli", length["value"].sum(), np.int64),
            changes=tables["change"],
            metric_words=self.spec_rows[0].words(),
        )
        sources = records_from(LANE_SOURCE, len(self.lanes))
        _set_places(sources, place)
        tracks = self.tracks.table()
        observations = Observations(
            lanes=sources,
            clock_ms=_joined(self.clock_ms),
            periods=tables["period"],
            scales=tables["scale"],
            starts_ms=given.starts_ms,
            selectors=tables["selector"],
            member=tables["member"],
            pods=tables["pod"],
            state_ms=pods.state_ms,
            ambiguous=tables["ambiguous"],
            fetches=tables["fetch"],
            streams=records_from(
                STREAM_SOURCE,
                streams.size,
                is_total=is_total,
                first_track=ends[:-1],
                last_track=ends[1:],
            ),
            tracks=tracks,
            steps=empty_steps(0),
            old_steps=empty_steps(0),
            parameters=np.array([given.delay_ms, given.max_age_ms], np.int64),
            cursors=new_cursors(place["first_tick"], place["first_value"]),
            state_cursor=tables["pod"].first_state.astype(np.int64),
            step_cursor=np.full(tracks.size, -1, np.int64),
            answers=np.zeros((length["answer"].sum(), 2), np.int64),
            in_view=np.zeros(tables["pod"].size, np.int64),
            seen=np.zeros((streams.size, 2), np.int64),
        )
        return Shard(
            asked=given.candidates,
            candidates=self.kept,
            streams=self.streams,
            fleet=fleet,
            observations=observations,
            memory=make_sized_memory(length["recommendation"], length["event"]),
            results=Results(
                arena.take("decisions", fleet.ticks.size, DECISION),
                arena.take("metric_decisions", fleet.answers.size, METRIC_DECISION),
                arena.take("details", fleet.answers.size * given.whole, DETAIL),
            ),
            tracks=self.tracks,
            numbers=pods.numbers,
            pods=self.pods,
            epochs=epochs,
            arena=arena,
            profile=given.profile,
            texts=given.texts,
            statuses=arena.take("statuses", fleet.ticks.size * given.whole, STATUS),
            status_memory=make_status_memory(fleet),
        )

    def _places(self) -> tuple[dict[str, Any], dict[str, I64]]:
        """Return where each lane's rows of the tables begin and end, and how many there are."""
        length = {
            name: np.array([lane[name] for lane in self.lanes], np.int64) for name in _COUNTED
        }
        place: dict[str, Any] = {"first_start": 0, "last_start": self.given.starts_ms.size}
        place["first_clock"] = length.pop("first_clock")
        place["last_clock"] = place["first_clock"] + length["tick"]
        for name, rows in length.items():
            last = np.cumsum(rows)
            place |= {f"first_{name}": last - rows, f"last_{name}": last}
        place |= {"row_capacity": length["row"], "selectors": length["selector"]}
        return place | {"answers": length["answer"]}, length

    def _epoch(self, k: int, place: Mapping[str, Any]) -> Epoch:
        period = self.given.flags[k]
        lanes = pack_lanes(len(self.lanes), period.flags, self.given.profile)
        _set_places(lanes, place)
        return Epoch(period.from_ms, self.spec_rows[k].tables()[0], lanes)


def _set_places(table: Any, place: Mapping[str, Any]) -> None:
    """Write where the lanes' rows begin and end, as far as a table has it."""
    for name in {*table.dtype.names} & {*place}:
        table[name] = place[name]


def _joined(parts: Sequence[Any]) -> Any:
    joined = np.concatenate(parts)
    return joined.view(np.recarray) if joined.dtype.names else joined


def _begun(given: ShardInput) -> list[tuple[int, int]]:
    """Return of each loop that began when the one before last looked, and its first pass."""
    passes = given.clocks.passes.get(given.facts.cluster)
    if passes is None:
        return []
    starts = [int(ms) for ms in given.starts_ms]
    before = np.searchsorted(passes, starts) - 1
    ends = [int(passes[k]) if k >= 0 else ALWAYS_MS for k in before.tolist()]
    return list(zip(ends, starts, strict=True))


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
