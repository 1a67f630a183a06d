"""The alignment against its naive twin, at every tick and for every kind of metric."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.arrays.layout import Fleet
from hpabatch.engine.align import Aligner, Clock, Lane, join_lanes
from hpabatch.engine.ambiguity import mark_ambiguous
from hpabatch.engine.candidates import candidates_from_history
from hpabatch.engine.flags import recorded_starts
from hpabatch.engine.recording import Recording
from hpabatch.history.reader import History, open_history
from hpabatch.model import codes
from hpabatch.model.config import PROFILES, ControllerFlags
from tests.engine import naive_align as naive
from tests.engine.small_history import (
    METRICS,
    SHOP,
    STEP,
    T0,
    TICKS,
    empty_tables,
    histories,
    hpa_row,
    other_cluster,
    pod_row,
    request_row,
    scale_row,
    start_row,
    state_row,
    usage_row,
    write_history,
)

PROFILE = PROFILES["1.38"]
SELECTOR_WORDS = {
    codes.SELECTOR_OK: "ok",
    codes.SELECTOR_MISSING: "missing",
    codes.SELECTOR_INVALID: "invalid",
    codes.SELECTOR_AMBIGUOUS: "ambiguous",
}
PHASES = {code: name for name, code in codes.PHASES.items()}
READY = {code: name for name, code in codes.READINESS.items()}


def align(history: History, delay: int, max_age: int) -> tuple[list[Lane], Fleet]:
    recording = Recording(history, delay)
    candidates, skipped = candidates_from_history(history.read("hpas"), PROFILE)
    assert not skipped
    clock = Clock(np.array(TICKS), recorded_starts(history.read("controller")))
    aligner = Aligner(recording, clock, max_age, PROFILE)
    lanes = [lane for c in candidates if (lane := aligner.lane(c)) is not None]
    lanes = [lane for lane in lanes if lane.ticks.size]
    mark_ambiguous(recording, clock, lanes, candidates)
    return lanes, join_lanes(lanes, ControllerFlags(), PROFILE)


def seen_metric(fleet: Fleet, t: int, m: int, with_pods: bool) -> naive.Row:
    """Return what the fleet holds of one metric at a tick, in the naive twin's form."""
    stream = fleet.streams[fleet.metrics[m].stream]
    answer = fleet.answers[t + stream.answer_offset]
    assert answer.code in (codes.METRIC_OK, codes.METRIC_ANSWER_EMPTY)
    found: naive.Row = {"ok": answer.code == codes.METRIC_OK, "samples": None, "requests": None}
    found["values"] = fleet.values_milli[answer.first_value : answer.last_value].tolist()
    if with_pods:
        found["samples"], found["requests"] = [], []
        for row in range(fleet.ticks[t].first_row, fleet.ticks[t].last_row):
            k = row + stream.sample_offset
            timing, request = (
                fleet.timing[k],
                fleet.requests[fleet.row_state[row] + stream.request_offset],
            )
            sample = (int(fleet.value_milli[k]), int(timing.ts_ms), int(timing.window_ms))
            found["samples"].append(sample if fleet.present[k] else None)
            found["requests"].append(int(request.milli) if request.known else None)
    return found


def seen_pod(fleet: Fleet, row: int) -> naive.Row:
    state = fleet.states[fleet.row_state[row]]
    return {
        "phase": PHASES.get(int(state.pod_flags) & codes.PHASE_MASK, ""),
        "ready": READY.get(int(state.pod_flags) & codes.READY_MASK),
        "transition": int(state.transition_ms),
        "start": int(state.start_ms) if state.pod_flags & codes.POD_STARTED else None,
        "deleting": bool(state.pod_flags & codes.POD_DELETING),
    }


def seen_tick(fleet: Fleet, t: int, metrics: list[naive.Row]) -> naive.Row:
    tick = fleet.ticks[t]
    spec = fleet.specs[tick.spec]
    assert spec.last_metric - spec.first_metric == len(metrics)
    known = tick.scale == codes.SCALE_OK
    return {
        "now": int(tick.now_ms),
        "max_replicas": int(spec.max_replicas),
        "scale": (int(tick.replicas), int(tick.status_replicas)) if known else None,
        "selector": SELECTOR_WORDS[int(tick.selector)] if known else "ok",
        "restart": bool(tick.restart),
        "pods": [seen_pod(fleet, row) for row in range(tick.first_row, tick.last_row)],
        "metrics": [
            seen_metric(fleet, t, m, metric["type"] not in ("Object", "External"))
            for m, metric in enumerate(metrics, start=int(spec.first_metric))
        ],
    }


