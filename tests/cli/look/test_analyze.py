"""`hpabatch analyze` at the command line: table, screen, JSON, CSV, Parquet, exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import Result

from hpabatch.errors import ManifestError, RefusedError, UsageError
from tests.approved import hold_approved
from tests.cli.commands import invoke

WEB = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 10
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}
"""
QUEUE = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: worker}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: worker}
  minReplicas: 0
  maxReplicas: 8
  metrics:
  - type: External
    external: {metric: {name: jobs}, target: {type: AverageValue, averageValue: 5}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 95}}}
  behavior:
    scaleDown:
      stabilizationWindowSeconds: 60
      policies: [{type: Pods, value: 1, periodSeconds: 600}]
"""
PINNED = WEB.replace("name: web,", "name: pinned,").replace("maxReplicas: 10", "maxReplicas: 2")
REFUSED = WEB.replace("maxReplicas: 10", "maxReplicas: 0")


def run(*arguments: str, stdin: str = "\n---\n".join([WEB, QUEUE, PINNED])) -> Result:
    return invoke("analyze", *arguments, "-", stdin=stdin)


def document(*arguments: str, **options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("-o", "json", *arguments, **options).stdout)
    return found


TASKS = QUEUE[: QUEUE.index("  - {type: Resource")].replace("jobs", "tasks")
TASKS = TASKS.replace("minReplicas: 0", "minReplicas: 1")
SCALED = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: model-worker, namespace: test}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: model-worker}
  minReplicaCount: 100
  maxReplicaCount: 400
  triggers:
  - type: aws-cloudwatch
    metadata: {namespace: AWS/SQS, targetMetricValue: "10", minMetricValue: "0"}
"""


# ---- what it shows -------------------------------------------------------------------------------

