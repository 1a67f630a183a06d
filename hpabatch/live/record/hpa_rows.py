"""HPAs and scales as rows: `hpas`, `hpa_context`, `hpa_status`, `metric_fetches` and `scales`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpabatch.cluster.objects.rows import (
    Outcome,
    ShownStatus,
    compact_json,
    instant_or_none,
    replicas,
    shown_status,
)
from hpabatch.cluster.objects.types import HpaObject, PodKey, ScaleKey, ScaleObject
from hpabatch.history.provenance import ABSENT
from hpabatch.live.record.segments import Segment
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA, HPAStatus

SPEC = "hpas.spec"
"""The subject of a row of `provenance` about an unusable spec."""

_NO_STATUS = HPAStatus()


@dataclass(slots=True)
class Period:
    """A row of `hpas` that is still open."""

    namespace: str
    name: str
    uid: str
    from_ms: int
    spec: str
    labels: str
    annotations: str
    created_ms: int | None
    generation: int | None

    def says(self, other: Period) -> bool:
        """Whether both state the same about the same object."""
        return (self.uid, self.spec, self.labels, self.annotations, self.generation) == (
            *(other.uid, other.spec, other.labels, other.annotations, other.generation),
        )


@dataclass(slots=True)
class _Known:
    """The last state of an HPA; `since_ms`: since when its spec is unusable, 0: it is usable."""

    hpa: HPA
    status: HPAStatus
    problem: str = ""
    since_ms: int = 0


class HpaRows:
    """All present HPAs, and their last written rows."""

    def __init__(
        self, stored: Iterable[Period] = (), owners: Mapping[PodKey, str] | None = None
    ) -> None:
        """Begin with the open periods and the last owners of the store."""
        self.periods = {(period.namespace, period.name): period for period in stored}
        self._owners = dict(owners or {})
        self._known: dict[PodKey, _Known] = {}
        self._outcomes: dict[PodKey, tuple[tuple[str, str], ...]] = {}
        self._late: dict[PodKey, int] = {}  # ends after their instant: begun in the same ms

    def put(self, thing: HpaObject, at_ms: int, into: Segment) -> Period | None:
        """Record an HPA as it is from `at_ms` on; return the period that this ended."""
        key, hpa = (thing.namespace, thing.name), thing.hpa
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(HPA(owner=self._owners.pop(key, "")), _NO_STATUS)
        ended = None
        if thing.problem:
            ended = self._close(key, at_ms, into)
        elif known.problem or not _same_object(known.hpa, hpa):
            ended = self._open(key, hpa, at_ms, into)
        self._tell_problem(key, known, thing.problem, at_ms, into)
        if known.hpa.owner != hpa.owner:
            add_owner(key, hpa, at_ms, into)
        if known.hpa.uid != hpa.uid or known.status != hpa.status:
            known.status = hpa.status
            self._add_status(key, hpa, at_ms, into)
        known.hpa = hpa
        return ended

    def remove(self, key: PodKey, at_ms: int, into: Segment) -> Period | None:
        """Record the end of an HPA; return the period that this ended."""
        known = self._known.pop(key, None)
        if known is not None:
            self._tell_problem(key, known, "", at_ms, into)
            if known.hpa.owner:
                add_owner(key, HPA(), at_ms, into)
        return self._close(key, at_ms, into)

    def close_stored(self, at_ms: int, into: Segment) -> int:
        """End the open periods of the store whose HPA was not seen; return their number."""
        lost = [key for key in self.periods if key not in self._known]
        for key in lost:
            self._close(key, at_ms, into)
        for key in self._owners:  # those of HPAs that were seen are taken out
            add_owner(key, HPA(), at_ms, into)
        self._owners.clear()
        return len(lost)

    def outcomes(
        self,
        found: Mapping[PodKey, Sequence[Outcome]],
        now_ms: int,
        earliest_ms: int,
        into: Segment,
    ) -> None:
        """Write outcomes of metrics API requests where they changed."""
        add = into.table("metric_fetches").add
        for key, outcomes in found.items():
            said = tuple([(one.answer, one.error) for one in outcomes])
            before = self._outcomes.get(key, ())
            if said == before:
                continue
            self._outcomes[key] = said
            period = self.periods.get(key)
            least_ms = max(earliest_ms, period.from_ms if period is not None else 0)
            for index, one in enumerate(outcomes):
                if index < len(before) and before[index] == said[index]:
                    continue
                fetched_ms = now_ms if one.fetched_ms is None else one.fetched_ms
                ts = min(max(fetched_ms, least_ms), now_ms)
                add(*key, index, ts, one.answer, one.error or None, text_bytes=len(one.error))

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write the state of every HPA, as if nothing had been written before."""
        for period in self.periods.values():
            add_period(period, None, into)
        for key, known in self._known.items():
            self._add_status(key, known.hpa, at_ms, into)
            if known.hpa.owner:
                add_owner(key, known.hpa, at_ms, into)
            if known.problem:
                row = (*key, SPEC, known.since_ms, None, ABSENT, known.problem)
                into.table("provenance").add(*row)
        self._outcomes.clear()

    def _open(self, key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> Period | None:
        period = Period(
            *key,
            uid=hpa.uid,
            from_ms=max(at_ms, self._late.pop(key, at_ms)),
            spec=spec_to_json(hpa),
            labels=compact_json(dict(hpa.labels)),
            annotations=compact_json(dict(hpa.annotations)),
            created_ms=instant_or_none(hpa.creation_timestamp),
            generation=hpa.generation,
        )
        before = self.periods.get(key)
        if before is not None and before.says(period):
            return None
        if before is None or (before.uid, before.spec) != (period.uid, period.spec):
            self._outcomes.pop(key, None)  # outcomes are keyed by the metric's place in the spec
        ended = None
        if before is not None and (before.uid != period.uid or before.from_ms < at_ms):
            ended = self._close(key, at_ms, into)
            period.from_ms = max(at_ms, before.from_ms + 1)
        self.periods[key] = period
        add_period(period, None, into)
        return ended

    def _close(self, key: PodKey, at_ms: int, into: Segment) -> Period | None:
        self._outcomes.pop(key, None)
        period = self.periods.pop(key, None)
        if period is not None:
            until_ms = max(at_ms, period.from_ms + 1)
            if until_ms > at_ms:
                self._late[key] = until_ms
            add_period(period, until_ms, into)
        return period

    def _tell_problem(
        self, key: PodKey, known: _Known, problem: str, at_ms: int, into: Segment
    ) -> None:
        if known.problem == problem:
            return
        add = into.table("provenance").add
        if known.problem:
            until_ms = max(at_ms, known.since_ms + 1)
            add(*key, SPEC, known.since_ms, until_ms, ABSENT, known.problem)
        known.problem, known.since_ms = problem, at_ms if problem else 0
        if problem:
            add(*key, SPEC, at_ms, None, ABSENT, problem, text_bytes=len(problem))

    def _add_status(self, key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> None:
        shown: ShownStatus | None = shown_status(hpa.status)
        if shown is None:
            return
        into.table("hpa_status").add(
            *(*key, hpa.uid, at_ms, shown.current, shown.desired, shown.metrics, shown.conditions),
            *(shown.last_scale_ms, shown.generation),
            text_bytes=len(shown.metrics or "") + len(shown.conditions),
        )


def _same_object(before: HPA, after: HPA) -> bool:
    return (
        before.uid == after.uid
        and (before.spec is after.spec or before.spec == after.spec)
        and before.generation == after.generation
        and before.labels == after.labels
        and before.annotations == after.annotations
    )


def add_period(period: Period, until_ms: int | None, into: Segment) -> None:
    """Write the row of a spec; `until_ms` None: it is still in force."""
    into.table("hpas").add(
        *(period.namespace, period.name, period.uid, period.from_ms, until_ms, period.spec),
        *(period.labels, period.annotations, period.created_ms, period.generation),
        text_bytes=len(period.spec) + len(period.labels) + len(period.annotations),
    )


def add_owner(key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> None:
    """Write the owner that an HPA has from then on; what its target's pods need is not watched."""
    into.table("hpa_context").add(*key, at_ms, hpa.owner or None, None, None)


NOT_THERE = "the scale is no longer there"
"""The error of a removed scale."""

Target = tuple[str, str, str]
"""Namespace, kind and name."""

ScaleRow = tuple[int, int, str, str | None]
"""Sizes, selector and error."""


class ScaleRows:
    """All present scales, and their last written rows.

    The table identifies a target by kind and name. Among scales of several groups with the same
    kind and name (for example of an HPA with a wrong group) the readable one counts.
    """

    def __init__(self, stored: Mapping[Target, ScaleRow] | None = None) -> None:
        """Begin with the last rows of the store."""
        self._groups: dict[Target, dict[str, ScaleObject]] = {}
        self._written: dict[Target, ScaleRow] = {}
        self._stored = dict(stored or {})

    def put(self, key: ScaleKey, scale: ScaleObject | None, at_ms: int, into: Segment) -> None:
        """Record a scale as it is from `at_ms` on; None: it is no longer there."""
        place = (key.namespace, key.kind, key.name)
        groups = self._groups.setdefault(place, {})
        if scale is None:
            groups.pop(key.group, None)
        else:
            groups[key.group] = scale
        before = self._written.get(place) or self._stored.pop(place, None)
        row = _row_of(groups, before)
        self._written[place] = row
        if row != before:
            into.table("scales").add(*place, at_ms, *row, text_bytes=len(row[3] or ""))
        if not groups:
            # A scale that comes back is written again.
            del self._groups[place], self._written[place]

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write the state of every scale."""
        for place, row in self._written.items():
            into.table("scales").add(*place, at_ms, *row)


def _row_of(groups: dict[str, ScaleObject], before: ScaleRow | None) -> ScaleRow:
    for _, scale in sorted(groups.items()):
        if not scale.error:
            return replicas(scale.replicas), replicas(scale.status_replicas), scale.selector, None
    sizes = before[:3] if before is not None else (0, 0, "")
    error = groups[min(groups)].error if groups else NOT_THERE
    return (*sizes, error)
