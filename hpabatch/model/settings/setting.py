"""Settings: values of fields applied to today's spec of an HPA, and the resulting specs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from hpabatch.errors import UsageError
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.field_errors import FieldError
from hpabatch.model.objects.hpa import HPA, Behavior, HPASpec, ScalingRules
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.fields import (
    SHIPPED,
    SPEC,
    Field,
    PolicySet,
    canonical_value,
    field_order,
    find_field,
    metric_of,
)
from hpabatch.model.settings.targets import counting_member, tuned_metric, with_target
from hpabatch.model.settings.values import (
    AS_TODAY,
    TOLERANCE_STEP,
    Amount,
    Numbers,
    decimal_text,
    exact,
    rounded,
)
from hpabatch.model.versions import ControllerFlags, Profile

_DIRECTIONS: Final = ("scaleUp", "scaleDown")
DEFAULT_FLAGS: Final = ControllerFlags()


class SettingError(UsageError):
    """An invalid setting, or one that does not fit an HPA; `reasons` are sentences."""

    def __init__(self, reasons: Iterable[str]) -> None:
        """Keep the reasons one by one."""
        self.reasons = tuple(reasons)
        super().__init__("; ".join(self.reasons))


@dataclass(frozen=True, slots=True)
class Setting:
    """Values of fields (name, value), in the order of `fields.FIELDS`; no values: today.

    `setting_of` and `parse_setting` make one with canonical names and values.
    """

    values: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The values as `parse_setting` reads them: `target=70 scaleDown.window=300`."""
        return " ".join(f"{field}={value}" for field, value in self.values) or AS_TODAY


