"""Reasons of a tick's decision: every metric's result, and the changes of the status.

Numbers and codes as words only; sentences are made for single ticks (`engine.explain.status`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from hpabatch.engine.shards.shard import Shard
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.layout.results import NO_TIME_MS
from hpabatch.model.objects.describe import metric_name

_GROUPS: Final = ("ready", "unready", "missing", "ignored", "stray")
_STEPS = {code: text for code, text in codes.STEPS.items() if text}
_ERRORS = {
    code: text
    for code, text in codes.METRIC_ERRORS.items()
    if code not in (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED)
}

METRIC_FIELDS: Final = pl.Schema(
    {
        "metric": pl.String(),
        "proposal": pl.Int64(),
        "ratio": pl.Float64(),
        "utilization_pct": pl.Int64(),
        "average_milli": pl.Int64(),
        "value_milli": pl.Int64(),
        "step": pl.String(),
        "error": pl.String(),
        **dict.fromkeys(_GROUPS, pl.Int64()),
    }
)
"""Fields of each metric in `metrics`; null where the metric has no such number or was not asked."""

SCHEMA: Final = pl.Schema(
    {
        "metrics": pl.List(pl.Struct(dict(METRIC_FIELDS))),
        "status_written": pl.Boolean(),
        "last_scale_time": pl.Datetime("ms", "UTC"),
        "scaled_to_zero": pl.String(),
    }
)
"""The columns that a replay has more where it was asked why."""

_WITH_AVERAGE = (
    codes.RESOURCE_UTILIZATION,
    codes.RESOURCE_AVERAGE,
    codes.PODS_AVERAGE,
    codes.OBJECT_AVERAGE,
    codes.EXTERNAL_AVERAGE,
)
_WITH_VALUE = (codes.OBJECT_VALUE, codes.EXTERNAL_VALUE)
_WITH_PODS = (codes.RESOURCE_UTILIZATION, codes.RESOURCE_AVERAGE, codes.PODS_AVERAGE)


def why_columns(shard: Shard, at: Any) -> pl.DataFrame:
    """Return the columns of the ticks at some positions (an index of `fleet.ticks`)."""
    statuses = shard.statuses[at]
    last_ms = statuses.last_scale_ms
    last = pl.Series(np.array(last_ms, np.int64))
    never = pl.Series(last_ms == NO_TIME_MS)
    return pl.DataFrame(
        {
            "metrics": _metrics(shard, at),
            "status_written": pl.Series(statuses.written != 0),
            "last_scale_time": pl.select(pl.when(~never).then(last)).to_series(),
            "scaled_to_zero": _scaled_to_zero(shard, at),
        }
    ).cast({"last_scale_time": SCHEMA["last_scale_time"]})


def _metrics(shard: Shard, at: Any) -> pl.Series:
    """Return a list of what each metric said, per tick, in the order of the spec."""
    fleet = shard.fleet
    ticks = np.arange(fleet.ticks.size)[at]
    spec = fleet.ticks.spec[ticks]
    first = fleet.specs.first_metric[spec].astype(np.int64)
    counts = fleet.specs.last_metric[spec].astype(np.int64) - first
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    tick = np.repeat(ticks, counts)
    metric = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
    rows = _rows(shard, tick, metric)
    structs = rows.select(pl.struct(METRIC_FIELDS.names())).to_series().to_arrow()
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), structs)
    found = pl.from_arrow(lists)
    assert isinstance(found, pl.Series)
    return found


def _rows(shard: Shard, tick: I64, metric: I64) -> pl.DataFrame:
    """Return what some metrics (rows of `fleet.metrics`) said at some ticks."""
    fleet = shard.fleet
    kind = fleet.metrics.kind[metric]
    row = tick + fleet.streams.answer_offset[fleet.metrics.stream[metric]]
    said, detail = shard.results.metrics[row], shard.results.details[row]
    fine = said.code == codes.METRIC_OK
    asked = said.code != codes.METRIC_NOT_COMPUTED
    # An answer that failed was not looked into any further.
    grouped = asked & np.isin(kind, _WITH_PODS) & (fine | (detail.ready + _others(detail) > 0))
    names = pl.Series(metric_names(shard), dtype=pl.String)
    return pl.DataFrame(
        {
            "metric": names.gather(pl.Series(metric)),
            "proposal": masked(said.proposal, fine),
            "ratio": masked(said.ratio, fine, np.float64).fill_nan(None),  # 0 of a target of 0
            "utilization_pct": masked(
                said.utilization_pct, fine & (kind == codes.RESOURCE_UTILIZATION)
            ),
            "average_milli": masked(said.average_milli, fine & np.isin(kind, _WITH_AVERAGE)),
            "value_milli": masked(said.value_milli, fine & np.isin(kind, _WITH_VALUE)),
            "step": _words(said.step, _STEPS, fine),
            "error": _words(said.code, _ERRORS, asked & ~fine),
            **{name: masked(detail[name], grouped) for name in _GROUPS},
        }
    )


def _others(detail: Any) -> Any:
    return detail.unready + detail.missing + detail.ignored + detail.stray


def metric_names(shard: Shard) -> list[str]:
    """Return the description of every row of `fleet.metrics`."""
    found: list[str] = []
    specs = [period.spec for candidate in shard.candidates for period in candidate.periods]
    named = shard.profile.container_metric_named
    for row, spec in zip(shard.fleet.specs, specs, strict=True):
        kinds = shard.fleet.metrics.kind[row.first_metric : row.last_metric]
        found += [metric_name(m, int(k), named) for m, k in zip(spec.metrics, kinds, strict=True)]
    return found


def masked(values: Any, known: Any, dtype: Any = np.int64) -> pl.Series:
    """Return values that are null where not known."""
    # Always a copy: a frame keeps an array's memory, and a shard's is used again.
    series = pl.Series(np.array(values, dtype))
    if known.all():
        return series
    return pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _words(values: Any, words: dict[int, str], known: Any) -> pl.Series:
    """Return the words of codes; null where not known, or without a word."""
    table = pl.Series([words.get(code) for code in range(max(words) + 1)], dtype=pl.String)
    series = table.gather(pl.Series(np.where(known, values, 0).astype(np.int64)))
    return pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _scaled_to_zero(shard: Shard, at: Any) -> pl.Series:
    """Return the reason of the condition ScaledToZero; null: it is not set."""
    decisions = shard.results.decisions[at]
    code = np.zeros(decisions.size, np.int64)
    for k in range(4):
        slot = decisions[f"condition_{k}"]
        np.copyto(code, slot, where=slot >> 4 == codes.SCALED_TO_ZERO)
    words = {c: w.reason for c, w in codes.CONDITIONS.items() if c >> 4 == codes.SCALED_TO_ZERO}
    return _words(code, words, code != 0)
