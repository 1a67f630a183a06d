"""Tests of the version whose rules decide: as given, as recorded by cluster, else the default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.versions import Versions, history_profile, versions_of
from hpabatch.errors import UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.model.versions import DEFAULT_K8S, PROFILES
from tests.engine.made import replay_history
from tests.engine.naive_align import Row
from tests.engine.small_history import STEP, T0, start_row, to_frame, write_history
from tests.engine.told import moments, web


def clocked(**given: Any) -> ReplayParameters:
    return ReplayParameters(sync_period_ms=STEP, phase_ms=0, **given)


def recorded(*rows: tuple[str, str | None], start: int = 0) -> list[Row]:
    """Return rows of `controller`: (cluster, version), one a second."""
    return [
        start_row(T0 + 1000 * (start + k), event="observed", cluster=cluster, version=version)
        for k, (cluster, version) in enumerate(rows)
    ]


def versions(*rows: tuple[str, str | None], **given: Any) -> Versions:
    k8s = given.pop("k8s", None)
    return versions_of(to_frame("controller", recorded(*rows)), k8s, **given)


@pytest.mark.parametrize("text", ["1.36", "v1.36.2", "1.36.2-gke.100", "1.36+", " v1.36.0-rc.1 "])
def test_a_recorded_version_in_whatever_form(text: str) -> None:
    found = versions(("c1", text))
    assert (found.of("c1"), found.source, found.warnings) == (PROFILES["1.36"], "recorded", ())
    assert found.name_of("c1").startswith("1.36")
    assert set(found.name_of("c1")) <= set("0123456789.")
    assert found.evidence()["k8s_proof"].startswith("against upstream's code")


def test_each_cluster_has_its_own() -> None:
    found = versions(("c1", "1.20.2"), ("c2", "1.38.0"), clusters=["c2", "c1"])
    assert [found.of(c).name for c in ("c1", "c2")] == ["1.20", "1.38"]
    assert [found.name_of(c) for c in ("c1", "c2")] == ["1.20.2", "1.38.0"]
    evidence = found.evidence()
    assert (evidence["k8s"], evidence["k8s_source"]) == ("1.20, 1.38", "recorded")
    assert evidence["k8s_evidence"] == "1.20 from sources; 1.38 proved"
    with pytest.raises(UsageError) as refused:
        found.one()
    assert str(refused.value) == (
        "the clusters of this history run different Kubernetes versions (1.20, 1.38): name one "
        "with --k8s, or take the clusters one by one with --where \"cluster = '...'\" and it"
    )


def test_a_cluster_without_a_version_beside_others_takes_the_default() -> None:
    found = versions(("c1", "1.36"), clusters=["c1", "c2", "c3"])
    assert [found.of(c).name for c in ("c1", "c2", "c3")] == ["1.36", DEFAULT_K8S, DEFAULT_K8S]
    assert found.evidence()["k8s"] == "1.36, 1.37"
    assert found.source == "recorded for 1 of 3 clusters, else assumed"
    with pytest.raises(UsageError, match=r"\(1\.36, 1\.37\)"):
        found.one()


def test_gates_that_only_the_default_version_does_not_take() -> None:
    """1.37 is not asked where every cluster has a version of its own."""
    found = versions(("c1", "1.36"), gates="HPAConfigurableTolerance=false", clusters=["c1"])
    assert not found.of("c1").gate_configurable_tolerance
    found = versions(("c1", "1.26"), gates="HPAContainerMetrics=true", clusters=["c1"])
    assert found.of("c1").gate_container_metrics
    with pytest.raises(UsageError, match=r"Kubernetes has it locked on since 1\.37"):
        versions(("c1", "1.36"), gates="HPAConfigurableTolerance=false", clusters=["c1", "c2"])
    with pytest.raises(UsageError, match=r"Kubernetes has it locked on since 1\.37"):
        versions(gates="HPAConfigurableTolerance=false")


def test_gates_that_were_recorded_before_an_upgrade_did_away_with_them() -> None:
    own = {"c1": "HPAContainerMetrics=true, HPAScaleToZero=true"}
    found = versions(("c1", "1.31"), ("c1", "1.33"), clusters=["c1"], own_gates=own)
    assert found.of("c1") == replace(PROFILES["1.33"], gate_scale_to_zero=True)
    own = {"c1": "HPAConfigurableTolerance=false"}
    for k8s, on in (("1.36", False), ("1.37", True)):
        found = versions(("c1", k8s), clusters=["c1"], own_gates=own)
        assert found.of("c1").gate_configurable_tolerance is on
    with pytest.raises(UsageError, match="expected a gate"):
        versions(("c1", "1.36"), clusters=["c1"], own_gates={"c1": "Nope=true"})


@pytest.mark.parametrize(
    ("k8s", "profile", "note"),
    [
        ("1.39", "1.38", "there is no profile of 1.39: 1.38's rules were taken"),
        ("1.45.1", "1.38", "there is no profile of 1.45: 1.38's rules were taken"),
    ],
)
def test_versions_newer_than_all_profiles_are_told(k8s: str, profile: str, note: str) -> None:
    given = versions(k8s=k8s)
    assert (given.one().name, given.warnings, given.name_of("x")) == (profile, (note,), k8s)
    found = versions(("c1", k8s))
    assert found.of("c1").name == profile
    assert found.warnings == (f"cluster c1: {note}",)


def test_of_an_upgraded_cluster_the_newest_row_counts() -> None:
    found = versions(("c1", "v1.35.1"), ("c1", "v1.35.1"), ("c1", None), ("c1", "v1.36.0"))
    assert (found.of("c1").name, found.name_of("c1")) == ("1.36", "1.36.0")
    assert found.warnings == (
        "cluster c1 was upgraded while it was recorded (v1.35.1 -> v1.36.0): all of it is decided "
        "by 1.36's rules; name another with --k8s",
    )
    # Back again.
    found = versions(("c1", "1.36"), ("c1", "1.37"), ("c1", "1.36"))
    assert found.of("c1").name == "1.36"
    assert "(1.36 -> 1.37 -> 1.36)" in found.warnings[0]
    # A patch is the same rules.
    assert versions(("c1", "1.36.0"), ("c1", "1.36.1")).warnings == ()
    # However the rows stand.
    rows = recorded(("c1", "1.20"), start=9) + recorded(("c1", "1.38"))
    assert versions_of(to_frame("controller", rows), None).of("c1").name == "1.20"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.19.3", "1.19.3: older than 1.20, the oldest version whose rules are known"),
        ("latest", "latest: not a Kubernetes version such as 1.37 or v1.36.2; known: 1.20 to 1.38"),
        ("", ": not a Kubernetes version"),
    ],
)
def test_a_version_that_is_of_no_use(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        versions(("c1", text))
    assert str(refused.value).startswith(
        f"the recorded version of cluster c1 (controller.version) is of no use: {reason}"
    )
    assert str(refused.value).endswith("; name one with --k8s")
    # A version of old that was left counts as little.
    with pytest.raises(UsageError, match="of no use"):
        versions(("c1", text), ("c1", "1.36"))
    # One that is given does without.
    assert versions(("c1", text), k8s="1.36").of("c1").name == "1.36"
    with pytest.raises(UsageError, match=f"^--k8s {text}: "):
        versions(k8s=text)


def test_feature_gates() -> None:
    gates = "HPAScaleToZero=true, PodLevelResources=false"
    for found in (
        versions(k8s="1.36", gates=gates),
        versions(("c1", "1.36"), gates=gates, clusters=["c1"]),
    ):
        profile = found.of("c1")
        assert (profile.gate_scale_to_zero, profile.gate_pod_level_resources) == (True, False)
        assert found.one().name == "1.36"
        assert found.evidence()["feature_gates"] == gates
    default = versions(gates="HPAScaleToZero=false", clusters=["c1"])
    assert not default.of("c1").gate_scale_to_zero
    assert "feature_gates" not in versions().evidence()
    mixed = versions(("c1", "1.36"), gates="HPAScaleToZero=true", clusters=["c1", "c2"])
    assert all(mixed.of(c).gate_scale_to_zero for c in ("c1", "c2"))
    with pytest.raises(UsageError, match=r"^--feature-gates Nope=true: expected a gate"):
        versions(("c1", "1.36"), gates="Nope=true")
    # A gate is one of the version that is recorded.
    with pytest.raises(UsageError, match=r"Kubernetes 1\.36 has no such gate for HPAs"):
        versions(("c1", "v1.36.3"), gates="HPAGeneration=true")
    assert not versions(("c1", "1.38"), gates="HPAGeneration=false").of("c1").gate_generation


# ---- in a replay ---------------------------------------------------------------------------------


def two_clusters(folder: Path, *rows: tuple[str, str | None]) -> History:
    """Return a history of two clusters, each with an HPA of the same pods twice."""
    tables = web()
    tables["hpas"].append(tables["hpas"][0] | {"name": "two", "uid": "hpa-two"})
    for name, part in tables.items():
        tables[name] = part + [row | {"cluster": "c2"} for row in part]
    tables["controller"] = recorded(*rows)
    return open_history(write_history(tables, folder))


def test_every_cluster_is_decided_by_its_own(tmp_path: Path) -> None:
    history = two_clusters(tmp_path, ("c1", "1.20.2"), ("c2", "1.38"))
    found = replay_history(history, clocked())
    # Only from 1.26 on HPAs look for others on their pods.
    assert set(found.decisions.select("cluster", "scaling_active").rows()) == {
        ("c1", "ValidMetricFound"),
        ("c2", "ValidMetricFound"),
        ("c2", "AmbiguousSelector"),
    }
    assert found.evidence["k8s"] == "1.20, 1.38"
    assert [text for text in found.warnings if "c1" in text or "match the same" in text] == [
        "shop/one and shop/two match the same pods, so neither can scale (AmbiguousSelector): "
        "remove one of them"
    ]
    names = {(m.candidate.cluster, m.shard.profile.name) for m in moments(history, clocked())}
    assert names == {("c1", "1.20"), ("c2", "1.38")}
    with pytest.raises(UsageError, match="run different Kubernetes versions"):
        history_profile(history, None)
    assert history_profile(history, "1.36").name == "1.36"
