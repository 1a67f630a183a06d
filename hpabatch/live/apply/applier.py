"""Writes of a pass: which decisions are carried out, and what becomes of the others.

The decisions are those of every pass (`passes.decide`). A write that fails, or has to wait for a
limit of the pass, is decided once more as one that fails: the rule for that exists once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hpabatch.cluster.apis.scales import target_key
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.connection.writes import WriteClient
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.layout import codes
from hpabatch.live.apply.cluster_hpas import ClusterHpas, OwnDocuments
from hpabatch.live.apply.gate import Gate
from hpabatch.live.apply.guards import (
    Change,
    Limits,
    Queue,
    Vanished,
    is_canary,
    lease_refusal,
    switch_refusal,
)
from hpabatch.live.apply.hindrance import Hindrance
from hpabatch.live.apply.journal import Journal, Waits, outcomes
from hpabatch.live.apply.lease import Election
from hpabatch.live.apply.ledger import Entry, Ledger, kept_ms
from hpabatch.live.apply.origins import Origins
from hpabatch.live.apply.reports import Reports
from hpabatch.live.apply.rivals import PROBE, OwnStatuses, Probe, Silence
from hpabatch.live.apply.scales import ANNOTATION, ScaleWriter, Written, is_off
from hpabatch.live.apply.statuses import StatusSink
from hpabatch.live.apply.stored_status import as_stored_status, differ
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import ForeignChange, Lane, LaneKey
from hpabatch.live.passes.result import PassResult

_WORKERS: Final = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """What an applier works with.

    Attributes:
        client: of the switch, and of all writes that a dry run stores too.
        namespace: hpabatch's own.
        scales: writes sizes.
        gate: of the writes of a pass.
        statuses: writes statuses and events; None in a dry run.
        election: who writes.
        journal: the log of writes.
        ledger: the changes, for instances that start later.
        silence: of other controllers; None with manifests.
        probe: None with manifests.
        documents: the site, with manifests; None with HPAs of the cluster.
        hpas: of the cluster: while they are not known, nothing is written.
        limits: of a pass.
        dry_run: the server stores no size.
    """

    client: WriteClient
    namespace: str
    scales: ScaleWriter
    gate: Gate
    statuses: StatusSink | None
    election: Election
    journal: Journal
    ledger: Ledger
    silence: Silence | None
    probe: Probe | None
    documents: OwnDocuments | None
    hpas: ClusterHpas
    limits: Limits
    dry_run: bool = False


@dataclass(slots=True)
class Figures:
    """Counters since the start; `leads`: this process may write now, and not as a dry run."""

    leads: bool = False
    written: int = 0
    failed: int = 0
    held: int = 0
    foreign: int = 0


class Applier:
    """Carries out decisions. The loop's thread calls it."""

    def __init__(
        self, parts: Parts, decider: Decider, say: Callable[[str, str], None] = lambda a, t: None
    ) -> None:
        """Prepare; nothing is sent before `start`.

        Args:
            parts: what it works with.
            decider: of the loop.
            say: gets subject and text of notes.
        """
        self.figures = Figures()
        self._parts, self._decider, self._say = parts, decider, say
        self._queue, self._vanished = Queue(parts.limits), Vanished(parts.limits.most_vanished_pct)
        self._own = OwnStatuses()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="write")
        self._refusals: dict[str, str] = {}
        self._barred: dict[LaneKey, str] = {}
        self._void: set[int] = set()  # lanes whose size is another than was decided on
        self._may, self._waits = False, Waits()
        self._why: str | None = None
        self._began_s = 0.0
        self._hindrance = Hindrance(parts.journal, parts.gate.period_s)
        parts.election.hindrance = self._hindrance
        self._count = self._term = 0
        decider.lanes.attributed = not parts.dry_run
        decider.owns = parts.documents is not None
        self._origins = Origins(
            parts.ledger, decider, self._tell_foreign, reads_status=parts.documents is None
        )

    def start(self) -> None:
        """Begin to apply for the lease."""
        self._parts.journal.add([{"event": "start", "text": "begins without writing"}])
        self._parts.election.start()
        if self._parts.statuses is not None:
            self._parts.statuses.start()

    def stop(self) -> None:
        """End: what waits is written, then the lease is released."""
        self._pool.shutdown()
        if self._parts.statuses is not None:
            self._parts.statuses.stop()
        self._parts.election.stop()
        self._parts.journal.add([{"event": "stop", "text": "ended"}])
        self._parts.journal.close()

    def problems(self) -> dict[str, str]:
        """Return why nothing is written, or a part of it is not, by subject.

        That another instance has the lease is no problem.
        """
        found = {about: text for about, text in self._refusals.items() if about != "lease"}
        statuses = self._parts.statuses
        if statuses is not None and statuses.problem:
            found["statuses"] = statuses.problem
        if self._parts.journal.problem:
            found["log"] = f"nothing is written: {self._parts.journal.problem}"
        if self._parts.election.problem:
            found["lease"] = self._parts.election.problem
        return found | {f"{n}/{name}": text for (n, name), text in self._barred.items()}

    # ---- before the decision

    def begin(self) -> None:
        """Find out who may write in the coming pass. Changes were taken in just before."""
        self._began_s = time.monotonic()
        parts, lanes = self._parts, self._decider.lanes
        leads = parts.election.leads
        refusals = {"ledger": self._origins.settle(leads and self._term == parts.election.term)}
        self._begin_term(leads)
        refusals["switch"] = switch_refusal(parts.client, parts.namespace)
        refusals["rivals"] = self._look_for_rivals(leads, leads and not refusals["switch"])
        if not leads:
            refusals["lease"] = lease_refusal(parts.election)
        refusals["log"] = self._hindrance.begin()
        if not self._decider.has_passed:
            refusals["start"] = "the first pass only looks"
        self._refusals = {about: text for about, text in refusals.items() if text}
        if not self._refusals and not self._may:
            unread = self._recall()
            if unread:
                self._refusals["ledger"] = unread
        may, why = not self._refusals, "; ".join(self._refusals.values())
        if why != self._why:
            event = "leads" if may else "follows"
            parts.journal.add([{"event": event, "text": why or "nothing forbids writes"}])
        parts.gate.begin(why)
        self._why = why
        self._may = may
        self.figures.leads = lanes.leads = may and not parts.dry_run

    def _begin_term(self, leads: bool) -> None:
        """Forget what this process wrote if another may have written since."""
        if leads and self._term == self._parts.election.term:
            return
        self._term = self._parts.election.term if leads else 0
        self._own.keep(set())
        self._decider.lanes.forget_writes()
        if self._parts.statuses is not None:
            self._parts.statuses.forget()

    def _recall(self) -> str:
        """Take over what earlier leaders did; return why it cannot be read, "" if it could be."""
        sink, lanes = self._parts.statuses, self._decider.lanes
        if sink is not None:
            try:
                found = sink.last({lane.key for lane in lanes})
            except ApiError as error:
                return f"the reports of earlier leaders: {error.text}"
            for key, status in found.items():
                self._decider.put_status(key, status)
        return self._origins.recall()

    def _look_for_rivals(self, leads: bool, may_probe: bool) -> str:
        parts = self._parts
        unread = parts.hpas.blindness()
        if unread:
            unread = f"the HPAs of the cluster cannot be followed: {unread}"
        if parts.documents is not None:
            named = parts.documents.named_targets()
            self._barred = {
                lane.key: f"{lane.target} is also the target of {named[at]} of the cluster: it is "
                "not scaled; remove that HPA, or this document"
                for lane in self._decider.lanes
                if (at := _target(lane)) in named
            }
            if not unread and isinstance(parts.statuses, Reports) and parts.statuses.rival:
                return f"{parts.statuses.rival}: another instance acts; stop one of the two"
            return unread
        if parts.silence is None or parts.probe is None:
            raise AssertionError("HPAs of the cluster are only scaled with a probe")
        # What is known of them is what they were: a switch or limit may have changed since.
        self._barred = {
            key: f"its present state cannot be read, so it is not scaled: {text}"
            for key, text in parts.hpas.unreadable().items()
        }
        unread = parts.probe.look(may_probe) or unread
        for lane in self._decider.lanes:
            if leads and self._own.others(lane):
                parts.silence.hear(f"it wrote the status of {lane.key[0]}/{lane.key[1]}")
        return unread or parts.silence.refusal

    def _tell_foreign(self, change: ForeignChange) -> None:
        self.figures.foreign += 1
        place, sizes = "/".join(change.key), f"{change.before} -> {change.after}"
        self._say("note", f"{place}: another changed the size, {sizes}")

    # ---- after the decision

    def carry_out(self, result: PassResult) -> PassResult:
        """Write what a pass decided; return its result as it came out."""
        vanished = self._vanished.refusal(result)
        if vanished:
            self._refusals["metrics"] = vanished
        if not self._may:
            return result
        ours = [h for h in range(len(result)) if self._is_ours(result, h)]
        changes = [
            Change(
                h, _key(result, h), int(result.decisions.current[h]), int(result.ours_desired[h])
            )
            for h in ours
            if result.decisions.rescaled[h]
        ]
        self._void.clear()
        failed = self._write_sizes(result, changes, vanished)
        if failed:
            result = self._again(result, failed)
        if not self._parts.dry_run:
            self._write_statuses(result, [h for h in ours if h not in self._void])
        return result

    def _is_ours(self, result: PassResult, h: int) -> bool:
        key = _key(result, h)
        lane = self._decider.lanes.get(key)
        if lane is None or not result.decided[h] or key in self._barred:
            return False
        if self._parts.probe is not None and key[1] == PROBE:
            # A status on the probe of another instance tells that one that it is not alone.
            return key != self._parts.probe.key
        if is_off(dict(lane.item.hpa.annotations).get(ANNOTATION)):
            return False
        return is_canary(key, self._parts.limits.canary_pct)

    def _write_sizes(
        self, result: PassResult, changes: Sequence[Change], vanished: str
    ) -> dict[int, str]:
        """Write sizes; return the errors of those that were not written, by lane."""
        taken, failed = self._queue.of_pass(changes, self._target_of, vanished)
        self.figures.held += len(failed)
        waiting = [self._line(result, c, error=failed[c.h]) for c in changes if c.h in failed]
        self._parts.journal.add(self._waits.lines(waiting))
        if not taken:
            return failed
        lines = [self._line(result, change) for change in taken]
        now_ms = result.now_ms + self._parts.ledger.skew_ms
        entries = [Entry(now_ms, *c.key, c.before, c.after) for c in taken]
        unsaid = self._announce(entries, lines)
        if unsaid:
            self._refusals["log"] = f"nothing is written: {unsaid}"
            self._parts.journal.add(outcomes(lines, [Written(unsaid)] * len(lines)))
            return failed | {c.h: f"hpabatch: {unsaid}" for c in taken}
        written = self._parts.gate.carry(self._pool, self._write_size, taken)
        self._queue.put_back(c for c, one in zip(taken, written, strict=True) if one.waits)
        self._parts.journal.add(outcomes(lines, written))
        # As in the controller, where a scale event has the time of the response.
        times = [result.now_ms + round(1000 * (w.ended_s - self._began_s)) for w in written]
        for change, at_ms, one in zip(taken, times, written, strict=True):
            if one.error:
                self.figures.held += one.waits or one.moved
                self.figures.failed += not (one.waits or one.moved)
                failed[change.h] = one.error
                if one.moved:
                    self._void.add(change.h)
            else:
                self.figures.written += 1
            if not self._parts.dry_run and (not one.error or one.uncertain):
                self._decider.lanes.note_write(
                    change.key, at_ms, change.before, change.after, not one.error
                )
        if not self._parts.dry_run:
            self._origins.wrote(list(zip(entries, times, written, strict=True)))
        return failed

    def _kept_ms(self, key: LaneKey) -> int:
        lane = self._decider.lanes.get(key)
        return kept_ms(None if lane is None else lane.spec)

    def _announce(self, entries: Sequence[Entry], lines: Sequence[Mapping[str, object]]) -> str:
        """Write into log and ledger what will be written; return why not, "" if they have it."""
        unsaid = self._parts.journal.add(lines)
        self._hindrance.note_log(unsaid)
        if unsaid or self._parts.dry_run:
            return unsaid
        return self._parts.ledger.add(entries, self._kept_ms)

    def _write_size(self, change: Change) -> Written:
        return self._parts.scales.write(self._target_of(change), change.before, change.after)

    def _target_of(self, change: Change) -> ScaleKey:
        lane = self._decider.lanes.get(change.key)
        if lane is None:
            raise AssertionError("a decided HPA has a lane until the next pass")
        return _target(lane)

    def _line(self, result: PassResult, change: Change, error: str = "") -> dict[str, object]:
        self._count += 1
        return {
            "id": f"{result.now_ms}-{self._count}",
            "namespace": change.key[0], "hpa": change.key[1], "target": result.targets[change.h],
            "from": change.before, "to": change.after, "why": result.why(change.h),
            "dry_run": self._parts.dry_run, "event": "waits" if error else "will", "error": error,
        }  # fmt: skip

    def _again(self, result: PassResult, failed: Mapping[int, str]) -> PassResult:
        """Return the pass with failed writes; a dry run, which stores none, keeps the decisions."""
        if self._parts.dry_run:
            return result
        return self._decider.redecide(failed)

    def _write_statuses(self, result: PassResult, ours: Sequence[int]) -> None:
        sink = self._parts.statuses
        if sink is None:
            return
        keys, failing = set(), _with_failed_metrics(result)
        for h in ours:
            key, document = _key(result, h), as_stored_status(result.document(h))
            keys.add(key)
            lane = self._decider.lanes.get(key)
            if lane is None:
                continue
            if differ(lane.status, document.status):
                if self._parts.documents is not None:
                    item = replace(lane.item, hpa=document)
                    self._parts.documents.put_own(item)
                self._own.add(key, lane.uid, lane.status, document.status)
                sink.put(key, document)
            if result.decisions.rescaled[h] or result.error[h] or h in failing:
                sink.tell(document, result.events(h))
        self._own.keep(keys)


def _with_failed_metrics(result: PassResult) -> set[int]:
    """Return the lanes of which a metric failed: each has an event."""
    fine = np.isin(result.metrics.code, (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED))
    return set(result.metrics.lanes()[~fine].tolist())


def _key(result: PassResult, h: int) -> LaneKey:
    return result.namespaces[h], result.names[h]


def _target(lane: Lane) -> ScaleKey:
    return target_key(lane.key[0], lane.spec.scale_target_ref)
