"""Tests of discovery: a server's groups and kinds, their age, and the words for absence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import Busy, InvalidResponse, NotFound, Refused
from tests.cluster.fake_api import FakeApi, Got, Wire, connected, serving


def group(*versions: str, preferred: str = "") -> object:
    return {
        "kind": "APIGroup", "versions": [{"version": one} for one in versions],
        "preferredVersion": {"version": preferred or versions[0]},
    }  # fmt: skip


def resources(**kinds: str) -> object:
    return {
        "kind": "APIResourceList",
        "resources": [
            {"name": name.replace("__", "/"), "kind": kind, "namespaced": True}
            for name, kind in kinds.items()
        ],
    }


SERVED: dict[str, object] = {
    "/version": {"gitVersion": "v1.36.1+k3s1", "major": "1", "minor": "36+"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": resources(pods="Pod", replicationcontrollers="ReplicationController",
                         replicationcontrollers__scale="Scale"),
    "/apis/autoscaling": group("v2", "v1"),
    "/apis/apps": group("v1"),
    "/apis/apps/v1": resources(
        deployments="Deployment", deployments__scale="Scale", daemonsets="DaemonSet"
    ),
    "/apis/things.example": group("v2", "v1", preferred="v1"),
    "/apis/things.example/v1": resources(old="Old"),
    "/apis/things.example/v2": resources(old="Old", new="New", new__status="New"),
    "/apis/custom.metrics.k8s.io": group("v1beta1", "v1beta2", preferred="v1beta2"),
}  # fmt: skip


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def discovering(folder: Path) -> Iterator[tuple[Discovery, dict[str, object], FakeApi, Time]]:
    served = dict(SERVED)

    def script(got: Got, wire: Wire) -> None:
        found = served.get(got.path)
        if isinstance(found, int):
            wire.reply(found)
        elif found is None:
            wire.reply(404, b"404 page not found", {"Content-Type": "text/plain"})
        else:
            wire.reply(200, found)

    with serving(script) as server, ApiClient(connected(folder, server.url)) as client:
        clock = Time()
        yield Discovery(client, fresh_s=100, absent_s=10, clock=clock), served, server, clock


def test_versions(tmp_path: Path) -> None:
    with discovering(tmp_path) as (found, served, _, clock):
        assert found.server_version() == "v1.36.1+k3s1"
        assert found.versions("things.example") == ("v1", "v2")
        assert found.versions("absent.example") == ()
        assert found.versions("") == ("v1",)
        assert found.hpa_version() == "v2"
        served["/apis/autoscaling"] = group("v1", "v2beta1", "v2beta2")
        clock.now = 100
        assert found.hpa_version() == "v2beta2"
        served["/apis/autoscaling"] = group("v9")
        clock.now = 200
        with pytest.raises(NotFound, match='"HorizontalPodAutoscaler" in group "autoscaling"'):
            found.hpa_version()


def test_custom_metrics(tmp_path: Path) -> None:
    with discovering(tmp_path) as (found, served, _, clock):
        assert found.custom_metrics_version() == "v1beta2"
        for document, told in (
            (group("v1beta1"), "v1beta1"),
            (group("v7", "v1beta1"), "v1beta1"),
            (group("v7"), "no known available metric versions found"),
            (None, "no custom metrics API (custom.metrics.k8s.io) registered"),
        ):
            served["/apis/custom.metrics.k8s.io"] = document
            clock.now += 100
            if told == "v1beta1":
                assert found.custom_metrics_version() == told
                continue
            with pytest.raises(NotFound) as caught:
                found.custom_metrics_version()
            assert caught.value.text == told


def test_what_is_not_there(tmp_path: Path) -> None:
    with discovering(tmp_path) as (found, _, _, _):
        for kind, where in (("Deployment", "extensions"), ("Nothing", "apps"), ("Scale", "apps")):
            with pytest.raises(NotFound) as caught:
                found.scale_resource(where, kind)
            assert caught.value.text == f'no matches for kind "{kind}" in group "{where}"'
        with pytest.raises(NotFound) as caught:
            found.metric_resource("apps", "Nothing")
        assert caught.value.text == (
            "unable to map kind Nothing.apps to resource: "
            'no matches for kind "Nothing" in group "apps"'
        )


def test_answers_are_kept_for_a_while(tmp_path: Path) -> None:
    with discovering(tmp_path) as (found, served, server, clock):
        for _ in range(3):
            found.scale_resource("apps", "Deployment")
            assert found.versions("absent.example") == ()
        assert len(server.got) == 3
        served["/apis/absent.example"] = group("v1")
        clock.now = 9
        assert found.versions("absent.example") == ()
        clock.now = 10
        assert found.versions("absent.example") == ("v1",)
        served["/apis/apps/v1"] = resources(deployments="Other")
        clock.now = 99
        found.scale_resource("apps", "Deployment")
        clock.now = 100
        with pytest.raises(NotFound):
            found.scale_resource("apps", "Deployment")


def test_what_was_said_last_counts_while_the_server_cannot_answer(tmp_path: Path) -> None:
    with discovering(tmp_path) as (found, served, _, clock):
        found.scale_resource("apps", "Deployment")
        served.update({"/apis/apps": 503, "/apis/apps/v1": 503, "/apis/new": 503})
        clock.now = 1000
        assert found.scale_resource("apps", "Deployment").name == "deployments"
        with pytest.raises(Busy):
            found.versions("new")
        served["/apis/new"] = []
        with pytest.raises(InvalidResponse):
            found.versions("new")
        served["/version"] = 403
        with pytest.raises(Refused):
            found.server_version()