ONE_BY_ONE = "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 15}]}}"
OFF = "behavior: {scaleDown: {selectPolicy: Disabled}}"
FREE = "behavior: {scaleUp: {tolerance: '1e18'}}"
MEMORY = "{type: AverageValue, averageValue: 5Mi}"
ALL = "\n---\n".join([WEB, QUEUE, PINNED])
SCREENS: dict[str, tuple[tuple[str, ...], str]] = {
    "all": ((), ALL),
    "csv": (("-o", "csv", "--tolerance", "0"), ALL),
    "json": (("-o", "json", "--base", "cpu=10"), ALL),
    "long-name": ((), QUEUE.replace("jobs", "a" * 60).replace("ion: 95", "ion: 1")),
    "value": ((), QUEUE.replace("AverageValue, averageValue: 5", "Value, value: 5")),
    "any-stays": ((), WEB.replace("metrics:", f"{FREE}\n  metrics:")),
    "none-stays": (("--request", "cpu=1m"), WEB.replace("70", "30")),
    "no-tolerance": (("--tolerance", "0"), WEB),
    "one": (("--hpa", "shop/web"), ALL),
    "queue": (("--hpa", "worker", "--base", "cpu=20", "--request", "cpu=250m"), ALL),
    "asked": (
        ("--hpa", "worker", "--at-size", "10"),
        TASKS.replace("averageValue: 5", "averageValue: 4").replace("cas: 8", "cas: 30"),
    ),
    "few": (
        ("--hpa", "worker", "--at-size", "1"),
        TASKS.replace("averageValue: 5", "averageValue: 4"),
    ),
    "left-out": (("--hpa", "keda-hpa-model-worker", "--at-size", "123"), SCALED),
    "scaled": ((), SCALED),
    "cycles": (("--hpa", "web", "--tolerance", "0"), WEB),
    "held": (
        ("--hpa", "web"),
        WEB.replace("metrics:", f"{ONE_BY_ONE}\n  metrics:").replace("70", "3"),
    ),
    "many-cycles": (
        ("--hpa", "web", "--tolerance", "0"),
        WEB.replace("maxReplicas: 10", "maxReplicas: 100").replace("70", "12"),
    ),
    "never-down": (("--hpa", "web"), WEB.replace("metrics:", f"{OFF}\n  metrics:")),
    "slow": (
        ("--hpa", "web"),
        WEB.replace("metrics:", f"{ONE_BY_ONE.replace('15', '1800')}\n  metrics:").replace(
            "Replicas: 10", "Replicas: 99"
        ),
    ),
    "pinned": (("--hpa", "pinned"), ALL),
    "uncomputable": (
        ("--hpa", "worker"),
        QUEUE.replace(
            "name: jobs}",
            "name: jobs, selector: {matchExpressions: [{key: a, operator: Near}]}}",
        ),
    ),
    "plain-value": (
        ("--hpa", "worker"),
        TASKS.replace("type: AverageValue, averageValue: 5", "type: Value, value: 60"),
    ),
    "less-than-a-byte": (
        ("--hpa", "worker", "--base", "memory=0"),
        f"{TASKS.partition('  metrics:')[0]}  metrics:\n  - type: Resource\n    resource: "
        f"{{name: memory, target: {MEMORY}}}\n",
    ),
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens_are_the_approved_ones(name: str) -> None:
    arguments, manifests = SCREENS[name]
    hold_approved(f"analyze/{name}", run(*arguments, stdin=manifests).stdout)


def test_a_base_is_of_one_metric() -> None:
    with pytest.raises(UsageError, match="worker has external/jobs, resource/cpu; name it: --base"):
        run("--hpa", "worker", "--base", "20")


def test_the_analysis_is_of_the_spec_as_that_version_stores_it() -> None:
    member = "describedObject: {apiVersion: v1, kind: Service, name: a}, metric: {name: m}, "
    metric = f"{{type: Object, object: {{{member}target: {{type: AverageValue, value: 5}}}}}}"
    text = f"{WEB[: WEB.index('  - {')]}  - {metric}\n"
    kinds = {
        version: document("--k8s", version, stdin=text)["hpas"][0]["metrics"][0]["target_type"]
        for version in ("1.20", "1.26", "1.27", "1.37")
    }
    assert kinds == {"1.20": "value", "1.26": "value", "1.27": "unusable", "1.37": "unusable"}


# ---- options, errors -----------------------------------------------------------------------------


def test_the_controllers_flags_count() -> None:
    found = document(
        "--sync-period", "30s", "--downscale-stabilization", "2m", "--tolerance", "0.05",
        "--request", "memory=64Mi",
    )  # fmt: skip
    web = found["hpas"][0]
    assert (found["sync_period_ms"], found["request_milli"]["memory"]) == (30_000, 67_108_864_000)
    assert (web["down"]["hold_ms"], web["tolerance_up"]) == (120_000, 0.05)


@pytest.mark.parametrize(
    ("documents", "code"),
    [([WEB], 0), ([WEB, REFUSED], 3), ([WEB, REFUSED, "a: ["], 2), ([WEB, "kind: Service"], 0)],
)
def test_exit_codes(documents: list[str], code: int) -> None:
    result = run(stdin="\n---\n".join(documents))
    assert result.exit_code == code
    assert "shop/web" in result.stdout
    assert ("maxReplicas" in result.stderr) == (REFUSED in documents)


def test_nothing_to_analyze() -> None:
    with pytest.raises(RefusedError, match="-: no valid HPA to analyze"):
        run(stdin=REFUSED)
    with pytest.raises(ManifestError, match="no valid HPA to analyze"):
        run(stdin="kind: Service")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hpa", "nobody"], "no valid HPA of that name; leave --hpa out"),
        (["--request", "cpu"], "expected RESOURCE=QUANTITY"),
        (["--request", "cpu=much"], "--request cpu=much: .*; expected RESOURCE=QUANTITY"),
        (["--request", "cpu=0"], "at least 1m"),
        (["--request", "=1"], "expected RESOURCE=QUANTITY"),
        (["--tolerance", "-0.1"], "a number of at least 0, got -0.1"),
        (["--tolerance", "nan"], "expected a finite number"),
        (["--sync-period", "1ms"], "--sync-period: expected a duration of at least 1s, got 1ms"),
        (["--downscale-stabilization", "soon"], "expected a duration"),
        (["--k8s", "1.19"], r"older than 1\.20"),
        (["--at-size", "3"], "--at-size: expected --hpa"),
        (["--hpa", "web", "--at-size", "11"], "expected 2 to 10, the replicas of web, got 11"),
    ],
)
def test_impossible_options(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments)


def test_a_name_that_two_have() -> None:
    with pytest.raises(UsageError, match=r"matches 2 HPAs \(stdin:1, stdin:11\); give NAMESPACE"):
        run("--hpa", "web", stdin=f"{WEB}---\n{WEB.replace('shop', 'other')}")
    assert run("--hpa", "other/web", stdin=f"{WEB}---\n{WEB.replace('shop', 'other')}").stdout
