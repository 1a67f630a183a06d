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
from hpabatch.engine.findings.catalogue import CATALOGUE, RECORDING, SEVERITIES
from hpabatch.engine.quality.problems import RULES as PROBLEMS
from hpabatch.engine.replay.attention import ACT, ASK, HARM
from hpabatch.errors import EXIT_REFUSED
from hpabatch.report.findings import Findings
from tests.cli.commands import invoke
from tests.cli.histories import drop_rows, edit, edit_spec, last_day, small, table

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def found() -> Findings:
    return hpabatch.open(last_day()).findings()


def test_the_catalogue_has_every_remark() -> None:
    code = Path(remarks.__file__).read_text()
    stated = set(re.findall(r'Remark\(\s*"(\w+)"', code)) | {"slow_up", "slow_down"}
    assert stated <= set(CATALOGUE)
    for kind in CATALOGUE.values():
        assert kind.severity in SEVERITIES
        assert kind.group in (ACT, HARM, ASK)
        assert kind.fix[0].islower()
        assert kind.fix[-1] != "."


def test_severities_follow_the_weights_of_the_rules_of_quality() -> None:
    known = [rule for rule in PROBLEMS if rule.name in CATALOGUE]
    assert {CATALOGUE[rule.name].source for rule in known} == {RECORDING}
    for rule in known:
        severity = "high" if rule.weight >= 85 else "medium" if rule.weight >= 50 else "low"
        assert CATALOGUE[rule.name].severity == severity, rule.name


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
        if CATALOGUE[row["finding"]].source == RECORDING:
            continue
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


def only(found: Findings, hpa: str) -> set[str]:
    return set(found.frame.filter(pl.col("hpa") == hpa)["finding"])


def test_what_recordings_show_of_workloads(tmp_path: Path) -> None:
    has, nearly = small(tmp_path / "has"), small(tmp_path / "nearly")
    # A job's pods have the labels that the selector asks for; one of another name does not.
    for place, label in ((has, "etl"), (nearly, "etl-job")):
        pods = table(place, "pods")
        own = pods.filter(pl.col("target") == "etl").head(1)
        job = own.with_columns(
            uid=pl.lit("job"), pod=pl.lit("job"),
            target=pl.lit("nightly").cast(own["target"].dtype),
            labels=pl.col("labels").cast(pl.String).str.replace_all('"etl"', f'"{label}"')
            .cast(own["labels"].dtype),
        )  # fmt: skip
        pl.concat([pods, job]).write_parquet(place / "pods.parquet")
    # A limit that every sample is at, and one that none is.
    for place, limit in ((has, 1), (nearly, 100_000)):
        is_etl = pl.col("target") == "etl"
        edit(place, "pod_requests", cpu_limit_milli=pl.when(is_etl).then(limit).cast(pl.Int64))
    # Samples come a minute apart.
    for place, window in ((has, 59), (nearly, 60)):
        edit_spec(place, "etl", behavior={"scaleDown": {"stabilizationWindowSeconds": window}})
    told = {"foreign_pods", "at_limit", "window_below_interval"}
    assert told & only(hpabatch.open(has).findings(), "etl") == told
    assert not told & only(hpabatch.open(nearly).findings(), "etl")


def test_an_annotation_of_a_recorded_hpa_ignores(tmp_path: Path) -> None:
    place = small(tmp_path / "h")
    edit_spec(place, "etl", minReplicas=6, maxReplicas=6)
    ignore = json.dumps({"hpabatch/ignore": "min_is_max until 2999-01-01: a single node"})
    edit(place, "hpas", annotations=pl.lit(ignore))
    found = hpabatch.open(place).findings()
    assert "min_is_max" not in only(found, "etl")
    (row,) = found.ignored.iter_rows(named=True)
    assert row["why"].endswith("(ignored until 2999-01-01: a single node)")
    assert ", 1 ignored" in found.verdict


def test_what_cannot_be_judged_is_told(tmp_path: Path) -> None:
    place = small(tmp_path / "h")
    drop_rows(place, "scales", pl.lit(value=True))
    done = invoke("findings", place)
    assert done.exit_code == EXIT_REFUSED
    assert done.stdout.startswith("0 HPAs: nothing could be judged; 5 HPAs not judged")
    assert "its target Deployment/etl has no row in the scales table" in done.stdout


def test_a_fleet_without_findings_says_so(tmp_path: Path) -> None:
    empty = Findings(pl.DataFrame(schema=FINDINGS.schema), 3, {})
    assert empty.verdict == "3 HPAs: nothing stands out"
    assert list(empty.basis()) == list(empty.hints()) == []
