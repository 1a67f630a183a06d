"""Requests and limits of containers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.common.objects import AMOUNTS
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.pods.states import (
    REQUESTED,
    REQUESTS,
    note_lacking,
    request_rows,
)
from tests.effort import effort
from tests.importers.prometheus.ksm import CUTS, SPAN, at, found_pods, gauge, owned_by, pod, steady
from tests.importers.prometheus.made import Series

WHEN = steady(1000, 4000)
NEW = found_pods(
    [(pod(), WHEN)], owners=[pod(**owned_by("StatefulSet", "db"))], created=[(pod(), 990)]
)
OLD = found_pods([(pod(), steady(0, 4200))], created=[(pod(), 100)])


def amount(container: str, resource: str, points: list[tuple[int, float]], **labels: str) -> Series:
    return ({**pod(), "container": container, "resource": resource, **labels}, points)


def constantly(container: str, resource: str, value: float) -> Series:
    return amount(container, resource, [(ts, value) for ts, _ in WHEN], unit="x", node="n1")


def rows(
    pods: pl.DataFrame = NEW,
    initial: bool = False,
    findings: Findings | None = None,
    span: Span = SPAN,
    **series: list[Series],
) -> list[tuple[Any, ...]]:
    """Return container, kind, index, valid from (s) and the amounts."""
    said = {name: gauge(name, series.get(name, []), span) for name in REQUESTED}
    noted = Findings() if findings is None else findings
    found = request_rows(said, pods, span, noted, initial=initial)
    note_lacking(found, noted)
    assert found.schema == REQUESTS
    picked = found.select("container", "kind", "index", "valid_from", *AMOUNTS).rows()
    return [(c, kind, index, ms // 1000, *rest) for c, kind, index, ms, *rest in picked]


def test_kinds() -> None:
    info = [
        ({**pod(), "container": "setup", "restart_policy": ""}, WHEN),
        ({**pod(), "container": "proxy", "restart_policy": "Always"}, WHEN),
        ({**pod(), "container": "bare"}, WHEN),
    ]
    found = rows(
        requests=[constantly("app", "cpu", 1)],
        init_requests=[constantly("setup", "cpu", 2), constantly("proxy", "cpu", 0.1)],
        init_limits=[constantly("proxy", "cpu", 0.2)],
        init_containers=info,
        overhead_cpu=[(pod(), [(ts, 0.25) for ts, _ in WHEN])],
        overhead_memory=[(pod(), [(ts, 1024.0) for ts, _ in WHEN])],
    )
    assert found == [
        ("app", "app", 0, 990, 1000, None, None, None),
        ("bare", "init", 0, 990, None, None, None, None),
        ("setup", "init", 2, 990, 2000, None, None, None),
        ("", "overhead", 0, 990, 250, 1_024_000, None, None),
        ("proxy", "sidecar", 1, 990, 100, None, 200, None),
    ]


def test_a_container_without_any_request_has_a_row() -> None:
    findings = Findings()
    found = rows(
        requests=[constantly("app", "memory", 1)],
        containers=[({**pod(), "container": name}, WHEN) for name in ("app", "idle")],
        findings=findings,
    )
    assert found == [
        ("app", "app", 0, 990, None, 1000, None, None),
        ("idle", "app", 1, 990, None, None, None, None),
    ]
    assert findings.counts == {("no request", "containers without a request for cpu"): 2}


def test_what_an_earlier_window_saw_is_written_at_the_beginning_only() -> None:
    when = steady(300, 4200)
    cpu = amount("app", "cpu", [(ts, 1.0 if ts < 2_000_000 else 2.0) for ts, _ in when])
    memory = amount("app", "memory", [(ts, 5.0) for ts, _ in when])
    # Its status came later than its spec.
    late = [({**pod(), "container": name}, steady(900, 4200)) for name in ("app", "idle")]
    said: dict[str, Any] = {"requests": [cpu, memory], "containers": late, "pods": OLD}
    later = [
        ("app", "app", 0, 2010, 2000, 5000, None, None),
        ("idle", "app", 1, 100, None, None, None, None),
    ]
    assert rows(**said) == later
    first = ("app", "app", 0, 100, 1000, 5000, None, None)
    assert rows(**said, initial=True) == [first, *later]


def test_amounts_that_cannot_be_and_pods_that_are_not_known() -> None:
    findings = Findings()
    stranger = {**pod("other", "x"), "container": "app", "resource": "cpu"}
    found = rows(
        requests=[
            amount("app", "cpu", at((1000, -1), (1030, 0.1))),
            amount("app", "memory", at((1000, 1e18), (1030, 3))),
            (stranger, WHEN),
        ],
        limits=[amount("app", "cpu", at((1000, math.inf), (1030, 0)))],
        findings=findings,
    )
    assert found == [("app", "app", 0, 990, 100, 3000, 0, None)]
    assert findings.counts["value", "a cpu request that cannot be"] == 1
    assert findings.counts["no pod", "namespace shop"] == 1


@settings(max_examples=effort(16), deadline=None)
@given(
    st.lists(st.sampled_from([0.0] * 9 + [0.5, 1.0, 2.0]), min_size=131, max_size=131),
    st.integers(0, 130),
    CUTS,
)
def test_windows_cut_anywhere_say_the_same(
    changes: list[float], begin: int, cuts: list[int]
) -> None:
    current, points = 0.25, []
    for s, change in list(zip(range(300, 4201, 30), changes, strict=True))[begin:]:
        current = change or current
        points.append((1000 * s, current))
    when = [(ts, 1.0) for ts, _ in points]
    pods = found_pods([(pod(), when)], created=[(pod(), points[0][0] // 1000 - 10)])
    series: dict[str, Any] = {
        "requests": [amount("app", "cpu", points), amount("app", "memory", when)],
        "containers": [({**pod(), "container": name}, when) for name in ("app", "idle")],
    }
    bounds = [600_000, *(1000 * s for s in sorted(cuts)), 4_200_000]
    parts: list[tuple[Any, ...]] = []
    for a, b in pairwise(bounds):
        parts += rows(pods, a == 600_000, span=Span(a, b, 300_000), **series)
    assert sorted(parts) == sorted(rows(pods, initial=True, **series))
