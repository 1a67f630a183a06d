"""Findings: the catalogue is whole, and rows have the numbers that they rest on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import hpabatch
from benchmarks.columns import findings_page
from hpabatch.engine.analyze import remarks
from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import ACT, ASK, CATALOGUE, HARM, HISTORY, SEVERITIES
from hpabatch.engine.replay.attention import RULES
from hpabatch.report.findings import Findings
from tests.cli.histories import edit_spec, last_day, small

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def found() -> Findings:
    return hpabatch.open(last_day()).findings()


def test_the_catalogue_has_every_rule_and_every_remark() -> None:
    code = Path(remarks.__file__).read_text()
    stated = set(re.findall(r'Remark\(\s*"(\w+)"', code)) | {"slow_up", "slow_down"}
    rules = {rule.name for rule in RULES}
    assert rules == {kind.name for kind in CATALOGUE.values() if kind.source == HISTORY}
    assert rules | stated <= set(CATALOGUE)
    for kind in CATALOGUE.values():
        assert kind.severity in SEVERITIES
        assert kind.group in (ACT, HARM, ASK)
        assert kind.fix[0].islower()
        assert kind.fix[-1] != "."


def test_severities_follow_the_weights_of_the_rules() -> None:
    for rule in RULES:
        weight = "high" if rule.weight >= 85 else "medium" if rule.weight >= 50 else "low"
        assert CATALOGUE[rule.name].severity == weight, rule.name


def test_the_page_has_the_catalogue() -> None:
    text = (DOCS / "findings.md").read_text()
    assert findings_page(text) == text


def test_rows_are_of_the_summary_and_sorted(found: Findings) -> None:
    assert found.frame.columns == list(FINDINGS.names)
    ranks = [SEVERITIES.index(severity) for severity in found.frame["severity"]]
    assert ranks == sorted(ranks)
    assert not found.frame.select("cluster", "namespace", "hpa", "finding").is_duplicated().any()
    summary = hpabatch.open(last_day()).replay().summary
    for row in found.frame.iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        (own,) = summary.filter(
            pl.all_horizontal(pl.col(k) == row[k] for k in ("cluster", "namespace", "hpa"))
        ).iter_rows(named=True)
        assert evidence
        assert {name: own[name] for name in evidence} == evidence


def test_what_the_spec_alone_shows_is_told_once(tmp_path: Path) -> None:
    place = small(tmp_path / "h")
    edit_spec(place, "etl", minReplicas=6, maxReplicas=6)
    behavior = {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Disabled"}}
    edit_spec(place, "reports", behavior=behavior)
    frame = hpabatch.open(place).findings().frame
    told = {hpa: some["finding"].to_list() for (hpa,), some in frame.group_by("hpa")}
    assert told["etl"].count("min_is_max") == 1
    assert {"scale_up_disabled", "scale_down_disabled"} <= set(told["reports"])


def test_a_fleet_without_findings_says_so(tmp_path: Path) -> None:
    empty = Findings(pl.DataFrame(schema=FINDINGS.schema), 3, {})
    assert empty.verdict == "3 HPAs: nothing stands out"
    assert list(empty.basis()) == list(empty.hints()) == []
