"""HPAs of a cluster with their specs, scales, selectors and size changes.

Changes of the cluster are applied one by one; the decider reads lanes and pods.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from hpabatch.cluster.apis.discovery import target_key
from hpabatch.cluster.objects.types import (
    Change,
    HpaObject,
    Kind,
    MetricKey,
    PodKey,
    PodObject,
    ScaleKey,
    ScaleObject,
    requests_of,
)
from hpabatch.layout import codes
from hpabatch.live.passes.result import LeftOut, Problem
from hpabatch.model.objects.hpa import HPASpec, HPAStatus
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.objects.validate import drop_disabled_fields
from hpabatch.model.selectors import Selector, parse_selector, selector_words
from hpabatch.model.versions import Profile

LaneKey = tuple[str, str]
"""Namespace and name of an HPA."""


SHOWN_MS: Final = 120_000
"""Longest time from a decision until a watch shows its size."""


class OwnWrite(NamedTuple):
    """A size that hpabatch wrote (UTC ms); `booked`: it is among the lane's changes already."""

    ms: int
    after: int
    booked: bool


class ForeignChange(NamedTuple):
    """A change of a size that this process did not make: when a watch showed it (UTC ms)."""

    key: LaneKey
    ms: int
    before: int
    after: int


@dataclass(slots=True)
class Lane:
    """One HPA.

    Attributes:
        spec: in the form that the controller of its version reads.
        requests: to the metrics APIs that its spec needs.
        before: the spec of the last pass where it was another; None: the same, or there was none.
        scale: the target's, None where it was never seen.
        replicas, status_replicas: the sizes as last read; None: never read.
        selector: SELECTOR_* of the scale's selector; `selector_error` is its error.
        selects: that selector; None: it is missing or invalid.
        changes: (ms, before, after) of the size since the last pass that use up policies' budgets.
        rescales: those of them that a watch showed as they happened, until they are followed.
        own: hpabatch's own writes of the size that no watch has shown yet.
        found: time and size of the first reading of the target's size; None: never read.
        fresh: no pass has decided it yet.
        recreated: another object of the same name since the last pass.
        gone: it was deleted since the last pass.
        zero: the status of the cluster's own condition ScaledToZero as last taken over.
    """

    key: LaneKey
    item: HpaObject
    spec: HPASpec
    requests: frozenset[MetricKey] = frozenset()
    before: HPASpec | None = None
    scale: ScaleObject | None = None
    replicas: int | None = None
    status_replicas: int = 0
    selector: int = codes.SELECTOR_MISSING
    selector_error: str = ""
    selects: Selector | None = None
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    rescales: list[tuple[int, int, int]] = field(default_factory=list)
    own: list[OwnWrite] = field(default_factory=list)
    found: tuple[int, int] | None = None
    fresh: bool = True
    recreated: bool = False
    gone: bool = False
    zero: str = ""

    @property
    def uid(self) -> str:
        """The uid of the HPA."""
        return self.item.hpa.uid

    @property
    def status(self) -> HPAStatus:
        """The status as the cluster's own controller last wrote it."""
        return self.item.hpa.status

    @property
    def target(self) -> str:
        """Kind and name of the target."""
        ref = self.spec.scale_target_ref
        return f"{ref.kind}/{ref.name}"


