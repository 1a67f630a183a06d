"""Generator of the tables and examples of `docs/scenarios.md`, from the declared fields.

`python -m benchmarks.scenario_fields docs/scenarios.md` rewrites it, with the examples of
the folder `data` beside `docs`; a test holds it up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key, Record
from hpabatch.inputs.plants import ENTRY, PIPELINE, PODS, SIGNAL, STARTUP
from hpabatch.inputs.prices import OVERRIDE, PRICE_LIST
from hpabatch.inputs.scenarios import ACTIONS, SCENARIO, STEP

EXAMPLES: Final = (
    "scenarios/peak.yaml",
    "scenarios/outage.yaml",
    "scenarios/rollout.yaml",
    "plant.yaml",
    "prices.yaml",
)

_HEADING: Final = re.compile("^#{2,4} ", re.MULTILINE)
_SECTIONS: Final = (
    *((3, record) for record in (SCENARIO, STEP)), *((4, record) for record in ACTIONS.values()),
    (3, ENTRY), *((4, record) for record in (SIGNAL, PODS, STARTUP, PIPELINE)),
    (3, PRICE_LIST), (4, OVERRIDE),
)  # fmt: skip
"""Records with a section of the page: the level of its heading, and the record."""


def page(text: str, examples: dict[str, str]) -> str:
    """Return the page with its tables and examples as they are now.

    Args:
        text: of the page before; what stands outside of the generated sections stays.
        examples: the texts of the files of `EXAMPLES`, by name.

    Raises:
        ValueError: a section or an example has no place in the page.
    """
    for level, record in _SECTIONS:
        head = f"{'#' * level} {record.title}\n"
        begin = text.index(f"\n{head}") + 1
        end = _HEADING.search(text, begin + len(head))
        rest = "" if end is None else text[end.start() :]
        # Actions have sections of their own.
        keys = [key for key in record.keys if record is not STEP or key.name not in ACTIONS]
        text = text[:begin] + "\n\n".join(_section(record, level, keys)) + "\n\n" + rest
    for name, example in examples.items():
        head = f"\n```yaml {name}\n"
        begin = text.index(head) + len(head)
        text = text[:begin] + example.strip() + text[text.index("\n```", begin) :]
    return text


def _section(shape: Record, level: int, keys: Iterable[Key]) -> list[str]:
    parts = [f"{'#' * level} {shape.title}"]
    if shape.text:
        parts.append(shape.text)
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    lines += [_row(key) for key in keys]
    parts.append("\n".join(lines))
    if shape.short is not None:
        parts.append(f"In short, `{shape.short}` alone: `{shape.title}: …`")
    if shape.example:
        parts.append(f"```yaml\n{shape.example}\n```")
    return parts


# What is said once above the tables need not stand in every row.
_BRIEF: Final = (
    (kinds.MOMENT.wants, "a time"),
    (" such as 15s, 2h30m or 1d", ""),
    (kinds.FACTOR.wants, "a factor"),
    (kinds.SIGNAL_GLOBS.wants, "the name of a signal, or a list of names; `*` is a wildcard"),
    (" such as 250m, 1.5 or 200Mi", ""),
    (", such as 0.031", ""),
)


def _row(key: Key) -> str:
    default = "**required**" if key.required else key.default
    wants = "a mapping" if isinstance(key.kind, Record) else key.kind.wants
    for long, short in _BRIEF:
        wants = wants.replace(long, short)
    cells = [f"`{key.name}`", wants, default, key.meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def read_examples(folder: Path) -> dict[str, str]:
    """Return the texts of the examples in a folder, by name."""
    return {name: (folder / name).read_text() for name in EXAMPLES}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    examples = read_examples(place.resolve().parents[1] / "data")
    place.write_text(page(place.read_text(), examples))
