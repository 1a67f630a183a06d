"""Clusters for the tests of all files that do them no harm: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.api_writes import Writer
from tests.real.applying import KCM_ARGS, Applying, Ground, Start
from tests.real.cluster import Cluster, running_cluster
from tests.real.server_hpas import delete_all, hpa_cluster

SCALED = ["--stub", "--fake-kubelet", "--controllers", "deployment,replicaset"]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with hpa_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def empty_cluster(api_server: Cluster) -> Iterator[Cluster]:
    """Yield an API server without HPAs; those that are made are deleted at the file's end."""
    yield api_server
    delete_all(api_server)


@pytest.fixture(scope="session")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Yield a cluster with pods of Deployments, and with no controller of HPAs."""
    with running_cluster(tmp_path_factory.mktemp("scaled"), flags=SCALED) as cluster:
        found = Ground(Writer(cluster))
        found.prepare()
        yield found


@pytest.fixture(scope="session")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Yield one with upstream's controller of HPAs, and an audit log that lacks nothing."""
    flags = [*SCALED[:-1], f"{SCALED[-1]},horizontalpodautoscaling", "--audit"]
    folder, audit = tmp_path_factory.mktemp("controlled"), "--audit-log-mode=blocking"
    with running_cluster(folder, audit, flags, {"KCM_ARGS": KCM_ARGS}) as cluster:
        found = Ground(Writer(cluster))
        found.prepare()
        yield found


@pytest.fixture
def start(ground: Ground, tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts an instance on the file's cluster; it is ended with the test."""
    started: list[Applying] = []

    def begin(*more: str, kubeconfig: Path | None = None, **settings: Any) -> Applying:
        login = kubeconfig or ground.writer.folder / "kubeconfig"
        started.append(Applying(tmp_path / f"instance{len(started)}", login, *more, **settings))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
