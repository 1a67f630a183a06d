"""Problems of a recording, told for each HPA: one table of rules over `quality`.

A rule reads one row and says in one sentence what is wrong, what it does to the results, and what
to do. Every rule that applies is told, since they have different remedies. The weight orders them:
how much of the results depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.columns.history import PROBLEMS
from hpabatch.engine.replay.attention import duration
from hpabatch.engine.replay.summary import KEY, MS_PER_HOUR

# From which values on a rule speaks.
LEAST_COVERAGE: Final = 0.95  # every twentieth pod-minute without a sample moves decisions
NEVER_SAMPLED_SHARE: Final = 0.02
LONG_GAP_MS: Final = 300_000  # half of upstream's default scale-down window
SLOW_INTERVAL_MS: Final = 60_000  # metrics-server's slowest usual resolution
JITTER_SHARE: Final = 0.25
AT_LIMIT_SHARE: Final = 0.02
WITHOUT_REQUEST_SHARE: Final = 0.0  # one such pod fails the whole metric
UNKNOWN_REQUESTS_SHARE: Final = 0.0
LATE_SHARE: Final = 0.01
SKEW_MS: Final = 1_000
OVERTAKEN_SHARE: Final = 0.01
STRAY_SHARE: Final = 0.001
UNREADY_SHARE: Final = 0.05
UNMATCHED_SHARE: Final = 0.02

COLUMNS: Final = PROBLEMS.meanings


@dataclass(frozen=True, slots=True)
class Rule:
    """When something is worth telling, and the sentence; expressions over a quality frame.

    Attributes:
        name: the rule's name, as in the `rule` column.
        weight: how much of the results depends on it, 0 to 100.
        when: whether the rule applies; null: no.
        why: the sentence, with `{}` for each of `parts`.
        parts: expressions for the sentence.
    """

    name: str
    weight: int
    when: pl.Expr
    why: str
    parts: tuple[pl.Expr, ...] = ()


def _percent(column: str | pl.Expr) -> pl.Expr:
    """Return a share as text; what is neither nothing nor all is not shown as such."""
    share = pl.col(column) if isinstance(column, str) else column
    tenths = (share * 1000).round().clip(1, 999) / 10
    return pl.when(share >= 1).then(pl.lit("100")).otherwise(tenths.cast(pl.String)) + " %"


def _pods(column: str) -> pl.Expr:
    return _C(column).cast(pl.String) + _either(_C(column) == 1, " pod", " pods")


def _either(test: pl.Expr, then: str, otherwise: str) -> pl.Expr:
    return pl.when(test).then(pl.lit(then)).otherwise(pl.lit(otherwise))


def _time(ms: str) -> pl.Expr:
    return duration(pl.col(ms) / MS_PER_HOUR)


_C = pl.col
_NEEDS_USAGE = _C("reads").str.contains("pod_metrics")
_SAMPLED = _NEEDS_USAGE & (_C("samples") > 0)
_CPU = _C("utilization_of").fill_null("").str.contains("cpu")
_MEMORY = _C("utilization_of").fill_null("").str.contains("memory")

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "no_samples", 100, _NEEDS_USAGE & (_C("samples") == 0),
        "no usage of any pod of {} is recorded, so every resource metric fails: record "
        "pod_metrics, or correct the target's name",
        (_C("target"),),
    ),
    Rule(
        "no_scale", 100, _C("membership").is_null(),
        "the scale of {}/{} is not recorded, so its size is not known: record it in scales",
        (_C("target_kind"), _C("target")),
    ),
    Rule(
        "requests_unknown", 95,
        _C("utilization_of").is_not_null()
        & (_C("unknown_requests_share") > UNKNOWN_REQUESTS_SHARE),
        "the requests of {} of its pods are not recorded, so their utilization is not known: fill "
        "pod_requests",
        (_percent("unknown_requests_share"),),
    ),
    Rule(
        "without_cpu_request", 90,
        _CPU & (_C("without_cpu_request_share") > WITHOUT_REQUEST_SHARE),
        "{} of its pods have a container without cpu request; its cpu utilization fails while one "
        "of them runs: set the request",
        (_percent("without_cpu_request_share"),),
    ),
    Rule(
        "without_memory_request", 90,
        _MEMORY & (_C("without_memory_request_share") > WITHOUT_REQUEST_SHARE),
        "{} of its pods have a container without memory request; its memory utilization fails "
        "while one of them runs: set the request",
        (_percent("without_memory_request_share"),),
    ),
    Rule(
        "coverage", 85, _SAMPLED & (_C("coverage") < LEAST_COVERAGE),
        "its pods have a sample in {} of their life; without one they count as missing, which "
        "damps every decision: look at how usage is collected",
        (_percent("coverage"),),
    ),
    Rule(
        "gap", 80, _SAMPLED & (_C("gap_longest_ms") >= LONG_GAP_MS),
        "no pod of it was sampled in {}{}{}; no metric can be computed there",
        (
            _C("gaps"),
            _either(_C("gaps") == 1, " stretch, of ", " stretches, the longest of "),
            _time("gap_longest_ms"),
        ),
    ),
    Rule(
        "foreign_pods", 80, _C("foreign_pods") > 0,
        "its selector matches {} outside of its target; upstream counts them, too: make the "
        "selectors of the workloads distinct",
        (_pods("foreign_pods"),),
    ),
    Rule(
        "synthetic", 75, _C("synthetic_share") > 0,
        "{} of its pods are generated from a recorded size; lives, readiness and the spread "
        "between pods are assumed",
        (_percent("synthetic_share"),),
    ),
    Rule(
        "at_limit", 70, _NEEDS_USAGE & (_C("at_limit_share") >= AT_LIMIT_SHARE),
        "cpu was at its limit in {} of the samples that have one; what was wanted there is not "
        "known, only that it was more",
        (_percent("at_limit_share"),),
    ),
    Rule(
        # A list of methods: any one of them.
        "behavior_unknown", 65, _C("behavior").str.contains(r"\b(absent|assumed)\b"),
        "its behavior block is not recorded, so Kubernetes' defaults are assumed; if it has one, "
        "windows and policies are not those of the cluster: import again, into a new store, with "
        "its manifest or --hpa-events",
    ),
    Rule(
        "owner_assumed", 60, _C("membership").is_in(["owner", "both"]),
        "the selector of its scale is {}; the target's own pods are taken instead: record the "
        "selector",
        (_either(_C("membership") == "owner", "not recorded", "recorded at times only"),),
    ),
    Rule(
        "unmatched_pods", 60, _C("unmatched_pods") > UNMATCHED_SHARE * _C("pods"),
        "its selector does not match {} of the target's {}, so they do not count: check the "
        "recorded labels and selector",
        (_C("unmatched_pods"), _pods("pods")),
    ),
    Rule(
        "clock_skew", 60, (_C("skewed_samples") > 0) & (_C("skew_max_ms") >= SKEW_MS),
        "{} samples were fetched before they were taken, by up to {}: the clocks differ, so it is "
        "not known what a sync saw; set the clocks",
        (_C("skewed_samples"), _time("skew_max_ms")),
    ),
    Rule(
        "late", 55, _C("late_samples") >= LATE_SHARE * _C("samples").clip(1),
        "{} of the samples were fetched late, the latest after {}; the controller saw them then, "
        "or never",
        (_percent(_C("late_samples") / _C("samples")), _time("lateness_max_ms")),
    ),
    Rule(
        "stray", 50, _C("stray_rows") > STRAY_SHARE * (_C("samples") + _C("stray_rows")),
        "{} rows of usage belong to pods that the pods table does not hold; they are left out: "
        "record those pods",
        (_C("stray_rows"),),
    ),
    Rule(
        "never_sampled", 50,
        (_C("samples") > 0) & (_C("never_sampled") > NEVER_SAMPLED_SHARE * _C("pods")),
        "{} of its {} ran without ever being sampled",
        (_C("never_sampled"), _pods("pods")),
    ),
    Rule(
        "overtaken", 40, _C("overtaken_samples") >= OVERTAKEN_SHARE * _C("samples").clip(1),
        "{} samples were fetched before the pod's one before them: which one a sync saw hangs on "
        "the order of fetches",
        (_C("overtaken_samples"),),
    ),
    Rule(
        "slow_interval", 35, _NEEDS_USAGE & (_C("interval_ms") > SLOW_INTERVAL_MS),
        "its pods are sampled every {}; what happens in between is not seen",
        (_time("interval_ms"),),
    ),
    Rule(
        "jitter", 30, _NEEDS_USAGE & (_C("jitter_ms") >= JITTER_SHARE * _C("interval_ms")),
        "the time between two samples is off by up to {} of {}",
        (_time("jitter_ms"), _time("interval_ms")),
    ),
    Rule(
        "unready_again", 25, _C("unready_again") > UNREADY_SHARE * _C("pods"),
        "{} of its {} lost readiness again; while unready, upstream sets a pod's cpu aside",
        (_C("unready_again"), _pods("pods")),
    ),
    Rule(
        "recreated", 10, _C("recreated") > 0,
        "{} took the name of an earlier one; only the uid tells them apart",
        (_pods("recreated"),),
    ),
)  # fmt: skip


def problems(quality: pl.DataFrame) -> pl.DataFrame:
    """Return the problems of each HPA, the weightiest first, then by key.

    Columns: cluster, namespace, hpa, rule, weight, why. An HPA of which there is nothing to tell is
    not in it. Raises nothing.
    """
    found = pl.concat([_apply(quality.lazy(), rule) for rule in RULES])
    order = ["weight", "rule", *KEY]
    return found.sort(order, descending=[True, *[False] * (len(order) - 1)]).collect()


def _apply(quality: pl.LazyFrame, rule: Rule) -> pl.LazyFrame:
    why = pl.format(rule.why, *rule.parts) if rule.parts else pl.lit(rule.why)
    return quality.filter(rule.when.fill_null(value=False)).select(
        *KEY,
        pl.lit(rule.name).alias("rule"),
        pl.lit(rule.weight, dtype=pl.Int64).alias("weight"),
        why.alias("why"),
    )
