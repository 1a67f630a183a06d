"""A replay's results as one frame: codes become words here, once per distinct code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.replay import why
from hpabatch.engine.shards.shard import Shard
from hpabatch.layout import codes
from hpabatch.layout.records import I64, Fleet

_TYPES: Final = (
    ("able_to_scale", codes.ABLE_TO_SCALE),
    ("scaling_active", codes.SCALING_ACTIVE),
    ("scaling_limited", codes.SCALING_LIMITED),
)
_SIZES: Final = ("replicas", "desired", "applied", "proposal", "stabilized", "limited")

# The words of each column's codes; a code without words is null.
_BINDINGS = {code: words.name for code, words in codes.BINDINGS.items()}
_ERRORS = {
    code: text
    for code, text in codes.METRIC_ERRORS.items()
    if code not in (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED)
}
_CONDITIONS = {
    name: {code: words.reason for code, words in codes.CONDITIONS.items() if code >> 4 == kind}
    for name, kind in _TYPES
}


def _enum(words: Mapping[int, str]) -> pl.Enum:
    """Return the type of a column of some codes' words: a byte a row instead of sixteen."""
    return pl.Enum(list(dict.fromkeys(words.values())))


SCHEMA: Final = pl.Schema(
    {
        "cluster": pl.String(),
        "namespace": pl.String(),
        "hpa": pl.String(),
        "ts": pl.Datetime("ms", "UTC"),
        "min_replicas": pl.Int64(),
        "max_replicas": pl.Int64(),
        **dict.fromkeys(_SIZES, pl.Int64()),
        "rescaled": pl.Boolean(),
        "binding": _enum(_BINDINGS),
        "reason": pl.String(),
        "metric": pl.String(),
        "ratio": pl.Float64(),
        "invalid_metrics": pl.Int64(),
        "error": _enum(_ERRORS),
        **{name: _enum(words) for name, words in _CONDITIONS.items()},
    }
)


SCORED: Final = (
    "cluster", "namespace", "hpa", "ts", "replicas", "desired", "applied", "rescaled", "binding",
)  # fmt: skip
"""The columns of SCHEMA that a score reads."""


def decisions_frame(shard: Shard | None, whole: bool = False, scored: bool = False) -> pl.DataFrame:
    """Return one row per HPA and tick, in the order of the lanes and of time; None: no row.

    `whole`: the columns of `engine.replay.why` too, of a shard that was replayed for them;
    `scored`: the columns of SCORED alone.
    """
    if shard is None or not shard.candidates:
        return pl.DataFrame(schema=SCHEMA | why.SCHEMA if whole else SCHEMA)
    at, lane_of = _used(shard.fleet)
    columns = _sizes(shard, at, lane_of) if scored else _columns(shard, at, lane_of)
    frame = _names(shard, lane_of).hstack(pl.DataFrame(columns))
    frame = frame.select(SCORED if scored else SCHEMA.names())
    return frame.hstack(why.why_columns(shard, at)) if whole else frame


def _sizes(shard: Shard, at: Any, lane_of: I64) -> dict[str, Any]:
    """Return the columns of SCORED but the names."""
    ticks, d = shard.fleet.ticks, shard.results.decisions
    current, rescaled = d.current[at], d.rescaled[at] != 0
    scale = ticks.scale[at]
    known = (scale == codes.SCALE_OK) | (scale == codes.SCALE_UPDATE_FAILED)
    # The size that the decision leaves the target at; the HPA's status keeps an older number
    # where nothing could be computed.
    sizes = {
        "replicas": current,
        "desired": np.where(rescaled, d.desired[at], current),
        "applied": _applied(ticks.replicas[at], lane_of),
    }
    return {
        "ts": pl.Series(_i64(ticks.now_ms[at])).cast(SCHEMA["ts"]),
        **{name: _masked(values, known) for name, values in sizes.items()},
        "rescaled": rescaled,
        "binding": _words(d.binding[at], _BINDINGS, SCHEMA["binding"]),
    }


def _columns(shard: Shard, at: Any, lane_of: I64) -> dict[str, Any]:
    """Return the columns of SCHEMA but the names."""
    fleet, d = shard.fleet, shard.results.decisions
    spec, found = fleet.ticks.spec[at], _sizes(shard, at, lane_of)
    known = found["replicas"].is_not_null().to_numpy()
    driving, ratio, reason = _driving(shard, at)
    return {
        **found,
        "min_replicas": fleet.specs.min_replicas[spec],
        "max_replicas": fleet.specs.max_replicas[spec],
        **{name: _masked(d[name][at], known) for name in ("proposal", "stabilized", "limited")},
        "reason": reason,
        "metric": driving,
        "ratio": ratio,
        "invalid_metrics": _i64(d.invalid_metrics[at]),
        "error": _words(_first_error(shard, at), _ERRORS, SCHEMA["error"]),
        **_conditions(shard, at),
    }


