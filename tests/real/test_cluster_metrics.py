"""Scales and metrics of a real API server 1.20.2, beside what its own controller says of them.

The scales that we make of workloads are those that the server's scale subresource gives; the
texts of what fails are those in the conditions that the controller writes.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cluster.apis.discovery import (
    Discovery,
    bad_version,
    missing_scale,
    read_scale_from,
    target_key,
)
from hpabatch.cluster.apis.metrics import Fetcher
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import connect
from hpabatch.cluster.objects.decoders import BUILT_IN, HpaDecoder, WorkloadDecoder, read_scale
from hpabatch.cluster.objects.types import (
    ContainerUsage,
    ExternalMetricKey,
    HpaObject,
    PodMetricKey,
    PodSample,
    Responses,
    ScaleKey,
    ScaleObject,
    SeriesSample,
    UsageSample,
    metric_key,
    response_to,
)
from hpabatch.layout import codes
from hpabatch.model.messages import condition_message, metric_failure
from hpabatch.model.versions import profile_for
from tests.cluster.wires import wanted
from tests.real.cluster import VARIABLE, Cluster, missing, running_cluster

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

_PROFILE = profile_for("1.20")
_WAIT_S = 60.0
_FLAGS = (
    "--stub", "--fake-kubelet", "--controllers", "deployment,replicaset,horizontalpodautoscaling",
)  # fmt: skip
_QUICK = {"KCM_ARGS": "--horizontal-pod-autoscaler-sync-period=1s", "FK_ARGS": "--delay 0.2"}


def _workload(kind: str, name: str, selector: object, labels: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "c", "image": "none",
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
    }  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: dict[str, Any] = {"replicas": 2, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


_EXPRESSIONS = {
    "matchLabels": {"tier": "front", "app": "odd"},
    "matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["b", "a", "c"]},
        {"key": "canary", "operator": "DoesNotExist"},
        {"key": "build", "operator": "Exists"},
        {"key": "track", "operator": "NotIn", "values": ["x"]},
        {"key": "single", "operator": "In", "values": ["one"]},
    ],
}
_ODD = {"tier": "front", "app": "odd", "zone": "a", "build": "", "single": "one"}
_WORKLOADS = [
    _workload("Deployment", "web", {"matchLabels": {"app": "web"}}, {"app": "web"}),
    _workload("Deployment", "odd", _EXPRESSIONS, _ODD),
    _workload("StatefulSet", "db", {"matchLabels": {"b": "2", "a": ""}}, {"b": "2", "a": ""}),
    _workload("StatefulSet", "odd", _EXPRESSIONS, _ODD),
    _workload("ReplicaSet", "bare", {"matchLabels": {"app": "bare"}}, {"app": "bare"}),
    _workload("ReplicaSet", "odd", _EXPRESSIONS, _ODD),
    _workload("ReplicationController", "rc", {"z": "1", "a": "2"}, {"z": "1", "a": "2"}),
    _workload("ReplicationController", "implied", None, {"app": "implied", "b": "x"}),
]


def _crd(plural: str, kind: str, scale: bool) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }  # fmt: skip
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": names, "versions": [version],
        },
    }  # fmt: skip


def _hpa(name: str, target: dict[str, str], metrics: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, "metrics": metrics},
    }  # fmt: skip


def _at(kind: str, name: str, version: str = "apps/v1") -> dict[str, str]:
    return {"kind": kind, "name": name, "apiVersion": version}


_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
_RPS = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "rps", "selector": {"matchLabels": {"verb": "GET"}}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}
_QUEUE = {
    "type": "External",
    "external": {
        "metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}


def _object_metric(of: dict[str, str]) -> dict[str, Any]:
    target = {"type": "Value", "value": "10"}
    return {
        "type": "Object",
        "object": {"describedObject": of, "metric": {"name": "hits"}, "target": target},
    }


_TARGETS = {
    "no-deployment": _at("Deployment", "gone"),
    "no-stateful": _at("StatefulSet", "gone"),
    "no-replica": _at("ReplicaSet", "gone"),
    "no-rc": _at("ReplicationController", "gone", "v1"),
    "no-kind": _at("Sundial", "gone", "example.com/v1"),
    "no-group": _at("Deployment", "gone", "sundials.example.org/v7"),
    "bad-version": _at("Deployment", "web", "a/b/c"),
    "other-version": _at("Deployment", "gone", "apps/v9"),
    "core-deployment": _at("Deployment", "web", "v1"),
    "no-custom": _at("Clock", "gone", "example.com/v1"),
    "scaleless": _at("Rock", "stone", "example.com/v1"),
}
_METRICS = {
    "cpu": [_CPU],
    "rps": [_RPS],
    "queue": [_QUEUE],
    "object": [_object_metric(_at("Service", "main", "v1"))],
    "space": [_object_metric(_at("Namespace", "any", "v1"))],
    "nowhere": [_object_metric(_at("Sundial", "main", "example.com/v1"))],
}


class _Site:
    """A cluster, its client, and the HPAs of a namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        path = Path(cluster.environment["KUBECONFIG"])
        self.client = ApiClient(connect(path, None, False, cluster.environment))
        self.discovery = Discovery(self.client, fresh_s=1.0, absent_s=1.0)
        self.fetcher = Fetcher(self.client, self.discovery)

    def raw(self, path: str) -> Any:
        return json.loads(self.client.get(path))

    def hpa(self, name: str) -> HpaObject:
        path = f"/apis/autoscaling/v2beta2/namespaces/shop/horizontalpodautoscalers/{name}"
        thing = HpaDecoder().decode(self.client.get(path)).thing
        assert isinstance(thing, HpaObject)
        assert thing.problem == ""
        return thing

    def message(self, name: str, condition: str) -> str:
        found = {item.type: item for item in self.hpa(name).hpa.status.conditions}
        return found[condition].message if condition in found else ""

    def fetch(self, names: list[str]) -> tuple[Responses, list[HpaObject]]:
        hpas = [self.hpa(name) for name in names]
        return self.fetcher.fetch(wanted(hpas)), hpas

    def control(self, settings: dict[str, Any]) -> None:
        environment = self.cluster.environment
        folder = Path(environment["KUBECONFIG"]).parent
        context = ssl.create_default_context(cafile=str(folder / "pki/ca.crt"))
        address = f"https://127.0.0.1:{environment['P_STUB']}/control"
        body = json.dumps(settings).encode()
        request = urllib.request.Request(address, body, method="PUT")
        with urllib.request.urlopen(request, context=context, timeout=30) as reply:
            reply.read()


