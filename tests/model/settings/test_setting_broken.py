"""Settings of specs that are wrong already: what was wrong before refuses no setting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import (
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.settings.policy_sets import SHIPPED
from hpabatch.model.settings.setting import apply_setting, parse_setting
from hpabatch.model.settings.targets import counting_member
from hpabatch.model.versions import profile_for

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


def test_a_metric_without_any_source_has_no_target() -> None:
    with pytest.raises(ValueError, match="no target that counts"):
        counting_member(MetricSpec(type="Resource"))
