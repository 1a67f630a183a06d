"""Tests of the decoders' shared parts."""

from __future__ import annotations

import pytest

from hpabatch.cluster.objects import hpas
from hpabatch.cluster.objects.hpas import HpaDecoder
from hpabatch.cluster.objects.objects import Owner, Shared
from hpabatch.cluster.objects.pods import owner_text
from tests.cluster.wires import merged, packed, wire


def test_shared_values_exist_once_and_are_bounded() -> None:
    made: list[int] = []

    def make(key: int) -> list[int]:
        made.append(key)
        return [key]

    shared = Shared(make, limit=3)
    assert shared.get(1) is shared.get(1)
    for key in range(10):
        shared.get(key)
        assert len(shared) <= 3
    assert made == [1, 0, *range(2, 10)]


def test_what_cannot_be_made_is_not_kept() -> None:
    shared: Shared[str, int] = Shared(int)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            shared.get("x")
    assert len(shared) == 0


def test_only_the_controller_is_the_owner() -> None:
    assert owner_text(None) is None
    assert owner_text([Owner("Watcher", "a"), Owner("Watcher", "b", False)]) is None
    assert owner_text([Owner("Watcher", "a"), Owner("Job", "b", True)]) == "Job/b"


def test_what_is_kept_of_hpas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpas, "_KNOWN_LIMIT", 4)
    decoder = HpaDecoder()
    for number in range(20):
        name = f"web-{number}"
        decoder.decode(packed(merged(wire("hpa_v2"), {"metadata": {"name": name}})))
        assert len(decoder._known) <= 4
