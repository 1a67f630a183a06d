"""Pods as columns: their states and requests over time."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.pod_columns import PodColumns, pod_columns
from hpabatch.history.schema import TABLES
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.model.requests import NEWEST_RULES, RequestRules
from tests.engine.naive_align import Row
from tests.engine.small_history import T0, pod_row, request_row, state_row, to_frame


def columns(
    pods: list[Row], states: list[Row] | None = None, requests: list[Row] | None = None
) -> PodColumns:
    rows = {
        "pods": [row | {"origin": row.get("origin", "recorded")} for row in pods],
        "pod_states": [row | {"target": row.get("target") or ""} for row in states or []],
        "pod_requests": [row | {"target": row.get("target") or ""} for row in requests or []],
    }
    frames = [to_frame(table, part).sort(TABLES[table].key) for table, part in rows.items()]
    return pod_columns(*frames)


def of_pod(pods: PodColumns, values: Any, p: int) -> list[Any]:
    return list(values[pods.state_first[p] : pods.state_first[p + 1]].tolist())


def requests_at(pods: PodColumns, p: int, ms: int, resource: str, **more: Any) -> tuple[int, int]:
    """Return (known, milli) of what a pod requests at a time."""
    times: I64 = pods.state_ms[pods.state_first[p] : pods.state_first[p + 1]]
    k = int(pods.state_first[p] + max((times <= ms).sum() - 1, 0))
    rules = RequestRules(pod_level=more.get("gate", True))
    found = pods.requests(resource, more.get("container", ""), rules)[k]
    return int(found.known), int(found.milli)


def test_requests_follow_their_validity() -> None:
    rows = [
        request_row("web-0", valid_from=T0, cpu_milli=100),
        request_row("web-0", "mesh", kind="sidecar", valid_from=T0, cpu_milli=10),
        request_row("web-0", valid_from=T0 + 5, cpu_milli=200),
        request_row("web-0", "big", kind="init", index=1, valid_from=T0, cpu_milli=900),
        request_row("web-0", "", kind="overhead", valid_from=T0, cpu_milli=7),
        request_row("web-0", "", kind="pod", valid_from=T0 + 9, cpu_milli=None, memory_milli=5),
    ]
    pods = columns([pod_row("bare-0"), pod_row("web-0")], requests=rows)
    # Before its first rows a pod has what those say.
    assert requests_at(pods, 1, T0 - 99, "cpu") == (1, 110)
    assert requests_at(pods, 1, T0 + 4, "cpu") == (1, 110)
    assert requests_at(pods, 1, T0 + 5, "cpu") == (1, 210)
    assert requests_at(pods, 1, T0 + 5, "cpu", container="mesh") == (1, 10)
    # Init containers and overhead count as soon as the pod has requests of its own.
    assert requests_at(pods, 1, T0 + 9, "cpu") == (1, 917)
    assert requests_at(pods, 1, T0 + 9, "memory") == (1, 5 + 1_024_000)
    assert requests_at(pods, 1, T0 + 9, "cpu", container="nobody")[0] == 0
    assert requests_at(pods, 0, T0, "cpu") == (0, 0)
    assert requests_at(pods, 1, T0 + 9, "cpu", gate=False) == (1, 210)
    # A metric that looks at no request finds one.
    assert set(pods.requests("", "", NEWEST_RULES).known.tolist()) == {1}


def test_equal_requests_are_kept_once() -> None:
    names = [f"web-{k}" for k in range(9)]
    rows = [request_row(name, cpu_milli=100) for name in names]
    pods = columns([pod_row(name) for name in names], requests=rows)
    assert len(pods.request_rows) == 1
    assert set(pods.request_set.tolist()) == {0}


def test_states_begin_at_every_change_of_anything() -> None:
    pods = columns(
        [pod_row("web-0", created=T0, started=T0 + 1, deletion_requested=T0 + 9, gone=T0 + 20)],
        [
            state_row("web-0", ts=T0 + 5, phase="Running", ready="False", last_transition=T0 + 4),
            state_row("web-0", ts=T0 + 9, phase="Failed", ready=None, last_transition=None),
        ],
        [request_row("web-0", valid_from=T0 + 3)],
    )
    assert of_pod(pods, pods.state_ms, 0) == [T0, T0 + 1, T0 + 3, T0 + 5, T0 + 9]
    begun = codes.POD_STARTED
    waiting = codes.PHASE_PENDING | codes.READY_ABSENT
    flags = of_pod(pods, pods.states.pod_flags, 0)
    assert flags == [
        waiting,
        waiting | begun,
        waiting | begun,
        codes.PHASES["Running"] | codes.READINESS["False"] | begun,
        codes.PHASES["Failed"] | codes.READY_ABSENT | codes.POD_DELETING | begun,
    ]
    assert of_pod(pods, pods.states.start_ms, 0) == [0] + [T0 + 1] * 4
    assert of_pod(pods, pods.states.transition_ms, 0) == [0, 0, 0, T0 + 4, 0]


def test_a_pod_with_nothing_but_a_life_and_rows_of_pods_that_are_not_there() -> None:
    pods = columns(
        [pod_row("a-0", created=T0, started=None), pod_row("b-0", created=T0 + 1, started=None)],
        [state_row("nobody-0")],
        [request_row("nobody-0")],
    )
    assert pods.state_first.tolist() == [0, 1, 2]
    assert pods.state_ms.tolist() == [T0, T0 + 1]
    assert pods.request_set.tolist() == [-1, -1]
    assert pods.gone_ms.tolist() == [NEVER_MS, NEVER_MS]


def test_no_pods_at_all() -> None:
    pods = columns([])
    assert (pods.count, pods.state_first.tolist(), pods.state_ms.size) == (0, [0], 0)
    assert pods.requests("cpu", "", NEWEST_RULES).size == 0


def test_of_rows_with_one_uid_the_last_counts() -> None:
    pods = columns([pod_row("web-0", target=None, created=1), pod_row("web-0", created=2)])
    assert (pods.count, pods.created_ms.tolist()) == (1, [2])


@pytest.mark.parametrize("origin", ["recorded", "generated"])
def test_pods_that_only_stand_for_others_are_marked(origin: str) -> None:
    assert columns([pod_row("web-0", origin=origin)]).generated.tolist() == [origin != "recorded"]
