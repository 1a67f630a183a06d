"""`hpabatch live --apply` while the storage of the API server is emptied.

The last file on a cluster that others share: afterwards nothing is as it was.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real.applying import Ground, Start, queue_metric
from tests.real.cluster import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
STUB = (
    "/api/v1/namespaces/kube-system/services/metrics-stub",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/metrics-stub",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/metrics-stub",
    *(
        f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{group}.k8s.io"
        for group in ("metrics", "custom.metrics", "external.metrics")
    ),
)
"""What makes the metrics server one of the cluster."""


@pytest.fixture
def ground(scaled: Ground) -> Ground:
    scaled.namespaces("lost", "taken")
    return scaled


def test_an_emptied_storage_is_survived(ground: Ground, start: Start, tmp_path: Path) -> None:
    """etcd begins anew with nothing; what is made again is scaled again, also with --take-over."""
    metric = queue_metric("10")  # other controllers may be slow to see their pods anew
    ground.deployment("lost", "web")
    ground.own_namespace("keepers")
    ground.app("taken", "web", metric)
    ground.levels(external={"queue": 60})
    documents = str(ground.document(tmp_path / "hpas", "lost", "web", metrics=[metric]))
    pair = [start("--manifests", documents) for _ in range(2)]
    taker = start("--take-over", "-n", "taken", "--own-namespace", "keepers")
    everyone = [*pair, taker]
    pair[0].until(lambda: ground.size("lost", "web") == 6)
    taker.until(lambda: ground.desired().get("taken/web") == 6)
    kept = [ground.writer.send("GET", path) for path in STUB]
    ground.writer.empty()
    for one in everyone:
        one.until_problem("apply switch", "the kill switch does not exist")
    written = [len(one.logged("will")) for one in everyone]
    time.sleep(3)
    assert [len(one.logged("will")) for one in everyone] == written
    for path, document in zip(STUB, kept, strict=True):
        document["metadata"] = {"name": document["metadata"]["name"]}
        document.pop("status", None)
        if "clusterIP" in document.get("spec", {}):
            del document["spec"]["clusterIP"]
        ground.writer.send("POST", path.rpartition("/")[0], document)
    ground.prepare("lost", "taken")
    ground.own_namespace("keepers")
    ground.deployment("lost", "web")
    ground.app("taken", "web", metric)
    pair[0].until(lambda: ground.size("lost", "web") == 6)
    assert sum(len(one.logged("will")) for one in pair) > sum(written[:2])
    taker.until(lambda: ground.size("taken", "web") == 6)
    taker.until(lambda: ground.desired().get("taken/web") == 6)
    for one in everyone:
        assert one.end()[0] == 0
