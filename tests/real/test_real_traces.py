"""Recordings of real clusters through `import table`, the replay and the command line.

The traces are no part of the project: HPABATCH_TRACES names their folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from hpabatch.engine.replay.run import ReplayResult
from hpabatch.history.expressions.parser import compile_expression
from hpabatch.history.reader import open_history
from tests.real.replays import FILES, MAPS, import_map, phase_ms, replay, summary_table
from tests.real.settings import VARIABLE

FOLDER = Path(os.environ.get(VARIABLE, "") or ".")
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
    ),
    pytest.mark.compiled,
]
COMMAND = [sys.executable, "-c", "from hpabatch.cli import main; main()", "replay"]
MINUTE_MS = 60_000
RUNS = [(app, target) for app in ("hipster", "sockshop") for target in (20, 50, 80)]


def said(name: str) -> Any:
    return yaml.safe_load((MAPS / f"{name}.yaml").read_text())


def read(folder: Path, table: str) -> pl.DataFrame:
    return open_history(folder).read(table)


def command_line(history: Path, out: Path, *options: str) -> pl.DataFrame:
    """Replay through the command line and return the decisions that it wrote."""
    arguments = [*COMMAND, str(history), "--out", str(out), "--k8s", "1.36", *options]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return pl.read_parquet(out)


def assert_same_decisions(written: pl.DataFrame, result: ReplayResult) -> None:
    names = ["cluster", "namespace", "hpa", "ts", "replicas", "desired", "applied", "rescaled"]
    texts = pl.col("cluster", "namespace", "hpa").cast(pl.String)
    assert written.select(names).with_columns(texts).equals(result.decisions.select(names))


def age_of_newest_ms(ticks: pl.DataFrame, samples: pl.DataFrame) -> np.ndarray:
    """Return how old the newest sample is at each tick, a very large number where there is none."""
    ts, now = samples["ts"].to_physical().sort().to_numpy(), ticks["ts"].to_physical().to_numpy()
    newest = np.searchsorted(ts, now, side="right") - 1
    return np.where(newest < 0, 2**60, now - ts[np.maximum(newest, 0)])


# ---- nezha: per pod, a minute apart, no HPA


@pytest.mark.parametrize("app", ["online-boutique", "train-ticket"])
def test_nezhas_limits_are_what_the_usage_says(app: str) -> None:
    rows = pl.read_parquet(FOLDER / FILES["nezha"]).filter(pl.col("app") == app)
    percent = pl.col("cpu_pct_of_limit")
    limit = (pl.col("cpu_millicores") / percent * 100).filter(percent > 0.05).median()
    found = rows.group_by("workload").agg(limit=limit)
    found = found.with_columns(pl.col("limit").fill_null(pl.col("limit").median()))
    wanted = {name: f"{max(5, round(value / 5) * 5)}m" for name, value in found.rows()}
    assert said(f"nezha-{app}")["limits"]["cpu"]["workloads"] == wanted


@pytest.mark.parametrize(("app", "hpas"), [("online-boutique", 10), ("train-ticket", 46)])
def test_nezha_is_invalid_in_its_gaps_only(tmp_path: Path, app: str, hpas: int) -> None:
    imported = import_map(f"nezha-{app}", tmp_path / "history")
    assert (imported.dropped, imported.assumed, imported.warnings) == ({}, (), ())
    result = replay(tmp_path / "history")
    assert (result.hpas.height, result.skipped, result.warnings) == (hpas, (), ())
    # 60 s between samples, jittered by milliseconds: a sample outlives one lost one.
    max_age_ms, source = result.evidence["max_age"].split(" ms ")
    assert abs(int(max_age_ms) - 150_000) < 1_000
    assert source == "(estimated)"
    samples = read(tmp_path / "history", "pod_metrics")
    for (hpa,), ticks in result.decisions.partition_by("hpa", as_dict=True).items():
        age = age_of_newest_ms(ticks, samples.filter(pl.col("target") == hpa))
        invalid = ticks["invalid_metrics"].to_numpy() > 0
        assert not invalid[age <= MINUTE_MS].any(), hpa
        assert invalid[age > int(max_age_ms)].all(), hpa
        assert (ticks["desired"].to_numpy()[invalid] == 1).all(), hpa
    assert result.decisions.filter(pl.col("invalid_metrics") > 0)["error"].unique().to_list() == [
        "no metrics returned"
    ]
    rows = summary_table(result)
    assert rows["recorded_changes"].sum() == 0  # no HPA ran
    assert rows["agreement_share"].is_between(0.02, 1).all()
    assert result.decisions["desired"].is_between(1, 8).all()
    written = command_line(tmp_path / "history", tmp_path / "d.parquet")
    assert_same_decisions(written, result)


def test_nezhas_replaced_pods_are_other_pods(tmp_path: Path) -> None:
    import_map("nezha-train-ticket", tmp_path / "one")
    pods = read(tmp_path / "one", "pods")
    assert pods.group_by("target").len()["len"].unique().to_list() == [2]
    assert pods["uid"].n_unique() == pods.height
    assert pods["origin"].unique().to_list() == ["recorded"]
    import_map("nezha-train-ticket", tmp_path / "two")
    for table in open_history(tmp_path / "one").tables:
        assert read(tmp_path / "one", table).equals(read(tmp_path / "two", table))


# ---- ScalerEval: per workload, a real HPA


def run_rows(app: str, target: int) -> pl.DataFrame:
    rows = pl.read_parquet(FOLDER / FILES["scalereval"])
    chosen = (pl.col("app") == app) & (pl.col("scaler") == f"KHPA-{target}")
    return rows.filter(chosen & pl.col("replicas").is_not_null()).sort("service", "ts")


def factor(name: str, resource: str) -> pl.Expr:
    """Return by what the map multiplies the mean."""
    sql = said(name)["columns"][resource]["sql"]
    text: str = sql.split("_usage_mean *")[1]
    return compile_expression(text, {"service": pl.String()})


@pytest.mark.parametrize(("app", "target"), RUNS)
def test_the_means_are_over_all_pods_that_ever_were(app: str, target: int) -> None:
    name = f"scalereval-{app}-KHPA-{target}"
    rows = run_rows(app, target)
    came = pl.col("replicas").first() + pl.col("replicas").diff().clip(0).sum()
    rows = rows.with_columns(came.over("service").alias("ever"))
    for column, resource in (("cpu", "cpu"), ("mem", "memory")):
        maximum, mean = pl.col(f"{column}_usage_max"), pl.col(f"{column}_usage_mean")
        counted = rows.with_columns(n=factor(name, resource)).filter(pl.col("replicas") == 1)
        counted = counted.filter(mean > 0).with_columns(ratio=maximum / mean)
        # At one replica the maximum is the sum. Two pods overlap for a while after a removal.
        found = counted.group_by("service").agg(
            pl.col("ratio").max(), pl.col("n", "ever").first(), pl.len().alias("rows")
        )
        found = found.filter(pl.col("rows") > 10)
        assert (found["ratio"] / found["n"] - 1).abs().max() < 1e-3  # type: ignore[operator]
        other = found.filter(pl.col("n") != pl.col("ever"))["service"].to_list()
        # One of its 14 pods never showed any cpu usage.
        lacking = ["shipping"] if (app, target, column) == ("sockshop", 80, "cpu") else []
        assert other == lacking
    unseen = rows.group_by("service").agg(pl.col("replicas").min()).filter(pl.col("replicas") > 1)
    assert unseen["service"].to_list() == (
        ["shipping"] if (app, target) == ("sockshop", 20) else []
    )


@pytest.mark.parametrize(("app", "target"), RUNS)
def test_limits_are_the_studys(app: str, target: int) -> None:
    recorded = json.loads((FOLDER / "hpa_runs_scalereval_limits.json").read_text())
    services = set(run_rows(app, target)["service"])
    limits = recorded[f"{app}/KHPA-{target}"]
    wanted = {name: cpu for name, (cpu, _) in limits.items() if cpu and name in services}
    found = said(f"scalereval-{app}-KHPA-{target}")
    assert found["limits"]["cpu"]["workloads"] == wanted
    assert set(found["requests"]["cpu"]["workloads"]) == set(wanted)
    assert found["hpas"] == {"template": {"min": 1, "max": 8, "cpu": f"{target}%"}}


EXPECTED = {
    # run: (HPAs, without a request, recorded changes, phase in ms)
    ("hipster", 20): (11, 0, 35, 8_000),
    ("hipster", 50): (11, 0, 19, 0),
    ("hipster", 80): (11, 0, 23, 12_000),
    ("sockshop", 20): (14, 8, 19, 1_000),
    ("sockshop", 50): (14, 8, 25, 11_000),
    ("sockshop", 80): (14, 8, 19, 11_000),
}


@pytest.mark.parametrize(("app", "target"), RUNS)
def test_a_real_hpa_is_followed_as_far_as_its_pods_usage_is_known(
    tmp_path: Path, app: str, target: int
) -> None:
    name = f"scalereval-{app}-KHPA-{target}"
    hpas, unrequested, moves, phase = EXPECTED[app, target]
    imported = import_map(name, tmp_path / "plain")
    assert (imported.dropped, imported.assumed) == ({}, ())
    told = [text.partition(" request under")[0] for text in imported.warnings]
    assert told == ([f"{unrequested} workloads have no cpu"] if unrequested else [])
    assert read(tmp_path / "plain", "pods")["origin"].unique().to_list() == ["generated"]
    assert phase_ms(read(tmp_path / "plain", "scales")) == phase
    result = replay(tmp_path / "plain")
    assert (result.hpas.height, result.skipped) == (hpas, ())
    rows = summary_table(result)
    assert rows["recorded_changes"].sum() == moves
    assert result.decisions["desired"].is_between(1, 8).all()
    # Without a request there is no utilization: the controller left these services alone.
    idle = rows.filter(pl.col("invalid_share") == 1)
    assert idle.height == unrequested
    assert (idle["decided_mean"] == idle["applied_mean"]).all()
    assert idle["recorded_changes"].sum() == 0
    rest = rows.filter(pl.col("invalid_share") < 1)
    assert rest["invalid_share"].sum() == 0
    # The sidecar's usage is missing: too few pods are wanted. Adding some, here as a multiple of
    # the application's, closes the gap; which multiple is right is not known.
    import_map(name, tmp_path / "more", ("cpu_usage_mean *", "3 * cpu_usage_mean *"))
    more = summary_table(replay(tmp_path / "more")).filter(pl.col("invalid_share") < 1)
    missing = (rest["applied_mean"] - rest["decided_mean"]).mean()
    assert missing > 1  # type: ignore[operator]
    assert (more["applied_mean"] - more["decided_mean"]).mean() < missing - 0.5  # type: ignore[operator]
    assert more["agreement_share"].mean() > rest["agreement_share"].mean()  # type: ignore[operator]


def test_most_recorded_scale_ups_need_usage_that_was_not_recorded() -> None:
    ups = explained = 0
    for app, target in RUNS:
        name = f"scalereval-{app}-KHPA-{target}"
        requests = {k: int(v[:-1]) for k, v in said(name)["requests"]["cpu"]["workloads"].items()}
        rows = run_rows(app, target).filter(pl.col("service").is_in(list(requests)))
        request = pl.col("service").replace_strict(requests)
        each = pl.col("cpu_usage_mean") * factor(name, "cpu") / pl.col("replicas") / request
        rows = rows.with_columns(each=each.rolling_max(60, min_samples=1).shift(1).over("service"))
        up = rows.filter(pl.col("replicas").diff().over("service") > 0)
        ups += up.height
        explained += up.filter(pl.col("each") > target / 100 * 1.1).height
    assert ups == 119
    assert explained == 50


def test_the_command_line_decides_the_same(tmp_path: Path) -> None:
    import_map("scalereval-hipster-KHPA-20", tmp_path / "history")
    written = command_line(tmp_path / "history", tmp_path / "d.parquet", "--phase", "8s")
    assert_same_decisions(written, replay(tmp_path / "history"))


@pytest.mark.parametrize("service", ["emailservice", "paymentservice", "shippingservice"])
def test_a_service_that_idles_agrees_at_every_tick(tmp_path: Path, service: str) -> None:
    import_map("scalereval-hipster-KHPA-80", tmp_path / "history")
    rows = summary_table(replay(tmp_path / "history")).filter(pl.col("hpa") == service)
    assert rows.select("agreement_share", "recorded_changes").rows() == [(1.0, 0)]
