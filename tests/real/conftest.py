"""One API server for the tests of all files that need no controllers: to start it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.cluster import Cluster
from tests.real.server_hpas import delete_all, hpa_cluster


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with hpa_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def empty_cluster(api_server: Cluster) -> Iterator[Cluster]:
    """Yield an API server without HPAs; those that are made are deleted at the file's end."""
    yield api_server
    delete_all(api_server)