TODAY: Final = Setting()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes of a setting outside the spec; None: as today.

    `sync_period_ms` is the controller's. Beyond upstream: `combine` is min or mean (of the metrics'
    proposals), `percentage_of` is limit.
    """

    sync_period_ms: int | None = None
    combine: str | None = None
    percentage_of: str | None = None


def setting_of(
    values: Mapping[str, object] | Iterable[tuple[str, object]],
    sets: Collection[str] = SHIPPED,
) -> Setting:
    """Return the setting of fields and values, such as `{"target": 70, "sync": "15s"}`.

    `sets` are the names of the policy sets that there are.

    Raises:
        SettingError: unknown fields, invalid values, or a field twice; all of them.
    """
    pairs = values.items() if isinstance(values, Mapping) else values
    found: dict[str, str] = {}
    reasons = []
    for name, value in pairs:
        try:
            own, field = find_field(name)
            text = canonical_value(field, str(value), sets)
        except ValueError as error:
            reasons.append(f"{name}={value}: {error}")
            continue
        if own in found:
            reasons.append(f"{name}={value}: the field {own} stands twice")
        found[own] = text
    if reasons:
        raise SettingError(reasons)
    return made_setting(found)


def made_setting(values: Mapping[str, str]) -> Setting:
    """Return the setting of fields and values in canonical form."""
    changed = [name for name in values if values[name] != AS_TODAY]
    return Setting(tuple((name, values[name]) for name in sorted(changed, key=field_order)))


def parse_setting(text: str, sets: Collection[str] = SHIPPED) -> Setting:
    """Return the setting of a string such as `target=70 scaleDown.window=300`, or `today`.

    Raises:
        SettingError: with all its errors.
    """
    if text.strip() in ("", AS_TODAY):
        return TODAY
    bare = [part for part in text.split() if "=" not in part]
    if bare:
        raise SettingError(f"{part!r} is not FIELD=VALUE" for part in bare)
    # A metric's own selector may have an = in it: target.external/depth{queue=orders}=x0.8.
    pairs = [part.rpartition("=") for part in text.split()]
    return setting_of([(name, value) for name, _, value in pairs], sets)


def parts_of(setting: Setting) -> tuple[Setting, ...]:
    """Return the parts of a setting that fit an HPA, or not, independently.

    A setting fits where all of its parts do: only min and max depend on each other.
    """
    bounds = tuple(pair for pair in setting.values if pair[0] in ("min", "max"))
    others = tuple(Setting((pair,)) for pair in setting.values if pair not in bounds)
    return (Setting(bounds), *others) if bounds else others


def what_if(setting: Setting) -> WhatIf:
    """Return the changes of a setting besides the spec."""
    values = dict(setting.values)
    period_ms = None
    if "sync" in values:
        field = find_field("sync")[1]
        assert isinstance(field.kind, Numbers)
        period_ms = int(field.kind.parse(values["sync"]).number)
    return WhatIf(period_ms, values.get("combine"), values.get("percentage-of"))


def effective_key(spec: HPASpec, changes: WhatIf, sync_period_ms: int) -> Hashable:
    """Return a key that two settings of an HPA share if their effects are equal.

    `spec` is what `apply_setting` returns, `sync_period_ms` the period of today. Equal proposals of
    one metric combine to the same, and without utilization targets there is no percentage.
    """
    utilizations = [
        member
        for m in spec.metrics
        if (member := m.resource or m.container_resource) is not None
        and member.target.average_utilization is not None
    ]
    # Equal quantities can be different floats: a tolerance of 0.05 and one of 50m.
    tolerances = tuple(
        None if rules is None or rules.tolerance is None else rules.tolerance.approx_float()
        for rules in (_rules(spec, direction) for direction in _DIRECTIONS)
    )
    return (
        spec,
        tolerances,
        changes.sync_period_ms or sync_period_ms,
        changes.combine if len(spec.metrics) > 1 else None,
        changes.percentage_of if utilizations else None,
    )


def apply_setting(
    setting: Setting,
    spec: HPASpec,
    sets: Mapping[str, PolicySet],
    profile: Profile,
    flags: ControllerFlags = DEFAULT_FLAGS,
) -> HPASpec:
    """Return an HPA's spec under a setting, as the API server would store it.

    `spec` is today's; relative values are relative to it, and to the controller's `flags` where it
    leaves a window or a tolerance open. A relative value that comes to today's own leaves the spec
    as it is. Where a field of `spec.behavior` is set that has none, the rest of it is filled in
    with upstream's defaults (pkg/apis/autoscaling/v2/defaults.go).

    Raises:
        SettingError: it does not fit this HPA, or the result is not valid in that version; all
            reasons.
    """
    today = default_spec(spec)
    edit = _Edit(today, sets, profile, flags)
    found, reasons = today, []
    for name, text in setting.values:
        field = find_field(name)[1]
        if field.where != SPEC:
            continue
        try:
            found = _EDITS[field.member](edit, found, name, field, text)
        except ValueError as error:
            reasons.append(f"{name}={text}: {error}")
    reasons += _bounds_complaint(setting, found)
    found = default_spec(found)
    if not reasons:
        told = f"{setting.name}: the API server of {profile.name} would refuse it"
        reasons = [f"{told}: {error}" for error in _new_errors(found, today, profile)]
    if reasons:
        raise SettingError(reasons)
    return as_stored(found, profile)


def _new_errors(spec: HPASpec, today: HPASpec, profile: Profile) -> list[FieldError]:
    """Return the errors of a spec that today's spec does not have.

    An older server may return a spec that it would refuse: `value: 0` beside an average.
    """
    errors = validate_hpa(HPA(name="hpa", spec=spec), profile)
    if not errors:
        return []
    known = validate_hpa(HPA(name="hpa", spec=today), profile)
    return [error for error in errors if error not in known]


def _bounds_complaint(setting: Setting, spec: HPASpec) -> list[str]:
    """Return the error of min above max in terms of the setting, before the API's field error."""
    low, high = spec.min_replicas, spec.max_replicas
    if low is None or low <= high:
        return []
    values = dict(setting.values)
    own = [f"{name}={values[name]}" for name in ("min", "max") if name in values]
    if not own:
        return []  # then it is today's spec that is wrong
    named = " ".join(own)
    return [f"{named}: it makes a min of {low}, above the max of {high}"]


