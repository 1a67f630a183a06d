"""Writes of a pass: permission, sizes, statuses.

The decisions are those of every pass (`passes.decide`). A write that fails, or has to wait for a
limit of the pass, is decided once more as one that fails: the rule for that exists once.

Before a size is written, log and ledger name it. Its outcome goes into the log, into the memory of
the rules, and into the ledger of other instances.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from hpabatch.cluster.apis.discovery import target_key
from hpabatch.cluster.connection.writes import WriteClient
from hpabatch.layout import codes
from hpabatch.live.apply.guards import (
    Change,
    Gate,
    Queue,
    Removals,
    lease_refusal,
    opted_out,
    read_switch,
)
from hpabatch.live.apply.journal import Journal, outcomes
from hpabatch.live.apply.lease import Election
from hpabatch.live.apply.ledger import Entry, Ledger, Origins, kept_ms
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.rivals import PROBE, Rivals
from hpabatch.live.apply.scales import Outcome, ScaleWriter, Written
from hpabatch.live.apply.statuses import HpaStatuses, as_stored_status, differ
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import SHOWN_MS, ForeignChange, Lane, LaneKey
from hpabatch.live.passes.result import (
    SIZE_ACCEPTED,
    SIZE_FAILED,
    SIZE_HELD,
    SIZE_VOID,
    SIZE_WAITS,
    SIZE_WRITTEN,
    PassResult,
    Size,
)
from hpabatch.model.printable import counted

_WORKERS: Final = 8
_HUNG_PERIODS: Final = 6
_LEAST_HUNG_S: Final = 90.0
_OUTCOMES: Final = {
    Outcome.FAILED: SIZE_FAILED,
    Outcome.WAITS: SIZE_WAITS,
    Outcome.MOVED: SIZE_VOID,
}


@dataclass(slots=True)
class Figures:
    """Counters since the start; `leads`: this process may write now, and not as a dry run."""

    leads: bool = False
    written: int = 0
    failed: int = 0
    held: int = 0
    void: int = 0
    foreign: int = 0


@dataclass(slots=True)
class Applier:
    """Carries out decisions. The loop's thread calls it; nothing is sent before `start`.

    Attributes:
        namespace: hpabatch's own.
        statuses: writes statuses and events; None in a dry run and with own documents, which no
            object of the cluster has.
        ledger: the changes, for instances that start later.
        options: limits; with `dry_run` the server stores no size.
        say: gets subject and text of notes.
    """

    client: WriteClient
    namespace: str
    scales: ScaleWriter
    gate: Gate
    statuses: HpaStatuses | None
    election: Election
    journal: Journal
    ledger: Ledger
    rivals: Rivals
    options: ApplyOptions
    decider: Decider
    say: Callable[[str, str], None]
    figures: Figures = field(default_factory=Figures)
    _refusals: dict[str, str] = field(default_factory=dict)
    _may: bool = False
    _why: str | None = None
    _leader: str = ""
    _began_s: float | None = None
    _term: int = 0
    _unread: str = ""  # why the last attempt to recall failed
    _ahead: Future[tuple[str, str]] | None = None
    _left_alone: dict[LaneKey, str] = field(default_factory=dict)  # HPAs of this pass, and why
    _count: int = 0  # of lines about sizes: their ids
    _origins: Origins = field(init=False)
    _queue: Queue = field(init=False)
    _reader: ThreadPoolExecutor = field(init=False)
    _writers: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._queue = Queue(self.options)
        self.election.hindrance = self._hindrance
        self.decider.lanes.attributed = not self.options.dry_run
        self.decider.owns = self.rivals.documents is not None
        self._origins = Origins(self.ledger, self.decider, self._tell_foreign)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="guards")
        self._writers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="write")

    def start(self) -> None:
        """Begin to apply for the lease."""
        self.journal.add([{"event": "start", "text": "begins without writing"}])
        self.election.start()
        if self.statuses is not None:
            self.statuses.start()

    def stop(self) -> None:
        """Write the waiting statuses, then release the lease."""
        self._reader.shutdown()
        self._writers.shutdown()
        statuses = self.statuses
        self.election.stop(releases=statuses is None or statuses.stop())
        self.journal.add([{"event": "stop", "text": "ended"}])

    def problems(self) -> dict[str, str]:
        """Return why nothing is written, or a part of it is not, by subject.

        That another instance has the lease is no problem.
        """
        found = {about: text for about, text in self._refusals.items() if about != "lease"}
        if self.statuses is not None and self.statuses.problem:
            found["statuses"] = self.statuses.problem
        if self.journal.problem:
            found["log"] = f"no size or status is written: {self.journal.problem}"
        if self.election.problem:
            found["lease"] = self.election.problem
        return found | {f"{n}/{name}": text for (n, name), text in self.rivals.barred.items()}

    def _hindrance(self) -> str:
        """Return why this process leaves the lease to others, "" if it does not.

        The loop hangs, or the log cannot be written. Another controller is no reason: another
        instance, which has not seen it, would write. The lease's thread asks.
        """
        if self._began_s is None:
            return "no pass was made yet"
        since_s = time.monotonic() - self._began_s
        if since_s > max(_HUNG_PERIODS * self.gate.period_s, _LEAST_HUNG_S):
            return f"the last pass began {since_s:.0f} s ago"
        return self.journal.problem

    # ---- before the decision

    def read_ahead(self) -> None:
        """Begin to read the kill switch and the probe, beside the requests for metrics."""
        self._ahead = self._submit()

    def _submit(self) -> Future[tuple[str, str]]:
        return self._reader.submit(self._read, self.election.leads)

    def _read(self, leads: bool) -> tuple[str, str]:
        """Return `read_switch`, and why the probe could not be read, "" if it could."""
        refusal, probe = read_switch(self.client, self.namespace), ""
        if refusal:
            self.gate.close(refusal)  # statuses of the last pass, too
        if self.rivals.probe is not None:
            probe = self.rivals.probe.look(leads and not refusal)
        return refusal, probe

    def begin(self) -> None:
        """Determine whether this process may write in the coming pass.

        Changes of the cluster were applied just before.
        """
        self._began_s = time.monotonic()
        lanes = self.decider.lanes
        leads = self.election.leads
        ahead, self._ahead = self._ahead or self._submit(), None
        # A watch may show what the leader before did until SHOWN_MS later.
        is_alone = leads and self.election.led_s >= SHOWN_MS / 1000
        self._origins.settle(is_alone and self._term == self.election.term)
        self._begin_term(leads)
        switch, probe = ahead.result()
        refusals = {"switch": switch, "rivals": self.rivals.look(lanes, probe)}
        whys = ((lane.key, self.rivals.barred.get(lane.key) or opted_out(lane)) for lane in lanes)
        self._left_alone = {key: why for key, why in whys if why}
        if not leads:
            refusals["lease"] = lease_refusal(self.election)
        if self.journal.problem:
            self.journal.add([{"event": "note", "text": "the log can be written again"}])
        refusals["log"] = self.journal.problem
        if not self.decider.has_passed:
            refusals["start"] = "the first pass writes nothing"
        self._refusals = {about: text for about, text in refusals.items() if text}
        if not self._may and (self._unread or not self._refusals):
            self._unread = self._origins.recall()
            if self._unread:
                self._refusals["ledger"] = self._unread
        self._tell_who()
        self._may = not self._refusals
        self.gate.begin(self._why or "")
        self.figures.leads = lanes.leads = self._may and not self.options.dry_run

    def _begin_term(self, leads: bool) -> None:
        """Forget what this process wrote if another may have written since."""
        if leads and self._term == self.election.term:
            return
        self._term = self.election.term if leads else 0
        if self.statuses is not None:
            self.statuses.forget()

    def _tell_who(self) -> None:
        election, why = self.election, "; ".join(self._refusals.values())
        if why != self._why:
            event = "follows" if why else "leads"
            text = why or "nothing forbids writes"
            self.journal.add([{"event": event, "text": text}])
        self._why = why
        leader = election.leader
        if leader not in (self._leader, election.candidate.identity):
            self.say("note", f"{leader or 'nobody'} has the lease {election.place}")
        self._leader = leader

    def _tell_foreign(self, change: ForeignChange) -> None:
        self.figures.foreign += 1
        place, sizes = "/".join(change.key), f"{change.before} -> {change.after}"
        self.say("note", f"{place}: another changed the size, {sizes}")

    # ---- after the decision

    def carry_out(self, result: PassResult) -> PassResult:
        """Write what a pass decided; return its result as it came out."""
        ours = [h for h in range(len(result)) if self._is_ours(result, h)]
        changes = [
            Change(
                h, _key(result, h), int(result.decisions.current[h]), int(result.ours_desired[h])
            )
            for h in ours
            if result.decisions.rescaled[h]
        ]
        if not self._may:
            self._tell_pass(len(result), len(changes), Counter())
            return replace(result, sizes=self._sizes_of(result, {}, {}))
        present = int(result.spec_replicas[ours].sum())
        written, parts = self._write_sizes(result, changes, present)
        self._tell_pass(len(result), len(changes), Counter(one.outcome for one in written.values()))
        sizes = self._sizes_of(result, written, parts)
        if self.options.dry_run:  # it stores nothing, so no decision is changed
            return replace(result, sizes=sizes)
        failed = {h: one.error for h, one in written.items() if one.error}
        partly = {h: c.after for h, c in parts.items() if h not in failed}
        if failed or partly:
            result = self.decider.redecide(failed, partly)
        void = {h for h, one in written.items() if one.is_void}
        self._write_statuses(result, [h for h in ours if h not in void])
        return replace(result, sizes=sizes)

    def _write_sizes(
        self, result: PassResult, changes: Sequence[Change], present: int
    ) -> tuple[dict[int, Written], dict[int, Change]]:
        """Write the sizes of a pass.

        Args:
            present: the sum of the sizes of all targets that are acted on.

        Returns:
            The outcomes by lane, and by lane the changes that are only a part of what was decided.
        """
        now_ms = result.now_ms + self.ledger.skew_ms
        removals = Removals(self.options, self.ledger.removed(now_ms), present)
        taken, why = self._queue.admit(changes, removals)
        if self._queue.problem:
            self._refusals["scale-downs"] = self._queue.problem
        written = {h: Written(Outcome.WAITS, text) for h, text in why.items()}
        if taken:
            written |= self._write_taken(result, taken, now_ms)
        return written, {c.h: c for c in taken if c.part}

    def _write_taken(
        self, result: PassResult, taken: Sequence[Change], now_ms: int
    ) -> dict[int, Written]:
        """Write the sizes that no limit holds back; return the outcomes by lane."""
        # Log and ledger name what will be written before it is.
        lines = [self._line(result, change, "will") for change in taken]
        entries = [Entry(now_ms, *c.key, c.before, c.after) for c in taken]
        about, unsaid = "log", self.journal.add(lines)
        if not unsaid and not self.options.dry_run:
            about, unsaid = "ledger", self.ledger.add(entries, self._kept_ms)
        if unsaid:
            self._refusals[about] = f"no size is written: {unsaid}"
        if unsaid:
            told = [Written(Outcome.FAILED, unsaid)] * len(lines)
            self.journal.record(outcomes(lines, told))
            return {c.h: Written(Outcome.FAILED, f"hpabatch: {unsaid}") for c in taken}
        written = self.gate.carry(self._writers, self._write, taken)
        self.journal.record(outcomes(lines, written))
        # As in the controller, where a scale event has the time of the response.
        began_s = self._began_s or 0.0
        times = [result.now_ms + round(1000 * (one.ended_s - began_s)) for one in written]
        pairs = list(zip(taken, written, strict=True))
        self._queue.put_back(c for c, one in pairs if one.outcome is Outcome.WAITS)
        for (change, one), at_ms in zip(pairs, times, strict=True):
            if not self.options.dry_run and (not one.error or one.uncertain):
                self.decider.lanes.note_write(
                    change.key, at_ms, change.before, change.after, not one.error
                )
        if not self.options.dry_run:
            self._origins.wrote(list(zip(entries, times, written, strict=True)))
            self.ledger.store(self._kept_ms)
        return {change.h: one for change, one in pairs}

    def _write(self, change: Change) -> Written:
        lane = self._lane(change)
        target = target_key(change.key[0], lane.spec.scale_target_ref)
        return self.scales.write(target, change.before, change.after, lane.scale)

    def _lane(self, change: Change) -> Lane:
        lane = self.decider.lanes.get(change.key)
        if lane is None:
            raise AssertionError("a decided HPA has a lane until the next pass")
        return lane

    def _kept_ms(self, key: LaneKey) -> int:
        lane = self.decider.lanes.get(key)
        return kept_ms(None if lane is None else lane.spec)

    def _line(self, result: PassResult, change: Change, event: str) -> dict[str, object]:
        self._count += 1
        return {
            "id": f"{result.now_ms}-{self._count}",
            "namespace": change.key[0], "hpa": change.key[1], "target": result.targets[change.h],
            "from": change.before, "to": change.after,
            "why": result.why(change.h), "part": change.part,
            "dry_run": self.options.dry_run, "event": event,
        }  # fmt: skip

    def _sizes_of(
        self, result: PassResult, written: Mapping[int, Written], parts: Mapping[int, Change]
    ) -> dict[int, Size]:
        """Return the sizes that a pass decided; `written`: outcomes of those that it may write."""
        found = {}
        for h in np.flatnonzero(result.decided & (result.decisions.rescaled != 0)).tolist():
            part = parts.get(h)
            after = int(result.ours_desired[h]) if part is None else part.after
            sizes = int(result.decisions.current[h]), after
            one = written.get(h)
            if one is None:
                outcome, text = SIZE_HELD, self._held(_key(result, h))
            elif one.outcome is Outcome.DONE:
                outcome = SIZE_ACCEPTED if self.options.dry_run else SIZE_WRITTEN
                text = "" if part is None else part.part
            else:
                outcome, text = _OUTCOMES[one.outcome], one.error.removeprefix("hpabatch: ")
            found[h] = Size(*sizes, outcome, result.why(h), text)
        return found

    def _held(self, key: LaneKey) -> str:
        """Return why this process may not write a decided size."""
        if key in self._left_alone:
            return f"not written: {self._left_alone[key]}"
        is_others = self._leader not in ("", self.election.candidate.identity)
        if is_others and self._refusals.keys() == {"lease"}:
            return f"the leader writes: {self._leader}"
        return f"not written: {self._why}"

    def _is_ours(self, result: PassResult, h: int) -> bool:
        key = _key(result, h)
        if self.decider.lanes.get(key) is None or not result.decided[h]:
            return False
        probe = self.rivals.probe
        if probe is not None and key[1] == PROBE:
            # A status on the probe of another instance shows there that this one acts.
            return key != probe.key
        return key not in self._left_alone

    def _tell_pass(self, hpas: int, changes: int, counts: Counter[Outcome]) -> None:
        figures = self.figures
        figures.written += counts[Outcome.DONE]
        figures.failed += counts[Outcome.FAILED]
        figures.held += counts[Outcome.WAITS]
        figures.void += counts[Outcome.MOVED]
        said = "".join(f", {count} {outcome}" for outcome, count in counts.items())
        text = f"{counted(hpas, 'HPA')} decided, {counted(changes, 'size')} to change{said}"
        self.journal.add([{"event": "pass", "leader": self._leader, "text": text}])

    def _write_statuses(self, result: PassResult, ours: Sequence[int]) -> None:
        sink = self.statuses
        if sink is None:
            return
        fine = np.isin(result.metrics.code, (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED))
        # A lane of which a metric failed has an event.
        failing = set(result.metrics.lanes()[~fine].tolist())
        for h in ours:
            key, document = _key(result, h), as_stored_status(result.document(h))
            lane = self.decider.lanes.get(key)
            if lane is None:
                continue
            if differ(lane.status, document.status):
                sink.put(key, document)
            if result.decisions.rescaled[h] or result.error[h] or h in failing:
                sink.tell(document, result.events(h))


def _key(result: PassResult, h: int) -> LaneKey:
    return result.namespaces[h], result.names[h]
