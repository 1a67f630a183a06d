"""Options of --apply that need or exclude each other, and documents that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import ManifestError, UsageError
from hpabatch.live.apply.setup import read_documents
from hpabatch.live.loop.request import LiveRequest
from hpabatch.model.versions import DEFAULT_K8S, profile_for
from tests.real.applying import hpa_document


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"apply": True}, "--apply needs either --manifests"),
        ({"apply": True, "manifests": ("a",), "take_over": True}, "--apply needs either"),
        ({"take_over": True}, "--take-over: give --apply, too"),
        ({"manifests": ("a",)}, "--manifests: give --apply, too"),
        ({"dry_run": True}, "--dry-run: give --apply, too"),
        (
            {"most_replicas": 5, "lease_ms": 30_000, "own_namespace": "ours", "apply_log": "log"},
            "--own-namespace, --apply-log, --most-replicas, --lease: give --apply, too",
        ),
        ({"apply": True, "take_over": True, "lease_ms": 6500}, "--lease: expected whole seconds"),
        ({"apply": True, "take_over": True, "once": True}, "--apply excludes --once and --record"),
        ({"apply": True, "take_over": True, "record": "h"}, "--apply excludes --once and --record"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LiveRequest(**options).check()


def test_options_that_do() -> None:
    LiveRequest(apply=True, take_over=True, dry_run=True).check()
    LiveRequest(apply=True, manifests=("hpas",)).check()


def _read(folder: Path) -> list[str]:
    found = read_documents([str(folder)], profile_for(DEFAULT_K8S), "home")
    return [f"{item.namespace}/{item.name}" for item in found]


def test_a_scaled_object_is_left_to_keda(tmp_path: Path) -> None:
    (tmp_path / "hpa.json").write_text(json.dumps(hpa_document("shop", "web")))
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": {"name": "a"}, "triggers": [trigger]},
    }
    (tmp_path / "keda.json").write_text(json.dumps(scaled))
    assert _read(tmp_path) == ["shop/web"]


def test_documents_without_a_namespace_are_of_the_given_one(tmp_path: Path) -> None:
    document = hpa_document("shop", "web")
    del document["metadata"]["namespace"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    (tmp_path / "b.json").write_text(json.dumps(hpa_document("shop", "web")))
    assert _read(tmp_path) == ["home/web", "shop/web"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "a.json"),
        (json.dumps(hpa_document("shop", "web", maxReplicas=0)), "spec.maxReplicas"),
        (json.dumps({"kind": "ConfigMap", "apiVersion": "v1"}), "no HPA was found"),
    ],
)
def test_a_document_that_is_not_valid_is_refused_with_its_place(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ManifestError, match=words):
        _read(tmp_path)


def test_a_document_given_twice_is_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(hpa_document("shop", "web")))
    with pytest.raises(ManifestError, match="shop/web is given twice"):
        _read(tmp_path)


def test_two_documents_of_one_target_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        document = hpa_document("shop", name)
        document["spec"]["scaleTargetRef"]["name"] = "cart"
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    with pytest.raises(ManifestError, match=r"b\.json.* is the target of shop/a too; remove one"):
        _read(tmp_path)


@pytest.mark.parametrize("name", ["pay", None])
def test_a_document_outside_the_watched_namespaces_is_refused(
    name: str | None, tmp_path: Path
) -> None:
    document = hpa_document("shop", "web")
    del document["metadata"]["namespace"]
    if name is not None:
        document["metadata"]["namespace"] = name
    (tmp_path / "a.json").write_text(json.dumps(document))
    profile = profile_for(DEFAULT_K8S)
    words = r"a\.json.*expected a namespace of -n \(shop, web\), got pay.*add -n pay"
    with pytest.raises(ManifestError, match=words):
        read_documents([str(tmp_path)], profile, "pay", ("shop", "web"))
    assert len(read_documents([str(tmp_path)], profile, "pay", ("shop", "pay"))) == 1
