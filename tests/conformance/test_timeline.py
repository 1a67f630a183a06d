"""Every tick of golden timelines; under 1.36 those that are known to be the same there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.selectors import selector_words
from hpabatch.model.versions import profile_for
from tests.conformance.compare import (
    VERSIONS,
    assert_no_differences,
    cut_timeline,
    differences,
    file_parameters,
    selected_rows,
)
from tests.conformance.decide import decide_timeline, replay_timeline, unwritten_statuses
from tests.conformance.golden import Json, decode


def _defaulting_difference(timeline: Json) -> list[str]:
    """Compare our defaulting of the submitted HPA with the API server's."""
    if timeline.get("hpa_submitted") is None:
        return []
    ours = default_hpa(decode(timeline["hpa_submitted"])).spec
    theirs = decode(timeline["hpa"]).spec
    return [] if ours == theirs else [f"{timeline['id']}: defaulted {ours}, expected {theirs}"]


def _decided(timeline: Json, versions: tuple[str, ...]) -> Iterator[tuple[str, int, Json]]:
    """Yield (version, tick, result): all ticks of the first version, of others where need be.

    A tick with the same rows as under the first version is read once: what is read of it is equal.
    """
    count = len(timeline["ticks"])
    if any(unwritten_statuses(timeline)):
        for k8s in versions:
            yield from ((k8s, t, one) for t, one in enumerate(decide_timeline(timeline, k8s)))
        return
    newest = replay_timeline(timeline, versions[0])
    yield from ((versions[0], t, one) for t, one in enumerate(newest.results(range(count))))
    for k8s in versions[1:]:
        older = replay_timeline(timeline, k8s, newest)
        ticks = older.ticks_unlike(newest)
        yield from ((k8s, *pair) for pair in zip(ticks, older.results(ticks), strict=True))


def _wrong_ticks(timeline: Json) -> list[str]:
    versions = VERSIONS if timeline.get("v1_36_identical") else VERSIONS[:1]
    wrong = []
    for k8s, t, actual in _decided(timeline, versions):
        expected = timeline["expected"][t]
        if k8s == "1.36":
            # The data say what is the same in 1.36 but for this label.
            actual["error_label"] = expected.get("error_label")
        wrong += differences(
            f"{timeline['id']} under {k8s}, tick {t}", "timeline", expected, actual
        )
    return wrong


def test_versions_store_and_read_alike() -> None:
    """Otherwise a timeline would have to be read anew for each of them."""
    facts = {
        (profile.stored_as_v2, profile.container_may_lack, selector_words(profile))
        for profile in map(profile_for, VERSIONS)
    }
    assert len(facts) == 1


@pytest.mark.parametrize("path", file_parameters("timeline"))
def test_timelines(path: Path) -> None:
    wrong, count = [], 0
    for whole in selected_rows(path):  # to read them takes as long again
        timeline = cut_timeline(whole)
        wrong += _defaulting_difference(timeline) + _wrong_ticks(timeline)
        count += len(timeline["expected"])
    assert_no_differences(wrong, count)
