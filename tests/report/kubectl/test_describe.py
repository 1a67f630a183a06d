"""The text of `kubectl describe hpa`, beside what tests/real holds against real kubectls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import (
    HPA,
    Condition,
)
from hpabatch.report.kubectl import describe_text
from tests.report.kubectl_hpas import (
    NOW_MS,
    hpa,
)


def describe(item: HPA, *events: Event, now_ms: int = NOW_MS) -> str:
    return describe_text(item, events, now_ms, k8s="1.36")


def with_conditions(item: HPA, *conditions: Condition) -> HPA:
    return replace(item, status=replace(item.status, conditions=conditions))


def test_what_is_not_there() -> None:
    item = replace(hpa(namespace="", min_replicas=None), creation_timestamp=None)
    words = [line.split(maxsplit=1)[-1] for line in describe(item).splitlines()]
    assert words[1] == "default"
    assert words[4] == "Mon, 01 Jan 0001 00:00:00 +0000"
    assert words[7] == "replicas:       <unset>"


def test_events_stand_in_the_order_of_their_last_times() -> None:
    def event(first_ms: int, last_ms: int, message: str) -> Event:
        return Event("Normal", "R", message, NOW_MS + first_ms, NOW_MS + last_ms, 2)

    events = [event(-5000, -1200, "b"), event(-9000, -9000, "a"), event(-1, -1900, "c")]
    lines = describe(hpa(), *events).splitlines()[-3:]
    # The API keeps whole seconds, of which b and c have the same.
    assert [line.split()[-1] for line in lines] == ["a", "b", "c"]
    assert lines[1].split()[2:5] == ["2s", "(x2", "over"]


def test_what_could_drive_a_terminal_is_escaped() -> None:
    broken = Condition("T", "False", "R", "a\x1b[31mb\r")
    assert "R       a\\x1b[31mb\\r\n" in describe(with_conditions(hpa(), broken))


def test_a_version_that_is_none() -> None:
    with pytest.raises(UsageError):
        describe_text(hpa(), (), NOW_MS, k8s="latest")
