"""One row per HPA: what the rules decided over the replayed time, beside what was recorded.

Everything is one lazy query over the decisions; nothing walks the rows in Python. Shares are parts
of an HPA's ticks, from 0 to 1. Hours are ticks times the time between two ticks, so a gap in an
HPA's life adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl
import polars.selectors as cs

from hpabatch.engine.columns.replay import SUMMARY
from hpabatch.layout import codes
from hpabatch.layout.codes import BINDINGS

KEY: Final = ("cluster", "namespace", "hpa")
MS_PER_HOUR: Final = 3_600_000


def _names(*bindings: int) -> tuple[str, ...]:
    return tuple(BINDINGS[code].name for code in bindings)


# Column and the binding rules whose ticks it counts. `legacy_limit` (at most double per sync) is
# the policy of an HPA without behavior.
SHARES: Final[dict[str, tuple[str, ...]]] = {
    "at_min_share": _names(codes.BOUND_BY_MIN, codes.BOUND_BY_FORCED_MIN),
    "at_max_share": _names(codes.BOUND_BY_MAX, codes.BOUND_BY_FORCED_MAX),
    "tolerance_share": _names(codes.BOUND_BY_TOLERANCE),
    "window_up_share": _names(codes.BOUND_BY_WINDOW_UP),
    "window_down_share": _names(codes.BOUND_BY_WINDOW_DOWN),
    "policy_up_share": _names(codes.BOUND_BY_POLICY_UP, codes.BOUND_BY_LEGACY_LIMIT),
    "policy_down_share": _names(codes.BOUND_BY_POLICY_DOWN),
    "disabled_up_share": _names(codes.BOUND_BY_DISABLED_UP),
    "disabled_down_share": _names(codes.BOUND_BY_DISABLED_DOWN),
    "pod_guard_share": _names(codes.BOUND_BY_POD_GUARD),
    "blocked_share": _names(codes.BOUND_BY_INVALID_METRIC),
    "selector_share": _names(codes.BOUND_BY_SELECTOR),
    "zero_share": _names(codes.BOUND_BY_ZERO),
    "no_scale_share": _names(codes.BOUND_BY_NO_SCALE, codes.BOUND_BY_SCALE_READ),
}

# Ticks in which the metrics gave no answer: `proposal` is then the size as it stood.
_UNASKED: Final = _names(
    codes.BOUND_BY_INVALID_METRIC,
    codes.BOUND_BY_SELECTOR,
    codes.BOUND_BY_ZERO,
    codes.BOUND_BY_NO_SCALE,
    codes.BOUND_BY_SCALE_READ,
    codes.BOUND_BY_FORCED_MIN,
    codes.BOUND_BY_FORCED_MAX,
)

# Ticks in which the rules could not decide at all; they neither agree nor disagree.
_UNDECIDED: Final = _names(
    codes.BOUND_BY_INVALID_METRIC,
    codes.BOUND_BY_SELECTOR,
    codes.BOUND_BY_NO_SCALE,
    codes.BOUND_BY_SCALE_READ,
)

AMBIGUOUS: Final = codes.CONDITIONS[codes.AMBIGUOUS_SELECTOR].reason

# What the rules make of the target's size in a tick. `desired` itself is the status field, which
# keeps an old number while the HPA stands still.
DECIDED: Final = pl.when("rescaled").then("desired").otherwise("replicas")

BACK_MS: Final = 120_000
"""A change that the rules take back is gone within so long, however far its samples lie apart."""

FOREIGN_SHARE: Final = 0.01
"""Share of an HPA's changes below which those that no rule made may be late samples: not told."""

START: Final = pl.duration(minutes=5)
"""Time in which the burst of a start may drive a decision: upstream's cpu initialization period."""

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


def summarize(decisions: pl.DataFrame, hpas: pl.DataFrame) -> pl.DataFrame:
    """Return one row per replayed HPA with the columns of `COLUMNS`, sorted by `KEY`.

    Args:
        decisions: a replay's decisions, sorted by cluster, namespace, hpa and ts. Columns of text
            may be String, Categorical or Enum.
        hpas: a replay's HPAs.

    Raises nothing. An HPA without a tick has 0 ticks and 0 hours, and nulls for its means.
    """
    return join_summaries([summarize_part(decisions, hpas)])


