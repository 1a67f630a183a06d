"""A static analysis as CSV or Parquet: one row per HPA and metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from hpabatch.engine.analyze.loop import Ramp
from hpabatch.engine.analyze.run import Analysis, MetricAnalysis, TimedCycle
from hpabatch.report.analyze import KINDS, Analyzed, Findings, identity, plain, several_share
from hpabatch.report.history import frame_csv, frame_parquet

_FLAT: Final[dict[str, Any]] = {
    "source": pl.String, "line": pl.Int64, "namespace": pl.String, "hpa": pl.String,
    "target_kind": pl.String, "target": pl.String, "min_replicas": pl.Int64,
    "max_replicas": pl.Int64, "has_behavior": pl.Boolean, "tolerance_down": pl.Float64,
    "tolerance_up": pl.Float64, "middle_replicas": pl.Int64,
    "up_ended": pl.String, "up_hold_ms": pl.Int64, "up_reached_ms": pl.Int64, "up_steps": pl.Int64,
    "down_ended": pl.String, "down_hold_ms": pl.Int64, "down_reached_ms": pl.Int64,
    "down_steps": pl.Int64, "remarks": pl.String,
    "metric_index": pl.Int64, "signal": pl.String, "target_type": pl.String,
    "target_pct": pl.Int64, "target_milli": pl.Int64, "request_milli": pl.Int64,
    "base_milli": pl.Int64, "error": pl.String,
    "min_low_milli": pl.Int64, "min_high_milli": pl.Int64, "min_low_pct": pl.Int64,
    "min_high_pct": pl.Int64, "middle_low_milli": pl.Int64, "middle_high_milli": pl.Int64,
    "middle_low_pct": pl.Int64, "middle_high_pct": pl.Int64, "max_low_milli": pl.Int64,
    "max_high_milli": pl.Int64, "max_low_pct": pl.Int64, "max_high_pct": pl.Int64,
    "most_resting_sizes": pl.Int64, "several_resting_share": pl.Float64, "cycles": pl.Int64,
    "cycle_members": pl.String, "cycle_low_milli": pl.Int64, "cycle_high_milli": pl.Int64,
    "cycle_period_ms": pl.Int64,
}  # fmt: skip


def flat(findings: Findings) -> pl.DataFrame:
    """Return one row per HPA and metric; null where there is nothing to say."""
    rows = [row for item in findings.hpas for row in _flat_rows(item)]
    return pl.DataFrame(rows, schema=_FLAT)


def to_csv(findings: Findings) -> str:
    """Return the flat rows as CSV with a header."""
    return frame_csv(flat(findings))


def to_parquet(findings: Findings) -> bytes:
    """Return the flat rows as a Parquet file."""
    return frame_parquet(flat(findings))


def _flat_rows(item: Analyzed) -> Iterator[dict[str, object]]:
    analysis = item.analysis
    common = identity(item) | {
        "middle_replicas": analysis.middle,
        **_flat_ramp("up", analysis.up),
        **_flat_ramp("down", analysis.down),
        "remarks": "; ".join(plain(remark.text) for remark in item.remarks),
    }
    for index, metric in enumerate(analysis.metrics):
        yield common | {"metric_index": index} | _flat_metric(analysis, metric)


def _flat_ramp(name: str, ramp: Ramp | None) -> dict[str, object]:
    if ramp is None:
        return {}
    return {
        f"{name}_ended": ramp.ended,
        f"{name}_hold_ms": ramp.hold_ms,
        f"{name}_reached_ms": ramp.reached_ms,
        f"{name}_steps": len(ramp.steps),
    }


def _flat_metric(analysis: Analysis, metric: MetricAnalysis) -> dict[str, object]:
    row: dict[str, object] = {
        "signal": plain(metric.signal),
        "target_type": KINDS[metric.kind],
        "target_pct": metric.target_pct,
        "target_milli": metric.target_milli,
        "request_milli": metric.request_milli,
        "base_milli": metric.base_milli,
        "error": metric.error,
        "cycles": len(metric.cycles),
        "several_resting_share": several_share(metric),
    }
    places = (
        ("min", max(analysis.lowest, 1)),
        ("middle", analysis.middle),
        ("max", analysis.highest),
    )
    for place, size in places:
        band = metric.band(size)
        if band is not None:
            edges = asdict(band)
            row |= {f"{place}_{n}": edges[n] for n in edges if n not in ("size", "empty")}
    if metric.pieces:
        row["most_resting_sizes"] = max(piece.sizes for piece in metric.pieces)
    if metric.cycles:
        row |= _flat_cycle(metric.cycles[0])
    return row


def _flat_cycle(timed: TimedCycle) -> dict[str, object]:
    return {
        "cycle_members": " ".join(str(size) for size in timed.cycle.members),
        "cycle_low_milli": timed.cycle.low_milli,
        "cycle_high_milli": timed.cycle.high_milli,
        "cycle_period_ms": None if timed.settled is None else timed.settled.period_ms,
    }
