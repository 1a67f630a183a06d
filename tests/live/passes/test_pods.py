"""Pods as columns in place, and what the metrics APIs say of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hpabatch.cluster.objects.types import ContainerUsage, PodKey, PodObject, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.live.passes.pods import PodTable, Samples, fill_custom, fill_usage
from hpabatch.model.requests import pod_request, request_rules
from hpabatch.model.versions import profile_for
from hpabatch.packing.texts import Texts, pod_flags
from tests.effort import effort
from tests.live.cases import NAMESPACES, World
from tests.live.documents import pod_object

KEYS = [("cpu", ""), ("memory", "app"), ("cpu", "side"), ("", "")]


def table(k8s: str = "1.37") -> PodTable:
    return PodTable(request_rules(profile_for(k8s)), Texts())


def expected_request(pods: PodTable, pod: PodObject, key: tuple[str, str]) -> tuple[int, int | str]:
    if not key[0]:
        return 1, 0
    template = pod.template
    found = pod_request(
        pod.name,
        [c.requests for c in template.containers],
        [c.requests for c in template.init_containers],
        template.pod_level,
        template.overhead,
        container=key[1],
        resource=key[0],
        rules=pods.rules,
    )
    return (1, found.milli) if found.error is None else (0, found.error)


def check(pods: PodTable, known: dict[PodKey, PodObject], keys: list[tuple[str, str]]) -> None:
    assert len(pods) == len(known)
    slots = [pods.slot(*key) for key in known]
    assert len(set(slots)) == len(known)
    joined, begin = pods.requests(keys)
    for (key, pod), slot in zip(known.items(), slots, strict=True):
        assert slot is not None
        assert pods.names[slot] == key[1]
        assert pods.labels(slot) == pod.labels
        flags = pod_flags(
            pod.phase, pod.deletion_ms is not None, pod.started_ms is not None, pod.ready
        )
        state = (flags, pod.started_ms or 0, pod.transition_ms or 0)
        assert tuple(pods.states[slot].tolist()) == state
        for of in keys:
            row = joined[begin[of] + slot]
            said = row.milli if row.known else pods.texts[int(row.milli)]
            assert (row.known, said) == expected_request(pods, pod, of)
    for namespace in NAMESPACES:
        own = sorted((p for p in known.values() if p.namespace == namespace), key=lambda p: p.name)
        assert pods.pods_of(namespace) == own


@pytest.mark.parametrize("k8s", ["1.20", "1.37"])
@pytest.mark.parametrize("seed", range(effort(10)))
def test_a_life_of_pods_is_what_it_is_at_its_end(seed: int, k8s: str) -> None:
    world, pods = World(random.Random(seed)), table(k8s)
    known: dict[PodKey, PodObject] = {}
    rng = world.rng
    for _ in range(60):
        for _ in range(rng.randint(0, 6)):
            (world.draw_pod if rng.random() < 0.5 else world.draw_pod_change)()
        for change, _ in world.take():
            key = (change.key[0], change.key[1])
            if isinstance(change.thing, PodObject):
                known[key] = change.thing
                pods.put(change.thing)
            else:
                known.pop(key, None)
                pods.remove(*key)
        if rng.random() < 0.2:
            pods.retell(Texts())
        check(pods, known, rng.sample(KEYS, rng.randint(1, len(KEYS))))


def test_requests_are_updated_where_the_kernels_read_them() -> None:
    world, pods = World(random.Random(1)), table()
    pod = world.new_pod("p") | {"containers": [{"name": "app", "requests": {"cpu": "100m"}}]}
    pod = {k: v for k, v in pod.items() if k not in ("init_containers", "pod_requests")}
    pods.put(pod_object("shop", pod))
    joined, begin = pods.requests([("cpu", "")])
    slot = pods.slot("shop", "p")
    assert slot is not None
    assert joined[begin["cpu", ""] + slot].tolist() == (1, 100)
    pod["containers"] = [{"name": "app", "requests": {"cpu": "300m"}}]
    pods.put(pod_object("shop", pod))
    assert joined[begin["cpu", ""] + slot].tolist() == (1, 300)
    pod["containers"] = [{"name": "app"}]
    pods.put(pod_object("shop", pod))
    known, text = joined[begin["cpu", ""] + slot].tolist()
    assert (known, pods.texts[text]) == (0, "missing request for cpu in container app of Pod p")


def test_the_table_grows_and_keeps_everything() -> None:
    world, pods = World(random.Random(2)), table()
    known = {}
    for k in range(1500):
        thing = pod_object("shop", world.new_pod(f"p-{k}"))
        known["shop", thing.name] = thing
        pods.put(thing)
        if k % 400 == 0:
            pods.requests(KEYS)
    assert pods.room == 2048
    check(pods, known, KEYS)
    for k in range(1500):
        pods.remove("shop", f"p-{k}")
    assert len(pods) == 0
    check(pods, {}, KEYS)


def test_removing_a_pod_that_is_not_there_does_nothing() -> None:
    pods = table()
    pods.remove("shop", "nobody")
    assert len(pods) == 0
    assert pods.slot("shop", "nobody") is None


# ---- samples -------------------------------------------------------------------------------------


def two_pods() -> PodTable:
    world, pods = World(random.Random(3)), table()
    for name in ("a", "b"):
        pods.put(pod_object("shop", world.new_pod(name)))
    return pods


def usage(pod: str, *containers: tuple[str, int | None, int | None]) -> UsageSample:
    return UsageSample("shop", pod, 1000, None, tuple(ContainerUsage(*c) for c in containers))


def filled(item: UsageSample, key: tuple[str, str]) -> tuple[int, int | None, list[int]]:
    """Return (listed, value, slots that lack the container) of pod a."""
    pods = two_pods()
    column = Samples(pods.room)
    lacking, _ = fill_usage({key: column}, [item], pods)
    slot = pods.slot("shop", "a")
    assert slot is not None
    value = int(column.value_milli[slot]) if column.present[slot] else None
    return int(column.listed[slot]), value, lacking.get(key[1], [])


MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("containers", "key", "expected"),
    [
        ([("app", 5, 7)], ("cpu", ""), 5),
        ([("app", 5, 7), ("side", 6, None)], ("cpu", ""), 11),
        ([("app", 5, 7), ("side", 6, None)], ("memory", ""), None),
        ([("app", 5, 7), ("side", 6, None)], ("memory", "app"), 7),
        ([("app", 5, 7), ("side", 6, None)], ("memory", "side"), None),
        ([("app", 5, 7)], ("cpu", "side"), None),
        ([("app", 5, 7)], ("gpu", ""), None),
        ([], ("cpu", ""), None),
        # As Go's sums wrap.
        ([("app", MOST, 1), ("side", 1, 1)], ("cpu", ""), -(2**63)),
        ([("app", MOST, 1), ("side", MOST, 1), ("x", 3, 1)], ("cpu", ""), 1),
        ([("app", -(2**63), 1), ("side", -1, 1)], ("cpu", ""), MOST),
    ],
)
def test_the_usage_of_a_pod(
    containers: list[tuple[str, int | None, int | None]], key: tuple[str, str], expected: int | None
) -> None:
    listed, value, lacking = filled(usage("a", *containers), key)
    assert (listed, value) == (1, expected)
    assert bool(lacking) == (bool(key[1]) and key[1] not in [c[0] for c in containers])


def test_items_of_unknown_pods_are_counted_and_a_missing_window_is_none() -> None:
    pods = two_pods()
    column = Samples(pods.room)
    items = [usage("a", ("app", 1, 1)), usage("x", ("app", 1, 1))]
    assert fill_usage({("cpu", ""): column}, items, pods) == ({}, 1)
    slot = pods.slot("shop", "a")
    assert column.timing[slot].tolist() == (1000, 0)
    column.clear()
    assert not column.listed.any()
    assert not column.present.any()


def test_custom_metrics_have_a_window_and_the_last_of_several_counts() -> None:
    pods = two_pods()
    column = Samples(pods.room)
    items = [PodSample("a", 1, None, 5), PodSample("a", 2, 0, 6), PodSample("b", 3, None, 7)]
    strays = fill_custom(column, "shop", [*items, PodSample("x", 1, None, 5)], pods)
    a, b = (pods.slot("shop", name) or 0 for name in "ab")
    assert strays == 1
    assert column.value_milli[[a, b]].tolist() == [6, 7]
    assert column.timing[a].tolist() == (2, 0)
    assert column.timing[b].tolist() == (3, CUSTOM_WINDOW_MS)
    assert np.flatnonzero(column.listed).tolist() == sorted([a, b])
