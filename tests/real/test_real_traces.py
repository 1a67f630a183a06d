"""Recordings of real clusters through the importers, the replay and the command line.

The traces are no part of the project: HPABATCH_TRACES names their folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.replay import ReplayResult
from tests.real import import_nezha, import_scalereval
from tests.real.import_scalereval import Run, replay_run
from tests.real.settings import VARIABLE
from tests.real.tables import MINUTE_MS, replay_folder, summary_table

FOLDER = Path(os.environ.get(VARIABLE, "") or ".")
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
    ),
    pytest.mark.compiled,
]
COMMAND = [sys.executable, "-c", "from hpabatch.cli import main; main()", "replay"]


def command_line(history: Path, out: Path, *options: str) -> pl.DataFrame:
    """Replay through the command line and return the decisions that it wrote."""
    arguments = [*COMMAND, str(history), "--out", str(out), "--k8s", "1.36", *options]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
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


@pytest.mark.parametrize(("app", "hpas"), [("online-boutique", 10), ("train-ticket", 46)])
def test_nezha_is_invalid_in_its_gaps_only(tmp_path: Path, app: str, hpas: int) -> None:
    assert app in import_nezha.apps(FOLDER)
    import_nezha.import_app(FOLDER, app, tmp_path / "history")
    result = replay_folder(tmp_path / "history", import_nezha.PARAMETERS)
    assert (result.hpas.height, result.skipped, result.warnings) == (hpas, (), ())
    # 60 s between samples, jittered by milliseconds: a sample outlives one lost one.
    max_age_ms, source = result.evidence["max_age"].split(" ms ")
    assert abs(int(max_age_ms) - 150_000) < 1_000
    assert source == "(estimated)"
    samples = pl.read_parquet(tmp_path / "history" / "pod_metrics.parquet")
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
    assert_same_decisions(command_line(tmp_path / "history", tmp_path / "d.parquet"), result)


def test_nezhas_replaced_pods_are_other_pods(tmp_path: Path) -> None:
    import_nezha.import_app(FOLDER, "train-ticket", tmp_path)
    pods = pl.read_parquet(tmp_path / "pods.parquet")
    assert pods.group_by("target").len()["len"].unique().to_list() == [2]
    assert pods["uid"].n_unique() == pods.height
    again = tmp_path / "again"
    import_nezha.import_app(FOLDER, "train-ticket", again)
    for file in sorted(tmp_path.glob("*.parquet")):
        assert file.read_bytes() == (again / file.name).read_bytes()


@pytest.mark.parametrize(
    ("run", "services", "moves", "phase"),
    [
        (Run("hipster", "KHPA-50"), 11, 19, 0),
        (Run("hipster", "KHPA-20"), 11, 35, 8_000),
        (Run("sockshop", "KHPA-50"), 6, 25, 11_000),
    ],
)
def test_a_real_hpa_is_followed_once_its_request_is_known(
    tmp_path: Path, run: Run, services: int, moves: int, phase: int
) -> None:
    assert import_scalereval.phase_ms(import_scalereval.read_run(FOLDER, run)) == phase
    by_limit = replay_run(FOLDER, run, tmp_path / "limit")
    assert (by_limit.hpas.height, by_limit.skipped, by_limit.warnings) == (services, (), ())
    assert by_limit.decisions["invalid_metrics"].sum() == 0
    rows = summary_table(by_limit)
    assert rows["recorded_changes"].sum() == moves
    # The requests were not the limits: with them most services would want far fewer pods. A fifth
    # or a quarter of them follows the cluster's own controller much more closely.
    smaller = summary_table(replay_run(FOLDER, run, tmp_path / "less", share=0.2))
    assert smaller["agreement_share"].mean() > rows["agreement_share"].mean() + 0.1  # type: ignore[operator]
    assert smaller["rescales"].sum() < rows["rescales"].sum()
    assert by_limit.decisions["desired"].is_between(1, 8).all()
    written = command_line(
        tmp_path / "limit", tmp_path / "d.parquet", "--phase", f"{phase // 1000}s"
    )
    assert_same_decisions(written, by_limit)


def test_a_run_whose_pods_never_changed_agrees_at_every_tick(tmp_path: Path) -> None:
    # These three services idle at one replica whatever their request: the bounds alone decide.
    rows = summary_table(replay_run(FOLDER, Run("hipster", "KHPA-80"), tmp_path / "history"))
    idle = rows.filter(pl.col("hpa").is_in(["emailservice", "paymentservice", "shippingservice"]))
    assert idle["agreement_share"].to_list() == [1.0, 1.0, 1.0]
    assert idle["recorded_changes"].to_list() == [0, 0, 0]
