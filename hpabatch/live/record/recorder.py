"""Recorder of a live loop, so that a replay of the recording decides the same.

What was known to a pass, and nothing else, has a time after the previous pass and not after its
own. Rows wait in memory and become a part of the store every few minutes; a kill loses those rows.
A recorder resumes from the state of the store at its end (`Resumed`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
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
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.catalog import FileEntry, Snapshot
from hpabatch.history.store.rows import DataFiles
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import Storage
from hpabatch.live.record.hpa_rows import HpaRows, Period, ScaleRow, ScaleRows, Target, add_period
from hpabatch.live.record.lives import Life, PodRows, Row, add_life
from hpabatch.live.record.sample_rows import Request, SampleRows
from hpabatch.live.record.segments import Segment, SegmentWriter, Upkeep, take_lease
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
_SCALE = ("namespace", "target_kind", "target")
_SCALE_ROW = ("spec_replicas", "status_replicas", "selector", "error")
_POD_COLUMNS = (
    "namespace", "pod", "target", "uid", "labels", "owner",
    "created", "started", "deletion_requested", "node",
)  # fmt: skip


@dataclass(slots=True)
class Resumed:
    """State of a cluster at the end of a store.

    Attributes:
        last_ms: time of the last record; 0: nothing was recorded.
        pass_ms: the last pass; 0: there is none.
        pods: rows of `pods` without an end.
        usage: by uid the `ts` of the last usage sample.
        periods: specs without an end.
        owners: of the HPAs that have one.
        samples: `ts` of the last sample of other metrics, by request and by uid or series ("" for
            an object's).
        floor_ms: upper bound of the `ts` of all other streams.
        scales: the last row of each target within the last days.
    """

    last_ms: int
    pass_ms: int
    pods: Sequence[Row]
    usage: dict[str, int]
    periods: list[Period]
    owners: dict[PodKey, str]
    samples: dict[Request, dict[str, int]]
    floor_ms: int
    scales: dict[Target, ScaleRow]


def resume(storage: Storage, snapshot: Snapshot, cluster: str) -> Resumed:
    """Read the state of a cluster at the end of a store.

    Raises:
        HistoryError: the store is damaged.
    """
    files = [file for file in snapshot.files if file.cluster == cluster]
    last_ms, newest = _last(files, _SEEN_TABLES), _last(files, tuple(_SAMPLE_KEYS))
    floor_ms = min(newest, last_ms or newest) - LOOK_BACK_MS if newest else 0
    data, history = DataFiles(storage), StoreHistory(storage, snapshot)
    samples: dict[Request, dict[str, int]] = {}
    for table, keys in _SAMPLE_KEYS.items():
        for *key, ts in _newest(data, files, table, keys, (), floor_ms).iter_rows():
            *request, one = key if table != "object_metrics" else (*key, "")
            samples.setdefault((table, *request), {})[one] = ts
    scales = _newest(data, files, "scales", _SCALE, _SCALE_ROW, last_ms - SCALES_BACK_MS)
    periods = _open_rows(history, cluster, "hpas", [f.name for f in fields(Period)], "valid_to")
    return Resumed(
        last_ms=last_ms,
        pass_ms=_last(files, ("passes",)),
        pods=_open_rows(history, cluster, "pods", _POD_COLUMNS, "gone"),
        usage=samples.pop(("pod_metrics",), {}),
        periods=[
            Period(
                **{
                    **row,
                    "labels": row["labels"] or "{}",
                    "annotations": row["annotations"] or "{}",
                }
            )
            for row in periods
        ],
        owners=_owners(history, cluster),
        samples=samples,
        floor_ms=floor_ms,
        scales={
            (row["namespace"], row["target_kind"], row["target"]): (
                row["spec_replicas"],
                row["status_replicas"],
                row["selector"] or "",
                row["error"],
            )
            for row in scales.iter_rows(named=True)
        },
    )


def _last(files: Sequence[FileEntry], tables: Sequence[str]) -> int:
    return max((f.last for f in files if f.table in tables and f.last is not None), default=0)


def _newest(
    data: DataFiles, files: Sequence[FileEntry], table: str, keys: Sequence[str],
    values: Sequence[str], floor_ms: int,
) -> pl.DataFrame:  # fmt: skip
    """Return keys, values and `ts` (ms) of each key's newest row from floor_ms on."""
    spec, floor = TABLES[table], pl.lit(floor_ms, dtype=pl.Int64).cast(TIME)
    columns = [*keys, *values, "ts"]
    found = pl.DataFrame(schema={name: spec.column(name).dtype for name in columns})
    for file in files:
        if file.table != table or file.last is None or file.last < floor_ms:
            continue
        rows = data.read(spec, [(file, [(0, file.rows)])], columns)[0]
        recent = [part.select(columns).filter(pl.col("ts") >= floor) for part in rows.parts]
        found = pl.concat([found, *recent]).sort("ts", maintain_order=True)
        found = found.unique(keys, keep="last", maintain_order=True)
    return found.with_columns(pl.col("ts").to_physical())


def _open_rows(
    history: StoreHistory, cluster: str, table: str, columns: Sequence[str], end: str
) -> Sequence[Row]:
    """Return the rows of a cluster that have no end yet."""
    if table not in history.files:
        return []
    names = ["cluster", *columns, end]
    rows = history.read(table, names, optional=True)
    rows = rows.filter((pl.col("cluster") == cluster) & pl.col(end).is_null()).select(columns)
    return rows.with_columns(cs.temporal().to_physical()).to_dicts()


def _owners(history: StoreHistory, cluster: str) -> dict[PodKey, str]:
    if "hpa_context" not in history.files:
        return {}
    rows = history.read("hpa_context", ["cluster", "namespace", "name", "ts", "owner"])
    rows = rows.filter(pl.col("cluster") == cluster).sort("ts", maintain_order=True)
    last = {(space, name): owner for _, space, name, _, owner in rows.iter_rows()}
    return {key: owner for key, owner in last.items() if owner}


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


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters of a recorder.

    Attributes:
        rows_waiting, bytes_waiting: in memory, not yet in the store.
        rows_lost: never written, for lack of memory; each gap has a row in `provenance`.
        rows_refused: refused by the registry, which is a bug.
        trouble: why nothing can be written now; "": no problem.
    """

    rows_waiting: int
    bytes_waiting: int
    rows_written: int
    parts_written: int
    rows_lost: int
    rows_refused: int
    trouble: str


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
        upkeep: Upkeep | None = None,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], int] = clock_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open or create a store, and read the state at its end.

        Args:
            location: a folder, or a URL such as s3://bucket/history.
            segment_s: time until rows become a part of the store.
            limit_bytes: memory for rows that cannot be written.
            say: is called with a message when a problem begins, changes or ends.
            clock: UTC ms, the clock of the passes.
            monotonic_s: for segments, seconds.

        Raises:
            HistoryError: the store is damaged.
            UsageError: it cannot be written, another recorder has it, its end is in the future, or
                the folder holds something else.
        """
        store = open_writer(location)
        lease = take_lease(store.storage, cluster)
        try:
            before = resume(store.storage, store.refresh(), cluster)
            if before.last_ms > clock() + _BEHIND_MS:
                raise UsageError(
                    f"{store.storage.location}: cluster {cluster} is recorded until "
                    f"{show_instant(before.last_ms // 1000 * 1000)}, which is in the future by the "
                    "clock here: correct the clock, or record to another place"
                )
        except BaseException:
            lease.release()
            raise
        self.cluster = cluster
        self._segment_s, self._limit, self._say = segment_s, limit_bytes, say
        self._clock_s = monotonic_s
        self._before = before
        self.resumed_ms = before.pass_ms
        self._now_ms = before.last_ms
        self._began = self._complete = self._closed = False
        self._pods = PodRows(before.pods, before.usage, before.floor_ms)
        self._hpas = HpaRows(before.periods, before.owners)
        self._scales = ScaleRows(before.scales)
        self._samples = SampleRows(before.floor_ms)
        self._samples.resumed = before.samples
        self._segment = Segment(cluster)
        self._opened_s = monotonic_s()
        self._kept: Segment | None = None
        self._gap_ms = self._lost = self._lost_here = 0
        self._gap_why, self._in_trouble = "", False
        self._refused_said = 0
        self._writer = SegmentWriter(store, lease, upkeep or Upkeep(), monotonic_s)

    # ---- what is recorded

    def apply(self, changes: Sequence[Change]) -> None:
        """Record the cut changes of a pass, in order."""
        earliest_ms = self._now_ms + 1
        if changes:
            self._begin(max(min(change.seen_ms for change in changes), earliest_ms))
        for change in changes:
            at_ms = max(change.seen_ms, earliest_ms)
            if change.kind is Kind.pod:
                self._apply_pod(change, at_ms, earliest_ms)
            elif change.kind is Kind.hpa:
                self._apply_hpa(change, at_ms)
            else:
                assert isinstance(change.key, ScaleKey)
                assert change.thing is None or isinstance(change.thing, ScaleObject)
                self._scales.put(change.key, change.thing, at_ms, self._segment)

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
        earliest_ms = self._now_ms + 1
        within = (min(earliest_ms, now_ms), now_ms)
        self._samples.add(responses, self._pods.lives, within, self._segment)
        self._hpas.outcomes(outcomes, now_ms, within[0], self._segment)

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
        """
        self._begin(now_ms)
        if not self._complete:  # end objects that vanished before the recording, once
            self._pods.close_stored(now_ms, self._segment)
            self._hpas.close_stored(now_ms, self._segment)
            self._complete = True
        if now_ms > self._now_ms:
            self._segment.table("passes").add(
                ts=now_ms, start=started, k8s=k8s, hpas=hpas, duration_ms=duration_ms
            )
        self._now_ms = max(self._now_ms, now_ms)
        # Rows are dropped from where they cannot be written on, until they can be again.
        if self._kept is not None:
            self._lost_here += self._segment.rows
            self._segment = Segment(self.cluster)
            if self._writer.pending_bytes <= self._limit // 2:
                self._end_gap(self._now_ms + 1)
        elif self._writer.pending_bytes + self._segment.bytes > self._limit:
            self._hand_over()
            self._kept, self._gap_ms, self._lost_here = Segment(self.cluster), self._now_ms + 1, 0
            self._gap_why = self._writer.trouble or "they come faster than they are written"
            self._say(f"recording: rows are dropped from now on: {self._gap_why}")
        self.tick()

    def controller(
        self,
        now_ms: int,
        event: str = "observed",
        version: str | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> None:
        """Record facts about the cluster's own controller; `event` is start or observed."""
        text = None if flags is None else json.dumps(flags, separators=(",", ":"), sort_keys=True)
        self._segment.table("controller").add(ts=now_ms, event=event, version=version, flags=text)

    # ---- segments

    def tick(self) -> None:
        """Hand over the segment when it is due, and report changes."""
        full = self._segment.bytes > self._limit // _EARLY_SHARE
        if full or self._clock_s() - self._opened_s >= self._segment_s:
            self._hand_over()
        self._say_changes()

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Write everything and end; False: something was not written in that time."""
        if self._closed:
            return True
        self._closed = True
        if self._kept is not None:
            self._end_gap(self._now_ms + 1)
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
        writer = self._writer
        return Figures(
            rows_waiting=self._segment.rows,
            bytes_waiting=self._segment.bytes + writer.pending_bytes,
            rows_written=writer.rows,
            parts_written=writer.parts,
            rows_lost=self._lost + self._lost_here,
            rows_refused=writer.refused,
            trouble=writer.trouble,
        )

    # ---- within

    def _apply_pod(self, change: Change, at_ms: int, earliest_ms: int) -> None:
        if change.thing is None:
            assert not isinstance(change.key, ScaleKey)
            ended = self._pods.remove(change.key, at_ms, self._segment)
            self._keep_end(ended, at_ms)
            return
        assert isinstance(change.thing, PodObject)
        # The beginning of a watched pod was seen; a listed pod may be older, but earlier passes did
        # not know it.
        since = earliest_ms if change.listed else at_ms
        for life in self._pods.put(change.thing, at_ms, since, self._segment):
            self._keep_end(life, at_ms)

    def _apply_hpa(self, change: Change, at_ms: int) -> None:
        if change.thing is None:
            assert not isinstance(change.key, ScaleKey)
            ended = self._hpas.remove(change.key, at_ms, self._segment)
        else:
            assert isinstance(change.thing, HpaObject)
            ended = self._hpas.put(change.thing, at_ms, self._segment)
        if ended is not None and self._kept is not None and ended.valid_from < self._gap_ms:
            add_period(ended, max(at_ms, ended.valid_from + 1), self._kept)

    def _keep_end(self, ended: Life | None, at_ms: int) -> None:
        """While rows are lost: keep the end of a pod whose beginning was written."""
        if ended is not None and self._kept is not None and ended.began_ms < self._gap_ms:
            add_life(ended, at_ms, self._kept)

    def _begin(self, at_ms: int) -> None:
        """Write, once, when the recording begins, and the gap before it."""
        if self._began:
            return
        self._began = True
        if self._before.pass_ms and at_ms > self._before.pass_ms + 1:
            why = "nothing was recorded: no recorder ran"
            self._tell(("passes",), self._before.pass_ms + 1, at_ms, ABSENT, why)
        self._tell(SUBJECTS, at_ms, None, RECORDER, None)

    def _tell(
        self, subjects: Sequence[str], from_ms: int, to_ms: int | None, method: str, why: str | None
    ) -> None:
        for subject in subjects:
            self._segment.table("provenance").add(
                namespace="", name="", subject=subject, valid_from=from_ms, valid_to=to_ms,
                method=method, detail=why,
            )  # fmt: skip

    def _hand_over(self) -> None:
        self._opened_s = self._clock_s()
        if self._segment.rows and self._kept is None:
            self._writer.submit(self._segment)
            self._segment = Segment(self.cluster)

    def _end_gap(self, at_ms: int) -> None:
        """Write the state of everything, and the gap before it."""
        assert self._kept is not None
        self._lost_here += self._segment.rows
        self._segment, self._kept = self._kept, None
        why = f"lost {counted(self._lost_here, 'row')}: {self._gap_why}"
        self._lost, self._lost_here = self._lost + self._lost_here, 0
        self._tell(("passes",), self._gap_ms, max(at_ms, self._gap_ms + 1), ABSENT, why)
        self._say(f"recording: rows are kept again; {why}")
        self._pods.write_all(at_ms, self._segment)
        self._scales.write_all(at_ms, self._segment)
        self._hpas.write_all(at_ms, self._segment)
        self._samples.lose(self._pods.lives)

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
