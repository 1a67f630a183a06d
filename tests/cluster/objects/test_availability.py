"""Disruption budgets, topology spread and domains of nodes, from their objects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hpabatch.cluster.objects.decoders import (
    Domains,
    availability_of_pods,
    read_budget,
    read_node_labels,
    read_spreads,
)
from hpabatch.model.availability import HOSTNAME, Availability, Budget, Spread

ZONE = "topology.kubernetes.io/zone"


def budget(version: str = "policy/v1", **spec: Any) -> bytes:
    document = {
        "apiVersion": version,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }
    return json.dumps(document).encode()


def test_a_budget_is_of_the_pods_that_its_selector_matches() -> None:
    found = read_budget(budget(selector={"matchLabels": {"app": "web"}}))
    assert found.is_of("shop", {"app": "web", "tier": "front"})
    assert not found.is_of("shop", {"app": "api"})
    assert not found.is_of("other", {"app": "web"})


@pytest.mark.parametrize(
    ("version", "selector", "all_pods"),
    [
        ("policy/v1", {}, True),
        ("policy/v1beta1", {}, False),
        ("policy/v1", None, False),
        ("policy/v1", {"matchExpressions": [{"key": "a", "operator": "Near"}]}, False),
    ],
)
def test_selectors_of_all_and_of_no_pods(version: str, selector: Any, all_pods: bool) -> None:
    found = read_budget(budget(version, selector=selector))
    assert found.is_of("shop", {"app": "web"}) == all_pods


def test_constraints_of_a_pod_template() -> None:
    constraints = [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
        None,
        {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
    ]
    raw = json.dumps({"containers": [], "topologySpreadConstraints": constraints}).encode()
    assert read_spreads(raw) == (Spread(ZONE), Spread(HOSTNAME, False), Spread(ZONE, True, 3))
    assert read_spreads(b"") == read_spreads(b"null") == read_spreads(b"{}") == ()
    with pytest.raises(msgspec.DecodeError):
        read_spreads(b'{"topologySpreadConstraints": 1}')


def test_domains_are_counted_over_all_nodes() -> None:
    domains = Domains()
    for zone in ("a", "b", "a"):
        node = {"metadata": {"name": "n", "labels": {ZONE: zone}}}
        domains.add(read_node_labels(json.dumps(node).encode()))
    domains.add(read_node_labels(b"{}"))
    found = availability_of_pods(
        "shop",
        {"app": "web"},
        [Spread(ZONE), Spread("rack")],
        [read_budget(budget(minAvailable=1, selector={})), read_budget(budget(minAvailable=2))],
        domains,
    )
    assert found == Availability((Budget("web", "1"),), (Spread(ZONE, domains=2), Spread("rack")))
