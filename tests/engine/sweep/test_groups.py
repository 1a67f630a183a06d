"""Groups: who shares a setting, and what is wrong with the others."""

from __future__ import annotations

import json

import pytest

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.sweep.groups import Grouping, units_of
from tests.model.settings_made import CPU, spec

_PERIODS = (SpecPeriod(0, 1, spec(CPU)),)


def candidate(namespace: str, name: str, cluster: str = "prod", **labels: str) -> Candidate:
    return Candidate(cluster, namespace, name, _PERIODS, json.dumps(labels))


FLEET = (
    candidate("batch", "etl", tier="batch"),
    candidate("shop", "cart-api", tier="web", team="a"),
    candidate("shop", "web", tier="web"),
    candidate("shop", "worker"),
    candidate("shop", "web", "test", tier="web"),
)


def units(*groups: str) -> dict[str, tuple[int, ...]]:
    found = units_of(groups, FLEET)
    assert found.complaints == ()
    taken = sorted(member for unit in found.units for member in unit.members)
    assert sorted((*taken, *found.left_out)) == list(range(len(FLEET)))
    return {unit.name: unit.members for unit in found.units}


def complaints(*groups: str) -> tuple[str, ...]:
    return units_of(groups, FLEET).complaints


def test_without_groups_each_has_its_own() -> None:
    assert units() == {
        "prod/batch/etl": (0,), "prod/shop/cart-api": (1,), "prod/shop/web": (2,),
        "prod/shop/worker": (3,), "test/shop/web": (4,),
    }  # fmt: skip
    assert units_of([], []) == Grouping(())


def test_labels() -> None:
    assert units("label:tier=web") == {"label:tier=web": (1, 2, 4)}
    assert units("label:tier") == {"label:tier=batch": (0,), "label:tier=web": (1, 2, 4)}
    assert units("label:tier=web,!team") == {"label:tier=web,!team": (2, 4)}
    assert units("label:tier in (web, batch)") == {"label:tier in (web, batch)": (0, 1, 2, 4)}
    assert units("label:!tier") == {"label:!tier": (3,)}


def test_namespaces_whatever_the_cluster() -> None:
    assert units("namespace:shop") == {"namespace:shop": (1, 2, 3, 4)}
    assert units("namespace") == {"namespace:batch": (0,), "namespace:shop": (1, 2, 3, 4)}
    assert units("namespace:*") == {"namespace:*": (0, 1, 2, 3, 4)}


def test_patterns_and_the_fleet() -> None:
    assert units("pattern:shop/*-api") == {"pattern:shop/*-api": (1,)}
    assert units("pattern:test/*/*", "pattern:prod/shop/web") == {
        "pattern:test/*/*": (4,), "pattern:prod/shop/web": (2,),
    }  # fmt: skip
    assert units("pattern:shop/web,batch/*") == {"pattern:shop/web,batch/*": (0, 2, 4)}
    assert units("fleet") == {"fleet": (0, 1, 2, 3, 4)}


SENTENCES = {
    "label:tier=wob": "it is for none of the 5 HPAs; their labels are team, tier",
    "label:a b": "'a b' is not a label selector: unable to parse requirement: found 'b', expected",
    "label": "which label? write label:tier=web, or label:tier for a group per value",
    "label:": "nothing stands after the colon; write label:tier=web",
    "namespace:shup": "it is for none of the 5 HPAs; did you mean shop? (namespaces: batch, shop)",
    "pattern": "which HPAs? write pattern:shop/*-api",
    "pattern:web": "'web' is not namespace/hpa or cluster/namespace/hpa, such as shop/web or s",
    "pattern:shop/Web": "expected lower-case letters, digits, - and . in the nam",
    "pattern:batch/etl,shop/x*": "shop/x* is for none of the 5 HPAs, such as batch/etl",
    "pattern:shop/x*": "shop/x* is for none of the 5 HPAs, such as batch/etl",
    "fleet:all": "fleet is all HPAs; nothing stands after it",
    "labels:tier": "'labels' is no kind of group; did you mean label? (label:tier=web, namespace:s",
    "": "'' is no kind of group (label:tier=web, namespace:shop, pattern:shop/*-api, fleet)",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    (found,) = complaints(text)
    assert found.startswith(f"--group {text}: {SENTENCES[text]}")


def test_all_that_is_wrong_is_told() -> None:
    found = complaints("fleet", "label:tier=web", "namespace:shup", "label:tier=web")
    assert found == (
        "--group namespace:shup: it is for none of the 5 HPAs; did you mean shop? (namespaces: "
        "batch, shop)",
        "the group label:tier=web is there 2 times; give each another name",
        "shop/cart-api, shop/web, shop/web would be in two groups, fleet and label:tier=web; an "
        "HPA gets one setting, so narrow one of them",
    )
    (found_twice,) = complaints("fleet", "namespace:shop")
    assert found_twice.startswith("shop/cart-api, shop/web, shop/worker and 1 more would be in two")
