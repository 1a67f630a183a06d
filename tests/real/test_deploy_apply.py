"""deploy/apply/: a real API server takes the manifests, and their role suffices and is no wider."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main
import yaml

import hpabatch
from hpabatch.cli.app import app
from hpabatch.cli.live import live  # noqa: F401 - registers the command
from hpabatch.live.apply.rivals import silence_s
from tests.real.api_writes import Writer
from tests.real.applying import Applying, Ground
from tests.real.cluster import Cluster, missing

DEPLOY = Path(hpabatch.__file__).resolve().parent.parent / "deploy" / "apply"
FILES = ("namespace", "rbac", "switch", "deployment", "network")
"""disruption.yaml is of policy/v1, which Kubernetes 1.20 does not serve yet."""

needs_cluster = pytest.mark.skipif(bool(missing()), reason=missing())
DOES = [
    "update deployments.apps/scale", "update horizontalpodautoscalers.autoscaling/status",
    "create events",
]  # fmt: skip
DOES_NOT = [
    "get deployments.apps", "update deployments.apps", "patch deployments.apps",
    "patch deployments.apps/scale",
    "update horizontalpodautoscalers.autoscaling", "delete horizontalpodautoscalers.autoscaling",
    "create horizontalpodautoscalers.autoscaling", "delete pods", "create pods", "get secrets",
    "list secrets", "get configmaps", "update configmaps", "update leases.coordination.k8s.io",
    "create pods/exec", "delete events", "list leases.coordination.k8s.io",
    "list configmaps",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(scaled: Ground) -> Path:
    return scaled.writer.folder


@pytest.fixture(scope="module")
def deployed(scaled: Ground) -> Cluster:
    """Return a cluster with the manifests, whose roles are given to `scaler`."""
    cluster = scaled.writer.cluster
    for name in FILES:
        cluster.kubectl("apply", "-f", str(DEPLOY / f"{name}.yaml"))
    who = "--user=scaler"
    role = ["--clusterrole=hpabatch-apply", who]
    cluster.kubectl("create", "clusterrolebinding", "scaler-applies", *role)
    role = ["-n", "hpabatch", "--role=hpabatch-apply", who]
    cluster.kubectl("create", "rolebinding", "scaler-applies", *role)
    return cluster


@needs_cluster
def test_the_role_writes_what_the_loop_needs_and_no_more(deployed: Cluster, scaled: Ground) -> None:
    assert [what for what in DOES if not scaled.writer.may("scaler", what)] == []
    assert [what for what in DOES_NOT if scaled.writer.may("scaler", what)] == []


OWN = {
    "get configmaps/hpabatch-apply": "yes", "update configmaps/hpabatch-apply": "no",
    "update configmaps/hpabatch-ledger": "yes", "update configmaps/another": "no",
    "get configmaps/another": "no", "create configmaps": "yes", "delete configmaps": "no",
    "update leases.coordination.k8s.io/hpabatch-apply": "yes",
    "update leases.coordination.k8s.io/another": "no",
    "delete horizontalpodautoscalers.autoscaling/hpabatch-probe": "yes",
    "delete horizontalpodautoscalers.autoscaling/another": "no",
    "update horizontalpodautoscalers.autoscaling/hpabatch-probe": "no",
}  # fmt: skip


@needs_cluster
def test_in_its_namespace_the_role_changes_only_its_own_objects(
    deployed: Cluster, scaled: Ground
) -> None:
    for what, answer in OWN.items():
        resource, _, name = what.partition("/")
        may = scaled.writer.may("scaler", resource, "hpabatch", name=name)
        assert may == (answer == "yes"), what


@needs_cluster
def test_with_this_role_alone_targets_are_scaled(
    deployed: Cluster, folder: Path, tmp_path: Path
) -> None:
    """Also bound in one namespace only, as docs/live-apply.md has it for -n."""
    ground = Ground(Writer(deployed))
    ground.writer.namespace("shop")
    ground.app("shop", "web")
    ground.deployment("shop", "own")
    ground.levels(cpu_total_m={"shop/web": 300, "shop/own": 300})
    documents = ground.document(tmp_path / "hpas", "shop", "own")
    login = folder / "scaler.kubeconfig"
    _scales(Applying(tmp_path / "own", login, "--manifests", str(documents), *PLACE), ground, "own")
    role = ["--clusterrole=hpabatch-apply", "--user=scaler"]
    deployed.kubectl("delete", "clusterrolebinding", "scaler-applies")
    deployed.kubectl("create", "rolebinding", "scaler-applies", "-n", "shop", *role)
    one = Applying(tmp_path / "web", login, "--take-over", "-n", "shop", *PLACE)
    _scales(one, ground, "web")
    deployed.kubectl("create", "clusterrolebinding", "scaler-applies", *role)


PLACE = ("--own-namespace", "hpabatch")


def _scales(one: Applying, ground: Ground, name: str) -> None:
    """See a target scaled and told of; nothing that is told or logged is a refusal."""
    try:
        one.until(lambda: ground.size("shop", name) == 6)
        if name == "web":
            one.until(lambda: ground.desired()["shop/web"] == 6)
            one.until(lambda: bool(ground.events("shop", "web")))
        assert one.end()[0] == 0
        assert not [line for line in one.lines if "forbidden" in line.get("text", "")]
        assert one.logged("failed") == []
    finally:
        one.kill()


@needs_cluster
def test_applying_the_switch_again_leaves_it_on(deployed: Cluster) -> None:
    patch = ["patch", "configmap", "hpabatch-apply", "-n", "hpabatch", "-p"]
    deployed.kubectl(*patch, '{"data": {"stop": "true"}}')
    deployed.kubectl("apply", "-f", str(DEPLOY / "switch.yaml"))
    shown = deployed.kubectl("get", "configmap", "hpabatch-apply", "-n", "hpabatch", "-o", "yaml")
    assert yaml.safe_load(shown)["data"] == {"stop": "true"}


@needs_cluster
def test_the_kustomization_is_applied_as_a_whole(deployed: Cluster) -> None:
    """But for its disruption budget's version: that of 1.20 has the same fields."""
    told = deployed.try_kubectl("apply", "-f", str(DEPLOY / "disruption.yaml"), "--dry-run=server")
    assert 'no matches for kind "PodDisruptionBudget" in version "policy/v1"' in told.stderr
    whole = deployed.kubectl("kustomize", str(DEPLOY))
    deployed.kubectl("apply", "-f", "-", stdin=whole.replace("policy/v1\n", "policy/v1beta1\n"))
    budget = deployed.kubectl("get", "pdb", "hpabatch-apply", "-n", "hpabatch", "-o", "yaml")
    assert yaml.safe_load(budget)["spec"]["minAvailable"] == 1


def test_the_arguments_are_options_and_scale_nothing_yet() -> None:
    documents = yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text())
    deployment = next(iter(documents))
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = typer.main.get_command(app).commands["live"]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= options
    assert "--dry-run" in container["args"]


def test_a_rollout_keeps_the_pods_that_may_write_until_others_may() -> None:
    spec = next(iter(yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text())))["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert spec["minReadySeconds"] > silence_s(15)
    assert spec["progressDeadlineSeconds"] > spec["replicas"] * spec["minReadySeconds"]


def test_every_file_is_in_the_kustomization() -> None:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    there = {path.name for path in DEPLOY.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed) == there
    assert there == {f"{name}.yaml" for name in (*FILES, "disruption")}
