"""`hpabatch analyze` at the command line: table, screen, JSON, CSV, Parquet, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import hpabatch.cli.look.analyze  # noqa: F401  (registers the command)
from hpabatch.cli.app import app
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.errors import ManifestError, RefusedError, UsageError
from hpabatch.inputs.manifest_checks import check_manifests
from hpabatch.inputs.manifests import load_manifests
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import PROFILES
from hpabatch.report.analyze import Analyzed, Findings
from hpabatch.report.base import View
from hpabatch.report.forms import table_text
from tests.engine.constant_demand import fixed_points

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
    result = CliRunner().invoke(app, ["analyze", *arguments, "-"], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def document(*arguments: str, **options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("-o", "json", *arguments, **options).stdout)
    return found


# ---- table ---------------------------------------------------------------------------------------


def test_table() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stderr == ""
    verdict, told, table, _ = result.stdout.split("\n\n")
    assert verdict == "3 HPAs: 3 remarks"
    assert [line.split() for line in table.splitlines()[1:-1]] == [
        ["shop/web", "2-10", "cpu", "70%", "36-77%", "4", "53-77%", "63-77%", "30s",
         "5m", "+", "0s", "-"],
        ["worker", "0-8", "external/jobs", "+1", "5", "0-1.1x", "3", "0.67-1.1x", "0.88-1.1x",
         "15s", "45s", "+", "1h10m", "-"],
        ["shop/pinned", "2-2", "cpu", "70%", "36-77%", "2", "36-77%", "36-77%", "-", "-", "-"],
    ]  # fmt: skip
    assert told.splitlines() == [
        "Remarks (3):",
        "  worker       resource/cpu makes it grow from 105% of the request on: pods that cannot "
        "use more than they request never get there",
        "  worker       scaling down from 8 to 0 replicas takes at least 45s + 1h10m",
        "  shop/pinned  minReplicas = maxReplicas = 2: it can never act",
    ]


def test_a_table_on_a_narrow_terminal_fits_it() -> None:
    spec = default_hpa(load_manifests(["-"], io.BytesIO(WEB.encode())).entries[0].hpa or HPA())
    item = Analyzed("stdin", 1, spec, analyze_hpa(spec.spec), ())
    findings = Findings("1.38", 15_000, {}, {}, [item])
    wide, narrow = table_text(findings, View(200)), table_text(findings, View(90))
    assert wide == table_text(findings)
    table = narrow.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 90
    assert "".join(table.split()).count("63-77%") == 1


def test_nothing_stands_out() -> None:
    assert run(stdin=WEB).stdout.startswith("1 HPA: nothing stands out\n")


def test_long_names_and_strange_cells() -> None:
    text = QUEUE.replace("jobs", "a" * 60).replace(
        "averageUtilization: 95", "averageUtilization: 1"
    )
    row = next(line for line in run(stdin=text).stdout.splitlines() if line.startswith("worker"))
    assert f"external/{'a' * 30}… +1" in row
    value = QUEUE.replace("AverageValue, averageValue: 5", "Value, value: 5")
    assert "0-1.1x" in run(stdin=value).stdout
    free = WEB.replace("metrics:", "behavior: {scaleUp: {tolerance: '1e18'}}\n  metrics:")
    assert " any " in run(stdin=free).stdout
    assert " none " in run("--request", "cpu=1m", stdin=WEB.replace("70", "30")).stdout
    near = run("--tolerance", "0", stdin=WEB).stdout
    assert " 4,5 +2" in near


# ---- one HPA -------------------------------------------------------------------------------------


def test_the_screen_of_one() -> None:
    result = run("--hpa", "shop/web")
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "shop/web: scales Deployment/web (stdin:1); 0 remarks",
        "",
        "resource/cpu, target 70%: a constant total that divides among the pods, each taken to "
        "request 1",
    ]
    assert [line.split() for line in lines[3:6]] == [
        ["PODS", "STAY", "AT", "TOTAL", "FROM", "TO", "BELOW", "UP", "TO", "DOWN", "TO"],
        ["2", "36-77%", "0.72", "requests", "1.56", "requests", "3", "-"],
        ["3", "47-77%", "1.41", "requests", "2.34", "requests", "4", "2"],
    ]
    assert lines[13:] == [
        "columns: --legend explains them",
        "  at 4 pods the nearest sizes: 4 -> 5 or 3; it stays at 53-77%",
        "  from 9 pods on the work of one pod more changes nothing",
        "  maxReplicas 10: at a total of 7 requests, which it fits, these sizes stay: 9",
        "  46% of the totals have several sizes at which it rests, so the past decides; at most 2: "
        "2 to 3 from 1.41 requests on",
        "  no constant total keeps it going round",
        "",
        "Fastest way up, 2 to 10: 4 at 0s, 8 at 15s, 10 at 30s",
        "Fastest way down, 10 to 2: held for 5m, then 2 at 5m",
        "",
        "Nothing stands out.",
        "",
        "2 to 10 replicas; tolerance 0.1 down, 0.1 up; a sync every 15s; rules of Kubernetes 1.37",
    ]


def test_the_screen_of_a_queue() -> None:
    text = run("--hpa", "worker", "--base", "cpu=20", "--request", "cpu=250m").stdout
    assert "external/jobs, target 5: a constant value, whatever the number of replicas" in text
    assert "each taken to request 250m, and using 50m without any work" in text
    assert "Fastest way down, 8 to 0: held for 45s, then 7 at 45s, 6 at 10m45s" in text
    assert "Remarks:\n  resource/cpu makes it grow from 105%" in text


def test_a_base_is_of_one_metric() -> None:
    with pytest.raises(UsageError, match="worker has external/jobs, resource/cpu; name it: --base"):
        run("--hpa", "worker", "--base", "20")


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


def test_a_size_and_a_value_that_are_asked_about() -> None:
    text = TASKS.replace("averageValue: 5", "averageValue: 4").replace("cas: 8", "cas: 30")
    shown = run("--hpa", "worker", "--at-size", "10", "--value", "41", stdin=text).stdout
    assert [line.split()[0] for line in shown.splitlines()[4:34]] == [str(n) for n in range(1, 31)]
    assert shown.splitlines()[34:39] == [
        "columns: --legend explains them",
        "  at 10 pods the nearest sizes: 10 -> 12 or 9; it stays from 36 to 44",
        "  at 41 10 pods stay; sizes that stay: 10 to 11",
        "  from 10 pods on the work of one pod more changes nothing, from 3 on one more than 4 x "
        "pods",
        "  maxReplicas 30: at a total of 120, which it fits, these sizes stay: 28 to 29",
    ]
    web = run("--hpa", "web", "--value", "85%").stdout
    assert "  at 85% 4 pods go to 5; sizes that stay: 10\n" in web
    few = run("--hpa", "worker", "--at-size", "1", "--value", "4", stdin=text).stdout
    assert "  at 4 1 pod stays; sizes that stay: 1\n" in few


def test_sizes_that_the_table_leaves_out_are_said() -> None:
    shown = run("--hpa", "keda-hpa-model-worker", "--at-size", "123", stdin=SCALED).stdout
    rows = [line.split()[0] for line in shown.splitlines() if line.lstrip()[:1].isdigit()]
    assert {"100", "123", "200", "364", "399", "400"} < set(rows)
    assert "of the sizes 100 to 400: --at-size N adds another, -o json has all\n" in shown
    assert "  at 123 pods no change smaller than 12: 123 -> 136 or 111; it stays from" in shown
    assert "at 100 pods no change smaller than 11: 100 -> 111\n" in run(stdin=SCALED).stdout


def test_the_analysis_is_of_the_spec_as_that_version_stores_it() -> None:
    member = "describedObject: {apiVersion: v1, kind: Service, name: a}, metric: {name: m}, "
    metric = f"{{type: Object, object: {{{member}target: {{type: AverageValue, value: 5}}}}}}"
    text = f"{WEB[: WEB.index('  - {')]}  - {metric}\n"
    kinds = {
        version: document("--k8s", version, stdin=text)["hpas"][0]["metrics"][0]["target_type"]
        for version in ("1.20", "1.26", "1.27", "1.37")
    }
    assert kinds == {"1.20": "value", "1.26": "value", "1.27": "unusable", "1.37": "unusable"}


def test_the_screen_of_cycles_and_other_ends() -> None:
    text = run("--hpa", "web", "--tolerance", "0").stdout
    assert (
        "from 2.84 requests to 2.85 requests it goes round: 4, 5; with its windows and policies "
        "4 for 15s, 5 for 5m15s\n"
    ) in text
    one_by_one = "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 15}]}}"
    held = WEB.replace("metrics:", f"{one_by_one}\n  metrics:").replace("70", "3")
    assert "it goes round: 4, 6; its windows and policies hold it at 5" in run(
        "--hpa", "web", stdin=held
    ).stdout  # fmt: skip
    many = WEB.replace("maxReplicas: 10", "maxReplicas: 100").replace("70", "12")
    shown = run("--hpa", "web", "--tolerance", "0", stdin=many).stdout
    assert " more ranges like it: -o json has all" in shown
    assert 10 < shown.count(" requests  ") < 48
    off = WEB.replace("metrics:", "behavior: {scaleDown: {selectPolicy: Disabled}}\n  metrics:")
    assert "Fastest way down, 10 to 2: it never moves" in run("--hpa", "web", stdin=off).stdout
    half_hours = one_by_one.replace("15", "1800")
    slow = WEB.replace("metrics:", f"{half_hours}\n  metrics:").replace(
        "Replicas: 10", "Replicas: 99"
    )
    assert "…, 51 at 1d; not there after a day" in run("--hpa", "web", stdin=slow).stdout
    assert "Fastest" not in run("--hpa", "pinned").stdout
    bad = QUEUE.replace("name: jobs}", "name: jobs, selector: {matchExpressions: [{key: a, "
                        "operator: Near}]}}")  # fmt: skip
    assert (
        "can never be computed: the metric's selector" in run("--hpa", "worker", stdin=bad).stdout
    )


# ---- JSON, CSV, Parquet --------------------------------------------------------------------------


def test_json_has_everything() -> None:
    found = document("--base", "cpu=10")
    assert {name: found[name] for name in found if name != "hpas"} == {
        "k8s": "1.37", "sync_period_ms": 15_000, "base_pct": {"cpu": 10},
        "request_milli": {"cpu": 1000, "memory": 1_073_741_824_000},
    }  # fmt: skip
    web, worker, pinned = found["hpas"]
    assert [item["hpa"] for item in found["hpas"]] == ["web", "worker", "pinned"]
    assert web["up"] == {
        "from": 2, "to": 10, "ended": "reached", "hold_ms": 0, "reached_ms": 30_000,
        "steps": [{"ms": 0, "replicas": 4}, {"ms": 15_000, "replicas": 8},
                  {"ms": 30_000, "replicas": 10}],
    }  # fmt: skip
    (cpu,) = web["metrics"]
    assert (cpu["signal"], cpu["target_type"], cpu["base_milli"]) == ("resource/cpu", "utilization",
                                                                    100)  # fmt: skip
    assert cpu["dead_bands"][0] == {
        "size": 2, "empty": False, "low_milli": 360, "high_milli": 779, "low_pct": 36,
        "high_pct": 77, "up_to": 3, "down_to": None,
    }  # fmt: skip
    assert cpu["smallest"]["asked"] == {
        "size": 4, "up_to": 5, "up_first": 5, "down_to": 3, "down_first": 3,
    }  # fmt: skip
    assert cpu["resting"][0] == {"low_milli": 0, "high_milli": 1109, "runs": [[2, 2]]}
    assert pinned["up"] is None
    assert worker["remarks"][0]["code"] == "beyond_request"
    cycle = document("--tolerance", "0", stdin=WEB)["hpas"][0]["metrics"][0]["cycles"][0]
    assert cycle == {
        "low_milli": 2840, "high_milli": 2849, "members": [4, 5], "period_ms": 330_000,
        "runs": [{"replicas": 4, "ms": 15_000}, {"replicas": 5, "ms": 315_000}],
    }  # fmt: skip


def test_csv_and_parquet_have_a_row_per_metric() -> None:
    text = run("-o", "csv", "--tolerance", "0").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["hpa"], row["signal"]) for row in rows] == [
        ("web", "resource/cpu"), ("worker", "external/jobs"), ("worker", "resource/cpu"),
        ("pinned", "resource/cpu"),
    ]  # fmt: skip
    assert (rows[0]["cycles"], rows[0]["cycle_members"], rows[0]["up_reached_ms"]) == (
        "3", "4 5", "30000"
    )  # fmt: skip
    assert (rows[1]["target_milli"], rows[1]["target_pct"]) == ("5000", "")
    table = pq.read_table(io.BytesIO(run("-o", "parquet", "--tolerance", "0").stdout_bytes))
    assert table.column_names == list(rows[0])
    assert table.column("cycle_low_milli").to_pylist() == [2840, None, 3840, None]


def test_only_one_in_every_form() -> None:
    assert [item["hpa"] for item in document("--hpa", "worker")["hpas"]] == ["worker"]
    assert len(run("-o", "csv", "--hpa", "web").stdout.splitlines()) == 2


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
        (["--value", "3"], "--value: expected --hpa"),
        (["--hpa", "web", "--at-size", "11"], "expected 2 to 10, the replicas of web, got 11"),
        (["--hpa", "web", "--value", "41"], "expected percents such as 85%, as the targets of web"),
        (["--hpa", "web", "--value", "x%"], "--value x%: expected whole percents"),
        (["--hpa", "web", "--value", "much"], "--value much: expected a quantity of 0 or more"),
        (["--hpa", "web", "--value", "1e30"], "--value 1e30: expected a quantity of 0 or more"),
    ],
)
def test_impossible_options(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments)


def test_a_name_that_two_have() -> None:
    with pytest.raises(UsageError, match=r"2 are called so \(stdin:1, stdin:11\); name namespace"):
        run("--hpa", "web", stdin=f"{WEB}---\n{WEB.replace('shop', 'other')}")
    assert run("--hpa", "other/web", stdin=f"{WEB}---\n{WEB.replace('shop', 'other')}").stdout


# ---- real manifests ------------------------------------------------------------------------------

FOLDER = os.environ.get("HPABATCH_MANIFESTS", "")


@pytest.mark.skipif(not FOLDER, reason="HPABATCH_MANIFESTS names no folder of real manifests")
def test_valid_real_manifests() -> None:
    lines = Path(FOLDER, "hpa_manifests.jsonl").read_text(encoding="utf-8").splitlines()[::4]
    text = "\n---\n".join(json.loads(line)["yaml"] for line in lines)
    result = run("-o", "json", stdin=text)
    assert result.exit_code == 3
    found = json.loads(result.stdout)["hpas"]
    entries = load_manifests(["-"], io.BytesIO(text.encode())).entries
    valid = [item.hpa for item in check_manifests(entries, PROFILES["1.38"]) if item.hpa]
    assert len(found) == len(valid) > 50
    for hpa, item in zip(valid, found, strict=True):
        for metric in item["metrics"]:
            if len(item["metrics"]) == 1 and metric["resting"]:
                piece = metric["resting"][len(metric["resting"]) // 2]
                sizes = fixed_points(hpa.spec, piece["low_milli"], metric["request_milli"] or 1)
                runs = [n for first, last in piece["runs"] for n in range(first, last + 1)]
                assert list(sizes) == runs
    bounded = [item for item in found if item["min_replicas"] < item["max_replicas"]]
    assert {item["up"]["ended"] for item in bounded} <= {"reached", "stuck", "unfinished"}


def test_a_plain_value_is_told_with_its_first_step() -> None:
    value = TASKS.replace("type: AverageValue, averageValue: 5", "type: Value, value: 60")
    assert "type: Value" in value
    found = run("--hpa", "worker", stdin=value).stdout
    assert "; one pod stays up to 66, more gives 2" in found


def test_less_than_a_byte_is_no_amount() -> None:
    target = "{type: AverageValue, averageValue: 5Mi}"
    metric = f"- type: Resource\n    resource: {{name: memory, target: {target}}}\n"
    head = TASKS.partition("  metrics:")[0]
    found = run(
        "--hpa", "worker", "--base", "memory=0", stdin=f"{head}  metrics:\n  {metric}"
    ).stdout
    assert ">0" in found
    assert "e-10Mi" not in found