def _until(what: Callable[[], object], expected: object) -> None:
    """Wait until something is as expected; then, or at the end of patience, it has to be."""
    until = time.monotonic() + _WAIT_S
    while what() != expected and time.monotonic() < until:
        time.sleep(0.2)
    assert what() == expected


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Site]:
    with running_cluster(tmp_path_factory.mktemp("metrics"), flags=_FLAGS, more=_QUICK) as cluster:
        cluster.kubectl("create", "namespace", "shop")
        crds = [_crd("clocks", "Clock", True), _crd("rocks", "Rock", False)]
        cluster.kubectl("create", "-f", "-", stdin=_list(crds))
        cluster.kubectl(
            "wait", "--for=condition=Established", "--timeout=60s",
            "crd/clocks.example.com", "crd/rocks.example.com",
        )  # fmt: skip
        cluster.kubectl("create", "-f", "-", stdin=_list(_WORKLOADS))
        clock = {
            "apiVersion": "example.com/v1", "kind": "Clock",
            "metadata": {"name": "tower", "namespace": "shop"}, "spec": {"replicas": 3},
        }  # fmt: skip
        rock = {**clock, "kind": "Rock", "metadata": {"name": "stone", "namespace": "shop"}}
        cluster.kubectl("create", "-f", "-", stdin=_list([clock, rock]))
        found = _Site(cluster)
        _until(lambda: _running(found), 2)
        web = _at("Deployment", "web")
        hpas = [_hpa(name, target, [_CPU]) for name, target in _TARGETS.items()]
        hpas += [_hpa(name, web, metrics) for name, metrics in _METRICS.items()]
        cluster.kubectl("create", "-f", "-", stdin=_list(hpas))
        yield found
        found.client.close()


