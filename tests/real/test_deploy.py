"""deploy/: a real API server takes the manifests, and their role reads all and changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import hpabatch
from hpabatch._prebuild import all_kernels, build
from hpabatch.cli.app import app
from hpabatch.cli.live import live  # noqa: F401 - registers the command
from hpabatch.cli.what_if import sweep  # noqa: F401 - registers the command
from hpabatch.errors import (
    HistoryError,
    HpabatchError,
    RefusedError,
    UnfinishedError,
    UsageError,
)
from tests.live.metric_catalogue import CATALOGUE, exposed
from tests.real import prometheus
from tests.real.applying import Ground
from tests.real.cluster import Cluster, missing

DEPLOY = Path(hpabatch.__file__).resolve().parent.parent / "deploy"
USER = 65532  # of the image

needs_cluster = pytest.mark.skipif(bool(missing()), reason=missing())
needs_promtool = pytest.mark.skipif(bool(prometheus.missing()), reason=prometheus.missing())

READS = [
    "list horizontalpodautoscalers.autoscaling",
    "watch horizontalpodautoscalers.autoscaling",
    *(
        f"{verb} {resource}"
        for verb in ("list", "watch")
        for resource in (
            "pods", "replicationcontrollers", "deployments.apps", "statefulsets.apps",
            "replicasets.apps",
        )
    ),
    "get deployments.apps/scale",
    "get replicationcontrollers/scale",
    "list pods.metrics.k8s.io",
]  # fmt: skip
NOT = [
    "update deployments.apps/scale",
    "patch deployments.apps/scale",
    "patch deployments.apps",
    "update horizontalpodautoscalers.autoscaling/status",
    "create events",
    "delete pods",
    "get secrets",
    "list secrets",
    "list configmaps",
    "get pods/log",
    "create pods/exec",
    "list nodes",
]
METRICS = [
    "/apis/metrics.k8s.io/v1beta1/pods",
    "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/rps",
    "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/services/web/rps",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/metrics/rps",
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue",
]
DISCOVERY = ["/version", "/api", "/apis", "/apis/apps/v1", "/apis/custom.metrics.k8s.io"]


@pytest.fixture(scope="module")
def folder(scaled: Ground) -> Path:
    return scaled.writer.folder


@pytest.fixture(scope="module")
def deployed(scaled: Ground, folder: Path) -> Iterator[Cluster]:
    """Yield a cluster to which the manifests were applied, and their role given to `scaler`."""
    cluster = scaled.writer.cluster
    assert "Forbidden" in _as_scaler(cluster, folder, "get", "--raw", "/api/v1/pods").stderr
    cluster.kubectl("apply", "-k", str(DEPLOY))
    role = ["--clusterrole=hpabatch-reader", "--user=scaler"]
    cluster.kubectl("create", "clusterrolebinding", "scaler-reads", *role)
    yield cluster
    cluster.kubectl("delete", "clusterrolebinding", "scaler-reads")


def _as_scaler(cluster: Cluster, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.try_kubectl(f"--kubeconfig={folder / 'scaler.kubeconfig'}", *arguments)


@needs_cluster
def test_the_server_takes_the_manifests_as_they_are(deployed: Cluster) -> None:
    again = deployed.kubectl("apply", "-k", str(DEPLOY)).splitlines()
    assert len(again) == 6
    assert all(line.endswith(" unchanged") for line in again), again
    deployed.kubectl("apply", "-k", str(DEPLOY), "--dry-run=server")
    wait = ["rollout", "status", "deployment/hpabatch", "-n", "hpabatch", "--timeout=60s"]
    assert "successfully rolled out" in deployed.kubectl(*wait)


@needs_cluster
def test_the_server_takes_the_manifests_of_workers(deployed: Cluster) -> None:
    deployed.kubectl("apply", "-k", str(DEPLOY / "dask"))
    line = ["create", "--dry-run=server", "-f", str(DEPLOY / "dask" / "job.yaml"), "-o", "json"]
    # This server is older than the policy: its kubectl refuses that field, and no other one.
    refused = deployed.try_kubectl(*line).stderr
    assert re.findall(r'unknown field "(\w+)"', refused) == ["podFailurePolicy"], refused
    made = json.loads(deployed.kubectl(*line, "--validate=false"))
    (job,) = _documents("dask/job.yaml")
    del job["spec"]["podFailurePolicy"]
    assert _within(job, made)


def _within(part: Any, whole: Any) -> bool:
    """Whether an object has all that a manifest says."""
    if isinstance(part, dict):
        return all(name in whole and _within(value, whole[name]) for name, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(_within, part, whole))
    return bool(part == whole)


def test_the_job_repeats_what_passes_alone() -> None:
    """The policy has the fields of the API (1.26 or newer), and the exit codes of errors."""
    (job,) = _documents("dask/job.yaml")
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # (the API demands it)
    for rule in spec["podFailurePolicy"]["rules"]:
        assert rule.keys() <= {"action", "onExitCodes", "onPodConditions"}
    ignored, failing = spec["podFailurePolicy"]["rules"]
    assert ignored == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    codes = failing["onExitCodes"]
    assert codes.keys() <= {"containerName", "operator", "values"}
    assert (failing["action"], codes["operator"]) == ("FailJob", "In")
    assert codes["containerName"] == container["name"]
    errors = (HpabatchError, UsageError, HistoryError, RefusedError)
    assert set(codes["values"]) == {error.exit_code for error in errors}
    assert UnfinishedError.exit_code not in codes["values"]


def test_the_arguments_of_the_job_are_options_of_its_command() -> None:
    (job,) = _documents("dask/job.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command = typer.main.get_command(app).commands[container["command"][1]]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= options


def test_the_operator_starts_the_pods_of_the_plain_manifests() -> None:
    """The DaskCluster was checked once with the operator 2026.3.0, which made equal Deployments."""
    (found,) = _documents("dask/daskcluster.yaml")
    service, scheduler = _documents("dask/scheduler.yaml")
    (worker,) = _documents("dask/workers.yaml")
    for own, plain in ((found["spec"]["scheduler"], scheduler), (found["spec"]["worker"], worker)):
        template = plain["spec"]["template"]
        assert own["spec"] == template["spec"]
        assert own["metadata"] == template["metadata"]
    assert found["spec"]["worker"]["replicas"] == worker["spec"]["replicas"]
    assert found["spec"]["scheduler"]["service"]["ports"] == service["spec"]["ports"]
    assert service["metadata"]["name"] == f"{found['metadata']['name']}-scheduler"
    assert found["metadata"]["namespace"] == worker["metadata"]["namespace"]


def _documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@needs_cluster
def test_the_pod_is_locked_down(deployed: Cluster) -> None:
    (pod,) = json.loads(deployed.kubectl("get", "pods", "-n", "hpabatch", "-o", "json"))["items"]
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert spec["securityContext"] == {
        "fsGroup": USER, "runAsGroup": USER, "runAsNonRoot": True, "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }  # fmt: skip
    assert spec["serviceAccountName"] == "hpabatch"
    written = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert written >= {"/tmp", "/var/lib/hpabatch"}
    for argument in container["args"]:
        if "=/" in argument:
            assert argument.split("=/")[1].startswith("var/lib/hpabatch/")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"--metrics-addr=:{ports['metrics']}" in container["args"]


@needs_cluster
def test_the_role_reads_what_the_loop_needs_and_does_no_more(
    deployed: Cluster, scaled: Ground
) -> None:
    assert [what for what in READS if not scaled.writer.may("scaler", what)] == []
    assert [what for what in NOT if scaled.writer.may("scaler", what)] == []


@needs_cluster
@pytest.mark.parametrize("path", METRICS + DISCOVERY)
def test_the_metrics_apis_let_it_in(deployed: Cluster, folder: Path, path: str) -> None:
    """A metric may not be there: that is an answer, and no refusal."""
    done = _as_scaler(deployed, folder, "get", "--raw", path)
    assert done.returncode == 0 or "NotFound" in done.stderr, done.stderr


@needs_cluster
def test_there_is_no_verb_that_changes_anything(deployed: Cluster, folder: Path) -> None:
    lines = _as_scaler(deployed, folder, "auth", "can-i", "--list").stdout.splitlines()[1:]
    # Every user may ask what it may do.
    rules = [line for line in lines if not line.startswith("selfsubject")]
    verbs = {verb for line in rules for verb in re.findall(r"\[([^\]]*)\]$", line)[0].split()}
    assert verbs == {"get", "list", "watch"}
    assert len(rules) > 10


@needs_cluster
def test_a_read_of_a_scale_succeeds_and_a_write_is_refused(deployed: Cluster, folder: Path) -> None:
    path = "/apis/apps/v1/namespaces/hpabatch/deployments/hpabatch/scale"
    scale = json.loads(_as_scaler(deployed, folder, "get", "--raw", path).stdout)
    assert scale["spec"]["replicas"] == 1
    words = ["scale", "deployment/hpabatch", "-n", "hpabatch", "--replicas=2"]
    refused = _as_scaler(deployed, folder, *words)
    assert refused.returncode != 0
    assert "orbidden" in refused.stderr


@needs_promtool
def test_the_alerts_are_rules_over_metrics_that_there_are() -> None:
    done = subprocess.run(
        [prometheus.program("promtool"), "check", "rules", DEPLOY / "alerts.yaml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    names = {exposed(metric) for metric in CATALOGUE}
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        used = set(re.findall(r"(?:hpabatch|horizontal_pod)_\w+", rule["expr"]))
        assert used, rule["alert"]
        assert used <= names


@needs_promtool
def test_who_may_write_alerts_in_these_cases(tmp_path: Path) -> None:
    cases: dict[str, tuple[list[tuple[str, str, int | None]], set[str]]] = {
        "dry run": ([("hpabatch", "east", None), ("hpabatch", "east", None)], set()),
        "nobody": ([("hpabatch", "east", 0), ("hpabatch", "east", 0)], {"HpabatchNobodyScales"}),
        "one": ([("hpabatch", "east", 1), ("hpabatch", "east", 0)], set()),
        "leases in two namespaces": (
            [("team-a", "east", 1), ("team-b", "east", 1)], {"HpabatchTwoScale"}
        ),
        "of two clusters": ([("hpabatch", "east", 1), ("hpabatch", "west", 1)], set()),
    }  # fmt: skip
    tests = []
    for name, (instances, fire) in cases.items():
        series = []
        for number, (namespace, cluster, leads) in enumerate(instances):
            target = f'job="hpabatch",namespace="{namespace}",instance="{number}"'
            series.append(
                {"series": f'hpabatch_info{{{target},cluster="{cluster}"}}', "values": "1+0x20"}
            )
            if leads is not None:
                gauge = f"hpabatch_apply_leads{{{target}}}"
                series.append({"series": gauge, "values": f"{leads}+0x20"})
        said = [
            {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
             "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": int(alert in fire)}]}
            for alert in ("HpabatchNobodyScales", "HpabatchTwoScale")
        ]  # fmt: skip
        tests.append(
            {"name": name, "interval": "1m", "input_series": series, "promql_expr_test": said}
        )
    file = tmp_path / "alerts.yaml"
    file.write_text(json.dumps({"rule_files": [str(DEPLOY / "alerts.yaml")], "tests": tests}))
    done = subprocess.run(
        [prometheus.program("promtool"), "test", "rules", file],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_arguments_are_options_of_the_command() -> None:
    documents = yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text())
    (container,) = next(iter(documents))["spec"]["template"]["spec"]["containers"]
    command = typer.main.get_command(app).commands["live"]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= options


def test_the_containerfile_is_of_these_manifests() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert f"USER {USER}:{USER}" in text
    for path in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for part in path.split():
            assert (DEPLOY.parent / part).exists(), part
    assert "-m hpabatch._prebuild" in text
    assert 'ENTRYPOINT ["/opt/hpabatch/bin/hpabatch", "live", "--in-cluster"]' in text


def _builder() -> str:
    """Return the name of a builder of images that works here, "" if there is none."""
    for name in ("podman", "docker", "buildah"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True, check=False).returncode
        ):
            return name
    return ""


def test_the_image_builds() -> None:
    """As docs/live-apply.md says; with buildah it is built and not run."""
    builder = _builder()
    if not builder:
        pytest.skip("no builder of container images works here")
    image = ["-t", "hpabatch:test", str(DEPLOY.parent)]
    build = [builder, "build", "-f", str(DEPLOY / "Containerfile"), *image]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
    if builder != "buildah":
        line = [builder, "run", "--rm", "hpabatch:test", "--help"]
        said = subprocess.run(line, capture_output=True, text=True, check=False)
        assert (said.returncode, "--in-cluster" in said.stdout) == (0, True), said.stderr


def _as_image_user(site: Path, code: str) -> list[str]:
    """Return the command that runs code as the image's user, who can write nothing here."""
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    keep = [f"PYTHONPATH={site}:{_dependencies()}", "HOME=/nowhere"]
    who = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*who, "env", "-i", *keep, "PYTHONDONTWRITEBYTECODE=1", python, "-c", code]


