"""`hpabatch fidelity` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.fidelity.plant import CHANGE_COLUMNS
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fidelity.run import Fidelity
from hpabatch.errors import EXIT_OK
from hpabatch.history.reader import open_history
from hpabatch.jobs.fidelity import fidelity as fidelity_of
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.model.progress import silent
from hpabatch.report.fidelity import FidelityScores
from hpabatch.report.forms import table_text
from tests.cli.commands import invoke
from tests.cli.histories import drop_rows, last_day, small

ROOT = Path(__file__).parents[3]
DEMO = last_day()
SHOP = (str(DEMO), "--where", "hpa IN ('cart', 'frontend', 'web-assets')")
KEYS = ("cluster", "namespace", "hpa")


run = functools.cache(functools.partial(invoke, "fidelity"))
"""Run the command, once for all tests with the same arguments."""


def document(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "-o", "json").stdout)
    return found


def hpas(*arguments: str) -> dict[str, dict[str, Any]]:
    return {row["hpa"]: row for row in document(*arguments)["hpas"]}


def plant_file(folder: Path, text: str) -> str:
    path = folder / "plants.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.compiled
def test_the_table_has_both_scores_and_why_advice_is_not_sure() -> None:
    result = run(*SHOP)
    assert result.exit_code == EXIT_OK
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 HPAs; highest confidence that the scores allow: ")
    assert lines[2].startswith("Controller score: 2 of 3 HPAs can be scored; ")
    assert lines[3].startswith("sizes: as recorded in ")
    assert "fitted on the first 50% of each HPA's ticks, judged on the rest: " in lines[4]
    assert lines[5].startswith("all changes of divisible work together: skill +0.")
    assert lines[-3].startswith("rules of Kubernetes 1.38")
    assert "settings that the recording does not refute" in lines[-1]
    head = lines[7].split()
    assert head[:5] == ["HPA", "RESCALES", "EXPLAINED", "WITHIN", "1"]
    row = next(line.split() for line in lines if line.startswith("shop/frontend "))
    assert row[5] == "resource/cpu"
    used, found = map(int, row[7].split("/"))
    assert 5 <= used <= found
    assert row[-1] == "high"
    reasons = lines[next(k for k, line in enumerate(lines) if line.startswith("At most")) + 1 :]
    assert reasons[0].startswith("  shop/cart: ")
    assert "; model: not checked against the recording: only " in reasons[0]


@functools.cache
def scored() -> Fidelity:
    request = FidelityRequest(k8s="1.38", names=("cart", "web-assets"))
    return fidelity_of(open_history(DEMO), request, silent)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("score", "told"),
    [
        ({"controller_answer": "wrong"}, ["no advice for 2", "No advice (2):"]),
        (
            {"plant_skill_high": -0.1, "plant_skill": -0.5},
            ["no advice for 2", "worse than no"],
        ),
        ({}, ["allow: medium for 2", "At most medium confidence (2):"]),
        (
            {"controller_answer": "right", "plant_unscored": None, "plant_skill": 0.9},
            ["the scores allow: high for 2"],
        ),
    ],
)
def test_advice_is_as_sure_as_that_of_advise(score: dict[str, Any], told: list[str]) -> None:
    rows = [row | {"plant_why_not": None} | score for row in scored().hpas.to_dicts()]
    hpas = pl.DataFrame(rows, schema=scored().hpas.schema)
    text = table_text(FidelityScores.of(replace(scored(), hpas=hpas)))
    assert all(words in text for words in told), text


@pytest.mark.compiled
def test_every_change_is_written_where_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "new" / "changes.parquet"
    found = document(*SHOP, "--changes", str(place))
    changes = pl.read_parquet(place)
    assert changes.columns == [*KEYS, *CHANGE_COLUMNS]
    counted = changes.filter(pl.col("counts"))
    assert counted.height == found["totals"]["changes"]
    assert counted["left_out"].null_count() == found["totals"]["used"]
    assert EVIDENCE_KEY in pl.read_parquet_metadata(place)


@pytest.mark.compiled
def test_a_stated_kind_goes_before_a_guess(tmp_path: Path) -> None:
    only = (str(DEMO), "--where", "hpa IN ('webhooks', 'wishlist')")
    before = hpas(*only)
    assert before["wishlist"]["plant_unscored"].startswith("a total")  # guessed by its name
    path = plant_file(
        tmp_path,
        "- hpa: payments/webhooks\n  signals: {'external/*': {kind: backlog, rate: 0.5/s}}\n"
        "- hpa: shop/wishlist\n  signals: {'object/*': {kind: total}}\n",
    )
    after = hpas(*only, "--plant", path)
    assert after["webhooks"]["plant_changes"] > 0
    assert "a total" in after["wishlist"]["plant_unscored"]


@pytest.mark.compiled
def test_one_hpa_without_a_rescale_is_no_hurdle(tmp_path: Path) -> None:
    history = small(tmp_path / "history", "shop", minutes=20)
    drop_rows(history, "hpas", pl.col("name") != "web-assets")
    result = run(str(history))
    assert "1 HPA; highest confidence that the scores allow: medium for 1" in result.stdout
    assert (
        "Controller score: 0 of 1 HPA can be scored; held replays decide 0 of 0 " in result.stdout
    )
    assert "all changes" not in result.stdout
    assert (
        "model: not checked against the recording: the number of ready pods never" in result.stdout
    )


# ---- lenses


@pytest.mark.compiled
def test_too_few_changes_are_no_lens() -> None:
    found = document(*SHOP, "--lens", "auto")
    (row,) = found["lenses"]
    assert (row["cluster"], row["signal"], row["used"]) == ("demo", "resource/cpu", False)
    assert found["evidence"]["lens"] == "none"
    if row["lag_ms_low"] is None:
        assert row["why"].startswith("fewer than ")
    assert "Lens of demo: resource/cpu: none is used; " in run(*SHOP, "--lens", "auto").stdout
