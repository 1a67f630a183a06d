"""Tests of pod requests: both branches, their roundings, and upstream's errors."""

from __future__ import annotations

import pytest

from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import (
    ContainerRequests,
    PodRequest,
    RequestRules,
    effective_request,
    pod_request,
)


def _requests(**texts: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in texts.items()}


def _container(name: str, policy: str | None = None, **texts: str) -> ContainerRequests:
    return ContainerRequests(name, _requests(**texts), policy)


APP = _container("app", cpu="100m", memory="1Gi")
SIDE = _container("side", "Always", cpu="50m")
INIT = _container("init", cpu="400m")


def test_containers_and_sidecars_are_summed_and_init_containers_are_not() -> None:
    assert pod_request("p", [APP, APP], [SIDE, INIT]) == PodRequest(250)


def test_one_container() -> None:
    assert pod_request("p", [APP], [SIDE], container="side") == PodRequest(50)
    assert pod_request("p", [APP], [SIDE], container="app", resource="memory").milli == 2**30 * 1000
    missing = pod_request("p", [APP], [INIT], container="init")
    assert missing == PodRequest(0, "container init not found in Pod p")


def test_a_missing_request() -> None:
    assert pod_request("p", [APP], [SIDE], resource="memory").error == (
        "missing request for memory in container side of Pod p"
    )
    assert pod_request("p", [APP], [SIDE], resource="memory", container="app").error is None
    assert pod_request("p", []) == PodRequest(0)


def test_a_request_of_zero_is_legal() -> None:
    assert pod_request("p", [_container("a", cpu="0")]) == PodRequest(0)


def test_the_container_branch_rounds_each_and_wraps() -> None:
    small = _container("a", cpu="100u")
    assert pod_request("p", [small, small]) == PodRequest(2)
    vast = _container("a", cpu="9223372036854775807m")
    assert pod_request("p", [vast, vast]) == PodRequest(-2)


def test_the_pod_level_branch_rounds_once() -> None:
    small = _container("a", cpu="100u")
    assert pod_request("p", [small, small], pod_level=_requests(memory="1Gi")) == PodRequest(1)


def test_pod_level_replaces_the_containers_and_overhead_comes_on_top() -> None:
    level = _requests(cpu="2", memory="1Gi")
    answer = pod_request("p", [APP], [INIT], level, _requests(cpu="10m"))
    assert answer == PodRequest(2010)
    assert pod_request(
        "p", [APP], pod_level=level, rules=RequestRules(pod_level=False)
    ) == PodRequest(100)
    assert pod_request("p", [APP], pod_level=level, container="app") == PodRequest(100)


def test_pod_level_memory_alone_leaves_cpu_to_the_containers() -> None:
    level = _requests(memory="1Gi")
    bare = _container("bare")
    assert pod_request("p", [APP, bare], [], level) == PodRequest(100)
    assert pod_request("p", [bare], [], level).error == "missing pod-level request for cpu in Pod p"


@pytest.mark.parametrize(
    ("name", "counts"), [("hugepages-2Mi", True), ("cpu", True), ("nvidia.com/gpu", False)]
)
def test_which_pod_level_requests_count(name: str, counts: bool) -> None:
    level = {name: Quantity.parse("2")}
    answer = pod_request("p", [_container("a")], [], level, resource="memory")
    expected = "missing pod-level" if counts else "missing request"
    assert answer.error is not None
    assert answer.error.startswith(expected)


def test_unsupported_pod_level_entries_do_not_replace() -> None:
    gpu = {"nvidia.com/gpu": Quantity.parse("1")}
    app = ContainerRequests("a", {"nvidia.com/gpu": Quantity.parse("3")})
    level = {**gpu, "cpu": Quantity.parse("1")}
    assert pod_request("p", [app], [], level, resource="nvidia.com/gpu") == PodRequest(3000)


def test_the_largest_init_container_runs_beside_the_sidecars_before_it() -> None:
    def cpu(init: list[ContainerRequests]) -> str:
        return str(effective_request([APP], init, {}, {}, "cpu"))

    assert cpu([]) == "100m"
    assert cpu([INIT]) == "400m"
    assert cpu([SIDE, INIT]) == "450m"
    assert cpu([INIT, SIDE]) == "400m"
    assert cpu([SIDE]) == "150m"
    assert cpu([SIDE, _container("x")]) == "150m"
    assert effective_request([], [], {}, _requests(cpu="1"), "cpu") == Quantity.parse("1")
    assert effective_request([_container("x")], [], {}, {}, "cpu") is None
