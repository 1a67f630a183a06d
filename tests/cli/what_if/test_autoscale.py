"""`hpabatch autoscale` at the command line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from hpabatch.errors import EXIT_OK, ManifestError, RefusedError, UsageError
from hpabatch.model.objects.decode import decode_hpa
from tests.cli.commands import invoke

MANIFEST = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  namespace: shop
spec:
  maxReplicas: 20
  metrics:
  - resource:
      name: cpu
      target:
        averageUtilization: 70
        type: Utilization
    type: Resource
  - resource:
      name: memory
      target:
        averageValue: 500Mi
        type: AverageValue
    type: Resource
  minReplicas: 2
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"
STATEFUL_SET = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\n"
FLAGS = ["--cpu", "70%", "--memory", "500", "--min", "2", "--max", "20"]


run = partial(invoke, "autoscale")


@pytest.mark.parametrize("target", [["deployment/web"], ["deploy", "web"]])
def test_yaml(target: list[str]) -> None:
    result = run(*target, *FLAGS, "-n", "shop")
    assert (result.exit_code, result.stdout, result.stderr) == (EXIT_OK, MANIFEST, "")


def test_the_target_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(DEPLOYMENT)
    assert run("-f", str(path), *FLAGS).stdout == MANIFEST
    assert run("-f", "-", *FLAGS, stdin=DEPLOYMENT).stdout == MANIFEST


def test_several_targets_are_several_documents() -> None:
    text = run(
        "-f", "-", "--max", "3", stdin=f"# both\n---\n{DEPLOYMENT}---\n{STATEFUL_SET}"
    ).stdout
    assert text.count("---\n") == 1
    assert [item["metadata"]["name"] for item in yaml.safe_load_all(text)] == ["web", "db"]
    document = json.loads(run("deploy", "a", "b", "--max", "3", "-o", "json").stdout)
    assert document["kind"] == "List"
    assert [item["metadata"]["name"] for item in document["items"]] == ["a", "b"]


def test_json() -> None:
    text = run("rc/web", "--max", "3", "--output", "json").stdout
    document = json.loads(text)
    assert list(document) == ["kind", "apiVersion", "metadata", "spec"]
    assert document["spec"] == {
        "scaleTargetRef": {"kind": "ReplicationController", "name": "web", "apiVersion": "v1"},
        "maxReplicas": 3,
    }
    assert text.startswith('{\n    "kind": ')


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("name", ["web", "on", "1e3", "0x10", "3.5"])
def test_validate_takes_what_it_prints(form: str, name: str) -> None:
    text = run("deploy", name, *FLAGS, "--output", form).stdout
    result = invoke("validate", "--strict", "-", stdin=text)
    assert result.exit_code == EXIT_OK, result.stderr
    hpa, problems = decode_hpa(json.loads(text) if form == "json" else yaml.safe_load(text))
    assert not problems
    assert (hpa.name, hpa.spec.scale_target_ref.name) == (name, name)


def test_what_is_told_on_stderr() -> None:
    result = run("deploy/web", "--max", "3", "--min", "0")
    assert result.stderr == "--min 0 is not sent: the API server takes 1\n"
    assert "minReplicas" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["deploy/web", "-f", "x.yaml", "--max", "3"], UsageError, "leave out -f, or deploy/web"),
        (["svc/web", "--max", "3"], RefusedError, "cannot autoscale a Service"),
        (
            ["deploy/Web", "--max", "3"], RefusedError,
            "the API server would refuse HPA Web: metadata.name: Invalid value",
        ),
        (
            ["deploy/web", "--max", "3", "--cpu=-5"], RefusedError,
            'resource.target.averageValue: Invalid value: "-5m": must be positive',
        ),
        (["-f", "no/such.yaml", "--max", "3"], ManifestError, "cannot be read: No such file"),
        (["-f", "a\0b", "--max", "3"], ManifestError, "cannot be read: "),
        (["-f", ".", "--max", "3"], ManifestError, "cannot be read: Is a directory"),
    ],
)  # fmt: skip
def test_refusals(arguments: list[str], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        run(*arguments)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", ManifestError, "-: no objects passed to autoscale"),
        ("# nothing\n", ManifestError, "-: no objects passed to autoscale"),
        ("null\n", ManifestError, "-: no objects passed to autoscale"),
        ("just words", ManifestError, "-: not a manifest: expected a mapping (line 1)"),
        ("kind: List\nitems: [1]", ManifestError, "-: item 1 of the list is not a mapping"),
        ("a: [", ManifestError, "-: not YAML"),
        (b"\xff\xfe\xff", ManifestError, "-: not UTF-8 text"),
        (f"{DEPLOYMENT}---\nkind: Pod\napiVersion: v1\nmetadata: {{name: a}}", RefusedError,
         "-:5: cannot autoscale a Pod"),
        ("name: {{ .Values.name }}", ManifestError, "unrendered Helm template"),
    ],
)  # fmt: skip
def test_files_that_hold_no_target(text: str | bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        run("-f", "-", "--max", "3", stdin=text)
    assert words in str(raised.value)


def test_help_shows_examples() -> None:
    text = run("--help").stdout
    assert "hpabatch autoscale deployment/web --cpu 70% --min 2 --max 20 > hpa.yaml" in text
