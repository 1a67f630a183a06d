"""Settings: what they make of a spec, what refuses them, and the laws that hold for all of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.objects.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP, default_spec
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.fields import FAST, FIELDS, SHIPPED, PolicySet, find_field
from hpabatch.model.settings.setting import (
    TODAY,
    Setting,
    SettingError,
    WhatIf,
    apply_setting,
    effective_key,
    parse_setting,
    parts_of,
    setting_of,
    todays_number,
    what_if,
)
from hpabatch.model.versions import PROFILES, ControllerFlags, profile_for
from tests.model.settings_made import (
    CPU,
    MEMORY,
    QUEUE,
    average,
    of_object,
    settings,
    spec,
    specs,
)

NEWEST = profile_for("1.37")
OLD = profile_for("1.32")


def under(text: str, today: HPASpec, **more: object) -> HPASpec:
    flags = more.pop("flags", ControllerFlags())
    assert isinstance(flags, ControllerFlags)
    return apply_setting(parse_setting(text), today, SHIPPED, NEWEST, flags)


def refusal(text: str, today: HPASpec) -> tuple[str, ...]:
    with pytest.raises(SettingError) as caught:
        under(text, today)
    return caught.value.reasons


def rules(found: HPASpec) -> tuple[ScalingRules, ScalingRules]:
    assert found.behavior is not None
    assert found.behavior.scale_up is not None
    assert found.behavior.scale_down is not None
    return found.behavior.scale_up, found.behavior.scale_down


# ---- texts


def test_names_and_values_have_one_spelling() -> None:
    setting = setting_of({"Scale-Down.Window": "5m", "minReplicas": 3, "utilization": "x0.80"})
    assert setting.name == "target=x0.8 min=3 scaleDown.window=300"
    again = "scaleDown.stabilizationWindowSeconds=300 target=x0.8 MIN=3"
    assert parse_setting(again) == setting
    assert parse_setting("today") is TODAY
    assert TODAY.name == "today"


def test_what_changes_nothing_is_today() -> None:
    same = {"target": "x1.0", "min": "+0", "max": "today", "combine": "Max"}
    assert setting_of({**same, "percentage-of": "request", "scaleUp.window": "TODAY"}) == TODAY


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(SettingError) as caught:
        setting_of([("targt", 70), ("min", "a"), ("max", "3"), ("maxReplicas", "4"), ("sync", "x2"),
                    ("policies", "mine"), ("scaleUp.select", "Most")])  # fmt: skip
    assert [reason.partition(":")[0] for reason in caught.value.reasons] == [
        "targt=70", "min=a", "maxReplicas=4", "sync=x2", "policies=mine", "scaleUp.select=Most",
    ]  # fmt: skip
    assert "stands twice" in caught.value.reasons[2]
    with pytest.raises(SettingError, match="'70' is not FIELD=VALUE"):
        parse_setting("70")


def test_a_metrics_own_selector_may_have_equals_signs() -> None:
    setting = parse_setting("target.external/depth{queue=orders}=x0.8")
    assert setting.values == (("target.external/depth{queue=orders}", "x0.8"),)


@given(settings())
def test_parse_undoes_name(setting: Setting) -> None:
    assert parse_setting(setting.name) == setting


# ---- what is changed


def test_bounds() -> None:
    today = spec(CPU, low=3, high=10)
    assert under("min=1 max=20", today) == replace(today, min_replicas=1, max_replicas=20)
    assert under("min=x0.5", today).min_replicas == 2  # 1.5, the half upwards
    assert under("min=x0.01", today).min_replicas == 1  # never to zero by a share
    assert under("min=-2 max=+5", today) == replace(today, min_replicas=1, max_replicas=15)


def test_scale_to_zero_needs_a_difference_or_a_number_and_a_metric_for_it() -> None:
    today = spec(QUEUE, low=1)
    assert under("min=0", today).min_replicas == 0
    assert under("min=-1", today).min_replicas == 0
    (reason,) = refusal("min=0", spec(CPU))
    assert reason.startswith("min=0: the API server of 1.37 would refuse it: spec.metrics: Forbidd")


def test_a_window_makes_a_behavior_with_upstreams_defaults() -> None:
    up, down = rules(under("scaleUp.window=60", spec(CPU)))
    assert up == replace(DEFAULT_SCALE_UP, stabilization_window_seconds=60)
    assert down == DEFAULT_SCALE_DOWN  # its window is filled in at run time
    behavior = Behavior(scale_down=ScalingRules(120, policies=(ScalingPolicy("Pods", 1, 60),)))
    up, down = rules(under("scaleDown.window=x0.5", spec(CPU, behavior=behavior)))
    assert up == DEFAULT_SCALE_UP
    assert down == ScalingRules(60, "Max", (ScalingPolicy("Pods", 1, 60),))


def test_an_open_window_is_the_flag() -> None:
    flags = ControllerFlags(downscale_stabilization_ms=120_999)
    assert rules(under("scaleDown.window=+30", spec(CPU), flags=flags))[1] == replace(
        DEFAULT_SCALE_DOWN, stabilization_window_seconds=150
    )
    assert under("scaleUp.window=x3", spec(CPU)) == spec(CPU)  # three times 0 is today's


def test_tolerances() -> None:
    up, down = rules(under("tolerance=5% scaleUp.tolerance=0.2", spec(CPU)))
    assert up.tolerance == Quantity.parse("200m")
    assert down.tolerance == Quantity.parse("50m")
    assert down.tolerance.approx_float() == 50 * 1e-3  # as it comes back from the API
    up, down = rules(under("tolerance=x0.5", spec(CPU), flags=ControllerFlags(tolerance=0.3)))
    assert str(up.tolerance) == str(down.tolerance) == "150m"
    (reason,) = refusal("tolerance=-0.2", spec(CPU))
    assert reason == "tolerance=-0.2: it comes to -0.1, which is not from 0 to 1"


def test_a_tolerance_needs_the_gate() -> None:
    setting = parse_setting("scaleUp.tolerance=0.05")
    with pytest.raises(SettingError, match=r"Kubernetes 1.32 has no tolerance .*or take 1.35"):
        apply_setting(setting, spec(CPU), SHIPPED, OLD)
    beta = profile_for("1.33", "HPAConfigurableTolerance=true")
    assert apply_setting(setting, spec(CPU), SHIPPED, beta) == under(setting.name, spec(CPU))


def test_policies_are_exchanged_with_the_select_policy_and_nothing_else() -> None:
    tolerance = Quantity.parse("10m")
    behavior = Behavior(
        ScalingRules(90, "Disabled", (ScalingPolicy("Pods", 7, 7),), tolerance),
        ScalingRules(600, "Min", None, tolerance),
    )
    today = spec(CPU, behavior=behavior)
    assert FAST.scale_up is not None
    assert FAST.scale_down is not None
    up, down = rules(under("policies=fast", today))
    assert up == ScalingRules(90, "Max", FAST.scale_up.policies, tolerance)
    assert down == ScalingRules(600, "Max", FAST.scale_down.policies, tolerance)
    up, down = rules(under("scaleUp.policies=fast scaleUp.select=Min", today))
    assert up == ScalingRules(90, "Min", FAST.scale_up.policies, tolerance)
    assert down == rules(today)[1]
    assert under("policies=default", spec(CPU)).behavior == default_spec(
        replace(spec(CPU), behavior=Behavior())
    ).behavior  # fmt: skip


def test_a_set_may_leave_a_direction_alone() -> None:
    sets = {"brake": PolicySet("brake", None, ScalingRules(select_policy="Disabled", policies=(
        ScalingPolicy("Pods", 1, 60),)))}  # fmt: skip
    today = spec(CPU, behavior=Behavior())
    up, down = rules(apply_setting(setting_of({"policies": "brake"}, sets), today, sets, NEWEST))
    assert (up, down.select_policy) == (DEFAULT_SCALE_UP, "Disabled")
    with pytest.raises(SettingError, match="the policy set brake says nothing of scaleUp"):
        apply_setting(setting_of({"scaleUp.policies": "brake"}, sets), today, sets, NEWEST)
    with pytest.raises(SettingError, match=r"there is no policy set brake \(known: gentle, def"):
        apply_setting(setting_of({"policies": "brake"}, sets), today, SHIPPED, NEWEST)


def test_all_that_does_not_fit_is_told() -> None:
    assert refusal("target=500m min=8 max=4 scaleDown.window=x20", spec(CPU)) == (
        "target=500m: its metric cpu has a utilization target (70 percent), which takes whole "
        "percents such as 70, or a factor such as x0.8",
        "scaleDown.window=x20: it comes to 6000, which is not from 0 to 3600",
        "min=8 max=4: it makes a min of 8, above the max of 4",
    )
    assert refusal("max=-9", spec(CPU)) == ("max=-9: it makes a min of 2, above the max of 1",)
    assert refusal("max=-10", spec(CPU))[0] == (
        "max=-10: it comes to 0, which is not from 1 to 100000"
    )


def test_what_is_wrong_today_refuses_no_setting() -> None:
    """A server of old hands back an Object average with a value of 0, which none would take."""
    old = profile_for("1.20")
    today = as_stored(spec(of_object("hits", average("10"))), old)
    assert validate_hpa(HPA(name="x", spec=today), old) != []
    found = apply_setting(parse_setting("target=x2 max=30"), today, SHIPPED, old)
    assert found.metrics[0].object is not None
    assert found.metrics[0].object.target.average_value == Quantity.parse("20")
    assert found.max_replicas == 30


# ---- beside the spec


def test_what_is_not_in_the_spec() -> None:
    setting = parse_setting("sync=30 combine=mean percentage-of=limit target=60")
    assert what_if(setting) == WhatIf(30_000, "mean", "limit")
    assert what_if(parse_setting("target=60")) == what_if(TODAY) == WhatIf()
    today = spec(CPU)
    assert apply_setting(parse_setting("sync=5s combine=min"), today, SHIPPED, NEWEST) == today


def test_settings_that_cannot_differ_have_one_key() -> None:
    one, two = spec(CPU), spec(CPU, MEMORY)
    same = effective_key(one, WhatIf(), 15_000)
    assert effective_key(one, WhatIf(15_000, "min"), 15_000) == same
    assert effective_key(two, WhatIf(), 15_000) != effective_key(two, WhatIf(None, "min"), 15_000)
    assert effective_key(one, WhatIf(percentage_of="limit"), 15_000) != same
    averages = spec(MEMORY)
    plain = effective_key(averages, WhatIf(), 15_000)
    assert effective_key(averages, WhatIf(percentage_of="limit"), 15_000) == plain
    assert effective_key(one, WhatIf(30_000), 15_000) != same
    written, stored = (
        spec(CPU, behavior=Behavior(ScalingRules(tolerance=Quantity.parse(text))))
        for text in ("0.3", "300m")
    )
    assert written == stored  # and yet another double
    assert effective_key(written, WhatIf(), 1) != effective_key(stored, WhatIf(), 1)


# ---- laws


def fitted(setting: Setting, today: HPASpec, version: str = "1.37") -> HPASpec | None:
    try:
        return apply_setting(setting, today, SHIPPED, profile_for(version))
    except SettingError:
        return None


@given(settings(), st.sampled_from(list(PROFILES)), st.data())
def test_what_fits_is_what_the_api_server_stores(
    setting: Setting, version: str, data: st.DataObject
) -> None:
    profile = PROFILES[version]
    today = data.draw(specs(tolerances=profile.gate_configurable_tolerance))
    known = validate_hpa(HPA(name="x", spec=today), profile)
    found = fitted(setting, today, version)
    if found is None:
        return
    assert default_spec(found) == found
    assert as_stored(found, profile) == found
    if profile.stored_as_v2:
        errors = validate_hpa(HPA(name="x", spec=found), profile)
        assert [error for error in errors if error not in known] == []
    assert found.scale_target_ref == today.scale_target_ref


@given(settings(relative=False), specs())
def test_absolute_settings_are_idempotent(setting: Setting, today: HPASpec) -> None:
    found = fitted(setting, today)
    if found is not None:
        assert fitted(setting, found) == found


@given(specs(), st.sampled_from([f.name for f in FIELDS if f.name != "target.NAME"]))
def test_times_one_is_today(today: HPASpec, name: str) -> None:
    assert apply_setting(TODAY, today, SHIPPED, NEWEST) == today
    if find_field(name)[1].where == "spec" and "policies" not in name and "select" not in name:
        assert setting_of({name: "x1"}) == setting_of({name: "+0"}) == TODAY


@given(specs(), st.sampled_from(["min", "max", "scaleUp.window", "scaleDown.window", "tolerance"]))
def test_a_relative_value_that_comes_to_todays_changes_nothing(today: HPASpec, name: str) -> None:
    setting = setting_of({name: "x1.00001"})
    assert setting != TODAY
    assert fitted(setting, today) == today


@given(settings(), specs())
def test_a_setting_fits_where_its_parts_do(setting: Setting, today: HPASpec) -> None:
    parts = parts_of(setting)
    assert sorted(pair for part in parts for pair in part.values) == sorted(setting.values)
    alone = [fitted(part, today) for part in parts]
    assert (fitted(setting, today) is None) == (None in alone)


@given(settings(), specs())
def test_only_what_is_named_changes(setting: Setting, today: HPASpec) -> None:
    found = fitted(setting, today)
    if found is None:
        return
    names = [name for name, _ in setting.values]
    if "min" not in names:
        assert found.min_replicas == today.min_replicas
    if "max" not in names:
        assert found.max_replicas == today.max_replicas
    if not any(name.startswith("target") for name in names):
        assert found.metrics == today.metrics
    if not any(find_field(name)[1].acts_on.startswith("spec.behavior") for name in names):
        assert found.behavior == today.behavior
    elif today.behavior is not None and not any("Down" in n or n in _BOTH for n in names):
        assert rules(found)[1] == rules(today)[1]
    elif today.behavior is not None and not any("Up" in n or n in _BOTH for n in names):
        assert rules(found)[0] == rules(today)[0]


_BOTH = ("tolerance", "policies")


TARGET = MetricTarget(type="Utilization", average_utilization=60)
SPEC = HPASpec(
    scale_target_ref=CrossVersionObjectReference("Deployment", "web", "apps/v1"),
    min_replicas=5,
    max_replicas=3,
    metrics=(MetricSpec(type="Resource", resource=ResourceMetricSource("cpu", TARGET)),),
)


def test_a_minimum_above_the_maximum_of_today() -> None:
    found = apply_setting(parse_setting("target=70"), SPEC, SHIPPED, profile_for("1.37"))
    resource = found.metrics[0].resource
    assert resource is not None
    assert resource.target.average_utilization == 70
    assert (found.min_replicas, found.max_replicas) == (5, 3)
    assert found == default_spec(replace(SPEC, metrics=found.metrics))


@pytest.mark.parametrize(
    ("field", "setting", "number"),
    [
        ("target", "today", 60),
        ("target.memory", "today", None),
        ("min", "min=3", 3),
        ("max", "today", 3),
        ("scaleDown.window", "today", 300),
        ("scaleDown.window", "scaleDown.window=60", 60),
        ("scaleUp.window", "today", 0),
        ("tolerance", "today", Fraction(1, 10)),
        ("tolerance", "scaleUp.tolerance=0.2", None),
        ("scaleUp.tolerance", "scaleUp.tolerance=0.2", Fraction(1, 5)),
        ("policies", "today", None),
    ],
)
def test_the_number_that_a_spec_has_today(
    field: str, setting: str, number: Fraction | None
) -> None:
    assert todays_number(under(setting, SPEC), field) == number


def test_the_number_of_a_target_that_is_a_quantity() -> None:
    metric = MetricSpec(
        "Resource",
        resource=ResourceMetricSource(
            "cpu", MetricTarget("AverageValue", average_value=Quantity.parse("500m"))
        ),
    )
    assert todays_number(replace(SPEC, metrics=(metric,)), "target") == Fraction(1, 2)
