"""A little kube-state-metrics for tests: what it says of pods, reduced to what a window saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Samples, Span
from hpabatch.importers.prometheus.pods.lives import pod_rows
from hpabatch.importers.prometheus.reading.gauges import Gauge
from tests.importers.prometheus.made import Series, made, seen

KEY = ("namespace", "pod", "uid")
SPAN = Span(600_000, 4_200_000, 300_000)
CUTS = st.lists(st.integers(11, 69).map(lambda k: 60 * k + k % 41), max_size=3, unique=True)
"""Where a test cuts SPAN (s); no window is shorter than two scrapes."""
LABELS: Mapping[str, tuple[str, ...]] = {
    "info": ("node", "created_by_kind", "created_by_name"),
    "deleted": (),
    "phase": ("phase",),
    "ready": ("condition",),
    "ready_time": (),
    "requests": ("container", "resource"),
    "limits": ("container", "resource"),
    "init_requests": ("container", "resource"),
    "init_limits": ("container", "resource"),
    "containers": ("container",),
    "init_containers": ("container", "restart_policy"),
    "overhead_cpu": (),
    "overhead_memory": (),
}


def pod(name: str = "web-1", uid: str | None = "u1", **labels: str) -> dict[str, str]:
    """Return a pod's labels."""
    said = {"namespace": "shop", "pod": name, **labels}
    return said if uid is None else {**said, "uid": uid}


def at(*points: tuple[float, float]) -> list[tuple[int, float]]:
    """Return samples of (s, value)."""
    return [(round(1000 * s), float(v)) for s, v in points]


def steady(begin_s: int, end_s: int, value: float = 1.0) -> list[tuple[int, float]]:
    """Return a sample each 30 s."""
    return at(*((s, value) for s in range(begin_s, end_s + 1, 30)))


def gauge(name: str, series: Sequence[Series], span: Span = SPAN) -> Gauge:
    return seen(series, (*KEY, *LABELS[name]), span)


def facts(series: Sequence[tuple[Mapping[str, str], float]], span: Span = SPAN) -> Samples:
    """Return a sample per series."""
    return made([(dict(labels), [(span.until_ms, value)]) for labels, value in series])


def owned_by(kind: str, name: str, controller: str = "true") -> dict[str, str]:
    return {"owner_kind": kind, "owner_name": name, "owner_is_controller": controller}


def found_pods(
    info: Sequence[Series],
    *,
    owners: Sequence[Mapping[str, str]] = (),
    sets: Sequence[Mapping[str, str]] = (),
    created: Sequence[tuple[Mapping[str, str], float]] = (),
    started: Sequence[tuple[Mapping[str, str], float]] = (),
    deleted: Sequence[Series] = (),
    heartbeats: Sequence[int] = (),
    span: Span = SPAN,
    findings: Findings | None = None,
) -> pl.DataFrame:
    """Return the pods of a window; heartbeats in s."""
    return pod_rows(
        gauge("info", info, span),
        facts([(one, 1.0) for one in owners], span),
        facts([(one, 1.0) for one in sets], span),
        facts(created, span),
        facts(started, span),
        gauge("deleted", deleted, span),
        [1000 * s for s in heartbeats],
        span,
        Findings() if findings is None else findings,
    )
