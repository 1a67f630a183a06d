"""Specs under a sweep's settings, and why some settings cannot be recommended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from hpabatch.engine.advise.bounds import Bounds, changes_told, has_no_more_pods
from hpabatch.engine.advise.floor import below, floor_of
from hpabatch.engine.advise.guard import contexts_of
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key, Mask, UnitBlocks
from hpabatch.engine.sweep.context import Context
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError, HpabatchError
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import DEFAULT_K8S, ControllerFlags, Profile, profile_for

Values = Mapping[str, str]
"""A setting: by field its value as written; nothing: today's."""

Apply = Callable[[Values, HPASpec], HPASpec]

WHAT_IFS: Final = {
    "sync": "the sync period is a flag of the controller, not of an HPA",
    "combine": "no Kubernetes combines metrics otherwise than by the largest",
    "percentage-of": "no Kubernetes takes percentages of limits",
}
"""Fields that are compared but never recommended, and why."""

LIFT: Final = 1.25
"""Times today's maxReplicas from which on pods are clearly less busy at it."""

_AS_UPSTREAM: Final = {("combine", "max"), ("percentage-of", "request")}

_NOT_AT_MAX: Final = "nothing asks for more than today's maxReplicas"
_KEPT_SPECS: Final = 20_000  # of some 2 kB; the HPAs of a fleet often share a few specs


@dataclass(slots=True)
class Specs:
    """The specs of a sweep's HPAs, today's and under settings."""

    result: SweepResult
    apply: Apply
    values: dict[int, Values] = field(init=False)
    names: dict[int, str] = field(init=False)
    flags: tuple[ControllerFlags, ...] = field(init=False)
    contexts: dict[Key, Context] = field(init=False)
    _written: dict[Key, HPASpec] = field(init=False)
    _made: dict[tuple[HPASpec, int], HPASpec] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Read settings and today's specs.

        Raises:
            HistoryError: a spec cannot be read.
        """
        self.flags, self.contexts = flags_of(self.result), contexts_of(self.result)
        fields = [c for c in self.result.settings.columns if c not in ("setting_id", "setting")]
        rows = list(self.result.settings.iter_rows(named=True))
        self.values = {
            row["setting_id"]: {f: row[f] for f in fields if row[f] is not None} for row in rows
        }
        self.names = {row["setting_id"]: row["setting"] for row in rows}
        self._written = {}
        for *key, text in self.result.hpas.select(*KEY, "spec").iter_rows():
            cluster, namespace, hpa = key
            self._written[cluster, namespace, hpa] = _read(text, f"{namespace}/{hpa}")

    def written(self, key: Key) -> HPASpec:
        """Return an HPA's spec as the sweep has it."""
        return self._written[key]

    def today(self, key: Key) -> HPASpec:
        """Return an HPA's spec as the API server stores it."""
        return self.under(key, TODAY_ID)

    def under(self, key: Key, setting_id: int) -> HPASpec:
        """Return an HPA's spec under a setting, defaults filled in."""
        place = (self._written[key], setting_id)
        if place not in self._made:
            if len(self._made) >= _KEPT_SPECS:
                self._made.clear()
            self._made[place] = self.apply(self.values[setting_id], place[0])
        return self._made[place]

    def lifts(self, unit: UnitBlocks) -> Mask:
        """Return (M, S) which settings lift whose maxReplicas and leave no pod less."""
        return np.array(
            [[self._lifts(key, s) for s in unit.settings.tolist()] for key in unit.members]
        )

    def _lifts(self, key: Key, setting_id: int) -> bool:
        if self._times_max(key, setting_id) < LIFT:
            return False
        spec, today = self.under(key, setting_id), self.today(key)
        return all(has_no_more_pods(spec, today, flags) for flags in self.flags)

    def raises_idle_max(self, unit: UnitBlocks, bounds: Bounds) -> Mask:
        """Return (S,) which settings raise a maxReplicas that no member stood at.

        None where a bound of max is stated: who states it wants a larger one weighed.
        """
        if unit.stood_at_max or "max" in bounds.stated:
            return np.zeros(unit.settings.size, dtype=bool)
        keys, settings = unit.members, unit.settings.tolist()
        return np.array([any(self._times_max(key, s) > 1 for key in keys) for s in settings])

    def _times_max(self, key: Key, setting_id: int) -> float:
        """Return how many times today's maxReplicas a setting's is; 0: it does not fit."""
        try:
            return self.under(key, setting_id).max_replicas / self.today(key).max_replicas
        except HpabatchError:  # (`misfits` tells it)
            return 0.0

    def changes(self, key: Key, setting_id: int) -> list[str]:
        """Return in words what a setting changes of an HPA: `target 60 -> 78`."""
        return changes_told(self.today(key), self.under(key, setting_id), self.flags[0])

    def unpatchable(self, setting_id: int) -> str:
        """Return why a setting cannot be written into an HPA; "": it can."""
        found = [
            WHAT_IFS[name]
            for name, value in self.values[setting_id].items()
            if name in WHAT_IFS and (name, value) not in _AS_UPSTREAM
        ]
        return "; ".join(found)


