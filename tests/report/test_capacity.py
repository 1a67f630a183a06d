"""A capacity plan as table, JSON, CSV and Parquet, and its page."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from hpabatch.engine.capacity.run import CapacityOptions, CapacityPlan
from hpabatch.engine.columns.capacity import PLAN_HPAS, PLAN_TOTALS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.inputs.prices import PriceList, Prices
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.model.quota import Limit, Quota
from hpabatch.report.capacity import PlanReport
from hpabatch.report.forms import frame_csv, json_text, parquet_bytes, table_text
from tests.engine.planned import planned
from tests.engine.simulated import hpa_spec, small_case

PAGE = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
PRICES = PriceList(Prices(core_hour=0.5, gib_hour=0.1, pod_hour=0.25, currency="EUR"))
BURST = replace(
    small_case(hpa_spec(50, 1, 4), [400] * 3 + [3000] * 6 + [500] * 5, capacity_milli=500),
    requested=Requested(1000, 500 * 2**30),
)


@pytest.fixture(scope="module")
def plan() -> CapacityPlan:
    """Return the plan of a burst and of the same burst with a work that is a lower bound."""
    bound = replace(BURST, workload=replace(BURST.workload, hpa="bound\x1b[1m", namespace="jobs"))
    found = planned(
        BURST,
        bound,
        options=CapacityOptions(
            growths=(1000, 2000),
            loop=LoopOptions(prices=PRICES),
            quotas=(Quota("shop", "team", {"cores": Limit(5000, "cpu", "team")}),),
        ),
        censored={("demo", "jobs", "bound\x1b[1m"): 30.0},
        skipped=(Skipped("demo", "shop", "lost", "never measured"),),
    )
    evidence = found.evidence | {
        "k8s": "1.38",
        "k8s_source": "given",
        "k8s_evidence": "proved",
        "k8s_proof": "against upstream's code",
        "hpabatch": "0",
    }
    return replace(found, evidence=evidence)


def lines_with(text: str, *words: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if all(w in line for w in words)]


def test_the_table(plan: CapacityPlan) -> None:
    text = table_text(PlanReport(plan))
    # shop: 4 of today's, 1 6 6 6 without, no sum of peaks but its own; 5 cores are passed by 1
    # at the sixth tick (8:54 + 75 s), in 6 of 14.
    (row,) = [r for r in lines_with(text, "shop ", " cores ") if r[2] == "1"]
    assert row == [
        "shop", "cores", "1", "1/2", "4", "1", "6", "6", "6", "6",
        "5", "43%", "2025-10-09", "08:55", "-1",
    ]  # fmt: skip
    (fleet,) = [r for r in lines_with(text, "fleet", "pods") if r[2] == "2"]
    assert fleet[3:10] == ["2/3", "8", "4", "24", "24", "24", "24"]
    (hpa,) = [r for r in lines_with(text, "shop/web") if r[1] == "1"]
    assert hpa[:13] == [
        "shop/web", "1", "1", "4", "1", "6", "6", "6", "6", "1", "2m", "2025-10-09", "08:55",
    ]  # fmt: skip
    (least,) = [r for r in lines_with(text, "jobs/bound", ">1") if r[1] == "1"]
    assert least[4:10] == [">1", ">6", ">6", ">6", ">6", "1"]
    assert least[-1] == "?"
    assert "\x1b" not in text
    assert "not to be relied on (1 HPA," in text
    assert "not planned: 1 HPA " in text


def test_quotas_and_prices_are_shown_where_there_are_any() -> None:
    found = planned(BURST)
    evidence = found.evidence | {"k8s": "1.38", "k8s_source": "given", "k8s_evidence": "proved",
                                 "k8s_proof": "p", "hpabatch": "0"}  # fmt: skip
    text = table_text(PlanReport(replace(found, evidence=evidence)))
    assert "QUOTA" not in text
    assert "MONTH" not in text


def test_forms_hold_the_same(plan: CapacityPlan) -> None:
    found = json.loads(json_text(PlanReport(plan, ["sums: x"])))
    assert list(found) == ["evidence", "hpas", "totals", "skipped", "warnings", "written"]
    assert len(found["hpas"]) == plan.hpas.height == 4
    assert len(found["totals"]) == plan.totals.height
    assert found["hpas"][0]["start"] == "2025-10-09T08:54:00.000Z"
    assert found["skipped"][0]["reason"] == "never measured"
    rows = list(csv.DictReader(io.StringIO(frame_csv(plan.totals))))
    assert list(rows[0]) == list(PLAN_TOTALS.meanings)
    assert len(rows) == plan.totals.height
    data = parquet_bytes(PlanReport(plan))
    assert pl.read_parquet(io.BytesIO(data)).equals(plan.hpas)
    assert EVIDENCE_KEY.encode() in data


def test_every_column_is_explained() -> None:
    hpas, _, totals = PAGE.partition("### HPAs")[2].partition("### Sums")
    for text, columns in ((hpas, PLAN_HPAS.meanings), (totals, PLAN_TOTALS.meanings)):
        for name, meaning in columns.items():
            assert f"| `{name}` | {meaning} |" in text
