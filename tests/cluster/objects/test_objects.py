"""Tests of the decoders' shared parts."""

from __future__ import annotations

from hpabatch.cluster.objects.objects import Owner
from hpabatch.cluster.objects.pods import owner_text


def test_only_the_controller_is_the_owner() -> None:
    assert owner_text(None) is None
    assert owner_text([Owner("Watcher", "a"), Owner("Watcher", "b", False)]) is None
    assert owner_text([Owner("Watcher", "a"), Owner("Job", "b", True)]) == "Job/b"
