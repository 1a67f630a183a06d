"""docs/live.md is complete: its fields and metrics are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpabatch.live.serve.metric_names import MetricName
from tests.live.metric_catalogue import OURS, UPSTREAM, exposed, log_fields

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "live.md").read_text()


def rows_after(heading: str, head: str) -> list[list[str]]:
    """Return the cells of the first table with that head after a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1]
    lines = part[part.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_field_of_a_json_line_is_explained() -> None:
    cells = [cell for cell, _ in rows_after("Log", "| field | meaning |")]
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == log_fields()
    (example,) = re.findall(r"```json\n(.*?)\n```", PAGE)
    assert set(re.findall(r'"(\w+)": ', example)) <= set(log_fields())


@pytest.mark.parametrize(("place", "catalogue"), [(0, UPSTREAM), (1, OURS)])
def test_every_metric_is_in_its_table(place: int, catalogue: list[MetricName]) -> None:
    tables = PAGE.split("| metric | type | labels | meaning |\n|---|---|---|---|\n")[1:]
    rows = [line.strip("| ").split(" | ") for line in tables[place].split("\n\n")[0].splitlines()]
    expected = [
        [f"`{exposed(m)}`", m.kind, ", ".join(f"`{label}`" for label in m.labels), m.help]
        for m in catalogue
    ]
    assert rows == expected
