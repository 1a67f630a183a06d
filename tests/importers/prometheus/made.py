"""Samples for tests, from plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import polars as pl

from hpabatch.importers.prometheus.client.samples import (
    POINTS,
    Findings,
    Samples,
    Span,
    make_samples,
)
from hpabatch.importers.prometheus.reading.gauges import Gauge, reduce_gauge

Series = tuple[dict[str, str], list[tuple[int, float]]]


def made(series: Sequence[tuple[Mapping[str, str], Sequence[tuple[int, float]]]]) -> Samples:
    """Return samples of (labels, [(ms, value)])."""
    points = [(k, ts, float(v)) for k, (_, pairs) in enumerate(series) for ts, v in sorted(pairs)]
    frame = pl.DataFrame(points, schema=POINTS, orient="row")
    return make_samples([labels for labels, _ in series], frame)


def between(series: Sequence[Series], after_ms: int, until_ms: int) -> list[Series]:
    """Return what a request for after_ms < ts <= until_ms responses."""
    found = []
    for labels, pairs in series:
        inside = [pair for pair in pairs if after_ms < pair[0] <= until_ms]
        if inside:
            found.append((labels, inside))
    return found


def seen(series: Sequence[Series], labels: Sequence[str], span: Span) -> Gauge:
    """Return what a window saw of a gauge; what did not change in it comes as constant series."""
    raw: list[Series] = []
    constant: list[Series] = []
    for told, points in between(series, span.from_ms, span.until_ms):
        ends = points[0][0] <= span.after_ms and points[-1][0] > span.until_ms - 30_000
        dense = all(b[0] - a[0] <= 60_000 for a, b in pairwise(points))
        same = ends and dense and len({value for _, value in points}) == 1
        (constant if same else raw).append((told, points[-1:] if same else points))
    return reduce_gauge(made(raw), made(constant), labels, span, Findings())
