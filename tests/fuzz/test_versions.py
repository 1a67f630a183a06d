"""Every Kubernetes version beside the naive reference, on the cases that tell versions apart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.harness import decisions
from tests.reference.profiles import VERSIONS

Json = dict[str, Any]

_NOW = "2026-04-01T12:00:00Z"
_ERROR = "failed to get cpu resource metric value: failed to get cpu utilization: "


def external(name: str = "load", **target: str) -> Json:
    """Return an External metric; by default one replica per unit."""
    values = target or {"averageValue": "1"}
    kind = "AverageValue" if "averageValue" in values else "Value"
    return {
        "type": "External",
        "external": {"metric": {"name": name}, "target": {"type": kind, **values}},
    }


def cpu(percent: int) -> Json:
    """Return a cpu utilization metric."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def average_cpu(text: str) -> Json:
    """Return a cpu metric with an averageValue."""
    target = {"type": "AverageValue", "averageValue": text}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def described(**target: Any) -> Json:
    """Return an Object metric."""
    source = {
        "metric": {"name": "hits"},
        "describedObject": {"kind": "Service", "name": "main", "apiVersion": "v1"},
        "target": target,
    }
    return {"type": "Object", "object": source}


def pods(count: int, **more: Any) -> list[Json]:
    """Return pods that have been ready for a day."""
    ready = {"status": "True", "last_transition_time": "2026-03-31T12:00:10Z"}
    return [
        {
            "name": f"web-{index}",
            "phase": "Running",
            "deletion_timestamp": None,
            "start_time": "2026-03-31T12:00:00Z",
            "ready": ready,
            **more,
        }
        for index in range(count)
    ]


def samples(*usages: str | None, container: str = "app") -> Json:
    """Return samples of web-0, web-1, ...; None: that pod has none."""
    return {
        f"web-{index}": {
            "timestamp": _NOW,
            "window_s": 30,
            "containers": {container: {"cpu": usage, "memory": "1Mi"}},
        }
        for index, usage in enumerate(usages)
        if usage is not None
    }


def _pods(count: int, request: str | None = "100m", **more: Any) -> list[Json]:
    requests = {} if request is None else {"cpu": request}
    return pods(count, containers=[{"name": "app", "requests": requests}], **more)


def case_of(metric: Json, listed: list[Json], flags: Json | None = None, **more: Any) -> Json:
    """Return a calculator case in golden form."""
    return {
        "flags": {"tolerance": 0.1, **(flags or {})},
        "now": _NOW,
        "metric": metric,
        "spec_replicas": len(listed),
        "status_replicas": len(listed),
        "pods": listed,
        **more,
    }


def _container(**target: Any) -> Json:
    source = {"name": "cpu", "container": "app", "target": target}
    return {"type": "ContainerResource", "containerResource": source}


