"""One pass of the live loop: cluster state as columns, decided by one call of the batch kernel.

The rules are those of every replay. The scale events that use up the policies' budgets are the
changes actually made in the cluster.

Ambiguous selectors are symmetric but lazy, as upstream: an HPA matches nothing for the others until
a pass computes its metrics; then it keeps the selector of its last such pass. Within a pass HPAs
are taken in the order of their names. Source: horizontal.go, validateAndParseSelector;
`engine.shards.ambiguity` is the same over a recording.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import Change, Kind, Responses
from hpabatch.engine.shards.ambiguity import least_of, metrics_reached
from hpabatch.engine.shards.initial import take_zero, takes_zero, zero_of
from hpabatch.kernels.replay import replay_newest
from hpabatch.layout import codes
from hpabatch.layout.records import HEAD_STATUS_DESIRED, I64, Memory
from hpabatch.live.passes.columns import Columns, PodColumns
from hpabatch.live.passes.lanes import Lane, LaneKey, Lanes
from hpabatch.live.passes.memory import (
    Saved,
    SavedLane,
    copied,
    follow_rescale,
    memory_of,
    moved,
    new_memory,
    remembered,
    save,
)
from hpabatch.live.passes.result import ERRORS, NO_STATUS, PassResult, culprits, reconcile_actions
from hpabatch.live.passes.words import PassWords
from hpabatch.model.messages import ambiguous_selector
from hpabatch.model.selectors import parse_selector, selector_words
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.memory import seed_status


class Registry:
    """Registered selectors of one cluster's HPAs."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._known: dict[LaneKey, str] = {}

    def known(self, key: LaneKey) -> str | None:
        """Return the selector that an HPA is registered with, None if it is not."""
        return self._known.get(key)

    def restore(self, key: LaneKey, selector: str) -> None:
        """Register an HPA as an earlier loop did."""
        self._known[key] = selector

    def check(
        self,
        lanes: Sequence[Lane],
        reached: Sequence[bool],
        pods: PodColumns,
        members: Sequence[I64],
    ) -> dict[int, str]:
        """Return the controller's message for each lane with an ambiguous selector.

        Args:
            reached: which of them compute their metrics in this pass.
            pods: as in the cluster's cache.
            members: by lane the slots of the pods that its selector matches.
        """
        if not self._profile.ambiguity_checked:
            return {}
        # A recreated HPA is registered again.
        present = {lane.key for lane in lanes if not lane.recreated}
        for key in [key for key in self._known if key not in present]:
            del self._known[key]
        current = {lane.key: _selector(lane) for lane in lanes}
        moved, moved_on = self._moved(current, pods)
        owners: dict[int, set[LaneKey]] = {}
        for lane, slots in zip(lanes, members, strict=True):
            for slot in slots.tolist():
                owners.setdefault(slot, set()).add(lane.key)
        found: dict[int, str] = {}
        for h, lane in enumerate(lanes):
            if not reached[h]:
                continue
            self._known[lane.key] = current[lane.key]
            moved.discard(lane.key)
            others: set[LaneKey] = set()
            for slot in members[h].tolist():
                if len(owners[slot]) > 1:
                    others |= {o for o in owners[slot] if self._known.get(o) == current[o]}
                if slot in moved_on:
                    others |= moved_on[slot] & moved
            others.discard(lane.key)
            if others:
                names = sorted(f"{namespace}/{name}" for namespace, name in (lane.key, *others))
                found[h] = ambiguous_selector(current[lane.key], names, self._profile)
        return found

    def _moved(
        self, current: Mapping[LaneKey, str], pods: PodColumns
    ) -> tuple[set[LaneKey], dict[int, set[LaneKey]]]:
        """Return the HPAs whose selector changed since their last sync, and these by matched pod.

        The controller knows the selector of an HPA's last sync.
        """
        moved = {key for key, text in self._known.items() if text != current[key]}
        on: dict[int, set[LaneKey]] = {}
        for key in moved:
            selector = parse_selector(self._known[key], selector_words(self._profile))
            for slot in pods.matching(key[0], selector).tolist():
                on.setdefault(slot, set()).add(key)
        return moved, on


def _selector(lane: Lane) -> str:
    return lane.scale.selector if lane.scale is not None and not lane.scale.error else ""


_READ = (codes.SCALE_OK, codes.SCALE_UPDATE_FAILED)
_NEAR_PERIODS = 2  # before another's rescale: own recommendations that stand beside its own


