"""docs/history.md is what the registry says."""

from __future__ import annotations

from pathlib import Path

from hpabatch.history.documentation import registry_markdown
from hpabatch.history.schema import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == registry_markdown(), (
        "run: python -m hpabatch.history.documentation docs/history.md"
    )


def test_every_column_has_a_row_of_four_cells() -> None:
    lines = registry_markdown().splitlines()
    for table in TABLES.values():
        for column in table.columns:
            assert any(line.startswith(f"| `{column.name}` |") for line in lines)
    cells = {len(line.replace("\\|", "").split("|")) for line in lines if line.startswith("|")}
    assert cells == {6}
