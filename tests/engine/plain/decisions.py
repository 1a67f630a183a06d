"""Decisions as a frame, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hpabatch.layout import codes
from hpabatch.layout.records import Fleet, Results
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.versions import Profile
from tests.engine.made import SCHEMA
from tests.engine.plain.align import Lane

CONDITIONS = {
    "able_to_scale": codes.ABLE_TO_SCALE,
    "scaling_active": codes.SCALING_ACTIVE,
    "scaling_limited": codes.SCALING_LIMITED,
}
NO_ERRORS = (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED)


def decisions_frame(
    lanes: Sequence[Lane], fleet: Fleet, results: Results, profile: Profile
) -> pl.DataFrame:
    """Return one row per HPA and tick, in the order of the lanes and of time."""
    names = _metric_names(lanes, fleet, profile.container_metric_named)
    rows = []
    for h, lane in enumerate(lanes):
        c, last = lane.candidate, int(fleet.lanes.last_tick[h])
        for t in range(int(fleet.lanes.first_tick[h]), last):
            row: dict[str, Any] = {"cluster": c.cluster, "namespace": c.namespace, "hpa": c.name}
            row |= _tick(fleet, results, t, min(t + 1, last - 1))
            row |= _metrics(fleet, results, t, names)
            rows.append(row | _conditions(results.decisions[t]))
    schema = SCHEMA | {"ts": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row").cast({"ts": SCHEMA["ts"]})


def _metric_names(lanes: Sequence[Lane], fleet: Fleet, named: bool) -> list[str]:
    """Return the description of each row of `fleet.metrics`."""
    metrics = [m for lane in lanes for p in lane.candidate.periods for m in p.spec.metrics]
    kinds = [int(row.kind) for row in fleet.metrics]
    return [metric_name(m, kind, named) for m, kind in zip(metrics, kinds, strict=True)]


def _tick(fleet: Fleet, results: Results, t: int, after: int) -> dict[str, Any]:
    """Return the sizes of a tick; `after` is the lane's next tick, or the last one itself."""
    d, tick = results.decisions[t], fleet.ticks[t]
    spec = fleet.specs[tick.spec]
    rescaled = bool(d.rescaled)
    row: dict[str, Any] = {
        "replicas": int(d.current),
        "desired": int(d.desired if rescaled else d.current),
        "applied": int(fleet.ticks[after].replicas),
        "proposal": int(d.proposal),
        "stabilized": int(d.stabilized),
        "limited": int(d.limited),
    }
    if tick.scale not in (codes.SCALE_OK, codes.SCALE_UPDATE_FAILED):
        row = dict.fromkeys(row)
    words = codes.BINDINGS.get(int(d.binding))
    row |= {"ts": int(tick.now_ms), "rescaled": rescaled, "binding": words and words.name}
    return row | {"min_replicas": int(spec.min_replicas), "max_replicas": int(spec.max_replicas)}


def _metrics(fleet: Fleet, results: Results, t: int, names: Sequence[str]) -> dict[str, Any]:
    """Return what the metrics of a tick came to."""
    d, spec = results.decisions[t], fleet.specs[fleet.ticks[t].spec]

    def of_metric(row: int) -> Any:
        return results.metrics[t + fleet.streams[fleet.metrics[row].stream].answer_offset]

    driving, ratio = None, None
    if d.metric >= 0:
        row = int(spec.first_metric + d.metric)
        driving, ratio = names[row], float(of_metric(row).ratio)
    reason = codes.REASONS.get(int(d.reason))
    found: dict[str, Any] = {
        "metric": driving,
        "ratio": None if ratio is None or ratio != ratio else ratio,
        "reason": reason and reason.replace("{metric}", driving or ""),
        "invalid_metrics": int(d.invalid_metrics),
        "error": None,
    }
    if d.invalid_metrics:
        answers = [of_metric(m) for m in range(int(spec.first_metric), int(spec.last_metric))]
        failed = [int(answer.code) for answer in answers if answer.code not in NO_ERRORS]
        found["error"] = codes.METRIC_ERRORS[failed[0]] if failed else None
    return found


def _conditions(decision: Any) -> dict[str, str | None]:
    found: dict[str, str | None] = dict.fromkeys(CONDITIONS)
    for k in range(4):
        code = int(decision[f"condition_{k}"])
        for name, kind in CONDITIONS.items():
            if code >> 4 == kind:
                words = codes.CONDITIONS.get(code)
                found[name] = words and words.reason
    return found
