"""Controller flags and version profiles."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.layout.switches import SCALE_TO_ZERO
from hpabatch.model.versions import PROFILES, ControllerFlags, Profile, profile_for


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


@pytest.mark.parametrize("version", ["1.36.2-gke.100", "v1.36.0+k3s1", " 1.36 "])
def test_what_distributions_add_does_not_matter(version: str) -> None:
    assert profile_for(version) is PROFILES["1.36"]


@pytest.mark.parametrize(
    ("version", "name"), [("1.21", "1.20"), ("1.31.4", "1.26"), ("1.34", "1.33"), ("1.99", "1.38")]
)
def test_a_version_without_a_profile_takes_the_nearest_older_one_and_says_so(
    version: str, name: str
) -> None:
    profile = profile_for(version)
    assert profile.name == name
    assert profile.notes.startswith("there is no profile of ")
    assert f"{name}'s rules were taken" in profile.notes


def test_1_34_has_the_retry_of_conflicts() -> None:
    assert profile_for("1.33").scale_conflict_retries == 0
    assert profile_for("1.34").scale_conflict_retries == 5
    assert "with the retry of conflicts" in profile_for("1.34").notes


@pytest.mark.parametrize("version", ["1.19", "1.2", "v1.0.3"])
def test_older_versions_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match=r"older than 1\.20"):
        profile_for(version)


@pytest.mark.parametrize("version", ["", "1", "2.38", "1.38.x", "1.38.1.1", "latest", "1.3838"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="not a Kubernetes version such as"):
        profile_for(version)


def test_feature_gates_override_a_profile() -> None:
    profile = profile_for("1.36", "HPAScaleToZero=true, HPAConfigurableTolerance=False,")
    assert (profile.gate_scale_to_zero, profile.gate_configurable_tolerance) == (True, False)
    assert profile.gate_pod_level_resources is PROFILES["1.36"].gate_pod_level_resources
    assert profile.switches() == PROFILES["1.36"].switches() | SCALE_TO_ZERO


@pytest.mark.parametrize("gates", ["HPAScaleToZero", "HPAScaleToZero=1", "Odd=true", "=true"])
def test_what_is_no_gate_is_refused(gates: str) -> None:
    with pytest.raises(UsageError, match=r"--feature-gates .*expected GATE=true"):
        profile_for("1.36", gates)


@pytest.mark.parametrize(
    ("version", "gate"), [("1.32", "HPAConfigurableTolerance"), ("1.36", "HPAGeneration")]
)
def test_a_gate_that_a_version_does_not_have_yet_is_refused(version: str, gate: str) -> None:
    with pytest.raises(UsageError, match=rf"Kubernetes {version} has no such gate"):
        profile_for(version, f"{gate}=true")


def test_every_newer_profile_has_what_older_ones_have() -> None:
    """A switch is named by what newer versions do, so none is ever taken back."""
    bits = [profile.switches() for profile in PROFILES.values()]
    for older, newer in pairwise(bits):
        assert older & ~newer == 0
    assert bits[0] == 0


def test_the_documentation_shows_every_switch_of_every_profile() -> None:
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()
    rows = {
        cells[1].strip(" `"): [cell.strip() for cell in cells[2 : 2 + len(PROFILES)]]
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("| `"))
    }
    switches = [f.name for f in fields(Profile)][4:]  # after what names and proves a profile
    assert set(rows) == set(switches)
    for name, marks in rows.items():
        shown = [bool(getattr(profile, name)) for profile in PROFILES.values()]
        assert [mark == "x" for mark in marks] == shown, name
    for profile in PROFILES.values():
        assert f"| {profile.name} | {profile.evidence} | {profile.proof} |" in page
