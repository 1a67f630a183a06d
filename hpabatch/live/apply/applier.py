"""Writes of a pass: permission, sizes, statuses.

The decisions are those of every pass (`passes.decide`). A write that fails, or has to wait for a
limit of the pass, is decided once more as one that fails: the rule for that exists once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.connection.writes import WriteClient
from hpabatch.layout import codes
from hpabatch.live.apply.gate import Gate, Hindrance
from hpabatch.live.apply.guards import Change, Limits, Switch, Vanished, lease_refusal, read_switch
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.lease import Election
from hpabatch.live.apply.ledger import Ledger
from hpabatch.live.apply.origins import Origins
from hpabatch.live.apply.reports import Reports
from hpabatch.live.apply.rivals import PROBE, Rivals
from hpabatch.live.apply.scales import Outcome, ScaleWriter, Written
from hpabatch.live.apply.selection import Selection
from hpabatch.live.apply.sizes import Sizes, Tools
from hpabatch.live.apply.statuses import StatusSink, as_stored_status, differ
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import ForeignChange, LaneKey
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

_OUTCOMES: Final = {
    Outcome.DONE: SIZE_WRITTEN,
    Outcome.FAILED: SIZE_FAILED,
    Outcome.WAITS: SIZE_WAITS,
    Outcome.MOVED: SIZE_VOID,
    Outcome.OFF: SIZE_VOID,
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an applier.

    Attributes:
        client: reads the kill switch.
        namespace: hpabatch's own.
        scales: writes sizes.
        gate: of the writes of a pass.
        statuses: writes statuses and events; None in a dry run.
        election: the lease.
        journal: the log of writes.
        ledger: the changes, for instances that start later.
        rivals: other controllers.
        selection: the HPAs that are acted on.
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
    rivals: Rivals
    selection: Selection
    limits: Limits
    dry_run: bool = False


@dataclass(slots=True)
class Figures:
    """Counters since the start; `leads`: this process may write now, and not as a dry run."""

    leads: bool = False
    written: int = 0
    failed: int = 0
    held: int = 0
    void: int = 0
    foreign: int = 0


class Applier:
    """Carries out decisions. The loop's thread calls it."""

    def __init__(
        self, parts: Parts, decider: Decider, say: Callable[[str, str], None] = lambda a, t: None
    ) -> None:
        """Prepare; nothing is sent before `start`.

        Args:
            parts: of the applier.
            decider: of the loop.
            say: gets subject and text of notes.
        """
        self.figures = Figures()
        self._parts, self._decider, self._say = parts, decider, say
        self._vanished = Vanished(parts.limits.most_vanished_pct)
        self._refusals: dict[str, str] = {}
        self._may = False
        self._why: str | None = None
        self._leader = ""
        self._began_s = 0.0
        self._term = 0
        self._unread = ""  # why the last attempt to recall failed
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="guards")
        self._ahead: Future[tuple[Switch, str]] | None = None
        self._hindrance = Hindrance(parts.journal, parts.gate.period_s)
        parts.election.hindrance = self._hindrance
        decider.lanes.attributed = not parts.dry_run
        decider.owns = parts.rivals.documents is not None
        self._origins = Origins(
            parts.ledger, decider, self._tell_foreign, reads_status=not decider.owns
        )
        tools = Tools(
            parts.scales, parts.gate, parts.journal, parts.ledger, self._origins, parts.limits,
            parts.dry_run,
        )  # fmt: skip
        self._sizes = Sizes(tools, decider.lanes)

    def start(self) -> None:
        """Begin to apply for the lease."""
        self._parts.journal.add([{"event": "start", "text": "begins without writing"}])
        self._parts.election.start()
        if self._parts.statuses is not None:
            self._parts.statuses.start()

    def stop(self) -> None:
        """Write the waiting statuses, then release the lease."""
        self._reader.shutdown()
        self._sizes.stop()
        statuses = self._parts.statuses
        self._parts.election.stop(releases=statuses is None or statuses.stop())
        self._parts.journal.add([{"event": "stop", "text": "ended"}])
        self._parts.journal.close()

    def problems(self) -> dict[str, str]:
        """Return why nothing is written, or a part of it is not, by subject.

        That another instance has the lease is no problem.
        """
        parts = self._parts
        found = {about: text for about, text in self._refusals.items() if about != "lease"}
        if parts.statuses is not None and parts.statuses.problem:
            found["statuses"] = parts.statuses.problem
        if parts.journal.problem:
            found["log"] = f"no size or status is written: {parts.journal.problem}"
        if parts.election.problem:
            found["lease"] = parts.election.problem
        return found | {f"{n}/{name}": text for (n, name), text in parts.rivals.barred.items()}

    # ---- before the decision

    def read_ahead(self) -> None:
        """Begin to read the kill switch and the probe, beside the requests for metrics."""
        self._ahead = self._submit()

    def _submit(self) -> Future[tuple[Switch, str]]:
        return self._reader.submit(self._read, self._parts.election.leads)

    def _read(self, leads: bool) -> tuple[Switch, str]:
        """Return the kill switch, and why the probe could not be read, "" if it could."""
        switch, probe = read_switch(self._parts.client, self._parts.namespace), ""
        if switch.refusal:
            self._parts.gate.close(switch.refusal)  # statuses of the last pass, too
        if self._parts.rivals.probe is not None:
            probe = self._parts.rivals.probe.look(leads and not switch.refusal)
        return switch, probe

    def begin(self) -> None:
        """Determine whether this process may write in the coming pass.

        Changes of the cluster were applied just before.
        """
        self._began_s = time.monotonic()
        parts, lanes = self._parts, self._decider.lanes
        leads = parts.election.leads
        ahead, self._ahead = self._ahead or self._submit(), None
        refusals = {"ledger": self._origins.settle(leads and self._term == parts.election.term)}
        self._begin_term(leads)
        switch, probe = ahead.result()
        refusals["switch"] = switch.refusal
        refusals["rivals"] = self._look_for_rivals(leads, probe)
        if not leads:
            refusals["lease"] = lease_refusal(parts.election)
        refusals["log"] = self._hindrance.begin()
        if not self._decider.has_passed:
            refusals["start"] = "the first pass writes nothing"
        self._refusals = {about: text for about, text in refusals.items() if text}
        if not self._may and (self._unread or not self._refusals):
            self._unread = self._recall()
            if self._unread:
                self._refusals["ledger"] = self._unread
        unread = [parts.rivals.blind, self._refusals.get("ledger", "")]
        if not switch.is_read:
            unread.append(switch.refusal)
        self._hindrance.note_unread("; ".join(filter(None, unread)), leads)
        self._tell_who()
        self._may = not self._refusals
        parts.gate.begin(self._why or "")
        self.figures.leads = lanes.leads = self._may and not parts.dry_run

    def _begin_term(self, leads: bool) -> None:
        """Forget what this process wrote if another may have written since."""
        if leads and self._term == self._parts.election.term:
            return
        self._term = self._parts.election.term if leads else 0
        self._parts.rivals.own.keep(set())
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

    def _look_for_rivals(self, leads: bool, probe: str) -> str:
        """Select the HPAs of the pass; return why nothing may be written, "" if it may."""
        parts, lanes = self._parts, list(self._decider.lanes)
        refusal = parts.rivals.look(lanes, leads, probe)
        parts.selection.begin(lanes, parts.rivals.barred)
        if not refusal and isinstance(parts.statuses, Reports) and parts.statuses.rival:
            return f"{parts.statuses.rival}: another instance acts; stop one of the two"
        return refusal

    def _tell_who(self) -> None:
        """Log the leader, and what forbids writes, where they have changed."""
        election, why = self._parts.election, "; ".join(self._refusals.values())
        if why != self._why:
            event = "follows" if why else "leads"
            text = why or "nothing forbids writes"
            self._parts.journal.add([{"event": event, "text": text}])
        self._why = why
        leader = election.leader
        if leader not in (self._leader, election.candidate.identity):
            self._say("note", f"{leader or 'nobody'} has the lease {election.place}")
        self._leader = leader

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
        ours = [h for h in range(len(result)) if self._is_ours(result, h)]
        changes = [
            Change(
                h, _key(result, h), int(result.decisions.current[h]), int(result.ours_desired[h])
            )
            for h in ours
            if result.decisions.rescaled[h]
        ]
        if not self._may:
            if self._parts.election.leads:
                self._sizes.hold(result, changes, self._why or "")
            self._tell_pass(len(result), len(changes), {})
            return replace(result, sizes=self._sizes_of(result, {}))
        present = int(result.spec_replicas[ours].sum())
        fate = self._sizes.write(result, changes, self._began_s, vanished, present)
        if fate.held_back:
            self._refusals["scale-downs"] = fate.held_back
        self._count(fate.counts)
        for about, text in fate.unsaid.items():
            self._refusals[about] = f"no size is written: {text}"
        for target in fate.off:
            self._parts.selection.note_off(target)
        self._tell_pass(len(result), len(changes), fate.counts)
        sizes = self._sizes_of(result, fate.written, fate.parts)
        if self._parts.dry_run:  # it stores nothing, so no decision is changed
            return replace(result, sizes=sizes)
        parts = {h: c.after for h, c in fate.parts.items() if h not in fate.failed}
        if fate.failed or parts:
            result = self._decider.redecide(fate.failed, parts)
        void = {h for h, one in fate.written.items() if one.is_void}
        self._write_statuses(result, [h for h in ours if h not in void])
        return replace(result, sizes=sizes)

    def _sizes_of(
        self, result: PassResult, written: Mapping[int, Written],
        parts: Mapping[int, Change] = MappingProxyType({}),
    ) -> dict[int, Size]:  # fmt: skip
        """Return the sizes that a pass decided; `written`: outcomes of those that it may write."""
        found = {}
        for h in np.flatnonzero(result.decided & (result.decisions.rescaled != 0)).tolist():
            part = parts.get(h)
            after = int(result.ours_desired[h]) if part is None else part.after
            sizes = int(result.decisions.current[h]), after
            one = written.get(h)
            outcome, text = SIZE_HELD, ""
            if one is None:
                text = self._held(_key(result, h))
            elif one.outcome is Outcome.DONE and self._parts.dry_run:
                outcome, text = SIZE_ACCEPTED, "" if part is None else part.part
            elif one.outcome is Outcome.DONE and part is not None:
                outcome, text = SIZE_WRITTEN, part.part
            else:
                outcome, text = _OUTCOMES[one.outcome], one.error.removeprefix("hpabatch: ")
            found[h] = Size(*sizes, outcome, result.why(h), text)
        return found

    def _held(self, key: LaneKey) -> str:
        """Return why this process may not write a decided size."""
        selection = self._parts.selection
        if key in selection.reasons:
            return f"not written: {selection.reasons[key]}"
        if not selection.is_acted_on(key):
            return "not written: it is not in the share of --canary"
        is_others = self._leader not in ("", self._parts.election.candidate.identity)
        if is_others and self._refusals.keys() - {"metrics"} == {"lease"}:
            return f"the leader writes: {self._leader}"
        return f"not written: {self._why}"

    def _is_ours(self, result: PassResult, h: int) -> bool:
        key = _key(result, h)
        if self._decider.lanes.get(key) is None or not result.decided[h]:
            return False
        probe = self._parts.rivals.probe
        if probe is not None and key[1] == PROBE:
            # A status on the probe of another instance shows there that this one acts.
            return key != probe.key
        return self._parts.selection.is_acted_on(key)

    def _count(self, counts: Mapping[Outcome, int]) -> None:
        figures = self.figures
        figures.written += counts.get(Outcome.DONE, 0)
        figures.failed += counts.get(Outcome.FAILED, 0)
        figures.held += counts.get(Outcome.WAITS, 0)
        figures.void += counts.get(Outcome.MOVED, 0) + counts.get(Outcome.OFF, 0)

    def _tell_pass(self, hpas: int, changes: int, counts: Mapping[Outcome, int]) -> None:
        """Log the leader and the outcomes of a pass."""
        said = "".join(f", {count} {outcome}" for outcome, count in counts.items() if count)
        text = f"{counted(hpas, 'HPA')} decided, {counted(changes, 'size')} to change{said}"
        self._parts.journal.note([{"event": "pass", "leader": self._leader, "text": text}])

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
                if self._parts.rivals.documents is not None:
                    item = replace(lane.item, hpa=document)
                    self._parts.rivals.documents.put_own(item)
                self._parts.rivals.own.add(key, lane.uid, lane.status, document.status)
                sink.put(key, document)
            if result.decisions.rescaled[h] or result.error[h] or h in failing:
                sink.tell(document, result.events(h))
        self._parts.rivals.own.keep(keys)


def _with_failed_metrics(result: PassResult) -> set[int]:
    """Return the lanes of which a metric failed: each has an event."""
    fine = np.isin(result.metrics.code, (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED))
    return set(result.metrics.lanes()[~fine].tolist())


def _key(result: PassResult, h: int) -> LaneKey:
    return result.namespaces[h], result.names[h]
