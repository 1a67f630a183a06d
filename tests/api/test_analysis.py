"""Static analyses in Python."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from hpabatch.api.analysis import analyze
from hpabatch.engine.analyze.request import AnalyzeRecordedRequest
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from tests.cli.histories import edit, edit_spec, small, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("analysis"))


def test_recorded_hpas_under_recorded_flags(folder: Path, tmp_path: Path) -> None:
    found = analyze(open_history(folder), AnalyzeRecordedRequest())
    names = table(folder, "hpas")["name"].unique().sort().to_list()
    assert found.frame["hpa"].unique().sort().to_list() == names
    assert found.verdict.startswith(f"{len(names)} HPAs: ")
    assert set(found.remarks.columns) == {"source", "namespace", "hpa", "code", "text"}
    other = small(tmp_path)
    edit(
        other, "controller", flags=pl.lit(json.dumps({"horizontal-pod-autoscaler-tolerance": 0.3}))
    )
    changed = analyze(open_history(other), AnalyzeRecordedRequest())
    assert changed.frame["tolerance_up"].max() == 0.3


def test_a_selection_and_an_assumption(folder: Path) -> None:
    history = open_history(folder)
    name = str(table(folder, "hpas")["name"][0])
    found = analyze(
        history, AnalyzeRecordedRequest(names=(name,), base=("cpu=10",), request=("cpu=250m",))
    )
    assert found.frame["hpa"].unique().to_list() == [name]
    assert found.request_milli["cpu"] == 250
    with pytest.raises(UsageError, match="there is no such HPA"):
        analyze(history, AnalyzeRecordedRequest(names=("nobody",)))
    with pytest.raises(UsageError, match=r"--request cpu: .*expected RESOURCE=QUANTITY"):
        AnalyzeRecordedRequest.of({"request": "cpu"})


def test_specs_that_are_refused(tmp_path: Path) -> None:
    folder = small(tmp_path)
    names = table(folder, "hpas")["name"].unique().sort().to_list()
    edit_spec(folder, names[0], maxReplicas=0)
    found = analyze(open_history(folder), AnalyzeRecordedRequest())
    assert found.verdict.endswith(", 1 left out")
    assert found.skipped[0].hpa == names[0]
    with pytest.raises(RefusedError, match="no valid HPA to analyze"):
        analyze(open_history(folder), AnalyzeRecordedRequest(names=(names[0],)))