def check(tables: naive.Tables, delay: int, max_age: int) -> int:
    """Compare the fleet with the twin in every lane and tick; return how many ticks there were."""
    with tempfile.TemporaryDirectory() as folder:
        history = open_history(write_history(tables, Path(folder)))
        lanes, fleet = align(history, delay, max_age)
    expected_lanes = []
    names = sorted({(r["cluster"], r["namespace"], r["name"]) for r in tables["hpas"]})
    for cluster, namespace, name in names:
        hpa = {"cluster": cluster, "namespace": namespace, "name": name}
        clock = {"delay": delay, "max_age": max_age}
        ticks = [naive.observe(tables, hpa, TICKS, clock | {"now": now}) for now in TICKS]
        if any(tick is not None for tick in ticks):
            expected_lanes.append((hpa, [tick for tick in ticks if tick is not None]))
    found = [(lane.candidate.cluster, lane.candidate.name) for lane in lanes]
    assert found == [(hpa["cluster"], hpa["name"]) for hpa, _ in expected_lanes]
    for h, (hpa, expected) in enumerate(expected_lanes):
        first, last = fleet.lanes[h].first_tick, fleet.lanes[h].last_tick
        assert last - first == len(expected)
        for t, tick in enumerate(expected, start=int(first)):
            spec = naive.spec_in_force(tables, hpa, tick["now"])
            assert spec is not None
            assert seen_tick(fleet, t, spec["spec"]["metrics"]) == tick
        # A controller that has just started knows of no change from before its first tick.
        first_ms = int(fleet.ticks[fleet.lanes[h].first_tick].now_ms)
        changes = fleet.changes[fleet.lanes[h].first_change : fleet.lanes[h].last_change]
        assert [tuple(map(int, c)) for c in changes.tolist()] == [
            change for change in naive.size_changes(tables, hpa) if change[0] >= first_ms
        ]
    return int(fleet.ticks.size)


@given(
    tables=histories(),
    delay=st.sampled_from([0, 1, 5_000, 10_000]),
    max_age=st.sampled_from([0, 9_999, 10_000, 35_000, 500_000]),
)
@settings(max_examples=100)
def test_the_fleet_is_what_the_naive_twin_sees(
    tables: naive.Tables, delay: int, max_age: int
) -> None:
    check(tables, delay, max_age)


def small(**extra: list[naive.Row]) -> naive.Tables:
    """Return a history of one HPA `one` on `web` with one pod; `extra` replaces whole tables."""
    tables = empty_tables()
    tables["pods"] = [pod_row("web-0")]
    tables["pod_requests"] = [request_row("web-0")]
    tables["pod_states"] = [state_row("web-0")]
    tables["pod_metrics"] = [usage_row("web-0", T0, 70)]
    tables["scales"] = [scale_row("web", T0 - STEP, 2)]
    tables["hpas"] = [hpa_row("one", "web", METRICS[:1])]
    return tables | extra


def ticks_of(tables: naive.Tables, delay: int = 0, max_age: int = 60_000) -> list[naive.Row]:
    """Return every tick of the first lane, once the twin agrees with all of them."""
    check(tables, delay, max_age)
    with tempfile.TemporaryDirectory() as folder:
        history = open_history(write_history(tables, Path(folder)))
        lanes, fleet = align(history, delay, max_age)
    specs = [dict(row["spec"]) for row in tables["hpas"] if row["name"] == "one"]
    assert lanes[0].candidate.name == "one"
    metrics = specs[0]["metrics"]
    return [seen_tick(fleet, t, metrics) for t in range(int(fleet.lanes[0].last_tick))]


def samples(tables: naive.Tables, **parameters: int) -> list[Any]:
    """Return the first pod's sample of the first metric at every tick, None where it is missing."""
    found = []
    for tick in ticks_of(tables, **parameters):
        values = tick["metrics"][0]["samples"]
        found.append(values[0][0] if values and values[0] else None)
    return found


def test_a_sample_of_exactly_max_age_is_visible_and_a_millisecond_later_is_not() -> None:
    tables = small()
    assert samples(tables, max_age=2 * STEP) == [70] * 3 + [None] * 10
    assert samples(tables, max_age=2 * STEP - 1) == [70] * 2 + [None] * 11


def test_a_delayed_sample_is_visible_from_the_tick_at_which_it_arrives() -> None:
    tables = small()
    assert samples(tables, delay=STEP, max_age=3 * STEP) == [None] + [70] * 3 + [None] * 9
    assert samples(tables, delay=STEP + 1, max_age=3 * STEP) == [None] * 2 + [70] * 2 + [None] * 9


