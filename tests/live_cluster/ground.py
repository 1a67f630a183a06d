"""The cluster under the script: upstream's 1.20.2 on loopback, or one that a kubeconfig names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.live_cluster.cases import CRD, GATES, STUB
from tests.live_cluster.scene import Stub
from tests.live_cluster.truth import POLICY
from tests.real.cluster import Cluster, missing, running_cluster

CONTROLLERS: Final = (
    "deployment,replicaset,statefulset,replicationcontroller,namespace,horizontalpodautoscaling"
)
FEATURE_GATES: Final = "HPAContainerMetrics=true,HPAScaleToZero=true"
CONTROLLER, AUDIT = "controller", "audit"
SKIPS: Final = {
    STUB: "metrics that can be set: the tests' own metrics server is not there",
    CONTROLLER: "agreement is reported, not required: the controller is not upstream's 1.20.2",
    AUDIT: "the replay at the controller's own instants: there is no audit log",
    GATES: "HPAs of alpha features: the gates of this API server are not ours to set",
    CRD: "a kind of its own with a scale: cluster-wide definitions are not ours to make",
}
"""Everything that may be left out, by name, and what that is."""
NO_CLUSTER: Final = "cluster"


@dataclass(frozen=True)
class Flags:
    """Flags of the controller under which both decide; times in seconds.

    A sync comes 1.1 s after the other, so that windows of whole seconds end between two.
    """

    sync_s: float = 1.1
    downscale_stabilization_s: float = 8.0
    cpu_initialization_s: float = 2.0
    initial_readiness_s: float = 60.0

    def named(self) -> dict[str, str]:
        """Return the flags by their names, without what all of them begin with."""
        seconds = {
            "sync-period": self.sync_s,
            "downscale-stabilization": self.downscale_stabilization_s,
            "cpu-initialization-period": self.cpu_initialization_s,
            "initial-readiness-delay": self.initial_readiness_s,
        }
        return {name: f"{value * 1000:.0f}ms" for name, value in seconds.items()}

    def controller(self) -> str:
        """Return the arguments of a controller; the limit of its requests is lifted."""
        prefix = "--horizontal-pod-autoscaler-"
        flags = [f"{prefix}{name}={value}" for name, value in self.named().items()]
        return " ".join([*flags, "--kube-api-qps=1000", "--kube-api-burst=1000"])


@dataclass(frozen=True)
class Ground:
    """A running cluster; `skipped` are names of SKIPS that it cannot do.

    `k8s` is the version whose rules its controller follows, None: as the server says;
    `environment` is the one that a cluster of our own was started in.
    """

    kubeconfig: Path
    flags: Flags
    k8s: str | None
    audit: Path | None
    stub: Stub | None
    skipped: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        return self.k8s is not None

    @property
    def gates(self) -> str:
        """The API server's feature gates, as hpabatch takes them."""
        return FEATURE_GATES if self.own else ""


def why_none() -> str:
    """Return why no cluster can be started here, "" if one can."""
    return missing()


@contextmanager
def own_cluster(folder: Path, flags: Flags) -> Iterator[Ground]:
    """Start upstream's 1.20.2 with the stub, and an audit log that is written at once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY)
    log = folder / "audit.log"
    log.unlink(missing_ok=True)
    api = (
        f"--audit-policy-file={folder}/policy.yaml --audit-log-path={log} "
        f"--audit-log-mode=blocking --audit-log-maxsize=100000 --feature-gates={FEATURE_GATES}"
    )
    up = ("--stub", "--fake-kubelet", "--controllers", CONTROLLERS)
    more = {"KCM_ARGS": flags.controller()}
    with running_cluster(folder, api, up, more) as cluster:
        yield Ground(
            Path(cluster.environment["KUBECONFIG"]), flags, "1.20", log, _stub(cluster, folder),
            (), cluster.environment,
        )  # fmt: skip


def _stub(cluster: Cluster, folder: Path) -> Stub:
    return Stub(int(cluster.environment["P_STUB"]), folder / "pki/ca.crt")


@contextmanager
def given_cluster(kubeconfig: str, sync_s: float) -> Iterator[Ground]:
    """Take a cluster as it is."""
    path = Path(os.path.expanduser(kubeconfig.split(os.pathsep)[0]))
    flags = Flags(sync_s, 300, 300, 30)
    yield Ground(path, flags, None, None, None, tuple(SKIPS))
