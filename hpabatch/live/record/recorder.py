"""Recorder of a live loop, so that a replay of the recording decides the same.

What was known to a pass, and nothing else, has a time after the previous pass and not after its
own. Rows wait in memory and become a part of the store every few minutes; a kill loses those rows.
A recorder resumes from the state of the store at its end (`Stored`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import polars.selectors as cs

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import (
    Change,
    HpaObject,
    Kind,
    PodKey,
    PodObject,
    Responses,
    ScaleKey,
    ScaleObject,
    clock_ms,
)
from hpabatch.errors import UsageError
from hpabatch.history.columns import TIME
from hpabatch.history.provenance import ABSENT, RECORDER
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.shards import StoreHistory
from hpabatch.live.record.objects import Hpas, Pods, Scales, Target
from hpabatch.live.record.rows import Row, Rows, Values
from hpabatch.live.record.samples import Request, Samples
from hpabatch.live.record.segments import COMPACT_EVERY_S, SegmentWriter, take_lease
from hpabatch.model.printable import counted
from hpabatch.model.times import show_instant

LOOK_BACK_MS: Final = 7_200_000
"""Period before the last samples that is read for the last `ts` of each stream."""

SCALES_BACK_MS: Final = 7 * 86_400_000
"""Period before the end that is read for the last row of each scale."""

_SEEN_TABLES = ("pod_states", "scales", "hpa_status", "metric_fetches", "passes")
_SAMPLE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "pod_metrics": ("uid",),
    "pod_custom_metrics": ("namespace", "metric", "selector", "uid"),
    "object_metrics": ("namespace", "kind", "name", "metric", "selector"),
    "external_metrics": ("namespace", "metric", "selector", "series"),
}

SUBJECTS: Final = (
    "pod_metrics",
    "pod_custom_metrics",
    "object_metrics",
    "external_metrics",
    "scales",
    "pods",
    "hpas",
)
"""Subjects of a recorder's rows in `provenance`."""

SEGMENT_S: Final = 300.0
LIMIT_BYTES: Final = 256 << 20
_EARLY_SHARE = 8
"""A segment above this fraction of the limit is written before its time."""

_BEHIND_MS = 60_000
_CLOSE_S = 60.0
_HOPELESS_S = 5.0
"""Time limit at the end if nothing could be written before; a pod gets 30 s."""


