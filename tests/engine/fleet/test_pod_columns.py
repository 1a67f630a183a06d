"""Pods as columns: their states and requests over time."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.engine.fleet.pod_columns import PodColumns, pod_columns
from hpabatch.history.schema import TABLES
from hpabatch.layout.records import I64
from hpabatch.model.requests import NEWEST_RULES, RequestRules
from tests.engine.naive_align import Row
from tests.engine.small_history import T0, pod_row, request_row, to_frame


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


@pytest.mark.parametrize("origin", ["recorded", "generated"])
def test_pods_that_only_stand_for_others_are_marked(origin: str) -> None:
    assert columns([pod_row("web-0", origin=origin)]).generated.tolist() == [origin != "recorded"]
