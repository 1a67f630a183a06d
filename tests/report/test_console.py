"""Tables for people: nothing in their cells drives the terminal, styles of ours do."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from hpabatch.report.base import Grid, Head
from hpabatch.report.forms import _rich_table, drawn
from tests.cli.hostile import NASTY, raw_characters


@pytest.mark.parametrize("width", [None, 60])
def test_a_cell_that_nobody_escaped_is_escaped(width: int | None) -> None:
    table = Table(box=None)
    table.add_column("NAME")
    table.add_row(NASTY)
    table.add_row(Text(NASTY, style="bold"))
    assert raw_characters(drawn([NASTY, table], width)) == []


def test_styles_are_not_escaped() -> None:
    text = drawn([Text("a\x1b[31mb", style="bold")], 80, styled=True)
    assert text == "\x1b[1ma\\x1b[31mb\x1b[0m\n"


def test_markup_in_a_name_is_text() -> None:
    assert drawn(["[red]a[/red][link=http://x.y]b"], 80, styled=True) == (
        "[red]a[/red][link=http://x.y]b\n"
    )


@pytest.mark.parametrize("width", range(32, 90, 3))
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    heads = [Head("HPA", left=True, folds=True), *(Head(f"COLUMN {k}") for k in range(6))]
    cells = [f"{1_234_500 + k:,}" for k in range(6)]
    grid = Grid(heads, [("shop/a-name-of-some-length", *cells)])
    shown = grid.fitted(width)
    text = drawn([_rich_table(shown)], width)
    found = [cell for cell in cells if cell in text]
    assert len(found) == len(shown.heads) - 1
    assert found == cells[: len(found)]
    assert text.count("COLUMN") == len(found)
    assert len(found) == 6 or shown.dropped[-1] == "COLUMN 5"
