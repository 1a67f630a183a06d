"""Grids of settings for `--grid`: `target=50:85:5`, `scaleUp.policies=default,fast`.

All mistakes of all grids come in one message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Final

from hpabatch.inputs.documents import MistakesError
from hpabatch.inputs.grid_axis import Axis, read_items
from hpabatch.model.settings.fields import FIELDS, NAMED_TARGET, field_order, find_field
from hpabatch.model.settings.policy_sets import PolicySet
from hpabatch.model.settings.setting import TODAY, Setting, made_setting
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.model.suggestions import did_you_mean

MAX_SETTINGS: Final = 100_000
_SHOWN_VALUES = 1000  # of an axis, where there are no settings to take them from
_SHOWN_TEXT = 200
_EXAMPLE = "--grid target=50:85:5"


class GridError(MistakesError):
    """Mistakes of grids and groups, each a sentence."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings to try. The first is TODAY, no two are equal; `fields` are in the fields' order.

    `values` by field are those that occur. `notes` are sentences for the user. With `mistakes`
    (sentences) there are no settings but TODAY; `grid_check.check_grid` then refuses it.
    """

    fields: tuple[str, ...]
    settings: tuple[Setting, ...]
    values: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


def parse_grids(
    grids: Sequence[str],
    sets: Mapping[str, PolicySet],
    samples: int | None = None,
    seed: int = 0,
) -> Grid:
    """Return the settings of all combinations of the grids' values, or `samples` of them.

    Raises:
        GridError: all mistakes of all grids.
    """
    grid = read_grids(grids, sets, samples, seed)
    if grid.mistakes:
        raise GridError(grid.mistakes)
    return grid


def read_grids(
    grids: Sequence[str],
    sets: Mapping[str, PolicySet],
    samples: int | None = None,
    seed: int = 0,
) -> Grid:
    """Return the same as `parse_grids`, with mistakes in `Grid.mistakes`."""
    axes: dict[str, Axis] = {}
    mistakes: list[str] = []
    for text in grids:
        axis, found = _read_axis(text, sets, open_ranges=samples is not None)
        told = text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}…"
        mistakes += [f"--grid {told}: {problem}" for problem in dict.fromkeys(found)]
        if axis is not None and axis.field in axes:
            mistakes.append(f"--grid {text}: the field {axis.field} has another grid already")
        elif axis is not None:
            axes[axis.field] = axis
    chosen = [axes[name] for name in sorted(axes, key=field_order)]
    mistakes += _common_mistakes(grids, chosen, samples)
    fields = tuple(axis.field for axis in chosen)
    if mistakes:
        values = tuple(tuple(axis.some(_SHOWN_VALUES)) for axis in chosen)
        return Grid(fields, (TODAY,), values, mistakes=tuple(mistakes))
    settings, notes = _settings(chosen, samples, seed)
    return Grid(fields, settings, _values_of(fields, settings), notes)


def _read_axis(
    text: str, sets: Mapping[str, PolicySet], open_ranges: bool
) -> tuple[Axis | None, list[str]]:
    """Return the axis of a grid as far as it can be read, and its mistakes."""
    # A metric's own selector may have an = in it.
    name, equals, values = text.rpartition("=")
    name = name.strip()
    if not equals or not name:
        return None, [f"expected FIELD=VALUES, such as {_EXAMPLE.removeprefix('--grid ')}"]
    try:
        own, field = find_field(name)
    except ValueError as error:
        known = [f.name for f in FIELDS]
        hint = did_you_mean(name, [n for n in known if n != NAMED_TARGET])
        return None, [f"{error}{hint} (known: {', '.join(known)})"]
    items, problems = read_items(field, values, sets, open_ranges)
    return (Axis(own, items) if items else None), problems


def _common_mistakes(
    grids: Sequence[str], axes: Sequence[Axis], samples: int | None
) -> Iterator[str]:
    """Yield the mistakes of the axes together."""
    if not grids:
        yield f"expected one or more grids, such as {_EXAMPLE}, got none"
    if samples is not None and not 1 <= samples <= MAX_SETTINGS:
        yield f"--sample: expected a number from 1 to {MAX_SETTINGS:,}, got {samples}"
    elif samples is not None and (problem := lacking()) is not None:
        yield problem
    size = math.prod(len(axis) for axis in axes)
    if samples is None and size > MAX_SETTINGS:
        parts = " x ".join(f"{len(axis):,} ({axis.field})" for axis in axes)
        yield (
            f"expected at most {MAX_SETTINGS:,} settings, got {parts} = {size:,}: use wider steps, "
            "or --sample N"
        )
    by_name = {axis.field: axis for axis in axes}
    if "min" in by_name and "max" in by_name:
        # Numbers only: of a value that is relative it is known for each HPA alone.
        low, high = by_name["min"].least(), by_name["max"].most()
        if low is not None and high is not None and low > high:
            yield f"every min of the grid (from {low} on) is above every max (up to {high})"


def _settings(
    axes: Sequence[Axis], samples: int | None, seed: int
) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Return TODAY and the settings of a grid without mistakes, and what there is to note."""
    size = math.prod(len(axis) for axis in axes)
    points: Iterable[tuple[str, ...]]
    most, notes = size, []
    if samples is not None and samples < size:
        points, most = sampled(axes, samples, seed), samples
    else:
        points = product(*axes)  # (it takes all values of all axes at once)
        if samples is not None:
            notes.append(f"--sample {samples}: the whole grid has {size:,} settings, all are taken")
    found: dict[Setting, None] = {TODAY: None}
    impossible = 0
    for values in points:
        if len(found) > most:
            break
        given = dict(zip((axis.field for axis in axes), values, strict=True))
        if min_above_max(given):
            impossible += 1
        else:
            found[made_setting(given)] = None
    if samples is not None and len(found) <= samples < size:
        notes.append(f"--sample {samples}: only {len(found) - 1:,} different settings were found")
    if impossible:
        notes.append(f"combinations left out because their min is above their max: {impossible:,}")
    return tuple(found), tuple(notes)


