"""Fits, fidelity scores and capacity plans in Python: the same as of the command line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.api.fits import fidelity, fit
from hpabatch.api.plans import plan
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.columns.simulate import FIT_FACTS
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from tests.cli.histories import small


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return open_history(small(tmp_path_factory.mktemp("api") / "history"))


@pytest.mark.compiled
def test_fit(history: History, tmp_path: Path) -> None:
    found = fit(history, FitRequest(names=("etl", "thumbnails")))
    assert found.verdict.startswith("2 HPAs: 1 with a plant, ")
    assert found.frame.columns == list(FIT_FACTS.schema)
    assert found.hpas["plant"].to_list() == [True, False]
    assert "nothing says what drives" in found.hpas["problems"][1][0]
    assert "events" not in found.evidence
    plants = tmp_path / "plants.yaml"
    plants.write_text("- hpa: batch/etl\n  pods: {termination: 12s}\n")
    stated = fit(history, FitRequest(names=("etl",), plant=(str(plants),))).facts
    row = stated.row(by_predicate=pl.col("fact") == "pods.termination", named=True)
    assert (row["value"], row["source"]) == (12.0, "given")


@pytest.mark.compiled
def test_fidelity(history: History) -> None:
    found = fidelity(history, FidelityRequest(names=("etl",), horizon_ms=120_000))
    assert found.verdict == "1 HPA; highest confidence that the scores allow: medium for 1"
    assert found.evidence["fidelity_horizon_ms"] == "120000"
    assert found.frame["hpa"].to_list() == ["etl"]
    assert set(found.signals["hpa"]) == {"etl"}
    assert found.changes.columns[:3] == ["cluster", "namespace", "hpa"]


@pytest.mark.compiled
def test_plan(history: History, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text(
        "kind: ResourceQuota\nmetadata: {name: team, namespace: batch}\n"
        'spec: {hard: {requests.cpu: "1", services: 3}}\n'
    )
    request = PlanRequest(names=("etl", "thumbnails"), growth="1.0,2", quota=(str(quotas),))
    found = plan(history, request)
    assert found.verdict.startswith("1 HPA planned; maxReplicas holds ")
    assert found.frame.height == 2
    assert "services" in found.notes[0]
    assert set(found.totals["growth"]) == {1.0, 2.0}
    assert "sha256:quotas.yaml" in found.evidence
