"""A replay's results as one frame: codes become words here, once per distinct code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from hpabatch.arrays.layout import I64, Fleet, Results
from hpabatch.engine.align import Lane
from hpabatch.model import codes
from hpabatch.model.describe import metric_name

_BINDINGS = {code: words.name for code, words in codes.BINDINGS.items()}
_CONDITION_REASONS = {code: words.reason for code, words in codes.CONDITIONS.items()}
_TYPES = (
    ("able_to_scale", codes.ABLE_TO_SCALE),
    ("scaling_active", codes.SCALING_ACTIVE),
    ("scaling_limited", codes.SCALING_LIMITED),
)


def _words(values: I64, table: dict[int, str | None]) -> pl.Series:
    """Return the words of codes; a code without words is null."""
    keys = np.unique(values)
    position = np.searchsorted(keys, values)
    words = pl.Series([table.get(int(key)) for key in keys], dtype=pl.String)
    return words.gather(position)


def _applied(fleet: Fleet) -> I64:
    """Return the recorded size after each tick: what the next tick of the lane sees."""
    after = np.roll(fleet.ticks.replicas, -1)
    last = fleet.lanes.last_tick - 1
    after[last] = fleet.ticks.replicas[last]
    return np.asarray(after, np.int64)


def _metric_words(lanes: Sequence[Lane], fleet: Fleet) -> list[list[str]]:
    """Return the descriptions of the metrics of each spec row."""
    names = []
    specs = [period.spec for lane in lanes for period in lane.candidate.periods]
    for row, spec in zip(fleet.specs, specs, strict=True):
        kinds = fleet.metrics.kind[row.first_metric : row.last_metric]
        names.append([metric_name(m, int(k)) for m, k in zip(spec.metrics, kinds, strict=True)])
    return names


def _driving(
    lanes: Sequence[Lane], fleet: Fleet, results: Results
) -> tuple[pl.Series, pl.Series, pl.Series, pl.Series]:
    """Return per tick the driving metric, its ratio, the event's reason and the first error."""
    ticks, d, m = fleet.ticks, results.decisions, results.metrics
    names = _metric_words(lanes, fleet)
    spec = ticks.spec
    has = d.metric >= 0
    metric_row = fleet.specs.first_metric[spec] + np.maximum(d.metric, 0)
    metric_row = np.minimum(metric_row, max(fleet.metrics.size - 1, 0))
    flat = [name for part in names for name in part]
    driving = _words(np.where(has, metric_row, -1), dict(enumerate(flat)))
    answer = np.arange(ticks.size) + _answer_offset(fleet, metric_row)
    ratio = pl.Series(np.where(has, m.ratio[answer], np.nan)).fill_nan(None)
    reason = _words(d.reason.astype(np.int64), dict(codes.REASONS))
    reason = (
        pl.DataFrame({"reason": reason, "metric": driving.fill_null("")})
        .select(pl.col("reason").str.replace("{metric}", pl.col("metric"), literal=True))
        .to_series()
    )
    return driving, ratio, reason, _first_error(fleet, results)


def _answer_offset(fleet: Fleet, metric_row: I64) -> I64:
    return np.asarray(fleet.streams.answer_offset[fleet.metrics.stream[metric_row]], np.int64)


def _first_error(fleet: Fleet, results: Results) -> pl.Series:
    """Return why the first failing metric of each tick failed, null where none did."""
    ticks = fleet.ticks
    error = np.zeros(ticks.size, np.int64)
    first, last = fleet.specs.first_metric[ticks.spec], fleet.specs.last_metric[ticks.spec]
    width = int((last - first).max(initial=0))
    for k in range(width):
        row = np.minimum(first + k, fleet.metrics.size - 1)
        code = results.metrics.code[np.arange(ticks.size) + _answer_offset(fleet, row)]
        failed = (first + k < last) & (code != codes.METRIC_OK)
        failed &= (code != codes.METRIC_NOT_COMPUTED) & (error == 0)
        error[failed] = code[failed]
    table: dict[int, str | None] = dict(codes.METRIC_ERRORS)
    return _words(error, table | {codes.METRIC_OK: None})


def _conditions(results: Results) -> dict[str, pl.Series]:
    """Return the reasons of the three conditions by type, null where a condition is not set."""
    d = results.decisions
    slots = [d[f"condition_{k}"].astype(np.int64) for k in range(4)]
    found = {}
    for name, kind in _TYPES:
        code = np.zeros(d.size, np.int64)
        for slot in slots:
            code = np.where(slot >> 4 == kind, slot, code)
        found[name] = _words(code, dict(_CONDITION_REASONS))
    return found


def decisions_frame(lanes: Sequence[Lane], fleet: Fleet, results: Results) -> pl.DataFrame:
    """Return one row per HPA and tick, in the order of the lanes and of time."""
    ticks, d = fleet.ticks, results.decisions
    counts = (fleet.lanes.last_tick - fleet.lanes.first_tick).astype(np.int64)
    lane_of = np.repeat(np.arange(len(lanes)), counts)
    identity = pl.DataFrame(
        {
            "cluster": [lane.candidate.cluster for lane in lanes],
            "namespace": [lane.candidate.namespace for lane in lanes],
            "hpa": [lane.candidate.name for lane in lanes],
        },
        schema={"cluster": pl.String(), "namespace": pl.String(), "hpa": pl.String()},
    )
    driving, ratio, reason, error = _driving(lanes, fleet, results)
    columns = {
        "ts": pl.Series(ticks.now_ms.copy()).cast(pl.Datetime("ms", "UTC")),
        "min_replicas": fleet.specs.min_replicas[ticks.spec],
        "max_replicas": fleet.specs.max_replicas[ticks.spec],
        "replicas": d.current.astype(np.int64),
        # The size that the decision leaves the target at; the HPA's status keeps an older number
        # where nothing could be computed.
        "desired": np.where(d.rescaled != 0, d.desired, d.current).astype(np.int64),
        "applied": _applied(fleet),
        "proposal": d.proposal.astype(np.int64),
        "stabilized": d.stabilized.astype(np.int64),
        "limited": d.limited.astype(np.int64),
        "rescaled": d.rescaled.astype(bool),
        "binding": _words(d.binding.astype(np.int64), dict(_BINDINGS)),
        "reason": reason,
        "metric": driving,
        "ratio": ratio,
        "invalid_metrics": d.invalid_metrics.astype(np.int64),
        "error": error,
        **_conditions(results),
    }
    frame = pl.DataFrame(columns)
    unknown = pl.Series(ticks.scale == codes.SCALE_UNKNOWN)
    sizes = ("replicas", "desired", "applied", "proposal", "stabilized", "limited")
    frame = frame.with_columns(pl.when(~unknown).then(pl.col(name)).alias(name) for name in sizes)
    return identity[lane_of].hstack(frame)
