"""The (tick, pod) rows of one HPA: the pods that its controller saw, their state and sample."""

from __future__ import annotations

import numpy as np

from hpabatch.layout.records import (
    I8,
    I64,
    POD_STATE,
    REQUEST,
    TIMING,
    Records,
    records,
    records_from,
)
from hpabatch.packing.pack import pod_flags
from hpabatch.packing.specs import StreamKey
from tests.engine.plain.recording import (
    GONE,
    LACKING,
    NEVER_MS,
    Recording,
    SampleColumns,
    ScaleColumns,
)
from tests.engine.plain.requests import RequestLookup


def visible_samples(samples: SampleColumns, owner: int, now_ms: I64, max_age_ms: int) -> I64:
    """Return the index of the sample that each instant sees, -1 for none; shape of `now_ms`."""
    first, last = int(samples.first[owner]), int(samples.first[owner + 1])
    if first == last:
        return np.full(now_ms.size, -1, np.int64)
    order = np.argsort(samples.seen_ms[first:last], kind="stable")
    ts = samples.ts_ms[first:last][order]
    # Of all samples seen so far the newest counts, not the one that came in last.
    newest = np.maximum.accumulate(ts)
    at_newest = np.where(ts == newest, np.arange(ts.size), 0)
    best = order[np.maximum.accumulate(at_newest)]
    seen = np.searchsorted(samples.seen_ms[first:last][order], now_ms, side="right") - 1
    index = best[np.maximum(seen, 0)] + first
    alive = (seen >= 0) & (now_ms - samples.ts_ms[index] <= max_age_ms)
    alive &= samples.present[index] != GONE
    return np.where(alive, index, -1)


