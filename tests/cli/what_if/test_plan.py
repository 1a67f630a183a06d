"""`hpabatch plan` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from hpabatch.cli import simulate
from hpabatch.engine.columns.capacity import PLAN_HPAS, PLAN_TOTALS
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError
from tests.cli.commands import invoke
from tests.cli.histories import last_day

DEMO = str(last_day())
ONE = ("--where", "namespace = 'shop' AND hpa = 'checkout'", "--for", "2h")
QUOTA = """
kind: ResourceQuota
metadata: {name: team, namespace: shop}
spec: {hard: {requests.cpu: "1", limits.cpu: "1000", services: 3}}
"""


run = partial(invoke, "plan")


def test_files_of_a_plan_appear_together(tmp_path: Path) -> None:
    found: Any = SimpleNamespace(hpas=pl.DataFrame({"hpa": ["a"]}), totals=None, evidence={})
    with pytest.raises(AttributeError):
        simulate._plan_files(found, str(tmp_path / "plan"), None)
    assert not list(tmp_path.iterdir())


@pytest.mark.compiled
def test_the_plan_of_one_hpa(tmp_path: Path) -> None:
    quotas, prices = tmp_path / "quotas.yaml", tmp_path / "prices.yaml"
    quotas.write_text(QUOTA)
    prices.write_text("currency: EUR\ncore_hour: 0.03\npod_hour: 0.01\n")
    totals, out = tmp_path / "sums.csv", tmp_path / "plan"
    result = run(
        DEMO, *ONE, "--growth", "1.0,2", "--quota", str(quotas), "--prices", str(prices),
        "-o", "json", "--totals", str(totals), "--out", str(out),
    )  # fmt: skip
    assert result.exit_code == EXIT_OK
    assert "quota shop/team: not judged: services" in result.stderr
    found = json.loads(result.stdout)
    assert found["written"] == [f"sums: {totals}", f"HPAs and sums: {out}"]
    assert found["evidence"]["growth"] == "1, 2"
    assert "sha256:quotas.yaml" in found["evidence"]
    once, twice = found["hpas"]
    assert list(once) == list(PLAN_HPAS.names)
    assert once["desired_max"] < twice["desired_max"] == twice["max_sufficient"]
    assert once["month_unclamped"] < twice["month_unclamped"]
    limited = [r for r in found["totals"] if r["quota"] is not None]
    assert {(r["scope"], r["resource"], r["quota"]) for r in limited} == {
        ("namespace", "cores", 1.0),
        ("namespace", "limit_cores", 1000.0),
    }
    rows = list(csv.DictReader(io.StringIO(totals.read_text())))
    assert list(rows[0]) == list(PLAN_TOTALS.names)
    frames = [pl.read_parquet(out / f"{name}.parquet") for name in ("hpas", "totals")]
    assert [frame.height for frame in frames] == [2, len(rows)]


@pytest.mark.compiled
def test_today_is_what_simulate_gives() -> None:
    """The demo's HPA keeps its spec, so the run of today is the recorded setting's."""
    hpas = csv.DictReader(io.StringIO(run(DEMO, *ONE, "--growth", "1.5", "-o", "csv").stdout))
    arguments = ["simulate", DEMO, *ONE, "--growth", "1.5", "-o", "csv"]
    simulated = csv.DictReader(io.StringIO(invoke(*arguments).stdout))
    (ours,), (theirs,) = list(hpas), list(simulated)
    assert ours["pod_hours"] == theirs["pod_hours"]
    assert ours["held_minutes"] == theirs["at_max_minutes"]
    assert ours["hours"] == theirs["hours"]


@pytest.mark.compiled
def test_what_cannot_be_planned_is_told() -> None:
    result = run(DEMO, "--where", "namespace = 'ingest'", "--for", "10m")
    assert result.exit_code == EXIT_REFUSED
    assert "skipped: demo/ingest/enricher: " in result.stderr
    assert "2/3" in result.stdout
    with pytest.raises(RefusedError, match="ingest/enricher: no sample"):
        run(DEMO, "--where", "hpa = 'enricher'")


def test_a_scenario_that_edits_bounds_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "peak.yaml"
    scenario.write_text("- set: {maxReplicas: 40}\n")
    with pytest.raises(UsageError, match=r"steps\[0\].set: a plan is about today's bounds"):
        run(DEMO, "--scenario", str(scenario))
