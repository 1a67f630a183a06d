"""Tests of the decoders' shared parts."""

from __future__ import annotations

import pytest

from hpabatch.cluster.objects import hpas
from hpabatch.cluster.objects.hpas import HpaDecoder
from hpabatch.cluster.objects.objects import Owner
from hpabatch.cluster.objects.pods import owner_text
from tests.cluster.wires import merged, packed, wire


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
