"""Other instances of hpabatch that have a Lease of their own, in another namespace.

Instances of one Lease take turns. Those of different Leases may act side by side as long as they
act on different targets. So each writes into the annotation of its Lease what it acts on, and in
every pass reads all Leases of that name. A target that another one names is that one's. A target
is written only if the own Lease has named it since before the last reading: of two that begin at
once, at least one sees the other.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hpabatch.cluster.connection.errors import ApiError, Refused
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.live.apply.lease import ANNOTATION, LONGEST_S, Election, is_given_up
from hpabatch.live.passes.lanes import LaneKey

_FORBIDDEN: Final = 403
_PATH: Final = "/apis/coordination.k8s.io/v1/leases"
_TIMEOUT_S: Final = 4.0
_MARK_BYTES: Final = 6
_MARK_CHARS: Final = 8
_MOST_TARGETS: Final = 1000
"""More targets are named by their namespaces: a Lease is written every few seconds."""
_MOST_NAMED: Final = 5
_MISMATCHES: Final = 4
_DURATIONS: Final = 3
"""After so many durations without a renewal a Lease is nobody's; a fail-over takes one or two."""


class _Seen(NamedTuple):
    """A Lease of another namespace as read last.

    Attributes:
        version: of the object.
        holder: "": nobody.
        claim: its way and marks; None: it names nothing.
        lasts_s: its duration.
        changed_s: when it was seen to change (on the clock).
    """

    version: str
    holder: str
    claim: tuple[str, set[str]] | None
    lasts_s: float
    changed_s: float

    @property
    def is_new(self) -> bool:
        """Return whether nobody has held it yet."""
        return self.claim is None and not self.holder

    def is_younger(self, durations: int, now: float) -> bool:
        """Return whether it has changed within so many of its durations."""
        return now - self.changed_s < durations * self.lasts_s


class Owner(NamedTuple):
    """Another instance that acts on a target: its Lease, and the holder; "": it has ended."""

    lease: str
    holder: str

    def sentence(self, keys: Sequence[LaneKey]) -> str:
        """Return the sentence about HPAs that are left to it."""
        named = ", ".join("/".join(key) for key in keys[:_MOST_NAMED])
        more = f" and {len(keys) - _MOST_NAMED} more" if keys[_MOST_NAMED:] else ""
        whose, are = ("target", "is") if len(keys) == 1 else ("targets", "are")
        if not self.holder:
            return (
                f"its holder has ended; the {whose} of {named}{more} {are} scaled here from the "
                "next pass on, unless another takes it"
            )
        return (
            f"{self.holder} scales the {whose} of {named}{more}, which {are} not scaled here: give "
            "both the same --own-namespace, or remove these HPAs from one of the two"
        )


@dataclass(frozen=True, slots=True)
class Claims:
    """What a pass may act on.

    Attributes:
        others: HPAs that are left to other instances.
        waiting: HPAs that the own Lease does not name yet.
    """

    others: Mapping[LaneKey, Owner]
    waiting: frozenset[LaneKey]

    def sentences(self) -> dict[str, str]:
        """Return the sentences about HPAs that are left to others, by Lease."""
        found: dict[Owner, list[LaneKey]] = {}
        for key, owner in sorted(self.others.items()):
            found.setdefault(owner, []).append(key)
        return {owner.lease: owner.sentence(keys) for owner, keys in found.items()}