class PodRows:
    """The (tick, pod) rows of one lane, tick after tick, and the pod states they name."""

    def __init__(
        self,
        recording: Recording,
        requests: RequestLookup,
        max_age_ms: int,
        members: list[I64],
        seen: I64,
        scale: ScaleColumns,
        now_ms: I64,
    ) -> None:
        """Find the rows; `members`: the pods of each selector, `seen`: the scale's row per tick."""
        self.recording = recording
        self.lookup = requests
        self.max_age_ms = max_age_ms
        self.now_ms = now_ms
        self.pods = np.unique(np.concatenate([np.zeros(0, np.int64), *members]))
        self.state_pod: list[int] = []
        self.state_ms: list[int] = []
        states: list[tuple[int, int, int]] = []
        ticks, pods, row_states = [], [], []
        selector_of = np.where(seen < 0, -1, scale.selector[np.maximum(seen, 0)])
        member_of = [set(part.tolist()) for part in members]
        for p in self.pods.tolist():
            alive = self._alive(p, selector_of, member_of)
            if alive.size == 0:
                continue
            change_ms = self._changes_of(p)
            first_state = len(states)
            for ms in change_ms:
                states.append(self._state(p, ms))
                self.state_pod.append(p)
                self.state_ms.append(ms)
            at = np.searchsorted(change_ms, now_ms[alive], side="right") - 1
            ticks.append(alive)
            pods.append(np.full(alive.size, p, np.int64))
            row_states.append(first_state + np.maximum(at, 0))
        self._join(ticks, pods, row_states)
        self.states = records(POD_STATE, states)

    def _join(self, ticks: list[I64], pods: list[I64], row_states: list[I64]) -> None:
        """Put the pods' rows into the order of ticks; within a tick pods keep theirs."""
        none = np.zeros(0, np.int64)
        tick = np.concatenate([none, *ticks])
        order = np.argsort(tick, kind="stable")
        self.tick = tick[order]
        self.pod = np.concatenate([none, *pods])[order]
        self.row_state = np.concatenate([none, *row_states])[order]
        self.per_tick = np.bincount(self.tick, minlength=self.now_ms.size).astype(np.int64)

    def _alive(self, p: int, selector_of: I64, member_of: list[set[int]]) -> I64:
        """Return the ticks at which the pod is in the cache and matches the selector."""
        pods = self.recording.pods
        first = np.searchsorted(self.now_ms, pods.created_ms[p], side="left")
        last = np.searchsorted(self.now_ms, pods.gone_ms[p], side="left")
        alive = np.arange(first, last, dtype=np.int64)
        matching = [k for k, part in enumerate(member_of) if p in part]
        if len(matching) == len(member_of):
            return alive[selector_of[alive] >= 0]
        return alive[np.isin(selector_of[alive], matching)]

    def _changes_of(self, p: int) -> list[int]:
        """Return the times, ascending, at which anything about a pod changes."""
        recording, pods = self.recording, self.recording.pods
        times = {int(pods.created_ms[p]), int(pods.started_ms[p]), int(pods.deleted_ms[p])}
        first, last = int(recording.state_first[p]), int(recording.state_first[p + 1])
        times.update(recording.state_ms[first:last].tolist())
        times.update(self.lookup.change_times(p))
        return sorted(t for t in times if t < NEVER_MS)

    def _state(self, p: int, ms: int) -> tuple[int, int, int]:
        """Return (flags, start, last transition) of a pod since a change."""
        recording = self.recording
        pods = recording.pods
        first, last = int(recording.state_first[p]), int(recording.state_first[p + 1])
        started = int(pods.started_ms[p]) <= ms
        deleting = int(pods.deleted_ms[p]) <= ms
        # Before its first recorded state a pod is Pending, without a Ready condition.
        phase, ready, transition = "Pending", None, None
        if first < last:
            k = first + int(np.searchsorted(recording.state_ms[first:last], ms, "right")) - 1
            if k >= first:
                phase, ready, transition = recording.state_values[k]
        flags = pod_flags(phase, deleting, started, ready)
        return flags, int(pods.started_ms[p]) if started else 0, transition or 0

    def requests(self, key: StreamKey) -> Records:
        """Return the REQUEST records of the states for one stream."""
        if not key.resource:
            return records_from(REQUEST, len(self.state_pod), known=1)
        rows = [
            self.lookup.request(p, ms, key.resource, key.container)
            for p, ms in zip(self.state_pod, self.state_ms, strict=True)
        ]
        return records(REQUEST, rows)

    def samples(self, source: SampleColumns) -> tuple[I8, I64, Records, I8]:
        """Return (present, value, timing, listed) of every row.

        A sample that is listed but not present lacks the resource in a container; `listed` is
        LACKING where it is without the container itself.
        """
        index = np.full(self.tick.size, -1, np.int64)
        order = np.argsort(self.pod, kind="stable")
        pods, starts = np.unique(self.pod[order], return_index=True)
        ends = np.append(starts, order.size)[1:]
        for p, first, last in zip(pods.tolist(), starts.tolist(), ends.tolist(), strict=True):
            rows = order[first:last]
            now_ms = self.now_ms[self.tick[rows]]
            index[rows] = visible_samples(source, p, now_ms, self.max_age_ms)
        listed = index >= 0
        if not source.ts_ms.size:
            return (*self.no_samples(), listed.astype(np.int8))
        at = np.maximum(index, 0)
        present = ((source.present[at] > 0) & listed).astype(np.int8)
        value = np.where(present != 0, source.value_milli[at], 0)
        timing = records_from(
            TIMING, at.size, ts_ms=source.ts_ms[at], window_ms=source.window_ms[at]
        )
        lacking = listed & (source.present[at] == LACKING)
        return present, value, timing, np.where(lacking, LACKING, listed).astype(np.int8)

    def no_samples(self) -> tuple[I8, I64, Records]:
        """Return empty rows for a stream that has no pod samples."""
        n = self.tick.size
        return np.zeros(n, np.int8), np.zeros(n, np.int64), records_from(TIMING, n)