def _dependencies() -> Path:
    import numba

    return Path(numba.__file__).parent.parent


def _cannot_be_user() -> str:
    """Return why nothing can be run as the image's user here, "" if it can."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "not root, or no setpriv: the image's user cannot be taken"
    command = _as_image_user(Path(), "import numba")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return f"user {USER} finds no Python {sys.version_info.minor} with these packages here"
    return ""


_RUN = """
from hpabatch import _code
from hpabatch._prebuild import all_kernels
_code._compiled = None  # (nothing is compiled)
print(sum(callable(kernel.code) for kernel in all_kernels()))
"""


@pytest.mark.compiled
def test_what_the_image_compiled_is_used_where_it_cannot_be_written() -> None:
    """The image's steps without a container: built, installed, then run by its user."""
    why = _cannot_be_user()
    if why:
        pytest.skip(why)
    with tempfile.TemporaryDirectory() as name:
        site = Path(name)
        site.chmod(0o755)
        left_out = shutil.ignore_patterns("__pycache__", "_kernels")
        shutil.copytree(Path(hpabatch.__file__).parent, site / "hpabatch", ignore=left_out)
        build(site / "hpabatch" / "_kernels")
        run = subprocess.run(
            _as_image_user(site, _RUN), cwd=site, capture_output=True, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) == len(all_kernels())
