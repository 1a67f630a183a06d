"""Application of a sweep's settings to a spec, by the rules and policy sets of the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpabatch.engine.advise.specs import Apply, Values, flags_of, profile_of
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.policies import read_policy_sets
from hpabatch.model.objects.hpa import HPASpec, ScalingPolicy, ScalingRules
from hpabatch.model.settings.policy_sets import SHIPPED, PolicySet
from hpabatch.model.settings.setting import apply_setting, made_setting

_DIRECTIONS = ("scaleUp", "scaleDown")


def settings_of(result: SweepResult) -> Apply:
    """Return the function that puts a sweep's setting values into a spec.

    Raises:
        HistoryError: the policy sets that it was made with are not known any more.
    """
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
    """Return a sweep's policy sets: as it holds them itself, else from the file that it names.

    Raises:
        HistoryError: the file is gone, or is not what it was.
    """
    told = result.parameters.get("policy_sets")
    if isinstance(told, Mapping):
        return {**SHIPPED, **{name: _set(name, value) for name, value in told.items()}}
    path = (result.parameters.get("request") or {}).get("policy_sets")
    if path is None:
        return SHIPPED
    try:
        digests = digests_of([Path(path)])
    except OSError as error:
        raise HistoryError(
            f"the policy sets of this sweep, {path}, cannot be read ({error.strerror}): put the "
            "file back, or sweep again"
        ) from error
    if any(result.evidence.get(name, digest) != digest for name, digest in digests.items()):
        raise HistoryError(f"{path} has changed since the sweep was made: sweep again")
    return {**SHIPPED, **read_policy_sets(path)}


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


def _set(name: str, value: Mapping[str, Any]) -> PolicySet:
    up, down = (_rules(value.get(way)) for way in _DIRECTIONS)
    return PolicySet(name, up, down)


def _rules(value: Mapping[str, Any] | None) -> ScalingRules | None:
    if value is None:
        return None
    policies = tuple(ScalingPolicy(str(t), int(n), int(s)) for t, n, s in value["policies"])
    return ScalingRules(select_policy=value["selectPolicy"], policies=policies)
