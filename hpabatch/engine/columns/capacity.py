"""Columns of a capacity plan."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, table

PLAN_HPAS: Final = table(
    "an HPA and growth",
    "`plan`; `hpas` in JSON",
    *KEY,
    """
    growth number: what the work is multiplied by
    start timestamp: first tick of the runs
    hours number: length of the runs
    min_replicas integer: minReplicas of today's spec
    max_replicas integer: maxReplicas of today's spec
    cpu_milli integer: what a pod requests; null: not known
    memory_milli integer: what a pod requests, in milli-bytes; null: not known
    desired_p50 integer: unclamped: desired replicas, the median over time
    desired_p95 integer: unclamped: 95th percentile over time
    desired_p99 integer: unclamped: 99th percentile over time
    desired_max integer: unclamped: the highest
    max_sufficient integer: the maxReplicas that would have sufficed: the largest size of the
        unclamped run, which it leaves as it is; null: there is none
    min_sufficient integer: the minReplicas that would have sufficed: the smallest size of the
        free run; null where max_with_min is
    max_with_min integer: the largest size of the free run: with min_sufficient the tightest
        bounds that never bind
    first_at_max timestamp: today: the first tick that left the target at maxReplicas; null:
        none did
    at_max_minutes number: today: time at maxReplicas
    at_max_pct number: the same in percent of the run
    held_minutes number: today: of that, while the metrics asked for more
    saturated_minutes number: today: a pod was at a ceiling; null: none is known
    saturated_minutes_unclamped number: unclamped: the same
    pod_hours number: today: pods that are scheduled and there, as `simulate` counts them
    pod_hours_unclamped number: unclamped: the same
    cost number: today: what the run's requests cost; null: no prices, or requests not known
    cost_unclamped number: unclamped: the same
    month number: today: the same for 30 days
    month_unclamped number: unclamped: the same for 30 days
    currency string: of these; null: no prices
    outside_pct number: unclamped: steps in which a pod used more or less than recorded
    min_outside_pct number: free: the same; min_sufficient is worth the less the higher this is
    censored_pct number: work that is only a lower bound, because pods were at their ceiling
    usable boolean: nothing known speaks against the plan of this HPA
    why_not string: if not, why
    """,
)

PLAN_TOTALS: Final = table(
    "a sum over HPAs",
    "`plan --totals`; `totals` in JSON",
    """
    growth number: what the work is multiplied by
    scope string: fleet, cluster or namespace
    cluster string: which cluster; null: all
    namespace string: which namespace; null: all
    bounds string: today: minReplicas and maxReplicas as they are; unclamped: without
        maxReplicas
    covers string: all: every HPA that could be simulated; usable: those whose plan is usable
    resource string: pods, cores, gib, money; limit_cores, limit_gib where a quota is about
        limits
    unit string: pods, cores, GiB, or the currency
    hpas integer: HPAs in this row: those of `covers` whose amount is known
    of integer: HPAs of the scope, those that could not be simulated included
    p50 number: the median over time of the sum over these HPAs
    p95 number: 95th percentile over time of the sum
    p99 number: 99th percentile over time of the sum
    max number: the highest sum
    sum_of_peaks number: what adding up each HPA's own peak would have said instead
    run_total number: pod-hours, core-hours, GiB-hours or money of the runs
    month_total number: the same for 30 days
    quota number: the tightest limit of the namespace's quotas; null: none
    quota_name string: the quota it is of, and its key
    first_exceeded timestamp: the first instant whose sum is above it; null: none is
    exceeded_minutes number: time above it; null: no quota, or no amount is known
    exceeded_pct number: the same in percent
    lowest_headroom number: the quota less the highest sum: below 0 it does not fit
    """,
)