def join_summaries(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the summary of a replay from those of its parts; each HPA is in one of them."""
    return _with_rivals(pl.concat(parts).lazy()).select(list(COLUMNS)).sort(KEY).collect()


def summarize_part(decisions: pl.DataFrame, hpas: pl.DataFrame) -> pl.DataFrame:
    """Return a summary of some of a replay's HPAs, for `join_summaries`; see `summarize`.

    Everything but `rivals`, which only the whole replay knows.
    """
    # A number per HPA: sorted rows need no hashing of three texts (20 times faster than the keys).
    rows = decisions.with_columns(cs.integer().cast(pl.Int64), lane=pl.struct(KEY).rle_id()).lazy()
    lanes = rows.group_by("lane").agg(pl.col(KEY).first().cast(pl.String))
    parts = [
        _measures(rows),
        _shares(rows),
        _reversals(rows),
        _most_frequent(rows, "metric"),
        _most_frequent(rows, "error"),
        _foreign(rows),
    ]
    for part in pl.collect_all(parts):
        lanes = lanes.join(part.lazy(), on="lane", how="left")
    hours = pl.col("step_ms") / MS_PER_HOUR
    return (
        hpas.lazy()
        .with_columns(pl.col(KEY).cast(pl.String))
        .join(lanes, on=KEY, how="left")
        .with_columns(
            pl.col(
                *("ticks", "step_ms", "rescales", "reversals"),
                *("recorded_changes", "foreign_changes"),
            ).fill_null(0),
            pl.col(*SHARES).fill_null(0.0),
        )
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


def _measures(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return counts, sums and extremes of each HPA's ticks.

    What depends on one tick is computed row by row first: a group then only sums, which is several
    times faster than conditions inside the groups.
    """
    replicas, applied, proposal = pl.col("replicas"), pl.col("applied"), pl.col("proposal")
    asked = _bound_by(_UNASKED).not_()
    decided = _bound_by(_UNDECIDED).not_()
    at_max, at_min = _bound_by(SHARES["at_max_share"]), _bound_by(SHARES["at_min_share"])
    selector, tolerance = _bound_by(SHARES["selector_share"]), _bound_by(SHARES["tolerance_share"])
    ratio = pl.when(pl.col("ratio").is_finite()).then("ratio")
    same_lane = pl.col("lane") == pl.col("lane").shift(1)
    begins = same_lane.fill_null(value=False).not_() | (replicas.shift(1) == 0)
    begun = pl.when(begins).then("ts").forward_fill()
    ticks = rows.select(
        "lane",
        "ts",
        "applied",
        decided=DECIDED,
        step_ms=pl.when(same_lane).then(pl.col("ts").diff().dt.total_milliseconds()),
        agreement_share=pl.when(decided).then(applied == DECIDED),
        undecided_share=decided.not_(),
        first_mismatch_ts=pl.when(decided & (applied != DECIDED)).then("ts"),
        recorded_changes=applied != replicas,
        rescales="rescaled",
        ambiguous_share=selector & (pl.col("scaling_active") == AMBIGUOUS),
        invalid_share=pl.col("invalid_metrics") > 0,
        above_target_share=tolerance & (pl.col("ratio") > 1),
        policy_up_later_share=_bound_by(SHARES["policy_up_share"]) & (pl.col("ts") - begun > START),
        asked_in_share=asked & (proposal < replicas),
        asked_out_share=asked & (proposal > replicas),
        asked_min=pl.when(asked).then(proposal),
        asked_max=pl.when(asked).then(proposal),
        asked_at_min=pl.when(at_min).then(proposal),
        asked_at_max=pl.when(at_max).then(proposal),
        asked_min_disabled=pl.when(_bound_by(SHARES["disabled_down_share"])).then(proposal),
        asked_max_disabled=pl.when(_bound_by(SHARES["disabled_up_share"])).then(proposal),
        bound_max=pl.when(at_max).then("max_replicas"),
        bound_min=pl.when(at_min).then("min_replicas"),
        ratio_max=ratio,
    )
    return ticks.group_by("lane").agg(
        pl.col("ts").min().alias("first_ts"),
        pl.col("first_mismatch_ts").min(),
        pl.col("ts").max().alias("last_ts"),
        pl.len().cast(pl.Int64).alias("ticks"),
        pl.col("applied").first().alias("applied_first"),
        pl.col("applied").last().alias("applied_last"),
        pl.col("applied").mean().alias("applied_mean"),
        pl.col("applied").sum().alias("applied_sum"),
        pl.col("decided").mean().alias("decided_mean"),
        pl.col("decided").sum().alias("decided_sum"),
        pl.col("recorded_changes", "rescales").sum().cast(pl.Int64),
        pl.col("agreement_share").mean(),
        pl.col(
            "^(undecided|ambiguous|invalid|above_target|asked_in|asked_out|policy_up_later)_share$"
        )
        .fill_null(value=False)
        .mean(),
        pl.col("step_ms", "asked_min", "asked_min_disabled").min(),
        pl.col(
            "^(asked_max|asked_max_disabled|asked_at_min|asked_at_max|bound_.*|ratio_max)$"
        ).max(),
    )


def _bound_by(names: Sequence[str]) -> pl.Expr:
    # Comparisons: `is_in` would turn an Enum's codes into texts, ten times slower.
    return pl.any_horizontal(pl.col("binding") == name for name in names)


def _shares(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the part of each HPA's ticks that each group of binding rules decided."""
    count = pl.col("len")
    return (
        _counts(rows, "binding")
        .group_by("lane")
        .agg(
            (count.filter(_bound_by(names)).sum() / count.sum()).alias(share)
            for share, names in SHARES.items()
        )
    )


def _counts(rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
    """Return how many of each HPA's ticks have which value (`len`), from runs: there are few."""
    runs = rows.select(run=pl.struct("lane", column).rle()).unnest("run").unnest("value")
    return runs.group_by("lane", column).agg(pl.col("len").sum())


def _reversals(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return how often recorded sizes changed direction; ticks without a change do not matter."""
    up = pl.col("applied") > pl.col("replicas")
    turned = (up != up.shift(1)) & (pl.col("lane") == pl.col("lane").shift(1))
    return (
        rows.filter(pl.col("applied") != pl.col("replicas"))
        .select("lane", reversals=turned)
        .group_by("lane")
        .agg(pl.col("reversals").sum().cast(pl.Int64))
    )


def _most_frequent(rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
    """Return each HPA's most frequent text in a column, the first of the alphabet if equal."""
    return (
        _counts(rows, column)
        .filter(pl.col(column).is_not_null())
        .with_columns(pl.col(column).cast(pl.String))
        .sort(["lane", "len", column], descending=[False, True, False])
        .group_by("lane", maintain_order=True)
        .agg(pl.col(column).first())
    )


def foreign_changes(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the recorded changes that no rule made: by a deploy, kubectl scale, an operator, KEDA.

    That the rules did not decide a change does not show it: samples that lie far apart tell a
    rescale's cause too late. It shows if the rules want the size back at the next tick and the
    recording goes back within BACK_MS, or if the size is 0 and the rules do not act there.

    Args:
        decisions: a replay's decisions, with the columns of `decisions.SCORED` at least.

    Returns:
        row (in the decisions), KEY, ts (the last tick before), replicas, applied, decided.
    """
    rows = decisions.lazy().with_columns(lane=pl.struct(KEY).rle_id())
    found = _foreign_rows(rows).collect()
    return found.select(pl.col("row").cast(pl.Int64), pl.col(KEY).cast(pl.String),
                        "ts", "replicas", "applied", "decided")  # fmt: skip


def _foreign_rows(rows: pl.LazyFrame) -> pl.LazyFrame:
    lane, change, wish = pl.col("lane"), pl.col("change"), pl.col("wish")
    follows, goes_on = lane == lane.shift(1), lane == lane.shift(-1)
    zero = _bound_by(SHARES["zero_share"])
    known = pl.when(_bound_by(_UNDECIDED).not_())
    size = pl.col("replicas").cast(pl.Int64)
    moves = rows.with_row_index("row").with_columns(
        decided=DECIDED,
        change=(pl.col("applied").cast(pl.Int64) - size).sign(),
        wish=known.then((DECIDED.cast(pl.Int64) - size).sign()),
    )
    moves = moves.with_columns(
        earlier=pl.when(follows).then(wish.shift(1)),
        later=pl.when(goes_on).then(wish.shift(-1)),
        stops=pl.when(size == 0).then(zero).otherwise(goes_on & zero.shift(-1)),
    ).filter(change != 0)
    soon = pl.col("ts").shift(-1) - pl.col("ts") <= pl.duration(milliseconds=BACK_MS)
    back = goes_on & soon & (change.shift(-1) == -change)
    wanted = pl.col("later") == -change
    at_zero = ((size == 0) | (pl.col("applied") == 0)) & pl.col("stops")
    unmade = (wish != change) & pl.col("earlier").ne_missing(change)
    return moves.filter(unmade & ((back & wanted) | at_zero))


def _foreign(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return each HPA's changes that no rule made: their number, and the first of them in words."""
    kept = pl.when(pl.col("decided") == pl.col("replicas")).then(pl.lit("kept"))
    told = pl.format(
        "{} -> {} at {}: not by the rules, which {} {}",
        *("replicas", "applied", pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%SZ")),
        *(kept.otherwise(pl.lit("decided")), "decided"),
    )
    return (
        _foreign_rows(rows)
        .select("lane", told=told)
        .group_by("lane", maintain_order=True)
        .agg(
            foreign_changes=pl.len().cast(pl.Int64),
            foreign_told=pl.col("told").head(_SHOWN).str.join("; "),
        )
    )


def _with_rivals(hpas: pl.LazyFrame) -> pl.LazyFrame:
    """Add the names of all HPAs on an HPA's target, where there are several."""
    target = ["cluster", "namespace", "target_kind", "target"]
    names = pl.col("hpa").sort().implode().list.join(", ").over(target)
    return hpas.with_columns(rivals=pl.when(pl.len().over(target) > 1).then(names))


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
