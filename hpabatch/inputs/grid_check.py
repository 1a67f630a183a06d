"""Check of a grid against HPAs: values that fit no HPA are mistakes, the others are left out.

Parts of settings (`setting.parts_of`) are checked, so a large grid costs no more than its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Final, Protocol

from hpabatch.inputs.grid import Grid, GridError, min_above_max
from hpabatch.model.objects.defaults import DEFAULT_METRICS
from hpabatch.model.objects.hpa import CrossVersionObjectReference, HPASpec
from hpabatch.model.printable import counted
from hpabatch.model.settings.fields import PolicySet, field_order
from hpabatch.model.settings.setting import (
    DEFAULT_FLAGS,
    Setting,
    SettingError,
    apply_setting,
    made_setting,
    parts_of,
)
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.model.versions import ControllerFlags, Profile

_BOUNDS: Final = ("min", "max")
_TOLD: Final = 3


class Swept(Protocol):
    """An HPA of a sweep; `spec` is today's."""

    @property
    def cluster(self) -> str:
        """The cluster it is in."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def spec(self) -> HPASpec:
        """Today's spec."""


@dataclass(frozen=True)
class Checked:
    """A grid, and the parts of it that do not fit an HPA.

    `unfit` has for each HPA the parts of settings that do not fit it, with the reasons; a setting
    fits an HPA if none of its parts is among them. `notes` name what is left out.
    """

    grid: Grid
    unfit: tuple[Mapping[Setting, tuple[str, ...]], ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _parts(self) -> tuple[tuple[Setting, ...], ...]:
        return tuple(parts_of(setting) for setting in self.grid.settings)

    def why_not(self, hpa: int, setting: int) -> tuple[str, ...]:
        """Return the reasons why a setting does not fit an HPA (both by index); empty: it fits."""
        unfit = self.unfit[hpa]
        if not unfit:
            return ()
        return tuple(reason for part in self._parts[setting] for reason in unfit.get(part, ()))


def check_grid(
    grid: Grid,
    hpas: Sequence[Swept],
    sets: Mapping[str, PolicySet],
    profile_of: Callable[[str], Profile],
    flags_of: Callable[[str], ControllerFlags] = lambda cluster: DEFAULT_FLAGS,
    complaints: Sequence[str] = (),
) -> Checked:
    """Return the settings that fit each HPA; `profile_of` and `flags_of` take a cluster.

    Raises:
        GridError: all mistakes of the grid, `complaints` (other mistakes of the command), and
            all values that fit none of the HPAs.
    """
    parts = _parts_to_check(grid)
    tester = _Tester(sets)
    unfit = tuple(
        tester.unfit(parts, hpa.spec, profile_of(hpa.cluster), flags_of(hpa.cluster))
        for hpa in hpas
    )
    mistakes = [*grid.mistakes, *complaints, *_fitting_none(parts, hpas, unfit)]
    if mistakes:
        raise GridError(mistakes)
    return Checked(grid, unfit, (*grid.notes, *_left_out(parts, hpas, unfit)))


def _parts_to_check(grid: Grid) -> tuple[Setting, ...]:
    """Return all parts of the grid's settings; with mistakes, what parts its values would make."""
    if not grid.mistakes:
        parts = (part for setting in grid.settings for part in parts_of(setting))
        return tuple(dict.fromkeys(parts))
    values = dict(zip(grid.fields, grid.values, strict=True))
    bounds = [[(name, value) for value in values.pop(name, ())] for name in _BOUNDS]
    found = [Setting(((name, value),)) for name in values for value in values[name]]
    pairs = product(*(pairs for pairs in bounds if pairs)) if any(bounds) else ()
    found += [made_setting(dict(pair)) for pair in pairs if not min_above_max(dict(pair))]
    return tuple(part for part in found if part.values and part.values[0][1] != AS_TODAY)


class _Tester:
    """Applies parts of settings to specs; equal specs are checked once."""

    def __init__(self, sets: Mapping[str, PolicySet]) -> None:
        self.sets = sets
        self.known: dict[object, Mapping[Setting, tuple[str, ...]]] = {}
        self.reasons: dict[object, tuple[str, ...]] = {}

    def unfit(
        self, parts: Sequence[Setting], spec: HPASpec, profile: Profile, flags: ControllerFlags
    ) -> Mapping[Setting, tuple[str, ...]]:
        """Return the parts that do not fit a spec, with the reasons."""
        # (every HPA has a target of its own, which no setting changes)
        spec = replace(spec, scale_target_ref=_ANY_TARGET)
        key = (spec, profile, flags)
        if key not in self.known:
            found = {part: self._reasons(part, spec, profile, flags) for part in parts}
            self.known[key] = {part: reasons for part, reasons in found.items() if reasons}
        return self.known[key]

    def _reasons(
        self, part: Setting, spec: HPASpec, profile: Profile, flags: ControllerFlags
    ) -> tuple[str, ...]:
        if part.values[0][0] in _BOUNDS:  # min and max depend on little of a spec: many share that
            for_zero = [metric for metric in spec.metrics if metric.type in ("Object", "External")]
            spec = replace(spec, metrics=tuple(for_zero[:1]) or DEFAULT_METRICS, behavior=None)
        key = (part, spec, profile, flags)
        if key not in self.reasons:
            self.reasons[key] = ()
            try:
                apply_setting(part, spec, self.sets, profile, flags)
            except SettingError as error:
                self.reasons[key] = error.reasons
        return self.reasons[key]


_ANY_TARGET: Final = CrossVersionObjectReference("Deployment", "any", "apps/v1")


def _fitting_none(
    parts: Sequence[Setting],
    hpas: Sequence[Swept],
    unfit: Sequence[Mapping[Setting, tuple[str, ...]]],
) -> Iterator[str]:
    """Yield a sentence for each value that no HPA can have, whatever the other values are."""
    if not hpas:
        return
    by_value: dict[tuple[str, str], list[Setting]] = {}
    for part in parts:
        for pair in part.values:
            by_value.setdefault(pair, []).append(part)
    told: dict[tuple[str, ...], list[str]] = {}
    for name, value in sorted(by_value, key=lambda pair: field_order(pair[0])):
        theirs = by_value[name, value]
        if all(part in misfits for misfits in unfit for part in theirs):
            found = (reason for misfits in unfit for p in theirs for reason in misfits.get(p, ()))
            why = dict.fromkeys(reason.partition(": ")[2] for reason in found)
            told.setdefault(tuple(why)[:_TOLD], []).append(f"{name}={value}")
    for reasons, values in told.items():
        many = f"none of {len(hpas)} HPAs" if len(hpas) > 1 else _named(hpas[0])
        verb = "fit" if len(values) > 1 else "fits"
        verb = verb if len(hpas) > 1 else f"{'do' if len(values) > 1 else 'does'} not fit"
        yield f"{_listed(values)} {verb} {many}: {'; '.join(reasons)}"


def _left_out(
    parts: Sequence[Setting],
    hpas: Sequence[Swept],
    unfit: Sequence[Mapping[Setting, tuple[str, ...]]],
) -> Iterator[str]:
    """Yield a sentence for all parts of settings that the same HPAs cannot have for one reason."""
    found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for part in parts:
        theirs = tuple(k for k, misfits in enumerate(unfit) if part in misfits)
        if theirs:
            reason = unfit[theirs[0]][part][0].partition(": ")[2]
            found.setdefault((reason, theirs), []).append(part.name)
    for (reason, theirs), names in found.items():
        yield (
            f"{_listed(names)} {'are' if len(names) > 1 else 'is'} left out for {len(theirs)} of "
            f"{counted(len(hpas), 'HPA')}, such as {_named(hpas[theirs[0]])}: {reason}"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _named(hpa: Swept) -> str:
    return f"{hpa.namespace}/{hpa.name}"
