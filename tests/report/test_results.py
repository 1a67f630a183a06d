"""One contract of all results: approved screens, equal forms, names that stay names."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
import yaml

from hpabatch.engine.advise.bounds import CHOICES, NUMBERS
from hpabatch.engine.advise.objective import MEASURES
from hpabatch.engine.advise.specs import WHAT_IFS
from hpabatch.engine.compare.frames import COLUMNS as DIFFERENCES
from hpabatch.engine.sweep.blocks import COLUMNS as BLOCK_COLUMNS
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.report.base import Grid, Output, Result, View
from hpabatch.report.forms import report_bytes, table_text
from tests.approved import hold_approved
from tests.cli.hostile import raw_characters
from tests.report.results import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
LISTS = {"analyze", "analyze-one", "validate"}
"""Results whose rows in JSON are others than those of their frame, or have empty strings."""


@pytest.fixture(scope="module", params=RESULTS)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def result(name: str) -> Result:
    return RESULTS[name]()


def form(result: Result, output: str, view: View | None = None) -> bytes:
    return report_bytes(result, Output(output), view)


@pytest.mark.parametrize(
    ("shown", "view"),
    [
        ("table", View(legend=False)),
        ("table", View(80, legend=True)),
        ("markdown", View(legend=True)),
    ],
    ids=("table", "narrow", "markdown"),
)
def test_screens_are_the_approved_ones(
    name: str, result: Result, shown: str, view: View, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id.split("-")[-1]
    hold_approved(f"{name}-{kind}", form(result, shown, view).decode())


def test_forms_hold_the_same(name: str, result: Result) -> None:
    document = json.loads(form(result, "json"))
    assert yaml.safe_load(form(result, "yaml")) == document
    frame = pl.read_parquet(io.BytesIO(form(result, "parquet")))
    assert frame.equals(result.frame.cast({pl.Categorical: pl.String, pl.Enum: pl.String}))
    assert form(result, "parquet") == form(result, "parquet")
    rows = list(csv.DictReader(io.StringIO(form(result, "csv").decode())))
    assert len(rows) == frame.height
    assert list(rows[0]) == frame.columns
    if name not in LISTS:
        hpas = (
            document
            if isinstance(document, list)
            else document.get("hpas", document.get("differences"))
        )
        assert name == "fit" or list(hpas[0]) == frame.columns
    if result.evidence is not None:
        metadata = pl.read_parquet_metadata(io.BytesIO(form(result, "parquet")))
        assert json.loads(metadata[EVIDENCE_KEY]) == result.evidence == document["evidence"]


@pytest.mark.parametrize("output", ["table", "wide", "markdown", "json", "yaml", "csv"])
def test_names_stay_names(result: Result, output: str) -> None:
    for view in (View(), View(60)):
        assert raw_characters(form(result, output, view).decode()) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_is_never_too_narrow(result: Result, width: int) -> None:
    lines = table_text(result, View(width)).splitlines()
    assert max(map(len, lines)) <= width


def test_the_wide_table_has_all_columns(result: Result) -> None:
    grids = [part for part in result.body(View(wide=True)) if isinstance(part, Grid)]
    heads = [line.split() for line in table_text(result, View(wide=True)).splitlines()]
    for grid in grids:
        if grid.frame is not None:
            assert [column.upper() for column in grid.frame.columns] in heads


def test_styles_only_where_asked_whatever_the_environment(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    plain = table_text(result, View(80))
    assert "\x1b" not in plain
    assert "\x1b[" in table_text(result, View(80, styled=True))


def test_a_notebook_shows_the_verdict_and_the_frame(result: Result) -> None:
    assert repr(result) == f"<{type(result).__name__}: {result.verdict}>"
    assert result._repr_html_().startswith("<p>")
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize(
    ("page", "columns"),
    [
        ("versions", DIFFERENCES),
        *(("recommend", columns) for columns in (MEASURES, NUMBERS, CHOICES, WHAT_IFS)),
    ],
)
def test_pages_explain_every_column(page: str, columns: dict[str, str]) -> None:
    text = (DOCS / f"{page}.md").read_text()
    assert [n for n, meaning in columns.items() if f"| `{n}` | {meaning} |" not in text] == []
    assert set(MEASURES) <= {*BLOCK_COLUMNS, "cost"}
