"""The columns of a capacity plan, with their definitions; docs/plan.md lists them from here."""

from __future__ import annotations

from typing import Final

HPA_COLUMNS: Final[dict[str, str]] = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "name of the HPA",
    "growth": "what the work is multiplied by",
    "start": "first tick of the runs",
    "hours": "length of the runs",
    "min_replicas": "minReplicas of today's spec",
    "max_replicas": "maxReplicas of today's spec",
    "cpu_milli": "what a pod requests; null: not known",
    "memory_milli": "what a pod requests, in milli-bytes; null: not known",
    "desired_p50": "unclamped: desired replicas, the median over time",
    "desired_p95": "unclamped: 95th percentile over time",
    "desired_p99": "unclamped: 99th percentile over time",
    "desired_max": "unclamped: the highest",
    "max_sufficient": (
        "the maxReplicas that would have sufficed: the largest size of the unclamped run, which it "
        "leaves as it is; null: there is none"
    ),
    "min_sufficient": (
        "the minReplicas that would have sufficed: the smallest size of the free run; null where "
        "max_with_min is"
    ),
    "max_with_min": (
        "the largest size of the free run: with min_sufficient the tightest bounds that never bind"
    ),
    "first_at_max": "today: the first tick that left the target at maxReplicas; null: none did",
    "at_max_minutes": "today: time at maxReplicas",
    "at_max_pct": "the same in percent of the run",
    "held_minutes": "today: of that, while the metrics asked for more",
    "saturated_minutes": "today: a pod was at a ceiling; null: no work of pods is known",
    "saturated_minutes_unclamped": "unclamped: the same",
    "pod_hours": "today: pods that are scheduled and there, as `simulate` counts them",
    "pod_hours_unclamped": "unclamped: the same",
    "cost": "today: what the run's requests cost; null: no prices, or requests not known",
    "cost_unclamped": "unclamped: the same",
    "month": "today: the same for 30 days",
    "month_unclamped": "unclamped: the same for 30 days",
    "currency": "of these; null: no prices",
    "outside_pct": "unclamped: steps in which a pod used more or less than recorded",
    "min_outside_pct": "free: the same; min_sufficient is worth the less the higher this is",
    "censored_pct": "work that is only a lower bound, because pods were at their ceiling",
    "usable": "nothing known speaks against the plan of this HPA",
    "why_not": "if not, why",
}

TOTAL_COLUMNS: Final[dict[str, str]] = {
    "growth": "what the work is multiplied by",
    "scope": "fleet, cluster or namespace",
    "cluster": "which cluster; null: all",
    "namespace": "which namespace; null: all",
    "bounds": "today: minReplicas and maxReplicas as they are; unclamped: without maxReplicas",
    "covers": "all: every HPA that could be simulated; usable: those whose plan is usable",
    "resource": "pods, cores, gib, money; limit_cores, limit_gib where a quota is about limits",
    "unit": "pods, cores, GiB, or the currency",
    "hpas": "HPAs in this row: those of `covers` whose amount is known",
    "of": "HPAs of the scope, those that could not be simulated included",
    "p50": "the median over time of the sum over these HPAs",
    "p95": "95th percentile over time of the sum",
    "p99": "99th percentile over time of the sum",
    "max": "the highest sum",
    "sum_of_peaks": "what adding up each HPA's own peak would have said instead",
    "run_total": "pod-hours, core-hours, GiB-hours or money of the runs",
    "month_total": "the same for 30 days",
    "quota": "the tightest limit of the namespace's quotas; null: none",
    "quota_name": "the quota it is of, and its key",
    "first_exceeded": "the first instant whose sum is above it; null: none is",
    "exceeded_minutes": "time above it; null: no quota, or no amount is known",
    "exceeded_pct": "the same in percent",
    "lowest_headroom": "the quota less the highest sum: below 0 it does not fit",
}
