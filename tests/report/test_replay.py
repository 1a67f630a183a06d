"""A replay's report in its four forms, and the file of decisions."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.replay.attention import rank_attention
from hpabatch.engine.replay.summary import summarize, total
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.report import replay as forms
from hpabatch.report.replay import ReplayReport
from tests.engine.made import decisions, hpas

EVIDENCE = {
    "hpabatch": "0.1.0",
    "k8s": "1.38",
    "k8s_evidence": "proved",
    "k8s_proof": "against upstream's code",
    "events": "recorded",
    "sync_period": "15000 ms (recorded)",
    "phase": "500 ms (assumed)",
    "delay": "0 ms (assumed)",
    "max_age": "150000 ms (estimated)",
}


def report(*names: str, skipped: tuple[Skipped, ...] = (), **tick: Any) -> ReplayReport:
    """Return the report of HPAs of three ticks each; the first is the largest."""
    frame = decisions(
        [
            {"hpa": name, "replicas": 90 - k, "applied": 90 - k} | tick
            for k, name in enumerate(names)
            for _ in range(3)
        ]
    )
    summary = summarize(frame, hpas(*names))
    return ReplayReport(
        evidence=EVIDENCE,
        totals=total(summary),
        summary=summary,
        attention=rank_attention(summary, 3),
        skipped=skipped,
        warnings=("something odd",),
        out="out/decisions.parquet",
    )


def test_the_table_tells_everything() -> None:
    text = forms.to_table(report("cart", "api", binding="max"))
    lines = text.splitlines()
    assert lines[0] == (
        "rules of Kubernetes 1.38 (proved against upstream's code); "
        "policy budgets spent by the recorded changes"
    )
    assert lines[1] == (
        "sync period 15 s (recorded), phase 500 ms (assumed), delay 0 ms (assumed), "
        "max age 150 s (estimated)"
    )
    assert lines[2] == ("2 HPAs, 6 decisions from 2026-10-07T00:00:00Z to 2026-10-07T00:00:30Z")
    assert lines[3].startswith("replica-hours: 2.2 recorded, 2.2 decided (+0.0%); the same size in")
    assert " ".join(lines[5].split()) == "HPA RANGE REAL RULES SAME TURNS MIN MAX HELD FAIL"
    assert " ".join(lines[6].split()) == "shop/cart 1-10 90.0 90.0 100% 0 - 100% - -"
    assert "Most worth a look (2):" in lines
    assert "1  shop/api   at maxReplicas 10 for 45 s; the metrics asked for up to 3" in lines
    assert lines[-1] == "decisions: out/decisions.parquet"


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
    assert forms.evidence_lines(EVIDENCE | evidence)[0].startswith(words)


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
    assert forms.evidence_lines(EVIDENCE | given)[1].startswith(words)


def test_many_hpas_are_cut_and_counted() -> None:
    lines = forms.to_table(report(*(f"hpa-{k:02}" for k in range(23)))).splitlines()
    assert "… and 3 smaller HPAs: --output csv shows all" in lines
    assert any(line.startswith("shop/hpa-19") for line in lines)
    assert not any(line.startswith("shop/hpa-20") for line in lines)


def test_nothing_stands_out() -> None:
    assert "Nothing stands out" in forms.to_table(report("cart"))


def test_skipped_hpas_are_counted() -> None:
    skipped = Skipped("demo", "shop", "bad", "why")
    assert "skipped: 1 HPA (why: on stderr)" in forms.to_table(report("cart", skipped=(skipped,)))


def test_no_ticks_at_all() -> None:
    empty = summarize(decisions([]), hpas("cart"))
    told = ReplayReport(EVIDENCE, total(empty), empty, rank_attention(empty, 3), (), (), "x")
    assert "1 HPA, 0 decisions" in forms.to_table(told)
    assert json.loads(forms.to_json(told))["totals"]["agreement_share"] is None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_is_never_too_narrow(width: int) -> None:
    name = "a-name-that-is-as-long-as-kubernetes-allows-" + "x" * 60
    text = forms.to_table(report(name, binding="max"), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "90.0" in text
    joined = "".join(line.split(" ")[0] for line in text.splitlines())
    assert name in joined  # folded over lines, not cut


def test_styles_only_where_asked() -> None:
    assert "\x1b" not in forms.to_table(report("cart", binding="max"), 80)
    assert "\x1b[1m" in forms.to_table(report("cart", binding="max"), 80, styled=True)


def test_plain_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert "\x1b" not in forms.to_table(report("cart", binding="max"))


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = forms.to_table(report("ca\x1b]0;rt", binding="invalid_metric", invalid_metrics=1,
                                 error="bad \x1b[2J"))  # fmt: skip
    assert "\x1b" not in text
    assert "\\x1b]0;rt" in text


def test_markup_in_names_is_text() -> None:
    assert "shop/[bold]x[/bold]" in forms.to_table(report("[bold]x[/bold]", binding="max"))


def test_several_clusters_are_named() -> None:
    frame = decisions([{"cluster": c} for c in ("a", "b")])
    both = pl.concat([hpas("cart", cluster=c) for c in ("a", "b")])
    summary = summarize(frame, both)
    told = ReplayReport(EVIDENCE, total(summary), summary, rank_attention(summary, 3), (), (), "x")
    assert "a/shop/cart" in forms.to_table(told)


def test_json_is_one_object() -> None:
    skipped = Skipped("demo", "shop", "bad", "no scale")
    found = json.loads(forms.to_json(report("cart", "api", binding="max", skipped=(skipped,))))
    assert list(found) == [
        "evidence",
        "totals",
        "hpas",
        "attention",
        "skipped",
        "warnings",
        "out",
    ]
    assert found["evidence"] == EVIDENCE
    assert found["totals"]["ticks"] == 6
    assert [h["hpa"] for h in found["hpas"]] == ["api", "cart"]
    assert found["hpas"][0]["first_ts"] == "2026-10-07T00:00:00.000Z"
    assert found["hpas"][0]["error"] is None
    assert found["attention"][0]["rule"] == "at_max"
    assert found["skipped"] == [
        {"cluster": "demo", "namespace": "shop", "hpa": "bad", "reason": "no scale"}
    ]
    assert found["warnings"] == ["something odd"]
    assert found["out"] == "out/decisions.parquet"


def test_csv_holds_the_whole_summary() -> None:
    told = report("cart", "api")
    found = pl.read_csv(io.StringIO(forms.to_csv(told)))
    assert found.columns == told.summary.columns
    assert found["hpa"].to_list() == ["api", "cart"]
    assert found["first_ts"].to_list() == ["2026-10-07T00:00:00.000Z"] * 2
    assert found["applied_mean"].to_list() == told.summary["applied_mean"].to_list()


def test_parquet_holds_the_summary_and_the_evidence() -> None:
    told = report("cart", "api", binding="max")
    data = forms.to_parquet(told)
    assert pl.read_parquet(io.BytesIO(data)).equals(told.summary)
    metadata = pl.read_parquet_metadata(io.BytesIO(data))
    assert json.loads(metadata[EVIDENCE_KEY]) == EVIDENCE
    assert forms.to_parquet(told) == data
