"""Pods of a pass as columns, and what the metrics APIs say of them."""

from __future__ import annotations

import random

import pytest

from hpabatch.cluster.objects.types import ContainerUsage, PodObject, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.live.passes.pods import PodColumns, custom_samples, usage_samples
from hpabatch.model.requests import pod_request, request_rules
from hpabatch.model.selectors import Selector, parse_selector, selector_from_object
from hpabatch.model.versions import profile_for
from hpabatch.packing.texts import Texts, pod_flags
from tests.effort import effort
from tests.live.cases import NAMESPACES, World
from tests.live.documents import pod_object


@pytest.mark.parametrize("k8s", ["1.20", "1.37"])
@pytest.mark.parametrize("key", [("cpu", ""), ("memory", "app"), ("cpu", "side"), ("", "")])
def test_states_and_requests_of_random_pods(key: tuple[str, str], k8s: str) -> None:
    world, rules, texts = World(random.Random(1)), request_rules(profile_for(k8s)), Texts()
    for _ in range(effort(60)):
        world.draw_pod()
    pods = {at: pod_object(at[0], pod) for at, pod in world.pods.items()}
    columns = PodColumns(pods)
    assert columns.pods == [pods[at] for at in sorted(pods)]
    requests = columns.requests(*key, rules, texts)
    for slot, pod in enumerate(columns.pods):
        flags = pod_flags(
            pod.phase, pod.deletion_ms is not None, pod.started_ms is not None, pod.ready
        )
        state = (flags, pod.started_ms or 0, pod.transition_ms or 0)
        assert tuple(columns.states[slot].tolist()) == state
        known, value = requests[slot]
        said = value if known else texts[value]
        assert (known, said) == _expected_request(pod, key, k8s)


def _expected_request(pod: PodObject, key: tuple[str, str], k8s: str) -> tuple[int, int | str]:
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
        rules=request_rules(profile_for(k8s)),
    )
    return (1, found.milli) if found.error is None else (0, found.error)


KEYS = ("app", "tier", "level")
VALUES = ("a", "b", "1", "7", "")


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


@pytest.mark.parametrize("seed", range(effort(12)))
def test_the_pods_that_a_selector_matches(seed: int) -> None:
    rng, world = random.Random(seed), World(random.Random(seed))
    pods = {}
    for k in range(20):
        namespace = rng.choice(NAMESPACES)
        labels = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6}
        pods[namespace, f"p{k}"] = pod_object(
            namespace, world.new_pod(f"p{k}") | {"labels": labels}
        )
    columns = PodColumns(pods)
    for _ in range(60):
        selector, namespace = random_selector(rng), rng.choice(NAMESPACES)
        assert columns.matching(namespace, selector).tolist() == [
            slot for slot, pod in enumerate(columns.pods)
            if pod.namespace == namespace and selector.matches(pod.labels)
        ]  # fmt: skip
    assert columns.matching("shop", None).size == 0


# ---- samples -------------------------------------------------------------------------------------


def usage(pod: str, *containers: tuple[str, int | None, int | None]) -> UsageSample:
    return UsageSample("shop", pod, 1000, None, tuple(ContainerUsage(*c) for c in containers))


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
    found = usage_samples([usage("a", *containers)], *key)
    assert found == {("shop", "a"): None if expected is None else (expected, 1000, 0)}


def test_of_several_samples_of_a_pod_the_last_value_counts() -> None:
    items = [usage("a", ("app", 1, 1)), usage("a", ("app", 2, 1)), usage("a", ("app", None, 1))]
    assert usage_samples(items, "cpu", "") == {("shop", "a"): (2, 1000, 0)}
    custom = [PodSample("a", 1, None, 5), PodSample("a", 2, 0, 6), PodSample("b", 3, None, 7)]
    assert custom_samples(custom, "shop") == {
        ("shop", "a"): (6, 2, 0), ("shop", "b"): (7, 3, CUSTOM_WINDOW_MS),
    }  # fmt: skip
