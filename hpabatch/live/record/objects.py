"""Pods, HPAs and scales of a cluster as rows of a recording.

A row of `pods` has one set of labels, one owner and one end. So a pod that gets other labels, or
that comes back after it was gone, continues as another one: its uid gets `#2` behind it, then `#3`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from hpabatch.cluster.objects.rows import (
    Outcome,
    RequestRow,
    compact_json,
    instant_or_none,
    labels_text,
    replicas,
    request_rows,
    shown_status,
    state_of,
    target_of,
    time_or_none,
)
from hpabatch.cluster.objects.types import (
    HpaObject,
    PodKey,
    PodObject,
    PodTemplate,
    ScaleKey,
    ScaleObject,
)
from hpabatch.history.checks import YEAR_2000_MS
from hpabatch.history.provenance import ABSENT
from hpabatch.live.record.rows import Row, Rows, Values
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA

GONE_KEPT: Final = 10_000
"""The most deleted pods whose uids are kept."""

SPEC: Final = "hpas.spec"
"""The subject of a row of `provenance` about an unusable spec."""

NOT_THERE: Final = "the scale is no longer there"
"""The error of a removed scale."""

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
    """A recorded pod; `uid` is that of its rows."""

    uid: str
    namespace: str
    name: str
    target: str | None
    labels: str
    created_ms: int
    deletion_ms: int | None
    pod: PodObject
    usage: Stream
    requests: tuple[RequestRow, ...] = ()


class Pods:
    """All present pods.

    Attributes:
        floor_ms: upper bound of the `ts` of sample rows of unknown pods.
    """

    def __init__(
        self,
        rows: Rows,
        stored: Iterable[Row] = (),
        usage: Mapping[str, int] | None = None,
        floor_ms: int = 0,
    ) -> None:
        """Begin with the pods of the store that have no end.

        `usage`: by uid the `ts` of the last usage sample, if known.
        """
        self.lives: dict[PodKey, Life] = {}
        self.floor_ms = floor_ms
        self._rows = rows
        self._usage = dict(usage or {})
        self._unseen: dict[str, str] = {}  # uids of the store's pods, by their own uid
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._templates: dict[int, tuple[PodTemplate, tuple[RequestRow, ...]]] = {}
        for row in stored:
            rows.resume("pods", (row["uid"],), row)
            self._unseen[_base(row["uid"])] = row["uid"]

    def put(self, pod: PodObject, at_ms: int, earliest_ms: int) -> None:
        """Record a pod as it is from `at_ms` on.

        `earliest_ms`: the earliest creation of a pod that is first seen now.
        """
        key, target = (pod.namespace, pod.name), target_of(pod)
        life = self.lives.get(key)
        if life is not None and not _is_same(life, pod, target):
            self.remove(key, at_ms)
            earliest_ms = at_ms if _base(life.uid) == pod.uid else earliest_ms
            life = None
        if life is None:
            life = self._begin(pod, target, at_ms, earliest_ms)
        elif life.pod.template is not pod.template:
            self._put_requests(life, self._requests_of(pod.template), at_ms)
        life.pod = pod
        if life.deletion_ms is None and pod.deletion_ms is not None:
            life.deletion_ms = max(at_ms, life.created_ms)  # clocks may be set back
        row = {
            "namespace": life.namespace, "target": target, "uid": life.uid, "pod": life.name,
            "labels": life.labels, "owner": pod.owner, "created": life.created_ms,
            "started": time_or_none(pod.started_ms), "deletion_requested": life.deletion_ms,
            "node": pod.node, "origin": "recorded",
        }  # fmt: skip
        self._rows.begin("pods", (life.uid,), row)
        self._rows.put("pod_states", _owned(life), tuple(state_of(pod)), at_ms)

    def remove(self, key: PodKey, at_ms: int) -> None:
        """Record the end of a pod."""
        life = self.lives.pop(key, None)
        if life is None:
            return
        self._rows.forget("pod_states", _owned(life))
        for row in life.requests:
            self._rows.forget("pod_requests", (*_owned(life), *row[:3]))
        self._end(life.uid, at_ms)

    def close_unseen(self, at_ms: int) -> None:
        """End the pods of the store that were not seen."""
        for uid in self._unseen.values():
            self._end(uid, at_ms)
        self._unseen.clear()

    def _begin(self, pod: PodObject, target: str | None, at_ms: int, earliest_ms: int) -> Life:
        labels = labels_text(pod.labels)
        uid = self._unseen.pop(pod.uid, "")
        known = self._rows.open_row("pods", (uid,)) if uid else None
        identity = (pod.namespace, target, pod.name, labels, pod.owner)
        if known is not None and identity != tuple(known[name] for name in _IDENTITY):
            self._end(uid, at_ms)
            known, earliest_ms = None, at_ms
        if known is None:
            ended = self._gone.get(pod.uid)
            uid = pod.uid if ended is None else f"{pod.uid}#{ended + 1}"
            created = min(max(pod.created_ms, earliest_ms, YEAR_2000_MS), at_ms)
            usage = Stream(self.floor_ms)
        else:
            created = min(known["created"], at_ms)
            usage = Stream(self._usage.get(uid, self.floor_ms), shown=True)
        deletion = None if known is None else known["deletion_requested"]
        life = Life(uid, pod.namespace, pod.name, target, labels, created, deletion, pod, usage)
        self.lives[pod.namespace, pod.name] = usage.life = life
        requests = self._requests_of(pod.template)
        if known is not None:  # there may have been some of the pod as a whole before
            kinds = {row.kind for row in requests}
            missing = [kind for kind in ("pod", "overhead") if kind not in kinds]
            requests = (*requests, *(RequestRow("", kind, 0) for kind in missing))
        self._put_requests(life, requests, created if known is None else at_ms)
        return life

    def _put_requests(self, life: Life, now: tuple[RequestRow, ...], from_ms: int) -> None:
        """Write what is requested from now on; what is requested no more is written as unset."""
        there = {row[:3] for row in now}
        gone = [RequestRow(*row[:3]) for row in life.requests if row[:3] not in there]
        life.requests = (*now, *gone)
        for row in life.requests:
            self._rows.put("pod_requests", (*_owned(life), *row[:3]), row[3:], from_ms)

    def _end(self, uid: str, at_ms: int) -> None:
        row = self._rows.open_row("pods", (uid,))
        assert row is not None
        self._rows.end("pods", (uid,), max(at_ms, row["created"]))
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


_IDENTITY: Final = ("namespace", "target", "pod", "labels", "owner")


def _base(uid: str) -> str:
    return uid.partition("#")[0]


def _owned(life: Life) -> tuple[str, str, str]:
    return life.namespace, life.target or "", life.uid


def _is_same(life: Life, pod: PodObject, target: str | None) -> bool:
    before = life.pod
    return (
        before.uid == pod.uid
        and life.target == target
        and before.owner == pod.owner
        and (before.labels is pod.labels or before.labels == pod.labels)
    )


class Hpas:
    """All present HPAs."""

    def __init__(
        self, rows: Rows, stored: Iterable[Row] = (), owners: Mapping[PodKey, str] | None = None
    ) -> None:
        """Begin with the specs of the store that have no end, and the owners."""
        self._rows = rows
        self._known: dict[PodKey, HpaObject] = {}
        self._late: dict[PodKey, int] = {}  # ends after their instant: begun in the same ms
        self._stored: set[PodKey] = set(owners or {})
        for key, owner in (owners or {}).items():
            rows.remember("hpa_context", key, (owner,))
        for row in stored:
            key = (row["namespace"], row["name"])
            rows.resume("hpas", key, row)
            self._stored.add(key)

    def put(self, item: HpaObject, at_ms: int) -> None:
        """Record an HPA as it is from `at_ms` on."""
        key, hpa = (item.namespace, item.name), item.hpa
        before = self._known.get(key)
        self._known[key] = item
        if item.problem:
            self._close(key, at_ms)
        elif before is None or before.problem or not _same_object(before.hpa, hpa):
            self._open(key, hpa, at_ms)
        self._tell_problem(key, item.problem, at_ms)
        self._tell_owner(key, hpa.owner, at_ms)
        if before is not None and before.hpa.uid != hpa.uid:
            self._rows.forget("hpa_status", (*key, before.hpa.uid))
        if before is None or (before.hpa.uid, before.hpa.status) != (hpa.uid, hpa.status):
            shown = shown_status(hpa.status)
            if shown is not None:
                self._rows.put("hpa_status", (*key, hpa.uid), tuple(shown), at_ms)

    def remove(self, key: PodKey, at_ms: int) -> None:
        """Record the end of an HPA."""
        known = self._known.pop(key, None)
        if known is not None:
            self._rows.forget("hpa_status", (*key, known.hpa.uid))
        self._tell_problem(key, "", at_ms)
        self._tell_owner(key, "", at_ms)
        self._close(key, at_ms)

    def close_unseen(self, at_ms: int) -> None:
        """End the HPAs of the store that were not seen."""
        for key in self._stored - self._known.keys():
            self.remove(key, at_ms)
        self._stored.clear()

    def outcomes(
        self, found: Mapping[PodKey, Sequence[Outcome]], now_ms: int, earliest_ms: int
    ) -> None:
        """Write outcomes of metrics API requests where they changed."""
        for key, outcomes in found.items():
            period = self._rows.open_row("hpas", key)
            least_ms = max(earliest_ms, period["valid_from"] if period is not None else 0)
            for index, one in enumerate(outcomes):
                fetched_ms = now_ms if one.fetched_ms is None else one.fetched_ms
                ts = min(max(fetched_ms, least_ms), now_ms)
                said = (one.answer, one.error or None)
                self._rows.put("metric_fetches", (*key, index), said, ts)

    def _open(self, key: PodKey, hpa: HPA, at_ms: int) -> None:
        row = {
            "namespace": key[0], "name": key[1], "uid": hpa.uid,
            "valid_from": max(at_ms, self._late.pop(key, at_ms)), "spec": spec_to_json(hpa),
            "labels": compact_json(dict(hpa.labels)),
            "annotations": compact_json(dict(hpa.annotations)),
            "created": instant_or_none(hpa.creation_timestamp), "generation": hpa.generation,
        }  # fmt: skip
        before = self._rows.open_row("hpas", key)
        since = {"valid_from": 0, "created": None}
        if before is not None and {**before, **since} == {**row, **since}:
            return
        if before is None or (before["uid"], before["spec"]) != (row["uid"], row["spec"]):
            self._forget_outcomes(key)
        if before is not None and (before["uid"] != row["uid"] or before["valid_from"] < at_ms):
            self._close(key, at_ms)
            row["valid_from"] = max(at_ms, before["valid_from"] + 1)
        self._rows.begin("hpas", key, row)

    def _close(self, key: PodKey, at_ms: int) -> None:
        self._forget_outcomes(key)
        row = self._rows.open_row("hpas", key)
        if row is not None:
            until_ms = max(at_ms, row["valid_from"] + 1)
            if until_ms > at_ms:
                self._late[key] = until_ms
            self._rows.end("hpas", key, until_ms)

    def _forget_outcomes(self, key: PodKey) -> None:
        """Outcomes are keyed by the metric's place in the spec."""
        for index in count():
            if not self._rows.forget("metric_fetches", (*key, index)):
                return

    def _tell_problem(self, key: PodKey, problem: str, at_ms: int) -> None:
        row = self._rows.open_row("provenance", key)
        if row is not None and row["detail"] != problem:
            self._rows.end("provenance", key, max(at_ms, row["valid_from"] + 1))
        if problem:
            since_ms = at_ms if row is None or row["detail"] != problem else row["valid_from"]
            told = {
                "namespace": key[0], "name": key[1], "subject": SPEC, "valid_from": since_ms,
                "method": ABSENT, "detail": problem,
            }  # fmt: skip
            self._rows.begin("provenance", key, told)

    def _tell_owner(self, key: PodKey, owner: str, at_ms: int) -> None:
        """Write the owner from then on; what its target's pods need is not watched."""
        if owner or self._rows.last("hpa_context", key) is not None:
            self._rows.put("hpa_context", key, (owner or None,), at_ms)
        if not owner:
            self._rows.forget("hpa_context", key)


