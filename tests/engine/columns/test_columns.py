"""The registry of result columns: what the engines return has these names, types and order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hpabatch
from benchmarks.columns import TABLES, glossary_page, output_page
from hpabatch.engine.columns import capacity, fidelity, history, replay, simulate, sweep
from hpabatch.engine.columns.column import (
    BOOLEAN,
    INTEGER,
    LIST,
    NUMBER,
    STRING,
    TIMESTAMP,
    Table,
    unit_of,
)
from hpabatch.engine.quality.problems import COLUMNS as PROBLEM_COLUMNS
from hpabatch.engine.replay.score import EVENT_COLUMNS
from tests.cli.histories import last_day

ROOT = Path(__file__).parents[3]
WHERE = "hpa IN ('checkout', 'frontend')"
EVERY = [table for tables in TABLES.values() for table in tables.values()]


def type_of(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List):
        return LIST
    if dtype.is_integer():
        return INTEGER
    if dtype.is_float():
        return NUMBER
    if dtype.is_temporal():
        return TIMESTAMP
    return BOOLEAN if dtype == pl.Boolean() else STRING


def same(frame: pl.DataFrame, table: Table) -> None:
    found = [(name, type_of(dtype)) for name, dtype in frame.schema.items()]
    assert found == [(column.name, column.type) for column in table]


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.title)
def test_every_column_has_one_plain_sentence(table: Table) -> None:
    assert len(set(table.names)) == len(table.names)
    for column in table:
        assert column.meaning
        assert not column.meaning.endswith(".")
        if column.type in (INTEGER, NUMBER):
            assert column.unit or not unit_of(column.name)


def test_the_pages_are_generated() -> None:
    for name, make in (("output.md", output_page), ("glossary.md", glossary_page)):
        text = (ROOT / "docs" / name).read_text()
        assert make(text) == text, f"docs/{name} is old: python -m benchmarks.columns"


@pytest.fixture(scope="module")
def demo() -> hpabatch.Recording:
    return hpabatch.open(last_day())


@pytest.mark.compiled
def test_replays(demo: hpabatch.Recording) -> None:
    found = demo.replay(where=WHERE)
    same(found.decisions, replay.DECISIONS)
    same(found.summary, replay.SUMMARY)
    same(found.attention(), replay.ATTENTION)
    same(found.score.hpas, replay.SCORE)
    assert list(EVENT_COLUMNS) == list(replay.EVENTS.names)
    same(found.score.events, replay.EVENTS)
    same(demo.quality(), history.QUALITY)
    assert list(PROBLEM_COLUMNS) == list(history.PROBLEMS.names)
    same(demo.observations("shop/checkout"), history.OBSERVATIONS)


@pytest.mark.compiled
def test_simulations(demo: hpabatch.Recording) -> None:
    found = demo.simulate(where=WHERE, trajectories=True)
    same(found.measures, simulate.MEASURES)
    assert found.points is not None
    same(found.points, simulate.POINTS)
    plan = demo.plan(where=WHERE)
    same(plan.hpas, capacity.PLAN_HPAS)
    same(plan.totals, capacity.PLAN_TOTALS)


@pytest.mark.compiled
def test_sweeps(demo: hpabatch.Recording, tmp_path: Path) -> None:
    found = demo.sweep({"target": "50:60:10"}, out=tmp_path / "sweep", where=WHERE)
    same(found.settings.drop("target"), sweep.SETTINGS)
    same(found.hpas, sweep.SWEEP_HPAS)
    same(found.blocks, sweep.BLOCKS)
    same(found.summary, sweep.SWEEP_SUMMARY)
    advice = found.recommend("saturated_minutes<10/week")
    same(advice.table, sweep.ADVICE)
    same(advice.candidates, sweep.CANDIDATES)
    same(advice.folds, sweep.FOLDS)


@pytest.mark.compiled
def test_scores() -> None:
    found = hpabatch.open(last_day()).fidelity("cart", "checkout", k8s="1.38")
    same(found.hpas, fidelity.FIDELITY_HPAS)
    same(found.signals, fidelity.SIGNALS)
    same(found.changes, fidelity.CHANGES)
