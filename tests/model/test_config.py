"""Controller flags and version profiles."""

from __future__ import annotations

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.config import PROFILES, ControllerFlags, profile_for


def test_flags_have_upstreams_defaults() -> None:
    flags = ControllerFlags()
    assert flags.tolerance == 0.1
    assert flags.cpu_initialization_period_ms == 300_000
    assert flags.initial_readiness_delay_ms == 30_000
    assert flags.downscale_stabilization_ms == 300_000
    assert flags.sync_period_ms == 15_000


@pytest.mark.parametrize("version", ["1.38", "v1.38", "1.38.2", "v1.38.0"])
def test_a_version_finds_its_profile(version: str) -> None:
    assert profile_for(version) is PROFILES["1.38"]


@pytest.mark.parametrize("version", ["", "1", "1.99", "1.38.x", "1.38.1.1", "latest"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match="known: "):
        profile_for(version)
