"""Tables of docs/sweep.md on settings and groups, generated from the package's own tables.

`python -m tests.docs.sweep_tables docs/sweep.md` rewrites each table that follows a mark such as
`<!-- table: fields -->`, and nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hpabatch.engine.sweep.groups import GROUP_FORMS
from hpabatch.inputs.document_keys import Record
from hpabatch.inputs.grid import DIRECTION, POLICY, SET
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings.fields import BEYOND, FIELDS, SHIPPED, Field
from hpabatch.model.settings.values import Numbers, SetNames

SHAPES: Final = {"policy-set": SET, "direction": DIRECTION, "policy": POLICY}
_MARKED: Final = re.compile(r"(<!-- table: ([\w-]+) -->\n\n)(?:\|.*\n)*")


def tables() -> dict[str, str]:
    """Return every table by the name in its mark."""
    sets = (
        (f"`{s.name}`", _rules(s.scale_up), _rules(s.scale_down), s.meaning)
        for s in SHIPPED.values()
    )
    return {
        "fields": _table(("field", "also", "acts on", "values", "meaning"), map(_field, FIELDS)),
        "policy-sets": _table(("set", "scaleUp", "scaleDown", "meaning"), sets),
        **{name: _shape(shape) for name, shape in SHAPES.items()},
        "groups": _table(
            ("`--group`", "who shares"), ((f"`{g.form}`", g.meaning) for g in GROUP_FORMS)
        ),
    }


def _rules(rules: ScalingRules | None) -> str:
    """Return a short description of one direction: `Max of 2 pods/60s, 50%/60s`."""
    if rules is None:
        return "as today"
    parts = [f"{p.value}{_unit(p)}/{p.period_seconds}s" for p in rules.policies or ()]
    return f"{rules.select_policy} of {', '.join(parts)}"


def _unit(policy: ScalingPolicy) -> str:
    if policy.type == "Percent":
        return "%"
    return " pod" if policy.value == 1 else " pods"


def _field(field: Field) -> tuple[str, ...]:
    kind = field.kind
    wants = "a set's name" if isinstance(kind, SetNames) else kind.wants.removeprefix("one of ")
    if isinstance(kind, Numbers) and not kind.relative:
        wants += "; nothing relative"
    also = ", ".join(f"`{alias}`" for alias in field.aliases)
    place = f"{BEYOND}: {field.acts_on}" if field.where == BEYOND else field.acts_on
    return f"`{field.name}`", also, place, wants, field.meaning


def _shape(shape: Record) -> str:
    rows = (
        (
            f"`{key.name}`",
            "a mapping" if isinstance(key.kind, Record) else key.kind.wants,
            "**required**" if key.required else key.default,
            key.meaning,
        )
        for key in shape.keys
    )
    return _table(("key", "value", "default", "meaning"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in cells)


def with_tables(page: str) -> str:
    """Return a page with each marked table written anew (KeyError: an unknown mark)."""
    known = tables()
    return _MARKED.sub(lambda found: found[1] + known[found[2]], page)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(with_tables(place.read_text()))
