"""Tests of the pods that a selector matches, kept up to date, against a double loop."""

from __future__ import annotations

import random

import pytest

from hpabatch.live.passes.selections import Selections
from hpabatch.model.selectors import Selector, parse_selector, selector_from_object
from tests.effort import effort

KEYS = ("app", "tier", "level")
VALUES = ("a", "b", "1", "7", "")
NAMESPACES = ("blue", "shop")


def random_selector(rng: random.Random) -> Selector:
    if rng.random() < 0.05:
        return selector_from_object(None)
    parts = []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        key, value = rng.choice(KEYS), rng.choice(VALUES)
        other = rng.choice(VALUES)
        forms = [f"{key}={value}", f"{key}=={value}", f"{key}!={value}", key, f"!{key}"]
        forms += [f"{key} in ({value},{other})", f"{key} notin ({value},{other})"]
        forms += [f"{key}>3", f"{key}<5"]
        parts.append(rng.choice(forms))
    return parse_selector(",".join(parts))


def random_labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6}


class Naive:
    def __init__(self) -> None:
        self.pods: dict[int, tuple[str, dict[str, str]]] = {}
        self.selectors: dict[str, tuple[str, Selector]] = {}

    def members(self, owner: str) -> set[int]:
        if owner not in self.selectors:
            return set()
        namespace, selector = self.selectors[owner]
        return self.matching(namespace, selector)

    def matching(self, namespace: str, selector: Selector) -> set[int]:
        return {
            slot
            for slot, (own, labels) in self.pods.items()
            if own == namespace and selector.matches(labels)
        }


def check(found: Selections, naive: Naive, rng: random.Random) -> None:
    owners: dict[int, set[str]] = {slot: set() for slot in naive.pods}
    for owner in naive.selectors:
        assert found.members(owner) == naive.members(owner)
        for slot in naive.members(owner):
            owners[slot].add(owner)
    for slot, expected in owners.items():
        assert found.owners(slot) == expected
    assert found.sharing() == {o for own in owners.values() if len(own) > 1 for o in own}
    selector, namespace = random_selector(rng), rng.choice(NAMESPACES)
    assert found.matching(namespace, selector) == naive.matching(namespace, selector)
    assert found.slots_of(namespace) == naive.matching(namespace, parse_selector(""))


@pytest.mark.parametrize("seed", range(effort(12)))
def test_any_life_of_pods_and_selectors_equals_a_double_loop(seed: int) -> None:
    rng, found, naive = random.Random(seed), Selections(), Naive()
    names = [f"owner-{k}" for k in range(6)]
    for _ in range(120):
        before = {owner: naive.members(owner) for owner in names}
        draw = rng.random()
        if draw < 0.5:
            slot, namespace, labels = rng.randint(0, 12), rng.choice(NAMESPACES), random_labels(rng)
            naive.pods[slot] = (namespace, labels)
            found.put_pod(slot, namespace, labels)
        elif draw < 0.65 and naive.pods:
            slot = rng.choice(list(naive.pods))
            del naive.pods[slot]
            found.remove_pod(slot)
        elif draw < 0.9:
            owner, namespace, selector = (
                rng.choice(names),
                rng.choice(NAMESPACES),
                random_selector(rng),
            )
            naive.selectors[owner] = (namespace, selector)
            found.put_selector(owner, namespace, selector)
        else:
            owner = rng.choice(names)
            naive.selectors.pop(owner, None)
            found.remove_selector(owner)
        check(found, naive, rng)
        changed = {owner for owner in names if naive.members(owner) != before[owner]}
        assert changed <= found.dirty
        if rng.random() < 0.5:
            found.dirty.clear()


def test_a_pod_that_replaces_another_in_its_slot_makes_its_owners_dirty() -> None:
    found = Selections()
    found.put_selector("web", "shop", parse_selector("app=web"))
    found.put_pod(3, "shop", {"app": "web"})
    found.dirty.clear()
    found.put_pod(3, "shop", {"app": "web", "more": "labels"})
    assert found.dirty == {"web"}


def test_what_has_gone_leaves_nothing_behind() -> None:
    found = Selections()
    for k in range(500):
        found.put_pod(k % 7, f"ns-{k}", {"app": f"web-{k}"})
        found.put_selector(f"own-{k}", f"ns-{k}", parse_selector(f"app=web-{k}"))
        found.put_selector(f"other-{k}", f"ns-{k}", parse_selector(f"app!=web-{k}"))
        found.remove_selector(f"own-{k}")
        found.remove_selector(f"other-{k}")
        found.remove_pod(k % 7)
    found.dirty.clear()
    tables = {name: getattr(found, name) for name in vars(found)}
    assert {name for name, table in tables.items() if table} == set()
