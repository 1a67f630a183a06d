"""Tests of a pod's owner, and of the workload behind that."""

from __future__ import annotations

from typing import Any

from hpabatch.importers.prometheus.client.samples import Findings, empty_samples
from hpabatch.importers.prometheus.pods.lives import OWNED, owned_pods
from tests.importers.prometheus.ksm import facts, owned_by, pod


def owned(*owners: dict[str, str], sets: tuple[dict[str, str], ...] = ()) -> tuple[Any, Findings]:
    findings = Findings()
    found = owned_pods(
        facts([(one, 1.0) for one in owners]), facts([(one, 1.0) for one in sets]), findings
    )
    assert found.schema == OWNED
    rows = {row[1]: row[3:] for row in found.rows()}
    assert len(rows) == found.height
    return rows, findings


def of_set(name: str, kind: str, owner: str) -> dict[str, str]:
    return {"namespace": "shop", "replicaset": name, **owned_by(kind, owner)}


def test_behind_a_replicaset_stands_what_controls_it() -> None:
    rows, findings = owned(
        pod("a", **owned_by("ReplicaSet", "web-x1")),
        pod("b", "u2", **owned_by("ReplicaSet", "roll-x2")),
        pod("c", "u3", **owned_by("ReplicaSet", "alone")),
        sets=(
            of_set("web-x1", "Deployment", "web"),
            of_set("roll-x2", "Rollout", "roll"),
            {"namespace": "shop", "replicaset": "alone", **owned_by("", "", "")},
            {**of_set("web-x1", "Deployment", "other"), "namespace": "elsewhere"},
        ),
    )
    assert rows == {
        "a": ("ReplicaSet/web-x1", "Deployment", "web"),
        "b": ("ReplicaSet/roll-x2", "Rollout", "roll"),
        "c": ("ReplicaSet/alone", "ReplicaSet", "alone"),
    }
    assert not findings.counts


def test_other_controllers_are_the_workload() -> None:
    for kind in ("StatefulSet", "ReplicationController", "DaemonSet", "Job"):
        rows, _ = owned(pod("a", **owned_by(kind, "x")))
        assert rows == {"a": (f"{kind}/x", kind, "x")}


def test_a_pod_without_controller_is_bare() -> None:
    for owner in (
        owned_by("", "", ""),
        owned_by("<none>", "<none>", "<none>"),
        owned_by("ConfigMap", "x", "false"),
    ):
        assert owned(pod("a", **owner))[0] == {"a": (None, None, None)}


def test_of_several_owners_the_controller_counts() -> None:
    rows, _ = owned(
        pod("a", **owned_by("AAA", "first", "false")),
        pod("a", **owned_by("StatefulSet", "db", "true"), job="x"),
        pod("a", **owned_by("StatefulSet", "db", "true"), job="y"),
    )
    assert rows == {"a": ("StatefulSet/db", "StatefulSet", "db")}


def test_a_deployment_is_read_off_a_name_that_can_be_one() -> None:
    rows, findings = owned(
        pod("a", **owned_by("ReplicaSet", "web-front-7d4b9c6f5d")),
        pod("b", "u2", **owned_by("ReplicaSet", "web-front-7d4b9c6f5d")),
        pod("c", "u3", **owned_by("ReplicaSet", "mine-alone")),
    )
    assert rows["a"] == ("ReplicaSet/web-front-7d4b9c6f5d", "Deployment", "web-front")
    assert rows["b"] == rows["a"]
    # There are no vowels in hashes.
    assert rows["c"] == ("ReplicaSet/mine-alone", "ReplicaSet", "mine-alone")
    assert list(findings.counts.values()) == [1]


def test_names_recur_with_other_uids() -> None:
    found = owned_pods(
        facts(
            [
                (pod("db-0", "u1", **owned_by("StatefulSet", "db")), 1),
                (pod("db-0", "u2", **owned_by("StatefulSet", "db")), 1),
                (pod("db-0", None, **owned_by("StatefulSet", "db")), 1),
            ]
        ),
        empty_samples(),
    )
    assert found["uid"].to_list() == [None, "u1", "u2"]
    assert owned_pods(empty_samples(), empty_samples()).is_empty()
