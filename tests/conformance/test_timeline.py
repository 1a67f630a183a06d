"""Every tick of every golden timeline; under 1.36 those that are known to be the same there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.model.objects.defaults import default_hpa
from tests.conformance.compare import (
    VERSIONS,
    assert_no_differences,
    cut_timeline,
    differences,
    file_parameters,
    selected_rows,
)
from tests.conformance.decide import decide_timeline
from tests.conformance.golden import Json, decode

_INTERPRETED_TIMELINES = 20


def _defaulting_difference(timeline: Json) -> list[str]:
    """Compare our defaulting of the submitted HPA with the API server's."""
    if timeline.get("hpa_submitted") is None:
        return []
    ours = default_hpa(decode(timeline["hpa_submitted"])).spec
    theirs = decode(timeline["hpa"]).spec
    return [] if ours == theirs else [f"{timeline['id']}: defaulted {ours}, expected {theirs}"]


def _wrong_ticks(timeline: Json, k8s: str) -> list[str]:
    wrong = []
    results = decide_timeline(timeline, k8s)
    for i, (actual, expected) in enumerate(zip(results, timeline["expected"], strict=True)):
        if k8s == "1.36":
            # The data say what is the same in 1.36 but for this label.
            actual["error_label"] = expected.get("error_label")
        where = f"{timeline['id']} under {k8s}, tick {i}"
        wrong += differences(where, "timeline", expected, actual)
    return wrong


@pytest.mark.parametrize("path", file_parameters("timeline"))
def test_timelines(path: Path) -> None:
    wrong, count = [], 0
    for whole in selected_rows(path, _INTERPRETED_TIMELINES):  # to read them takes as long again
        timeline = cut_timeline(whole)
        wrong += _defaulting_difference(timeline)
        for k8s in VERSIONS if whole.get("v1_36_identical") else VERSIONS[:1]:
            wrong += _wrong_ticks(timeline, k8s)
            count += len(timeline["expected"])
    assert_no_differences(wrong, count)
