"""Limits and requests that usage and its percentage of them tell together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from hpabatch.importers.common.units import CPU_MILLI, MEMORY_BYTES
from hpabatch.importers.table.propose.draft import Found
from hpabatch.importers.table.propose.text import Entry, scalar
from hpabatch.importers.table.propose.usage import Amount

_LEAST_PERCENT: Final = 0.05  # below it, a rounded percentage says little
_STEP: Final = {"cpu": 5, "memory": 2**20}
_UNIT: Final = {"cpu": "m", "memory": "Mi"}
_MOST_LISTED: Final = 100


def add_shares(found: Found) -> None:
    """Add limits (or requests) by workload where the table has usage and its percentage of them."""
    if found.unpivot is not None or not found.draft.top.keys().isdisjoint(("where", "pivot")):
        return  # its columns are not those of the rows
    for resource, factors in (("cpu", CPU_MILLI), ("memory", MEMORY_BYTES)):
        usage = _first(found, resource, is_percentage=False)
        share = _first(found, resource, is_percentage=True)
        if usage is None or share is None or usage.unit not in factors:
            continue
        entries = found.draft.limits if share.percent_of == "limit" else found.draft.requests
        if resource not in entries:
            entry = _entry(found, usage, share, factors)
            if entry is not None:
                entries[resource] = entry


def _first(found: Found, resource: str, *, is_percentage: bool) -> Amount | None:
    for amount in found.amounts:
        if amount.resource == resource and amount.role == "usage" and (
            amount.percent_of in ("limit", "request") if is_percentage else not amount.percent_of
        ):  # fmt: skip
            return amount
    return None


def _entry(
    found: Found, usage: Amount, share: Amount, factors: Mapping[str, float]
) -> Entry | None:
    names = _workloads(found)
    if names is None or len(names) != len(usage.column.numbers):
        return None
    frame = pl.DataFrame(
        {"name": names, "usage": usage.column.numbers, "percent": share.column.numbers}
    )
    whole = pl.col("usage") * factors[usage.unit] / pl.col("percent") * 100
    frame = frame.filter(pl.col("percent") > _LEAST_PERCENT).select("name", whole=whole)
    frame = frame.drop_nulls().filter(pl.col("whole").is_finite(), pl.col("whole") > 0)
    by = frame.group_by("name").agg(pl.col("whole").median()).sort("name")
    if by.is_empty() or by.height > _MOST_LISTED:
        return None
    middle = by["whole"].median()
    assert isinstance(middle, float)
    lines = [f"  {scalar(name)}: {_quantity(value, usage.resource)}" for name, value in by.rows()]
    told = f"{usage.column.name} divided by {share.column.name}, the median of each workload"
    default = f"default: {_quantity(middle, usage.resource)}"
    return Entry("", assumed=told, rows=(default, "workloads:", *lines))


def _workloads(found: Found) -> pl.Series | None:
    """Return the workload of each row of the sample, None where it is no plain column."""
    names = found.names
    if names.workload is not None:
        is_plain = found.draft.columns["workload"].value == scalar(names.workload.origin)
        return names.workload.column.values.cast(pl.String) if is_plain else None
    if names.pod is None or names.pod_names is None or names.pod.label:
        return None
    return names.pod.column.values.cast(pl.String).str.extract(names.pod_names.pattern, 1)


def _quantity(value: float, resource: str) -> str:
    step = _STEP[resource]
    steps = max(1, round(value / step))
    return f"{steps * step if resource == 'cpu' else steps}{_UNIT[resource]}"
