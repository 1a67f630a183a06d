"""Findings of a history: what replays and recordings show, and what last specs amount to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.engine.findings.catalogue import CATALOGUE, HISTORY, RECORDING
from hpabatch.engine.findings.ignores import Annotated, Judged, judge
from hpabatch.engine.fleet.candidates import IGNORE, Candidate, Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.quality.problems import problems
from hpabatch.engine.quality.run import Look
from hpabatch.engine.replay.attention import apply_rules
from hpabatch.engine.replay.summary import KEY

ASSUMED: Final = frozenset({"memory_kind", "not_all_sizes", "no_dead_band"})
"""Remarks on what an analysis leaves open, which are nothing to find."""

_READ: Final = {
    "at_limit": ("at_limit_share", "limited_share"),
    "foreign_pods": ("foreign_pods", "pods"),
    "slow_interval": ("interval_ms",),
    "without_cpu_request": ("without_cpu_request_share",),
    "without_memory_request": ("without_memory_request_share",),
}
"""Columns of `history quality` that its rules among the findings read."""


def findings_of(summary: pl.DataFrame, plan: ReplayPlan) -> pl.DataFrame:
    """Return the findings of a replay that count, the worst first; columns as registered."""
    return judged_findings(summary, plan).found


def judged_findings(summary: pl.DataFrame, plan: ReplayPlan) -> Judged:
    """Return the findings of a replay, those apart that annotations ignore.

    A finding that replay and spec show is told with the replay's numbers.
    """
    seen = apply_rules(summary).rename({"rule": "finding"}).drop("order").collect()
    look = Look(plan.history, plan.chosen)
    quality = look.joined([look.part(k) for k in range(len(look.shards))])
    more = [*_of_recordings(quality), *_of_windows(quality, plan)]
    stated = pl.DataFrame(list(_of_specs(plan)), schema=seen.schema)
    shown = [*KEY, "finding"]
    unseen = stated.join(seen, on=shown, how="anti").unique(shown, keep="first")
    annotated = {c.key: Annotated(c.ignore, json.dumps({"annotation": IGNORE}))
                 for c in plan.chosen if c.ignore}  # fmt: skip
    return judge([*pl.concat([seen, unseen]).iter_rows(named=True), *more], annotated)


def unjudged(summary: pl.DataFrame, found: Judged) -> Iterator[Skipped]:
    """Yield HPAs of a replay without a decision, unless a finding of it says why."""
    told = pl.concat(found).filter(
        pl.col("finding").is_in([k.name for k in CATALOGUE.values() if k.source == HISTORY])
    )
    # (of HPAs on the same pods the first is told)
    without = (pl.col("undecided_share") >= 1) & (pl.col("ambiguous_share") == 0)
    without |= pl.col("ticks") == 0
    rows = summary.filter(without).join(told, on=KEY, how="anti")
    for c, n, h, ticks, error in rows.select(*KEY, "ticks", "error").iter_rows():
        why = f"none of its {ticks:,} syncs could be decided: {error or 'no reason recorded'}"
        if not ticks:
            why = "no sync of it lies in the recorded time"
        yield Skipped(c, n, h, why)


def _row(key: Iterable[str], finding: str, why: str, **evidence: object) -> dict[str, Any]:
    told = json.dumps(evidence, separators=(",", ":"))
    return dict(zip(KEY, key, strict=True)) | {
        "finding": finding, "score": None, "why": why, "evidence": told,
    }  # fmt: skip


def _of_specs(plan: ReplayPlan) -> Iterator[dict[str, Any]]:
    for candidate in plan.chosen:
        flags = plan.flags_of(candidate.cluster)[-1].flags
        found = analyze_hpa(candidate.spec, flags, plan.profile_of(candidate.cluster))
        spec = {"min_replicas": found.lowest, "max_replicas": found.highest}
        for remark in remarks(found):
            if remark.code not in ASSUMED:
                yield _row(candidate.key, remark.code, remark.text, **spec)


def _of_recordings(quality: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield what `history quality` tells of workloads, not of their recording alone."""
    rows = {tuple(row[part] for part in KEY): row for row in quality.iter_rows(named=True)}
    for problem in problems(quality).iter_rows(named=True):
        key, name = tuple(problem[part] for part in KEY), problem["rule"]
        if name in _READ:
            assert CATALOGUE[name].source == RECORDING
            evidence = {column: rows[key][column] for column in _READ[name]}
            yield _row(key, name, problem["why"], **evidence)


def _of_windows(quality: pl.DataFrame, plan: ReplayPlan) -> Iterator[dict[str, Any]]:
    """Yield HPAs whose scale-down window is shorter than the time between two samples."""
    usage = quality.filter(pl.col("reads").str.contains("pod_metrics"))
    intervals = {tuple(key): ms for *key, ms in usage.select(*KEY, "interval_ms").iter_rows()}
    for candidate in plan.chosen:
        interval_ms, window_s = intervals.get(candidate.key), _window_s(candidate, plan)
        if interval_ms and window_s is not None and window_s * 1000 < interval_ms:
            why = (
                f"its scale-down window of {window_s} s is shorter than the {interval_ms / 1000:g} "
                "s between two samples of its pods: one low sample takes pods away"
            )
            numbers = {"window_s": window_s, "interval_ms": interval_ms}
            yield _row(candidate.key, "window_below_interval", why, **numbers)


def _window_s(candidate: Candidate, plan: ReplayPlan) -> int | None:
    """Return the scale-down window of an HPA's last spec; None: it never scales down."""
    behavior = candidate.spec.behavior
    down = None if behavior is None else behavior.scale_down
    if down is not None and down.select_policy == "Disabled":
        return None
    if down is not None and down.stabilization_window_seconds is not None:
        return down.stabilization_window_seconds
    return plan.flags_of(candidate.cluster)[-1].flags.downscale_stabilization_ms // 1000