def _same_object(before: HPA, after: HPA) -> bool:
    return (
        before.uid == after.uid
        and (before.spec is after.spec or before.spec == after.spec)
        and before.generation == after.generation
        and before.labels == after.labels
        and before.annotations == after.annotations
    )


Target = tuple[str, str, str]
"""Namespace, kind and name."""


class Scales:
    """All present scales.

    The table identifies a target by kind and name. Among scales of several groups with the same
    kind and name (for example of an HPA with a wrong group) the readable one counts.
    """

    def __init__(self, rows: Rows, stored: Mapping[Target, Values] | None = None) -> None:
        """Begin with the last rows of the store."""
        self._rows = rows
        self._groups: dict[Target, dict[str, ScaleObject]] = {}
        self._stored = dict(stored or {})

    def put(self, key: ScaleKey, scale: ScaleObject | None, at_ms: int) -> None:
        """Record a scale as it is from `at_ms` on; None: it is no longer there."""
        place = (key.namespace, key.kind, key.name)
        groups = self._groups.setdefault(place, {})
        if scale is None:
            groups.pop(key.group, None)
        else:
            groups[key.group] = scale
        scale = min(
            groups.values(), key=lambda one: (bool(one.error), one.key.group), default=None
        )  # fmt: skip
        if place in self._stored:
            self._rows.remember("scales", place, self._stored.pop(place))
        before = self._rows.last("scales", place)
        if scale is None or scale.error:
            sizes = (0, 0, "") if before is None else before[:3]
            values: Values = (*sizes, NOT_THERE if scale is None else scale.error)
        else:
            values = (
                replicas(scale.replicas), replicas(scale.status_replicas), scale.selector, None
            )  # fmt: skip
        self._rows.put("scales", place, values, at_ms)
        if scale is None:  # a scale that comes back is written again
            self._rows.forget("scales", place)
            del self._groups[place]
