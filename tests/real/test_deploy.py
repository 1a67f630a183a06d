"""deploy/: a real API server takes the manifests, and their role reads all and changes nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import hpabatch
from hpabatch.cli.advise import sweep  # noqa: F401 - registers the command
from hpabatch.cli.app import app
from hpabatch.cli.live import live  # noqa: F401 - registers the command
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
    "get pods.custom.metrics.k8s.io/rps",
    "get services.custom.metrics.k8s.io/rps",
    "get metrics.custom.metrics.k8s.io/rps",
    "list queue.external.metrics.k8s.io",
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
def test_there_is_no_verb_that_changes_anything(deployed: Cluster, folder: Path) -> None:
    lines = _as_scaler(deployed, folder, "auth", "can-i", "--list").stdout.splitlines()[1:]
    # Every user may ask what it may do.
    rules = [line for line in lines if not line.startswith("selfsubject")]
    verbs = {verb for line in rules for verb in re.findall(r"\[([^\]]*)\]$", line)[0].split()}
    assert verbs == {"get", "list", "watch"}
    assert len(rules) > 10


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
