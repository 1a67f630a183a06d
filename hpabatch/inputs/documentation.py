"""Generator of the page `docs/scenarios.md`, from the declared fields of the files.

`python -m hpabatch.inputs.documentation docs/scenarios.md` rewrites it, with the examples of
the folder `data` beside `docs`; a test holds it up to date.
"""

from __future__ import annotations

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

_PREAMBLE = """# Scenarios, plant files, prices

`hpabatch simulate` reads three kinds of YAML files: a *scenario* has the events of the simulation,
a *plant file* parameters of the workloads that a recording does not show, a *price file* the prices
of pods. The tables below are generated from the declared fields of the reader (`python -m
hpabatch.inputs.documentation docs/scenarios.md`).

Reading is strict: unknown keys, keys that are given twice, wrong types and impossible values are
errors. One message lists all mistakes of a file (the first 20), each with the expected and the
given value, the file, the line and the path; for an unknown key also the nearest known one. A
selector, or the name of a signal, that matches no HPA is an error, too.

## Values

* *Durations*: whole numbers with `w`, `d`, `h`, `m`, `s` or `ms`, the larger unit first: `15s`,
  `2h30m`, `1d12h`; at most 366 days.
* *Times*: a duration after the start of the run (`2h30m`), or a timestamp with its zone
  (`2026-10-07T12:00:00Z`, `2026-10-07T14:00:00+02:00`). They must lie within the run.
* *Factors*: numbers from 0 to 1000 of at most three decimals; *shares*: `30%`, `12.5%` or `0.3`.
* *Quantities*: as in Kubernetes, `250m`, `1.5`, `200Mi`; *rates*: quantities per `s`, `m`, `h` or
  `d`: `5/s`, `300/m`, `10Mi/h`.
* *HPAs*: `namespace/hpa`, or `cluster/namespace/hpa`, one or a list of them. `*` matches any string
  and `?` any letter; a string that begins with `*` needs quotes in YAML: `"*/web"`.
* `where` is a [condition](expressions.md) as for `--where`, on cluster, namespace, hpa,
  target_kind, target, min_replicas, max_replicas, has_behavior, specs and labels.

## Scenarios

Steps are applied from top to bottom, each to the result of the ones before: a `shift` also shifts a
`spike` above it. `--growth 1.4` means the same as the scenario `- growth: 1.4`, before all steps of
a file (of `hpabatch plan`, which has several growths, after them).

*Work* is the load of a workload; five actions change it: growth, shift, spike, repeat, overlay.
They change the work of signals of the kinds divisible, per_pod, total and backlog (its arrivals),
never what pods use without work. Whole numbers are used throughout: work is in pieces (of the
history's resolution), a factor in thousandths, and a product is rounded half up. The values at the
start of a piece hold for all of it. If a time is inside a piece, or with a ramp, pieces are first
cut into equal ones of at most 15 s, the default sync period. On a ramp the factor changes evenly
from 1, in thousandths rounded half up. The first piece also counts before its start, the last after
its end.

Two steps that contradict each other are refused: for the same HPA, two repeats of the same signals,
the same bound set for the same time, two sizes or two rollouts at one time. A `repeat` must be
above spikes, overlays and growth that begins later, as it would overwrite their effect after the
recorded work. A step that an HPA cannot have (a repeated week where there is only a day;
minReplicas above maxReplicas) refuses that HPA only.
"""

_PLANTS = """## Plant files

A plant file states parameters of the simulated cluster (docs/simulation.md describes them) that a
history does not show, or that shall differ. It is a list of entries, or one entry. For each HPA
later entries win, parameter by parameter. Stated parameters replace fitted ones, and are shown as
`given` with the results.
"""

_PRICES = """## Price files

Prices are for an hour of the requests of pods, whatever their usage, and of the pods themselves.
"""


def page(examples: dict[str, str]) -> str:
    """Return the page; `examples` are the texts of the files of `EXAMPLES`, by name."""
    parts = [_PREAMBLE, *_section(SCENARIO, 3), *_section(STEP, 3, keys=_plain_keys())]
    for record in ACTIONS.values():
        parts += _section(record, 4)
    parts += ["### Complete examples", *_shown(examples, EXAMPLES[:3])]
    parts += [_PLANTS, *_section(ENTRY, 3)]
    for shape in (SIGNAL, PODS, STARTUP, PIPELINE):
        parts += _section(shape, 4)
    parts += ["### A complete example", *_shown(examples, EXAMPLES[3:4])]
    parts += [_PRICES, *_section(PRICE_LIST, 3), *_section(OVERRIDE, 4)]
    parts += ["### A complete example", *_shown(examples, EXAMPLES[4:])]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _plain_keys() -> list[Key]:
    """Return the keys of a step that are no actions, which have sections of their own."""
    return [key for key in STEP.keys if key.name not in ACTIONS]


def _section(shape: Record, level: int, keys: Iterable[Key] | None = None) -> list[str]:
    parts = [f"{'#' * level} {shape.title}"]
    if shape.text:
        parts.append(shape.text)
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    lines += [_row(key) for key in (shape.keys if keys is None else keys)]
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


def _shown(examples: dict[str, str], names: Iterable[str]) -> list[str]:
    return [f"`data/{name}`:\n\n```yaml {name}\n{examples[name].strip()}\n```" for name in names]


def read_examples(folder: Path) -> dict[str, str]:
    """Return the texts of the examples in a folder, by name."""
    return {name: (folder / name).read_text() for name in EXAMPLES}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(page(read_examples(place.resolve().parents[1] / "data")))
