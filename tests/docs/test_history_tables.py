"""docs/history.md is what the registry and the writer say."""

from __future__ import annotations

from pathlib import Path

from benchmarks.history_tables import with_tables
from hpabatch.history.schema import SCHEMA_KEY, SCHEMA_VERSION, TABLE_KEY
from hpabatch.history.store.writer import LIMITS

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()


def test_the_page_is_up_to_date() -> None:
    assert with_tables(PAGE) == PAGE, "run: python -m benchmarks.history_tables docs/history.md"
    assert f"Schema version {SCHEMA_VERSION}." in PAGE
    for value in LIMITS:
        assert f"{value:,}" in PAGE
    assert f"`{SCHEMA_KEY}` and `{TABLE_KEY}`" in PAGE


def test_every_row_has_four_cells() -> None:
    lines = [line.replace("\\|", "") for line in PAGE.splitlines() if line.startswith("|")]
    assert {len(line.split("|")) for line in lines} == {6}
