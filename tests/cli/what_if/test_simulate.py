"""`hpabatch simulate` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import csv
import functools
import io
import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from typer.testing import Result

from hpabatch.engine.columns.simulate import POINTS
from hpabatch.errors import EXIT_OK
from tests.cli.commands import invoke
from tests.cli.histories import last_day

ROOT = Path(__file__).parents[3]
DEMO = last_day()
ONE = ("--where", "namespace = 'shop' AND hpa = 'checkout'", "--for", "2h")


run = functools.cache(functools.partial(invoke, "simulate"))
"""Run the command, once for all tests with the same arguments."""


def rows_of(result: Result) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.mark.compiled
def test_the_table_names_rules_and_model() -> None:
    result = run(str(DEMO), *ONE, "--growth", "1.4")
    assert result.exit_code == EXIT_OK
    assert "as recorded" not in result.stdout
    assert "rules of Kubernetes 1.38" in result.stdout
    assert "docs/simulation.md" in result.stdout
    assert "shop/checkout" in result.stdout
    assert "COST" not in result.stdout
    assert "pod-hours: today " in result.stdout
    assert "today, simulated: 1 HPA, " in result.stdout
    assert " recorded: " not in result.stdout
    assert result.stderr.count("ceiling assumed: no limit of a pod's usage is known") == 1
    assert "for 1 of 1 HPA (shop/checkout)" in result.stderr
    assert "--init-plant plant.yaml" in result.stderr


@pytest.mark.compiled
def test_a_stated_ceiling_is_not_assumed(tmp_path: Path) -> None:
    plant = tmp_path / "plant.yaml"
    plant.write_text("hpa: shop/checkout\nsignals: {container/app/cpu: {ceiling: 500m}}\n")
    assert "ceiling" not in run(str(DEMO), *ONE, "--plant", str(plant)).stderr


@pytest.mark.compiled
def test_proposed_manifests_are_a_second_setting(tmp_path: Path) -> None:
    result = run(
        str(DEMO), *ONE, "--hpas", str(ROOT / "data/demo-manifests/shop.yaml"), "-o", "csv"
    )
    rows = rows_of(result)
    assert [row["setting"] for row in rows] == ["recorded", "proposed"]
    assert rows[0]["elastic_speedup"] == "1.0"
    assert rows[0]["perfect_pod_hours"] == rows[1]["perfect_pod_hours"]


@pytest.mark.compiled
def test_a_new_target_is_not_measured_against_the_old_one(tmp_path: Path) -> None:
    said = (ROOT / "data/demo-manifests/shop.yaml").read_text()
    documents = list(yaml.safe_load_all(said))
    checkout = next(d for d in documents if d["metadata"]["name"] == "checkout")
    both = "namespace = 'shop' AND hpa IN ('checkout', 'catalog')"
    screens = []
    for percent in (None, 90):
        if percent is not None:
            source = next(iter(set(checkout["spec"]["metrics"][0]) - {"type"}))
            checkout["spec"]["metrics"][0][source]["target"] = {
                "type": "Utilization", "averageUtilization": percent,
            }  # fmt: skip
        place = tmp_path / f"{percent}.yaml"
        place.write_text(yaml.safe_dump(checkout))
        result = run(str(DEMO), "--where", both, "--for", "2h", "--hpas", str(place))
        # Pod-hours of one HPA are not compared with those of two.
        assert "2 HPAs simulated; pod-hours of the 1 under every setting: " in result.stdout
        assert "today, simulated: 1 HPA, " in result.stdout
        assert "* capacity assumed: usage of " in result.stdout
        assert "state it in --plant" in result.stdout
        screens.append(result.stdout)
    own, other = screens
    assert "a setting with another target has no TOO FEW" not in own
    assert "a setting with another target has no TOO FEW" in other
    rows = [[line.split() for line in s.splitlines() if " proposed " in line][-1] for s in screens]
    assert len(rows[1]) < len(rows[0])


@pytest.mark.compiled
def test_every_tick_is_a_row_of_the_trajectories(tmp_path: Path) -> None:
    points = tmp_path / "runs.parquet"
    assert f"trajectories: {points}" in run(str(DEMO), *ONE, "--trajectories", str(points)).stdout
    assert pl.read_parquet(points).columns == list(POINTS.names)


# ---- lenses


@pytest.mark.compiled
def test_a_proposal_is_seen_through_the_same_lens(tmp_path: Path) -> None:
    """A target times the scale undoes it."""
    file, proposed = tmp_path / "lens.yaml", tmp_path / "hpas.yaml"
    file.write_text("- {signal: resource/cpu, scale: 2}\n")
    known = pl.read_parquet(DEMO / "hpas.parquet").filter(pl.col("name") == "checkout")
    spec = json.loads(known["spec"][-1])
    (metric,) = [m for m in spec["metrics"] if "ontainer" in m["type"] or m["type"] == "Resource"]
    source = metric["resource" if metric["type"] == "Resource" else "containerResource"]
    source["target"]["averageUtilization"] *= 2
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "checkout", "namespace": "shop"},
        "spec": spec,
    }
    proposed.write_text(yaml.safe_dump(document))
    more = ("--hpas", str(proposed), "--lens", str(file), "-o", "csv")
    rows = {r["setting"]: r for r in rows_of(run(str(DEMO), *ONE, *more))}
    (raw,) = rows_of(run(str(DEMO), *ONE, "-o", "csv"))
    assert rows["proposed"]["replica_hours"] == raw["replica_hours"]
    assert float(rows["recorded"]["replica_hours"]) > float(raw["replica_hours"])
