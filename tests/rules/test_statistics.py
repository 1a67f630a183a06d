"""Sufficient statistics: weights, order, strays, and what a fleet's rows add up to."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import Fleet
from hpabatch.rules.controller import controller_of
from hpabatch.rules.statistics import (
    PodStatistics,
    accumulate,
    accumulate_stray,
    collect_statistics,
    count_pods,
    missing_pod_charge,
    no_pods,
    pod_group,
)
from tests.rules.helpers import (
    Pod,
    calculate,
    hpa_spec,
    lane,
    pods_metric,
    resource,
    some,
    tick,
    usages,
    wanted,
)

GROUPS = [codes.GROUP_READY, codes.GROUP_UNREADY, codes.GROUP_MISSING, codes.GROUP_IGNORED]
milli = st.integers(-(2**62), 2**62)
cohorts = st.tuples(st.sampled_from(GROUPS), milli, milli, st.integers(0, 1))


def as_ints(statistics: PodStatistics) -> PodStatistics:
    return PodStatistics(*(int(value) for value in statistics))


def add(total: PodStatistics, *cohort: int, target: int = 60, weight: int = 1) -> PodStatistics:
    group, value, request, known = cohort
    return as_ints(accumulate(total, group, value, request, known, target, weight))


def test_no_pods_are_all_zero() -> None:
    assert as_ints(no_pods()) == PodStatistics(*[0] * 12)


@pytest.mark.parametrize(
    ("request_milli", "target", "charge"),
    [(500, 150, 750), (500, 50, 500), (500, 100, 500), (333, 101, 336), (-333, 101, -336)],
)
def test_missing_pods_are_charged_their_request_or_target_percent_of_it(
    request_milli: int, target: int, charge: int
) -> None:
    assert missing_pod_charge(request_milli, target) == charge


def test_each_group_adds_to_its_own_sums() -> None:
    ready = add(no_pods(), codes.GROUP_READY, 300, 1000, 1)
    assert ready == as_ints(no_pods())._replace(ready=1, usage_milli=300, request_milli=1000)
    unready = add(no_pods(), codes.GROUP_UNREADY, 300, 1000, 1)
    assert unready == as_ints(no_pods())._replace(unready=1, unready_request_milli=1000)
    missing = add(no_pods(), codes.GROUP_MISSING, 300, 1000, 1, target=150)
    assert missing == as_ints(no_pods())._replace(
        missing=1, missing_request_milli=1000, charge_milli=1500
    )
    ignored = add(no_pods(), codes.GROUP_IGNORED, 300, 1000, 0)
    assert ignored == as_ints(no_pods())._replace(ignored=1, without_request=1)


def test_strays_have_no_group_and_no_request() -> None:
    total = as_ints(accumulate_stray(accumulate_stray(no_pods(), 7), 2**63 - 1))
    assert total == as_ints(no_pods())._replace(stray=2, stray_milli=-(2**63) + 6)


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


def test_other_resources_do_not_look_at_readiness() -> None:
    total = collected(MIXED, is_cpu=False)
    assert (total.ready, total.unready, total.missing, total.ignored) == (3, 1, 1, 1)


def test_plain_averages_do_not_look_at_requests() -> None:
    pods = some(2, 200, request=None) + some(1, None, request=0)
    for metric in (pods_metric("200m"), resource(average="200m")):
        assert wanted(metric, pods, 3) == 3
    assert calculate(resource(60), pods, 3)["code"] == codes.METRIC_NO_REQUEST


def test_a_stray_of_another_metric_has_no_sample_here() -> None:
    spec = hpa_spec(resource(60), pods_metric("1"))
    pods = some(1, 100)
    ticks = [tick(0, 3, pods, [usages(pods), usages(pods, [5])])]
    fleet = lane(spec, ticks).fleet
    controller = controller_of(fleet, 0)
    first = as_ints(collect_statistics(fleet, 0, 0, True, 60, controller))
    second = as_ints(collect_statistics(fleet, 0, 1, False, 60, controller))
    assert (first.stray, second.stray, second.stray_milli) == (0, 1, 5)


pod_strategy = st.builds(
    Pod,
    usage=st.one_of(st.none(), st.integers(0, 2000)),
    request=st.one_of(st.none(), st.integers(1, 2000)),
    phase=st.sampled_from(["Running", "Running", "Running", "Pending", "Failed", "Succeeded"]),
    ready=st.sampled_from(["True", "True", "False", "Unknown", None]),
    deleting=st.sampled_from([False, False, True]),
    start_s=st.sampled_from([None, -1000, -301, -300, -299, -10]),
    transition_s=st.sampled_from([-1000, -290, -280, -270, -30, -29, 0]),
    sample_s=st.sampled_from([-60, -1, 0]),
    window_s=st.sampled_from([0, 30]),
)


def regrouped(fleet: Fleet, pods: list[Pod], is_cpu: bool) -> PodStatistics:
    """Return the statistics by `pod_group` alone, without the shortcut for settled pods."""
    total, controller = as_ints(no_pods()), controller_of(fleet, 0)
    for row, pod in enumerate(pods):
        state = int(fleet.row_state[row])
        group = pod_group(fleet, state, row, is_cpu, int(fleet.ticks.now_ms[0]), controller)
        request = fleet.requests[state]
        assert request.known == (pod.request is not None)
        total = add(total, int(group), pod.usage or 0, int(request.milli), int(request.known))
    return total


@given(st.lists(pod_strategy, min_size=1, max_size=8), st.booleans())
def test_collecting_is_grouping_and_accumulating(pods: list[Pod], is_cpu: bool) -> None:
    metric = resource(60) if is_cpu else resource(60, name="memory")
    fleet = lane(hpa_spec(metric), [tick(0, 3, pods)]).fleet
    total = collect_statistics(fleet, 0, 0, is_cpu, 60, controller_of(fleet, 0))
    assert as_ints(total) == regrouped(fleet, pods, is_cpu)


def test_counting_pods_for_totals() -> None:
    pods = [Pod(), Pod(ready="False"), Pod(deleting=True), Pod(phase="Pending"), Pod(ready=None)]
    fleet = lane(hpa_spec(resource(60)), [tick(0, 3, pods, [usages(pods, [1])])]).fleet
    known, ready = count_pods(fleet, 0)
    assert (int(known), int(ready)) == (5, 2)
