"""`hpabatch validate` at the command line: rows on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
from functools import partial
from pathlib import Path

import pytest

from hpabatch.report.base import Output
from tests.cli.commands import invoke

VALID = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 10
"""
REFUSED = VALID.replace("name: web, namespace: shop", "name: bad").replace("10", "0")
UNREADABLE = "a: ["
ZERO_COMPLAINTS = [
    "spec.maxReplicas: Invalid value: 0: must be greater than 0",
    "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
]


run = partial(invoke, "validate")


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        ([VALID], 0), ([REFUSED], 3), ([UNREADABLE], 2), ([VALID, REFUSED], 3),
        ([REFUSED, UNREADABLE, VALID], 2), (["kind: Service"], 0),
    ],
)  # fmt: skip
def test_exit_codes(documents: list[str], code: int) -> None:
    assert run("-", stdin="\n---\n".join(documents)).exit_code == code


def test_table_and_talk() -> None:
    result = run("-", stdin=f"{VALID}---\n{REFUSED}---\nkind: Service\n---\n{UNREADABLE}")
    assert result.stdout == (
        "SOURCE  LINE  NAMESPACE  NAME  API_VERSION     TARGET          RESULT      COMPLAINTS  "
        "WARNINGS\n"
        "stdin      1  shop       web   autoscaling/v2  Deployment/web  valid                0  "
        "       0\n"
        "stdin      9             bad   autoscaling/v2  Deployment/web  refused              2  "
        "       0\n"
        "stdin     19                                                   unreadable           1  "
        "       0\n"
        "columns: --legend explains them\n"
    )
    assert result.stderr == (
        f"stdin:9: bad: {ZERO_COMPLAINTS[0]}\n"
        f"stdin:9: bad: {ZERO_COMPLAINTS[1]}\n"
        "stdin:19: not YAML: did not find expected node content (line 19, column 1)\n"
        "2 HPAs: 1 valid, 1 refused; 1 document unreadable; 1 document of other kinds skipped "
        "(rules of Kubernetes 1.37)\n"
    )


def test_strict() -> None:
    text = VALID.replace("kind: Deployment", "kind: DaemonSet") + "  maxReplicas: 11\n"
    loose = run("-", stdin=text)
    assert loose.exit_code == 0
    assert loose.stderr.splitlines()[:2] == [
        'stdin:1: shop/web: warning: duplicate key "maxReplicas" in line 8, column 3 (first in '
        "line 7): the last one counts",
        "stdin:1: shop/web: warning: spec.scaleTargetRef.kind: a DaemonSet cannot be scaled, it "
        "has no scale subresource",
    ]
    strict = run("--strict", "-", stdin=text)
    assert strict.exit_code == 3
    assert "warning" not in strict.stderr
    assert run("--strict", "-", stdin=VALID).exit_code == 0


TOLERANT = VALID + "  behavior: {scaleUp: {tolerance: 0.05}, scaleDown: {tolerance: 0.05}}\n"


@pytest.mark.parametrize(
    ("version", "gates", "why"),
    [
        ("1.32", "", "unknown field, ignored"),
        ("1.33", "", "dropped, as HPAConfigurableTolerance is off"),
        ("1.34", "", "dropped, as HPAConfigurableTolerance is off"),
        ("1.33", "HPAConfigurableTolerance=true", ""),
        ("1.35", "", ""),
    ],
)
def test_a_tolerance_that_the_version_does_not_keep(version: str, gates: str, why: str) -> None:
    chosen = ["--k8s", version, "--feature-gates", gates]
    loose = run(*chosen, "-", stdin=TOLERANT)
    assert loose.exit_code == 0
    assert loose.stderr.splitlines()[:-1] == [
        f"stdin:1: shop/web: warning: spec.behavior.{name}.tolerance: {why} (Kubernetes "
        f"{version}); the tolerance of the controller counts"
        for name in ("scaleUp", "scaleDown")
        if why
    ]
    assert run("--strict", *chosen, "-", stdin=TOLERANT).exit_code == (3 if why else 0)


OBJECT = "describedObject: {apiVersion: v1, kind: Service, name: a}, metric: {name: m}"
FAILS = "every sync fails with FailedGetObjectMetric"
UNDIVIDED = "it acts as type: Value, not divided by the pods"


@pytest.mark.parametrize(
    ("kind", "source", "target", "version", "effect"),
    [
        ("External", "metric: {name: m}", "Value, value: 5", "1.37", ""),
        ("Object", OBJECT, "AverageValue, value: 5", "1.37", f"has value: {FAILS}; set type: V"),
        ("Object", OBJECT, "AverageValue, value: 5", "1.26",
         f"{UNDIVIDED} (Kubernetes 1.26 stores it so; from 1.27 on {FAILS}); set type: Value"),
        ("Resource", "name: cpu", "AverageValue, averageUtilization: 5", "1.37",
         "averageUtilization: it acts as type: Utilization; set type: Utilization"),
    ],
)  # fmt: skip
def test_a_target_whose_type_and_value_disagree(
    kind: str, source: str, target: str, version: str, effect: str
) -> None:
    member = kind.lower()
    metric = f"{{type: {kind}, {member}: {{{source}, target: {{type: {target}}}}}}}"
    text = f"{VALID}  metrics: [{metric}]\n"
    result = run("--k8s", version, "-", stdin=text)
    assert result.exit_code == 0
    warned = f"warning: spec.metrics[0].{member}.target.type: {target.split(',')[0]}, but"
    assert (warned in result.stderr) == bool(effect)
    assert effect in result.stderr
    strict = run("--strict", "--k8s", version, "-", stdin=text)
    assert strict.exit_code == (3 if effect else 0)


