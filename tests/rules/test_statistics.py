"""Sufficient statistics: weights, order, strays, and what a fleet's rows add up to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.rules.statistics import (
    PodStatistics,
    accumulate,
    accumulate_stray,
    no_pods,
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
