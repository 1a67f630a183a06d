"""Pods of a pass as columns, and what the metrics APIs say of them."""

from __future__ import annotations

import pytest

from hpabatch.cluster.objects.types import ContainerUsage, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.live.passes.columns import custom_samples, usage_samples

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
