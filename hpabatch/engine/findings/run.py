"""Findings of a history: what replays of its HPAs show, and what their last specs amount to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import CATALOGUE, SEVERITIES
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.attention import apply_rules
from hpabatch.engine.replay.summary import KEY

ASSUMED: Final = frozenset({"memory_kind", "not_all_sizes", "no_dead_band"})
"""Remarks on what an analysis leaves open, which are nothing to find."""


def findings_of(summary: pl.DataFrame, plan: ReplayPlan) -> pl.DataFrame:
    """Return the findings of a replay, the worst first; columns as registered.

    A finding that replay and spec show is told with the replay's numbers.
    """
    seen = apply_rules(summary).rename({"rule": "finding"}).drop("order").collect()
    stated = pl.DataFrame(list(_of_specs(plan)), schema=seen.schema)
    shown = [*KEY, "finding"]
    unseen = stated.join(seen, on=shown, how="anti").unique(shown, keep="first")
    return with_kinds(pl.concat([seen, unseen]).iter_rows(named=True))


def _of_specs(plan: ReplayPlan) -> Iterable[dict[str, Any]]:
    for candidate in plan.chosen:
        flags = plan.flags_of(candidate.cluster)[-1].flags
        found = analyze_hpa(candidate.spec, flags, plan.profile_of(candidate.cluster))
        spec = {"min_replicas": found.lowest, "max_replicas": found.highest}
        for remark in remarks(found):
            if remark.code not in ASSUMED:
                yield dict(zip(KEY, candidate.key, strict=True)) | {
                    "finding": remark.code,
                    "score": None,
                    "why": remark.text,
                    "evidence": json.dumps(spec, separators=(",", ":")),
                }


def with_kinds(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return findings with severity, group and what to do, the worst first."""
    told = []
    for row in rows:
        kind = CATALOGUE[row["finding"]]
        told.append({**row, "severity": kind.severity, "group": kind.group, "fix": kind.fix})
    found = pl.DataFrame(told, schema=FINDINGS.schema)  # (no score: null)
    rank = pl.col("severity").replace_strict(SEVERITIES, range(3), return_dtype=pl.Int8)
    down = [False, True, *[False] * len(KEY), False]
    return found.sort([rank, "score", *KEY, "finding"], descending=down, nulls_last=True)