@dataclass(frozen=True, slots=True)
class _Edit:
    """Inputs of edits besides the value."""

    today: HPASpec
    sets: Mapping[str, PolicySet]
    profile: Profile
    flags: ControllerFlags

    def target(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        return with_target(spec, self.today, metric_of(name), _amount(field, text))

    def bound(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        today: int = getattr(self.today, field.member)
        amount = _amount(field, text)
        found = int(rounded(_result(amount, Fraction(today))))
        if amount.operation == "x" and today:
            found = max(found, 1)  # a small share of few replicas is not meant as scale to zero
        changed: dict[str, Any] = {field.member: _checked(field, found)}
        return replace(spec, **changed)

    def window(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        today = int(_window(self.today, field.direction, self.flags))
        amount = _amount(field, text)
        found = _checked(field, int(rounded(_result(amount, Fraction(today)))))
        if amount.operation and found == today:
            return spec
        return _with_rules(spec, field.direction, stabilization_window_seconds=found)

    def tolerance(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        amount = _amount(field, text)
        for direction in [field.direction] if field.direction else _DIRECTIONS:
            today = _tolerance(self.today, direction, self.flags)
            found = _result(amount, today)
            if amount.operation == "x":
                found = rounded(found, TOLERANCE_STEP)
            if amount.operation and found == today:
                continue
            if not self.profile.gate_configurable_tolerance:
                raise ValueError(
                    f"Kubernetes {self.profile.name} has no tolerance in an HPA's spec (feature "
                    "gate HPAConfigurableTolerance); leave it, or take 1.35 or later"
                )
            spec = _with_rules(spec, direction, tolerance=_share(_checked(field, found)))
        return spec

    def policies(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        found = self.sets.get(text)
        if found is None:
            raise ValueError(f"there is no policy set {text} (known: {', '.join(self.sets)})")
        for direction in [field.direction] if field.direction else _DIRECTIONS:
            rules = found.rules(direction)
            if rules is not None:
                spec = _with_rules(
                    spec, direction, policies=rules.policies, select_policy=rules.select_policy
                )
            elif field.direction:
                raise ValueError(f"the policy set {text} says nothing of {direction}")
        return spec

    def select(self, spec: HPASpec, name: str, field: Field, text: str) -> HPASpec:
        return _with_rules(spec, field.direction, select_policy=text)


_EDITS: Final[dict[str, Callable[[_Edit, HPASpec, str, Field, str], HPASpec]]] = {
    "target": _Edit.target,
    "min_replicas": _Edit.bound,
    "max_replicas": _Edit.bound,
    "tolerance": _Edit.tolerance,
    "stabilization_window_seconds": _Edit.window,
    "policies": _Edit.policies,
    "select_policy": _Edit.select,
}


def todays_number(
    spec: HPASpec, name: str, flags: ControllerFlags = DEFAULT_FLAGS
) -> Fraction | None:
    """Return what a spec says of a field of numbers, by the controller's flags where it is open.

    None: it says nothing, or not the same in both directions.
    """
    field, spec = find_field(name)[1], default_spec(spec)
    directions = [field.direction] if field.direction else _DIRECTIONS
    match field.member:
        case "target":
            try:
                metric = spec.metrics[tuned_metric(spec, metric_of(name))]
                value = getattr(metric.target, counting_member(metric))
            except ValueError:
                return None
            return exact(value) if isinstance(value, Quantity) else Fraction(value)
        case "min_replicas" | "max_replicas":
            return Fraction(getattr(spec, field.member))
        case "stabilization_window_seconds":
            return _window(spec, field.direction, flags)
        case "tolerance":
            found = {_tolerance(spec, direction, flags) for direction in directions}
            return found.pop() if len(found) == 1 else None
    return None


def _window(spec: HPASpec, direction: str, flags: ControllerFlags) -> Fraction:
    rules = _rules(spec, direction)
    own = None if rules is None else rules.stabilization_window_seconds
    # (an unset window down is filled in at run time, in whole seconds)
    default = 0 if direction == "scaleUp" else flags.downscale_stabilization_ms // 1000
    return Fraction(default if own is None else own)


def _tolerance(spec: HPASpec, direction: str, flags: ControllerFlags) -> Fraction:
    rules = _rules(spec, direction)
    if rules is None or rules.tolerance is None:
        return Fraction(repr(flags.tolerance))
    return exact(rules.tolerance)


def _amount(field: Field, text: str) -> Amount:
    assert isinstance(field.kind, Numbers)
    return field.kind.parse(text)


def _result(amount: Amount, today: Fraction) -> Fraction:
    if amount.operation == "x":
        return today * amount.number
    return today + amount.number if amount.operation == "+" else amount.number


def _checked(field: Field, found: Any) -> Any:
    """Return a result that the field can have (ValueError: it cannot)."""
    assert isinstance(field.kind, Numbers)
    shown = decimal_text(rounded(Fraction(found), Fraction(1, 10**6)))
    field.kind.checked(Fraction(found), f"it comes to {shown}, which")
    return found


def _rules(spec: HPASpec, direction: str) -> ScalingRules | None:
    behavior = spec.behavior
    if behavior is None:
        return None
    return behavior.scale_up if direction == "scaleUp" else behavior.scale_down


def _with_rules(spec: HPASpec, direction: str, **changes: Any) -> HPASpec:
    """Return a spec with other rules of one direction; unset fields are defaulted later."""
    behavior = spec.behavior or Behavior()
    rules = replace(_rules(spec, direction) or ScalingRules(), **changes)
    if direction == "scaleUp":
        return replace(spec, behavior=replace(behavior, scale_up=rules))
    return replace(spec, behavior=replace(behavior, scale_down=rules))


def _share(tolerance: Fraction) -> Quantity:
    """Return a tolerance as it comes back from the API: 0.05 is stored as 50m."""
    return Quantity.parse(Quantity.parse(decimal_text(tolerance)).canonical())
