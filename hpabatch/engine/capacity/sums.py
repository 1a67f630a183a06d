"""Sums over HPAs at the same instants, for a namespace, a cluster and a fleet.

HPAs sync at instants of their own. The sums are made on one grid: from the first tick of all runs,
as far apart as the shortest sync period. At an instant of the grid an HPA counts with what its last
tick left it at; before its run and after it with nothing. A size that lasts less than the grid's
step, of HPAs that sync at different instants, can be missed in a sum.

All amounts are whole numbers (pods, millicores, bytes), so the order of adding does not matter.
Percentiles are nearest ranks: P95 is the smallest value that at least 95 % of the instants do not
exceed, so each is a sum that was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.capacity.runs import PERCENTILES, TODAY, UNCLAMPED, percentile
from hpabatch.engine.columns.capacity import PLAN_TOTALS
from hpabatch.engine.simulate.measures import MINUTE_MS
from hpabatch.engine.simulate.work import Key
from hpabatch.layout.records import I64
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS, Limit, Quota, tightest

MONEY: Final = "money"
AMOUNTS: Final[dict[str, tuple[str, float]]] = {
    PODS: ("pods", 1),
    CORES: ("cores", 1000),
    GIB: ("GiB", 2**30),
    LIMIT_CORES: ("cores", 1000),
    LIMIT_GIB: ("GiB", 2**30),
}
"""The unit of each amount, and how many of what is counted (millicores, bytes) it is."""

HOURS: Final = {PODS: "pod_hours", CORES: "core_hours", GIB: "gib_hours", MONEY: "cost"}
"""The measure of a run that adds up each amount; of limits none does."""

MONTH_HOURS: Final = 720.0
"""A month is 30 days."""


class Grid(NamedTuple):
    """Instants `start_ms + k * step_ms` for k below `size`."""

    start_ms: int
    step_ms: int
    size: int


def totals_of(
    runs: pl.DataFrame, known: Sequence[Key], quotas: Sequence[Quota], currency: str | None
) -> pl.DataFrame:
    """Return the sums (`PLAN_TOTALS`) of each growth.

    Args:
        runs: those of `runs.run_all` that count in sums, by growth, and in each in the order of the
            HPAs. `usable` says whether the HPA's plan is, `limit_cpu_milli` and
            `limit_memory_milli` what a pod is limited to.
        known: all HPAs, those that could not be simulated included.
        quotas: of all namespaces.
        currency: of the cost; None: there are no prices.
    """
    start, step, end = runs.select(
        pl.col("start_ms").min(),
        pl.col("period_ms").min(),
        end=(pl.col("start_ms") + pl.col("period_ms") * pl.col("steps")).max(),
    ).row(0)
    grid = Grid(start, step, -(-(end - start) // step))
    byte = {GIB: "memory_milli", LIMIT_GIB: "limit_memory_milli"}
    runs = runs.with_columns(
        pl.lit(1, pl.Int64).alias(PODS),
        pl.col("cpu_milli").alias(CORES),
        pl.col("limit_cpu_milli").alias(LIMIT_CORES),
        *(((pl.col(milli) + 999) // 1000).alias(name) for name, milli in byte.items()),
    )
    rows = []
    for (growth,), grown in runs.group_by("growth", maintain_order=True):
        for place, scoped in _scopes(grown):
            limits = tightest(quotas, *place) if len(place) == 2 else {}
            scope = {
                "growth": growth,
                "scope": ("fleet", "cluster", "namespace")[len(place)],
                **dict(zip(("cluster", "namespace"), place, strict=False)),
                "of": sum(key[: len(place)] == place for key in known),
            }
            rows += [scope | row for row in _sums(scoped, limits, grid, currency)]
    schema = {**PLAN_TOTALS.schema, "first_exceeded": pl.Int64()}
    return pl.DataFrame(rows, schema=schema).cast(PLAN_TOTALS.schema)


def _scopes(runs: pl.DataFrame) -> Iterator[tuple[tuple[str, ...], pl.DataFrame]]:
    """Yield the runs of each namespace, of each cluster after its namespaces, and of the fleet."""
    for (cluster,), of_cluster in runs.group_by("cluster", maintain_order=True):
        for (namespace,), found in of_cluster.group_by("namespace", maintain_order=True):
            yield (str(cluster), str(namespace)), found
        yield (str(cluster),), of_cluster
    yield (), runs


def _sums(
    runs: pl.DataFrame, limits: Mapping[str, Limit], grid: Grid, currency: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a scope."""
    resources = [PODS, CORES, GIB, *(r for r in (LIMIT_CORES, LIMIT_GIB) if r in limits)]
    at_ms = pl.col("start_ms") + pl.col("period_ms") * pl.col("ticks")
    changes = runs.select("start_ms", "period_ms", "ticks", "changes").explode("ticks", "changes")
    # The first instant of the grid that is not before a change.
    at = changes.select(-((grid.start_ms - at_ms) // grid.step_ms)).to_series().to_numpy()
    pods = changes["changes"].cast(pl.Int64).to_numpy()
    counts = runs["ticks"].list.len().to_numpy()
    for bounds in (TODAY, UNCLAMPED):
        for covers in ("all", "usable"):
            part = {"bounds": bounds, "covers": covers}
            counted = (pl.col("setting") == bounds) & (pl.col("usable") | pl.lit(covers == "all"))
            for resource in resources:
                each = pl.when(counted).then(resource)
                theirs, values = runs.filter(each.is_not_null()), None
                if not theirs.is_empty():
                    amounts = runs.select(each.fill_null(0)).to_series().to_numpy()
                    values = np.zeros(grid.size + 1, np.int64)
                    np.add.at(values, at, pods * np.repeat(amounts, counts))
                    values = np.cumsum(values)[:-1]
                yield {
                    **part,
                    "resource": resource,
                    "unit": AMOUNTS[resource][0],
                    **_over_time(theirs, HOURS.get(resource)),
                    **_spread(theirs, values, resource),
                    **_judged(values, resource, limits.get(resource), grid),
                }
            if currency is not None:
                theirs = runs.filter(counted & pl.col("cost").is_not_null())
                yield {
                    **part,
                    "resource": MONEY,
                    "unit": currency,
                    **_over_time(theirs, HOURS[MONEY]),
                }


def _over_time(runs: pl.DataFrame, measure: str | None) -> dict[str, Any]:
    """Return how many runs there are, the sum of a measure, and what that is in a month."""
    found: dict[str, Any] = {"hpas": runs.height}
    if measure is not None and runs.height:
        month = pl.col(measure) * (MONTH_HOURS / pl.col("hours"))
        for name, value in (("run_total", pl.col(measure)), ("month_total", month)):
            found[name] = _added(runs.select("usable", "cluster", "namespace", value=value))
    return found


def _added(values: pl.DataFrame) -> float:
    """Return the sum of values: of namespaces, of clusters of these, and so on, in their order."""
    parts: dict[tuple[object, ...], float] = {(): 0.0}
    rows = [(row[:3], row[3]) for row in values.iter_rows()]
    for depth in (3, 2, 1, 0):
        parts = {}
        for key, value in rows:
            parts[key[:depth]] = parts.get(key[:depth], 0.0) + value
        rows = list(parts.items())
    return parts[()]


def _spread(runs: pl.DataFrame, values: I64 | None, resource: str) -> dict[str, float]:
    """Return percentiles and peaks of a sum in the resource's unit; nothing without an HPA."""
    if values is None:
        return {}
    size = AMOUNTS[resource][1]
    peaks = runs.select((pl.col("peak") * pl.col(resource)).sum()).item()
    found = {f"p{p}": percentile(values, p) for p in PERCENTILES}
    found |= {"max": int(values.max()), "sum_of_peaks": peaks}
    return {name: count / size for name, count in found.items()}


def _judged(
    values: I64 | None, resource: str, limit: Limit | None, grid: Grid
) -> dict[str, object]:
    """Return how a sum stands to a quota; nothing without one, or where no amount is known."""
    if limit is None:
        return {}
    size = AMOUNTS[resource][1]
    told = {"quota": limit.hard / size, "quota_name": f"{limit.quota}: {limit.key}"}
    if values is None:
        return told
    above = values > limit.hard
    count = int(above.sum())
    first = grid.start_ms + int(above.argmax()) * grid.step_ms if count else None
    return told | {
        "first_exceeded": first,
        "exceeded_minutes": count * grid.step_ms / MINUTE_MS,
        "exceeded_pct": 100.0 * count / above.size,
        "lowest_headroom": (limit.hard - int(values.max())) / size,
    }