def test_a_recorded_fetch_replaces_the_delay() -> None:
    fetched = T0 + 3 * STEP
    tables = small(pod_metrics=[usage_row("web-0", T0, 70, fetched_at=fetched)])
    assert samples(tables, delay=STEP, max_age=10 * STEP) == [None] * 3 + [70] * 8 + [None] * 2


def test_a_sample_that_arrives_late_does_not_replace_a_newer_one() -> None:
    rows = [
        usage_row("web-0", T0, 1, fetched_at=T0),
        usage_row("web-0", T0 + STEP, 2, fetched_at=T0 + 5 * STEP),  # too late
        usage_row("web-0", T0 + 2 * STEP, 3, fetched_at=T0 + 3 * STEP),
    ]
    tables = small(pod_metrics=rows)
    assert samples(tables) == [1, 1, 1, 3, 3, 3, 3, 3, 3, None, None, None, None]


def test_of_several_samples_between_two_ticks_the_newest_counts() -> None:
    rows = [usage_row("web-0", T0 + ms, ms) for ms in (1_000, 4_000, 9_999, 10_000, 10_001)]
    assert samples(small(pod_metrics=rows))[:4] == [None, 10_000, 10_001, 10_001]


def test_a_pod_is_there_at_its_creation_and_not_when_it_is_gone() -> None:
    life = {"created": T0 + 2 * STEP, "started": T0 + 2 * STEP, "gone": T0 + 5 * STEP}
    ticks = ticks_of(small(pods=[pod_row("web-0", **life)]))
    assert [len(tick["pods"]) for tick in ticks] == [0, 0, 1, 1, 1] + [0] * 8
    assert not any(tick["metrics"][0]["ok"] for tick in ticks[:2])


def test_a_pod_before_its_first_state_is_pending_without_a_condition() -> None:
    ticks = ticks_of(small(pod_states=[state_row("web-0", ts=T0 + STEP, last_transition=T0)]))
    assert [(t["pods"][0]["phase"], t["pods"][0]["ready"]) for t in ticks[:2]] == [
        ("Pending", None),
        ("Running", "True"),
    ]


def test_deletion_and_start_show_from_their_own_instant() -> None:
    life = {"started": T0 + STEP, "deletion_requested": T0 + 2 * STEP}
    ticks = ticks_of(small(pods=[pod_row("web-0", **life)]))
    assert [tick["pods"][0]["start"] for tick in ticks[:3]] == [None, T0 + STEP, T0 + STEP]
    assert [tick["pods"][0]["deleting"] for tick in ticks[:4]] == [False, False, True, True]


def test_a_resize_in_place_changes_the_request_from_its_own_instant() -> None:
    rows = [
        request_row("web-0", valid_from=T0 + STEP, cpu_milli=100),
        request_row("web-0", valid_from=T0 + 3 * STEP, cpu_milli=250),
        request_row("web-0", "proxy", index=1, valid_from=T0 + 4 * STEP, cpu_milli=None),
    ]
    ticks = ticks_of(small(pod_requests=rows))
    # Before its first row a pod has what that row says; without a request the metric fails.
    found = [tick["metrics"][0]["requests"][0] for tick in ticks]
    assert found == [100, 100, 100, 250] + [None] * 9


def test_a_pod_of_which_one_container_lacks_cpu_is_dropped_whole() -> None:
    rows = [usage_row("web-0", T0, 70), usage_row("web-0", T0, None, "proxy")]
    tick = ticks_of(small(pod_metrics=rows))[0]["metrics"][0]
    assert (tick["ok"], tick["samples"]) == (True, [None])


def test_a_container_metric_counts_the_newest_item_of_its_pod_only() -> None:
    rows = [
        usage_row("web-0", T0, 70, "app"),
        usage_row("web-0", T0 + STEP, 5, "proxy"),  # the app container restarts: it is not listed
        usage_row("web-0", T0 + 2 * STEP, 5, "proxy"),
        usage_row("web-0", T0 + 2 * STEP, 80, "app"),
    ]
    tables = small(pod_metrics=rows, hpas=[hpa_row("one", "web", [METRICS[3]])])
    assert samples(tables)[:3] == [70, None, 80]
    assert ticks_of(tables)[1]["metrics"][0]["ok"]  # the answer is not empty: the pod is in it


def test_a_missing_window_is_none_for_usage_and_a_minute_for_custom_metrics() -> None:
    custom = usage_row("web-0", T0, 1) | {"metric": "rps", "selector": "", "value_milli": 7}
    tables = small(
        pod_metrics=[usage_row("web-0", T0, 70, window_ms=None)],
        pod_custom_metrics=[custom | {"window_ms": None}],
        hpas=[hpa_row("one", "web", [METRICS[0], METRICS[5]])],
    )
    first = ticks_of(tables)[0]["metrics"]
    assert (first[0]["samples"], first[1]["samples"]) == ([(70, T0, 0)], [(7, T0, 60_000)])


