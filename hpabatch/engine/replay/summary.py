"""One row per HPA: what the rules decided over the replayed time, beside what was recorded.

Sums over the arrays of a shard, before they are a frame of millions of rows. Shares are parts of an
HPA's ticks, from 0 to 1. Hours are ticks times the time between two ticks, so a gap in an HPA's
life adds nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.columns.replay import SUMMARY
from hpabatch.engine.fleet.frames import masked
from hpabatch.engine.replay.decisions import SCHEMA, Sizes, sizes_at
from hpabatch.engine.shards.ambiguity import Mask
from hpabatch.history.columns import TIME
from hpabatch.kernels.totals import sum_up_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import I64, Fleet, records_from
from hpabatch.layout.results import LEAST_OF_NONE, MOST_OF_NONE, TOTALS, Results, Sums

KEY: Final = ("cluster", "namespace", "hpa")
SIZES: Final = ("replicas", "desired", "applied")
MS_PER_HOUR: Final = 3_600_000


# Column and the binding rules whose ticks it counts. `legacy_limit` (at most double per sync) is
# the policy of an HPA without behavior.
SHARES: Final[dict[str, tuple[int, ...]]] = {
    "at_min_share": (codes.BOUND_BY_MIN, codes.BOUND_BY_FORCED_MIN),
    "at_max_share": (codes.BOUND_BY_MAX, codes.BOUND_BY_FORCED_MAX),
    "tolerance_share": (codes.BOUND_BY_TOLERANCE,),
    "window_up_share": (codes.BOUND_BY_WINDOW_UP,),
    "window_down_share": (codes.BOUND_BY_WINDOW_DOWN,),
    "policy_up_share": (codes.BOUND_BY_POLICY_UP, codes.BOUND_BY_LEGACY_LIMIT),
    "policy_down_share": (codes.BOUND_BY_POLICY_DOWN,),
    "disabled_up_share": (codes.BOUND_BY_DISABLED_UP,),
    "disabled_down_share": (codes.BOUND_BY_DISABLED_DOWN,),
    "pod_guard_share": (codes.BOUND_BY_POD_GUARD,),
    "blocked_share": (codes.BOUND_BY_INVALID_METRIC,),
    "selector_share": (codes.BOUND_BY_SELECTOR,),
    "zero_share": (codes.BOUND_BY_ZERO,),
    "no_scale_share": (codes.BOUND_BY_NO_SCALE, codes.BOUND_BY_SCALE_READ),
}

BACK_MS: Final = 120_000
"""A change that the rules take back is gone within so long, however far its samples lie apart."""

FOREIGN_SHARE: Final = 0.01
"""Share of an HPA's changes below which those that no rule made may be late samples: not told."""

_SHOWN: Final = 3

COLUMNS: Final = SUMMARY.meanings


class FleetTotals(NamedTuple):
    """Sums over a summary: HPAs, ticks, hours; shares of equal and of undecided ticks."""

    hpas: int
    ticks: int
    first_ts: str | None
    last_ts: str | None
    applied_replica_hours: float
    decided_replica_hours: float
    agreement_share: float | None
    undecided_share: float | None
    rescales: int
    reversals: int


