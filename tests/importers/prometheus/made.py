"""Samples for tests, from plain Python values."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hpabatch.importers.prometheus.client.samples import POINTS, Samples, make_samples

Series = tuple[dict[str, str], list[tuple[int, float]]]


def made(series: Sequence[Series]) -> Samples:
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
