"""Quota files: what ResourceQuota manifests mean, and the sentence about what they cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.inputs.quotas import quotas_of, read_quotas
from hpabatch.model.quota import (
    CORES,
    GIB,
    LIMIT_CORES,
    LIMIT_GIB,
    MOST,
    PODS,
    Limit,
    Quota,
    tightest,
)
from tests.importers.mutations import says

ONE = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: shop}
spec:
  hard:
    requests.cpu: "10"
    requests.memory: 64Gi
    limits.cpu: 20500m
    limits.memory: 1e11
    pods: 30
    count/configmaps: "5"
    requests.nvidia.com/gpu: 4
"""


def quota_text(hard: str = "{pods: 1}", more: str = "", name: str = "team") -> str:
    return (
        f"kind: ResourceQuota\nmetadata: {{name: {name}, namespace: shop}}\n"
        f"spec:\n  hard: {hard}\n{more}"
    )


def test_a_quota_is_read() -> None:
    found = quotas_of(ONE)
    (quota,) = found.quotas
    assert (quota.namespace, quota.name, quota.place) == ("shop", "team", "quota file, line 2")
    assert {name: limit.hard for name, limit in quota.limits.items()} == {
        CORES: 10_000,
        GIB: 64 * 2**30,
        LIMIT_CORES: 20_500,
        LIMIT_GIB: 10**11,
        PODS: 30,
    }
    assert quota.limits[CORES] == Limit(10_000, "requests.cpu", "team")
    assert found.notes == (
        "quota file, line 2: quota shop/team: not judged: count/configmaps, "
        "requests.nvidia.com/gpu",
    )


@pytest.mark.parametrize(
    ("hard", "amount", "limit"),
    [
        ('{cpu: "1.0005"}', CORES, 1000),  # rounded down: 1000m fit, 1001m do not
        ("{cpu: 4, requests.cpu: 3}", CORES, 3000),
        ("{requests.cpu: 3, cpu: 4}", CORES, 3000),
        ("{pods: 7, count/pods: 5}", PODS, 5),
        ("{memory: 1500m}", GIB, 1),
        ("{pods: 0}", PODS, 0),
        ("{pods: 0e999}", PODS, 0),
        ("{memory: 8Ei}", GIB, MOST),
        ("{memory: 1e400}", GIB, MOST),
        ("{cpu: 1e999999999}", CORES, MOST),
    ],
)
def test_limits_are_exact_or_larger_than_anything(hard: str, amount: str, limit: int) -> None:
    (quota,) = quotas_of(quota_text(hard)).quotas
    assert quota.limits[amount].hard == limit


def test_lists_documents_and_other_kinds() -> None:
    listed = {
        "kind": "List",
        "items": [
            {"kind": "ConfigMap", "metadata": {"name": "x"}},
            {
                "kind": "ResourceQuota",
                "metadata": {"name": "a", "namespace": "shop"},
                "spec": {"hard": {"pods": "3"}},
                "status": {"used": {"pods": "1"}},
            },
        ],
    }
    text = f"{json.dumps(listed, indent=1)}\n---\n# nothing\n---\n{quota_text(name='b')}"
    typed = "---\nkind: ResourceQuotaList\nitems:\n- metadata: {name: c, namespace: x}\n"
    found = quotas_of(text + typed + "  spec: {hard: {pods: 1}}\n")
    assert [quota.name for quota in found.quotas] == ["a", "b", "c"]
    assert found.notes == ("quota file: objects of other kinds are left: 1 ConfigMap",)


def test_scopes_that_hold_for_every_pod_are_judged_and_others_told() -> None:
    holds = quotas_of(quota_text(more="  scopes: [NotTerminating]\n"))
    assert len(holds.quotas) == 1
    assert "has the scope NotTerminating: every pod of an HPA is taken to be" in holds.notes[0]
    for more in (
        "  scopes: [NotTerminating, BestEffort]\n",
        "  scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}\n",
    ):
        found = quotas_of(quota_text(more=more))
        assert found.quotas == ()
        assert "quota shop/team is not judged: it is only for pods of the scope" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a ResourceQuota, got nothing"),
        ("kind: Pod", "expected a ResourceQuota, got Pod"),
        ("3", "expected a manifest, got 3"),
        ("[3]", "item 1 of the list is not a mapping"),
        ("a: [", "not YAML"),
        ("kind: ResourceQuota", "metadata: expected a mapping, got nothing"),
        ("kind: ResourceQuota\nmetadata: {name: a}", "spec: expected a mapping, got nothing"),
        (quota_text("[]"), "spec.hard: expected a mapping of limits, got an empty list"),
        (
            quota_text("{cpu: lots}"),
            "spec.hard.cpu: expected a quantity of 0 or more, such as 20 or 64Gi, got 'lots'",
        ),
        (
            quota_text("{pods: -1}"),
            "spec.hard.pods: expected a quantity of 0 or more, such as 20 or 64Gi, got -1",
        ),
        (quota_text("{pods: 1, pods: 2}"), "expected the key 'pods' once, got it twice"),
        (quota_text(more="  scopes: 3\n"), "spec.scopes: expected a list of names, got 3"),
        (
            quota_text(more="  scopeSelector: {a: 1}\n"),
            "spec.scopeSelector.matchExpressions: expected a list with scopeNames, got nothin",
        ),
        (f"{quota_text()}---\n{quota_text()}", "expected the quota shop/team once, got it twice"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        quotas_of(text)
    assert says(str(refused.value), told)
    assert "quota file" in str(refused.value)


def test_files_of_clusters(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(quota_text())
    found = read_quotas([f"east={file}", f"west={file}"], ["east", "west"])
    assert [quota.cluster for quota in found.quotas] == ["east", "west"]
    with pytest.raises(UsageError, match="once, got it twice"):
        read_quotas([file, f"west={file}"], ["west"])


def test_the_tightest_of_a_namespace_counts() -> None:
    def quota(name: str, hard: int, cluster: str | None = None, namespace: str = "shop") -> Quota:
        return Quota(namespace, name, {PODS: Limit(hard, "pods", name)}, cluster)

    quotas = [quota("a", 9), quota("b", 5), quota("c", 5), quota("d", 1, namespace="x")]
    assert tightest(quotas, "east", "shop")[PODS].quota == "b"
    assert tightest([*quotas, quota("e", 2, "east")], "east", "shop")[PODS].quota == "e"
    assert tightest([*quotas, quota("e", 2, "east")], "west", "shop")[PODS].quota == "b"
    assert tightest(quotas, "east", "media") == {}