class Decider:
    """Decides all HPAs of a cluster, pass by pass.

    Attributes:
        started: whether the next pass is the first with empty controller memory.
        restored_ms: time of the memory of an earlier loop that it began with; None: it was empty.
        owns: the HPAs are hpabatch's own documents; no other controller writes their statuses.
    """

    def __init__(
        self, profile: Profile, flags: ControllerFlags, saved: Saved | None = None
    ) -> None:
        """Begin."""
        self.owns = False
        self.restored_ms = None if saved is None else saved.saved_ms
        self.profile = profile
        self.flags = flags
        self.lanes = Lanes(profile)
        self.started = saved is None
        self._saved = saved
        self._now_ms = 0
        self._last: PassResult | None = None
        self._replicas: list[int] = []
        self._zeros: list[str] = []
        self._registry = Registry(profile)
        self._columns = Columns([], PodColumns({}), {}, flags, profile)
        self._memory: Memory = new_memory(0)
        self._at: dict[LaneKey, int] = {}  # places of HPAs in it
        self._undo: Memory | None = None
        self._unapplied: dict[tuple[Kind, tuple[str, ...]], Change] = {}

    @property
    def has_passed(self) -> bool:
        """Whether there was a pass."""
        return self._last is not None

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes of the cluster, in their order."""
        for change in changes:
            self._unapplied.pop((change.kind, change.key), None)
            try:
                self.lanes.apply(change)
            except Exception as error:  # noqa: BLE001 - of this object, while all others are fine
                self._unapplied[change.kind, change.key] = change
                for key in self.lanes.affected_by(change):
                    self.lanes.leave_out(key, error)

    def decide(self, now_ms: int, responses: Responses) -> PassResult:
        """Decide every HPA at an instant, from all applied changes and these responses.

        An HPA whose data raise an error is left out, and is a problem of the result.
        """
        back = self.lanes.retry()
        unapplied = self._unapplied.values()
        self.apply([one for one in unapplied if self.lanes.affected_by(one) & back])
        try:
            result = self._attempt(now_ms, responses)
        except Exception as error:  # noqa: BLE001 - of any HPA
            self._isolate(back, now_ms, responses, error)
            result = self._attempt(now_ms, responses)
        lanes = self._columns.lanes
        self._replicas = [-1 if lane.replicas is None else lane.replicas for lane in lanes]
        self._zeros = [lane.zero for lane in lanes]
        self.lanes.close_pass(now_ms)
        self.started = False
        return result

    def _isolate(
        self, back: Set[LaneKey], now_ms: int, responses: Responses, error: Exception
    ) -> None:
        """Leave out the HPAs whose data raise an error, first those that were left out before.

        Raises:
            Exception: that error, if it is of no single HPA.
        """
        if self._undo is not None:  # what was done to the memory by the rules
            self._memory, self._undo = self._undo, None
        suspects = [lane.key for lane in self.lanes]

        def failure(keys: Sequence[LaneKey]) -> Exception | None:
            trial = copy.copy(self)
            trial.lanes, trial._registry = self.lanes.part(keys), copy.deepcopy(self._registry)
            try:
                trial._attempt(now_ms, responses)
            except Exception as failed:  # noqa: BLE001 - is returned
                return failed
            return None

        found = culprits([key for key in suspects if key in back], failure)
        rest = [key for key in suspects if key not in found]
        if failure(rest):
            found |= culprits(rest, failure)
        if not found or len(found) == len(suspects) > 1:
            raise error
        for key, own in found.items():
            self.lanes.leave_out(key, own)

    def leave_out_unexplained(self) -> None:
        """Leave out the HPAs of the last pass whose sentence, events or status raise an error."""
        last = self._last
        if last is None:
            return
        for words in (last.why, last.events), (last.document,):
            found: dict[LaneKey, Exception] = {}
            for h, key in enumerate(zip(last.namespaces, last.names, strict=True)):
                try:
                    for word in words:
                        word(h)
                except Exception as error:  # noqa: BLE001 - of this HPA
                    found[key] = error
            if found:
                break
        if len(found) < len(last):
            for key, raised in found.items():
                self.lanes.leave_out(key, raised)

    def _attempt(self, now_ms: int, responses: Responses) -> PassResult:
        self._now_ms, self._undo = now_ms, None
        self.lanes.settle_times(now_ms)
        self.lanes.drop_gone()
        lanes = list(self.lanes)
        if self._saved is not None:
            self._memory = memory_of([lane.memory for lane in self._saved.lanes])
            self._at, self._saved = self._take_up(self._saved, lanes), None
        pods = PodColumns(self.lanes.pods)
        columns = Columns(lanes, pods, responses, self.flags, self.profile)
        source = [-1 if lane.fresh else self._at.get(lane.key, -1) for lane in lanes]
        self._memory = moved(self._memory, np.array(source, np.int64), columns.changes)
        self._columns, self._at = columns, {lane.key: h for h, lane in enumerate(lanes)}
        for h, lane in enumerate(lanes):
            if lane.fresh:
                seed_status(self._memory, h, lane.status)
        self._follow()
        self._fill_ticks(now_ms)
        # ScaledToZero is the cluster's where its own controller does the writes.
        if takes_zero(self.profile) and not self.owns:
            for h, lane in enumerate(lanes):
                zero = zero_of(lane.status)
                if zero != lane.zero and not lane.fresh:
                    take_zero(self._memory.head[h], zero)
                lane.zero = zero
        self._undo = copied(self._memory)
        result = self._run(self._memory.head.copy())
        if not self.lanes.leads:
            self._undo = None
        return result

    def _take_up(self, saved: Saved, lanes: Sequence[Lane]) -> dict[LaneKey, int]:
        """Take up the lanes of an earlier loop; return their places in its controller memory.

        An HPA recreated meanwhile keeps what it would have kept between two passes.
        """
        at = {(before.namespace, before.name): k for k, before in enumerate(saved.lanes)}
        for lane in lanes:
            if lane.key not in at:
                continue
            before, lane.fresh = saved.lanes[at[lane.key]], False
            lane.recreated, lane.zero = before.uid != lane.uid, before.zero
            if before.selector is not None:
                self._registry.restore(lane.key, before.selector)
            if before.replicas >= 0 and before.target == lane.target:
                self.lanes.recall_size(lane, before.replicas)
        return at

    def note_zeros(self, scaled: Container[LaneKey] = ()) -> None:
        """Take over which of the targets of size zero hpabatch has scaled to zero.

        Args:
            scaled: those of these HPAs, beside those whose status says it.
        """
        for h, lane in enumerate(self._columns.lanes):
            is_ours = lane.key in scaled or zero_of(lane.status) == "True"
            if is_ours and lane.replicas == 0 and takes_zero(self.profile):
                take_zero(self._memory.head[h], "True")

    def redecide(
        self, failed: Mapping[int, str], parts: Mapping[int, int] = MappingProxyType({})
    ) -> PassResult:
        """Decide the last pass again, of which some writes failed, from the same memory.

        So statuses, events and memory are those of the rules for a write that fails: no scale event
        is stored, the recommendation is.

        Args:
            failed: errors of the writes, by lane of the last pass.
            parts: the sizes that were written instead of the decided ones, by lane.
        """
        last, ticks = self._last, self._columns.ticks
        if last is None or self._undo is None:
            raise AssertionError("only a leader's pass is decided again, at most once")
        rows = self._columns.tick_rows
        for h, text in failed.items():
            ticks.scale[rows[h]] = codes.SCALE_UPDATE_FAILED
            ticks.scale_text[rows[h]] = self._columns.texts.number(text)
        self._memory, self._undo = self._undo, None
        result = replace(self._run(self._memory.head.copy(), parts), start=last.start)
        self._last = result
        return result

    def _run(self, head_before: I64, parts: Mapping[int, int] = MappingProxyType({})) -> PassResult:
        """Decide the ticks as filled; `head_before` is the memory's head from before."""
        columns = self._columns
        replay_newest(columns.fleet, self._memory, True, columns.results)
        decisions, rows = columns.results.decisions, columns.tick_rows
        for h, size in parts.items():
            decisions["desired"][rows[h]] = decisions["limited"][rows[h]] = size
            self._memory.head[h, HEAD_STATUS_DESIRED] = size
        words = PassWords(columns, self.profile, head_before)
        self._last = result = self._result(self._now_ms, words)
        return result

    def outcomes(self) -> dict[LaneKey, list[Outcome]]:
        """Return the outcome of the last pass for each metric of every HPA's spec as read."""
        return self._columns.outcomes()

    def save(self, path: Path, what: str) -> None:
        """Write the controller memory to a file (UsageError: it cannot be written)."""
        save(path, Saved(self._now_ms, self._passed(), what))

    def _passed(self) -> list[SavedLane]:
        """Return the HPAs as of the last pass, without later changes."""
        said = self._last
        if said is None:
            return []
        memories = remembered(self._memory)
        return [
            SavedLane(
                namespace=namespace, name=name, uid=said.uids[h], target=said.targets[h],
                replicas=self._replicas[h], selector=self._registry.known((namespace, name)),
                zero=self._zeros[h], memory=memories[h],
            )
            for h, (namespace, name) in enumerate(zip(said.namespaces, said.names, strict=True))
        ]  # fmt: skip

    # ---- ticks

    def _fill_ticks(self, now_ms: int) -> None:
        """Write the TICK records of this pass; those of the last pass only need their spec."""
        columns, lanes = self._columns, self._columns.lanes
        ticks, rows = columns.ticks, columns.tick_rows
        ticks.spec[rows - 1], ticks.spec[rows] = columns.spec_before, columns.spec_now
        ticks.now_ms[rows] = now_ms
        ticks.first_row[rows], ticks.last_row[rows] = columns.first_row[:-1], columns.first_row[1:]
        number = columns.texts.number
        scale = [_scale_code(lane) for lane in lanes]
        size = [lane.replicas or 0 for lane in lanes]
        selector = [lane.selector for lane in lanes]
        said = [number(lane.selector_error) for lane in lanes]
        reached = metrics_reached(
            np.array(size, np.int64),
            np.array([least_of(lane.spec.min_replicas) for lane in lanes], np.int64),
            np.array([lane.spec.max_replicas for lane in lanes], np.int64),
            np.array(scale, np.int64) == codes.SCALE_OK,
            np.array(selector, np.int64) == codes.SELECTOR_OK,
        )
        ambiguous = self._registry.check(lanes, reached.tolist(), columns.pods, columns.members)
        for h, text in ambiguous.items():
            selector[h], said[h] = codes.SELECTOR_AMBIGUOUS, number(text)
        ticks.scale[rows], ticks.replicas[rows] = scale, size
        ticks.status_replicas[rows] = [lane.status_replicas for lane in lanes]
        ticks.scale_text[rows] = [number(lane.scale.error if lane.scale else "") for lane in lanes]
        ticks.selector[rows], ticks.selector_text[rows] = selector, said
        ticks.recreated[rows] = [lane.recreated for lane in lanes]

    def _follow(self) -> None:
        """Take over the rescales of other instances of hpabatch, as their recommendations."""
        lanes = self._columns.lanes
        to_zero = {lane.key for lane in lanes if lane.rescales and lane.rescales[-1][2] == 0}
        if self.lanes.attributed and to_zero:
            self.note_zeros(to_zero)
        for h, lane in enumerate(lanes):
            rescales, lane.rescales = lane.rescales, []
            if lane.fresh or not self.lanes.attributed:
                continue
            ups = [rescale for rescale in rescales if rescale[2] > rescale[1]]
            for rescale in rescales:
                if rescale not in ups[:-1]:  # there is room for one addition
                    since_ms = rescale[0] - _NEAR_PERIODS * self.flags.sync_period_ms
                    follow_rescale(self._memory, h, *rescale, since_ms)

    # ---- the result

    def _result(self, now_ms: int, words: PassWords) -> PassResult:
        columns, lanes = self._columns, self._columns.lanes
        ticks, rows = columns.ticks, columns.tick_rows
        decisions = columns.results.decisions[rows].view(np.recarray)
        scale = np.array(ticks.scale[rows], np.int64)
        desired = [
            NO_STATUS if lane.status.is_unwritten else lane.status.desired_replicas
            for lane in lanes
        ]
        return PassResult(
            now_ms=now_ms,
            namespaces=[lane.key[0] for lane in lanes],
            names=[lane.key[1] for lane in lanes],
            uids=[lane.uid for lane in lanes],
            targets=[lane.target for lane in lanes],
            decisions=decisions,
            spec_replicas=np.array(ticks.replicas[rows] * np.isin(scale, _READ)),
            theirs_desired=np.array(desired, np.int64),
            current_before=words.current_before,
            action=reconcile_actions(decisions),
            error=np.array(
                [ERRORS.index(words.error_label(h)) for h in range(len(lanes))], np.int8
            ),
            metrics=columns.metrics(),
            why=words.why,
            document=words.document,
            events=words.events,
            problems=self.lanes.problems,
            start=self.started,
        )


def _scale_code(lane: Lane) -> int:
    if lane.scale is None:
        return codes.SCALE_UNKNOWN
    return lane.scale.code if lane.scale.error else codes.SCALE_OK
