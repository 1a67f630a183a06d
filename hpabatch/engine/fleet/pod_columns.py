"""The pods of a shard as columns: their lives, states and requests, by number.

A pod's state is what the controller's cache shows between two changes of anything about it; a
request belongs to a state. Equal sets of request rows are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from hpabatch.engine.fleet.frames import NEVER_MS, integers, keyed, milliseconds, unkeyed
from hpabatch.engine.fleet.membership import LabelIndex
from hpabatch.layout import codes
from hpabatch.layout.records import (
    I64,
    POD_STATE,
    REQUEST,
    PodStates,
    Requests,
    records_from,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests, PodRequest, RequestRules, pod_request
from hpabatch.packing.texts import Texts

_KIND = ("namespace", "target", "labels")

Row = tuple[str, str, int, int | None, int | None]  # container, kind, index, cpu, memory in milli


def _newest(theirs: I64, keys: I64) -> I64:
    """Return the last of `theirs` with the pod of each key, up to its time; -1: none. Sorted."""
    at = np.searchsorted(theirs, keys, side="right") - 1
    same = unkeyed(np.append(theirs, -1)[at])[0] == unkeyed(keys)[0]
    return np.where(same, at, -1)


@dataclass(frozen=True, slots=True)
class PodColumns:
    """Pods numbered 0..n-1 in the order of the table's key; states numbered over all pods.

    `numbers` leads from uid to number, `names` are the pods'; `kinds` are the distinct (namespace,
    target, labels), numbered, `of_kind` their pods. Times in ms, NEVER_MS where a thing never
    happened; pod p has the states state_first[p]:state_first[p+1], in force from `state_ms` on.
    `request_set` is the number of the state's rows in `request_rows`, -1 for none.
    """

    numbers: pl.DataFrame
    names: pl.Series
    kinds: LabelIndex[int]
    of_kind: Sequence[I64]
    created_ms: I64
    gone_ms: I64
    state_first: I64
    state_ms: I64
    states: PodStates
    request_set: I64
    request_rows: Sequence[tuple[Row, ...]]
    generated: I64

    @property
    def count(self) -> int:
        """Number of pods."""
        return self.created_ms.size

    def requests(
        self, resource: str, container: str, rules: RequestRules, texts: Texts | None = None
    ) -> Requests:
        """Return the REQUEST record of every state; "" for `resource`: none is looked at.

        Errors of requests that are not known go to `texts`, if there are any.
        """
        n = self.state_ms.size
        if not resource:
            return records_from(REQUEST, n, known=1)
        ask = (resource, container, rules)
        found = [request_of_rows(r, *ask) for r in self.request_rows]
        table = np.array([*found, (0, 0)], np.int64).reshape(-1, 2)
        known, milli = table[self.request_set, 0], table[self.request_set, 1]
        if texts is not None:
            pod_of = np.repeat(np.arange(self.count), np.diff(self.state_first))
            for state in np.flatnonzero(known == 0).tolist():
                which = int(self.request_set[state])
                rows = self.request_rows[which] if which >= 0 else ()
                error = request_error_of_rows(rows, *ask, pod=self.names[int(pod_of[state])])
                milli[state] = texts.number(error)
        return records_from(REQUEST, n, known=known, milli=milli)


def matched_pods(
    pods: PodColumns, namespace: str, target: str, selectors: Sequence[str | None]
) -> tuple[I64, I64]:
    """Return the numbers of the pods that any selector matches, and (pods, selectors) of 0/1."""
    matching = [set(pods.kinds.matching(namespace, target, text)) for text in selectors]
    kinds = sorted(set().union(*matching))
    if not kinds:
        return np.zeros(0, np.int64), np.zeros((0, len(selectors)), np.int64)
    numbers = [pods.of_kind[kind] for kind in kinds]
    rows = np.array([[int(kind in found) for found in matching] for kind in kinds], np.int64)
    member = np.repeat(rows, [part.size for part in numbers], axis=0)
    joined = np.concatenate(numbers)
    order = np.argsort(joined)
    return joined[order], member[order]


def pod_columns(pods: pl.DataFrame, states: pl.DataFrame, requests: pl.DataFrame) -> PodColumns:
    """Return the columns of pods, given their rows of `pods`, `pod_states` and `pod_requests`.

    `pods` is sorted by the table's key; of rows with one (cluster, uid) the last counts. Rows of
    other pods in the other tables are left out.
    """
    frame = pods.unique(["cluster", "uid"], keep="last", maintain_order=True)
    frame = frame.with_row_index("p").with_columns(pl.col("p").cast(pl.Int64))
    numbers = frame.select("uid", "p")
    index, of_kind = _kinds(frame)
    shown = _numbered(states, numbers, "ts")
    asked = _numbered(requests, numbers, "valid_from")
    created, started = milliseconds(frame["created"]), milliseconds(frame["started"])
    deleted = milliseconds(frame["deletion_requested"])
    own = [
        keyed(np.flatnonzero(ms < NEVER_MS), ms[ms < NEVER_MS])
        for ms in (created, started, deleted)
    ]
    shown_keys, asked_keys = (
        keyed(integers(rows["p"]), milliseconds(rows[time]))
        for rows, time in ((shown, "ts"), (asked, "valid_from"))
    )
    # The times at which anything about a pod changes.
    keys = np.unique(np.concatenate([*own, shown_keys, asked_keys])).astype(np.int64)
    pod, ms = unkeyed(keys)
    request_set, rows = _request_sets(asked, asked_keys, keys)
    return PodColumns(
        numbers=numbers,
        names=frame["pod"],
        kinds=index,
        of_kind=of_kind,
        created_ms=created,
        gone_ms=milliseconds(frame["gone"]),
        state_first=np.searchsorted(pod, np.arange(frame.height + 1)).astype(np.int64),
        state_ms=ms,
        states=_states(shown, _newest(shown_keys, keys), keys, started, deleted),
        request_set=request_set,
        request_rows=rows,
        generated=(frame["origin"] == "generated").to_numpy().astype(np.int64),
    )


def _kinds(pods: pl.DataFrame) -> tuple[LabelIndex[int], list[I64]]:
    """Return the distinct (namespace, target, labels), numbered, and the pods of each."""
    index: LabelIndex[int] = LabelIndex()
    grouped = pods.group_by(_KIND, maintain_order=True).agg("p")
    for kind, (namespace, owner, labels) in enumerate(grouped.select(_KIND).iter_rows()):
        index.add(namespace, owner, labels, kind)
    return index, [part.to_numpy().astype(np.int64) for part in grouped["p"]]


def _numbered(frame: pl.DataFrame, numbers: pl.DataFrame, time: str) -> pl.DataFrame:
    return frame.join(numbers, on="uid", how="inner").sort("p", time, maintain_order=True)


def _states(shown: pl.DataFrame, row: I64, keys: I64, started: I64, deleted: I64) -> PodStates:
    """Return the POD_STATE records of the (pod, time) keys; `row`: of `shown` at each, -1: none.

    Before its first recorded state a pod is Pending, without a Ready condition.
    """
    pod, ms = unkeyed(keys)
    phase = _codes(shown["phase"], codes.PHASES, codes.PHASE_OTHER, codes.PHASE_OTHER)
    ready = _codes(shown["ready"], codes.READINESS, codes.READY_UNKNOWN, codes.READY_ABSENT)
    begun = started[pod] <= ms
    flags = np.append(phase | ready, codes.PHASE_PENDING | codes.READY_ABSENT)[row]
    flags = flags | np.where(deleted[pod] <= ms, codes.POD_DELETING, 0)
    return records_from(
        POD_STATE,
        pod.size,
        pod_flags=flags | np.where(begun, codes.POD_STARTED, 0),
        start_ms=np.where(begun, started[pod], 0),
        transition_ms=np.append(milliseconds(shown["last_transition"], 0), 0)[row],
    )


def _codes(column: pl.Series, table: dict[str, int], other: int, absent: int) -> I64:
    """Return the codes of texts; `other` of a text without one, `absent` of a null."""
    known = {None: absent} | table
    return integers(column.replace_strict(known, default=other, return_dtype=pl.Int64))


def _request_sets(asked: pl.DataFrame, theirs: I64, keys: I64) -> tuple[I64, list[tuple[Row, ...]]]:
    """Return per (pod, time) key the number of its request rows, -1 for none, and the rows.

    `theirs` are the keys of `asked`. The newest row of each container counts; before a pod's first
    rows those count.
    """
    versions: list[int] = []
    numbers: dict[tuple[Row, ...], int] = {}
    rows: list[Row] = list(
        asked.select("container", "kind", "index", "cpu_milli", "memory_milli").iter_rows()
    )
    starts = np.flatnonzero(np.diff(theirs, prepend=-1))
    since = theirs[starts]
    pod = unkeyed(since)[0]
    is_first = np.diff(pod, prepend=-1) != 0
    latest: dict[tuple[str, str, int], Row] = {}
    ends = np.append(starts, theirs.size)[1:]
    for first, last, anew in zip(starts.tolist(), ends.tolist(), is_first.tolist(), strict=True):
        latest = {} if anew else latest
        latest.update({row[:3]: row for row in rows[first:last]})
        versions.append(numbers.setdefault(tuple(latest.values()), len(numbers)))
    at = _newest(np.where(is_first, keyed(pod, np.zeros_like(pod)), since), keys)
    return np.array([*versions, -1], np.int64)[at], list(numbers)


# ---- requests of a pod at a time, by the rules of model.requests --------------------------------


@lru_cache(maxsize=200_000)
def request_of_rows(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules
) -> tuple[int, int]:
    """Return (known 0/1, milli) of a pod's request; equal pods are computed once."""
    request = _request(rows, resource, container, rules, "")
    return int(request.error is None), request.milli


