"""Usage of containers from raw samples: by hand, against a naive reference, and cut anywhere."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.pods.usage import USAGE, usage_rows
from hpabatch.importers.prometheus.reading.gauges import SILENT_MS, source_ranks
from tests.effort import effort
from tests.importers.prometheus.made import Series, between, made

UID = "1a2b3c4d-0000-1111-2222-333344445555"
POD = {"namespace": "shop", "pod": "web-1", "container": "app"}
SPAN = Span(0, 600_000, 300_000)


def cpu_of(*points: tuple[int, float], **labels: str) -> Series:
    return ({**POD, **labels}, [(1000 * s, v) for s, v in points])


def rows(
    cpu: list[Series], memory: list[Series] | None = None, span: Span = SPAN
) -> tuple[list[tuple[Any, ...]], Findings]:
    findings = Findings()
    found = usage_rows(made(cpu), made(memory or []), span, findings)
    assert found.schema == USAGE
    return found.rows(), findings


def seconds(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return (s, window s, milli, bytes) of rows of one container."""
    return [(row[4] // 1000, row[5] and row[5] // 1000, row[6], row[7]) for row in found]


@pytest.mark.parametrize("begin", [0.0, 1e-3, 12345.678, 1e6 + 0.1, 1e8 + 1 / 3])
def test_whole_millicores_come_back_whatever_the_counter_says(begin: float) -> None:
    for milli in (1, 7, 250, 333, 1999, 64_000):
        total, points = begin, [(0, begin)]
        for step in range(1, 20):
            # As an exporter counts, and writes its float.
            total = begin + milli * step * 15 / 1000
            points.append((step * 15, total))
        found, _ = rows([cpu_of(*points)])
        assert {row[6] for row in found} == {milli}


def test_less_than_a_nanocore_is_nothing_in_a_long_interval() -> None:
    long = Span(0, 10_000_000, 5_000_000)
    found, _ = rows([cpu_of((0, 0.0), (2000, 1e-6), (4000, 4e-6))], span=long)
    # 0.5 and 1.5 nanocores.
    assert [row[6] for row in found] == [0, 1]


def test_gaps_resets_and_impossible_values_are_left_out_and_counted() -> None:
    cpu = [
        cpu_of(
            *((10, 1.0), (40, math.nan), (70, 4.0), (100, -1.0), (130, math.inf)),
            *((160, 0.5), (190, 3.5), (491, 9.0), (521, 12.0)),
        )
    ]
    found, findings = rows(cpu)
    assert seconds(found) == [(70, 60, 50, None), (190, 30, 100, None), (521, 30, 100, None)]
    assert dict(findings.counts) == {
        ("value", "not finite, negative, or far too large"): 3,
        ("reset", "cpu: the counter fell"): 1,
        ("gap", "cpu: two samples too far apart"): 1,
    }


def test_impossible_usage_and_memory_are_left_out() -> None:
    found, findings = rows(
        [(POD, [(1, 0.0), (500, 0.9e12), (700, 2e12), (900, 0.9e12)])],
        [(POD, [(500, 1e16), (700, 5.0), (900, -0.5)])],
        span=Span(0, 10_000, 1000),
    )
    # More than 10^12 cores are none; the counter then stood still.
    assert [row[4:] for row in found] == [(700, None, None, 5), (900, 400, 0, None)]
    assert findings.counts == {("value", "not finite, negative, or far too large"): 4}


def test_rows_of_pods_and_of_pause_are_dropped() -> None:
    whole = {k: v for k, v in POD.items() if k != "container"}
    other: list[Series] = [
        ({**POD, "container": ""}, [(0, 0.0), (30_000, 1.0)]),
        ({**POD, "container": "POD"}, [(0, 0.0), (30_000, 1.0)]),
        (whole, [(0, 0.0), (30_000, 1.0)]),
    ]
    found, findings = rows([*other, cpu_of((0, 0.0), (30, 3.0))])
    assert seconds(found) == [(30, 30, 100, None)]
    assert findings.counts["no container", ""] == 3


@pytest.mark.parametrize(
    ("path", "uid"),
    [
        (f"/kubepods/burstable/pod{UID}/0123abc", UID),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{UID.replace('-', '_')}.slice/cri-containerd-0123abc.scope",
            UID,
        ),
        # A node inside a pod: the inner pod is meant.
        (f"/kubepods/pod{UID[::-1]}/x/kubelet/kubepods/pod{UID}/0123abc", UID),
        # A static pod has the hash of its file there, which is not its uid in the API.
        ("/kubepods/burstable/pod0123456789abcdef0123456789abcdef/0123abc", None),
        ("/system.slice/kubelet.service", None),
        ("", None),
    ],
)
def test_the_uid_is_read_off_the_cgroup(path: str, uid: str | None) -> None:
    found, _ = rows([cpu_of((0, 0.0), (30, 3.0), id=path)])
    assert [row[3] for row in found] == [uid]


def test_cores_one_by_one_do_not_count() -> None:
    cores = [cpu_of((0, 1.0), (30, 2.5), cpu="cpu00"), cpu_of((0, 1.5), (30, 3.0), cpu="total")]
    found, _ = rows(cores)
    assert [row[6] for row in found] == [50]


def test_two_jobs_count_once_and_both_metrics_come_from_the_same() -> None:
    def scraped(job: str, offset: int) -> list[Series]:
        pairs = [(30 * k + offset, 3.0 * k) for k in range(10)]
        return [cpu_of(*pairs, job=job, instance="n1")]

    found, findings = rows(
        scraped("kubelet", 0) + scraped("cadvisor", 7),
        scraped("kubelet", 0) + scraped("cadvisor", 7),
    )
    # That of kubelet before the other one's first sample was no harm.
    assert [row[4] // 1000 for row in found] == [7 + 30 * k for k in range(10)]
    assert {row[6] for row in found[1:]} == {100}
    assert all(row[7] is not None for row in found)
    assert dict(findings.counts) == {("duplicate", ""): 1}


def test_containers_looked_at_one_by_one_become_samples_of_the_pod() -> None:
    app = [(30 * k + 2, 3.0 * k) for k in range(6)]
    side = [(30 * k + 9, 0.3 * k) for k in range(6)]
    found, findings = rows([cpu_of(*app), cpu_of(*side, container="side")])
    assert {(row[4] // 1000, row[2], row[6]) for row in found} == {
        *((30 * k + 2, "app", 100) for k in range(1, 6)),
        *((30 * k + 2, "side", 10) for k in range(1, 6)),
    }
    assert findings.counts["together", "pods whose containers are looked at one by one"] == 1


# Random containers: one to three of a pod, scraped by one or two jobs, restarted, silent for a
# while, reset, with values that are none.

JOBS = [{"job": "kubelet"}, {"job": "cadvisor"}, {"job": "cadvisor", "instance": "n2"}]
LOOKBACK = 300_000


@st.composite
def scraped(draw: st.DrawFn, job: dict[str, str], pod: str, container: str) -> list[Series]:
    every = draw(st.sampled_from([15_000, 30_000, 60_000]))
    jitter = draw(st.sampled_from([0, 400, 9_000]))
    offset = draw(st.integers(0, every - 1))
    life, found, total = 0, [], 0.0
    points: list[tuple[int, float]] = []
    labels = {"namespace": "shop", "pod": pod, "container": container, **job}
    at = offset
    for _ in range(draw(st.integers(3, 30))):
        event = draw(st.sampled_from(["scrape"] * 12 + ["gap", "restart", "reset", "nan"]))
        if event == "gap":
            at += draw(st.integers(1, 3)) * 200_000
        elif event == "restart" and points:
            found.append(({**labels, "id": f"/{life}"}, points))
            life, points, total = life + 1, [], 0.0
        elif event == "reset":
            total = 0.0
        total += draw(st.integers(0, 60_000_000)) / 1e6
        value = math.nan if event == "nan" else total
        ts = at + (draw(st.integers(0, jitter)) if jitter else 0)
        if not points or ts > points[-1][0]:
            points.append((ts, value))
        at += every
    found.append(({**labels, "id": f"/{life}"}, points))
    return found


@st.composite
def clusters(draw: st.DrawFn) -> list[Series]:
    found: list[Series] = []
    for pod in ("a", "b")[: draw(st.integers(1, 2))]:
        for container in ("app", "proxy", "side")[: draw(st.integers(1, 3))]:
            for job in JOBS[: draw(st.integers(1, 3))]:
                found += draw(scraped(job, pod, container))
    return found


@st.composite
def both(draw: st.DrawFn) -> tuple[list[Series], list[Series]]:
    cpu = draw(clusters())
    memory = []
    for labels, points in cpu:
        if draw(st.integers(0, 5)):
            memory.append((labels, [(ts, 1e6 + v) for ts, v in points]))
    return cpu, memory


def as_rows(
    series: list[Series], memory: list[Series], span: Span, ranks: dict[str, int] | None = None
) -> list[tuple[Any, ...]]:
    """Request a window as the import does, and return its rows."""
    until = span.until_ms + SILENT_MS
    parts = [made(between(part, span.from_ms, until)) for part in (series, memory)]
    return usage_rows(parts[0], parts[1], span, Findings(), ranks=ranks).rows()


@settings(max_examples=effort(20), deadline=None)
@given(both(), st.lists(st.integers(200_001, 1_999_999), max_size=5, unique=True))
def test_windows_cut_anywhere_give_the_same_rows(
    series: tuple[list[Series], list[Series]], cuts: list[int]
) -> None:
    bounds = [100_000, *sorted(cuts), 2_000_000]
    # Which source is preferred may depend on the window; all else does not.
    ranks = source_ranks([made(part) for part in series], ["namespace", "pod", "container"])
    parts: list[tuple[Any, ...]] = []
    for after, until in pairwise(bounds):
        parts += as_rows(*series, Span(after, until, LOOKBACK), ranks)
    whole = as_rows(*series, Span(100_000, 2_000_000, LOOKBACK), ranks)
    assert sorted(parts, key=by_place) == whole


def by_place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:3], row[4])
