"""Specs under a sweep's settings, by its rules and policy sets; settings that cannot be advised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hpabatch.engine.advise.bounds import Bounds, below, changes_told, floor_of, has_no_more_pods
from hpabatch.engine.advise.judge import TODAY, Judged
from hpabatch.engine.advise.objective import RecommendOptions
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key, Mask, UnitBlocks, key_of
from hpabatch.engine.fit.workload import BASE_TAKEN
from hpabatch.engine.simulate.result import CENSORED_WORDS, OUTSIDE_WORDS
from hpabatch.engine.sweep.context import Context, context_of
from hpabatch.engine.sweep.result import SweepResult, grid_edges
from hpabatch.errors import HistoryError, HpabatchError
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.describe import metric_subject
from hpabatch.model.objects.hpa import HPASpec, ScalingPolicy, ScalingRules
from hpabatch.model.settings.fields import SHIPPED, PolicySet
from hpabatch.model.settings.setting import apply_setting, made_setting
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


class Specs:
    """The specs of a sweep's HPAs, today's and under settings."""

    def __init__(self, result: SweepResult, apply: Apply) -> None:
        """Read settings and today's specs; `apply` puts setting values into a spec.

        Raises:
            HistoryError: a spec cannot be read.
        """
        self.result, self.apply = result, apply
        self.flags, self.contexts = flags_of(result), contexts_of(result)
        fields = [c for c in result.settings.columns if c not in ("setting_id", "setting")]
        rows = list(result.settings.iter_rows(named=True))
        self.values: dict[int, Values] = {
            row["setting_id"]: {f: row[f] for f in fields if row[f] is not None} for row in rows
        }
        self.names: dict[int, str] = {row["setting_id"]: row["setting"] for row in rows}
        self._made: dict[tuple[HPASpec, int], HPASpec] = {}
        self._written: dict[Key, HPASpec] = {}
        for *key, text in result.hpas.select(*KEY, "spec").iter_rows():
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
        if unit.held_at_max.any() or "max" in bounds.stated:
            return np.zeros(unit.settings.size, dtype=bool)
        keys, settings = unit.members, unit.settings.tolist()
        return np.array([any(self._times_max(key, s) > 1 for key in keys) for s in settings])

    def _times_max(self, key: Key, setting_id: int) -> float:
        """Return how many times today's maxReplicas a setting's is; 0: it does not fit."""
        try:
            return self.under(key, setting_id).max_replicas / self.today(key).max_replicas
        except HpabatchError:  # (`misfits` tells it)
            return 0.0

    def kept_targets(self, unit: UnitBlocks) -> list[str]:
        """Return the metrics of a unit's first member whose target no setting changes, in words.

        None where settings differ in no target at all.
        """
        fields = {name for values in self.values.values() for name in values}
        if "target" not in {part for name in fields for part in name.split(".")}:
            return []
        key, swept = unit.members[0], []
        for setting in unit.settings.tolist():
            with suppress(HpabatchError):  # (it does not fit: `misfits` tells it)
                swept.append(self.under(key, setting).metrics)
        return [
            metric_subject(metric)
            for k, metric in enumerate(self.today(key).metrics)
            if all(metrics[k] == metric for metrics in swept)
        ]

    def changes(self, key: Key, setting_id: int) -> list[str]:
        """Return in words what a setting changes of an HPA: `target 60 -> 78`."""
        return changes_told(self.today(key), self.under(key, setting_id), self.flags[0])

    def told(self, keys: Sequence[Key], setting_id: int) -> str:
        """Return what a setting changes of HPAs, its name where they differ in that."""
        try:
            changes = {", ".join(self.changes(key, setting_id)) for key in keys}
        except HpabatchError:  # (a setting that does not fit is named where that is told)
            changes = set()
        only = changes.pop() if len(changes) == 1 else ""
        return only or self.names[setting_id]

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


def contexts_of(result: SweepResult) -> dict[Key, Context]:
    """Return what a sweep knows of each HPA's writers and of its pods' availability.

    Raises:
        HistoryError: the sweep is damaged.
    """
    found = {}
    for row in result.hpas.iter_rows(named=True):
        try:
            found[key_of(row)] = context_of(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            name = f"{row['namespace']}/{row['hpa']}"
            raise HistoryError(
                f"the sweep's metadata or availability of {name} cannot be read ({error}): run it "
                "again"
            ) from error
    return found


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


_DIRECTIONS = ("scaleUp", "scaleDown")


def settings_of(result: SweepResult) -> Apply:
    """Return the function that puts a sweep's setting values into a spec."""
    profile, sets, flags = profile_of(result), sets_of(result), flags_of(result)

    def apply(values: Values, spec: HPASpec) -> HPASpec:
        setting = made_setting(values)
        first, *others = (apply_setting(setting, spec, sets, profile, each) for each in flags)
        if any(other != first for other in others):
            raise HistoryError(
                f"{setting.name} depends on the controller's flags, which differ between the "
                "clusters of this sweep: sweep each cluster by itself (--where)"
            )
        return first

    return apply


