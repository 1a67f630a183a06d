"""HPAs and scales as rows: `hpas`, `hpa_context`, `hpa_status`, `metric_fetches` and `scales`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

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
    """A row of `hpas` that is still open: the table's columns but `valid_to`."""

    namespace: str
    name: str
    uid: str
    valid_from: int
    spec: str
    labels: str
    annotations: str
    created: int | None
    generation: int | None

    def says(self, other: Period) -> bool:
        """Whether both state the same about the same object."""
        since = {"valid_from": 0, "created": None}
        return replace(self, **since) == replace(other, **since)  # type: ignore[arg-type]


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
            least_ms = max(earliest_ms, period.valid_from if period is not None else 0)
            for index, one in enumerate(outcomes):
                if index < len(before) and before[index] == said[index]:
                    continue
                fetched_ms = now_ms if one.fetched_ms is None else one.fetched_ms
                ts = min(max(fetched_ms, least_ms), now_ms)
                add(
                    namespace=key[0], name=key[1], metric_index=index, ts=ts, answer=one.answer,
                    error=one.error or None, text_bytes=len(one.error),
                )  # fmt: skip

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write the state of every HPA, as if nothing had been written before."""
        for period in self.periods.values():
            add_period(period, None, into)
        for key, known in self._known.items():
            self._add_status(key, known.hpa, at_ms, into)
            if known.hpa.owner:
                add_owner(key, known.hpa, at_ms, into)
            if known.problem:
                _add_problem(key, known, None, into)
        self._outcomes.clear()

    def _open(self, key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> Period | None:
        period = Period(
            *key,
            uid=hpa.uid,
            valid_from=max(at_ms, self._late.pop(key, at_ms)),
            spec=spec_to_json(hpa),
            labels=compact_json(dict(hpa.labels)),
            annotations=compact_json(dict(hpa.annotations)),
            created=instant_or_none(hpa.creation_timestamp),
            generation=hpa.generation,
        )
        before = self.periods.get(key)
        if before is not None and before.says(period):
            return None
        if before is None or (before.uid, before.spec) != (period.uid, period.spec):
            self._outcomes.pop(key, None)  # outcomes are keyed by the metric's place in the spec
        ended = None
        if before is not None and (before.uid != period.uid or before.valid_from < at_ms):
            ended = self._close(key, at_ms, into)
            period.valid_from = max(at_ms, before.valid_from + 1)
        self.periods[key] = period
        add_period(period, None, into)
        return ended

    def _close(self, key: PodKey, at_ms: int, into: Segment) -> Period | None:
        self._outcomes.pop(key, None)
        period = self.periods.pop(key, None)
        if period is not None:
            until_ms = max(at_ms, period.valid_from + 1)
            if until_ms > at_ms:
                self._late[key] = until_ms
            add_period(period, until_ms, into)
        return period

    def _tell_problem(
        self, key: PodKey, known: _Known, problem: str, at_ms: int, into: Segment
    ) -> None:
        if known.problem == problem:
            return
        if known.problem:
            _add_problem(key, known, max(at_ms, known.since_ms + 1), into)
        known.problem, known.since_ms = problem, at_ms if problem else 0
        if problem:
            _add_problem(key, known, None, into)

    def _add_status(self, key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> None:
        shown: ShownStatus | None = shown_status(hpa.status)
        if shown is None:
            return
        into.table("hpa_status").add(
            namespace=key[0], name=key[1], uid=hpa.uid, ts=at_ms,
            current_replicas=shown.current, desired_replicas=shown.desired,
            current_metrics=shown.metrics, conditions=shown.conditions,
            last_scale_time=shown.last_scale_ms, observed_generation=shown.generation,
            text_bytes=len(shown.metrics or "") + len(shown.conditions),
        )  # fmt: skip


def _add_problem(key: PodKey, known: _Known, until_ms: int | None, into: Segment) -> None:
    into.table("provenance").add(
        namespace=key[0], name=key[1], subject=SPEC, valid_from=known.since_ms,
        valid_to=until_ms, method=ABSENT, detail=known.problem, text_bytes=len(known.problem),
    )  # fmt: skip


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
    text_bytes = len(period.spec) + len(period.labels) + len(period.annotations)
    into.table("hpas").add(**asdict(period), valid_to=until_ms, text_bytes=text_bytes)


def add_owner(key: PodKey, hpa: HPA, at_ms: int, into: Segment) -> None:
    """Write the owner that an HPA has from then on; what its target's pods need is not watched."""
    row = into.table("hpa_context").add
    row(namespace=key[0], name=key[1], ts=at_ms, owner=hpa.owner or None)


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
            _add_scale(place, row, at_ms, into)
        if not groups:
            # A scale that comes back is written again.
            del self._groups[place], self._written[place]

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write the state of every scale."""
        for place, row in self._written.items():
            _add_scale(place, row, at_ms, into)


def _add_scale(place: Target, row: ScaleRow, at_ms: int, into: Segment) -> None:
    into.table("scales").add(
        namespace=place[0], target_kind=place[1], target=place[2], ts=at_ms, spec_replicas=row[0],
        status_replicas=row[1], selector=row[2], error=row[3], text_bytes=len(row[3] or ""),
    )  # fmt: skip


def _row_of(groups: dict[str, ScaleObject], before: ScaleRow | None) -> ScaleRow:
    for _, scale in sorted(groups.items()):
        if not scale.error:
            return replicas(scale.replicas), replicas(scale.status_replicas), scale.selector, None
    sizes = before[:3] if before is not None else (0, 0, "")
    error = groups[min(groups)].error if groups else NOT_THERE
    return (*sizes, error)
