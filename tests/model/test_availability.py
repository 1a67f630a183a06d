"""Needs of disruption budgets and topology spread, against an eviction done by hand."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from hpabatch.model.availability import (
    ALONE,
    HOSTNAME,
    Availability,
    Budget,
    Need,
    Spread,
    availability_of,
    with_known_domains,
)

ZONE = "topology.kubernetes.io/zone"


def scaled(text: str, pods: int) -> int:
    """Return a limit in pods (GetScaledValueFromIntOrPercent, rounded up)."""
    return ceil(Fraction(int(text[:-1]) * pods, 100)) if text.endswith("%") else int(text)


def evictable(budget: Budget, pods: int) -> int:
    """Return how many of so many healthy pods may be evicted (disruption.go)."""
    if budget.min_available:
        return max(0, pods - scaled(budget.min_available, pods))
    return min(pods, scaled(budget.max_unavailable, pods))


@pytest.mark.parametrize("text", ["0", "1", "2", "7", "1%", "33%", "34%", "50%", "66%", "67%",
                                  "75%", "90%", "99%"])  # fmt: skip
@pytest.mark.parametrize("field", ["min_available", "max_unavailable"])
def test_the_need_is_the_least_that_lets_one_go_and_keeps_one(field: str, text: str) -> None:
    budget = Budget("web", **{field: text})
    need = budget.need()
    if (field, text) == ("max_unavailable", "0"):
        assert need is None
        assert not any(evictable(budget, pods) for pods in range(1, 200))
        return
    assert need is not None
    by_hand = next(
        pods
        for pods in range(1, 200)
        if evictable(budget, pods) >= 1 and (pods - evictable(budget, pods) >= 1 or text == "0")
    )
    assert need.pods == by_hand
    # No fewer pods than that, and not more often than any: also all larger numbers do.
    if text != "0":
        assert all(1 <= evictable(budget, pods) < pods for pods in range(need.pods, 300))


def test_the_reason_of_a_budget() -> None:
    assert Budget("web", min_available="2").need() == Need(
        3, "PodDisruptionBudget web (minAvailable 2) lets a pod go only of 3 or more"
    )
    assert Budget("web", max_unavailable="50%").need() == Need(
        2, "PodDisruptionBudget web (maxUnavailable 50%) may take all of fewer than 2 pods"
    )


@pytest.mark.parametrize("text", ["100%", "200%", "", "two", "-1", "5.5%", "٣"])
def test_limits_that_no_number_of_pods_meets_and_what_is_no_limit(text: str) -> None:
    assert Budget("web", min_available=text).need() is None


@pytest.mark.parametrize("text", ["0", "0%", "00"])
def test_a_budget_that_lets_no_pod_go_asks_for_no_number_of_pods(text: str) -> None:
    assert Budget("web", max_unavailable=text).need() is None


def test_needs_of_a_topology_spread() -> None:
    assert Spread(ZONE).need() is None
    assert Spread(ZONE, hard=False, domains=3).need() is None
    assert Spread(HOSTNAME, domains=40).need() is None
    assert Spread(HOSTNAME, min_domains=4, domains=40).need() == Need(
        4, "its pods are spread over kubernetes.io/hostname with minDomains 4"
    )
    assert Spread(ZONE, domains=3).need() == Need(
        3, "its pods are spread over the 3 domains of topology.kubernetes.io/zone"
    )


def test_the_largest_need_counts() -> None:
    assert Availability().need() == Need(ALONE, "of fewer than 2 pods none is left when one goes")
    known = Availability(
        (Budget("b", "4"), Budget("a", max_unavailable="1"), Budget("c", "100%")),
        (Spread(ZONE, domains=3), Spread(HOSTNAME, hard=False)),
    )
    assert known.need().pods == 5


def test_domains_that_are_not_told_are_the_known_ones() -> None:
    before = [Spread(ZONE, domains=3), Spread("rack")]
    told = [Spread(ZONE, min_domains=2), Spread(ZONE, domains=4), Spread("rack")]
    assert with_known_domains(told, before) == (
        Spread(ZONE, True, 2, 3), Spread(ZONE, domains=4), Spread("rack")
    )  # fmt: skip


def test_plain_values_and_back() -> None:
    known = Availability(
        (Budget("a", max_unavailable="50%"), Budget("b", "4")),
        (Spread(ZONE, domains=3), Spread(HOSTNAME, hard=False, min_domains=2)),
    )
    budgets, spreads = known.budgets_json(), known.spreads_json()
    assert budgets == [
        {"name": "a", "maxUnavailable": "50%"},
        {"name": "b", "minAvailable": "4"},
    ]
    assert spreads[1] == {
        "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2
    }  # fmt: skip
    assert availability_of(budgets, spreads) == known
    strange = [{"topologyKey": ZONE, "minDomains": "2", "domains": True}]
    assert availability_of([{}], strange) == Availability((Budget(""),), (Spread(ZONE),))