def _read(text: str, name: str) -> HPASpec:
    try:
        hpa, _ = hpa_from_json(text)
    except ValueError as error:
        raise HistoryError(
            f"the sweep's spec of {name} cannot be read ({error}): run it again"
        ) from error
    return hpa.spec


def misfits(unit: UnitBlocks, specs: Specs, bounds: Bounds, raised: Mask) -> list[str]:
    """Return for each setting of a unit why it can never be one of its candidates, "" if it can.

    `raised` are those of `Specs.raises_idle_max`.
    """
    found = []
    for setting_id, raises in zip(unit.settings.tolist(), raised.tolist(), strict=True):
        why = "" if setting_id == TODAY_ID else specs.unpatchable(setting_id)
        if setting_id != TODAY_ID and not why:
            why = _bound_refusal(unit, specs, bounds, setting_id)
        found.append(why or (_NOT_AT_MAX if raises else ""))
    return found


def refusals(unit: UnitBlocks, misfit: Sequence[str], blocks: slice) -> list[str]:
    """Return for each setting of a unit why it is no candidate on some blocks, "" if it is one.

    `misfit` are those of `misfits`. Of no other block anything is looked at.
    """
    found = list(misfit)
    for place, share in enumerate(unit.outside_share(blocks).tolist()):
        if share > unit.most_outside and unit.settings[place] != TODAY_ID:
            outside = (
                f"{share:.0%} of its steps are outside of the usage per pod that was recorded "
                f"(more than {unit.most_outside:.0%})"
            )
            found[place] = f"{found[place]}, and {outside}" if found[place] else outside
    return found


def allowed_mask(why: Sequence[str]) -> Mask:
    """Return which settings are candidates."""
    return np.array([text == "" for text in why], dtype=bool)


def _bound_refusal(unit: UnitBlocks, specs: Specs, bounds: Bounds, setting_id: int) -> str:
    for key in unit.members:
        today = specs.today(key)
        try:
            spec = specs.under(key, setting_id)
        except HpabatchError as error:
            return f"it does not fit {key[1]}/{key[2]}: {error}"
        broken = bounds.broken(today, spec, specs.flags)
        low = below(floor_of(specs.contexts[key], bounds), today, spec)
        broken += [low] if low else []
        if broken:
            where = f"{key[1]}/{key[2]}: " if len(unit.members) > 1 else ""
            return where + ", ".join(broken)
    return ""


def profile_of(result: SweepResult) -> Profile:
    """Return the rules that a sweep was made by."""
    evidence = result.evidence
    # Of several versions, which then do the same, the newest is the last.
    newest = evidence.get("k8s", DEFAULT_K8S).rpartition(", ")[2]
    return profile_for(newest, evidence.get("feature_gates", ""))


def flags_of(result: SweepResult) -> tuple[ControllerFlags, ...]:
    """Return the controllers' flags that count where a spec leaves a window or a tolerance open.

    Several where clusters differ: the evidence has all values, not whose they are.
    """
    known, evidence = ControllerFlags(), result.evidence
    windows = evidence.get("downscale_stabilization", f"{known.downscale_stabilization_ms} ms")
    tolerances = evidence.get("tolerance", str(known.tolerance))
    return tuple(
        replace(
            known, downscale_stabilization_ms=int(window.split()[0]), tolerance=float(tolerance)
        )
        for window in windows.split(", ")
        for tolerance in tolerances.split(", ")
    )
