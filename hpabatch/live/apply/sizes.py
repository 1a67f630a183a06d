"""Sizes of a pass: their order, their writing, their outcomes.

Before a size is written, log and ledger name it. Its outcome goes into the log, into the memory of
the rules, and into the ledger of other instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from hpabatch.cluster.apis.scales import target_key
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.live.apply.gate import Gate
from hpabatch.live.apply.guards import Change, Limits, Queue, Removals
from hpabatch.live.apply.journal import Journal, Waits, outcomes
from hpabatch.live.apply.ledger import Entry, Ledger, kept_ms
from hpabatch.live.apply.origins import Origins
from hpabatch.live.apply.scales import Outcome, ScaleWriter, Written
from hpabatch.live.passes.lanes import Lane, LaneKey, Lanes
from hpabatch.live.passes.result import PassResult

_WORKERS: Final = 8


@dataclass(frozen=True, slots=True)
class Tools:
    """The parts that take part in the writing of sizes.

    Attributes:
        scales: writes a size.
        gate: of the writes of a pass.
        journal: the log of writes.
        ledger: of changes, for other instances.
        origins: gets the outcomes.
        limits: of a pass.
        dry_run: the server stores no size.
    """

    scales: ScaleWriter
    gate: Gate
    journal: Journal
    ledger: Ledger
    origins: Origins
    limits: Limits
    dry_run: bool


@dataclass(slots=True)
class Fate:
    """Outcomes of the sizes of a pass.

    Attributes:
        written: by lane.
        off: targets whose annotation forbids the write.
        unsaid: why no size was written, by the subject that could not be: log or ledger.
        parts: by lane the changes that are only a part of what was decided.
        held_back: why scale-downs were, "" if none was.
    """

    written: dict[int, Written]
    off: list[ScaleKey] = field(default_factory=list)
    unsaid: dict[str, str] = field(default_factory=dict)
    parts: dict[int, Change] = field(default_factory=dict)
    held_back: str = ""

    @property
    def counts(self) -> Counter[Outcome]:
        """The number of sizes by outcome."""
        return Counter(one.outcome for one in self.written.values())

    @property
    def failed(self) -> dict[int, str]:
        """The errors of those that were not written, by lane."""
        return {h: one.error for h, one in self.written.items() if one.error}


class Sizes:
    """Writes the sizes of passes. For the loop's thread."""

    def __init__(self, tools: Tools, lanes: Lanes) -> None:
        """Prepare; nothing is sent yet."""
        self._tools, self._lanes = tools, lanes
        self._queue, self._waits = Queue(tools.limits), Waits()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="write")
        self._count = 0

    def stop(self) -> None:
        """End the threads, after what they write."""
        self._pool.shutdown()

    def hold(self, result: PassResult, changes: Sequence[Change], why: str) -> None:
        """Log the sizes of a pass in which nothing may be written."""
        waiting = [self._line(result, change, f"hpabatch: waits: {why}") for change in changes]
        self._tools.journal.add(self._waits.lines(waiting))

    def write(
        self, result: PassResult, changes: Sequence[Change], began_s: float, vanished: str,
        present: int,
    ) -> Fate:  # fmt: skip
        """Write the sizes of a pass.

        Args:
            result: of the pass.
            changes: of its sizes.
            began_s: when the pass began (monotonic).
            vanished: why all have to wait, "" if they do not.
            present: the sum of the sizes of all targets that are acted on.
        """
        tools = self._tools
        now_ms = result.now_ms + tools.ledger.skew_ms
        removals = Removals(tools.limits, tools.ledger.removed(now_ms), present)
        taken, why = self._queue.of_pass(changes, self._target_of, vanished, removals)
        waiting = [self._line(result, c, why[c.h]) for c in changes if c.h in why]
        tools.journal.add(self._waits.lines(waiting))
        fate = Fate({h: Written(Outcome.WAITS, text) for h, text in why.items()})
        fate.parts, fate.held_back = {c.h: c for c in taken if c.part}, self._queue.problem
        if not taken:
            return fate
        lines = [self._line(result, change) for change in taken]
        entries = [Entry(now_ms, *c.key, c.before, c.after) for c in taken]
        fate.unsaid = self._announce(entries, lines)
        for unsaid in fate.unsaid.values():
            told = [Written(Outcome.FAILED, unsaid)] * len(lines)
            tools.journal.record(outcomes(lines, told), is_durable=True)
            failed = Written(Outcome.FAILED, f"hpabatch: {unsaid}")
            fate.written |= {c.h: failed for c in taken}
            return fate
        written = tools.gate.carry(self._pool, self._write, taken)
        tools.journal.record(outcomes(lines, written), is_durable=True)
        # As in the controller, where a scale event has the time of the response.
        times = [result.now_ms + round(1000 * (one.ended_s - began_s)) for one in written]
        self._book(taken, times, written, fate)
        if not tools.dry_run:
            tools.origins.wrote(list(zip(entries, times, written, strict=True)))
            tools.ledger.store(self._kept_ms)
        return fate

    def _announce(
        self, entries: Sequence[Entry], lines: Sequence[Mapping[str, object]]
    ) -> dict[str, str]:
        """Write into log and ledger what will be written; return why one of them cannot be."""
        unsaid = self._tools.journal.add(lines)
        if unsaid:
            return {"log": unsaid}
        unsaid = "" if self._tools.dry_run else self._tools.ledger.add(entries, self._kept_ms)
        return {"ledger": unsaid} if unsaid else {}

    def _book(
        self, taken: Sequence[Change], times: Sequence[int], written: Sequence[Written], fate: Fate
    ) -> None:
        pairs = list(zip(taken, written, strict=True))
        self._queue.put_back(c for c, one in pairs if one.outcome is Outcome.WAITS)
        for (change, one), at_ms in zip(pairs, times, strict=True):
            fate.written[change.h] = one
            if one.outcome is Outcome.OFF:
                fate.off.append(self._target_of(change))
            if not self._tools.dry_run and (not one.error or one.uncertain):
                self._lanes.note_write(
                    change.key, at_ms, change.before, change.after, not one.error
                )

    def _write(self, change: Change) -> Written:
        lane = self._lane(change)
        return self._tools.scales.write(
            self._target_of(change), change.before, change.after, lane.scale
        )

    def _lane(self, change: Change) -> Lane:
        lane = self._lanes.get(change.key)
        if lane is None:
            raise AssertionError("a decided HPA has a lane until the next pass")
        return lane

    def _target_of(self, change: Change) -> ScaleKey:
        return target_key(change.key[0], self._lane(change).spec.scale_target_ref)

    def _kept_ms(self, key: LaneKey) -> int:
        lane = self._lanes.get(key)
        return kept_ms(None if lane is None else lane.spec)

    def _line(self, result: PassResult, change: Change, error: str = "") -> dict[str, object]:
        self._count += 1
        return {
            "id": f"{result.now_ms}-{self._count}",
            "namespace": change.key[0], "hpa": change.key[1], "target": result.targets[change.h],
            "from": change.before, "to": change.after,
            "why": result.why(change.h), "part": change.part,
            "dry_run": self._tools.dry_run, "event": "waits" if error else "will", "error": error,
        }  # fmt: skip
