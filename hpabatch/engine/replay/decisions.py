"""Decided ticks of a shard as arrays, and as a frame: codes become words here, once each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from hpabatch.engine.columns.replay import DECISIONS, METRICS
from hpabatch.engine.fleet.frames import masked, words_of
from hpabatch.engine.shards.ambiguity import Mask
from hpabatch.engine.shards.shard import Shard
from hpabatch.layout import codes
from hpabatch.layout.records import I64, Fleet
from hpabatch.layout.results import NO_TIME_MS, Decisions
from hpabatch.model.objects.describe import metric_name

_TYPES: Final = (
    ("able_to_scale", codes.ABLE_TO_SCALE),
    ("scaling_active", codes.SCALING_ACTIVE),
    ("scaling_limited", codes.SCALING_LIMITED),
)

_GROUPS: Final = ("ready", "unready", "missing", "ignored", "stray")
_STEPS = {code: text for code, text in codes.STEPS.items() if text}
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
    DECISIONS.schema
    | {"binding": _enum(_BINDINGS), "error": _enum(_ERRORS)}
    | {name: _enum(words) for name, words in _CONDITIONS.items()}
)


METRIC_FIELDS: Final = METRICS.schema
"""Fields of each metric in `metrics`; null where the metric has no such number or was not asked."""

WHY_SCHEMA: Final = pl.Schema(
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

SCORED: Final = (
    "cluster", "namespace", "hpa", "ts", "replicas", "desired", "applied", "rescaled", "binding",
)  # fmt: skip
"""The columns of SCHEMA that a score reads."""


class Sizes(NamedTuple):
    """What a score reads of a shard's decided ticks, HPA by HPA and in order of time.

    Arrays of one length. Sizes mean nothing where not `known`. `desired` is the size that the
    decision leaves the target at: the status keeps an older number where nothing could be computed.
    """

    lane: I64  # place of the tick's HPA among those of the shard
    ts_ms: Any
    known: Mask
    replicas: Any
    desired: Any
    applied: Any
    rescaled: Mask
    binding: Any


def sizes_of(shard: Shard) -> Sizes:
    """Return the sizes of a decided shard; its memory is used again for the next one."""
    fleet = shard.fleet
    at, lane = _used(fleet)
    return sizes_at(fleet, shard.results.decisions, applied_of(fleet), at, lane)


def sizes_at(fleet: Fleet, decisions: Decisions, applied: I64, at: Any, lane: I64) -> Sizes:
    """Return the sizes of some ticks (an index of `fleet.ticks`), each of a lane."""
    d, scale = decisions[at], fleet.ticks.scale[at]
    current, rescaled = np.ascontiguousarray(d.current), d.rescaled != 0
    return Sizes(
        lane=lane,
        ts_ms=np.ascontiguousarray(fleet.ticks.now_ms[at]),
        known=(scale == codes.SCALE_OK) | (scale == codes.SCALE_UPDATE_FAILED),
        replicas=current,
        desired=np.where(rescaled, d.desired, current),
        applied=applied[at],
        rescaled=rescaled,
        binding=np.ascontiguousarray(d.binding),
    )


def applied_of(fleet: Fleet) -> I64:
    """Return the recorded size after each tick: what the next tick of the lane sees."""
    after = np.roll(np.ascontiguousarray(fleet.ticks.replicas), -1)
    last = fleet.lanes.last_tick[fleet.lanes.last_tick > fleet.lanes.first_tick] - 1
    after[last] = fleet.ticks.replicas[last]
    return after


def scored_frame(shard: Shard, sizes: Sizes) -> pl.DataFrame:
    """Return the columns of SCORED, one row per decided tick."""
    return _names(shard, sizes.lane).hstack(pl.DataFrame(_scored(sizes))).select(SCORED)


def decisions_frame(shard: Shard, whole: bool = False) -> pl.DataFrame:
    """Return one row per decided tick, in the order of the HPAs and of time.

    `whole`: the columns of WHY_SCHEMA too, of a shard that was replayed for them.
    """
    at, lane = _used(shard.fleet)
    sizes = sizes_of(shard)
    columns = _scored(sizes) | _others(shard, at, sizes.known)
    frame = _names(shard, lane).hstack(pl.DataFrame(columns)).select(SCHEMA.names())
    return frame.hstack(_why_columns(shard, at)) if whole else frame


def _scored(sizes: Sizes) -> dict[str, Any]:
    numbers = {"replicas": sizes.replicas, "desired": sizes.desired, "applied": sizes.applied}
    return {
        "ts": pl.Series(_i64(sizes.ts_ms)).cast(SCHEMA["ts"]),
        **{name: masked(values, sizes.known) for name, values in numbers.items()},
        "rescaled": sizes.rescaled,
        "binding": words_of(sizes.binding, _BINDINGS, SCHEMA["binding"]),
    }


def _others(shard: Shard, at: Any, known: Mask) -> dict[str, Any]:
    fleet, d = shard.fleet, shard.results.decisions[at]
    spec, number, conditions = fleet.ticks.spec[at], d.metric, _conditions(d)
    metric = np.where(number >= 0, fleet.specs.first_metric[spec] + number, -1)
    ratio = np.full(metric.size, np.nan)
    if fleet.metrics.size:
        ratios = shard.results.metrics.ratio[_answer(fleet, at, metric)]
        ratio = np.where(metric >= 0, ratios, np.nan)
    names = {m: name for m, (_, name) in enumerate(metrics_of(shard))}
    # A reason may name the metric: a word for each pair of them.
    kinds = max(codes.REASONS) + 1
    reasons = {
        (m + 1) * kinds + code: text.replace("{metric}", names.get(m, ""))
        for m in range(-1, len(names))
        for code, text in codes.REASONS.items()
    }
    return {
        "min_replicas": fleet.specs.min_replicas[spec],
        "max_replicas": fleet.specs.max_replicas[spec],
        **{name: masked(d[name], known) for name in ("proposal", "stabilized", "limited")},
        "reason": words_of((metric + 1) * kinds + d.reason, reasons, pl.String()),
        "metric": words_of(metric, names, pl.String()),
        "ratio": pl.Series(ratio).fill_nan(None),
        "invalid_metrics": _i64(d.invalid_metrics),
        "error": words_of(_first_error(shard, at), _ERRORS, SCHEMA["error"]),
        **{
            name: words_of(conditions[kind], _CONDITIONS[name], SCHEMA[name])
            for name, kind in _TYPES
        },
    }


def _names(shard: Shard, lane: I64) -> pl.DataFrame:
    names = pl.DataFrame(
        {
            "cluster": [c.cluster for c in shard.candidates],
            "namespace": [c.namespace for c in shard.candidates],
            "hpa": [c.name for c in shard.candidates],
        },
        schema=dict.fromkeys(("cluster", "namespace", "hpa"), pl.String()),
    )
    return names[pl.Series(lane.astype(np.uint32))]


def _i64(values: Any) -> I64:
    # Always a copy: a frame keeps an array's memory, and a shard's is used again.
    return np.array(values, np.int64)


def _used(fleet: Fleet) -> tuple[Any, I64]:
    """Return where the ticks that were decided are, and the lane of each."""
    counts = (fleet.lanes.last_tick - fleet.lanes.first_tick).astype(np.int64)
    lane_of = np.repeat(np.arange(counts.size), counts)
    if lane_of.size == fleet.ticks.size:
        return slice(None), lane_of  # nearly always: nothing to pick out
    before = np.cumsum(counts) - counts
    place = np.arange(lane_of.size) - before[lane_of]
    return fleet.lanes.first_tick[lane_of].astype(np.int64) + place, lane_of


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


def _conditions(decisions: Any) -> dict[int, Any]:
    """Return by type the code of its condition at each tick, 0 where it is not set."""
    found = {kind: np.zeros(decisions.size, np.int8) for kind in codes.CONDITION_TYPES.values()}
    for k in range(4):
        slot = np.ascontiguousarray(decisions[f"condition_{k}"])
        kinds = slot >> 4
        for kind, codes_of in found.items():
            np.copyto(codes_of, slot, where=kinds == kind)
    return found


# ---- why -----------------------------------------------------------------------------------------


def _why_columns(shard: Shard, at: Any) -> pl.DataFrame:
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
    ).cast({"last_scale_time": WHY_SCHEMA["last_scale_time"]})


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
    pods = sum(detail[name] for name in _GROUPS)
    grouped = asked & np.isin(kind, _WITH_PODS) & (fine | (pods > 0))
    names = pl.Series([name for _, name in metrics_of(shard)], dtype=pl.String)
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
            "step": _known_words(said.step, _STEPS, fine),
            "error": _known_words(said.code, _ERRORS, asked & ~fine),
            **{name: masked(detail[name], grouped) for name in _GROUPS},
        }
    )


def metrics_of(shard: Shard) -> list[tuple[int, str]]:
    """Return the lane and the description of every row of `fleet.metrics`."""
    found: list[tuple[int, str]] = []
    specs = [(h, period.spec) for h, c in enumerate(shard.candidates) for period in c.periods]
    named = shard.profile.container_metric_named
    for row, (h, spec) in zip(shard.fleet.specs, specs, strict=True):
        kinds = shard.fleet.metrics.kind[row.first_metric : row.last_metric]
        found += [
            (h, metric_name(m, int(k), named)) for m, k in zip(spec.metrics, kinds, strict=True)
        ]
    return found


def _known_words(values: Any, words: Mapping[int, str], known: Any) -> pl.Series:
    """Return the words of codes as texts; null where not known, or without a word."""
    return words_of(np.where(known, values, np.int64(-1)), words, pl.String())


def _scaled_to_zero(shard: Shard, at: Any) -> pl.Series:
    words = {c: w.reason for c, w in codes.CONDITIONS.items() if c >> 4 == codes.SCALED_TO_ZERO}
    found = _conditions(shard.results.decisions[at])[codes.SCALED_TO_ZERO]
    return words_of(found, words, pl.String())
