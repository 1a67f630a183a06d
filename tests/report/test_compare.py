"""Sentences of a comparison beside the approved screens."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from hpabatch.engine.compare.run import SPECS
from hpabatch.engine.compare.sides import BOTH, LeftOut
from hpabatch.report.compare import Compared, headline, side_evidence, total_line
from hpabatch.report.forms import markdown_text, md, table_text
from tests.report.results import comparison

FOUND = comparison()
NOTHING = replace(FOUND, differences=FOUND.differences.clear(), left_out=())


def test_the_headline_counts() -> None:
    counts = "2 of 4 HPAs decide differently (1.32 -> 1.37), 1 only for another reason"
    assert headline(FOUND) == f"{counts}; 2 left out"
    assert headline(replace(NOTHING, hpas=1)) == "0 of 1 HPA decides differently (1.32 -> 1.37)"
    web = FOUND.differences.filter(pl.col("hpa") == "web")
    one = replace(FOUND, differences=web, left_out=())
    assert headline(one) == "1 of 4 HPAs decides differently (1.32 -> 1.37)"
    assert total_line(FOUND) == "3 of 5 decisions differ; decided replica-hours -<0.1"
    assert table_text(Compared.of(NOTHING)).splitlines()[0] == headline(NOTHING)


def test_fields_of_specs_stand_with_each_hpa() -> None:
    rule = "maxReplicas 5 -> 3"
    differences = FOUND.differences.with_columns(cause=pl.lit("maxReplicas"), rule=pl.lit(rule))
    specs = replace(FOUND, compared=SPECS, differences=differences)
    lines = table_text(Compared.of(specs)).splitlines()
    assert "What changed:" not in lines
    assert [line.endswith(rule) for line in lines if line.startswith("shop/")][:2] == [True, True]
    unknown = differences.with_columns(rule=pl.lit(None, pl.String()))
    text = table_text(Compared.of(replace(specs, differences=unknown)))
    assert text.count("no single change") == 2


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
    assert md(name) == shown


def test_clusters_are_named_where_there_are_several() -> None:
    other = LeftOut("eu", "shop", "web", BOTH, "because")
    text = markdown_text(Compared.of(replace(FOUND, left_out=(other,))))
    assert "| eu/shop/web |" in text
    assert "| demo/shop/web |" in text


def test_the_evidence_of_one_side() -> None:
    before = side_evidence(FOUND.evidence, "_from")
    assert before["k8s"] == "1.32"
    assert "k8s_to" not in before
    assert side_evidence(FOUND.evidence, "_to")["k8s"] == "1.37"
