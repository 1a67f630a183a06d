"""Sentences that few replays show; of all others golden data and tests/fuzz decide."""

from __future__ import annotations

import pytest

from hpabatch.layout import codes
from hpabatch.model import messages
from hpabatch.model.objects.hpa import (
    ExternalMetricSource,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
)
from hpabatch.model.versions import PROFILES
from tests.model.settings_made import CPU, value


def failure(metric: MetricSpec, code: int) -> tuple[str, str]:
    """Return (event, error) of a failed metric in namespace `prod`."""
    return messages.metric_failure(
        metric, codes.METRIC_UNUSABLE, code, "E", "prod", PROFILES["1.38"]
    )


def test_every_condition_has_a_message() -> None:
    assert set(messages.CONDITION_MESSAGES) == set(codes.CONDITIONS)
    for code in codes.CONDITIONS:
        assert messages.condition_message(code, "7")


def test_an_ambiguous_selector_by_version() -> None:
    names = ["ns/a", "ns/b", "ns/c"]
    who = "pods by selector app=web are controlled by"
    by_version = {k: messages.ambiguous_selector("app=web", names, PROFILES[k]) for k in PROFILES}
    assert by_version["1.38"] == f"{who} more than one HPA (e.g. [ns/a ns/b])"
    assert by_version["1.37"] == f"{who} multiple HPAs: [ns/a ns/b]"
    assert by_version["1.36"] == by_version["1.26"] == f"{who} multiple HPAs: [ns/a ns/b ns/c]"


@pytest.mark.parametrize(
    ("scale", "error"),
    [
        (codes.SCALE_BAD_VERSION, "invalid API version in scale target reference: E"),
        (codes.SCALE_NO_RESOURCE, "unable to determine resource for scale target reference: E"),
        (codes.SCALE_GET_FAILED, "failed to query scale subresource for Deployment/prod/web: E"),
    ],
)
def test_errors_of_a_sync(scale: int, error: str) -> None:
    assert messages.scale_error(scale, "Deployment/prod/web", "E") == error
    assert messages.status_update_error("web", "E") == "failed to update status for web: E"


def test_no_error_of_a_good_selector() -> None:
    # (asked for by the table of words only, which has every code of every metric)
    identifier = MetricIdentifier("queue", LabelSelector((("queue", "a"),)))
    external = MetricSpec("External", external=ExternalMetricSource(identifier, value("1")))
    for metric in (CPU, external):
        event, _ = failure(metric, codes.METRIC_BAD_SELECTOR)
        assert event == ""


def test_metrics_without_their_member_still_say_something() -> None:
    """Such a metric is refused by the API server; the texts name nothing rather than fail."""
    for kind in ("Resource", "ContainerResource", "Pods", "Object", "External"):
        for code in (codes.METRIC_BAD_TARGET, codes.METRIC_FETCH_FAILED):
            event, error = failure(MetricSpec(kind), code)
            assert event
            assert event in error
