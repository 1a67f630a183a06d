"""Decisions and HPAs made up by hand, in the shape of a replay's result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from hpabatch._jit import examples
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import Select, plan_replay
from hpabatch.engine.replay import summary
from hpabatch.engine.replay.decisions import SCHEMA as WORDS
from hpabatch.engine.replay.run import ReplayResult, replay_plan
from hpabatch.engine.replay.summary import KEY, SIZES, join_summaries
from hpabatch.history.reader import History
from hpabatch.layout import codes, records
from hpabatch.layout.records import Fleet, records_from
from hpabatch.layout.results import DECISION, METRIC_DECISION, Results
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
    keys = hpas.select(pl.col(KEY).cast(pl.String), lane=pl.int_range(pl.len(), dtype=pl.Int64))
    named = decisions.with_columns(pl.col(KEY).cast(pl.String))
    rows = named.join(keys, on=KEY, how="left").sort("lane", "ts")
    drives = rows.select("lane", pl.col("metric").cast(pl.String))
    metrics = drives.drop_nulls().unique(maintain_order=True).rows()
    fleet, results = _replayed(rows, [metrics.index(m) if m[1] else -1 for m in drives.rows()])
    fleet = fleet._replace(
        lanes=records_from(
            records.LANE,
            hpas.height,
            first_tick=rows["lane"].search_sorted(keys["lane"], side="left"),
            last_tick=rows["lane"].search_sorted(keys["lane"], side="right"),
        ),
        metrics=records_from(records.METRIC, max(len(metrics), 1)),
    )
    applied = rows["applied"].fill_null(0).to_numpy().copy()
    return join_summaries([summary.summarize(fleet, results, applied, metrics, hpas)])


def _replayed(rows: pl.DataFrame, metric: Sequence[int]) -> tuple[Fleet, Results]:
    """Return arrays of a replay that decided some rows: a spec of one metric for each tick."""
    count, codes_of = rows.height, {text: code for code, text in codes.METRIC_ERRORS.items()}
    known = rows.select(pl.all_horizontal(pl.col(SIZES).is_not_null())).to_series()
    ticks = records_from(
        records.TICK,
        count,
        now_ms=rows["ts"].to_physical(),
        spec=np.arange(count),
        scale=np.where(known, codes.SCALE_OK, codes.SCALE_UNKNOWN),
    )
    specs = records_from(
        records.SPEC,
        count,
        min_replicas=rows["min_replicas"],
        max_replicas=rows["max_replicas"],
        first_metric=np.maximum(metric, 0),
        last_metric=np.maximum(metric, 0) + 1,
    )
    decided = records_from(
        DECISION,
        count,
        current=rows["replicas"].fill_null(0),
        **{name: rows[name].fill_null(0) for name in ("desired", "proposal", "rescaled")},
        metric=np.where(np.array(metric) < 0, -1, 0),
        invalid_metrics=rows["invalid_metrics"],
        binding=rows["binding"].cast(WORDS["binding"]).to_physical(),
        condition_1=np.where(
            rows["scaling_active"].cast(pl.String).to_numpy() == "AmbiguousSelector",
            codes.AMBIGUOUS_SELECTOR,
            codes.NO_CONDITION,
        ),
    )
    said = records_from(
        METRIC_DECISION,
        count,
        ratio=rows["ratio"].fill_null(np.nan),
        code=[codes_of[text or ""] for text in rows["error"]],
    )
    (fleet,) = examples(_of_a_fleet)
    return fleet._replace(
        ticks=ticks, specs=specs, streams=records_from(records.STREAM, 1)
    ), Results(decided, said)


def _of_a_fleet(fleet: Fleet) -> None:
    """Have a signature of which `examples` makes a fleet."""


def replay_history(
    history: History,
    parameters: ReplayParameters,
    manifests: Sequence[HPA] | None = None,
    select: Select | None = None,
    why: bool = False,
) -> ReplayResult:
    """Replay the HPAs of a history, or of manifests."""
    return replay_plan(plan_replay(history, parameters, manifests, select, whole=why))
