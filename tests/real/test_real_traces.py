"""Recordings of real clusters through `import table` and the replay.

The traces are no part of the project: HPABATCH_TRACES names their folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hpabatch.history.reader import open_history
from tests.real.replays import import_map, phase_ms, replay, summary_table
from tests.real.settings import VARIABLE

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
    ),
    pytest.mark.compiled,
]
MINUTE_MS = 60_000
RUNS = [(app, target) for app in ("hipster", "sockshop") for target in (20, 50, 80)]


def read(folder: Path, table: str) -> pl.DataFrame:
    return open_history(folder).read(table)


def age_of_newest_ms(ticks: pl.DataFrame, samples: pl.DataFrame) -> np.ndarray:
    """Return how old the newest sample is at each tick, a very large number where there is none."""
    ts, now = samples["ts"].to_physical().sort().to_numpy(), ticks["ts"].to_physical().to_numpy()
    newest = np.searchsorted(ts, now, side="right") - 1
    return np.where(newest < 0, 2**60, now - ts[np.maximum(newest, 0)])


# ---- nezha: per pod, a minute apart, no HPA


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


# ---- ScalerEval: per workload, a real HPA


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
    assert imported.warnings == ()
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
