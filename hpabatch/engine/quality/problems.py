"""What to tell a user about the recording of each HPA: one table of rules over `quality`.

A rule reads one row, and says in one sentence what is wrong, what it does to the results, and what
to do. Every rule that applies is told: they have different remedies. The weight says how much of
the results hangs on it; it orders them, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

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

COLUMNS: Final[dict[str, str]] = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "name of the HPA",
    "rule": "what was found",
    "weight": "how much of the results hangs on it, 0 to 100",
    "why": "the sentence",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """When something is worth telling, and the sentence; expressions over a quality frame.

    Attributes:
        name: the rule's name, as in the `rule` column.
        weight: how much of the results hangs on it, 0 to 100.
        when: whether the rule applies; null: no.
        why: the sentence; parts are texts and expressions.
    """

    name: str
    weight: int
    when: pl.Expr
    why: tuple[str | pl.Expr, ...]


def _percent(share: pl.Expr) -> pl.Expr:
    """Return a share as text; what is not nothing or all is not shown as such."""
    tenths = (share * 1000).round().clip(1, 999) / 10
    return pl.when(share >= 1).then(pl.lit("100")).otherwise(tenths.cast(pl.String)) + " %"


def _pods(column: str) -> pl.Expr:
    count = pl.col(column)
    return count.cast(pl.String) + pl.when(count == 1).then(pl.lit(" pod")).otherwise(
        pl.lit(" pods")
    )


def _time(ms: str) -> pl.Expr:
    return duration(pl.col(ms) / MS_PER_HOUR)


_C = pl.col
_NEEDS_USAGE = _C("reads").str.contains("pod_metrics")
_CPU = _C("utilization_of").fill_null("").str.contains("cpu")
_MEMORY = _C("utilization_of").fill_null("").str.contains("memory")

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "no_samples",
        100,
        _NEEDS_USAGE & (_C("samples") == 0),
        (
            "no usage of any pod of ",
            _C("target"),
            " is recorded, so every resource metric fails: record pod_metrics, or correct the "
            "target's name",
        ),
    ),
    Rule(
        "no_scale",
        100,
        _C("membership").is_null(),
        (
            "the scale of ",
            pl.format("{}/{}", "target_kind", "target"),
            " is not recorded, so its size is not known: record it in scales",
        ),
    ),
    Rule(
        "requests_unknown",
        95,
        _C("utilization_of").is_not_null()
        & (_C("unknown_requests_share") > UNKNOWN_REQUESTS_SHARE),
        (
            "the requests of ",
            _percent(_C("unknown_requests_share")),
            " of its pods are not recorded, so their utilization is not known: fill pod_requests",
        ),
    ),
    Rule(
        "without_cpu_request",
        90,
        _CPU & (_C("without_cpu_request_share") > WITHOUT_REQUEST_SHARE),
        (
            _percent(_C("without_cpu_request_share")),
            " of its pods have a container without cpu request; its cpu utilization fails while "
            "one of them runs: set the request",
        ),
    ),
    Rule(
        "without_memory_request",
        90,
        _MEMORY & (_C("without_memory_request_share") > WITHOUT_REQUEST_SHARE),
        (
            _percent(_C("without_memory_request_share")),
            " of its pods have a container without memory request; its memory utilization fails "
            "while one of them runs: set the request",
        ),
    ),
    Rule(
        "coverage",
        85,
        _NEEDS_USAGE & (_C("samples") > 0) & (_C("coverage") < LEAST_COVERAGE),
        (
            "its pods have a sample in ",
            _percent(_C("coverage")),
            " of their life; without one they count as missing, which damps every decision: look "
            "at how usage is collected",
        ),
    ),
    Rule(
        "gap",
        80,
        _NEEDS_USAGE & (_C("samples") > 0) & (_C("gap_longest_ms") >= LONG_GAP_MS),
        (
            "no pod of it was sampled in ",
            _C("gaps"),
            pl.when(_C("gaps") == 1)
            .then(pl.lit(" stretch, of "))
            .otherwise(pl.lit(" stretches, the longest of ")),
            _time("gap_longest_ms"),
            "; no metric can be computed there",
        ),
    ),
    Rule(
        "foreign_pods",
        80,
        _C("foreign_pods") > 0,
        (
            "its selector matches ",
            _pods("foreign_pods"),
            " outside of its target; upstream counts them, too: make the selectors of the "
            "workloads distinct",
        ),
    ),
    Rule(
        "synthetic",
        75,
        _C("synthetic_share") > 0,
        (
            _percent(_C("synthetic_share")),
            " of its pods are generated from a recorded size; lives, readiness and the spread "
            "between pods are assumed",
        ),
    ),
    Rule(
        "at_limit",
        70,
        _NEEDS_USAGE & (_C("at_limit_share") >= AT_LIMIT_SHARE),
        (
            "cpu was at its limit in ",
            _percent(_C("at_limit_share")),
            " of the samples that have one; what was wanted there is not known, only that it was "
            "more",
        ),
    ),
    Rule(
        "behavior_unknown",
        65,
        # A list of methods: a word of it, whatever stands beside.
        _C("behavior").str.contains(r"\b(absent|assumed)\b"),
        (
            "its behavior block is not recorded, so Kubernetes' defaults are assumed; if it has "
            "one, windows and policies are not those of the cluster: import again, into a new "
            "store, with its manifest or --hpa-events",
        ),
    ),
    Rule(
        "owner_assumed",
        60,
        _C("membership").is_in(["owner", "both"]),
        (
            pl.when(_C("membership") == "owner")
            .then(pl.lit("the selector of its scale is not recorded"))
            .otherwise(pl.lit("the selector of its scale is recorded at times only")),
            "; the target's own pods are taken instead: record the selector",
        ),
    ),
    Rule(
        "unmatched_pods",
        60,
        _C("unmatched_pods") > UNMATCHED_SHARE * _C("pods"),
        (
            "its selector does not match ",
            _C("unmatched_pods"),
            " of the target's ",
            _pods("pods"),
            ", so they do not count: check the recorded labels and selector",
        ),
    ),
    Rule(
        "clock_skew",
        60,
        (_C("skewed_samples") > 0) & (_C("skew_max_ms") >= SKEW_MS),
        (
            _C("skewed_samples"),
            " samples were fetched before they were taken, by up to ",
            _time("skew_max_ms"),
            ": the clocks differ, so it is not known what a sync saw; set the clocks",
        ),
    ),
    Rule(
        "late",
        55,
        _C("late_samples") >= LATE_SHARE * _C("samples").clip(1),
        (
            _percent(_C("late_samples") / _C("samples")),
            " of the samples were fetched late, the latest after ",
            _time("lateness_max_ms"),
            "; the controller saw them then, or never",
        ),
    ),
    Rule(
        "stray",
        50,
        _C("stray_rows") > STRAY_SHARE * (_C("samples") + _C("stray_rows")),
        (
            _C("stray_rows"),
            " rows of usage belong to pods that the pods table does not hold; they are left out: "
            "record those pods",
        ),
    ),
    Rule(
        "never_sampled",
        50,
        (_C("samples") > 0) & (_C("never_sampled") > NEVER_SAMPLED_SHARE * _C("pods")),
        (
            _C("never_sampled"),
            " of its ",
            _pods("pods"),
            " ran without ever being sampled",
        ),
    ),
    Rule(
        "overtaken",
        40,
        _C("overtaken_samples") >= OVERTAKEN_SHARE * _C("samples").clip(1),
        (
            _C("overtaken_samples"),
            " samples were fetched before the pod's one before them: which one a sync saw hangs on "
            "the order of fetches",
        ),
    ),
    Rule(
        "slow_interval",
        35,
        _NEEDS_USAGE & (_C("interval_ms") > SLOW_INTERVAL_MS),
        (
            "its pods are sampled every ",
            _time("interval_ms"),
            "; what happens in between is not seen",
        ),
    ),
    Rule(
        "jitter",
        30,
        _NEEDS_USAGE & (_C("jitter_ms") >= JITTER_SHARE * _C("interval_ms")),
        (
            "the time between two samples is off by up to ",
            _time("jitter_ms"),
            " of ",
            _time("interval_ms"),
        ),
    ),
    Rule(
        "unready_again",
        25,
        _C("unready_again") > UNREADY_SHARE * _C("pods"),
        (
            _C("unready_again"),
            " of its ",
            _pods("pods"),
            " lost readiness again; while unready, upstream sets a pod's cpu aside",
        ),
    ),
    Rule(
        "recreated",
        10,
        _C("recreated") > 0,
        (
            _pods("recreated"),
            " took the name of an earlier one; only the uid tells them apart",
        ),
    ),
)


def problems(quality: pl.DataFrame) -> pl.DataFrame:
    """Return what is worth telling about each HPA, the weightiest first, then by key.

    Columns: cluster, namespace, hpa, rule, weight, why. An HPA of which there is nothing to tell is
    not in it. Raises nothing.
    """
    found = pl.concat([_apply(quality.lazy(), rule) for rule in RULES])
    order = ["weight", "rule", *KEY]
    return found.sort(order, descending=[True, *[False] * (len(order) - 1)]).collect()


def _apply(quality: pl.LazyFrame, rule: Rule) -> pl.LazyFrame:
    parts = [pl.lit(p) if isinstance(p, str) else p.cast(pl.String) for p in rule.why]
    return quality.filter(rule.when.fill_null(value=False)).select(
        *KEY,
        pl.lit(rule.name).alias("rule"),
        pl.lit(rule.weight, dtype=pl.Int64).alias("weight"),
        pl.concat_str(parts).alias("why"),
    )