def join_summaries(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the summary of a replay from those of its parts; each HPA is in one of them.

    The columns of `COLUMNS`, sorted by `KEY`.
    """
    if not parts:
        return pl.DataFrame(schema=SUMMARY.schema)
    # The names of all HPAs on an HPA's target, where there are several.
    target = ["cluster", "namespace", "target_kind", "target"]
    names = pl.col("hpa").sort().implode().list.join(", ").over(target)
    hpas = pl.concat(parts).lazy()
    hpas = hpas.with_columns(rivals=pl.when(pl.len().over(target) > 1).then(names))
    return hpas.select(list(COLUMNS)).sort(KEY).collect()


def summarize(
    fleet: Fleet,
    results: Results,
    applied: I64,
    metrics: Sequence[tuple[int, str]],
    hpas: pl.DataFrame,
) -> pl.DataFrame:
    """Return a summary of some of a replay's HPAs, for `join_summaries`.

    Everything but `rivals`, which only the whole replay knows. `hpas` has a row for each lane,
    `metrics` the lane and the name of each metric, `applied` the recorded size after each tick. An
    HPA without a tick has 0 ticks and 0 hours, and nulls for its means.
    """
    sums = Sums(
        records_from(TOTALS, hpas.height),
        np.zeros((hpas.height, len(codes.BINDINGS)), np.int64),
        np.zeros((hpas.height, len(codes.METRIC_ERRORS)), np.int64),
        np.zeros(len(metrics), np.int64),
    )
    sum_up_fleet(fleet, results, applied, sums)
    drove = ((h, name, n) for (h, name), n in zip(metrics, sums.driven.tolist(), strict=True))
    failed = (
        (h, codes.METRIC_ERRORS[code], n)
        for h, row in enumerate(sums.errors.tolist())
        for code, n in enumerate(row)
    )
    hours = pl.col("step_ms") / MS_PER_HOUR
    counts = ("ticks", "step_ms", "rescales", "reversals", "recorded_changes", "foreign_changes")
    measures = _measures(fleet, results, applied, sums).lazy()
    return (
        hpas.lazy()
        .with_row_index("lane")
        .with_columns(pl.col("lane").cast(pl.Int64))
        .join(measures, "lane", "left", maintain_order="left")
        .with_columns(
            _most_frequent("metric", hpas.height, drove),
            _most_frequent("error", hpas.height, failed),
            *_foreign(fleet, results, applied, hpas.height),
        )
        .with_columns(pl.col(counts).fill_null(0), pl.col(*SHARES).fill_null(0.0))
        .with_columns(
            hours=pl.col("ticks") * hours,
            applied_replica_hours=pl.col("applied_sum").fill_null(0) * hours,
            decided_replica_hours=pl.col("decided_sum").fill_null(0) * hours,
        )
        .with_columns(
            reversals_per_day=pl.when(pl.col("hours") > 0)
            .then(pl.col("reversals") * 24 / pl.col("hours"))
            .otherwise(0.0)
        )
        .select(name for name in COLUMNS if name != "rivals")
        .collect()
    )


def _measures(fleet: Fleet, results: Results, applied: I64, sums: Sums) -> pl.DataFrame:
    """Return counts, sums and extremes of the ticks of each HPA that has one, by `lane`."""
    lane = np.flatnonzero(fleet.lanes.last_tick > fleet.lanes.first_tick)
    first, last = fleet.lanes.first_tick[lane], fleet.lanes.last_tick[lane] - 1
    total, ticks = sums.totals[lane], last + 1 - first

    def share(*some: int) -> Any:
        return sums.bindings[lane][:, some].sum(axis=1) / ticks

    def ratio(part: I64, whole: I64) -> pl.Series:
        return masked(part / np.maximum(whole, 1), whole > 0, np.float64)

    def extreme(name: str) -> pl.Series:
        return masked(total[name], ~np.isin(total[name], (LEAST_OF_NONE, MOST_OF_NONE)))

    ends = sizes_at(fleet, results.decisions, applied, np.concatenate([first, last]), lane)
    known, size = (part.reshape(2, -1) for part in (ends.known, ends.applied))
    return pl.DataFrame(
        {
            "lane": lane,
            "ticks": ticks,
            "first_ts": pl.Series(fleet.ticks.now_ms[first]).cast(TIME),
            "last_ts": pl.Series(fleet.ticks.now_ms[last]).cast(TIME),
            "first_mismatch_ts": extreme("first_mismatch_ms").cast(TIME),
            "applied_first": masked(size[0], known[0]),
            "applied_last": masked(size[1], known[1]),
            "applied_mean": ratio(total.applied_sum, total.known),
            "decided_mean": ratio(total.decided_sum, total.known),
            "agreement_share": ratio(total.decided - total.differs, total.decided),
            "undecided_share": share(*codes.UNDECIDED),
            **{name: share(*some) for name, some in SHARES.items()},
            **{f"{name}_share": total[name] / ticks for name in _COUNTED},
            **{name: np.ascontiguousarray(total[name]) for name in _SUMMED},
            **{name: extreme(name) for name in _EXTREMES},
            "ratio_max": masked(total.ratio_max, total.ratio_max > -np.inf, np.float64),
        }
    )


_COUNTED: Final = (
    "ambiguous", "invalid", "above_target", "policy_up_later", "asked_in", "asked_out",
)  # fmt: skip
_SUMMED: Final = ("applied_sum", "decided_sum", "recorded_changes", "rescales", "reversals")
_EXTREMES: Final = (
    "step_ms", "asked_min", "asked_max", "asked_at_min", "asked_at_max", "asked_min_disabled",
    "asked_max_disabled", "bound_min", "bound_max",
)  # fmt: skip


def _most_frequent(name: str, hpas: int, counted: Iterable[tuple[int, str, int]]) -> pl.Series:
    """Return each HPA's most frequent word, the first of the alphabet if equal; null: none."""
    counts = Counter[tuple[int, str]]()
    for h, word, times in counted:
        counts[h, word] += times
    best: dict[int, str] = {}
    for (h, word), _ in sorted((+counts).items(), key=lambda pair: (-pair[1], pair[0])):
        best.setdefault(h, word)
    return pl.Series(name, [best.get(h) for h in range(hpas)], dtype=pl.String)


def _bound_by(binding: Any, some: Sequence[int]) -> Mask:
    # Comparisons of bytes: six times faster than a table of codes.
    found: Mask = np.logical_or.reduce([binding == code for code in some])
    return found


def read_sizes(decisions: pl.DataFrame) -> Sizes:
    """Return the sizes of a replay's decisions, with the columns of `decisions.SCORED` at least.

    They are sorted by HPA and time; texts may be categorical. `lane` numbers the HPAs.
    """
    known = pl.all_horizontal(pl.col(SIZES).is_not_null())
    return Sizes(
        lane=decisions.select(pl.struct(KEY).rle_id()).to_series().cast(pl.Int64).to_numpy(),
        ts_ms=decisions["ts"].to_physical().to_numpy(),
        known=decisions.select(known).to_series().to_numpy(),
        **{name: decisions[name].fill_null(0).to_numpy() for name in SIZES},
        rescaled=decisions["rescaled"].to_numpy(),
        # (an Enum's position is the code)
        binding=decisions["binding"].cast(SCHEMA["binding"]).to_physical().to_numpy(),
    )


def is_undecided(s: Sizes) -> Mask:
    """Say in which ticks the rules could not decide at all."""
    return _bound_by(s.binding, codes.UNDECIDED)


def foreign_changes(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the decisions after which the size changed by no rule (`foreign_rows`)."""
    return decisions[foreign_rows(read_sizes(decisions))]


def foreign_rows(s: Sizes) -> I64:
    """Return the ticks after which something other than the rules changed the size.

    That is a deploy, kubectl scale, an operator or KEDA. A change that the rules did not decide is
    no proof of it: samples that lie far apart tell a rescale's cause too late. It counts where the
    rules want the size back at the next tick and the recording goes back within BACK_MS, and where
    the size is 0 and the rules do not act.
    """
    wish = np.sign(np.where(s.rescaled, s.desired, s.replicas) - s.replicas)
    decided = s.known & ~is_undecided(s)
    zero = _bound_by(s.binding, SHARES["zero_share"])
    rows = np.flatnonzero(s.known & (s.applied != s.replicas))
    change, end = np.sign(s.applied[rows] - s.replicas[rows]), s.lane.size - 1

    def beside(step: int) -> tuple[I64, Mask]:
        """Return the ticks before or after, and whether they are the same HPA's."""
        near = np.clip(rows + step, 0, end)
        return near, (s.lane[near] == s.lane[rows]) & (near != rows)

    (before, follows), (after, goes_on) = beside(-1), beside(1)
    earlier = follows & decided[before] & (wish[before] == change)
    wanted = goes_on & decided[after] & (wish[after] == -change)
    back = np.zeros(rows.size, np.bool_)
    back[:-1] = (
        (s.lane[rows[1:]] == s.lane[rows[:-1]])
        & (s.ts_ms[rows[1:]] - s.ts_ms[rows[:-1]] <= BACK_MS)
        & (change[1:] == -change[:-1])
    )
    stops = np.where(s.replicas[rows] == 0, zero[rows], goes_on & zero[after])
    at_zero = ((s.replicas[rows] == 0) | (s.applied[rows] == 0)) & stops
    unmade = decided[rows] & (wish[rows] != change) & ~earlier
    found: I64 = rows[unmade & ((back & wanted) | at_zero)]
    return found


def _foreign(fleet: Fleet, results: Results, applied: I64, hpas: int) -> list[pl.Series]:
    """Return each HPA's changes that no rule made: their number, and the first of them in words."""
    # A change is judged by the ticks beside it; the millions of others are not looked at.
    changes = np.flatnonzero(results.decisions.current != applied)
    at = np.unique(np.clip([changes - 1, changes, changes + 1], 0, applied.size - 1))
    lane = np.searchsorted(fleet.lanes.first_tick, at, side="right") - 1
    decided = at < fleet.lanes.last_tick[lane]
    s = sizes_at(fleet, results.decisions, applied, at[decided], lane[decided])
    rows = foreign_rows(s)
    times = np.datetime_as_string(np.asarray(s.ts_ms[rows]).astype("datetime64[ms]"), unit="s")
    told: list[list[str]] = [[] for _ in range(hpas)]
    for row, time in zip(rows.tolist(), times.tolist(), strict=True):
        before, after = int(s.replicas[row]), int(s.applied[row])
        wish = int(s.desired[row]) if s.rescaled[row] else before
        did = "kept" if wish == before else "decided"
        told[s.lane[row]].append(
            f"{before} -> {after} at {time}Z: not by the rules, which {did} {wish}"
        )
    shown = ["; ".join(texts[:_SHOWN]) or None for texts in told]
    return [
        pl.Series("foreign_changes", [len(texts) for texts in told], dtype=pl.Int64),
        pl.Series("foreign_told", shown, dtype=pl.String),
    ]


def total(summary: pl.DataFrame) -> FleetTotals:
    """Return a summary's sums; without ticks the agreement is None.

    Floats are summed exactly: a sum must not depend on how many threads there are.
    """
    ticks = int(summary["ticks"].sum())
    decided = summary["ticks"] * (1 - summary["undecided_share"].fill_null(0.0))
    agreeing = _exact_sum(summary["agreement_share"] * decided)
    decided_ticks = _exact_sum(decided)
    return FleetTotals(
        hpas=summary.height,
        ticks=ticks,
        first_ts=_time_text(summary["first_ts"]),
        last_ts=_time_text(summary["last_ts"], last=True),
        applied_replica_hours=_exact_sum(summary["applied_replica_hours"]),
        decided_replica_hours=_exact_sum(summary["decided_replica_hours"]),
        agreement_share=agreeing / decided_ticks if decided_ticks else None,
        undecided_share=1 - decided_ticks / ticks if ticks else None,
        rescales=int(summary["rescales"].sum()),
        reversals=int(summary["reversals"].sum()),
    )


def _exact_sum(values: pl.Series) -> float:
    return math.fsum(values.drop_nulls().to_list())


def _time_text(times: pl.Series, *, last: bool = False) -> str | None:
    text = pl.Series([times.max() if last else times.min()], dtype=times.dtype)
    found = text.dt.strftime("%Y-%m-%dT%H:%M:%SZ")[0]
    return None if found is None else str(found)
