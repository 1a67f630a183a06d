"""The policy sets that come with hpabatch."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import HPA, Behavior
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.settings.fields import DEFAULT, SHIPPED
from hpabatch.model.versions import PROFILES
from tests.model.settings_made import CPU, spec


def test_default_is_upstreams() -> None:
    assert DEFAULT.rules("scaleUp") == replace(DEFAULT_SCALE_UP, stabilization_window_seconds=None)
    assert DEFAULT.rules("scaleDown") == DEFAULT_SCALE_DOWN


def test_sets_are_valid_and_say_nothing_of_windows_and_tolerances() -> None:
    assert list(SHIPPED) == ["gentle", "default", "fast"]
    for name, found in SHIPPED.items():
        assert found.name == name
        behavior = Behavior(found.scale_up, found.scale_down)
        for profile in PROFILES.values():
            assert validate_hpa(HPA(name="x", spec=spec(CPU, behavior=behavior)), profile) == []
        for rules in (found.scale_up, found.scale_down):
            assert rules is not None
            assert rules.stabilization_window_seconds is None
            assert rules.tolerance is None


def _most_in_15_s(name: str, replicas: int) -> int:
    """Return how many pods a set lets come in one go."""
    rules = SHIPPED[name].scale_up
    assert rules is not None
    assert rules.policies is not None
    return max(
        p.value if p.type == "Pods" else replicas * p.value // 100
        for p in rules.policies
    )  # fmt: skip


def test_the_sets_are_in_order_of_speed() -> None:
    for replicas in (1, 2, 5, 10, 50, 1000):
        steps = [_most_in_15_s(name, replicas) for name in SHIPPED]
        assert steps == sorted(set(steps)), replicas
