"""The pieces of an HPA that several API versions share, read from their JSON fields."""

from __future__ import annotations

from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.objects.hpa import (
    Behavior,
    Condition,
    CrossVersionObjectReference,
    LabelSelector,
    LabelSelectorRequirement,
    MetricIdentifier,
    MetricTarget,
    ScalingPolicy,
    ScalingRules,
)


def read_reference(fields: Fields | None) -> CrossVersionObjectReference:
    """Read `scaleTargetRef`, `describedObject` or (v2beta1) `target`; absent is empty."""
    if fields is None:
        return CrossVersionObjectReference()
    reference = CrossVersionObjectReference(
        fields.string("kind"), fields.string("name"), fields.string("apiVersion")
    )
    fields.close()
    return reference


def read_identifier(fields: Fields | None) -> MetricIdentifier:
    """Read `metric` of v2 and v2beta2."""
    if fields is None:
        return MetricIdentifier()
    identifier = MetricIdentifier(fields.string("name"), read_selector(fields.child("selector")))
    fields.close()
    return identifier


def read_target(fields: Fields | None) -> MetricTarget:
    """Read `target` of v2 and v2beta2."""
    if fields is None:
        return MetricTarget()
    target = MetricTarget(
        fields.string("type"),
        fields.quantity("value"),
        fields.quantity("averageValue"),
        fields.integer("averageUtilization"),
    )
    fields.close()
    return target


def read_selector(fields: Fields | None) -> LabelSelector | None:
    """Read a label selector object as written; whether it converts is a run-time question."""
    if fields is None:
        return None
    labels = fields.string_map("matchLabels")
    requirements: list[LabelSelectorRequirement] = []
    for item in fields.children("matchExpressions") or []:
        requirement = LabelSelectorRequirement(
            item.string("key"), item.string("operator"), item.strings("values")
        )
        requirements.append(requirement)
        item.close()
    fields.close()
    return LabelSelector(labels, tuple(requirements))


def read_behavior(fields: Fields, tolerance: bool) -> Behavior:
    """Read `behavior`; v2beta2 has no `tolerance` field."""
    behavior = Behavior(
        read_rules(fields.child("scaleUp"), tolerance),
        read_rules(fields.child("scaleDown"), tolerance),
    )
    fields.close()
    return behavior


def read_rules(fields: Fields | None, tolerance: bool) -> ScalingRules | None:
    """Read one direction of `behavior`; `policies: []` stays apart from absent policies."""
    if fields is None:
        return None
    policies = fields.children("policies")
    rules = ScalingRules(
        stabilization_window_seconds=fields.integer("stabilizationWindowSeconds"),
        select_policy=fields.optional_string("selectPolicy"),
        policies=None if policies is None else tuple(_read_policy(item) for item in policies),
        tolerance=fields.quantity("tolerance") if tolerance else None,
    )
    fields.close()
    return rules


def _read_policy(fields: Fields) -> ScalingPolicy:
    policy = ScalingPolicy(
        fields.string("type"), fields.integer("value") or 0, fields.integer("periodSeconds") or 0
    )
    fields.close()
    return policy


def read_conditions(items: list[Fields]) -> tuple[Condition, ...]:
    """Read `status.conditions`, from a document or from v1's annotation."""
    conditions: list[Condition] = []
    for item in items:
        item.ignore("observedGeneration")
        condition = Condition(
            type=item.string("type"),
            status=item.string("status"),
            reason=item.string("reason"),
            message=item.string("message"),
            last_transition_time=item.time("lastTransitionTime"),
        )
        conditions.append(condition)
        item.close()
    return tuple(conditions)
