"""The tick on the time of a row that tells a change: size and pods of before, whoever made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hpabatch
from hpabatch.api.replays import Replay
from tests.importers.tables import BEGIN_S, POD_MAP, WORKLOAD_MAP, merged, run_import

DOWN_AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
HPA = {"template": {"min": 1, "max": 10, "cpu": "60%"}}
SAID: dict[str, Any] = {
    "requests": {"cpu": "1"}, "limits": None, "hpas": HPA,
    "lives": {"edge": "5m", "ran_before": "10m"},
}  # fmt: skip
AT_S = 900
BEGIN = BEGIN_S // 60 * 60  # on the grid of the syncs


def replayed(folder: Path, said: dict[str, Any], data: pl.DataFrame) -> Replay:
    run_import(folder, said, data)
    return hpabatch.open(folder / "history").replay(phase="0s", sync_period="15s")


def totals(before: tuple[int, float], *after: tuple[int, float], rest: tuple[int, float]) -> Any:
    """Return rows each 15 s: size and cores; `after` from AT_S on."""
    rows = [before] * (AT_S // 15) + [*after] + [rest] * 60
    return pl.DataFrame(
        {
            "ts": [BEGIN + 15 * k for k in range(len(rows))],
            "app": "cart",
            "size": [size for size, _ in rows],
            "cpu": [cores * 1000 for _, cores in rows],
        }
    )


def tick(replay: Replay, at_s: int) -> dict[str, Any]:
    ts = pl.from_epoch(pl.lit(BEGIN + at_s)).cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")
    (row,) = replay.decisions.filter(pl.col("ts") == ts).to_dicts()
    return row


def workload_map(behavior: dict[str, Any] | None = None) -> dict[str, Any]:
    template = HPA["template"] | ({"behavior": behavior} if behavior else {})
    columns = {"cpu": {"of": "sum"}}
    lives = {"ready_after": "10s", "ran_before": "10m", "edge": "5m"}
    said = SAID | {"columns": columns, "hpas": {"template": template}, "lives": lives}
    return merged(WORKLOAD_MAP, said)


@pytest.mark.parametrize("behavior", [None, DOWN_AT_ONCE])
def test_a_reset_is_not_decided_and_named(tmp_path: Path, behavior: dict[str, Any] | None) -> None:
    data = totals((5, 2.9), (1, 0.98), (1, 0.98), (4, 2.9), rest=(5, 2.9))
    found = replayed(tmp_path, workload_map(behavior), data)
    row = tick(found, AT_S)
    assert (row["replicas"], row["desired"], row["applied"]) == (5, 5, 1)
    score = found.score
    (hpa,) = score.hpas.to_dicts()
    assert (hpa["foreign"], hpa["missed_down"], hpa["recorded_events"]) == (1, 0, 2)
    (summary,) = found.summary.to_dicts()
    assert summary["foreign_changes"] == 1
    assert summary["foreign_told"].startswith("5 -> 1 at ")
    assert summary["foreign_told"].endswith(": not by the rules, which kept 5")
    explained = hpabatch.open(tmp_path / "history").explain("cart", at=row["ts"]).text
    assert "0s after this sync: not by the rules, which kept 5\n" in explained


def test_a_rescale_upwards_is_decided_on_its_row(tmp_path: Path) -> None:
    found = replayed(tmp_path, workload_map(), totals((2, 1.0), (3, 1.8), rest=(3, 1.8)))
    row = tick(found, AT_S)
    assert (row["replicas"], row["desired"], row["ratio"]) == (2, 3, 1.5)
    assert found.score.hpas["exact"].to_list() == [1]
    assert found.summary["foreign_changes"].to_list() == [0]


def test_rows_per_pod_that_end_and_begin(tmp_path: Path) -> None:
    # One of five pods goes on alone from 600 s on; the others count for 60 s more. Two come again.
    rows = [
        (15 * k, f"cart-{p}", 580 if 15 * k <= 600 else 980)
        for k in range(121)
        for p in range(5)
        if p == 0 or 15 * k <= 600 or (p < 3 and 15 * k >= 1200)
    ]
    data = pl.DataFrame(
        {
            "ts": [BEGIN + at_s for at_s, _, _ in rows],
            "pod": [pod for _, pod, _ in rows],
            "app": "cart",
            "cpu": [milli / 1000 for _, _, milli in rows],
            "mem": 1.0,
        }
    )
    lives = SAID["lives"] | {"gap": "5m"}
    template = HPA["template"] | {"behavior": DOWN_AT_ONCE}
    said = merged(POD_MAP, SAID | {"lives": lives, "hpas": {"template": template}})
    found = replayed(tmp_path, said, data)
    gone, came = tick(found, 660), tick(found, 1200)
    assert (gone["replicas"], gone["desired"], gone["applied"]) == (5, 5, 1)
    # Of the one pod alone: 98 % of a target of 60 %.
    assert (came["replicas"], came["desired"], came["applied"]) == (1, 2, 3)
    assert came["ratio"] == pytest.approx(98 / 60)