SCALED = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: svc, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: svc}
  minReplicaCount: 12
  maxReplicaCount: 20
  advanced:
    horizontalPodAutoscalerConfig:
    behavior:
      scaleDown: {stabilizationWindowSeconds: 300}
  triggers:
  - type: prometheus
    metadata: {serverAddress: "http://prom:9090", query: max(q), threshold: "100"}
"""
SETTINGS = "kind: Application\nspec: {autoscaling: {minReplicas: 1, maxReplicas: 5}}\n"


def test_a_scaled_object_is_the_hpa_that_keda_makes_of_it() -> None:
    result = run("-o", "csv", "-", stdin=SCALED)
    assert result.exit_code == 0
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert (row["name"], row["api_version"], row["target"], row["result"]) == (
        "keda-hpa-svc", "keda.sh/v1alpha1", "Deployment/svc", "valid"
    )  # fmt: skip
    assert result.stderr.splitlines()[0] == (
        "stdin:1: shop/keda-hpa-svc: warning: spec.advanced.behavior: unknown field, ignored; KEDA "
        "reads spec.advanced.horizontalPodAutoscalerConfig.behavior"
    )
    assert run("--strict", "-", stdin=SCALED).exit_code == 3
    wrong = run("-", stdin=SCALED.replace('"100"', "many"))
    assert wrong.exit_code == 3
    assert "shop/svc: expected a number such as 100 or 2.5, got 'many'" in wrong.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (SETTINGS, "Application with settings of one (spec.autoscaling)"),
        (
            "kind: HelmRelease\nspec: {values: {web: {hpa: {maxReplicas: 5}}}}",
            "(spec.values.web.hpa)",
        ),
        ("kind: EffectiveHorizontalPodAutoscaler\nspec: {maxReplicas: 5}", "one (spec)"),
        ("kind: HelmRelease\nspec: {values: {hpa: {enabled: false, maxReplicas: 5}}}", ""),
        ("kind: RayCluster\nspec: {group: {maxReplicas: 5}}", ""),
    ],
)
def test_settings_of_an_hpa_in_another_resource_are_no_success(text: str, place: str) -> None:
    result = run("-", stdin=text)
    assert result.exit_code == (2 if place else 0)
    assert place in result.stderr
    assert run("-", stdin=f"{text}\n---\n{VALID}").exit_code == 0


def test_files_folders_and_stdin_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(VALID)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.yml").write_text(f"# hi\n{VALID}")
    result = run("-o", "csv", str(tmp_path / "a.yaml"), str(folder), "-", stdin=VALID)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["source"], row["line"]) for row in rows] == [
        (str(tmp_path / "a.yaml"), "1"), (str(folder / "b.yml"), "2"), ("stdin", "1")
    ]  # fmt: skip
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "stdin",
    [
        b"", b"\0\1\2", b"\xff\xfe", b"\xfe\xff\0", b"[" * 100_000, b"\xef\xbb\xbf", b"%", b"---",
        b"a: &a [*a]", b"!!python/object:os.system {}", b"\x80", b"- - - -", b"{" * 300,
        b"kind: HorizontalPodAutoscaler", b"kind: [HorizontalPodAutoscaler]", b"'", b"|", b"? ?",
        b"apiVersion: [autoscaling/v2]\nkind: HorizontalPodAutoscaler\nspec: [[]]", b"a: b: c",
        b"kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nmetadata: {1: 2}\nspec: 5",
        b"kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nspec: {maxReplicas: .nan}",
        b"kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v1\nmetadata: {name: \"\\uD800\"}",
    ],
)  # fmt: skip
def test_no_input_makes_a_traceback(stdin: bytes) -> None:
    assert run("-", stdin=stdin).exit_code in (0, 2, 3)


@pytest.mark.parametrize("path", ["nowhere.yaml", "", "a\0b", "x" * 5000])
def test_no_path_makes_a_traceback(path: str, tmp_path: Path) -> None:
    result = run(str(tmp_path / path) if path else str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 2


def test_text_that_no_encoding_takes(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    document = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
                "metadata": {"name": "\ud83d"}, "spec": {}}  # fmt: skip
    Path(name).write_text(json.dumps(document))
    for output in Output:
        result = run("-o", output, name)
        assert result.exit_code == 3
    assert "\\udcff.yaml:1: \N{REPLACEMENT CHARACTER}: metadata.name: Invalid" in result.stderr