def _names(shard: Shard, lane_of: I64) -> pl.DataFrame:
    names = pl.DataFrame(
        {
            "cluster": [c.cluster for c in shard.candidates],
            "namespace": [c.namespace for c in shard.candidates],
            "hpa": [c.name for c in shard.candidates],
        }
    )
    return names[pl.Series(lane_of.astype(np.uint32))]


def _i64(values: Any) -> I64:
    # Always a copy: a frame keeps an array's memory, and a shard's is used again.
    return np.array(values, np.int64)


def _masked(values: Any, known: Any) -> pl.Series:
    """Return numbers that are null where the target's size is not known."""
    series = pl.Series(_i64(values))
    if known.all():
        return series
    return pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _words(values: Any, words: Mapping[int, str], dtype: pl.DataType) -> pl.Series:
    """Return the words of small codes from -1 on; a code without words is null."""
    table = pl.Series(
        [words.get(code) for code in range(-1, max(words, default=0) + 2)], dtype=dtype
    )
    # Polars gathers by UInt32; behind the last code are those without words.
    position = np.add(values, 1, dtype=np.int32).view(np.uint32)
    return table.gather(pl.Series(np.minimum(position, len(table) - 1, dtype=np.uint32)))


def _used(fleet: Fleet) -> tuple[Any, I64]:
    """Return where the ticks that were decided are, and the lane of each."""
    counts = (fleet.lanes.last_tick - fleet.lanes.first_tick).astype(np.int64)
    lane_of = np.repeat(np.arange(counts.size), counts)
    if lane_of.size == fleet.ticks.size:
        return slice(None), lane_of  # nearly always: nothing to pick out
    before = np.cumsum(counts) - counts
    place = np.arange(lane_of.size) - before[lane_of]
    return fleet.lanes.first_tick[lane_of].astype(np.int64) + place, lane_of


def _applied(replicas: Any, lane_of: I64) -> Any:
    """Return the recorded size after each tick: what the next tick of the lane sees."""
    after = np.roll(replicas, -1)
    last = np.flatnonzero(np.diff(lane_of, append=-1))
    after[last] = replicas[last]
    return after


def _driving(shard: Shard, at: Any) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Return per tick the driving metric, its ratio and the event's reason."""
    fleet, d = shard.fleet, shard.results.decisions
    number = d.metric[at].astype(np.int64)
    has = number >= 0
    row = np.where(has, fleet.specs.first_metric[fleet.ticks.spec[at]] + number, -1)
    names = dict(enumerate(why.metric_names(shard)))
    ratio = np.full(row.size, np.nan)
    if fleet.metrics.size:
        ratio = np.where(has, shard.results.metrics.ratio[_answer(fleet, at, row)], np.nan)
    # A reason may name the metric: a word for each pair of them.
    kinds = max(codes.REASONS) + 1
    reasons = {
        (m + 1) * kinds + code: text.replace("{metric}", names.get(m, ""))
        for m in range(-1, len(names))
        for code, text in codes.REASONS.items()
    }
    reason = _words((row + 1) * kinds + d.reason[at], reasons, pl.String())
    return _words(row, names, pl.String()), pl.Series(ratio).fill_nan(None), reason


def _answer(fleet: Fleet, at: Any, metric_row: I64) -> I64:
    """Return where a metric's answer at each tick is; row -1 counts as some row."""
    offset = fleet.streams.answer_offset[fleet.metrics.stream][metric_row]
    ticks = np.arange(fleet.ticks.size)[at]
    return np.asarray(ticks + offset, np.int64)


def _first_error(shard: Shard, at: Any) -> I64:
    """Return the code of the first failing metric of each tick, -1 where none did."""
    fleet = shard.fleet
    spec = fleet.ticks.spec[at]
    error = np.full(spec.size, -1, np.int64)
    some = np.flatnonzero(shard.results.decisions.invalid_metrics[at])
    if not some.size:
        return error
    at = np.arange(fleet.ticks.size)[at][some]
    spec = spec[some]
    first, last = fleet.specs.first_metric[spec], fleet.specs.last_metric[spec]
    found = np.full(some.size, -1, np.int64)
    for k in range(int((last - first).max(initial=0))):
        row = np.minimum(first + k, fleet.metrics.size - 1)
        code = shard.results.metrics.code[_answer(fleet, at, row)]
        failed = (first + k < last) & (code != codes.METRIC_OK) & (found < 0)
        failed &= code != codes.METRIC_NOT_COMPUTED
        found[failed] = code[failed]
    error[some] = found
    return error


def _conditions(shard: Shard, at: Any) -> dict[str, pl.Series]:
    """Return the reasons of the three conditions by type, null where a condition is not set."""
    d = shard.results.decisions
    found = {name: np.zeros(shard.fleet.ticks[at].size, np.int8) for name, _ in _TYPES}
    for k in range(4):
        slot = np.ascontiguousarray(d[f"condition_{k}"][at])
        kinds = slot >> 4
        for name, kind in _TYPES:
            np.copyto(found[name], slot, where=kinds == kind)
    return {name: _words(code, _CONDITIONS[name], SCHEMA[name]) for name, code in found.items()}
