"""SARIF and JUnit: what their schemas require, and hostile names as text."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from hpabatch.engine.findings.catalogue import CATALOGUE
from hpabatch.report.base import Fault
from hpabatch.report.faults import junit_text, sarif_text
from tests.cli.hostile import NASTY, raw_characters

FAULTS = [
    Fault("at_max", f"shop/web{NASTY}", f"maxReplicas{NASTY} [x](1)", f"a b{NASTY}/h.yaml", 7),
    Fault("at_max", "shop/api", "maxReplicas", "/abs/h.yaml", 3, ignored=True),
    Fault("slow_up", "", "all", "stdin", 1),
]


def test_sarif_has_what_the_schema_requires() -> None:
    """Required properties and values by hand from sarif-schema-2.1.0.json."""
    text = sarif_text(FAULTS)
    assert not raw_characters(text)
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = run["tool"]["driver"]
    assert driver["name"] == "hpabatch"
    for rule in driver["rules"]:
        assert rule["id"] in CATALOGUE
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["help"]["markdown"].endswith(f"(docs/findings.md#{rule['id']}))")
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"]) == 2
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        # Brackets would be a link in a message.
        assert not re.search(r"(?<!\\)[\[\]]", result["message"]["text"].replace("\\\\", ""))
    first, second, third = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 7}
    assert re.fullmatch(r"[A-Za-z0-9%/._~!$&'()*+,;=:@-]+", place["artifactLocation"]["uri"])
    uri = second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (uri, second["suppressions"][0]["kind"]) == ("file:///abs/h.yaml", "external")
    assert "locations" not in third


def test_junit_is_xml_and_counts() -> None:
    text = junit_text(FAULTS)
    assert not raw_characters(text)
    (suite,) = ET.fromstring(text)
    assert suite.attrib == {
        "name": "hpabatch", "tests": "3", "failures": "2", "skipped": "1", "errors": "0",
    }  # fmt: skip
    cases = {case.attrib["classname"]: case for case in suite}
    assert cases["shop/api"].find("skipped") is not None
    assert cases["shop/api"].attrib["line"] == "3"
    failure = cases["fleet"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "medium"


@pytest.mark.parametrize("make", [sarif_text, junit_text])
def test_nothing_wrong_is_a_report_too(make: object) -> None:
    assert callable(make)
    text = make([])
    if make is sarif_text:
        assert json.loads(text)["runs"][0]["results"] == []
    else:
        (suite,) = ET.fromstring(text)
        assert (suite.attrib["tests"], suite.attrib["failures"]) == ("1", "0")
        assert [list(case) for case in suite] == [[]]


def test_two_limits_of_an_hpa_are_two_results() -> None:
    both = [Fault("gate_limit", "shop/web", "x", part=part) for part in ("cost>1", "rescales>1")]
    prints = [r["partialFingerprints"] for r in json.loads(sarif_text(both))["runs"][0]["results"]]
    assert prints[0] != prints[1]