class Lanes:
    """All HPAs of a cluster, their scales and the pods.

    Attributes:
        leads: this process writes the sizes in the coming pass.
        attributed: instances of hpabatch write the sizes. As in the controller, only their writes
            use up budgets; otherwise all changes do, since they are those of whoever writes.
        foreign: while `attributed`, changes that this process did not make, until they are taken
            from here.
        left_out: HPAs that are no lanes now.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.pods: dict[PodKey, PodObject] = {}
        self.leads = self.attributed = False
        self.foreign: list[ForeignChange] = []
        self.left_out = LeftOut()
        self._lanes: dict[LaneKey, Lane] = {}
        self._refused: dict[LaneKey, str] = {}
        self._scales: dict[ScaleKey, ScaleObject] = {}
        self._sizes: dict[ScaleKey, tuple[int, int]] = {}
        self._found: dict[ScaleKey, tuple[int, int]] = {}
        self._of_scale: dict[ScaleKey, set[LaneKey]] = {}

    def __iter__(self) -> Iterator[Lane]:
        """Yield the lanes in the order of their names, those deleted since the last pass too."""
        no = self.left_out.texts
        return iter([self._lanes[key] for key in sorted(self._lanes) if key not in no])

    def part(self, keys: Iterable[LaneKey]) -> Lanes:
        """Return the lanes of some HPAs, on which a pass can be tried."""
        found, lanes = copy.copy(self), [self._lanes[key] for key in keys]
        found._lanes = {
            lane.key: replace(lane, changes=[*lane.changes], rescales=[*lane.rescales])
            for lane in lanes
        }
        return found

    def get(self, key: LaneKey) -> Lane | None:
        """Return the lane of an HPA, None if there is none."""
        return self._lanes.get(key)

    def wanted(self) -> frozenset[MetricKey]:
        """Return the requests that all HPAs need, those that are left out now too."""
        return frozenset[MetricKey]().union(
            *(lane.requests for lane in self._lanes.values() if not lane.gone)
        )

    @property
    def problems(self) -> Sequence[Problem]:
        """The HPAs that cannot be decided, and why."""
        wrong = self.left_out.texts | self._refused
        return [Problem(*key, text) for key, text in sorted(wrong.items())]

    def leave_out(self, key: LaneKey, error: Exception) -> None:
        """Leave an HPA out of some passes. Then it is decided as one that was not seen before."""
        self.left_out.add(key, error)

    def retry(self) -> set[LaneKey]:
        """Begin a pass; return the HPAs that were left out until now."""
        found = self.left_out.begin()
        for key in found & self._lanes.keys():
            self._lanes[key].fresh = True
        return found

    def affected_by(self, change: Change) -> set[LaneKey]:
        """Return the HPAs whose decisions depend on an object."""
        if change.kind is Kind.hpa:
            return {(change.key[0], change.key[1])}
        if isinstance(change.key, ScaleKey):
            return set(self._of_scale.get(change.key, ()))
        return {key for key in self._lanes if key[0] == change.key[0]}

    def apply(self, change: Change) -> None:
        """Apply a change of the cluster."""
        thing = change.thing
        if change.kind is Kind.pod:
            if isinstance(thing, PodObject):
                self.pods[thing.namespace, thing.name] = thing
            else:
                self.pods.pop((change.key[0], change.key[1]), None)
        elif change.kind is Kind.hpa:
            key = (change.key[0], change.key[1])
            if isinstance(thing, HpaObject):
                self._put_hpa(key, thing)
            else:
                self._remove_hpa(key)
        elif isinstance(change.key, ScaleKey):
            scale = thing if isinstance(thing, ScaleObject) else None
            self._put_scale(change.key, scale, change.seen_ms)

    def settle_times(self, now_ms: int) -> None:
        """Let no change be of a time after the coming pass: there it would not count."""
        for lane in self._lanes.values():
            if lane.changes and lane.changes[-1][0] >= now_ms:
                lane.changes = [(min(ms, now_ms - 1), a, b) for ms, a, b in lane.changes]

    def close_pass(self, now_ms: int = 0) -> None:
        """Clear the data that only the finished pass, of an instant in UTC ms, needed."""
        for lane in self._lanes.values():
            lane.changes.clear()
            if lane.own:  # one that was not made, or that a list has skipped
                lane.own = [write for write in lane.own if write.ms > now_ms - SHOWN_MS]
            lane.fresh = lane.recreated = False
            lane.before = None

    def note_write(self, key: LaneKey, ms: int, before: int, after: int, certain: bool) -> None:
        """Note a size that hpabatch wrote.

        Args:
            certain: the server confirmed it; otherwise it counts once a watch shows it.
        """
        lane = self._lanes.get(key)
        if lane is None:
            return
        if certain:
            lane.changes.append((ms, before, after))
        # During an outage the same write may be tried, and be uncertain, in every pass.
        lane.own = [write for write in lane.own if write.booked or write.after != after]
        lane.own.append(OwnWrite(ms, after, certain))
        for other in self._of_scale[target_key(key[0], lane.spec.scale_target_ref)] - {key}:
            self._lanes[other].own.append(OwnWrite(ms, after, True))  # it is not this HPA's event

    def recall_change(self, key: LaneKey, ms: int, before: int, after: int) -> bool:
        """Book a change from before the first reading of a size; False: it was not before."""
        lane = self._lanes.get(key)
        if lane is None or lane.found is None or ms >= lane.found[0]:
            return False
        lane.changes.append((ms, before, after))
        lane.changes.sort()
        return True

    def book_rescale(self, key: LaneKey, ms: int, before: int, after: int) -> None:
        """Book a change that another instance or controller is known to have made."""
        lane = self._lanes.get(key)
        if lane is not None:
            _note_change(lane, ms, before, after)
            lane.changes.sort()

    def recall_size(self, lane: Lane, replicas: int) -> None:
        """Restore the size of a lane's target as an earlier loop last saw it.

        Where instances of hpabatch write, the ledger has the changes since, one by one.
        """
        at = target_key(lane.key[0], lane.spec.scale_target_ref)
        if lane.found is None:
            lane.replicas, lane.status_replicas = self._sizes.setdefault(at, (replicas, replicas))
        elif lane.found[1] != replicas and not self.attributed:
            lane.changes.insert(0, (lane.found[0], replicas, lane.found[1]))

    def _put_hpa(self, key: LaneKey, item: HpaObject) -> None:
        if item.problem:
            self._refused[key] = item.problem
            self._remove_hpa(key, refused=True)
            return
        self._refused.pop(key, None)
        lane = self._lanes.get(key)
        if lane is None:
            requests = requests_of(key[0], item.hpa.spec)
            lane = self._lanes[key] = Lane(key, item, self._stored(item), requests)
            self._join_scale(lane)
            return
        known = lane.item.hpa
        if known.uid != item.hpa.uid:
            lane.recreated = not lane.fresh
        lane.gone = False
        if known.spec is not item.hpa.spec and known.spec != item.hpa.spec:
            lane.requests = requests_of(key[0], item.hpa.spec)
            if lane.before is None and not lane.fresh:
                lane.before = lane.spec
            self._leave_scale(lane)
            lane.spec = self._stored(item)
            self._join_scale(lane)
        lane.item = item

    def _stored(self, item: HpaObject) -> HPASpec:
        """Return the spec as the controller of the cluster's version reads it."""
        return as_stored(drop_disabled_fields(item.hpa, self.profile).spec, self.profile)

    def _remove_hpa(self, key: LaneKey, refused: bool = False) -> None:
        if not refused:
            self._refused.pop(key, None)
            self.left_out.forget(key)
        lane = self._lanes.get(key)
        if lane is None:
            return
        if lane.fresh:
            self._drop(lane)
        else:
            lane.gone = True  # if recreated before the next pass, it keeps its memory

    def drop_gone(self) -> None:
        """Remove the HPAs that were deleted since the last pass."""
        for lane in [lane for lane in self._lanes.values() if lane.gone]:
            self._drop(lane)

    def _drop(self, lane: Lane) -> None:
        self._leave_scale(lane)
        del self._lanes[lane.key]

    def _join_scale(self, lane: Lane) -> None:
        at = target_key(lane.key[0], lane.spec.scale_target_ref)
        self._of_scale.setdefault(at, set()).add(lane.key)
        self._take_scale(lane, self._scales.get(at))
        if at in self._sizes:
            lane.replicas, lane.status_replicas = self._sizes[at]
            lane.found = self._found.get(at)

    def _leave_scale(self, lane: Lane) -> None:
        at = target_key(lane.key[0], lane.spec.scale_target_ref)
        owners = self._of_scale.get(at, set())
        owners.discard(lane.key)
        if not owners:
            self._of_scale.pop(at, None)
            if at not in self._scales:
                self._forget_sizes(at)
        lane.replicas, lane.found = None, None

    def _forget_sizes(self, at: ScaleKey) -> None:
        self._sizes.pop(at, None)
        self._found.pop(at, None)

    def _put_scale(self, at: ScaleKey, scale: ScaleObject | None, seen_ms: int) -> None:
        before = self._sizes.get(at)
        if scale is None:
            self._scales.pop(at, None)
            if at not in self._of_scale:
                self._forget_sizes(at)
        else:
            self._scales[at] = scale
            if not scale.error:
                self._sizes[at] = (scale.replicas, scale.status_replicas)
                if self._found.get(at, (seen_ms, 0))[0] == seen_ms:
                    self._found[at] = (seen_ms, scale.replicas)
        now = self._sizes.get(at)
        for key in self._of_scale.get(at, ()):
            lane = self._lanes[key]
            if before and now and before[0] != now[0]:
                self._note_size(lane, seen_ms, before[0], now[0])
            if now:
                lane.replicas, lane.status_replicas = now
                lane.found = self._found.get(at)
            self._take_scale(lane, scale)

    def _note_size(self, lane: Lane, seen_ms: int, before: int, after: int) -> None:
        """Note a change of a size, of hpabatch's own making or another's."""
        own = next((write for write in lane.own if write.after == after), None)
        if own is not None:
            # Earlier writes were overtaken: a list shows the last size only.
            del lane.own[: lane.own.index(own) + 1]
            if not own.booked:
                _note_change(lane, seen_ms, before, after, is_own=True)
        elif self.attributed:
            self.foreign.append(ForeignChange(lane.key, seen_ms, before, after))
        else:
            _note_change(lane, seen_ms, before, after)

    def _take_scale(self, lane: Lane, scale: ScaleObject | None) -> None:
        """Give a lane its scale and the scale's selector."""
        had = lane.scale.selector if lane.scale and not lane.scale.error else None
        lane.scale = scale
        if scale is None or scale.error or scale.selector == had:
            return
        lane.selector, lane.selector_error, lane.selects = codes.SELECTOR_OK, "", None
        if not scale.selector:
            lane.selector = codes.SELECTOR_MISSING
            return
        try:
            lane.selects = parse_selector(scale.selector, selector_words(self.profile))
        except ValueError as error:
            lane.selector, lane.selector_error = codes.SELECTOR_INVALID, str(error)


def _note_change(
    lane: Lane, seen_ms: int, before: int, after: int, *, is_own: bool = False
) -> None:
    """Note a change of the size.

    Several changes in one ms become their sum, as in a recording; a size that was first read in
    that ms is not a change.
    """
    if lane.changes and lane.changes[-1][0] == seen_ms:
        before = lane.changes.pop()[1]
        if lane.rescales and lane.rescales[-1][0] == seen_ms:
            lane.rescales.pop()
    elif lane.found is not None and lane.found[0] == seen_ms:
        return
    if before != after:
        lane.changes.append((seen_ms, before, after))
        if not is_own:  # those came from recommendations that are there
            lane.rescales.append((seen_ms, before, after))
