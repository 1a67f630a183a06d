"""The selectors that a controller has seen, and what it says of those that meet."""

from __future__ import annotations

import pytest

from hpabatch.engine.shards.selector_store import SelectorCheck, SelectorStore
from hpabatch.layout import codes
from hpabatch.model.selectors import parse_selector
from hpabatch.model.versions import PROFILES, Profile, override_gates

NEWEST, V36, V20 = PROFILES["1.38"], PROFILES["1.36"], PROFILES["1.20"]
WEB, API = {"app": "web", "tier": "front"}, {"app": "api", "tier": "front"}
FINE = SelectorCheck(codes.SELECTOR_OK)


def store_of(*names: str) -> SelectorStore:
    store = SelectorStore()
    for name in names:
        store.register("ns", name)
    return store


def check(
    store: SelectorStore, name: str, text: str = "app=web", profile: Profile = NEWEST
) -> SelectorCheck:
    """Check an HPA of namespace ns, whose pods are one web and one api."""
    return store.check("ns", name, text, [WEB, API], profile)


def test_an_hpa_alone_is_never_ambiguous() -> None:
    store = store_of("a")
    assert [check(store, "a") for _ in range(2)] == [FINE, FINE]


def test_the_first_to_sync_passes_once() -> None:
    """Selectors are known after a sync of their own; from then on the check is symmetric."""
    store = store_of("b", "a")
    text = "pods by selector app=web are controlled by more than one HPA (e.g. [ns/a ns/b])"
    assert check(store, "b") == FINE
    ambiguous = SelectorCheck(codes.SELECTOR_AMBIGUOUS, text)
    assert [check(store, name) for name in ("a", "b")] == [ambiguous, ambiguous]


def test_only_pods_that_both_select_matter() -> None:
    store = store_of("web", "api", "front")
    assert check(store, "web", "app=web") == FINE
    assert check(store, "api", "app=api") == FINE
    assert check(store, "front", "tier=front").code == codes.SELECTOR_AMBIGUOUS
    assert check(store, "web", "app=web").code == codes.SELECTOR_AMBIGUOUS
    assert check(store, "api", "app=nothing") == FINE
    assert store.check("ns", "web", "app=web", [], NEWEST) == FINE


def test_the_last_selector_of_an_hpa_counts() -> None:
    store = store_of("a", "b")
    check(store, "a", "app=api")
    check(store, "b", "app=web")
    assert store.controlling("ns", [API]) == ["ns/a"]
    check(store, "a", "app=web")
    assert store.controlling("ns", [API]) == []
    assert store.controlling("ns", [WEB]) == ["ns/a", "ns/b"]


def test_namespaces_do_not_meet() -> None:
    store = store_of("a")
    store.register("other", "a")
    assert check(store, "a") == FINE
    assert store.check("other", "a", "app=web", [WEB], NEWEST) == FINE
    assert store.controlling("other", [WEB]) == ["other/a"]
    assert store.controlling("nowhere", [WEB]) == []


def test_registering_again_keeps_the_selector() -> None:
    store = store_of("a")
    check(store, "a")
    store.register("ns", "a")
    assert store.controlling("ns", [WEB]) == ["ns/a"]


def test_a_deleted_hpa_is_in_nobodys_way() -> None:
    store = store_of("a", "b")
    check(store, "a")
    assert check(store, "b").code == codes.SELECTOR_AMBIGUOUS
    store.forget("ns", "a")
    store.forget("ns", "never there")
    store.forget("nowhere", "a")
    assert check(store, "b") == FINE
    store.register("ns", "a")  # anew: it matches nothing yet
    assert check(store, "b") == FINE


def test_an_hpa_that_is_gone() -> None:
    store = store_of("b")
    check(store, "b")
    assert not store.put("ns", "a", parse_selector("app=web"))
    gone = SelectorCheck(codes.SELECTOR_GONE, "HPA ns/a was deleted during reconciliation")
    assert check(store, "a") == gone
    # Before the optimised store the sync went on, and saw the others.
    older = override_gates(NEWEST, "HPAOptimizedSelectorStore=false")
    for profile in (older, V36):
        assert check(store, "a", "app=api", profile) == FINE
        assert check(store, "a", "app=web", profile) == FINE
    assert store.controlling("ns", [WEB]) == ["ns/b"]


def test_old_versions_do_not_look_at_other_hpas() -> None:
    store = store_of("a", "b")
    assert [check(store, name, profile=V20) for name in "abab"] == [FINE] * 4
    assert store.controlling("ns", [WEB]) == []


@pytest.mark.parametrize("profile", [NEWEST, V20])
def test_selectors_that_cannot_be_used(profile: Profile) -> None:
    store = store_of("a")
    assert check(store, "a", "", profile) == SelectorCheck(codes.SELECTOR_MISSING)
    found = check(store, "a", "app in (web", profile)
    error = "unable to parse requirement: found '', expected: ',' or ')'"
    assert found == SelectorCheck(codes.SELECTOR_INVALID, error)
    assert store.controlling("ns", [WEB]) == []


def test_the_words_are_the_versions() -> None:
    store = store_of("a", "b", "c")
    for name in ("a", "b", "c"):
        check(store, name, profile=V36)
    assert check(store, "a", profile=V36).error == (
        "pods by selector app=web are controlled by multiple HPAs: [ns/a ns/b ns/c]"
    )
    old = check(store, "a", "-k=v", V20).error
    assert old.startswith('unable to parse requirement: invalid label key "-k": ')
