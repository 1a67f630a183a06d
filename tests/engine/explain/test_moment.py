"""HPAs at an instant: the status that a whole replay has there, its events and its document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpabatch.engine.explain.moment import Metadata, Moment
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.model.objects.hpa import HPA
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.naive_align import Tables
from tests.engine.small_history import (
    STEP,
    T0,
    fetch_row,
    histories,
    hpa_row,
    other_cluster,
    usage_row,
    write_history,
)
from tests.engine.told import (
    CPU,
    CPU_WORDS,
    HITS,
    START,
    at,
    moments,
    told,
    told_of_all,
    web,
)
from tests.engine.ways import Way, cut, ways, written

CLOCK: dict[str, Any] = {"sync_period_ms": STEP, "phase_ms": 0, "max_age_ms": 60_000}
PARAMETERS = ReplayParameters("1.38", **CLOCK)


def until(tick: int, **more: Any) -> ReplayParameters:
    return ReplayParameters("1.38", **CLOCK | {"until": T0 + tick * STEP} | more)


def history_of(tables: Tables, folder: Path) -> History:
    return open_history(write_history(tables, folder))


def only(history: History, parameters: ReplayParameters, name: str = "one") -> Moment:
    (found,) = [m for m in moments(history, parameters) if m.candidate.name == name]
    return found


# ---- the same as a whole replay ------------------------------------------------------------------


@given(
    tables=histories(),
    way=ways,
    places=st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2),
    clock=st.fixed_dictionaries(
        {
            "delay": st.sampled_from([0, 10_000]),
            "max_age": st.sampled_from([10_001, 35_000]),
            "period": st.sampled_from([STEP, 7_001]),
            "phase": st.sampled_from([0, 2_001]),
            "recorded": st.sampled_from([False, False, True]),
        }
    ),
    k8s=st.sampled_from(["1.38", "1.37", "1.36", "1.26", "1.20"]),
    events=st.sampled_from(["recorded", "decided"]),
)
@settings(max_examples=effort(6))
def test_a_status_is_that_of_a_whole_replay(
    tables: Tables, way: Way, places: list[float], clock: naive.Row, k8s: str, events: str
) -> None:
    assume(not clock["recorded"] or tables["metric_fetches"] or tables["hpa_status"])
    assume(any(naive.instants_of(tables, hpa, clock) for hpa in tables["hpas"]))
    given_ms = {
        "sync_period_ms": clock["period"],
        "phase_ms": clock["phase"],
        "delay_ms": clock["delay"],
        "max_age_ms": clock["max_age"],
        "instants": "recorded" if clock["recorded"] else "grid",
        "events": events,
    }
    with written(tables, way) as history:
        whole = told_of_all(history, ReplayParameters(k8s, **given_ms))
        times = sorted({ms for ticks in whole.values() for ms in ticks})
        assume(times)
        for place in places:
            # A ms before a sync is still after the one before.
            until_ms = times[int(place * len(times))] - int(place * 7) % 2
            if until_ms < times[0]:
                continue
            with cut(way):
                found = {
                    (c.cluster, c.namespace, c.name): (m.now_ms, told(m, m.t))
                    for m in moments(history, ReplayParameters(k8s, until=until_ms, **given_ms))
                    for c in [m.candidate]
                }
            past = {key: [ms for ms in ticks if ms <= until_ms] for key, ticks in whole.items()}
            assert found == {key: (ms[-1], whole[key][ms[-1]]) for key, ms in past.items() if ms}


def test_before_anything_was_recorded(tmp_path: Path) -> None:
    history = history_of(web(), tmp_path)
    with pytest.raises(UsageError) as refused:
        list(moments(history, until(-1)))
    assert str(refused.value) == (
        f"--at: expected a time from {START} to {at(6)}, which the history has, got "
        f"{at(0).replace('59:00', '58:50')}"
    )
    late = web(pod_metrics=[usage_row("web-0", T0 + 1, 50), usage_row("web-0", T0 + 3 * STEP, 50)])
    with pytest.raises(UsageError) as refused:
        list(moments(history_of(late, tmp_path / "late"), until(0, until=T0 + 5000)))
    assert str(refused.value) == (f"no sync until 2026-10-06T23:59:05Z: the first is at {at(1)}")
    with pytest.raises(HistoryError, match="choose a shorter sync period"):
        list(moments(history, ReplayParameters("1.38", sync_period_ms=3_600_000, phase_ms=1)))


# ---- events --------------------------------------------------------------------------------------


def test_equal_events_are_counted_together(tmp_path: Path) -> None:
    # Errors at ticks 1, 2 and 4, another one at 3; wants 3 of 2 replicas at 0 and from 5 on.
    answers = [("ok", None), ("error", "a"), ("error", "a"), ("error", "b"), ("error", "a")]
    answers += [("ok", None)]
    fetches = [
        fetch_row("one", 0, T0 + k * STEP, answer) | {"error": text}
        for k, (answer, text) in enumerate(answers)
    ]
    history = history_of(web(cpu_milli=75, metric_fetches=fetches), tmp_path)
    moment = only(history, PARAMETERS)
    found = moment.events(0)
    shown = [
        (e.reason, (e.first_ms - T0) // STEP, (e.last_ms - T0) // STEP, e.count) for e in found
    ]
    assert shown == [
        ("FailedGetResourceMetric", 3, 3, 1),
        ("FailedComputeMetricsReplicas", 3, 3, 1),
        ("FailedGetResourceMetric", 1, 4, 3),
        ("FailedComputeMetricsReplicas", 1, 4, 3),
        ("SuccessfulRescale", 0, 6, 3),
    ]
    assert found[4].message == f"New size: 3; reason: {CPU_WORDS} above target"
    assert found[1].message.endswith("API: b")
    # Those from an instant on, that of a sync included.
    assert [(e.reason, e.count) for e in moment.events(T0 + 4 * STEP)] == [
        ("FailedGetResourceMetric", 1), ("FailedComputeMetricsReplicas", 1),
        ("SuccessfulRescale", 2),
    ]  # fmt: skip
    assert [e.count for e in moment.events(T0 + 4 * STEP + 1)] == [2]
    assert moment.events(T0 + 6 * STEP + 1) == []
    assert [(e.reason, e.count) for e in only(history, until(0)).events(0)] == [
        ("SuccessfulRescale", 1)
    ]


# ---- the document --------------------------------------------------------------------------------


def documents(
    history: History, parameters: ReplayParameters, manifests: Sequence[HPA] | None = None
) -> dict[tuple[str, str], HPA]:
    metadata = Metadata(history, manifests)
    return {
        (m.candidate.cluster, m.candidate.name): metadata.document(m)
        for m in moments(history, parameters, manifests)
    }


def test_a_document_has_the_metadata_of_its_time(tmp_path: Path) -> None:
    first = {"labels": {"v": "1"}, "annotations": {"a": "b"}, "generation": 1, "uid": "u1"}
    second = {"labels": {"v": "2", "w": ""}, "generation": 2, "uid": "u2", "created": T0 + 999}
    edit = T0 + 3 * STEP
    hpas = [
        hpa_row("a", "web", [CPU], valid_to=edit),
        hpa_row("a", "web", [CPU, HITS], valid_from=edit),
        hpa_row("one", "web", [CPU], valid_to=edit, **first),
        hpa_row("one", "web", [HITS], max_replicas=9, valid_from=edit, **second),
    ]
    tables = web(hpas=hpas)
    other_cluster(tables)
    history = history_of(tables, tmp_path)
    early = documents(history, until(2))["c1", "one"]
    assert (early.name, early.namespace, early.uid, early.generation) == ("one", "shop", "u1", 1)
    assert (early.labels, early.annotations) == ((("v", "1"),), (("a", "b"),))
    assert early.creation_timestamp is None
    assert [m.type for m in early.spec.metrics] == ["Resource"]
    assert early.status.observed_generation == 1
    late = documents(history, PARAMETERS)
    found = late["c1", "one"]
    assert (found.uid, found.generation) == ("u2", 2)
    assert (found.labels, found.annotations) == ((("v", "2"), ("w", "")), ())
    assert found.creation_timestamp == "2026-10-06T23:59:00.999Z"
    assert ([m.type for m in found.spec.metrics], found.spec.max_replicas) == (["Object"], 9)
    # Each of its own specs: those of the HPAs before it in the shard are not counted.
    assert len(late["c1", "a"].spec.metrics) == 2
    assert late["c2", "one"].spec.metrics[0].type == "Resource"
    assert late["c2", "one"].uid == "hpa-one"
