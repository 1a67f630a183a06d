"""docs/sweep.md says of settings what the code does, and its examples read."""

from __future__ import annotations

import re
from pathlib import Path

from hpabatch.engine.sweep.groups import GROUP_FORMS
from hpabatch.inputs.grid import read_grids
from hpabatch.model.settings.fields import FIELDS, SHIPPED
from tests.docs.sweep_tables import SHAPES, tables, with_tables
from tests.inputs.parsed import parse_policy_sets

PAGE = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()


def test_the_page_is_up_to_date() -> None:
    assert with_tables(PAGE) == PAGE, "run: python -m tests.docs.sweep_tables docs/sweep.md"
    for shape in SHAPES.values():
        assert f"\n#### {shape.title}\n\n{shape.text}" in PAGE


def test_every_field_set_and_group_has_a_row() -> None:
    for name, table in tables().items():
        assert f"<!-- table: {name} -->\n\n{table}" in PAGE
        widths = {line.replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(widths) == 1, table
    for name in [f.name for f in FIELDS] + list(SHIPPED) + [g.form for g in GROUP_FORMS]:
        assert f"\n| `{name}` | " in PAGE, name


def test_the_examples_read() -> None:
    (policies,) = re.findall(r"```yaml policies.yaml\n(.*?)```", PAGE, re.DOTALL)
    sets = parse_policy_sets(policies)
    assert list(sets) == ["weekend", "never-down"]
    grids = ["target=50:80:10,today", "scaleDown.window=60,300,900", "min=-2:+2:1"]
    assert len(read_grids([*grids, "max=x0.5:x1.5:0.25"], SHIPPED).settings) == 1 + 5 * 3 * 5 * 5