def request_error_of_rows(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules, pod: str
) -> str:
    """Return upstream's error of a request that is not known; `pod` is the pod's name.

    A pod without any row was recorded without its containers; there upstream would name the first,
    or the one that is asked for.
    """
    if not rows:
        rows = ((container or "<not recorded>", "app", 0, None, None),)
    return _request(rows, resource, container, rules, pod).error or ""


def _request(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules, pod: str
) -> PodRequest:
    def amounts(row: Row) -> dict[str, Quantity]:
        pairs = (("cpu", row[3]), ("memory", row[4]))
        return {name: Quantity.from_milli(v) for name, v in pairs if v is not None}

    def of_kind(*kinds: str) -> list[ContainerRequests]:
        chosen = sorted((row for row in rows if row[1] in kinds), key=lambda row: row[2])
        return [
            ContainerRequests(row[0], amounts(row), "Always" if row[1] == "sidecar" else None)
            for row in chosen
        ]

    level = [amounts(row) for row in rows if row[1] == "pod"]
    overhead = [amounts(row) for row in rows if row[1] == "overhead"]
    return pod_request(
        pod,
        of_kind("app"),
        of_kind("sidecar", "init"),
        level[0] if level else None,
        overhead[0] if overhead else None,
        container=container,
        resource=resource,
        rules=rules,
    )
