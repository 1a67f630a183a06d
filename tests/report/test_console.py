"""Tables for people: nothing in their cells drives the terminal, styles of ours do."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from hpabatch.report.forms import drawn
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
