"""Tests of a comparison's report: every form of the same few differences."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from hpabatch.engine.compare.frames import COLUMNS, SCHEMA, find_differences, side_by_side
from hpabatch.engine.compare.loop import COLUMNS as LOOP_COLUMNS
from hpabatch.engine.compare.loop import WHY_NOT
from hpabatch.engine.compare.run import SPECS, VERSIONS, Comparison
from hpabatch.engine.compare.sides import BOTH, LeftOut
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.report.base import View
from hpabatch.report.compare import (
    CompareReport,
    headline,
    side_evidence,
    total_line,
)
from hpabatch.report.forms import csv_text, json_text, markdown_text, parquet_bytes, table_text
from tests.engine.made import decisions

EVIDENCE = {
    "from": "1.32",
    "to": "1.37",
    "k8s_from": "1.32",
    "k8s_to": "1.37",
    "k8s_evidence": "from sources",
    "events": "recorded",
    "sync_period": "15000 ms (recorded)",
}
RULE = "tolerance_by_bounds off -> on (within the tolerance is 1-t <= ratio <= 1+t)"


def side_of(*ticks: tuple[str, dict[str, Any]]) -> pl.DataFrame:
    """Return the ticks of HPAs, each of (name, what differs from the usual tick)."""
    found = decisions([{"hpa": name} | tick for name, tick in ticks])
    return found.cast({name: TICK_SCHEMA[name] for name in ("binding", "error")})


SMALL = {"desired": 3, "binding": "tolerance"}
LARGE = {"desired": 5, "binding": "metric", "rescaled": True}
BEFORE = side_of(("web", LARGE), ("web", LARGE), ("api", SMALL), ("same", SMALL), ("words", SMALL))
AFTER = side_of(
    ("web", SMALL),
    ("web", SMALL),
    ("api", SMALL | {"desired": None, "error": "no metrics returned"}),
    ("same", SMALL),
    ("words", SMALL | {"proposal": 7}),
)
CAUSE = {"cause": "tolerance_by_bounds", "how": "alone", "rule": RULE}
FOUND = find_differences(side_by_side(BEFORE, AFTER))[0].with_columns(
    pl.lit(value).alias(name) for name, value in CAUSE.items()
)
COMPARISON = Comparison(
    compared=VERSIONS,
    names=("1.32", "1.37"),
    differences=FOUND,
    hpas=4,
    ticks=5,
    left_out=(LeftOut("demo", "shop", "zero", "1.32", "refused: spec.minReplicas | 0"),),
    warnings=("a warning",),
    evidence=EVIDENCE,
)
REPORT = CompareReport(COMPARISON)
NOTHING = replace(COMPARISON, differences=FOUND.clear(), left_out=())


def test_the_headline_counts() -> None:
    counts = "2 of 4 HPAs decide differently (1.32 -> 1.37), 1 only for another reason"
    assert headline(COMPARISON) == f"{counts}; 1 left out"
    assert headline(replace(NOTHING, hpas=1)) == "0 of 1 HPA decides differently (1.32 -> 1.37)"
    one = replace(COMPARISON, differences=FOUND.filter(pl.col("hpa") == "web"), left_out=())
    assert headline(one) == "1 of 4 HPAs decides differently (1.32 -> 1.37)"
    assert total_line(COMPARISON) == "3 of 5 decisions differ; decided replica-hours -<0.1"


def test_the_table_names_what_differs_most() -> None:
    lines = table_text(REPORT).splitlines()
    assert lines[0] == headline(COMPARISON)
    assert lines[-3] == "from rules of Kubernetes 1.32 (from sources)"
    assert lines[-2].startswith("to   rules of Kubernetes 1.37 ")
    assert lines[-1].startswith("policy budgets spent by the recorded changes; sync period 15 s")
    assert f"  2 × {RULE}" in lines
    (web,) = [line for line in lines if line.startswith("shop/web")]
    assert web.split("  ")[1:3] == ["2026-10-07T00:00:00Z", "3: 5 -> 3"]
    assert "metric -> tolerance" in web
    assert web.endswith("  tolerance_by_bounds")
    (api,) = [line for line in lines if line.startswith("shop/api")]
    assert "3: 3 -> none" in api
    assert "error none -> no metrics returned" in api
    assert lines.index(web) < lines.index(api)
    assert not [line for line in lines if line.startswith(("shop/words", "shop/same"))]
    assert "only for another reason: 1 (--strict names and counts them)" in lines
    assert any(line.startswith("LEFT OUT ") for line in lines)
    assert [line for line in table_text(REPORT, View(60)).splitlines() if len(line) > 60] == []


def test_strict_names_other_reasons_too() -> None:
    text = table_text(CompareReport(COMPARISON, strict=True))
    (words,) = [line for line in text.splitlines() if line.startswith("shop/words")]
    assert "3: 3  " in words
    assert "proposal 3 -> 7" in words
    assert "--strict" not in text


def test_no_more_than_top_are_named() -> None:
    text = table_text(CompareReport(COMPARISON, top=1))
    assert "shop/web" in text
    assert "shop/api" not in text
    assert "… and 1 more: --output csv shows all" in text
    none = table_text(CompareReport(COMPARISON, top=0))
    assert "HPA  " not in none
    assert "… and 2 more" in none
    marked = markdown_text(CompareReport(COMPARISON, top=0))
    assert "… and 2 more: --output csv shows all" in marked
    assert "… and 1 more left out." in marked


def test_nothing_differs() -> None:
    text = table_text(CompareReport(NOTHING))
    assert text.splitlines()[0] == "0 of 4 HPAs decide differently (1.32 -> 1.37)"
    assert markdown_text(CompareReport(NOTHING)).startswith(
        "**0 of 4 HPAs decide differently (1.32"
    )
    assert csv_text(CompareReport(NOTHING)).splitlines() == [",".join(SCHEMA)]


def test_fields_of_specs_stand_with_each_hpa() -> None:
    rule = "maxReplicas 5 -> 3"
    differences = FOUND.with_columns(cause=pl.lit("maxReplicas"), rule=pl.lit(rule))
    specs = replace(COMPARISON, compared=SPECS, differences=differences)
    lines = table_text(CompareReport(specs)).splitlines()
    assert "What changed:" not in lines
    assert [line.endswith(rule) for line in lines if line.startswith("shop/")][:2] == [True, True]
    unknown = differences.with_columns(rule=pl.lit(None, pl.String()))
    text = table_text(CompareReport(replace(specs, differences=unknown)))
    assert text.count("no single change") == 2


def test_markdown_is_a_table() -> None:
    text = markdown_text(REPORT)
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert [len(table) for table in tables] == [4, 3]
    for table in tables:
        widths = {len(line.replace("\\|", "").split("|")) for line in table}
        assert len(widths) == 1
        assert set(table[1]) <= set("|-: ")
    assert "refused: spec.minReplicas \\| 0" in text
    assert "| -&lt;0.1 |" in text
    assert "| tolerance_by_bounds |" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a\\|b"),
        ("*bold* `code`", "\\*bold\\* \\`code\\`"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
        ("two\nlines\x1b[31m", "two\\\\nlines\\\\x1b\\[31m"),
        ("_x_ a_b", "\\_x_ a_b"),
        ("[link](x)", "\\[link\\](x)"),
        ("http://x.y www.x.y a@x.y", "http\\://x.y www\\.x.y a\\@x.y"),
    ],
)
def test_markdown_shows_just_the_text(name: str, shown: str) -> None:
    left_out = (LeftOut("demo", "shop", "web", BOTH, name),)
    text = markdown_text(CompareReport(replace(NOTHING, left_out=left_out)))
    assert f"| shop/web | both | {shown} |" in text


def test_clusters_are_named_where_there_are_several() -> None:
    other = LeftOut("eu", "shop", "web", BOTH, "because")
    text = markdown_text(CompareReport(replace(COMPARISON, left_out=(other,))))
    assert "| eu/shop/web |" in text
    assert "| demo/shop/web |" in text


def test_json_csv_and_parquet_hold_all_of_it() -> None:
    found = json.loads(json_text(REPORT))
    assert found["totals"] == {
        "hpas": 4,
        "ticks": 5,
        "decide_differently": 2,
        "explain_differently": 1,
        "left_out": 1,
    }
    assert (found["from"], found["to"], found["compared"]) == ("1.32", "1.37", "versions")
    assert [row["hpa"] for row in found["differences"]] == ["api", "web", "words"]
    assert found["differences"][1]["first_ts"] == "2026-10-07T00:00:00.000Z"
    assert found["left_out"][0]["side"] == "1.32"
    assert (found["warnings"], found["evidence"]) == (["a warning"], EVIDENCE)
    rows = list(csv.DictReader(io.StringIO(csv_text(REPORT))))
    assert list(rows[0]) == list(found["differences"][0]) == list(SCHEMA)
    assert rows[1]["desired_from"] == "5"
    file = pq.ParquetFile(io.BytesIO(parquet_bytes(REPORT)))
    assert json.loads(file.metadata.metadata[b"hpabatch.evidence"]) == EVIDENCE
    frame = pl.read_parquet(io.BytesIO(parquet_bytes(REPORT)))
    assert frame["most"].to_list() == [None, -2, None]
    assert frame.columns == list(SCHEMA)


def test_what_is_not_to_be_relied_on_is_marked() -> None:
    doubted = FOUND.with_columns(
        pl.when(pl.col("hpa") == "web").then(pl.lit("too few changes")).alias(WHY_NOT)
    )
    evidence = EVIDENCE | {"simulation": "closed loop"}
    simulated = replace(COMPARISON, differences=doubted, evidence=evidence)
    text = table_text(CompareReport(simulated))
    assert "shop/web ?" in text
    assert "shop/api ?" not in text
    assert "simulated: the rules are exact" in text
    assert json.loads(json_text(CompareReport(simulated)))["differences"][1][WHY_NOT] is not None


def test_the_evidence_of_one_side() -> None:
    before = side_evidence(EVIDENCE, "_from")
    assert before["k8s"] == "1.32"
    assert "k8s_to" not in before
    assert side_evidence(EVIDENCE, "_to")["k8s"] == "1.37"


def test_the_page_explains_every_column() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    for name, meaning in (COLUMNS | LOOP_COLUMNS).items():
        assert f"| `{name}` | {meaning} |" in text
