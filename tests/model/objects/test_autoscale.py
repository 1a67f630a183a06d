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


@pytest.mark.parametrize(("percent", "sent"), [(None, 0), (-1, 0), (0, 0), (50, 1)])
def test_only_a_positive_cpu_percent_is_sent(percent: int | None, sent: int) -> None:
    metrics = spec(AutoscaleRequest(max_replicas=3, cpu_percent=percent)).get("metrics", [])
    assert metrics == [metric("cpu", type="Utilization", averageUtilization=50)] * sent


def test_a_cpu_percent_that_is_not_sent_excludes_nothing() -> None:
    metrics = spec(AutoscaleRequest(max_replicas=3, cpu="1%", cpu_percent=0))["metrics"]
    assert metrics == [metric("cpu", type="Utilization", averageUtilization=1)]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (AutoscaleRequest(), 'required flag(s) "max" not set'),
        (AutoscaleRequest(max_replicas=0),
         "--max=MAXPODS is required and must be at least 1, max: 0"),
        (
            AutoscaleRequest(max_replicas=2, min_replicas=3),
            "--max=MAXPODS must be larger or equal to --min=MINPODS, max: 2, min: 3",
        ),
        (AutoscaleRequest(max_replicas=2**31), 'invalid argument "2147483648" for "--max" flag'),
        (AutoscaleRequest(max_replicas=3, min_replicas=-(2**31) - 1),
         'for "--min" flag: value out of range'),
        (AutoscaleRequest(max_replicas=3, cpu_percent=2**40), 'for "--cpu-percent" flag'),
        (
            AutoscaleRequest(max_replicas=3, cpu="70%", cpu_percent=70),
            "--cpu-percent and --cpu are mutually exclusive",
        ),
        (AutoscaleRequest(max_replicas=3, memory="all"),
         "--memory 'all': invalid resource memory value: all"),
    ],
)  # fmt: skip
def test_impossible_flags(request_: AutoscaleRequest, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        autoscale([WEB], request_)
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
    with pytest.raises(UsageError, match="already exists"):
        autoscale(targets, AutoscaleRequest(max_replicas=3, name=name))


@pytest.mark.parametrize(
    ("resource", "text", "shown"),
    [
        ("cpu", "70%", "70%"), ("cpu", "+7%", "7%"), ("cpu", "0%", "0%"),
        ("memory", " 80%\n", "80%"), ("cpu", "500m", "500m"), ("cpu", "2", "2m"),
        ("cpu", "0.5", "500u"), ("cpu", "1e3", "1"), ("cpu", "-5", "-5m"), ("cpu", "-0", "0"),
        ("memory", "200", "200Mi"), ("memory", "1.5", "1536Ki"), ("memory", ".5", "512Ki"),
        ("memory", "1e5", "100000Mi"), ("memory", "2Gi", "2Gi"), ("memory", "0.5Gi", "512Mi"),
    ],
)  # fmt: skip
def test_targets_of_resources(resource: str, text: str, shown: str) -> None:
    target = resource_target(text, resource)
    assert target.type == ("Utilization" if "%" in shown else "AverageValue")
    percent = target.average_utilization
    assert shown == (str(target.average_value) if percent is None else f"{percent}%")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" ", "empty input"), ("%", "invalid percentage value: "),
        ("-3%", "invalid percentage value: -3"), ("7.5%", "invalid percentage value: 7.5"),
        ("2147483648%", "invalid percentage value: 2147483648"),
        ("lots", "invalid resource cpu value: lots"), ("1 m", "invalid resource cpu value: 1 m"),
        ("1_000", "invalid resource cpu value: 1_000"),
        # Go prints a number from a million on with an exponent, which no unit can follow.
        ("1000000", "quantities must match"),
        ("inf", "quantities must match"), ("-Infinity", "quantities must match"),
        ("NaN", "quantities must match"), ("-1234567", "quantities must match"),
        ("1e-7", "quantities must match"),
    ],
)  # fmt: skip
def test_targets_that_are_none(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        resource_target(text, "cpu")
    message = str(raised.value)
    assert message.startswith(f"--cpu {text!r}: {words}")
    assert message.endswith("write a percentage such as 70%, or a quantity such as 500m")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("deployment/web", ["apps/v1 Deployment web"]),
        ("deployments web api", ["apps/v1 Deployment web", "apps/v1 Deployment api"]),
        ("deploy/web sts/db", ["apps/v1 Deployment web", "apps/v1 StatefulSet db"]),
        ("deploy,rs web", ["apps/v1 Deployment web", "apps/v1 ReplicaSet web"]),
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
        ("", "You must provide one or more resources by argument or filename"),
        ("deploy", "resource(s) were provided, but no name was specified"),
        ("deploy deploy/web", "there is no need to specify a resource type as a separate argument"),
        ("deploy/a/b", "may not have more than one slash"),
        ("deploy/", "must have a single resource and name"),
        ("/web", "must have a single resource and name"),
        ("deploy,rs/web", "must have a single resource and name"),
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
        ("svc/web", "cannot autoscale a Service: could not find scale subresource for /v1, "),
        ("ds/web", "cannot autoscale a DaemonSet: could not find scale subresource for apps/v1, "),
        ("hpa/web", "Resource=horizontalpodautoscalers in discovery information"),
    ],
)
def test_types_without_a_scale(argument: str, words: str) -> None:
    with pytest.raises(RefusedError) as raised:
        targets_of_arguments([argument])
    assert words in str(raised.value)
    assert "autoscale one of deployments.apps, replicasets.apps" in str(raised.value)


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
    with pytest.raises(UsageError) as raised:
        target_of_document(manifest({"name": "web", "namespace": "shop"}), "other")
    assert str(raised.value) == (
        'the namespace from the provided object "shop" does not match the namespace "other". '
        "You must pass '--namespace=shop' to perform this operation"
    )


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "a manifest without kind"),
        ({"kind": "Deployment", "apiVersion": 1}, "a manifest without apiVersion"),
        (
            {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": []},
            "a Deployment without metadata.name",
        ),
        (manifest({"name": 5}), "a Deployment without metadata.name"),
        (manifest({"name": "web"}, "Service", "v1"), "cannot autoscale a Service: could not find"),
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
        AutoscaleRequest.of({"target": "deployment/web", "filename": "web.yaml"})
    assert AutoscaleRequest.of({"filename": "web.yaml"}).filename == ("web.yaml",)
