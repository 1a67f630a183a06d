from __future__ import annotations

import json
from datetime import date
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
import yaml

from hpabatch.errors import EXIT_OK, EXIT_UNREADABLE, UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.importers.synth.demo import demo_fleet, generate, main, write_history, write_manifests

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "data" / "demo"
MIB = 1 << 20

SMALL = tuple(
    work
    for work in demo_fleet()
    if work.name in {"cart", "fraud", "kafka-consumer", "previews", "writer", "sessions"}
)


@pytest.fixture(scope="module")
def demo() -> History:
    return open_history(DEMO, "replay")


def metric_types(demo: History) -> set[tuple[str, str]]:
    found = set()
    for text in demo.read("hpas")["spec"]:
        for metric in json.loads(text).get("metrics", []):
            member = metric["type"][0].lower() + metric["type"][1:]
            found.add((metric["type"], metric[member]["target"]["type"]))
    return found


# -- determinism


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for run in ("a", "b"):
        write_history(generate(SMALL, seed=3), tmp_path / run)
        write_manifests(SMALL, tmp_path / run / "manifests")
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_another_seed_gives_other_data() -> None:
    one, two = (generate(SMALL[:1], seed=seed)["pod_metrics"] for seed in (1, 2))
    assert not one.equals(two)


def test_workloads_do_not_depend_on_each_other() -> None:
    alone = generate(SMALL[2:3])
    among = generate(SMALL[::-1])
    for table in ("pod_metrics", "pods", "scales", "hpas"):
        name = "pod" if table in ("pod_metrics", "pods") else "uid"
        key = {"scales": "target", "hpas": "name"}.get(table, "target")
        mine = among[table].filter(pl.col(key) == SMALL[2].name)
        assert alone[table].equals(mine), (table, name)


def test_a_weekend_is_quieter() -> None:
    workday, sunday = (
        generate(SMALL[:1], day=day)["scales"]["spec_replicas"].max()
        for day in (date(2026, 10, 7), date(2026, 10, 11))
    )
    assert isinstance(workday, int)
    assert isinstance(sunday, int)
    assert sunday < workday


def test_a_fleet_must_be_named_uniquely() -> None:
    for fleet in ((), SMALL[:1] * 2):
        with pytest.raises(UsageError, match="each with its own name"):
            generate(fleet)


# -- the committed demo


def test_the_committed_demo_is_what_the_generator_makes(demo: History, tmp_path: Path) -> None:
    write_history(generate(demo_fleet()), tmp_path)
    again = open_history(tmp_path)
    assert again.tables == demo.tables
    for table in demo.tables:
        assert again.read(table).equals(demo.read(table)), table
    assert demo.warnings == again.warnings == []


def test_the_committed_manifests_are_what_the_generator_makes(tmp_path: Path) -> None:
    write_manifests(demo_fleet(), tmp_path)
    folder = ROOT / "data" / "demo-manifests"
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in tmp_path.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_text() == (folder / path.name).read_text()


def test_manifests_and_history_hold_the_same_hpas(demo: History) -> None:
    current = demo.read("hpas").filter(pl.col("valid_to").is_null())
    recorded = {
        (row["namespace"], row["name"]): json.loads(row["spec"])
        for row in current.iter_rows(named=True)
    }
    manifests = {
        (doc["metadata"]["namespace"], doc["metadata"]["name"]): doc["spec"]
        for path in (ROOT / "data" / "demo-manifests").iterdir()
        for doc in yaml.safe_load_all(path.read_text())
    }
    assert manifests == recorded
    assert 38 <= len(recorded) <= 45


def test_the_demo_is_small() -> None:
    assert sum(p.stat().st_size for p in (ROOT / "data").rglob("*.*")) < 3_000_000


def test_the_readme_tells_rows_sizes_and_faults(demo: History) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    for table in demo.tables:
        size = demo.files[table][0].stat().st_size
        assert f"| `{table}` | {demo.read(table).height:,} | {size:,} |" in text
    faults = {f"| `{w.namespace}/{w.name}` | {w.fault} |" for w in demo_fleet() if w.fault}
    assert len(faults) >= 10
    assert faults == {line for line in text.splitlines() if line.startswith("| `") and "/" in line}


