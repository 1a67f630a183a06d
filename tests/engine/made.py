"""Decisions and HPAs made up by hand, in the shape of a replay's result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import Select, plan_replay
from hpabatch.engine.replay import summary
from hpabatch.engine.replay.decisions import SCHEMA as WORDS
from hpabatch.engine.replay.decisions import Sizes, Ticks
from hpabatch.engine.replay.run import ReplayResult, replay_plan
from hpabatch.engine.replay.summary import KEY, SIZES, join_summaries
from hpabatch.history.reader import History
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA

START = datetime(2026, 10, 7, tzinfo=UTC)
PERIOD = timedelta(seconds=15)

SCHEMA: dict[str, Any] = {
    "cluster": pl.String(),
    "namespace": pl.String(),
    "hpa": pl.String(),
    "ts": pl.Datetime("ms", "UTC"),
    "min_replicas": pl.Int64(),
    "max_replicas": pl.Int64(),
    "replicas": pl.Int64(),
    "desired": pl.Int64(),
    "applied": pl.Int64(),
    "proposal": pl.Int64(),
    "stabilized": pl.Int64(),
    "limited": pl.Int64(),
    "rescaled": pl.Boolean(),
    "binding": pl.String(),
    "reason": pl.String(),
    "metric": pl.String(),
    "ratio": pl.Float64(),
    "invalid_metrics": pl.Int64(),
    "error": pl.String(),
    "able_to_scale": pl.String(),
    "scaling_active": pl.String(),
    "scaling_limited": pl.String(),
}

TICK: dict[str, Any] = {
    "cluster": "demo",
    "namespace": "shop",
    "hpa": "cart",
    "min_replicas": 1,
    "max_replicas": 10,
    "replicas": 3,
    "desired": 3,
    "applied": 3,
    "proposal": 3,
    "stabilized": 3,
    "limited": 3,
    "rescaled": False,
    "binding": "metric",
    "reason": "",
    "metric": "cpu resource",
    "ratio": 1.0,
    "invalid_metrics": 0,
    "error": None,
    "able_to_scale": "ReadyForNewScale",
    "scaling_active": "ValidMetricFound",
    "scaling_limited": "DesiredWithinRange",
}


def decisions(ticks: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return a frame of ticks, each what `TICK` says but for its own entries; sorted."""
    numbers: dict[tuple[str, str, str], int] = {}
    rows = []
    for given in ticks:
        row = TICK | given
        key = row["cluster"], row["namespace"], row["hpa"]
        number = numbers[key] = numbers.get(key, -1) + 1
        rows.append({"ts": START + number * PERIOD} | row)
    return pl.DataFrame(rows, schema=SCHEMA).sort("cluster", "namespace", "hpa", "ts")


def hpas(*names: str, **columns: Any) -> pl.DataFrame:
    """Return one HPA per name, each with its own Deployment."""
    rows = [
        {
            "cluster": "demo",
            "namespace": "shop",
            "hpa": name,
            "target_kind": "Deployment",
            "target": name,
            "min_replicas": 1,
            "max_replicas": 10,
            "has_behavior": False,
            "specs": 1,
        }
        | columns
        for name in names
    ]
    return pl.DataFrame(rows)


def summarize(decisions: pl.DataFrame, hpas: pl.DataFrame) -> pl.DataFrame:
    """Return the summary of a frame of decisions, which a replay makes before there is a frame."""
    return join_summaries([summary.summarize(_ticks(decisions, hpas), hpas)])


def _ticks(decisions: pl.DataFrame, hpas: pl.DataFrame) -> Ticks:
    keys = hpas.select(pl.col(KEY).cast(pl.String), lane=pl.int_range(pl.len(), dtype=pl.Int64))
    rows = decisions.with_columns(pl.col(KEY).cast(pl.String)).join(
        keys, on=KEY, how="left", maintain_order="left"
    )
    drives = rows.select("lane", pl.col("metric").cast(pl.String))
    known = drives.drop_nulls().unique(maintain_order=True)
    metric = drives.join(known.with_row_index("m"), on=["lane", "metric"], how="left",
                         maintain_order="left")["m"].cast(pl.Int64).fill_null(-1)  # fmt: skip
    error = {text: code for code, text in codes.METRIC_ERRORS.items()}
    sizes = Sizes(
        lane=rows["lane"].to_numpy(),
        ts_ms=rows["ts"].to_physical().to_numpy(),
        known=rows.select(pl.all_horizontal(pl.col(SIZES).is_not_null())).to_series().to_numpy(),
        **{name: rows[name].fill_null(0).to_numpy() for name in SIZES},
        rescaled=rows["rescaled"].to_numpy(),
        binding=rows["binding"].cast(WORDS["binding"]).to_physical().to_numpy(),
    )
    return Ticks(
        sizes,
        proposal=rows["proposal"].fill_null(0).to_numpy(),
        min_replicas=rows["min_replicas"].to_numpy(),
        max_replicas=rows["max_replicas"].to_numpy(),
        metric=metric.to_numpy(),
        names=known["metric"].to_list(),
        ratio=rows["ratio"].fill_null(np.nan).to_numpy(),
        invalid_metrics=rows["invalid_metrics"].to_numpy(),
        error=np.array([error.get(text, -1) if text else -1 for text in rows["error"]], np.int64),
        ambiguous=(rows["scaling_active"].cast(pl.String) == "AmbiguousSelector")
        .fill_null(value=False)
        .to_numpy(),
    )


def replay_history(
    history: History,
    parameters: ReplayParameters,
    manifests: Sequence[HPA] | None = None,
    select: Select | None = None,
    why: bool = False,
) -> ReplayResult:
    """Replay the HPAs of a history, or of manifests."""
    return replay_plan(plan_replay(history, parameters, manifests, select, whole=why))
