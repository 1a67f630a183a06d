"""Sufficient statistics: weights, order, strays, and what a fleet's rows add up to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.rules.controller import controller_of
from hpabatch.rules.statistics import (
    PodStatistics,
    accumulate,
    accumulate_stray,
    collect_statistics,
    count_pods,
    no_pods,
)
from tests.rules.helpers import (
    Pod,
    hpa_spec,
    lane,
    pods_metric,
    resource,
    some,
    tick,
    usages,
)

GROUPS = [codes.GROUP_READY, codes.GROUP_UNREADY, codes.GROUP_MISSING, codes.GROUP_IGNORED]
milli = st.integers(-(2**62), 2**62)
cohorts = st.tuples(st.sampled_from(GROUPS), milli, milli, st.integers(0, 1))


def as_ints(statistics: PodStatistics) -> PodStatistics:
    return PodStatistics(*(int(value) for value in statistics))


def add(total: PodStatistics, *cohort: int, target: int = 60, weight: int = 1) -> PodStatistics:
    group, value, request, known = cohort
    return as_ints(accumulate(total, group, value, request, known, target, weight))


@given(cohorts, st.integers(0, 20), st.sampled_from([1, 60, 150]))
def test_weight_n_equals_n_times_weight_1(
    cohort: tuple[int, int, int, int], weight: int, target: int
) -> None:
    one_by_one = as_ints(no_pods())
    for _ in range(weight):
        one_by_one = add(one_by_one, *cohort, target=target)
    assert add(no_pods(), *cohort, target=target, weight=weight) == one_by_one


@given(st.lists(cohorts, max_size=8), st.lists(milli, max_size=3), st.randoms())
def test_the_order_of_pods_does_not_matter(
    pods: list[tuple[int, int, int, int]], strays: list[int], rng: random.Random
) -> None:
    def collect(entries: list[tuple[int, ...]]) -> PodStatistics:
        total = as_ints(no_pods())
        for entry in entries:
            if len(entry) == 1:
                total = as_ints(accumulate_stray(total, entry[0]))
            else:
                total = add(total, *entry)
        return total

    entries: list[tuple[int, ...]] = [*pods, *[(value,) for value in strays]]
    shuffled = list(entries)
    rng.shuffle(shuffled)
    total = collect(entries)
    assert collect(shuffled) == total
    counted = total.ready + total.unready + total.missing + total.ignored
    assert (counted, total.stray) == (len(pods), len(strays))


# ---- from a fleet --------------------------------------------------------------------------------


def collected(pods: list[Pod], strays: tuple[int, ...] = (), is_cpu: bool = True) -> PodStatistics:
    fleet = lane(hpa_spec(resource(60)), [tick(0, 3, pods, [usages(pods, strays)])]).fleet
    return as_ints(collect_statistics(fleet, 0, 0, is_cpu, 60, controller_of(fleet, 0)))


MIXED = [
    Pod(100, request=200),
    Pod(50, request=400, start_s=-10, transition_s=-5, sample_s=0, window_s=30),
    Pod(70, request=300, phase="Pending"),
    Pod(None, request=500),
    Pod(900, request=700, phase="Failed"),
    Pod(30, request=None, start_s=-100, transition_s=-90, sample_s=-1, window_s=30),
]


def test_a_fleet_row_per_pod_and_stray() -> None:
    total = collected(MIXED, strays=(11, 22))
    assert (total.ready, total.unready, total.missing, total.ignored) == (2, 2, 1, 1)
    assert (total.stray, total.stray_milli) == (2, 33)
    # The last pod's request is the number of the text that says that there is none.
    assert (total.usage_milli, total.request_milli) == (130, 200 + 1)
    assert (total.unready_request_milli, total.missing_request_milli) == (700, 500)
    assert (total.charge_milli, total.without_request) == (500, 1)


def test_a_stray_of_another_metric_has_no_sample_here() -> None:
    spec = hpa_spec(resource(60), pods_metric("1"))
    pods = some(1, 100)
    ticks = [tick(0, 3, pods, [usages(pods), usages(pods, [5])])]
    fleet = lane(spec, ticks).fleet
    controller = controller_of(fleet, 0)
    first = as_ints(collect_statistics(fleet, 0, 0, True, 60, controller))
    second = as_ints(collect_statistics(fleet, 0, 1, False, 60, controller))
    assert (first.stray, second.stray, second.stray_milli) == (0, 1, 5)


def test_counting_pods_for_totals() -> None:
    pods = [Pod(), Pod(ready="False"), Pod(deleting=True), Pod(phase="Pending"), Pod(ready=None)]
    fleet = lane(hpa_spec(resource(60)), [tick(0, 3, pods, [usages(pods, [1])])]).fleet
    known, ready = count_pods(fleet, 0)
    assert (int(known), int(ready)) == (5, 2)
