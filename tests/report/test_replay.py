"""Sentences of a replay beside the approved screens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.replay.score import score
from hpabatch.engine.replay.summary import KEY
from hpabatch.jobs.replay import ReplayDone
from hpabatch.report.forms import table_text
from hpabatch.report.replay import Replay, evidence_lines, total_lines
from tests.engine.made import decisions, hpas, summarize
from tests.report.results import EVIDENCE

MET: list[dict[str, Any]] = [
    *[{}] * 4,
    {"replicas": 3, "applied": 5, "desired": 5, "rescaled": True},
    *[{"replicas": 5, "applied": 5, "desired": 5}] * 4,
]
"""The ticks of an HPA whose one rescale was decided at the same tick, to one size."""


def replayed(ticks: list[dict[str, Any]], *names: str, **more: Any) -> Replay:
    frame, fleet = decisions(ticks), hpas(*names)
    evidence = EVIDENCE | more
    done = ReplayDone((), (), evidence, summarize(frame, fleet), score(frame, fleet))
    return Replay(done, scored=done.score)


def test_the_next_command_is_of_the_hpa_to_look_at_first() -> None:
    """With the time of its mismatch; where none is worth a look, the HPA with the most of them."""
    at = {"hpa": "api", "binding": "max", "desired": 9, "rescaled": True}
    off = [{"hpa": "web", "replicas": 4, "applied": n} for n in (4, 5, 3)]
    ticks = [at | {"applied": 9}] * 3 + [{"hpa": "cart", "applied": 7}] + off
    found = replayed(ticks, "api", "cart", "web")
    first = found.attention(1)["hpa"][0]
    in_short, last = found.hints()[-2:]
    assert f"look at shop/{first} first" in in_short
    assert last.startswith(f"next: hpabatch explain HISTORY shop/{first}")
    unranked = replace(found, top=0)
    assert unranked.hints()[-1] == (
        "next: hpabatch explain HISTORY shop/web --at 2026-10-07T00:00:15Z"
    )
    assert "look" not in unranked.verdict


@pytest.mark.parametrize(
    ("share", "told"), [(1.0, "100.0%"), (0.99996, "99.9%"), (0.9994, "99.9%"), (0.5, "50.0%")]
)
def test_only_all_of_the_decisions_are_a_hundred_percent(share: float, told: str) -> None:
    found = replayed([{}] * 3, "cart")
    vars(found)["totals"] = found.totals._replace(agreement_share=share)
    assert f": {told} match the recorded size" in found.verdict


def test_a_small_difference_keeps_its_sign() -> None:
    totals = replayed([{}] * 3, "cart").totals
    smaller = totals._replace(decided_replica_hours=totals.applied_replica_hours * (1 - 1e-5))
    assert " decided (-<0.1%), from" in total_lines(smaller)[0]


def test_nothing_stands_out() -> None:
    text = table_text(replayed([{}] * 3, "cart"))
    assert "; none stands out" in text
    assert "in short: the rules decide what was recorded; no HPA needs a look\n" in text


def test_in_short_is_one_reason() -> None:
    found = replayed([{}] * 3, "cart")
    why = "other sizes are recorded: are these its times? Also: it flaps. Also: it is held"
    ranked = found.summary.select(*KEY, rank=pl.lit(1), why=pl.lit(why))
    vars(found)["_ranked"] = ranked
    told = "look at cart first: other sizes are recorded: are these its times? (and 2 reasons more)"
    assert told.replace("cart", "shop/cart") in found.hints()[1]


def test_no_ticks_at_all() -> None:
    found = replayed([], "cart")
    assert found.verdict.startswith("1 HPA, 0 decisions")
    assert found.totals.agreement_share is None
    assert "not scorable: 1 HPA: no tick was replayed" in table_text(found)


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
    text = table_text(replayed([*MET, *back, *MET[-4:]], "cart", max_age=max_age))
    assert ("the score is limited by the recording: " in text) == bool(apart)
    assert (
        f"no rule made{apart and ', as far as samples show'} (1{apart and f'; {apart}'}):" in text
    )


def test_what_cannot_be_scored_is_told() -> None:
    still = [{"hpa": "still"}] * 3
    extra = [{"hpa": "still", "rescaled": True, "desired": 4}]
    text = table_text(replayed([*MET, *still, *extra], "cart", "still"))
    assert "not scorable: 1 HPA: the recorded size never changed" in text
    assert "1 more were decided for HPAs that cannot be scored" in text
    none = table_text(replayed(still, "still"))
    assert "Controller score: 0 of 1 HPA can be scored" in none
    assert "precision" not in none


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({}, "rules of Kubernetes 1.38 (proved against upstream's code);"),
        (
            {"k8s": "1.37", "k8s_evidence": "from sources", "k8s_proof": "1.38's rules"},
            "rules of Kubernetes 1.37 (from sources: 1.38's rules);",
        ),
        (
            {"k8s_evidence": "checked live", "k8s_proof": "in two clusters"},
            "rules of Kubernetes 1.38 (checked on live clusters: in two clusters);",
        ),
        (
            {"k8s": "1.36, 1.38", "k8s_evidence": "1.36 proved; 1.38 proved", "k8s_proof": "x; y"},
            "rules of Kubernetes 1.36, 1.38 (1.36 proved; 1.38 proved);",
        ),
        (
            {"feature_gates": "HPAScaleToZero=false"},
            "rules of Kubernetes 1.38 with HPAScaleToZero=false (proved against upstream's code);",
        ),
    ],
)
def test_the_rules_and_how_they_are_proved(evidence: dict[str, str], words: str) -> None:
    assert evidence_lines(EVIDENCE | evidence)[0].startswith(words)


@pytest.mark.parametrize(
    ("instants", "words"),
    [
        ("grid", "sync period 15 s (recorded), phase 0 ms (assumed), delay"),
        ("recorded for 1 of 2 HPAs, else a grid",
         "instants: recorded for 1 of 2 HPAs, else a grid; sync period 15 s (recorded), phase"),
        ("passes of a live loop for 2 of 2 HPAs",
         "instants: passes of a live loop for 2 of 2 HPAs; delay"),
    ],
)  # fmt: skip
def test_of_the_grid_is_told_only_where_it_counts(instants: str, words: str) -> None:
    given = {
        "instants": instants, "sync_period": "15000 ms (recorded)", "phase": "0 ms (assumed)",
        "delay": "0 ms (assumed)",
    }  # fmt: skip
    assert evidence_lines(EVIDENCE | given)[1].startswith(words)
