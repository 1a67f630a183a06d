"""docs/scenarios.md is what the readers follow, and its examples are the files of `data`."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.scenario_fields import EXAMPLES, page, read_examples
from hpabatch.inputs.document_keys import Record
from hpabatch.inputs.plants import ENTRY, PIPELINE, PODS, SIGNAL, STARTUP
from hpabatch.inputs.prices import PRICE_LIST
from hpabatch.inputs.scenarios import ACTIONS, SCENARIO
from tests.importers.mutations import keys_of
from tests.inputs.parsed import parse_plant_file, parse_price_file, parse_scenario

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text()


def test_the_page_is_up_to_date() -> None:
    assert page(PAGE, read_examples(ROOT / "data")) == PAGE, (
        "run: python -m benchmarks.scenario_fields docs/scenarios.md"
    )


def test_every_key_has_a_row_of_four_cells() -> None:
    for shape in (SCENARIO, ENTRY, PRICE_LIST):
        for title, name in keys_of(shape):
            if name not in ACTIONS:  # which have sections of their own
                section = PAGE.partition(f"# {title}\n")[2].partition("\n#")[0]
                assert f"| `{name}` | " in section, (title, name)
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert {len(line.replace("\\|", "").split("|")) for line in lines} == {6}


def test_every_example_of_a_section_reads() -> None:
    for record in ACTIONS.values():
        (step,) = parse_scenario(record.example).steps
        assert step.place.endswith(record.title)
    shapes: tuple[Record, ...] = (SIGNAL, PODS, STARTUP, PIPELINE)
    for shape in shapes:
        assert len(parse_plant_file(shape.example)) == 1


def test_the_complete_examples_are_the_files() -> None:
    found = dict(re.findall(r"```yaml ([\w./]+)\n(.*?)```", PAGE, re.DOTALL))
    assert tuple(found) == EXAMPLES
    for name, text in found.items():
        assert (ROOT / "data" / name).read_text().strip() == text.strip()
    assert len(parse_plant_file(found["plant.yaml"])) == 4
    assert parse_price_file(found["prices.yaml"]).prices.currency == "EUR"
