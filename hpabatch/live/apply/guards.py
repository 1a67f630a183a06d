"""Guards of writes: kill switch, annotation, gate, limits.

An HPA that is left alone is decided as in the shadow: no size, status or event is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Final, NamedTuple

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import WriteClient
from hpabatch.live.apply.lease import Election
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.scales import Fence, Outcome, Written
from hpabatch.live.passes.lanes import Lane, LaneKey
from hpabatch.model.objects.decode_fields import show_value
from hpabatch.model.printable import counted

SWITCH: Final = "hpabatch-apply"
KEY: Final = "stop"
ANNOTATION: Final = "hpabatch/apply"
"""With the value "off" on an HPA, its target is not scaled."""
_GO: Final = ("", "false", "no", "off", "0")
_TIMEOUT_S: Final = 3.0
_NO_MORE: Final = "no more replicas are removed within ten minutes"
_MOST_S: Final = 20.0
"""With the requests that go on then, statuses and lease, a stop ends within a pod's 60 s."""
_LOOK_S: Final = 3.0


def read_switch(client: WriteClient, namespace: str) -> str:
    """Return why the kill switch forbids writes, "" if it does not.

    It is the key `stop` of the ConfigMap hpabatch-apply. One that cannot be read forbids writes,
    and one that does not exist or has anything else in it: a misspelled key was meant to stop them.
    """
    place = f"ConfigMap {namespace}/{SWITCH}"
    path = f"/api/v1/namespaces/{namespace}/configmaps/{SWITCH}"
    try:
        found = client.read(path, _TIMEOUT_S)
    except NotFound:
        return (
            f"the kill switch does not exist: kubectl create configmap {SWITCH} -n {namespace} "
            f"--from-literal={KEY}=false"
        )
    except ApiError as error:
        return f"the kill switch ({place}) cannot be read: {error.text}"
    data = found.get("data") or {}
    others = sorted(data.keys() - {KEY}) + [
        f"binaryData.{k}" for k in found.get("binaryData") or ()
    ]
    if others:
        return (
            f"the kill switch is on: expected only the key {KEY} in data of {place}, got "
            f"{show_value(', '.join(others))}; remove it"
        )
    value = str(data.get(KEY, "")).strip()
    if value.lower() in _GO:
        return ""
    return f"the kill switch is on: {KEY} of {place} is {show_value(value)}"


def opted_out(lane: Lane) -> str:
    """Return why an HPA's annotation forbids writes, "" if it does not; anything but "on" does."""
    value = dict(lane.item.hpa.annotations).get(ANNOTATION)
    if value is None or value.strip().lower() in ("on", "true"):
        return ""
    return f"its annotation {ANNOTATION} is {show_value(value)}"


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
        part: why it is only a part of what was decided, "" if it is all of it.
    """

    h: int
    key: LaneKey
    before: int
    after: int
    part: str = ""


class Gate:
    """Lets writes of a pass begin until its time is over or the switch forbids them.

    One thread calls `begin` and `carry`; several may ask `refusal`.
    """

    def __init__(
        self,
        period_s: float,
        fence: Fence,
        switch: Callable[[], str],
        *,
        log: Callable[[], str] = lambda: "",
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            period_s: of the passes: no write of one begins later, nor after 20 s.
            switch: returns why the kill switch forbids writes, "" if it does not.
            log: returns why the log of writes cannot be written, "" if it can be.
            clock: monotonic seconds.
        """
        self.period_s = period_s
        self._longest_s, self._look_s = min(period_s, _MOST_S), look_s
        self._fence, self._switch, self._log, self._clock = fence, switch, log, clock
        self._until = 0.0
        self._closed, self._term = "no pass was made yet", 0

    def begin(self, refusal: str) -> None:
        """Begin a pass, in which writes are forbidden for that reason, "": they may begin."""
        self._closed, self._term = refusal, self._fence.term

    def close(self, refusal: str) -> None:
        """Forbid further writes until the next pass begins; any thread may call."""
        self._closed = refusal

    @property
    def term(self) -> int:
        """Count of the times that this process took the lease."""
        return self._fence.term

    def refusal(self, longest_s: float) -> str:
        """Return why a writing request of at most `longest_s` may not begin, "" if it may."""
        if not self._closed and self._fence.term != self._term:
            return "this process has lost the lease since the pass began"
        return self._closed or self._log() or self._fence.refusal(longest_s)

    def carry(
        self, pool: Executor, write: Callable[[Change], Written], changes: Sequence[Change]
    ) -> list[Written]:
        """Make the writes of a pass; those that cannot begin in time wait for the next pass."""
        self._until = self._clock() + self._longest_s
        writes = [pool.submit(self._one, write, change) for change in changes]
        pending: set[Future[Written]] = set(writes)
        while pending:
            if not self._closed:
                self._closed = self._look()  # it was read before the decisions, beside the metrics
            pending = wait(pending, self._look_s)[1]
        return [one.result() for one in writes]

    def _look(self) -> str:
        try:
            return self._switch()
        except Exception as error:  # noqa: BLE001 - what was written must be booked
            return f"the kill switch: {type(error).__name__}: {error}"

    def _one(self, write: Callable[[Change], Written], change: Change) -> Written:
        why = self._closed
        if not why and self._clock() >= self._until:
            why = f"writes of a pass begin within {self._longest_s:g} s, and others came first"
        if why:
            return Written(Outcome.WAITS, f"hpabatch: waits: {why}")
        return write(change)


