"""Decoding of the parts of an HPA that several API versions share."""

from __future__ import annotations

from functools import partial

from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.objects.hpa import (
    Behavior,
    Condition,
    CrossVersionObjectReference,
    LabelSelector,
    LabelSelectorRequirement,
    MetricIdentifier,
    ScalingPolicy,
    ScalingRules,
)


def read_reference(fields: Fields, key: str) -> CrossVersionObjectReference:
    """Read `scaleTargetRef`, `describedObject` or (v2beta1) `target`; absent is empty."""
    return fields.read(key, _reference) or CrossVersionObjectReference()


def _reference(fields: Fields) -> CrossVersionObjectReference:
    return CrossVersionObjectReference(
        fields.string("kind"), fields.string("name"), fields.string("apiVersion")
    )


def read_identifier(fields: Fields) -> MetricIdentifier:
    """Read `metric` of v2 and v2beta2; absent is empty."""
    return fields.read("metric", _identifier) or MetricIdentifier()


def _identifier(fields: Fields) -> MetricIdentifier:
    return MetricIdentifier(fields.string("name"), read_selector(fields, "selector"))


def read_selector(fields: Fields, key: str) -> LabelSelector | None:
    """Read a label selector object as written; whether it converts shows at run time."""
    return fields.read(key, _selector)


def _selector(fields: Fields) -> LabelSelector:
    labels = fields.string_map("matchLabels")
    return LabelSelector(labels, fields.read_all("matchExpressions", _requirement) or ())


def _requirement(fields: Fields) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(
        fields.string("key"), fields.string("operator"), fields.strings("values")
    )


def read_behavior(fields: Fields, tolerance: bool) -> Behavior:
    """Read `behavior`; v2beta2 has no `tolerance` field."""
    read = partial(_rules, tolerance=tolerance)
    return Behavior(fields.read("scaleUp", read), fields.read("scaleDown", read))


def _rules(fields: Fields, tolerance: bool) -> ScalingRules:
    """Read one direction of `behavior`; `policies: []` stays apart from absent policies."""
    policies = fields.read_all("policies", _policy)
    return ScalingRules(
        stabilization_window_seconds=fields.integer("stabilizationWindowSeconds"),
        select_policy=fields.optional_string("selectPolicy"),
        policies=policies,
        tolerance=fields.quantity("tolerance") if tolerance else None,
    )


def _policy(fields: Fields) -> ScalingPolicy:
    return ScalingPolicy(
        fields.string("type"), fields.integer("value") or 0, fields.integer("periodSeconds") or 0
    )


def read_condition(fields: Fields) -> Condition:
    """Read an entry of `status.conditions`, of a document or of v1's annotation."""
    fields.ignore("observedGeneration")
    return Condition(
        type=fields.string("type"),
        status=fields.string("status"),
        reason=fields.string("reason"),
        message=fields.string("message"),
        last_transition_time=fields.time("lastTransitionTime"),
    )
