"""Limits of a pass's writes: kill switch, number of changes, vanished metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


class Limits(NamedTuple):
    """Limits of one pass.

    Attributes:
        most_targets: whose size changes.
        most_replicas: sum of the changes.
        most_vanished_pct: share of the metrics that vanished, above which no size changes.
    """

    most_targets: int = 100
    most_replicas: int = 1000
    most_vanished_pct: int = 50


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
    """A size that a pass would write, of a lane."""

    h: int
    key: LaneKey
    before: int
    after: int


class Queue:
    """Changes that wait because of a limit; in the next pass the longest wait goes first."""

    def __init__(self, limits: Limits) -> None:
        """Begin with no change."""
        self._limits = limits
        self._waited: dict[LaneKey, int] = {}
        self._before: dict[LaneKey, int] = {}

    def of_pass(
        self, changes: Iterable[Change], target: Callable[[Change], ScaleKey], vanished: str
    ) -> tuple[list[Change], dict[int, str]]:
        """Return the changes of this pass, and of the others by lane why they wait.

        Args:
            changes: what was decided.
            target: of a change.
            vanished: why no size may change in this pass, "" if sizes may.
        """
        if vanished:
            return [], {c.h: f"hpabatch: waits: {vanished}" for c in changes}
        single, shared = first_of_each(changes, target)
        taken, waits = self.admit(single)
        return taken, waits | shared

    def admit(self, changes: Iterable[Change]) -> tuple[list[Change], dict[int, str]]:
        """Return the changes of this pass, and of the others by lane why they wait."""
        ordered = sorted(changes, key=lambda c: (-self._waited.get(c.key, 0), c.key))
        taken: list[Change] = []
        waits: dict[int, str] = {}
        replicas = 0
        for change in ordered:
            count = abs(change.after - change.before)
            if len(taken) >= self._limits.most_targets:
                made = f"this pass has changed {counted(len(taken), 'target')}"
                said = f"--most-targets {self._limits.most_targets}: {made}"
                waits[change.h] = f"hpabatch: waits: {said}"
            elif replicas + count > self._limits.most_replicas:
                more = f"{counted(count, 'more replica')} would exceed it"
                said = f"--most-replicas {self._limits.most_replicas}: {more}"
                waits[change.h] = f"hpabatch: waits: {said}"
            else:
                taken.append(change)
                replicas += count
        self._before = self._waited
        self._waited = {c.key: self._waited.get(c.key, 0) + 1 for c in ordered if c.h in waits}
        return taken, waits

    def put_back(self, changes: Iterable[Change]) -> None:
        """Take note that admitted changes were not begun: they have waited, too."""
        for change in changes:
            self._waited[change.key] = self._before.get(change.key, 0) + 1


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
