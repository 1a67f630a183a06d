"""Limits of writes: kill switch, number of changes, removed replicas, vanished metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import WriteClient
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.layout import codes
from hpabatch.live.apply.lease import Election, elapsed_s
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.live.passes.result import PassResult
from hpabatch.model.objects.decode_fields import show_value
from hpabatch.model.printable import counted

SWITCH: Final = "hpabatch-apply"
KEY: Final = "stop"
_GO: Final = ("", "false", "no", "off", "0")
_TIMEOUT_S: Final = 3.0
_REMEMBERED_S: Final = 300.0
_NO_MORE: Final = "no more replicas are removed within ten minutes"


class Limits(NamedTuple):
    """Limits of one pass, and of ten minutes.

    Attributes:
        most_targets: whose size changes.
        most_replicas: sum of the changes.
        most_vanished_pct: share of the metrics that vanished, above which no size changes.
        most_removed_pct: share of a target's replicas that is removed within ten minutes.
        most_removed_fleet_pct: the same of all targets together.
    """

    most_targets: int = 100
    most_replicas: int = 1000
    most_vanished_pct: int = 50
    most_removed_pct: int = 50
    most_removed_fleet_pct: int = 25


class Switch(NamedTuple):
    """The kill switch as last read.

    Attributes:
        refusal: why it forbids writes, "" if it does not.
        is_read: whether it could be read.
    """

    refusal: str
    is_read: bool = True


def read_switch(client: WriteClient, namespace: str) -> Switch:
    """Return the kill switch: the key `stop` of the ConfigMap hpabatch-apply.

    One that cannot be read forbids writes, and one that does not exist or has anything else in it:
    a misspelled key was meant to stop them.
    """
    place = f"ConfigMap {namespace}/{SWITCH}"
    path = f"/api/v1/namespaces/{namespace}/configmaps/{SWITCH}"
    try:
        found = client.read(path, _TIMEOUT_S)
    except NotFound:
        return Switch(
            f"the kill switch does not exist: kubectl create configmap {SWITCH} -n {namespace} "
            f"--from-literal={KEY}=false"
        )
    except ApiError as error:
        return Switch(f"the kill switch ({place}) cannot be read: {error.text}", is_read=False)
    data = found.get("data") or {}
    others = sorted(data.keys() - {KEY}) + [
        f"binaryData.{k}" for k in found.get("binaryData") or ()
    ]
    if others:
        return Switch(
            f"the kill switch is on: expected only the key {KEY} in data of {place}, got "
            f"{show_value(', '.join(others))}; remove it"
        )
    value = str(data.get(KEY, "")).strip()
    if value.lower() in _GO:
        return Switch("")
    return Switch(f"the kill switch is on: {KEY} of {place} is {show_value(value)}")


def switch_refusal(client: WriteClient, namespace: str) -> str:
    """Return why the kill switch forbids writes, "" if it does not."""
    return read_switch(client, namespace).refusal


def lease_refusal(election: Election) -> str:
    """Return the sentence about a lease that this process did not hold as the pass began."""
    if election.leads:
        return "this process has taken the lease since the pass began"
    if election.holder == election.candidate.identity:
        return "the lease of this process has expired, and it has not renewed it yet"
    return f"{election.leader or 'nobody'} has the lease"


class Change(NamedTuple):
    """A size that a pass would write, of a lane.

    Attributes:
        h: the lane, `key` its HPA.
        before, after: the sizes.
        part: why it is only a part of what was decided, "" if it is all of it.
    """

    h: int
    key: LaneKey
    before: int
    after: int
    part: str = ""


class Removals:
    """The replicas that may yet be removed, where a share of them may be within ten minutes.

    The whole is what there would be without the removals: the present size and what was removed.
    Changes by others count as no removal. Of all targets together a pass may remove at least what
    it may remove of one of them: otherwise a small fleet would never shrink.
    """

    def __init__(self, limits: Limits, removed: Mapping[LaneKey, int], present: int) -> None:
        """Prepare a pass.

        Args:
            limits: the shares.
            removed: replicas that were removed within ten minutes, by HPA.
            present: the sum of the sizes of all targets that are acted on.
        """
        self._limits, self._removed = limits, dict(removed)
        self.total = sum(removed.values())
        self.whole = present + self.total
        self._most = _share(limits.most_removed_fleet_pct, self.whole)

    def begin(self, changes: Iterable[Change]) -> None:
        """Take the changes that were decided."""
        whole = [c.before + self._removed.get(c.key, 0) for c in changes if c.after < c.before]
        most = _share(self._limits.most_removed_pct, max(whole, default=0))
        self._most = max(self._most, most)

    def left(self, change: Change) -> tuple[int, str]:
        """Return how many replicas a scale-down may remove, and the limit that says so."""
        removed = self._removed.get(change.key, 0)
        own = _share(self._limits.most_removed_pct, change.before + removed) - removed
        fleet = self._most - self.total
        if own <= fleet:
            return max(own, 0), f"--most-removed {self._limits.most_removed_pct}: {_NO_MORE}"
        share = self._limits.most_removed_fleet_pct
        return max(fleet, 0), f"--most-removed-fleet {share}: of all targets {_NO_MORE}"

    def take(self, change: Change) -> None:
        """Count a scale-down."""
        count = change.before - change.after
        self._removed[change.key] = self._removed.get(change.key, 0) + count
        self.total += count


def _share(pct: int, whole: int) -> int:
    """Return a share, rounded up."""
    return -(-pct * whole // 100)


class Queue:
    """Changes that wait because of a limit; in the next pass the longest wait goes first.

    Attributes:
        problem: why scale-downs were held back in the last pass, "" if none was.
    """

    def __init__(self, limits: Limits) -> None:
        """Begin with no change."""
        self._limits = limits
        self._waited: dict[LaneKey, int] = {}
        self._before: dict[LaneKey, int] = {}
        self.problem = ""

    def of_pass(
        self, changes: Iterable[Change], target: Callable[[Change], ScaleKey], vanished: str,
        removals: Removals,
    ) -> tuple[list[Change], dict[int, str]]:  # fmt: skip
        """Return the changes of this pass, and of the others by lane why they wait.

        Args:
            changes: what was decided.
            target: of a change.
            vanished: why no size may change in this pass, "" if sizes may.
            removals: of ten minutes.
        """
        self.problem = ""
        if vanished:
            return [], {c.h: f"hpabatch: waits: {vanished}" for c in changes}
        single, shared = first_of_each(changes, target)
        taken, waits = self.admit(single, removals)
        return taken, waits | shared

    def admit(
        self, changes: Iterable[Change], removals: Removals
    ) -> tuple[list[Change], dict[int, str]]:
        """Return the changes of this pass, and of the others by lane why they wait.

        A change that exceeds a limit is cut down to what the limit leaves.
        """
        ordered = sorted(changes, key=lambda c: (-self._waited.get(c.key, 0), c.key))
        removals.begin(ordered)
        taken: list[Change] = []
        waits: dict[int, str] = {}
        replicas = held_back = 0
        for change in ordered:
            left, said = self._left(change, len(taken), replicas, removals)
            count = abs(change.after - change.before)
            if left < count:
                held_back += said.startswith("--most-removed")
                change = _cut(change, left, said)
            if not left:
                waits[change.h] = f"hpabatch: waits: {said}"
                continue
            taken.append(change)
            replicas += min(left, count)
            if change.after < change.before:
                removals.take(change)
        self.problem = self._problem(held_back, removals)
        self._before = self._waited
        self._waited = {c.key: self._waited.get(c.key, 0) + 1 for c in ordered if c.h in waits}
        return taken, waits

    def _left(
        self, change: Change, targets: int, replicas: int, removals: Removals
    ) -> tuple[int, str]:
        """Return how many replicas a change may add or remove, and the limit that says so."""
        limits = self._limits
        if targets >= limits.most_targets:
            made = f"this pass has changed {counted(targets, 'target')}"
            return 0, f"--most-targets {limits.most_targets}: {made}"
        said = f"--most-replicas {limits.most_replicas}: a pass changes no more"
        left = limits.most_replicas - replicas, said
        return left if change.after > change.before else min(left, removals.left(change))

    def _problem(self, held_back: int, removals: Removals) -> str:
        if not held_back:
            return ""
        limits = self._limits
        return (
            f"{counted(held_back, 'scale-down')} held back: {removals.total} of {removals.whole} "
            f"replicas removed within ten minutes (--most-removed {limits.most_removed_pct}, "
            f"--most-removed-fleet {limits.most_removed_fleet_pct})"
        )

    def put_back(self, changes: Iterable[Change]) -> None:
        """Take note that admitted changes were not begun: they have waited, too."""
        for change in changes:
            self._waited[change.key] = self._before.get(change.key, 0) + 1


def _cut(change: Change, left: int, said: str) -> Change:
    """Return the part of a change that adds or removes so many replicas."""
    after = change.before + (left if change.after > change.before else -left)
    return change._replace(after=after, part=f"a part of {change.before} -> {change.after}: {said}")


def first_of_each(
    changes: Iterable[Change], target: Callable[[Change], ScaleKey]
) -> tuple[list[Change], dict[int, str]]:
    """Return at most one change of each target, and of the others by lane why they wait.

    Two HPAs on one target would overwrite each other's size within a pass: a conflict is no
    protection, since the second attempt reads the new size.
    """
    found: dict[ScaleKey, Change] = {}
    waits: dict[int, str] = {}
    for change in sorted(changes, key=lambda c: c.key):
        first = found.setdefault(target(change), change)
        if first is not change:
            name = "/".join(first.key)
            waits[change.h] = f"hpabatch: waits: {name} changes the same target in this pass"
    return list(found.values()), waits


class Vanished:
    """Share of the metrics that worked within the last five minutes and do not now.

    A metric that has failed for five minutes counts as gone: sizes change again without it. Steps
    of the system's clock do not matter.
    """

    def __init__(self, most_pct: int, clock: Callable[[], float] = elapsed_s) -> None:
        """Begin without metrics; `clock` has monotonic seconds."""
        self._most_pct, self._clock = most_pct, clock
        self._worked: dict[tuple[str, str, str, int], float] = {}  # when last, on the clock

    def refusal(self, result: PassResult) -> str:
        """Take a pass; return why it may change no size, "" if it may."""
        now, names = self._clock(), _names(result)
        code = result.metrics.code
        fine = {names[m] for m in np.flatnonzero(code == codes.METRIC_OK).tolist()}
        present = set(names)
        skipped = {names[m] for m in np.flatnonzero(code == codes.METRIC_NOT_COMPUTED).tolist()}
        lost = [
            name
            for name, at in self._worked.items()
            if name in present and name not in fine and name not in skipped
            and now - at <= _REMEMBERED_S
        ]  # fmt: skip
        total = len(fine) + len(lost)
        kept = {
            name: at
            for name, at in self._worked.items()
            if name in present and now - at <= _REMEMBERED_S
        }
        self._worked = kept | dict.fromkeys(fine, now)
        if 100 * len(lost) <= self._most_pct * total:
            return ""
        return (
            f"{len(lost)} of {total} metrics that worked within five minutes fail now, more than "
            f"--most-vanished {self._most_pct} %: no size changes in this pass"
        )


def _names(result: PassResult) -> Sequence[tuple[str, str, str, int]]:
    """Return (namespace, name, uid, number in the spec) of each metric."""
    start = result.metrics.start
    return [
        (result.namespaces[h], result.names[h], result.uids[h], m - int(start[h]))
        for h in range(len(result))
        for m in range(int(start[h]), int(start[h + 1]))
    ]
