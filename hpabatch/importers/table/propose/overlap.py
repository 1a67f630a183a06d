"""Runs and regions in one table: a column that must become the cluster to tell rows apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from hpabatch.importers.table.propose.columns import Column, Kind, has_decimal_commas, profiles
from hpabatch.importers.table.propose.draft import Found
from hpabatch.importers.table.propose.sample import Sample
from hpabatch.importers.table.propose.text import Entry, scalar

_MOST: Final = 200
_LEAST_ROWS: Final = 20
_SEVERAL: Final = 0.8
_TWICE: Final = 0.01


def add_cluster(found: Found, sample: Sample) -> bool:
    """Add `columns.cluster` where a column tells runs apart that would else be one history.

    Those are runs of the same workloads one after the other, or at once in several regions.
    """
    names = found.names
    if names.cluster is not None or names.level != "workload" or found.unpivot is not None:
        return False
    if "pivot" in found.draft.top:
        return False
    assert names.replicas is not None
    if names.workload is None or names.workload.label:
        return False
    columns = profiles(sample.frame, comma=has_decimal_commas(sample))
    time = sample.frame.columns.index(found.time)
    keys = [names.workload.origin] + ([names.namespace.origin] if names.namespace else [])
    most = min(_MOST, sample.frame.height // _LEAST_ROWS)
    left = [c for c in columns if c.kind is Kind.text and c.name not in names.used()]
    left = [c for c in left if c is not columns[time] and 1 < c.distinct() <= most]
    for column in left:
        if _same_workloads(sample.frame, keys, column.name) and (
            told := _kept_apart(sample.frame, keys, columns[time], column.name)
        ):
            assumed = f"the values of {column.name} are histories of their own: {told}"
            entry = {"cluster": Entry(scalar(column.name), assumed=assumed)}
            time_entry = {"time": found.draft.columns["time"]}
            rest = {k: v for k, v in found.draft.columns.items() if k != "time"}
            found.draft.columns = time_entry | entry | rest
            found.draft.unused = _without(found.draft.unused, column.name)
            return True
    return False


def _same_workloads(frame: pl.DataFrame, keys: Sequence[str], name: str) -> bool:
    """Whether most workloads have several values of a column."""
    values = frame.drop_nulls([*keys, name]).group_by(keys).agg(pl.col(name).n_unique())
    share = (values[name] > 1).mean()
    return isinstance(share, float) and share >= _SEVERAL


def _kept_apart(frame: pl.DataFrame, keys: Sequence[str], time: Column, name: str) -> str:
    """Return how the values of a column are apart, "" where they only alternate."""
    rows = frame.select(*keys, name, ts=time.values).drop_nulls()
    twice = rows.select(pl.struct(*keys, "ts").is_duplicated().mean()).item()
    if twice > _TWICE:
        return "the same workloads at the same times"
    spans = rows.group_by(*keys, name).agg(a=pl.col("ts").min(), b=pl.col("ts").max())
    spans = spans.sort(*keys, "a")
    apart = spans.select((pl.col("a") > pl.col("b").shift(1).over(keys)).drop_nulls().mean()).item()
    told = "runs of the same workloads, one after the other"
    return told if apart is not None and apart >= _SEVERAL else ""


def _without(unused: list[str], name: str) -> list[str]:
    found = []
    for line in unused:
        head, names = (*line.split(": ", 1), "")[:2]
        if head == "not used":
            names = ", ".join(item for item in names.split(", ") if item != name)
        if names:
            found.append(f"{head}: {names}")
    return found
