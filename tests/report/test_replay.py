"""A replay's report in its four forms, and the file of decisions."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import yaml

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.replay.attention import rank_attention
from hpabatch.engine.replay.summary import total
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.report.base import View
from hpabatch.report.forms import (
    csv_text,
    json_text,
    markdown_text,
    parquet_bytes,
    table_text,
    yaml_text,
)
from hpabatch.report.replay import ReplayReport, evidence_lines
from tests.engine.made import decisions, hpas, summarize

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
    text = table_text(report("cart", "api", binding="max"))
    lines = text.splitlines()
    assert lines[0] == (
        "2 HPAs, 6 decisions: 100.0% match the recorded size; 2 HPAs most worth a look"
    )
    assert lines[2] == (
        "replica-hours: 2.2 recorded, 2.2 decided (0%), from 2026-10-07T00:00:00Z to "
        "2026-10-07T00:00:30Z"
    )
    shown = [" ".join(line.split()) for line in lines]
    heads = "HPA RANGE RECORDED DECIDED MATCH REVERSALS AT MIN AT MAX HELD FAILED"
    assert shown[shown.index(heads) + 1] == "shop/cart 1-10 90.0 90.0 100% 0 - 100% - -"
    assert "Most worth a look (2):" in lines
    assert "1  shop/api   at maxReplicas 10 for 45 s; the metrics asked for up to 3" in lines
    assert lines[-6:-4] == [
        "rules of Kubernetes 1.38 (proved against upstream's code); "
        "policy budgets spent by the recorded changes",
        "sync period 15 s (recorded), phase 500 ms (assumed), delay 0 ms (assumed), "
        "max age 150 s (estimated)",
    ]
    assert lines[-3:] == [
        "decisions: out/decisions.parquet",
        "in short: the rules decide what was recorded; look at shop/api first: at maxReplicas 10 "
        "for 45 s; the metrics asked for up to 3",
        "next: hpabatch explain HISTORY shop/api",
    ]


def test_the_next_command_is_of_the_hpa_to_look_at_first() -> None:
    """With the time of its mismatch; where none is worth a look, the HPA with the most of them."""
    at = {"hpa": "api", "binding": "max", "desired": 9, "rescaled": True}
    off = [{"hpa": "web", "replicas": 4, "applied": n} for n in (4, 5, 3)]
    frame = decisions([at | {"applied": 9}] * 3 + [{"hpa": "cart", "applied": 7}] * 1 + off)
    summary = summarize(frame, hpas("api", "cart", "web"))
    found = replace(report("x", binding="max"), totals=total(summary), summary=summary)
    web = "next: hpabatch explain HISTORY shop/web --at 2026-10-07T00:00:15Z"
    for names, told in (
        (("api", "web"), web.split(" shop/")[0] + " shop/api"),
        (("web", "api"), web),
    ):
        ranked = summary.filter(pl.col("hpa").is_in(names)).select("cluster", "namespace", "hpa")
        ranked = ranked.sort("hpa", descending=names[0] == "web").with_columns(why=pl.lit("odd"))
        in_short, last = replace(found, attention=ranked).hints()[-2:]
        assert f"look at shop/{names[0]} first" in in_short
        assert last == told
    assert replace(found, attention=found.attention.clear()).hints()[-1] == web


@pytest.mark.parametrize(
    ("share", "told"), [(1.0, "100.0%"), (0.99996, "99.9%"), (0.9994, "99.9%"), (0.5, "50.0%")]
)
def test_only_all_of_the_decisions_are_a_hundred_percent(share: float, told: str) -> None:
    found = report("cart", binding="max")
    found = replace(found, totals=found.totals._replace(agreement_share=share))
    assert f": {told} match the recorded size" in found.verdict()


def test_a_legend_explains_the_columns_shown() -> None:
    offered = "columns: --legend explains them"
    assert offered in table_text(report("cart"), View(legend=False)).splitlines()
    text = table_text(report("cart", "api", binding="max"), View(legend=True))
    assert offered not in text
    assert "  RECORDED   mean recorded size\n" in text
    assert "mean recorded size" not in table_text(report("cart", "api", binding="max"))


def test_the_wide_table_has_all_columns() -> None:
    text = table_text(report("cart", "api", binding="max"), View(wide=True))
    (heads,) = [line.split() for line in text.splitlines() if line.startswith("CLUSTER")]
    assert heads == [name.upper() for name in report("cart", "api").summary.columns]


def test_yaml_and_markdown_hold_the_same() -> None:
    told = report("cart", "api", binding="max")
    assert yaml.safe_load(yaml_text(told)) == json.loads(json_text(told))
    assert list(yaml.safe_load(yaml_text(told))) == list(json.loads(json_text(told)))
    text = markdown_text(told)
    assert text.startswith("**2 HPAs, 6 decisions")
    assert "| HPA | Range | Recorded | Decided |" in text
    assert "| shop/cart | 1-10 | 90.0 |" in text


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


def test_many_hpas_are_cut_and_counted() -> None:
    lines = table_text(report(*(f"hpa-{k:02}" for k in range(23)))).splitlines()
    assert "… and 3 smaller HPAs: --output csv shows all" in lines
    assert any(line.startswith("shop/hpa-19") for line in lines)
    assert not any(line.startswith("shop/hpa-20") for line in lines)


def test_nothing_stands_out() -> None:
    assert "; none stands out" in table_text(report("cart"))
    assert "in short: the rules decide what was recorded; no HPA needs a look\n" in table_text(
        report("cart")
    )


def test_skipped_hpas_are_counted() -> None:
    skipped = Skipped("demo", "shop", "bad", "why")
    assert "skipped: 1 HPA (why: on stderr)" in table_text(report("cart", skipped=(skipped,)))


def test_no_ticks_at_all() -> None:
    empty = summarize(decisions([]), hpas("cart"))
    told = ReplayReport(EVIDENCE, total(empty), empty, rank_attention(empty, 3), (), (), "x")
    assert "1 HPA, 0 decisions" in table_text(told)
    assert json.loads(json_text(told))["totals"]["agreement_share"] is None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_is_never_too_narrow(width: int) -> None:
    name = "a-name-that-is-as-long-as-kubernetes-allows-" + "x" * 60
    text = table_text(report(name, binding="max"), View(width))
    assert max(len(line) for line in text.splitlines()) <= width
    assert "90.0" in text
    joined = "".join(line.split(" ")[0] for line in text.splitlines())
    assert name in joined  # folded over lines, not cut


def test_styles_only_where_asked() -> None:
    assert "\x1b" not in table_text(report("cart", binding="max"), View(80))
    assert "\x1b[1m" in table_text(report("cart", binding="max"), View(80, styled=True))


def test_plain_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert "\x1b" not in table_text(report("cart", binding="max"))


def test_several_clusters_are_named() -> None:
    frame = decisions([{"cluster": c} for c in ("a", "b")])
    both = pl.concat([hpas("cart", cluster=c) for c in ("a", "b")])
    summary = summarize(frame, both)
    told = ReplayReport(EVIDENCE, total(summary), summary, rank_attention(summary, 3), (), (), "x")
    assert "a/shop/cart" in table_text(told)


def test_json_is_one_object() -> None:
    skipped = Skipped("demo", "shop", "bad", "no scale")
    found = json.loads(json_text(report("cart", "api", binding="max", skipped=(skipped,))))
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
    found = pl.read_csv(io.StringIO(csv_text(told)))
    assert found.columns == told.summary.columns
    assert found["hpa"].to_list() == ["api", "cart"]
    assert found["first_ts"].to_list() == ["2026-10-07T00:00:00.000Z"] * 2
    assert found["applied_mean"].to_list() == told.summary["applied_mean"].to_list()


def test_parquet_holds_the_summary_and_the_evidence() -> None:
    told = report("cart", "api", binding="max")
    data = parquet_bytes(told)
    assert pl.read_parquet(io.BytesIO(data)).equals(told.summary)
    metadata = pl.read_parquet_metadata(io.BytesIO(data))
    assert json.loads(metadata[EVIDENCE_KEY]) == EVIDENCE
    assert parquet_bytes(told) == data


def test_a_small_difference_keeps_its_sign() -> None:
    found = report("cart")
    smaller = found.totals.applied_replica_hours * (1 - 1e-5)
    text = table_text(replace(found, totals=found.totals._replace(decided_replica_hours=smaller)))
    assert " decided (-<0.1%), from" in text