def _list(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _running(site: _Site) -> int:
    pods = site.raw("/api/v1/namespaces/shop/pods")["items"]
    mine = [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == "web"]
    return sum(pod["status"].get("phase") == "Running" for pod in mine)


@pytest.mark.parametrize("kind", BUILT_IN)
def test_scales_of_workloads_are_those_of_the_subresource(
    site: _Site, kind: tuple[str, str]
) -> None:
    root = "/apis/apps/v1" if kind[0] else "/api/v1"
    folder = f"{root}/namespaces/shop/{BUILT_IN[kind]}"
    decoder = WorkloadDecoder(*kind)
    items = site.raw(folder)["items"]
    names = {item["metadata"]["name"] for item in items}
    assert names >= {item["metadata"]["name"] for item in _WORKLOADS if item["kind"] == kind[1]}
    for item in items:
        found = decoder.decode(json.dumps(item).encode())
        name = item["metadata"]["name"]
        assert isinstance(found.key, ScaleKey)
        assert found.thing == read_scale(found.key, site.client.get(f"{folder}/{name}/scale"))
        assert isinstance(found.thing, ScaleObject)
        assert found.thing.selector != ""


def test_scales_of_other_kinds(site: _Site) -> None:
    status = {"status": {"replicas": 2, "selector": "app in (a,b)"}}
    path = "/apis/example.com/v1/namespaces/shop/clocks/tower"
    document = {**site.raw(path), **status}
    folder = Path(site.cluster.environment["KUBECONFIG"]).parent
    (folder / "clock.json").write_text(json.dumps(document))
    site.cluster.kubectl("replace", "--raw", f"{path}/status", "-f", str(folder / "clock.json"))
    key = ScaleKey("example.com", "Clock", "shop", "tower")
    found = read_scale_from(site.client, site.discovery, key, 5.0)
    assert found == ScaleObject(key, 3, 2, "app in (a,b)")


@pytest.mark.parametrize("name", _TARGETS)
def test_what_is_wrong_with_a_target_is_what_the_controller_says(site: _Site, name: str) -> None:
    key = target_key("shop", site.hpa(name).hpa.spec.scale_target_ref)
    if (key.group, key.kind) in BUILT_IN:
        scale = missing_scale(key)
    else:
        scale = bad_version(key) or read_scale_from(site.client, site.discovery, key, 5.0)
    expected = condition_message(codes.FAILED_GET_SCALE, scale.error)
    _until(lambda: site.message(name, "AbleToScale"), expected)


def test_metrics_through_the_aggregation_layer(site: _Site) -> None:
    site.control(
        {"cpu_pod_m": 73, "mem_pod": 123456789, "custom": {"shop/web/rps": 7},
         "external": {"queue": 19}}
    )  # fmt: skip
    before = site.client.requests.total
    answers, hpas = site.fetch(["cpu", "rps", "queue"])
    assert site.client.requests.total - before <= 3 + 3 + 1  # the HPAs, the metrics, discovery
    usage = response_to("shop", answers)
    assert usage is not None
    mine = {
        item.containers
        for item in usage.samples
        if isinstance(item, UsageSample) and item.pod.startswith("web-")
    }
    assert mine == {(ContainerUsage("c", 73, 123_456_789_000),)}
    assert {item.window_ms for item in usage.samples if isinstance(item, UsageSample)} == {30_000}
    (pods,) = (one for key, one in answers.items() if isinstance(key, PodMetricKey))
    values = [item for item in pods.samples if isinstance(item, PodSample)]
    assert [item.value_milli for item in values if item.pod.startswith("web-")] == [7000, 7000]
    (external,) = (one for key, one in answers.items() if isinstance(key, ExternalMetricKey))
    assert [item.value_milli for item in external.samples if isinstance(item, SeriesSample)] == [
        19_000
    ]
    assert len(hpas) == 3


_METRIC_KINDS = {
    "Resource": codes.RESOURCE_UTILIZATION,
    "Pods": codes.PODS_AVERAGE,
    "Object": codes.OBJECT_VALUE,
    "External": codes.EXTERNAL_AVERAGE,
}


def _expected(site: _Site, name: str) -> str:
    """Return the condition's message that our answer's error makes."""
    answers, (hpa,) = site.fetch([name])
    (metric,) = hpa.hpa.spec.metrics
    key = metric_key("shop", metric)
    answer = response_to(key or "shop", answers)
    assert answer is not None
    assert answer.error
    kind = _METRIC_KINDS[metric.type]
    failure = metric_failure(
        metric, kind, codes.METRIC_FETCH_FAILED, answer.error, "shop", _PROFILE
    )
    return condition_message(codes.FAILED_GET_RESOURCE_METRIC, failure.event)


def test_an_object_of_no_kind(site: _Site) -> None:
    _until(lambda: site.message("nowhere", "ScalingActive"), _expected(site, "nowhere"))


@pytest.mark.parametrize(("name", "asked"), [("object", "services"), ("space", "metrics")])
def test_object_metrics_that_are_not_served(site: _Site, name: str, asked: str) -> None:
    """The stub's 404 has a Status without a message: the controller's text ends there."""
    told, _, ours = _expected(site, name).partition("custom metrics API: ")
    _until(lambda: site.message(name, "ScalingActive"), f"{told}custom metrics API: ")
    words = f"the server could not find the requested resource (get {asked}.custom.metrics.k8s.io"
    assert ours.startswith(words)


_API_SERVICES = ["v1beta1.metrics.k8s.io", "v1beta1.custom.metrics.k8s.io",
                 "v1beta1.external.metrics.k8s.io"]  # fmt: skip


def test_metrics_that_vanish(site: _Site) -> None:
    """First nobody is behind the API, then it is no longer registered. The last test here."""
    down = ["bash", str(Path(os.environ[VARIABLE], "down.sh")), "metrics-stub"]
    subprocess.run(down, env=site.cluster.environment, capture_output=True, check=True)
    names = ["cpu", "rps", "queue"]
    for service in _API_SERVICES:
        site.cluster.kubectl(
            "wait", "--for=condition=Available=false", "--timeout=90s", f"apiservice/{service}"
        )
    _all_as_told(site, names)
    before = {name: _expected(site, name) for name in names}
    site.cluster.kubectl("delete", "apiservice", *_API_SERVICES)
    _until(lambda: [name for name in names if _expected(site, name) == before[name]], [])
    _all_as_told(site, names)


def _all_as_told(site: _Site, names: list[str]) -> None:
    for name in names:
        _until(partial(_difference, site, name), None)


def _difference(site: _Site, name: str) -> tuple[str, str] | None:
    """Return what the controller says and what we expect, both as of now, None: it is the same."""
    theirs, ours = site.message(name, "ScalingActive"), _expected(site, name)
    return None if theirs == ours else (theirs, ours)