def min_above_max(values: Mapping[str, str]) -> bool:
    """Whether values of fields have a min above their max, whatever the HPA; numbers only."""
    low, high = values.get("min", ""), values.get("max", "")
    return low.isdigit() and high.isdigit() and int(low) > int(high)


def _values_of(fields: Sequence[str], settings: Sequence[Setting]) -> tuple[tuple[str, ...], ...]:
    """Return by field the values that occur."""
    found: dict[str, dict[str, None]] = {field: {} for field in fields}
    for setting in settings:
        given = dict(setting.values)
        for field in fields:
            found[field][given.get(field, AS_TODAY)] = None
    return tuple(tuple(values) for values in found.values())


_ROUNDS: Final = 4


def lacking() -> str | None:
    """Return a sentence about a missing package, None where none is missing."""
    if find_spec("scipy") is not None:
        return None
    return (
        "--sample needs the package scipy; install hpabatch[advise], or give every range a step "
        "and leave --sample"
    )


def sampled(axes: Sequence[Axis], samples: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield points of a grid, a value for each axis; the first `samples` are spread best.

    Of an axis each value is as likely. Points may recur, so there are up to 16 times as many. The
    same seed gives the same points. Source: Owen's scrambling of Sobol's sequence, as in scipy.
    """
    from scipy.stats import qmc

    engine = qmc.Sobol(d=len(axes), scramble=True, rng=seed)
    # The sequence is balanced at powers of two only.
    power = (samples - 1).bit_length()
    for number in range(_ROUNDS):
        # Each further draw is as long as all before it, so that their sum stays a power of two.
        for point in engine.random_base2(power + max(number - 1, 0)).tolist():
            yield tuple(axis.at(int(u * len(axis))) for axis, u in zip(axes, point, strict=True))
