"""Lives of pods as rows: `pods`, `pod_states` and `pod_requests`.

A row of `pods` has one set of labels, one owner and one end. So a pod that gets other labels, or
that comes back after it was gone, continues as another one: its uid gets `#2` behind it, then `#3`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hpabatch.cluster.objects.rows import (
    PodState,
    RequestRow,
    changed_requests,
    labels_text,
    request_rows,
    state_of,
    target_of,
    time_or_none,
)
from hpabatch.cluster.objects.types import PodKey, PodObject, PodTemplate
from hpabatch.history.checks import YEAR_2000_MS
from hpabatch.live.record.segments import Segment

GONE_KEPT: Final = 10_000
"""The most deleted pods whose uids are kept."""

_TEMPLATES_KEPT = 1000


class Stream:
    """Samples of one pod or series: the last one seen, and the `ts` of its last row.

    `shown`: its last row has a sample; `mark`: the number of the last pass that listed it.
    """

    __slots__ = ("gone_ms", "last_ms", "life", "mark", "sample", "shown")

    def __init__(self, last_ms: int = 0, life: Life | None = None, shown: bool = False) -> None:
        self.sample: object = None
        self.last_ms = last_ms
        self.life = life
        self.shown = shown
        self.mark = self.gone_ms = 0


@dataclass(slots=True, eq=False)
class Life:
    """A recorded pod; `uid` is that of its rows, `began_ms` when this process first saw it."""

    uid: str
    namespace: str
    name: str
    target: str | None
    labels: str
    created_ms: int
    began_ms: int
    pod: PodObject
    deletion_ms: int | None
    state: PodState
    requests: tuple[RequestRow, ...]
    usage: Stream = field(default_factory=Stream)


Row = Mapping[str, Any]
"""A row of `pods` without an end, by column."""


class PodRows:
    """All present pods, and their last written rows.

    Attributes:
        floor_ms: upper bound of the `ts` of sample rows of unknown pods.
    """

    def __init__(
        self,
        stored: Iterable[Row] = (),
        usage: Mapping[str, int] | None = None,
        floor_ms: int = 0,
    ) -> None:
        """Begin with the pods of the store that have no end.

        `usage`: by uid the `ts` of the last usage sample, if known.
        """
        self.lives: dict[PodKey, Life] = {}
        self.floor_ms = floor_ms
        self._stored = {_base(row["uid"]): row for row in stored}
        self._usage = dict(usage or {})
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._templates: dict[int, tuple[PodTemplate, tuple[RequestRow, ...]]] = {}

    def put(self, pod: PodObject, at_ms: int, earliest_ms: int, into: Segment) -> list[Life]:
        """Record a pod as it is from `at_ms` on; return the lives that this ended.

        `earliest_ms`: the earliest creation of a pod that is first seen now.
        """
        key = (pod.namespace, pod.name)
        life, ended = self.lives.get(key), []
        target = target_of(pod)
        if life is not None and not _is_same(life, pod, target):
            ended.append(self._end(key, at_ms, into))
            split = _base(life.uid) == pod.uid
            earliest_ms, life = (at_ms if split else earliest_ms), None
        if life is None:
            self.lives[key] = self._begin(pod, target, at_ms, earliest_ms, into)
        else:
            self._change(life, pod, at_ms, into)
        return ended

    def remove(self, key: PodKey, at_ms: int, into: Segment) -> Life | None:
        """Record the end of a pod; return its life."""
        return self._end(key, at_ms, into) if key in self.lives else None

    def close_stored(self, at_ms: int, into: Segment) -> int:
        """End the pods of the store that were not seen; return their number."""
        count = len(self._stored)
        for stored in self._stored.values():
            self._end_stored(stored, at_ms, into)
        self._stored.clear()
        return count

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write the state of every pod, as if nothing had been written before."""
        for life in self.lives.values():
            add_life(life, None, into)
            _add_state(life, at_ms, into)
            _add_requests(life, _all_of(life.requests), at_ms, into)

    def _begin(
        self, pod: PodObject, target: str | None, at_ms: int, earliest_ms: int, into: Segment
    ) -> Life:
        labels, known = labels_text(pod.labels), self._stored.pop(pod.uid, None)
        identity = {
            "namespace": pod.namespace, "target": target, "pod": pod.name, "labels": labels,
            "owner": pod.owner,
        }  # fmt: skip
        if known is not None and any(known[name] != value for name, value in identity.items()):
            self._end_stored(known, at_ms, into)
            known, earliest_ms = None, at_ms
        created = max(pod.created_ms, earliest_ms, YEAR_2000_MS)
        uid, usage = self._name(pod.uid), Stream(self.floor_ms)
        if known is not None:
            uid, created = known["uid"], known["created"]
            usage = Stream(self._usage.get(uid, self.floor_ms), shown=True)
        deletion = known["deletion_requested"] if known is not None else None
        if deletion is None and pod.deletion_ms is not None:
            deletion = at_ms
        life = Life(
            uid=uid,
            namespace=pod.namespace,
            name=pod.name,
            target=target,
            labels=labels,
            created_ms=min(created, at_ms),
            began_ms=at_ms,
            pod=pod,
            deletion_ms=deletion,
            state=state_of(pod),
            requests=self._requests_of(pod.template),
            usage=usage,
        )
        usage.life = life
        add_life(life, None, into)
        _add_state(life, at_ms, into)
        if known is not None:
            _add_requests(life, _all_of(life.requests), at_ms, into)
        else:
            _add_requests(life, life.requests, life.created_ms, into)
        return life

    def _change(self, life: Life, pod: PodObject, at_ms: int, into: Segment) -> None:
        before, life.pod = life.pod, pod
        deleted = life.deletion_ms is None and pod.deletion_ms is not None
        if deleted:
            life.deletion_ms = at_ms
        if deleted or (before.started_ms, before.node) != (pod.started_ms, pod.node):
            add_life(life, None, into)
        state = state_of(pod)
        if state != life.state:
            life.state = state
            _add_state(life, at_ms, into)
        if before.template is not pod.template:
            rows = self._requests_of(pod.template)
            changed = () if rows == life.requests else changed_requests(life.requests, rows)
            life.requests = rows
            _add_requests(life, changed, at_ms, into)

    def _end(self, key: PodKey, at_ms: int, into: Segment) -> Life:
        life = self.lives.pop(key)
        add_life(life, at_ms, into)
        self._remember_gone(life.uid)
        return life

    def _end_stored(self, row: Row, at_ms: int, into: Segment) -> None:
        gone_ms, text_bytes = max(at_ms, row["created"]), len(row["labels"])
        into.table("pods").add(**row, gone=gone_ms, origin="recorded", text_bytes=text_bytes)
        self._remember_gone(row["uid"])

    def _name(self, uid: str) -> str:
        """Return the uid of a pod's rows: another one if earlier rows of it have ended."""
        ended = self._gone.get(uid)
        return uid if ended is None else f"{uid}#{ended + 1}"

    def _remember_gone(self, uid: str) -> None:
        base, _, number = uid.partition("#")
        self._gone[base] = int(number) if number.isdecimal() else 1
        self._gone.move_to_end(base)
        while len(self._gone) > GONE_KEPT:
            self._gone.popitem(last=False)

    def _requests_of(self, template: PodTemplate) -> tuple[RequestRow, ...]:
        known = self._templates.get(id(template))
        if known is None or known[0] is not template:
            if len(self._templates) >= _TEMPLATES_KEPT:
                self._templates.clear()
            known = self._templates[id(template)] = (template, request_rows(template))
        return known[1]