class Removals:
    """The replicas that may yet be removed, where a share of them may be within ten minutes.

    The whole is what there would be without the removals: the present size and what was removed.
    Changes by others count as no removal. Of all targets together a pass may remove at least what
    it may remove of one of them: otherwise a small fleet would never shrink.
    """

    def __init__(self, limits: ApplyOptions, removed: Mapping[LaneKey, int], present: int) -> None:
        """Prepare a pass.

        Args:
            removed: replicas that were removed within ten minutes, by HPA.
            present: the sum of the sizes of all targets that are acted on.
        """
        self._limits, self._removed = limits, dict(removed)
        self.total = sum(removed.values())
        self.whole = present + self.total
        self._most = _share(limits.most_removed_fleet, self.whole)

    def begin(self, changes: Iterable[Change]) -> None:
        """Take the changes that were decided."""
        whole = [c.before + self._removed.get(c.key, 0) for c in changes if c.after < c.before]
        most = _share(self._limits.most_removed, max(whole, default=0))
        self._most = max(self._most, most)

    def left(self, change: Change) -> tuple[int, str]:
        """Return how many replicas a scale-down may remove, and the limit that says so."""
        removed = self._removed.get(change.key, 0)
        own = _share(self._limits.most_removed, change.before + removed) - removed
        fleet = self._most - self.total
        if own <= fleet:
            return max(own, 0), f"--most-removed {self._limits.most_removed}: {_NO_MORE}"
        share = self._limits.most_removed_fleet
        return max(fleet, 0), f"--most-removed-fleet {share}: of all targets {_NO_MORE}"

    def take(self, change: Change) -> None:
        """Count a scale-down."""
        count = change.before - change.after
        self._removed[change.key] = self._removed.get(change.key, 0) + count
        self.total += count


def _share(pct: int, whole: int) -> int:
    return -(-pct * whole // 100)


class Queue:
    """Changes that wait because of a limit; in the next pass the longest wait goes first.

    Attributes:
        problem: why scale-downs were held back by the last call of `admit`, "" if none was.
    """

    def __init__(self, limits: ApplyOptions) -> None:
        self._limits = limits
        self._waited: dict[LaneKey, int] = {}
        self._before: dict[LaneKey, int] = {}
        self.problem = ""

    def admit(
        self, changes: Iterable[Change], removals: Removals
    ) -> tuple[list[Change], dict[int, str]]:
        """Return the changes of this pass, and of the others by lane why they wait.

        A change that exceeds a limit is cut down to what the limit leaves.
        """
        ordered = sorted(changes, key=lambda c: (-self._waited.get(c.key, 0), c.key))
        removals.begin(ordered)
        limits = self._limits
        more = f"--most-replicas {limits.most_replicas}: a pass changes no more"
        taken: list[Change] = []
        waits: dict[int, str] = {}
        replicas = held_back = 0
        for change in ordered:
            left, said = limits.most_replicas - replicas, more
            if change.after < change.before:
                left, said = min((left, said), removals.left(change))
            count = abs(change.after - change.before)
            if left < count:
                held_back += said.startswith("--most-removed")
                part = f"a part of {change.before} -> {change.after}: {said}"
                after = change.before + (left if change.after > change.before else -left)
                change = change._replace(after=after, part=part)
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

    def _problem(self, held_back: int, removals: Removals) -> str:
        if not held_back:
            return ""
        limits = self._limits
        return (
            f"{counted(held_back, 'scale-down')} held back: {removals.total} of {removals.whole} "
            f"replicas removed within ten minutes (--most-removed {limits.most_removed}, "
            f"--most-removed-fleet {limits.most_removed_fleet})"
        )

    def put_back(self, changes: Iterable[Change]) -> None:
        """Take note that admitted changes were not begun: they have waited, too."""
        for change in changes:
            self._waited[change.key] = self._before.get(change.key, 0) + 1
