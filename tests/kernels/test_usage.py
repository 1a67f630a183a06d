"""Container samples to pod samples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.kernels.usage import sum_containers

containers = st.lists(st.tuples(st.booleans(), st.integers(-(2**40), 2**40)), max_size=4)


def summed(pods: list[list[tuple[bool, int]]]) -> tuple[list[int], list[int]]:
    first = np.cumsum([0, *[len(pod) for pod in pods]]).astype(np.int64)
    known = np.array([k for pod in pods for k, _ in pod], np.int8)
    values = np.array([v for pod in pods for _, v in pod], np.int64)
    present = np.full(len(pods), -91, np.int8)
    total = np.full(len(pods), -91, np.int64)
    sum_containers(first, known, values, present, total)
    return present.tolist(), total.tolist()


def test_each_pod_has_its_own_containers() -> None:
    pods = [[(True, 5), (True, 7)], [], [(True, 1), (False, 9)], [(True, 3)]]
    present, total = summed(pods)
    assert present == [1, 0, 0, 1]
    assert [total[0], total[3]] == [12, 3]


@given(st.lists(containers, max_size=6))
def test_a_pod_counts_if_all_its_containers_do(pods: list[list[tuple[bool, int]]]) -> None:
    present, total = summed(pods)
    whole = [bool(pod) and all(known for known, _ in pod) for pod in pods]
    assert present == [int(w) for w in whole]
    for is_whole, pod, sum_of in zip(whole, pods, total, strict=True):
        assert not is_whole or sum_of == sum(value for _, value in pod)
