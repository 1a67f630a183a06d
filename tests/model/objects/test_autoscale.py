"""The HPA that `kubectl autoscale` creates."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.objects.autoscale import (
    AutoscaleRequest,
    Target,
    autoscale,
    resource_target,
    target_of_document,
    targets_of_arguments,
)
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import CrossVersionObjectReference

WEB = Target(CrossVersionObjectReference("Deployment", "web", "apps/v1"), "shop")
API = Target(CrossVersionObjectReference("StatefulSet", "api", "apps/v1"), "shop")


def spec(request: AutoscaleRequest) -> dict[str, object]:
    (hpa,) = autoscale([WEB], request)
    return encode_spec(hpa.spec)


def metric(name: str, **target: object) -> dict[str, object]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def test_the_whole_hpa() -> None:
    request = AutoscaleRequest(max_replicas=20, min_replicas=2, cpu="70%", memory="500Mi")
    (hpa,) = autoscale([WEB], request)
    assert (hpa.name, hpa.namespace, hpa.api_version) == ("web", "shop", "autoscaling/v2")
    assert encode_spec(hpa.spec) == {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": 2,
        "maxReplicas": 20,
        "metrics": [
            metric("cpu", type="Utilization", averageUtilization=70),
            metric("memory", type="AverageValue", averageValue="500Mi"),
        ],
    }


@pytest.mark.parametrize(("minimum", "sent"), [(None, None), (-1, None), (0, None), (1, 1)])
def test_only_a_positive_min_is_sent(minimum: int | None, sent: int | None) -> None:
    assert spec(AutoscaleRequest(max_replicas=3, min_replicas=minimum)).get("minReplicas") == sent


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "max_replicas: expected a value, got none"),
        ({"max_replicas": 0}, "expected a whole number of at least 1, got 0"),
        ({"max_replicas": 2**31}, "expected a whole number of at most 2147483647"),
        ({"max_replicas": 2, "min_replicas": 3}, "--max: expected at least --min 3, got 2"),
        ({"max_replicas": 3, "memory": "all"}, "--memory: expected a percentage such as 70%"),
    ],
)
def test_impossible_flags(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        autoscale([WEB], AutoscaleRequest.of(given))
    assert words in str(raised.value)


def test_several_targets() -> None:
    hpas = autoscale([WEB, API], AutoscaleRequest(max_replicas=3))
    assert [(hpa.name, hpa.spec.scale_target_ref.kind) for hpa in hpas] == [
        ("web", "Deployment"),
        ("api", "StatefulSet"),
    ]
    (hpa,) = autoscale([WEB], AutoscaleRequest(max_replicas=3, name="other"))
    assert (hpa.name, hpa.spec.scale_target_ref.name) == ("other", "web")


@pytest.mark.parametrize(("targets", "name"), [([WEB, API], "other"), ([WEB, WEB], "")])
def test_several_hpas_of_one_name(targets: list[Target], name: str) -> None:
    with pytest.raises(UsageError, match="HPAs of one name"):
        autoscale(targets, AutoscaleRequest(max_replicas=3, name=name))


@pytest.mark.parametrize(
    ("resource", "text", "shown"),
    [
        ("cpu", "70%", "70%"), ("cpu", "0%", "0%"),
        ("memory", " 80%\n", "80%"), ("cpu", "500m", "500m"), ("cpu", "2", "2m"),
        ("cpu", "0.5", "500u"), ("cpu", "-5", "-5m"), ("cpu", "1000000", "1k"),
        ("memory", "200", "200Mi"), ("memory", "1.5", "1536Ki"), ("memory", "2Gi", "2Gi"),
    ],
)  # fmt: skip
def test_targets_of_resources(resource: str, text: str, shown: str) -> None:
    target = resource_target(text, resource)
    assert target.type == ("Utilization" if "%" in shown else "AverageValue")
    percent = target.average_utilization
    assert shown == (str(target.average_value) if percent is None else f"{percent}%")


@pytest.mark.parametrize("text", [" ", "%", "-3%", "7.5%", "2147483648%", "lots", "1 m", "NaN"])
def test_targets_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--cpu: expected a percentage such as 70%, or a quanti"):
        resource_target(text, "cpu")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("deployment/web", ["apps/v1 Deployment web"]),
        ("deployments web api", ["apps/v1 Deployment web", "apps/v1 Deployment api"]),
        ("deploy/web sts/db", ["apps/v1 Deployment web", "apps/v1 StatefulSet db"]),
        ("rc old", ["v1 ReplicationController old"]),
        ("ReplicationControllers/old", ["v1 ReplicationController old"]),
        ("StatefulSet.apps/db", ["apps/v1 StatefulSet db"]),
        ("rs.apps/a", ["apps/v1 ReplicaSet a"]),
        ("deployments.v1.apps/a", ["apps/v1 Deployment a"]),
    ],
)
def test_arguments(arguments: str, found: list[str]) -> None:
    targets = targets_of_arguments(arguments.split(), "shop")
    assert {target.namespace for target in targets} == {"shop"}
    shown = [target.reference for target in targets]
    assert [f"{item.api_version} {item.kind} {item.name}" for item in shown] == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "no target: name deployment/web"),
        *(
            (text, "expected TYPE/NAME or TYPE NAME")
            for text in ("deploy", "deploy deploy/web", "deploy/a/b", "deploy/", "/web")
        ),
        ("rollout/web", 'no built-in resource type "rollout"'),
        ("deploy.extensions/web", 'no built-in resource type "deploy.extensions"'),
        (".batch/web", 'no built-in resource type ".batch"'),
    ],
)
def test_arguments_that_name_nothing(arguments: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        targets_of_arguments(arguments.split())
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("svc/web", "cannot autoscale a Service: it has no scale subresource"),
        ("ds/web", "cannot autoscale a DaemonSet: it has no scale subresource"),
    ],
)
def test_types_without_a_scale(argument: str, words: str) -> None:
    with pytest.raises(RefusedError) as raised:
        targets_of_arguments([argument])
    assert words in str(raised.value)
    assert "autoscale one of deployments, replicasets" in str(raised.value)


def manifest(
    metadata: Mapping[str, object], kind: str = "Deployment", version: str = "apps/v1"
) -> dict[str, object]:
    return {"kind": kind, "apiVersion": version, "metadata": metadata}


@pytest.mark.parametrize(
    ("own", "asked", "namespace"),
    [({}, "", ""), ({}, "shop", "shop"), ({"namespace": "shop"}, "", "shop"),
     ({"namespace": "shop"}, "shop", "shop")],
)  # fmt: skip
def test_documents(own: dict[str, object], asked: str, namespace: str) -> None:
    target = target_of_document(manifest({"name": "web", **own}), asked)
    assert target == Target(WEB.reference, namespace)


def test_a_document_of_another_namespace() -> None:
    with pytest.raises(UsageError, match="-n: expected shop, the namespace of the manifest, got o"):
        target_of_document(manifest({"name": "web", "namespace": "shop"}), "other")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "a manifest without kind"),
        ({"kind": "Deployment", "apiVersion": 1}, "a manifest without apiVersion"),
        (
            {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": []},
            "a manifest without metadata.name",
        ),
        (manifest({"name": 5}), "a manifest without metadata.name"),
        (manifest({"name": "web"}, "Service", "v1"), "cannot autoscale a Service: it has no"),
        (
            manifest({"name": "web"}, version="extensions/v1beta1"),
            'no matches for kind "Deployment" in version "extensions/v1beta1"; it is apps/v1',
        ),
        (
            manifest({"name": "web"}, "Rollout", "argoproj.io/v1alpha1"),
            "cannot autoscale a Rollout: only the API server knows",
        ),
        (
            manifest({"name": "web"}, version="example.com/v1"),
            "cannot autoscale a Deployment: only the API server knows",
        ),
    ],
)
def test_documents_that_are_no_target(document: dict[str, object], words: str) -> None:
    with pytest.raises(RefusedError) as raised:
        target_of_document(document)
    assert words in str(raised.value)


def test_a_target_is_given_once() -> None:
    with pytest.raises(UsageError, match="leave out -f, or deployment/web"):
        AutoscaleRequest.of({"target": "deployment/web", "filename": "web.yaml", "max_replicas": 3})
    assert AutoscaleRequest.of({"filename": "web.yaml", "max_replicas": 3}).filename == (
        "web.yaml",
    )