def sets_of(result: SweepResult) -> Mapping[str, PolicySet]:
    """Return a sweep's policy sets, as it holds them itself."""
    told = result.parameters.get("policy_sets") or {}
    return {**SHIPPED} | {
        name: PolicySet(name, _rules(value.get(_DIRECTIONS[0])), _rules(value.get(_DIRECTIONS[1])))
        for name, value in told.items()
    }


def sets_to_json(sets: Mapping[str, PolicySet]) -> dict[str, Any]:
    """Return policy sets as plain values, which `sets_of` reads from a sweep's parameters."""
    found: dict[str, Any] = {}
    for name, one in sets.items():
        directions = {way: one.rules(way) for way in _DIRECTIONS}
        found[name] = {
            way: {
                "selectPolicy": rules.select_policy,
                "policies": [[p.type, p.value, p.period_seconds] for p in rules.policies or ()],
            }
            for way, rules in directions.items()
            if rules is not None
        }
    return found


def _rules(value: Mapping[str, Any] | None) -> ScalingRules | None:
    if value is None:
        return None
    policies = tuple(ScalingPolicy(str(t), int(n), int(s)) for t, n, s in value["policies"])
    return ScalingRules(select_policy=value["selectPolicy"], policies=policies)


_OWN_DOUBTS: Final = (OUTSIDE_WORDS, CENSORED_WORDS)


class Inputs:
    """Options, specs and unreliable runs that every unit is judged with."""

    def __init__(self, result: SweepResult, options: RecommendOptions, specs: Specs) -> None:
        """Keep the inputs, and find the runs that cannot be relied on."""
        self.options, self.specs = options, specs
        self.block_unit = str(result.parameters["block"]["unit"])
        self.edges = grid_edges(result.settings)
        refused = result.results.filter(~result.results["usable"])
        names = (*KEY, "setting_id", "why_not")
        rows = refused.select(names).iter_rows()
        rows_of = {key_of(row): row for row in result.hpas.iter_rows(named=True)}
        known = {key: row["problems"] for key, row in rows_of.items()}
        self.base_shares = {key: row.get("base_share") or 0.0 for key, row in rows_of.items()}
        told = (
            ((c, n, h), setting_id, beyond_doubts(why, known.get((c, n, h)) or ""))
            for c, n, h, setting_id, why in rows
        )
        self.unusable = {(key, setting_id): why for key, setting_id, why in told if why}
        self.baseless = frozenset(key for key, why in known.items() if base_taken(why or ""))


def base_taken(problems: str) -> bool:
    """Say whether all that is wrong with an HPA's model is that its base is taken as 0."""
    return all(part.startswith(BASE_TAKEN) for part in problems.split("; "))


def beyond_doubts(why: str, problems: str) -> str:
    """Return why a run cannot be relied on, "" where that is but a doubt of the HPA's own."""
    left = why.removeprefix(problems).split("; ")
    return "; ".join(part for part in left if part and not any(o in part for o in _OWN_DOUBTS))


def name_of(found: Judged, place: int | None, inputs: Inputs) -> str:
    """Return what a unit's setting changes, its name where its HPAs differ in that."""
    assert place is not None
    if place == TODAY:
        return "today's setting"
    return inputs.specs.told(found.unit.members, int(found.unit.settings[place]))


def labels_of(unit: UnitBlocks) -> list[str]:
    """Return `namespace/name` of a unit's HPAs."""
    return [f"{namespace}/{hpa}" for _, namespace, hpa in unit.members]