class Stored:
    """State of a cluster at the end of a store (HistoryError: the store is damaged).

    Attributes:
        last_ms: time of the last record; 0: nothing was recorded.
        pass_ms: the last pass; 0: there is none.
    """

    def __init__(self, store: StoreWriter, cluster: str) -> None:
        snapshot = store.refresh()
        self._history = StoreHistory(store.storage, snapshot)
        self._cluster = cluster
        self._files = [file for file in snapshot.files if file.cluster == cluster]
        self.last_ms, self.pass_ms = self._last(*_SEEN_TABLES), self._last("passes")

    def samples(self) -> tuple[dict[Request, dict[str, int]], int]:
        """Return the last `ts` of each stream, and an upper bound of those of all others.

        By request, and by uid or series ("" for an object's).
        """
        newest = self._last(*_SAMPLE_KEYS)
        floor_ms = min(newest, self.last_ms or newest) - LOOK_BACK_MS if newest else 0
        found: dict[Request, dict[str, int]] = {}
        for table, keys in _SAMPLE_KEYS.items():
            for *key, ts in self._newest(table, keys, (), floor_ms).iter_rows():
                *request, one = key if table != "object_metrics" else (*key, "")
                found.setdefault((table, *request), {})[one] = ts
        return found, floor_ms

    def scales(self) -> dict[Target, Values]:
        """Return the last row of each target within the last days."""
        keys = ("namespace", "target_kind", "target")
        values = ("spec_replicas", "status_replicas", "selector", "error")
        rows = self._newest("scales", keys, values, self.last_ms - SCALES_BACK_MS)
        rows = rows.with_columns(pl.col("selector").fill_null(""))
        return {row[:3]: row[3:-1] for row in rows.iter_rows()}

    def open_rows(self, table: str, end: str) -> Sequence[Row]:
        """Return the rows of a table that have no end yet."""
        rows = self._read(table, TABLES[table].names).filter(pl.col(end).is_null())
        return rows.drop("cluster", end).with_columns(cs.temporal().to_physical()).to_dicts()

    def owners(self) -> dict[PodKey, str]:
        """Return the owners of the HPAs that have one."""
        rows = self._read("hpa_context", ("cluster", "namespace", "name", "ts", "owner"))
        last = rows.sort("ts", maintain_order=True).unique(
            ["namespace", "name"], keep="last", maintain_order=True
        )
        return {row[1:3]: row[4] for row in last.iter_rows() if row[4]}

    def _read(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        rows = self._history.read(table, columns, optional=True)
        return rows.filter(pl.col("cluster") == self._cluster)

    def _last(self, *tables: str) -> int:
        times = [f.last for f in self._files if f.table in tables and f.last is not None]
        return max(times, default=0)

    def _newest(
        self, table: str, keys: Sequence[str], values: Sequence[str], floor_ms: int
    ) -> pl.DataFrame:
        """Return keys, values and `ts` (ms) of each key's newest row from floor_ms on."""
        spec, floor = TABLES[table], pl.lit(floor_ms, dtype=pl.Int64).cast(TIME)
        columns = [*keys, *values, "ts"]
        found = pl.DataFrame(schema={name: spec.column(name).dtype for name in columns})
        for file in self._files:
            if file.table != table or file.last is None or file.last < floor_ms:
                continue
            rows = self._history.data_files.read(spec, [(file, [(0, file.rows)])], columns)[0]
            recent = [part.select(columns).filter(pl.col("ts") >= floor) for part in rows.parts]
            found = pl.concat([found, *recent]).sort("ts", maintain_order=True)
            found = found.unique(keys, keep="last", maintain_order=True)
        return found.with_columns(pl.col("ts").to_physical())


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters of a recorder.

    Attributes:
        rows_waiting, bytes_waiting: in memory, not yet in the store.
        rows_refused: refused by the registry, which is a bug.
        trouble: why nothing can be written now; "": no problem.
    """

    rows_waiting: int
    bytes_waiting: int
    rows_written: int
    parts_written: int
    rows_refused: int
    trouble: str


class FullError(UsageError):
    """There is no memory for more rows that cannot be written."""


class Recorder:
    """Writes a cluster's history while a loop decides. All calls come from one thread.

    In each pass: `apply` the cut changes, `observe` the responses, then `pass_done`. The first pass
    must know the whole cluster: objects that only the store has then have ended.

    Attributes:
        resumed_ms: the store's last pass before this recorder, 0 if there was none.
    """

    def __init__(
        self,
        location: Path | str,
        cluster: str,
        *,
        segment_s: float = SEGMENT_S,
        limit_bytes: int = LIMIT_BYTES,
        compact_every_s: float = COMPACT_EVERY_S,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], int] = clock_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open or create a store, and read the state at its end.

        Args:
            location: a folder, or a URL such as s3://bucket/history.
            segment_s: time until rows become a part of the store.
            limit_bytes: memory for rows that cannot be written.
            compact_every_s: between two compactions of the store; 0: never.
            say: is called with a message when a problem begins, changes or ends.
            clock: UTC ms, the clock of the passes.
            monotonic_s: for segments, seconds.

        Raises:
            HistoryError: the store is damaged.
            UsageError: it cannot be written, another recorder has it, its end is in the future, or
                the folder holds something else.
        """
        self._rows = Rows(cluster)
        self._segment_s, self._limit, self._say = segment_s, limit_bytes, say
        self._clock_s, self._opened_s = monotonic_s, monotonic_s()
        self._began = self._complete = self._closed = self._in_trouble = False
        self._refused_said = 0
        store = open_writer(location)
        lease = take_lease(store.storage, cluster)
        try:
            self._resume(Stored(store, cluster), store, clock)
        except BaseException:
            lease.release()
            raise
        self._writer = SegmentWriter(store, lease, compact_every_s, monotonic_s)

    def _resume(self, stored: Stored, store: StoreWriter, clock: Callable[[], int]) -> None:
        if stored.last_ms > clock() + _BEHIND_MS:
            raise UsageError(
                f"{store.storage.location}: cluster {self._rows.cluster} is recorded until "
                f"{show_instant(stored.last_ms // 1000 * 1000)}, which is in the future by the "
                "clock here: correct the clock, or record to another place"
            )
        self.resumed_ms, self._now_ms = stored.pass_ms, stored.last_ms
        samples, floor_ms = stored.samples()
        usage = samples.pop(("pod_metrics",), {})
        self._pods = Pods(self._rows, stored.open_rows("pods", "gone"), usage, floor_ms)
        specs = [
            {**row, "labels": row["labels"] or "{}", "annotations": row["annotations"] or "{}"}
            for row in stored.open_rows("hpas", "valid_to")
        ]
        self._hpas = Hpas(self._rows, specs, stored.owners())
        self._scales = Scales(self._rows, stored.scales())
        self._samples = Samples(self._rows, self._pods, floor_ms, samples)

    # ---- what is recorded

    def apply(self, changes: Sequence[Change]) -> None:
        """Record the cut changes of a pass, in order."""
        earliest_ms = self._now_ms + 1
        if changes:
            self._begin(max(min(change.seen_ms for change in changes), earliest_ms))
        for change in changes:
            at_ms, key, thing = max(change.seen_ms, earliest_ms), change.key, change.thing
            if isinstance(key, ScaleKey):
                assert thing is None or isinstance(thing, ScaleObject)
                self._scales.put(key, thing, at_ms)
            elif isinstance(thing, PodObject):
                # The beginning of a watched pod was seen; a listed pod may be older, but earlier
                # passes did not know it.
                self._pods.put(thing, at_ms, earliest_ms if change.listed else at_ms)
            elif isinstance(thing, HpaObject):
                self._hpas.put(thing, at_ms)
            else:
                ended = self._pods if change.kind is Kind.pod else self._hpas
                ended.remove(key, at_ms)

    def observe(
        self,
        now_ms: int,
        responses: Responses,
        outcomes: Mapping[PodKey, Sequence[Outcome]],
    ) -> None:
        """Record the responses of a pass.

        Args:
            outcomes: the outcome of every metric of each decided HPA, in the order of the spec.
        """
        self._begin(now_ms)
        within = (min(self._now_ms + 1, now_ms), now_ms)
        self._samples.add(responses, within)
        self._hpas.outcomes(outcomes, now_ms, within[0])

    def pass_done(
        self,
        now_ms: int,
        started: bool = False,
        hpas: int | None = None,
        duration_ms: int | None = None,
        k8s: str | None = None,
    ) -> None:
        """Record a finished pass; later changes belong to later passes.

        Args:
            started: it began with empty controller memory.

        Raises:
            FullError: rows cannot be written, and memory for them is used up. A recorder that is
                started later notes the gap.
        """
        self._begin(now_ms)
        if not self._complete:  # end objects that vanished before the recording, once
            self._pods.close_unseen(now_ms)
            self._hpas.close_unseen(now_ms)
            self._complete = True
        if now_ms > self._now_ms:
            self._rows.segment.table("passes").add(
                ts=now_ms, start=started, k8s=k8s, hpas=hpas, duration_ms=duration_ms
            )
        self._now_ms = max(self._now_ms, now_ms)
        self.tick()
        waiting = self._writer.pending_bytes + self._rows.segment.bytes
        if waiting > self._limit:
            why = self._writer.trouble or "they come faster than they are written"
            raise FullError(
                f"recording: expected at most {self._limit >> 20} MiB of rows that wait, got "
                f"{waiting >> 20}: {why}; correct that, and start the recording again"
            )

    def controller(
        self,
        now_ms: int,
        event: str = "observed",
        version: str | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> None:
        """Record facts about the cluster's own controller; `event` is start or observed."""
        text = None if flags is None else json.dumps(flags, separators=(",", ":"), sort_keys=True)
        table = self._rows.segment.table("controller")
        table.add(ts=now_ms, event=event, version=version, flags=text)

    # ---- segments

    def tick(self) -> None:
        """Hand over the segment when it is due, and report changes."""
        full = self._rows.segment.bytes > self._limit // _EARLY_SHARE
        if full or self._clock_s() - self._opened_s >= self._segment_s:
            self._hand_over()
        self._say_changes()

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Write everything and end; False: something was not written in that time."""
        if self._closed:
            return True
        self._closed = True
        self._hand_over()
        waiting = self._writer.pending_bytes
        done = self._writer.close(min(timeout_s, _HOPELESS_S) if self._in_trouble else timeout_s)
        self._say_changes()
        if not done and waiting:
            self._say(f"recording: rows were not written before the end: {self._writer.trouble}")
        return done

    @property
    def figures(self) -> Figures:
        """The counters so far."""
        writer, segment = self._writer, self._rows.segment
        return Figures(
            rows_waiting=segment.rows,
            bytes_waiting=segment.bytes + writer.pending_bytes,
            rows_written=writer.rows,
            parts_written=writer.parts,
            rows_refused=writer.refused,
            trouble=writer.trouble,
        )

    # ---- within

    def _begin(self, at_ms: int) -> None:
        """Write, once, when the recording begins, and the gap before it."""
        if self._began:
            return
        self._began = True
        if self.resumed_ms and at_ms > self.resumed_ms + 1:
            why = "nothing was recorded: no recorder ran"
            self._tell("passes", self.resumed_ms + 1, at_ms, ABSENT, why)
        for subject in SUBJECTS:
            self._tell(subject, at_ms, None, RECORDER, None)

    def _tell(
        self, subject: str, from_ms: int, to_ms: int | None, method: str, why: str | None
    ) -> None:
        self._rows.segment.table("provenance").add(
            namespace="", name="", subject=subject, valid_from=from_ms, valid_to=to_ms,
            method=method, detail=why,
        )  # fmt: skip

    def _hand_over(self) -> None:
        self._opened_s = self._clock_s()
        if self._rows.segment.rows:
            self._writer.submit(self._rows.take())

    def _say_changes(self) -> None:
        trouble, writer = self._writer.trouble, self._writer
        if bool(trouble) != self._in_trouble:
            # The message may name another file each time: only its presence counts.
            self._in_trouble = bool(trouble)
            if trouble:
                self._say(f"recording: rows wait, they cannot be written: {trouble}")
            else:
                self._say("recording: rows are written again")
        if writer.refused > self._refused_said:
            count = writer.refused - self._refused_said
            self._say(f"recording: {counted(count, 'row')} refused and left out: {writer.refusal}")
            self._refused_said = writer.refused