class Neighbors:
    """The other instances, and the HPAs that are left to them. For one thread.

    Attributes:
        problem: why they cannot be seen, "" if they can.
        mismatch: why the leader of the own Lease has another job than this instance, "" if it has
            not, or this instance leads.
    """

    def __init__(
        self, client: WriteClient, election: Election, *, own_documents: bool,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        """Prepare; nothing is sent yet.

        Args:
            client: sends the requests.
            election: of the own Lease, whose annotation is for the others.
            own_documents: the way in which it acts; instances of different ways never have a target
                in common, since one of own documents leaves those of the cluster's HPAs alone.
            clock: monotonic seconds.
        """
        self.problem = self.mismatch = ""
        self._client, self._election, self._clock = client, election, clock
        self._way = "manifests" if own_documents else "take-over"
        self._seen: dict[str, _Seen] = {}
        self._others: dict[LaneKey, Owner] = {}
        self._leader: tuple[str, str] = "", ""  # of the own Lease: holder, and what it acts on
        self._mismatches = 0  # in consecutive passes
        self._held: set[LaneKey] = set()  # named by the own Lease, and by no other one before
        self._term = 0
        self._looked = False  # the last time: otherwise the own Lease names what was free long ago

    def look(self, targets: Mapping[LaneKey, ScaleKey]) -> Claims:
        """Read the other Leases, and let the own one name all targets that no other one names.

        Without a response the state stays, and nothing is added. Without the right to read them
        there are no others.

        Args:
            targets: of all HPAs.
        """
        named = _decoded(self._election.published) if self._election.leads else None
        if named is None or self._term != self._election.term:
            self._held, self._term = set(), self._election.term
        self._held &= targets.keys()
        self._others = {key: by for key, by in self._others.items() if key in targets}
        looked, self._looked = self._looked, self._read()
        if self._looked:
            self._share(targets, named[1] if named is not None and looked else set())
            self._compare(targets)
        waiting = targets.keys() - self._others.keys() - self._held
        return Claims(dict(self._others), frozenset(waiting))

    def _share(self, targets: Mapping[LaneKey, ScaleKey], named: set[str]) -> None:
        """Divide the targets; `named`: marks in the own Lease from before the reading."""
        self._others, now = {}, self._clock()
        # Of a Lease that was deleted and made again the last holder may write for a while.
        if any(one.is_new and one.is_younger(1, now) for one in self._seen.values()):
            named = set()
        for key in targets.keys() - self._held:
            marks = _marks(targets[key], self._way)
            by = self._claimed(marks)
            if by:
                self._others[key] = by
            elif not named.isdisjoint(marks):
                self._held.add(key)
        mine = [target for key, target in targets.items() if key not in self._others]
        self._election.claim = _encoded(self._way, mine)

    def _compare(self, targets: Mapping[LaneKey, ScaleKey]) -> None:
        """Find out whether the leader of the own Lease acts on other HPAs than this instance.

        For some passes it may: an HPA that is new is seen by one of the two first.
        """
        holder, claim = self._leader
        leader, mine = _decoded(claim), _decoded(self._election.claim)
        is_other = holder not in ("", self._election.candidate.identity)
        if not is_other or leader is None or mine is None or leader == mine:
            self._mismatches, self.mismatch = 0, ""
            return
        self._mismatches += 1
        if self._mismatches < _MISMATCHES:
            return
        left = sorted(
            key for key, target in targets.items()
            if key not in self._others
            and (leader[0] != self._way or leader[1].isdisjoint(_marks(target, self._way)))
        )  # fmt: skip
        named = ", ".join("/".join(key) for key in left[:_MOST_NAMED])
        more = f" and {len(left) - _MOST_NAMED} more" if left[_MOST_NAMED:] else ""
        unscaled = f", and nobody scales the targets of {named}{more}" if left else ""
        ways = f" (--{leader[0]} there, --{self._way} here)" if leader[0] != self._way else ""
        self.mismatch = (
            f"{holder} holds the lease and acts on other HPAs than this instance{ways}{unscaled}: "
            "give all instances of one lease the same options and documents, or this one another "
            "--own-namespace"
        )

    def _read(self) -> bool:
        """Read the other Leases; return whether they are known, or may not be read at all."""
        name = self._election.candidate.name
        try:
            found = self._client.read(_PATH, _TIMEOUT_S, {"fieldSelector": f"metadata.name={name}"})
        except ApiError as error:
            self.problem = (
                "instances of hpabatch in other namespaces, which have leases of their own, cannot "
                f"be seen: {error.text}"
            )
            return isinstance(error, Refused) and error.status == _FORBIDDEN
        self.problem = ""
        for lease in found.get("items") or []:
            namespace = str((lease.get("metadata") or {}).get("namespace"))
            seen = _seen(lease, self._seen.get(namespace), self._clock())
            if namespace == self._election.candidate.namespace:
                self._leader = seen.holder, _annotation(lease)
            else:
                self._seen[namespace] = seen
        return True

    def _claimed(self, marks: Collection[str]) -> Owner | None:
        """Return which other instance acts on a target of these marks, None: none.

        A released Lease that was never seen held names nothing: who takes it next is seen. One that
        was just released names its targets for a pass, in which another of its instances takes it.
        """
        now = self._clock()
        for namespace, seen in sorted(self._seen.items()):
            way, named = seen.claim or ("", set())
            if way != self._way or named.isdisjoint(marks):
                continue
            if seen.is_younger(_DURATIONS, now):
                return Owner(f"{namespace}/{self._election.candidate.name}", seen.holder)
        return None


def _seen(lease: Json, before: _Seen | None, now: float) -> _Seen:
    """Return a Lease as seen now."""
    metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
    version = str(metadata.get("resourceVersion"))
    if before is not None and before.version == version:
        return before
    claim, holder = _decoded(_annotation(lease)), str(spec.get("holderIdentity") or "")
    lasts_s = min(float(spec.get("leaseDurationSeconds") or 0), LONGEST_S)
    changed_s = -math.inf if before is None and is_given_up(spec) else now
    return _Seen(version, holder, claim, lasts_s, changed_s)


def _annotation(lease: Json) -> str:
    return str(((lease.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION))


@functools.lru_cache(maxsize=100_000)
def _mark(*names: str) -> str:
    digest = hashlib.sha256("/".join(names).encode()).digest()[:_MARK_BYTES]
    return base64.urlsafe_b64encode(digest).decode()


def _marks(target: ScaleKey, way: str) -> tuple[str, ...]:
    """Return the marks by which a Lease may name a target: of its namespace, and its own."""
    space = _mark(target.namespace)
    return (space,) if way == "take-over" else (space, _mark(*target))


def _encoded(way: str, targets: Collection[ScaleKey]) -> str:
    """Return the annotation of a Lease whose holder acts on these targets."""
    by_space = way == "take-over" or len(targets) > _MOST_TARGETS
    marks = {_marks(target, way)[0 if by_space else -1] for target in targets}
    return json.dumps({"way": way, "targets": "".join(sorted(marks))}, separators=(",", ":"))


def _decoded(text: str) -> tuple[str, set[str]] | None:
    """Return way and marks of an annotation, None: it is none."""
    try:
        found = json.loads(text)
        way, marks = str(found["way"]), str(found["targets"])
    except (ValueError, TypeError, KeyError):
        return None
    return way, {marks[k : k + _MARK_CHARS] for k in range(0, len(marks), _MARK_CHARS)}
