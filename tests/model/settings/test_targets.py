"""Tests of tuned targets: the metric that a setting changes, and its new target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.model.objects.hpa import (
    ExternalMetricSource,
    HPASpec,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.setting import SettingError, apply_setting, parse_setting
from hpabatch.model.settings.targets import counting_member, tuned_metric
from hpabatch.model.versions import profile_for
from tests.model.settings_made import (
    CPU,
    MEMORY,
    QUEUE,
    average,
    container,
    external,
    of_object,
    pods,
    resource,
    spec,
    utilization,
    value,
)


def under(text: str, *metrics: MetricSpec) -> HPASpec:
    return apply_setting(parse_setting(text), spec(*metrics), SHIPPED, profile_for("1.37"))


def refusal(text: str, *metrics: MetricSpec) -> str:
    with pytest.raises(SettingError) as caught:
        under(text, *metrics)
    return str(caught.value).partition(": ")[2]


APP_CPU, SIDE_CPU = (container("cpu", name, utilization(50)) for name in ("app", "side"))


def test_which_metric_is_meant() -> None:
    assert tuned_metric(spec(QUEUE), None) == 0
    assert tuned_metric(spec(MEMORY, QUEUE, CPU), None) == 2
    assert tuned_metric(spec(QUEUE, SIDE_CPU, APP_CPU, CPU), None) == 1
    assert tuned_metric(spec(QUEUE, SIDE_CPU, APP_CPU), "container/app/cpu") == 2
    assert tuned_metric(spec(MEMORY, QUEUE), "queue") == 1
    assert tuned_metric(spec(MEMORY, QUEUE), "external/queue") == 1
    assert tuned_metric(spec(CPU, of_object("cpu", value("5"))), "resource/cpu") == 0


def test_what_cannot_be_told_apart_is_asked_for() -> None:
    assert refusal("target=70", MEMORY, QUEUE) == (
        "it has 2 metrics and none of them is of cpu; take target.memory or target.queue"
    )
    assert refusal("target.cpu=70", APP_CPU, SIDE_CPU) == (
        "it has 2 metrics cpu; take target.container/app/cpu or target.container/side/cpu"
    )
    assert refusal("target.memory=x2", CPU) == "it has no metric memory; take target.cpu"
    assert refusal("target.queue=x2", QUEUE, QUEUE) == (
        "it has 2 metrics queue; none of them can be told from the others"
    )


def test_metrics_of_one_name_and_other_selectors_are_told_apart() -> None:
    depths = [
        MetricSpec("External", external=ExternalMetricSource(
            MetricIdentifier("depth", LabelSelector((("queue", name),))), average("10")))
        for name in ("a", "b")
    ]  # fmt: skip
    found = under("target.external/depth{queue=b}=x3", *depths)
    assert found.metrics[0] == depths[0]
    assert found.metrics[1].external is not None
    assert found.metrics[1].external.target == average("30")
    assert "take target.external/depth{queue=a} or" in refusal("target.depth=x3", *depths)


# A target, what is written, and the target then.
CHANGES: tuple[tuple[MetricTarget, str, MetricTarget], ...] = (
    (utilization(70), "65", utilization(65)),
    (utilization(70), "x0.75", utilization(53)),  # 52.5, the half upwards
    (utilization(70), "x0.001", utilization(1)),
    (utilization(70), "+5", utilization(75)),
    (utilization(70), "-69", utilization(1)),
    (average("500m"), "x1.2", average("600m")),
    (average("500m"), "750m", average("750m")),
    (average("500m"), "+250m", average("750m")),
    (average("1"), "0.5", average("500m")),
    (average("100Mi"), "x1.1", average("110Mi")),
    (average("1Gi"), "x0.8", average("819Mi")),
    (average("100Mi"), "-36Mi", average("64Mi")),
    (average("100M"), "1Gi", average("1Gi")),
)


@pytest.mark.parametrize(("before", "text", "after"), CHANGES)
def test_targets_of_resources(before: MetricTarget, text: str, after: MetricTarget) -> None:
    for name in ("cpu", "memory"):
        found = under(f"target={text}", resource(name, before))
        assert found == spec(resource(name, after))
        assert under(f"target.{name}={text}", QUEUE, resource(name, before)).metrics == (
            QUEUE, resource(name, after),
        )  # fmt: skip
        of_one = container(name, "app", before)
        assert under(f"target={text}", of_one) == spec(container(name, "app", after))


def test_a_product_is_printed_in_the_unit_it_was_in() -> None:
    for before, text, after in (
        ("500m", "x1.2", "600m"), ("100Mi", "x1.5", "150Mi"), ("30", "x1.1", "33"),
        ("2k", "x1.5", "3k"), ("1Gi", "x0.5", "512Mi"), ("30", "x0.77", "23100m"),
    ):  # fmt: skip
        found = under(f"target={text}", external("queue", average(before))).metrics[0]
        assert found.external is not None
        assert str(found.external.target.average_value) == after


def test_targets_of_other_metrics() -> None:
    assert under("target.queue=45", QUEUE) == spec(external("queue", average("45")))
    assert under("target.queue=+5", QUEUE) == spec(external("queue", average("35")))
    assert under("target=x0.5", external("q", value("10"))) == spec(external("q", value("5")))
    assert under("target.r=2", pods("r", average("1"))) == spec(pods("r", average("2")))
    assert under("target=x2", of_object("h", value("1k"))) == spec(of_object("h", value("2k")))
    both = replace(value("8"), average_value=Quantity.parse("2"))
    found = under("target=x2", of_object("h", both))
    assert found == spec(of_object("h", replace(both, value=Quantity.parse("16"))))
    both = replace(both, type="AverageValue")
    found = under("target=x2", of_object("h", both))
    assert found == spec(of_object("h", replace(both, average_value=Quantity.parse("4"))))


REFUSALS = (
    ("70", QUEUE, "its metric queue has a target of 30, which no percentage can be; give a quantity"
     " with its unit such as 30, or a factor such as x0.8 (or take target.queue)"),
    ("70", MEMORY, "its metric memory has a target of 100Mi, which no percentage can be; give a "
     "quantity with its unit such as 100Mi, or a factor such as x0.8"),
    ("+5", MEMORY, "its metric memory has a target of 100Mi, which no percentage can be"),
    ("500m", CPU, "its metric cpu has a utilization target (70 percent), which takes whole p"),
    ("-70", CPU, "it makes a utilization target of 0 percent; at least 1 is needed"),
    ("9999999999", CPU, "it makes a utilization target of 9999999999 percent"),
    ("-100Mi", MEMORY, "it makes a target of 0, which is none"),
    ("-200Mi", MEMORY, "it makes a target of -100Mi, which is none"),
    ("x1000", resource("cpu", average("90P")), "its metric cpu has an impossibly large target tod"),
    ("x2", resource("cpu", average("1e99999999")), "its metric cpu has an impossibly large target"),
    ("x1000", resource("cpu", average("1T")), "it makes a target of 1P, which is none"),
    ("x2", of_object("h", replace(value("8"), type="AverageValue")),
     "its metric h has no target that counts"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "metric", "sentence"), REFUSALS)
def test_what_is_no_target(text: str, metric: MetricSpec, sentence: str) -> None:
    assert refusal(f"target={text}", metric).startswith(sentence)
    assert "target.memory" not in sentence  # nor would the name help with a resource


def test_what_counts_of_a_target() -> None:
    both = replace(average("1"), average_utilization=50)
    assert counting_member(resource("cpu", both)) == "average_value"
    assert counting_member(CPU) == "average_utilization"
    assert counting_member(
        external("q", replace(value("1"), average_value=Quantity.parse("2")))
    ) == ("average_value")
    with pytest.raises(ValueError, match="its metric r has no target that counts"):
        counting_member(pods("r", value("1")))