# -- what the demo must contain


def test_every_kind_of_metric_and_target_occurs(demo: History) -> None:
    assert metric_types(demo) == {
        ("Resource", "Utilization"),
        ("Resource", "AverageValue"),
        ("ContainerResource", "Utilization"),
        ("ContainerResource", "AverageValue"),
        ("Pods", "AverageValue"),
        ("Object", "Value"),
        ("Object", "AverageValue"),
        ("External", "Value"),
        ("External", "AverageValue"),
    }
    kinds = demo.read("object_metrics")["kind"].unique().to_list()
    assert sorted(kinds) == ["Ingress", "Namespace", "Service"]


def test_behaviors_differ(demo: History) -> None:
    behaviors = [json.loads(text).get("behavior") for text in demo.read("hpas")["spec"]]
    assert None in behaviors
    assert {} in behaviors
    sides = [side for b in behaviors if b for side in b.values()]
    assert {side.get("selectPolicy") for side in sides} == {None, "Max", "Min", "Disabled"}
    assert {0, 60, 3600} <= {side.get("stabilizationWindowSeconds") for side in sides}
    assert {"50m", "200m", "0"} <= {side.get("tolerance") for side in sides}


def test_pods_have_every_trouble(demo: History) -> None:
    states = demo.read("pod_states").select("phase", "ready").unique()
    assert set(states.iter_rows()) == {
        ("Pending", None),
        ("Pending", "False"),
        ("Running", "False"),
        ("Running", "True"),
        ("Failed", "False"),
        ("Succeeded", "False"),
    }
    pods = demo.read("pods")
    assert pods["started"].null_count() > 0
    assert pods["deletion_requested"].drop_nulls().len() > 100
    # Names of a StatefulSet's pods recur, uids do not.
    assert pods.filter(pl.col("pod") == "cdn-cache-3")["uid"].n_unique() > 1
    assert pods["uid"].n_unique() == pods.height
    kinds = demo.read("pod_requests")["kind"].unique().to_list()
    assert sorted(kinds) == ["app", "init", "overhead", "pod", "sidecar"]


def test_lives_are_consistent(demo: History) -> None:
    pods = demo.read("pods")
    times = ["created", "started", "deletion_requested", "gone"]
    for earlier, later in pairwise(times):
        assert (pods[earlier] <= pods[later]).all()
    samples = demo.read("pod_metrics").join(pods, on="uid", suffix="_pod")
    assert samples.height == demo.read("pod_metrics").height
    assert (samples["ts"] > samples["started"]).all()
    assert samples.select((pl.col("ts") < pl.col("gone")).fill_null(value=True).all()).item()
    assert (samples["pod"] == samples["pod_pod"]).all()
    assert (samples["target"] == samples["target_pod"]).all()
    assert set(demo.read("pod_states")["uid"]) == set(pods["uid"])
    assert set(demo.read("pod_requests")["uid"]) == set(pods["uid"])


def test_pods_carry_the_labels_of_their_targets_selector(demo: History) -> None:
    pods, scales = demo.read("pods"), demo.read("scales")
    selectors = dict(scales.select("target", "selector").unique().iter_rows())
    for target, text in pods.select("target", "labels").iter_rows():
        labels = json.loads(text)
        wanted = dict(part.split("=") for part in selectors.get(target, "app=cart").split(","))
        assert wanted.items() <= labels.items()


def test_recorded_sizes_agree_with_the_pods(demo: History) -> None:
    pods = demo.read("pods")
    for row in demo.read("scales").group_by("target").last().iter_rows(named=True):
        failed = {"log-shipper": 1, "dns-proxy": 1}.get(row["target"], 0)
        alive = pods.filter(
            (pl.col("target") == row["target"]) & pl.col("deletion_requested").is_null()
        )
        assert alive.height - failed == row["status_replicas"], row["target"]


def test_hpas_and_scales_find_each_other(demo: History) -> None:
    targets = set(demo.read("scales").select("target_kind", "target").iter_rows())
    for text in demo.read("hpas")["spec"]:
        reference = json.loads(text)["scaleTargetRef"]
        assert (reference["kind"], reference["name"]) in targets


