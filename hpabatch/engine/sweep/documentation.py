"""The part of docs/sweep.md on settings, written from the tables that the code follows.

`python -m hpabatch.engine.sweep.documentation docs/sweep.md` rewrites what stands between the two
marks in that file and nothing else; a test holds it up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hpabatch.engine.sweep.groups import GROUP_FORMS
from hpabatch.inputs.document_keys import Built, Shape
from hpabatch.inputs.policies import DIRECTION, POLICY, SET
from hpabatch.model.settings.fields import BEYOND, FIELDS, Field
from hpabatch.model.settings.policy_sets import SHIPPED, describe_rules
from hpabatch.model.settings.values import Numbers, SetNames

BEGIN: Final = "<!-- settings: begin (hpabatch/engine/sweep/documentation.py) -->"
END: Final = "<!-- settings: end -->"

POLICY_EXAMPLE: Final = """\
weekend:
  scaleUp:
    policies:
    - {type: Percent, value: 25, periodSeconds: 60}
  scaleDown:
    selectPolicy: Min
    policies:
    - {type: Pods, value: 2, periodSeconds: 120}
    - {type: Percent, value: 5, periodSeconds: 120}
never-down:
  scaleDown: {selectPolicy: Disabled}"""

GROUPS_EXAMPLE: Final = """\
storefront: [shop/web, shop/*-api]
batch: prod/batch/*"""

_SETTINGS = """## Settings

A *setting* is a set of values of fields that are put on an HPA's spec of today, its last one:
`target=70 scaleDown.window=300`. What it does not name stays. `today` is the setting without
values; it is always among those that are tried. The result is what the API server would store: its
defaults are filled in, and what it would refuse is not simulated. A field of `spec.behavior` that
is set on an HPA without behavior makes one, whose other parts are upstream's defaults. They are not
quite what an HPA without behavior does: that may double its replicas (and go to 4) at every sync,
with the default policies it may double them, or add 4, in any 15 s.

### Fields

Capital letters, `-` and `_` in a field's name do not count. What a field of one direction says goes
before what the field of both says."""

_VALUES = """### Values

* *Absolute*: `70`, `300`, `5m`, `0.05`, `Max`, `fast`. Windows may be durations; a bare number is
  seconds. A plain number as a target means percent, for a utilization target; a target that is a
  quantity takes one with its unit (`500m`, `100Mi`). Only a metric that is no resource and is
  named, as in `target.queue_length=30`, takes plain numbers that are not percent.
* *Relative* to today's: `x0.8` is so many times, `+2` and `-60` so much more and less (of a
  utilization: percentage points). They are relative to today's spec, and where that leaves a window
  or a tolerance open, to the controller's flags. A product is rounded to whole replicas, seconds,
  percents (the half up; never to 0 replicas or percent), four decimals of a tolerance, or the
  largest unit of a quantity of which it has 100: `500m` x 1.2 is `600m`, `1Gi` x 0.8 is `819Mi`. A
  relative value that comes to today's own leaves the spec as it is.
* `today`: as it is. `x1` and `+0`, `combine=max` and `percentage-of=request` mean the same.

### Grids

`--grid FIELD=VALUES` is given once for each field; all combinations are tried. `VALUES` are a list
(`60,300,900`), ranges with their end (`50:85:5`, `x0.5:x1.5:0.25`, `-2:+2:1`), or both
(`50:80:10,today`). Equal settings are tried once, combinations with a min above the max not at all.
A grid may have 100,000 settings.

`--sample N` takes N settings of the grid, spread evenly over it (a scrambled Sobol sequence, the
same for the same `--seed`; needs `hpabatch[advise]`). With it a range may do without a step:
`target=50:85`. Its values then are a percent, a second, a replica, 0.001 of a tolerance, 0.01 of a
factor or a thousandth of the range of quantities apart.

Everything that is wrong with all grids and groups is told in one message, before anything is
simulated: unknown fields, values that cannot be, empty ranges, groups of no HPA. A value that fits
*no* HPA of the sweep is a mistake, too (a tolerance where the Kubernetes version has none; a
`target.memory` where nobody has that metric). A value that fits only some HPAs is left out for the
others, and that is told."""

_SETS = """### Policy sets

`scaleUp.policies`, `scaleDown.policies` and `policies` exchange the policies and the select policy
as a whole, never windows or tolerances. These sets come with hpabatch:"""

_OWN_SETS = """`--policy-sets FILE` adds own ones from a YAML file, a mapping of names to sets:"""

_GROUPS = """## Groups

Without `--group` each HPA has its own best setting. HPAs of a group share one: the setting is
judged by what it does to all of them, and a setting that does not fit one of them is not tried for
the group. `--group` may be repeated; HPAs that are in no group are left out of the sweep, and no
HPA may be in two."""

_GROUPS_END = """Labels are the HPA's own, not its target's. A file of groups has by name a
pattern or a list of them:"""


def settings_part() -> str:
    """Return the part of the page, without the marks."""
    parts = [
        _SETTINGS,
        _table(("field", "also", "acts on", "values", "meaning"), (_field_row(f) for f in FIELDS)),
        _VALUES,
        _SETS,
        _table(
            ("set", "scaleUp", "scaleDown", "meaning"),
            (
                (f"`{s.name}`", describe_rules(s.scale_up), describe_rules(s.scale_down), s.meaning)
                for s in SHIPPED.values()
            ),
        ),
        _OWN_SETS,
        f"```yaml policies.yaml\n{POLICY_EXAMPLE}\n```",
        *(part for shape in (SET, DIRECTION, POLICY) for part in _shape(shape)),
        _GROUPS,
        _table(("`--group`", "who shares"), ((f"`{g.form}`", g.meaning) for g in GROUP_FORMS)),
        _GROUPS_END,
        f"```yaml groups.yaml\n{GROUPS_EXAMPLE}\n```",
    ]
    return "\n\n".join(parts)


def _field_row(field: Field) -> tuple[str, ...]:
    kind = field.kind
    wants = "a set's name" if isinstance(kind, SetNames) else kind.wants.removeprefix("one of ")
    if isinstance(kind, Numbers) and not kind.relative:
        wants += "; nothing relative"
    also = ", ".join(f"`{alias}`" for alias in field.aliases)
    place = f"{BEYOND}: {field.acts_on}" if field.where == BEYOND else field.acts_on
    return f"`{field.name}`", also, place, wants, field.meaning


def _shape(shape: Shape) -> Iterable[str]:
    yield f"#### {shape.title}"
    if shape.text:
        yield shape.text
    yield _table(
        ("key", "value", "default", "meaning"),
        (
            (
                f"`{key.name}`",
                "a mapping" if isinstance(key.kind, Built) else key.kind.wants,
                "**required**" if key.required else key.default,
                key.meaning,
            )
            for key in shape.keys
        ),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def with_settings(page: str) -> str:
    """Return a page with the part between its marks written anew.

    Raises:
        ValueError: the page does not have the two marks, one after the other.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or, after it, {END}")
    return f"{before}{BEGIN}\n\n{settings_part()}\n\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(with_settings(place.read_text()))
