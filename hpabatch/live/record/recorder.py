"""Records what the live loop saw and decided on, so that a replay of it decides the same.

What was known to a pass, and nothing else, has an instant after the pass before and not after its
own. Rows wait in memory and become a part of the store every few minutes; a kill loses what waits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpabatch.cluster.objects.inbox import clock_ms
from hpabatch.cluster.objects.types import (
    Answers,
    Change,
    HpaObject,
    Kind,
    PodKey,
    PodObject,
    ScaleKey,
    ScaleObject,
)
from hpabatch.errors import UsageError
from hpabatch.history.provenance import ABSENT, RECORDER
from hpabatch.history.store.append import open_writer
from hpabatch.live.passes.rows import Outcome
from hpabatch.live.record.hpa_rows import HpaRows, add_period
from hpabatch.live.record.lease import take_lease
from hpabatch.live.record.lives import Life, PodRows, add_life
from hpabatch.live.record.resume import resume
from hpabatch.live.record.sample_rows import SampleRows
from hpabatch.live.record.scale_rows import ScaleRows
from hpabatch.live.record.segments import Segment, SegmentWriter, Upkeep
from hpabatch.model.times import show_instant

SUBJECTS: Final = (
    "pod_metrics",
    "pod_custom_metrics",
    "object_metrics",
    "external_metrics",
    "scales",
    "pods",
    "hpas",
)
"""What `provenance` says that a recorder saw."""

SEGMENT_S: Final = 300.0
LIMIT_BYTES: Final = 256 << 20
_EARLY_SHARE = 8
"""A segment of that part of the limit does not wait for its time."""

_BEHIND_MS = 60_000
_CLOSE_S = 60.0
_HOPELESS_S = 5.0
"""At the end, where nothing could be written before; a pod is given 30 s."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a recorder has done so far.

    Attributes:
        rows_waiting, bytes_waiting: in memory, not yet in the store.
        rows_written, parts_written: in the store.
        rows_lost: never written, for want of room; each gap is told in `provenance`.
        rows_refused: that the registry refused, which is a fault of ours.
        values_bent: that no table can hold, and were written as the nearest that one can.
        strays: samples of unknown pods in the last pass.
        trouble: why nothing can be written just now; "": all is well.
    """

    rows_waiting: int
    bytes_waiting: int
    rows_written: int
    parts_written: int
    rows_lost: int
    rows_refused: int
    values_bent: int
    strays: int
    trouble: str


class Recorder:
    """Writes a cluster's history while a loop decides. All calls come from one thread.

    In each pass: `apply` what was cut, `observe` the answers, then `pass_done`. The first pass must
    know all of the cluster: what the store takes for living and it does not show, has ended.

    Attributes:
        resumed_ms: the store's last pass of before, 0 if there was none.
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
        """Open a store, which is made if there is none, and read how it ends.

        Args:
            location: a folder, or a URL such as s3://bucket/history.
            cluster: under which name to record.
            segment_s: how often rows become a part of the store.
            limit_bytes: so many rows are kept while they cannot be written.
            upkeep: when to compact.
            say: told, once each time it changes, that something is wrong, or right again.
            clock: UTC ms, the one that the passes are on.
            monotonic_s: for segments, seconds.

        Raises:
            HistoryError: the store is damaged.
            UsageError: it cannot be written, another recorder has it, it is of later than now, or
                there is something else in that folder.
        """
        store = open_writer(location)
        lease = take_lease(store.storage, cluster)
        try:
            before = resume(store.storage, store.refresh(), cluster)
            if before.last_ms > clock() + _BEHIND_MS:
                raise UsageError(
                    f"{store.storage.location}: cluster {cluster} is recorded until "
                    f"{show_instant(before.last_ms // 1000 * 1000)}, which by the clock here is "
                    "yet to come: correct the clock, or record to another place"
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
        self._pods = PodRows(before.lives, before.floor_ms)
        self._hpas = HpaRows(before.periods)
        self._scales = ScaleRows(before.scales)
        self._samples = SampleRows(before.floor_ms)
        self._samples.resumed_pods = before.pods
        self._samples.resumed_series = before.series
        self._segment = Segment(cluster)
        self._opened_s = monotonic_s()
        self._kept: Segment | None = None
        self._gap_ms = self._lost = self._lost_here = 0
        self._gap_why, self._in_trouble = "", False
        self._refused_said = 0
        self._writer = SegmentWriter(store, lease, upkeep or Upkeep(), monotonic_s)

    # ---- what is recorded

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in what was cut for a pass, in order."""
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
        answers: Answers,
        outcomes: Mapping[PodKey, Sequence[Outcome]],
    ) -> None:
        """Take in the answers of a pass.

        Args:
            now_ms: its instant.
            answers: all that was fetched for it.
            outcomes: for each HPA that was decided, what every metric of its spec got, in order.
        """
        self._begin(now_ms)
        earliest_ms = self._now_ms + 1
        within = (min(earliest_ms, now_ms), now_ms)
        self._samples.add(answers, self._pods.lives, within, self._segment)
        self._hpas.outcomes(outcomes, now_ms, within[0], self._segment)

    def pass_done(
        self,
        now_ms: int,
        started: bool = False,
        hpas: int | None = None,
        duration_ms: int | None = None,
        k8s: str | None = None,
    ) -> None:
        """Note that everything was decided at an instant; what is applied from now on is later.

        Args:
            now_ms: the instant.
            started: it was decided with empty memory.
            hpas: how many.
            duration_ms: how long it took.
            k8s: the version whose rules were used.
        """
        self._begin(now_ms)
        if not self._complete:
            self._close_stored(now_ms)
        if now_ms > self._now_ms:
            self._segment.table("passes").add(now_ms, started, k8s, hpas, duration_ms)
        self._now_ms = max(self._now_ms, now_ms)
        self._keep_bounds()
        self.tick()

    def controller(
        self,
        now_ms: int,
        event: str = "observed",
        version: str | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> None:
        """Note what is known of the cluster's own controller; `event` is start or observed."""
        text = None if flags is None else json.dumps(flags, separators=(",", ":"), sort_keys=True)
        self._segment.table("controller").add(now_ms, event, version, text)

    # ---- segments

    def tick(self) -> None:
        """Let a segment become a part if it is time, and say what has changed."""
        full = self._segment.bytes > self._limit // _EARLY_SHARE
        if full or self._clock_s() - self._opened_s >= self._segment_s:
            self._hand_over()
        self._say_changes()

    def flush(self, timeout_s: float = _CLOSE_S) -> bool:
        """Write everything now and wait for it; False: not done in that time."""
        self._hand_over()
        done = self._writer.drain(timeout_s)
        self._say_changes()
        return done

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
        """What was done so far."""
        writer = self._writer
        return Figures(
            rows_waiting=self._segment.rows,
            bytes_waiting=self._segment.bytes + writer.pending_bytes,
            rows_written=writer.rows,
            parts_written=writer.parts,
            rows_lost=self._lost + self._lost_here,
            rows_refused=writer.refused,
            values_bent=self._samples.bent,
            strays=self._samples.strays,
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
        # Of what a watch tells the beginning was seen; a list may tell of what is older, which was
        # not there for any pass before.
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
        if ended is not None and self._kept is not None and ended.from_ms < self._gap_ms:
            add_period(ended, max(at_ms, ended.from_ms + 1), self._kept)

    def _keep_end(self, ended: Life | None, at_ms: int) -> None:
        """While rows are lost: keep that of a pod's end whose beginning was written."""
        if ended is not None and self._kept is not None and ended.began_ms < self._gap_ms:
            add_life(ended, at_ms, self._kept)

    def _begin(self, at_ms: int) -> None:
        """Say, once, from when on a recorder saw what there was, and when nobody did."""
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
            self._segment.table("provenance").add("", "", subject, from_ms, to_ms, method, why)

    def _close_stored(self, now_ms: int) -> None:
        """End what vanished while nobody looked; once, at the first pass."""
        self._pods.close_stored(now_ms, self._segment)
        self._hpas.close_stored(now_ms, self._segment)
        self._complete = True

    def _hand_over(self) -> None:
        self._opened_s = self._clock_s()
        if self._segment.rows and self._kept is None:
            self._writer.submit(self._segment)
            self._segment = Segment(self.cluster)

    def _keep_bounds(self) -> None:
        """Begin to lose rows where they cannot be written, and cease where they can be again."""
        if self._kept is not None:
            self._lost_here += self._segment.rows
            self._segment = Segment(self.cluster)
            if self._writer.pending_bytes <= self._limit // 2:
                self._end_gap(self._now_ms + 1)
        elif self._writer.pending_bytes + self._segment.bytes > self._limit:
            self._hand_over()
            self._kept, self._gap_ms, self._lost_here = Segment(self.cluster), self._now_ms + 1, 0
            self._gap_why = self._writer.trouble or "they come faster than they are written"
            self._say(
                f"recording: no more rows are kept, from now on they are lost: {self._gap_why}"
            )

    def _end_gap(self, at_ms: int) -> None:
        """Write how everything is now, and that there is a gap before."""
        assert self._kept is not None
        self._lost_here += self._segment.rows
        self._segment, self._kept = self._kept, None
        why = f"{self._lost_here} rows were lost: {self._gap_why}"
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
            # A text may name another file each time: what counts is whether there is one.
            self._in_trouble = bool(trouble)
            if trouble:
                self._say(f"recording: rows wait, they cannot be written: {trouble}")
            else:
                self._say("recording: rows are written again")
        if writer.refused > self._refused_said:
            count = writer.refused - self._refused_said
            self._say(f"recording: {count} rows were refused and left out: {writer.refusal}")
            self._refused_said = writer.refused
