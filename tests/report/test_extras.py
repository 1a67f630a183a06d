"""The score, as a report tells it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.replay.attention import rank_attention
from hpabatch.engine.replay.score import COLUMNS as SCORE_COLUMNS
from hpabatch.engine.replay.score import score
from hpabatch.engine.replay.summary import total
from hpabatch.report.forms import json_text, table_text
from hpabatch.report.replay import ReplayReport
from tests.engine.made import decisions, hpas, summarize


def report(rows: list[dict[str, Any]], *names: str, **more: Any) -> ReplayReport:
    frame = decisions(rows)
    summary = summarize(frame, hpas(*names))
    return ReplayReport(
        evidence={"k8s": "1.38"},
        totals=total(summary),
        summary=summary,
        attention=rank_attention(summary, 3),
        skipped=(),
        warnings=(),
        out="d.parquet",
        score=score(frame, hpas(*names)),
        **more,
    )


def met() -> list[dict[str, Any]]:
    """Return the ticks of an HPA whose one rescale was decided at the same tick, to one size."""
    before = {"replicas": 3, "applied": 3, "desired": 3}
    move = {"replicas": 3, "applied": 5, "desired": 5, "rescaled": True}
    after = {"replicas": 5, "applied": 5, "desired": 5}
    return [*[before] * 4, move, *[after] * 4]


def test_the_score_is_told() -> None:
    text = table_text(report(met(), "cart"))
    lines = text.splitlines()
    assert (
        "Controller score: 1 of 1 HPA can be scored; 1 rescale recorded, 1 decided, "
        "1 of them match" in lines
    )
    assert any(line.startswith("precision 100.0%, recall 100.0% of the instants") for line in lines)
    assert any(line.startswith("sizes: as recorded in 100.0% of the ticks") for line in lines)
    assert "  recorded and decided at one tick, to one size: 1" in lines
    row = next(line for line in lines if line.startswith("shop/cart") and "100.0%" in line)
    assert row.split() == ["shop/cart", "1", "1", "100.0%", "100.0%", "0.00", "+1.00", "+1.00"]
    assert not [line for line in lines if line.startswith("not scorable")]


@pytest.mark.parametrize(
    ("max_age", "apart"),
    [
        ("150000 ms (estimated)", "samples are 1m apart, syncs 15s"),
        ("60000 ms (estimated)", ""),
        ("150000 ms (given)", ""),
        ("none (recorded)", ""),
    ],
)
def test_samples_farther_apart_than_the_syncs_are_told(max_age: str, apart: str) -> None:
    """They limit the score, and may be why no rule seems to have made a change."""
    back = [{"replicas": 5, "applied": 3, "desired": 5}, {"replicas": 3, "applied": 5, "desired": 5,
             "rescaled": True}]  # fmt: skip
    told = report([*met(), *back, *met()[-4:]], "cart")
    known = {"max_age": max_age, "delay": "0 ms (given)", "sync_period": "15000 ms (assumed)"}
    text = table_text(replace(told, evidence=known))
    assert ("the score is limited by the recording: " in text) == bool(apart)
    assert (
        f"no rule made{apart and ', as far as samples show'} (1{apart and f'; {apart}'}):" in text
    )


def test_what_cannot_be_scored_is_told() -> None:
    still = [{"hpa": "still"}] * 3
    extra = [{"hpa": "still", "rescaled": True, "desired": 4}]
    told = report([*met(), *still, *extra], "cart", "still", "never")
    text = table_text(told)
    assert "not scorable: 1 HPA: the recorded size never changed" in text
    assert "not scorable: 1 HPA: no tick was replayed" in text
    assert "1 more were decided for HPAs that cannot be scored" in text
    none = table_text(report(still, "still"))
    assert "Controller score: 0 of 1 HPA can be scored" in none
    assert "precision" not in none


def test_many_scored_hpas_are_cut() -> None:
    names = [f"h{k:02}" for k in range(23)]
    rows = [{"hpa": name} | row for name in names for row in met()]
    text = table_text(report(rows, *names))
    assert "… and 3 with fewer rescales: --output json has all" in text


def test_the_score_as_json() -> None:
    found = json.loads(json_text(report(met(), "cart")))["score"]
    assert list(found) == ["totals", "classes", "hpas"]
    assert found["totals"]["matched_events"] == 1
    assert found["classes"][0]["class"] == "exact"
    assert list(found["hpas"][0]) == list(SCORE_COLUMNS)