# Each row: what it is about, the case, the field that is looked at, and its value from each
# version on (in the order of the versions).
ROWS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "tolerance",  # 66 % of 60 % is 1.1, whose distance to 1 is more than 0.1
        {"metric": cpu(60), "listed": _pods(3), "pod_metrics": samples("66m", "66m", "66m")},
        "replicas",
        {"1.20": 4, "1.33": 3},
    ),
    (
        "own tolerance",
        {
            "metric": cpu(50),
            "listed": _pods(3),
            "pod_metrics": samples("60m", "60m", "60m"),
            "flags": {"scale_up_tolerance": "500m"},
        },
        "replicas",
        {"1.20": 4, "1.35": 3},
    ),
    (
        "a request is missing and nothing is ready",
        {
            "metric": cpu(50),
            "listed": _pods(1, None, deletion_timestamp=_NOW),
            "pod_metrics": samples("1m"),
        },
        "error",
        {
            "1.20": "failed to get cpu utilization: missing request for cpu",
            "1.23": "failed to get cpu utilization: did not receive metrics for any ready pods",
            "1.26": f"{_ERROR}did not receive metrics for any ready pods",
            "1.27": f"{_ERROR}did not receive metrics for targeted pods (pods might be unready)",
        },
    ),
    (
        "a missing request",
        {"metric": cpu(50), "listed": _pods(1, None), "pod_metrics": samples("1m")},
        "error",
        {
            "1.20": "failed to get cpu utilization: missing request for cpu",
            "1.26": f"{_ERROR}missing request for cpu in container app of Pod web-0",
        },
    ),
    (
        "missing pods under a target above 100 %",  # (10+100)/2 = 55 % or (10+200)/2 = 105 %
        {"metric": cpu(200), "listed": _pods(2), "pod_metrics": samples("10m")},
        "replicas",
        {"1.20": 1, "1.26": 2},
    ),
    (
        "a ratio of exactly 1 with missing pods",
        {"metric": average_cpu("10m"), "listed": _pods(2), "pod_metrics": samples("10m")},
        "replicas",
        {"1.20": 1, "1.28": 2},
    ),
    (
        "more entries than replicas on the way down",  # (5+5+5+10)/4 = 6m, ceil(0.6*4) = 3
        {
            "metric": average_cpu("10m"),
            "listed": _pods(4),
            "spec_replicas": 2,
            "pod_metrics": samples("5m", "5m", "5m"),
        },
        "replicas",
        {"1.20": 3, "1.21": 2},
    ),
    (
        "sidecars",
        {
            "metric": cpu(50),
            "listed": _pods(
                2,
                init_containers=[
                    {"name": "log", "requests": {"cpu": "100m"}, "restart_policy": "Always"}
                ],
            ),
            "pod_metrics": samples("100m", "100m"),
        },
        "current_average_utilization",
        {"1.20": 100, "1.29": 50},
    ),
    (
        "pod-level requests",
        {
            "metric": cpu(50),
            "listed": _pods(2, pod_requests={"cpu": "200m"}),
            "pod_metrics": samples("100m", "100m"),
        },
        "current_average_utilization",
        {"1.20": 100, "1.34": 50},
    ),
    (
        "a container that no pod has",
        {
            "metric": _container(type="Utilization", averageUtilization=50),
            "listed": pods(1, containers=[{"name": "other"}]),
            "pod_metrics": samples("1m"),
        },
        "condition_message",
        {
            "1.20": "the HPA was unable to compute the replica count: failed to get cpu "
            "utilization: no metrics returned matched known pods",
            "1.35": "the HPA was unable to compute the replica count: failed to get cpu "
            "utilization: container app not found in Pod web-0",
        },
    ),
    (
        "a sample without the container",
        {
            "metric": _container(type="AverageValue", averageValue="10m"),
            "listed": _pods(2),
            "pod_metrics": samples("10m") | {"web-1": samples(None, "1m", container="x")["web-1"]},
        },
        "error",
        {
            "1.20": "failed to get cpu utilization: unable to get metrics for resource cpu: failed "
            "to get container metrics: container app not present in metrics for pod default/web-1",
            "1.26": "failed to get app container metric value: failed to get cpu usage: unable to "
            "get metrics for resource cpu: failed to get container metrics: container app not "
            "present in metrics for pod default/web-1",
            "1.33": None,
        },
    ),
    (
        "the name of a container's utilization",
        {
            "metric": _container(type="Utilization", averageUtilization=50),
            "listed": _pods(1),
            "pod_metrics": samples("50m"),
        },
        "metric_name",
        {
            "1.20": "cpu resource utilization (percentage of request)",
            "1.27": "cpu container resource utilization (percentage of request)",
        },
    ),
    (
        "an external sum above int64, per pod",
        {
            "metric": external(),
            "listed": _pods(4),
            "external_values": ["9223372036854775807m", "1m"],
        },
        "replicas",
        {"1.20": -(2**31), "1.34": 2**31 - 1},
    ),
    (
        "an external sum above int64, as a value",
        {
            "metric": external(value="1"),
            "listed": _pods(4),
            "external_values": ["9223372036854775807m", "1m"],
        },
        "current_value_milli",
        {"1.20": -(2**63), "1.35": 2**63 - 1},
    ),
    (
        "a product above int32",
        {"metric": external(value="1m"), "listed": _pods(4), "external_values": ["3G"]},
        "replicas",
        {"1.20": -(2**31), "1.35": 2**31 - 1},
    ),
    (
        "an average above int64",
        {
            "metric": external(averageValue="1"),
            "listed": [],
            "status_replicas": 1,
            "external_values": ["9223372036854775807m"],
        },
        "current_average_value_milli",
        {"1.20": -(2**63), "1.34": 2**63 - 1},
    ),
    (
        "the same of an object",
        {
            "metric": described(type="AverageValue", averageValue="1"),
            "listed": [],
            "status_replicas": 1,
            "object_value": "9223372036854775807m",
        },
        "current_average_value_milli",
        {"1.20": -(2**63), "1.38": 2**63 - 1},
    ),
    (
        "finished pods on the way down",  # (10+10+100)/3 = 40 % of 50 %, or 10 %
        {
            "metric": cpu(50),
            "listed": [*_pods(2), {**_pods(1)[0], "name": "job", "phase": "Succeeded"}],
            "pod_metrics": samples("10m", "10m"),
        },
        "replicas",
        {"1.20": 3, "1.38": 1},
    ),
    (
        "memory is printed in binary",
        {
            "metric": {
                "type": "Resource",
                "resource": {
                    "name": "memory",
                    "target": {"type": "AverageValue", "averageValue": "1Mi"},
                },
            },
            "listed": _pods(1),
            "pod_metrics": samples("1m"),
        },
        "current_average_value",
        {"1.20": "1048576", "1.34": "1Mi"},
    ),
    (
        "the error of an average value",
        {"metric": average_cpu("1"), "listed": []},
        "condition_message",
        {
            "1.20": "the HPA was unable to compute the replica count: failed to get cpu "
            "utilization: unable to get metrics for resource cpu: no metrics returned from "
            "resource metrics API",
            "1.26": "the HPA was unable to compute the replica count: failed to get cpu usage: "
            "unable to get metrics for resource cpu: no metrics returned from resource metrics "
            "API",
        },
    ),
    (
        "the error of an object",
        {
            "metric": described(type="Value", value="1"),
            "listed": [],
            "metrics_error": "down",
        },
        "error",
        {
            "1.20": "failed to get object metric value: unable to get metric hits: Service on "
            "default main/unable to fetch metrics from custom metrics API: down",
            "1.37": "failed to get object metric value: unable to get metric hits on Service "
            "default/main: unable to fetch metrics from custom metrics API: down",
        },
    ),
    (
        "the error of an external metric",
        {"metric": external(), "listed": []},
        "error",
        {
            "1.20": "failed to get load external metric: unable to get external metric "
            "default/load/nil: no metrics returned from external metrics API",
            "1.26": "failed to get load external metric value: failed to get load external metric: "
            "unable to get external metric default/load/nil: no metrics returned from external "
            "metrics API",
        },
    ),
    (
        "an object's target of the wrong type",  # stored without its type before 1.27
        {
            "metric": described(type="Value", averageValue="1"),
            "listed": [],
            "object_value": "5",
        },
        "replicas",
        {"1.20": 5, "1.27": None},
    ),
]


@pytest.mark.parametrize(("about", "case", "shown", "expected"), ROWS, ids=[r[0] for r in ROWS])
def test_cases_that_tell_versions_apart(
    about: str, case: Json, shown: str, expected: dict[str, Any]
) -> None:
    value = None
    for k8s in VERSIONS:
        value = expected.get(k8s, value)
        ours, reference = decisions(case_of(**case), k8s)
        assert ours == reference, f"{about} in {k8s}"
        assert ours[0][shown] == value, f"{about} in {k8s}"