def test_a_size_change_at_a_tick_is_seen_at_the_next_tick_but_the_first_row_at_once() -> None:
    rows = [scale_row("web", T0 + STEP, 2), scale_row("web", T0 + 3 * STEP, 5)]
    ticks = ticks_of(small(scales=rows))
    assert [tick["scale"] for tick in ticks[:5]] == [None, (2, 2), (2, 2), (2, 2), (5, 5)]


def test_without_a_selector_the_owner_decides_and_a_changed_selector_changes_the_pods() -> None:
    pods = [pod_row("web-0"), pod_row("web-1", target="web", labels={"app": "other"})]
    rows = [
        scale_row("web", T0 - STEP, 2, selector=None),
        scale_row("web", T0, 2, selector="app=web"),
        scale_row("web", T0 + STEP, 2, selector=""),
        scale_row("web", T0 + 2 * STEP, 2, selector="app=("),
    ]
    ticks = ticks_of(small(pods=pods, scales=rows))
    assert [len(tick["pods"]) for tick in ticks[:4]] == [2, 1, 0, 0]
    assert [t["selector"] for t in ticks[:4]] == ["ok", "ok", "missing", "invalid"]


def test_an_edited_hpa_has_each_spec_in_its_time_and_none_between() -> None:
    rows = [
        hpa_row("one", "web", METRICS[:1], valid_to=T0 + 2 * STEP),
        hpa_row("one", "web", METRICS[:1], valid_from=T0 + 2 * STEP, valid_to=T0 + 3 * STEP)
        | {"uid": "z"},
        hpa_row("one", "web", METRICS[:1], valid_from=T0 + 5 * STEP, max_replicas=9),
    ]
    rows[1]["spec"]["maxReplicas"] = 7
    ticks = ticks_of(small(hpas=rows))
    assert [(t["now"] - T0) // STEP for t in ticks] == [0, 1, 2, *range(5, 13)]
    assert [t["max_replicas"] for t in ticks[:4]] == [5, 5, 7, 9]
    # The sync at 30 s found no HPA, so the controller forgot what it knew of it.
    assert [t["restart"] for t in ticks[:5]] == [False, False, False, True, False]


def test_a_restart_shows_at_the_next_tick_and_only_in_its_own_cluster() -> None:
    tables = small(controller=[start_row(T0 + STEP), start_row(T0 + 3 * STEP + 1)])
    other_cluster(tables)
    ticks = ticks_of(tables)
    assert [(t["now"] - T0) // STEP for t in ticks if t["restart"]] == [1, 4]


def test_a_namespace_metric_is_that_of_the_hpas_own_namespace() -> None:
    row = {"kind": "Namespace", "name": "shop", "metric": "hits", "selector": "", "ts": T0}
    rows = [SHOP | row | {"value_milli": 9, "fetched_at": None}]
    tables = small(object_metrics=rows, hpas=[hpa_row("one", "web", [METRICS[8]])])
    assert ticks_of(tables)[0]["metrics"][0]["values"] == [9]


def test_the_series_of_an_external_metric_age_one_by_one() -> None:
    row = SHOP | {"metric": "lag", "selector": "", "fetched_at": None}
    rows = [
        row | {"series": "a", "ts": T0, "value_milli": 5},
        row | {"series": "b", "ts": T0 + 2 * STEP, "value_milli": -3},
    ]
    tables = small(external_metrics=rows, hpas=[hpa_row("one", "web", [METRICS[10]])])
    found = [tick["metrics"][0]["values"] for tick in ticks_of(tables, max_age=3 * STEP)]
    assert found[:7] == [[5], [5], [5, -3], [5, -3], [-3], [-3], []]
    assert [tick["metrics"][0]["ok"] for tick in ticks_of(tables, max_age=3 * STEP)][5:7] == [
        True,
        False,
    ]


@pytest.mark.parametrize("gone", [None, T0 + 3 * STEP])
def test_two_hpas_are_ambiguous_while_a_pod_of_both_is_cached(gone: int | None) -> None:
    tables = small(pods=[pod_row("web-0", created=T0 + STEP, gone=gone)])
    tables["hpas"].append(hpa_row("two", "web", METRICS[:1], valid_to=T0 + 5 * STEP))
    found = [tick["selector"] for tick in ticks_of(tables)]
    end = 5 if gone is None else 3
    assert found == ["ok"] + ["ambiguous"] * (end - 1) + ["ok"] * (13 - end)
