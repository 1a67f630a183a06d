"""Differences of two runs of the same HPAs: which HPAs differ, since which tick, and how far.

Two ticks differ in their *decision* if the size, the wish to rescale, or what failed differs; they
differ only in their *explanation* if the same is done for another reason. The ratio and the bounds
of the spec are inputs of an explanation, not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from hpabatch.engine.columns.compare import DIFFERENCES
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.engine.replay.summary import KEY, MS_PER_HOUR

TICK: Final = (*KEY, "ts")
DECISION: Final = ("desired", "rescaled", "invalid_metrics", "error")
_GIVEN: Final = ("replicas", "applied", "min_replicas", "max_replicas", "ratio")
EXPLANATION: Final = tuple(name for name in TICK_SCHEMA if name not in (*TICK, *DECISION, *_GIVEN))
# Columns of both sides at the first difference.
TOLD: Final = tuple(name for name in TICK_SCHEMA if name not in (*TICK, "replicas", "applied"))

DECIDES: Final = "decides"
EXPLAINS: Final = "explains"
FROM: Final = "_from"
TO: Final = "_to"

COLUMNS: Final = {
    name: meaning for name, meaning in DIFFERENCES.meanings.items() if not name.endswith((FROM, TO))
}
"""Beside these, `<column>_from` and `<column>_to` for each of `TOLD`, at the first difference."""

_CAUSE: Final = ("cause", "how", "rule")


SCHEMA: Final = pl.Schema(
    DIFFERENCES.schema
    | {f"{name}{side}": TICK_SCHEMA[name] for name in TOLD for side in (FROM, TO)}
)


def side_by_side(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Return the ticks that both runs have, columns but those of `TICK` twice (`FROM`, `TO`).

    Both are sorted by `TICK`, and so is the result.
    """
    index = before.select(TICK)
    own = [name for name in before.columns if name not in TICK]
    left = before.rename({name: f"{name}{FROM}" for name in own})
    right = after.rename({name: f"{name}{TO}" for name in own})
    if index.equals(after.select(TICK)):  # nearly always
        return left.hstack(right.drop(TICK))
    return left.join(right, on=TICK, how="inner", maintain_order="left")


def differing(names: Sequence[str]) -> pl.Expr:
    """Return the condition that any of some columns differs; two nulls are equal."""
    return pl.any_horizontal(pl.col(f"{n}{FROM}").ne_missing(pl.col(f"{n}{TO}")) for n in names)


def find_differences(ticks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a row per HPA that differs, with `SCHEMA` but without causes; and all HPAs' ticks.

    `ticks` are of `side_by_side`. The second frame has `KEY` and `ticks` of every HPA that has one.
    """
    marked = ticks.with_columns(
        decided=differing(DECISION),
        explained=differing(EXPLANATION),
        change=pl.col(f"desired{TO}") - pl.col(f"desired{FROM}"),
        # A number per HPA: sorted rows need no hashing of three texts.
        lane=pl.struct(KEY).rle_id(),
    ).with_columns(explained=pl.col("explained") & ~pl.col("decided"))
    counts = _counts(marked)
    differ = counts.filter((pl.col("ticks_decided") > 0) | (pl.col("ticks_explained") > 0))
    rows = marked.join(differ.select("lane", "ticks_decided"), on="lane", maintain_order="left")
    found = (
        differ.join(_first(rows), on="lane", maintain_order="left")
        .join(_largest(rows), on="lane", how="left", maintain_order="left")
        .with_columns(
            differs=pl.when(pl.col("ticks_decided") > 0)
            .then(pl.lit(DECIDES))
            .otherwise(pl.lit(EXPLAINS)),
            **dict.fromkeys(_CAUSE, pl.lit(None)),
        )
        .with_columns(
            pl.when(pl.col(name).is_finite()).then(name).alias(name)
            for name in (f"ratio{FROM}", f"ratio{TO}")
        )
    )
    return found.select(SCHEMA.names()).cast(SCHEMA), counts.select(*KEY, "ticks")


def _counts(marked: pl.DataFrame) -> pl.DataFrame:
    """Return sums over each HPA's ticks; hours are those of `engine.replay.summary`."""
    same_lane = pl.col("lane") == pl.col("lane").shift(1)
    step_ms = pl.when(same_lane).then(pl.col("ts").diff().dt.total_milliseconds())
    hours = pl.col("step_ms").fill_null(0) / MS_PER_HOUR
    return (
        marked.with_columns(step_ms=step_ms)
        .group_by("lane", maintain_order=True)
        .agg(
            pl.col(KEY).first(),
            pl.len().cast(pl.Int64).alias("ticks"),
            pl.col("decided").sum().cast(pl.Int64).alias("ticks_decided"),
            pl.col("explained").sum().cast(pl.Int64).alias("ticks_explained"),
            pl.col("step_ms").min(),
            pl.when(pl.col("change").count() > 0).then(pl.col("change").sum()).alias("change"),
        )
        .with_columns(replica_hours=pl.col("change") * hours)
        .drop("change", "step_ms")
    )


def _first(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each HPA's first difference: in its decision, where it has one."""
    wanted = pl.when(pl.col("ticks_decided") > 0).then("decided").otherwise("explained")
    pairs = [f"{name}{side}" for name in TOLD for side in (FROM, TO)]
    first = rows.filter(wanted).group_by("lane", maintain_order=True).first()
    return first.select(
        "lane", *pairs, pl.col("ts").alias("first_ts"), replicas=pl.col(f"replicas{FROM}")
    )


def _largest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each HPA's largest difference of size and when it was first."""
    known = rows.filter(pl.col("change").is_not_null() & pl.col("decided"))
    size = pl.col("change").abs()
    return (
        known.filter(size == size.max().over("lane"))
        .group_by("lane", maintain_order=True)
        .first()
        .select("lane", most="change", most_ts="ts")
    )