def test_the_whole_cluster_has_a_gap(demo: History) -> None:
    minutes = demo.read("pod_metrics").select(
        pl.col("ts").dt.hour().cast(pl.Int64()) * 60 + pl.col("ts").dt.minute()
    )
    missing = set(range(1440)) - set(minutes["ts"])
    assert missing == {13 * 60 + 37 + i for i in range(6)}


def test_rollouts_leave_two_revisions(demo: History) -> None:
    owners = demo.read("pods").filter(pl.col("target") == "frontend")["owner"].unique()
    assert owners.len() == 2


# -- the faults are really there


def sizes(demo: History, target: str) -> pl.Series:
    return demo.read("scales").filter(pl.col("target") == target)["spec_replicas"]


def cpu_share(demo: History, target: str, request: int) -> pl.Series:
    rows = demo.read("pod_metrics").filter(pl.col("target") == target)
    return rows["cpu_milli"] / request


def test_web_assets_is_idle(demo: History) -> None:
    assert sizes(demo, "web-assets").unique().to_list() == [8]
    mean = cpu_share(demo, "web-assets", 250).mean()
    assert isinstance(mean, float)
    assert mean < 0.15


def test_etl_is_pinned_at_its_maximum_and_overloaded(demo: History) -> None:
    assert sizes(demo, "etl").max() == 6
    mean = cpu_share(demo, "etl", 300).mean()
    assert isinstance(mean, float)
    assert mean > 0.85


def test_the_gateway_saturates_within_tolerance(demo: History) -> None:
    share = cpu_share(demo, "gateway", 250)
    highest = share.max()
    assert isinstance(highest, float)
    assert 0.95 < highest <= 1.0
    assert highest / 0.95 < 1.1


def test_settlement_lacks_a_request(demo: History) -> None:
    requests = demo.read("pod_requests").join(demo.read("pods"), on="uid")
    settlement = requests.filter(pl.col("target") == "settlement")
    envoy = settlement.filter(pl.col("container") == "envoy")["cpu_milli"]
    assert envoy.null_count() == envoy.len() == 4


def test_some_metrics_never_appear(demo: History) -> None:
    assert "pubsub_undelivered" not in demo.read("external_metrics")["metric"].to_list()
    assert "gpu_utilization" not in demo.read("pod_custom_metrics")["metric"].to_list()


def test_sessions_never_scale_in(demo: History) -> None:
    assert sizes(demo, "sessions").is_sorted()
    late = demo.read("pod_metrics").filter(
        (pl.col("target") == "sessions") & (pl.col("ts").dt.hour() == 23)
    )
    mean = late["memory_bytes"].mean()
    assert isinstance(mean, float)
    assert mean / (256 * MIB) > 0.7


def test_suggest_flaps(demo: History) -> None:
    steps = sizes(demo, "suggest").diff().drop_nulls()
    assert (steps > 0).sum() > 50
    assert (steps < 0).sum() > 50


def test_api_was_edited(demo: History) -> None:
    rows = demo.read("hpas").filter(pl.col("name") == "api").sort("valid_from")
    assert [json.loads(text)["maxReplicas"] for text in rows["spec"]] == [8, 20]
    assert rows["generation"].to_list() == [1, 2]
    assert rows["valid_to"].to_list() == [rows["valid_from"][1], None]


# -- the command line


def test_the_command_writes_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hpabatch.importers.synth.demo.demo_fleet", lambda: SMALL[:1])
    out = tmp_path / "history"
    arguments = ["--out", str(out), "--manifests", str(tmp_path / "m"), "--day", "2026-03-01"]
    assert main(arguments) == EXIT_OK
    assert open_history(out).read("pods").height > 0
    assert [p.name for p in (tmp_path / "m").iterdir()] == ["shop.yaml"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pod_metrics" in captured.err


@pytest.mark.parametrize(
    ("extra", "message"),
    [(["--seed", "-1"], "--seed must not be negative"), ([], "cannot write")],
)
def test_the_command_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    message: str,
) -> None:
    monkeypatch.setattr("hpabatch.importers.synth.demo.demo_fleet", lambda: SMALL[:1])
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file"), *extra]) == EXIT_UNREADABLE
    assert message in capsys.readouterr().err
