"""Controller flags, version profiles and feature gates."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from hpabatch.errors import UsageError
from hpabatch.layout.switches import SCALE_TO_ZERO
from hpabatch.model.versions import (
    GATES,
    NEWEST_K8S,
    OLDEST_K8S,
    PROFILES,
    SINCE,
    ControllerFlags,
    Profile,
    override_gates,
    profile_for,
)

SWITCHES: Final = [f.name for f in fields(Profile)][4:]  # after what names and proves a profile


def brought(minor: int) -> set[str]:
    """Return the switches that a release has and its predecessor has not."""
    before, after = PROFILES[f"1.{minor - 1}"], PROFILES[f"1.{minor}"]
    return {name for name in SWITCHES if getattr(before, name) != getattr(after, name)}


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


@pytest.mark.parametrize("minor", range(20, 39))
def test_every_minor_version_has_a_profile_of_its_own(minor: int) -> None:
    profile = profile_for(f"v1.{minor}.4")
    assert profile is PROFILES[f"1.{minor}"]
    assert (profile.name, profile.notes) == (f"1.{minor}", "")
    assert profile.evidence in ("proved", "checked live", "from sources")
    assert profile.proof


def test_a_newer_version_takes_the_newest_profile_and_says_so() -> None:
    profile = profile_for("1.99")
    assert profile.name == NEWEST_K8S == "1.38"
    assert profile.notes == "there is no profile of 1.99: 1.38's rules were taken"
    assert profile.switches() == PROFILES["1.38"].switches()


@pytest.mark.parametrize("version", ["1.19", "1.2", "v1.0.3"])
def test_older_versions_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match=r"older than 1\.20"):
        profile_for(version)


@pytest.mark.parametrize("version", ["", "1", "2.38", "1.38.x", "1.38.1.1", "latest", "1.3838"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="not a Kubernetes version such as"):
        profile_for(version)


# ---- the table -----------------------------------------------------------------------------------


def test_the_oldest_profile_has_no_switch_and_the_newest_has_all() -> None:
    assert [name for name in SWITCHES if getattr(PROFILES[OLDEST_K8S], name)] == []
    assert [name for name in SWITCHES if not getattr(PROFILES[NEWEST_K8S], name)] == []


@pytest.mark.parametrize("minor", range(21, 39))
def test_nothing_is_ever_taken_back(minor: int) -> None:
    """A switch is named by what newer versions do."""
    before, after = PROFILES[f"1.{minor - 1}"], PROFILES[f"1.{minor}"]
    assert not any(getattr(before, name) for name in brought(minor))
    assert before.switches() & ~after.switches() == 0


def test_each_switch_is_in_one_table() -> None:
    gates = [gate.field for gate in GATES.values()]
    assert sorted([*SINCE, *gates]) == sorted(SWITCHES)
    assert all(since.evidence for since in SINCE.values())
    assert [since.minor for since in SINCE.values()] == sorted(s.minor for s in SINCE.values())


def test_a_scale_that_was_changed_meanwhile_is_written_again_since_1_34() -> None:
    assert profile_for("1.33").scale_conflict_retries == 0
    assert profile_for("1.34").scale_conflict_retries == 5


# ---- feature gates -------------------------------------------------------------------------------


def test_feature_gates_override_a_profile() -> None:
    profile = profile_for("1.36", "HPAScaleToZero=true, HPAConfigurableTolerance=False,")
    assert (profile.gate_scale_to_zero, profile.gate_configurable_tolerance) == (True, False)
    assert profile.gate_pod_level_resources is PROFILES["1.36"].gate_pod_level_resources
    assert profile.switches() == PROFILES["1.36"].switches() | SCALE_TO_ZERO


@pytest.mark.parametrize("gates", ["HPAScaleToZero", "HPAScaleToZero=1", "Odd=true", "=true"])
def test_what_is_no_gate_is_refused(gates: str) -> None:
    with pytest.raises(UsageError, match=r"--feature-gates .*expected (GATE=true|a gate)"):
        profile_for("1.36", gates)


@pytest.mark.parametrize("minor", range(20, 39))
def test_which_states_of_which_gates_a_version_takes(minor: int) -> None:
    """Alpha and beta gates can be switched either way; what is stable only on, or not at all."""
    for name, gate in GATES.items():
        either = gate.known <= minor < (gate.locked or 99)
        stable = gate.locked is not None and gate.locked <= minor < (gate.gone or 99)
        for state, taken in ((True, either or stable), (False, either)):
            text = f"{name}={str(state).lower()}"
            if taken:
                assert getattr(profile_for(f"1.{minor}", text), gate.field) is state, text
            else:
                with pytest.raises(UsageError, match=f"--feature-gates {text}: Kubernetes "):
                    profile_for(f"1.{minor}", text)


@pytest.mark.parametrize(
    ("version", "gate", "reason"),
    [
        (
            "1.32",
            "HPAConfigurableTolerance=true",
            "1.32 has no such gate for HPAs, it came with 1.33; leave",
        ),
        ("1.36", "HPAGeneration=true", "1.36 has no such gate for HPAs, it came with 1.37; leave"),
        ("1.31", "HPAContainerMetrics=false", "has it locked on since 1.30; leave it out"),
        ("1.38", "HPAConfigurableTolerance=false", "has it locked on since 1.37; leave it out"),
        ("1.33", "HPAContainerMetrics=true", "1.33 has no such gate any more: .* on since 1.30"),
    ],
)
def test_gates_that_a_version_does_not_take_are_refused(
    version: str, gate: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=rf"^--feature-gates {gate}: Kubernetes {reason}"):
        profile_for(version, gate)


def test_a_profile_without_its_version_takes_every_gate() -> None:
    """Upstream's tests switch gates that a server has locked, and so do recorded cases."""
    profile = override_gates(PROFILES["1.38"], "HPAConfigurableTolerance=false")
    assert not profile.gate_configurable_tolerance


# ---- the documentation ---------------------------------------------------------------------------


def test_the_documentation_shows_every_profile_switch_and_gate() -> None:
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    profiles = [row for row in rows if row[0] in PROFILES]
    assert [row[:3] for row in profiles] == [
        [profile.name, profile.evidence, profile.proof] for profile in PROFILES.values()
    ]
    for name, *_, new in profiles[1:]:
        shown = {word.strip(" `") for word in new.split(",")} - {"nothing"}
        assert shown == brought(PROFILES[name].minor), name
    switches = {row[0].strip("`"): row for row in rows if row[0].strip("`") in SINCE}
    assert list(switches) == list(SINCE)
    for name, since in SINCE.items():
        _, release, before, evidence = switches[name]
        assert release == f"1.{since.minor}"
        assert evidence == "assumed: " * since.assumed + since.evidence
        assert before, name
    gates = {row[0].strip("`"): row for row in rows if row[0].strip("`") in GATES}
    assert list(gates) == list(GATES)
    for name, gate in GATES.items():
        minors = (gate.known, gate.on, gate.locked, gate.gone)
        releases = ["" if minor is None else f"1.{minor}" for minor in minors]
        assert gates[name][1:6] == [f"`{gate.field}`", *releases]
        assert gates[name][7] == gate.evidence