def _base(uid: str) -> str:
    return uid.partition("#")[0]


def _is_same(life: Life, pod: PodObject, target: str | None) -> bool:
    before = life.pod
    return (
        before.uid == pod.uid
        and life.target == target
        and before.owner == pod.owner
        and (before.labels is pod.labels or before.labels == pod.labels)
    )


def add_life(life: Life, gone_ms: int | None, into: Segment) -> None:
    """Write the row of a pod; `gone_ms` None: it is still present."""
    pod = life.pod
    into.table("pods").add(
        namespace=life.namespace, target=life.target, uid=life.uid, pod=life.name,
        labels=life.labels, owner=pod.owner, created=life.created_ms,
        started=time_or_none(pod.started_ms), deletion_requested=_after(life, life.deletion_ms),
        gone=_after(life, gone_ms), node=pod.node, origin="recorded", text_bytes=len(life.labels),
    )  # fmt: skip


def _after(life: Life, ms: int | None) -> int | None:
    """Return a time of a life, at least its creation: clocks may be set back."""
    return None if ms is None else max(ms, life.created_ms)


def _add_state(life: Life, at_ms: int, into: Segment) -> None:
    into.table("pod_states").add(
        namespace=life.namespace, target=life.target or "", uid=life.uid, ts=at_ms,
        phase=life.state.phase, ready=life.state.ready, last_transition=life.state.transition_ms,
    )  # fmt: skip


def _all_of(rows: tuple[RequestRow, ...]) -> tuple[RequestRow, ...]:
    """Return rows, with unset rows for the pod as a whole where there are none.

    There may have been some before the recording. Containers stay as long as their pod.
    """
    kinds = {row.kind for row in rows}
    return (*rows, *(RequestRow("", kind, 0) for kind in ("pod", "overhead") if kind not in kinds))


def _add_requests(life: Life, rows: Iterable[RequestRow], from_ms: int, into: Segment) -> None:
    add = into.table("pod_requests").add
    for row in rows:
        add(
            namespace=life.namespace, target=life.target or "", uid=life.uid,
            container=row.container, kind=row.kind, index=row.place, valid_from=from_ms,
            cpu_milli=row.cpu_milli, memory_milli=row.memory_milli,
            cpu_limit_milli=row.cpu_limit_milli, memory_limit_milli=row.memory_limit_milli,
        )  # fmt: skip
