"""`kubectl get hpa` and `describe hpa` beside the real ones of 1.20.2 and newer.

The same objects go into a real API server; what kubectl prints of them must be what we print,
to the byte: ages too, at one of the instants between the start and the end of its call. The table
of `get` is made by the server, here 1.20.2, so only `describe` is held against newer programs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpabatch.model.messages import COMPONENT, Event
from hpabatch.model.objects.decode_fields import Fields, Problem
from hpabatch.model.objects.decode_legacy import cpu_metric_statuses, read_metric_statuses
from hpabatch.model.objects.hpa import HPA, MetricStatus
from hpabatch.report.kubectl import describe_text, get_rows, get_table
from tests.real.cluster import NEWER_KUBECTLS, Cluster, missing, newer_kubectl
from tests.real.kubectl_objects import EVENTS, METADATA, OBJECTS, Json
from tests.real.server_hpas import (
    NAMESPACE,
    as_list,
    document,
    read_item,
    stored,
    write_status,
)

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
STEP_MS = 50


@pytest.fixture(scope="module")
def cluster(empty_cluster: Cluster) -> Cluster:
    documents = {
        name: document(name, spec, METADATA.get(name)) for name, (spec, _) in OBJECTS.items()
    }
    empty_cluster.kubectl("create", "-f", "-", stdin=as_list(documents.values()))
    for name, (_, status) in OBJECTS.items():
        if status is not None:
            write_status(empty_cluster, documents[name], status)
    return empty_cluster


@pytest.fixture(scope="module")
def events(cluster: Cluster) -> dict[str, list[Event]]:
    """Put the events into the API; their times hang on that of the test."""
    now_s = int(time.time())
    uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in stored(cluster)}
    objects: list[Json] = []
    found: dict[str, list[Event]] = {}
    for name, items in EVENTS.items():
        for kind, reason, message, first, last, count in items:
            event = Event(
                kind, reason, message, 1000 * (now_s - first), 1000 * (now_s - last), count
            )
            found.setdefault(name, []).append(event)
            objects.append(event_document(event, name, uids[name], len(objects)))
    cluster.kubectl("create", "-f", "-", stdin=as_list(objects))
    return found


def event_document(event: Event, name: str, uid: str, number: int) -> Json:
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": f"{name}.{number}", "namespace": NAMESPACE},
        "involvedObject": {
            "kind": "HorizontalPodAutoscaler", "namespace": NAMESPACE, "name": name, "uid": uid,
            "apiVersion": "autoscaling/v2beta2",
        },
        "type": event.type, "reason": event.reason, "message": event.message,
        "count": event.count, "source": {"component": COMPONENT},
        "firstTimestamp": show_time(event.first_ms), "lastTimestamp": show_time(event.last_ms),
    }  # fmt: skip


def show_time(time_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ms // 1000))


def decode(item: Json, version: str) -> HPA:
    """Return an item of a list as the HPA that it is, with its metric statuses."""
    hpa, _ = read_item(item, version)
    found = statuses(item, f"autoscaling/{version}")
    return replace(hpa, status=replace(hpa.status, current_metrics=found))


def statuses(item: Json, version: str) -> tuple[MetricStatus, ...] | None:
    problems: list[Problem] = []
    metrics = item["status"].get("currentMetrics")
    if version == "autoscaling/v1":
        text = item["metadata"].get("annotations", {}).get(CURRENT_METRICS)
        if text is None:
            return cpu_metric_statuses(item["status"].get("currentCPUUtilizationPercentage"))
        metrics = json.loads(text)
    read = Fields({"list": metrics}, "", problems).children("list")
    assert not problems
    return None if read is None else read_metric_statuses(read, version)


def same_at_some_instant(call: Callable[[], str], ours: Callable[[int], str]) -> None:
    """Compare what kubectl prints with ours at the instants of its call."""
    for _ in range(3):  # a second may end between two ages that it prints
        before = round(time.time() * 1000)
        theirs = call()
        after = round(time.time() * 1000)
        if any(ours(now_ms) == theirs for now_ms in (*range(before, after, STEP_MS), after)):
            return
    assert ours(after) == theirs


@pytest.mark.parametrize("all_namespaces", [False, True])
def test_get(cluster: Cluster, all_namespaces: bool) -> None:
    hpas = [decode(item, "v2beta2") for item in stored(cluster)]
    assert len(hpas) == len(OBJECTS)
    where = ("-A",) if all_namespaces else ("-n", NAMESPACE)

    def ours(now_ms: int) -> str:
        return get_table(get_rows(hpas, now_ms, k8s="1.20"), all_namespaces)

    same_at_some_instant(lambda: cluster.kubectl("get", "hpa", *where), ours)


def test_describe_of_one(cluster: Cluster, events: dict[str, list[Event]]) -> None:
    """To the last byte; all of them are described below."""
    (item,) = (item for item in stored(cluster) if item["metadata"]["name"] == "five")
    hpa = decode(item, "v2beta2")

    def ours(now_ms: int) -> str:
        return describe_text(hpa, events["five"], now_ms, k8s="1.20")

    same_at_some_instant(lambda: cluster.kubectl("describe", "hpa", "-n", NAMESPACE, "five"), ours)


def program_of(version: str) -> Path | None:
    """Return the kubectl of a version, None: the server's own."""
    program = None if version == "1.20" else newer_kubectl(version)
    if program is None and version != "1.20":
        pytest.skip(f"no kubectl.{version} on the PATH or beside the installed kubectl")
    return program


@pytest.fixture(scope="module", params=NEWER_KUBECTLS)
def newer(request: pytest.FixtureRequest) -> Path | None:
    return program_of(str(request.param))


@pytest.mark.parametrize("version", ["1.20", *NEWER_KUBECTLS])
def test_describe(cluster: Cluster, events: dict[str, list[Event]], version: str) -> None:
    """All HPAs are described by one call, which takes them in the order of their names."""
    program = program_of(version)
    before = round(time.time() * 1000)
    text = cluster.kubectl("describe", "hpa", "-n", NAMESPACE, program=program)
    instants = (*range(before, round(time.time() * 1000), STEP_MS), round(time.time() * 1000))
    theirs = re.split(r"\n\n(?=Name: )", text)
    hpas = [decode(item, "v2beta2") for item in stored(cluster)]
    assert len(theirs) == len(hpas) == len(OBJECTS)
    for hpa, their in zip(hpas, theirs, strict=True):
        found = events.get(hpa.name, ())
        ours = {describe_text(hpa, found, now_ms, k8s=version) for now_ms in instants}
        assert any(text.rstrip("\n") == their.rstrip("\n") for text in ours), (their, ours)


@pytest.mark.parametrize("version", ["v1", "v2beta1", "v2"])
def test_every_version_is_read_alike(cluster: Cluster, version: str) -> None:
    for item, other in zip(stored(cluster), stored(cluster, version), strict=True):
        read, expected = decode(other, version), decode(item, "v2beta2")
        assert read.status.current_metrics == expected.status.current_metrics, read.name
        read = replace(read, spec=expected.spec)  # v2beta1 forgets a metric's container
        shown = [describe_text(hpa, (), 0, k8s="1.20") for hpa in (read, expected)]
        assert shown[0] == shown[1]
