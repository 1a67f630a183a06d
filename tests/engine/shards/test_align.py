"""The engine's alignment against its naive twin, at every tick and for every kind of metric."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.shards import pack as engine_lanes
from hpabatch.history.reader import open_history
from tests.engine import naive_align as naive
from tests.engine.observed import Key, Seen, observed
from tests.engine.small_history import (
    METRICS,
    MIDNIGHT,
    STEP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    recorder_rows,
    request_row,
    resource,
    scale_row,
    start_row,
    state_row,
    status_row,
    usage_row,
    write_pieces,
)

CLOCK: naive.Row = {"delay": 0, "max_age": 60_000, "period": STEP, "phase": 0, "recorded": False}


def align(tables: naive.Tables, clock: naive.Row, block: int = 1024) -> dict[Key, Seen]:
    parameters = ReplayParameters(
        "1.38",
        sync_period_ms=clock["period"],
        phase_ms=clock["phase"],
        delay_ms=clock["delay"],
        max_age_ms=clock["max_age"],
        instants="recorded" if clock["recorded"] else "passes" if clock.get("passes") else "grid",
    )
    if clock["max_age"] is None:
        clusters = {row["cluster"] for table in naive.SAMPLE_TABLES for row in tables[table]}
        tables = tables | {"provenance": recorder_rows(*clusters)}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(engine_lanes, "ROWS_PER_BLOCK", block),
    ):
        return observed(open_history(write_pieces(tables, Path(folder), block)), parameters)[0]


def check(tables: naive.Tables, clock: naive.Row, block: int = 1024) -> dict[Key, Seen]:
    """Return what the engine sees, after comparing every lane and tick with the twin."""
    found = align(tables, clock, block)
    check_seen(found, tables, clock)
    return found


def check_seen(found: dict[Key, Seen], tables: naive.Tables, clock: naive.Row) -> None:
    """Assert that every lane and tick is what the twin sees."""
    names = sorted({(r["cluster"], r["namespace"], r["name"]) for r in tables["hpas"]})
    expected = {}
    for key in names:
        hpa = dict(zip(("cluster", "namespace", "name"), key, strict=True))
        seen = [
            naive.observe(tables, hpa, now, clock) for now in naive.instants_of(tables, hpa, clock)
        ]
        if any(seen):
            expected[key] = [tick for tick in seen if tick is not None]
    assert list(found) == list(expected)
    for key, ticks in expected.items():
        for mine, theirs in zip(found[key].ticks, ticks, strict=False):
            assert mine == theirs
        assert len(found[key].ticks) == len(ticks)
        hpa = dict(zip(("cluster", "namespace", "name"), key, strict=True))
        assert found[key].changes == naive.known_changes(tables, hpa, ticks, clock)


def small(**extra: list[naive.Row]) -> naive.Tables:
    """Return a history of one HPA `one` on `web` with one pod; `extra` replaces whole tables.

    Another cluster's samples make 13 ticks, the seventh of them at midnight.
    """
    tables = empty_tables()
    tables["pods"] = [pod_row("web-0")]
    tables["pod_requests"] = [request_row("web-0")]
    tables["pod_states"] = [state_row("web-0")]
    tables["pod_metrics"] = [usage_row("web-0", T0, 70)]
    tables["scales"] = [scale_row("web", T0 - STEP, 2)]
    tables["hpas"] = [hpa_row("one", "web", METRICS[:1])]
    tables |= extra
    ends = (T0, T0 + 12 * STEP)
    tables["pod_metrics"] += [usage_row("far-0", ms, 1, cluster="c3", fetched_at=ms) for ms in ends]
    return tables


def ticks_of(tables: naive.Tables, hpa: str = "one", **parameters: Any) -> list[naive.Row]:
    """Return every tick of an HPA, once the twin agrees with all of them in blocks of any size."""
    for block in (1, 2, 1024):
        found = check(tables, CLOCK | parameters, block)
    return found["c1", "shop", hpa].ticks


def samples(tables: naive.Tables, **parameters: Any) -> list[Any]:
    """Return the first pod's sample of the first metric at every tick, None where it is missing."""
    found = []
    for tick in ticks_of(tables, **parameters):
        values = tick["metrics"][0]["samples"]
        found.append(values[0][0] if values and values[0] else None)
    return found


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
    assert [t["restart"] for t in ticks[:5]] == [0, 0, 0, T0 + 5 * STEP, 0]
    # Whether it started meanwhile does not matter: what came since then was another's.
    started = ticks_of(small(hpas=rows, controller=[start_row(T0 + 4 * STEP)]))
    assert [t["restart"] for t in started] == [t["restart"] for t in ticks]


# ---- what a recorder says ----------------------------------------------------------------------


def test_where_a_recorder_says_so_a_sample_stands_until_it_is_replaced() -> None:
    rows = [usage_row("web-0", T0, 70), usage_row("web-0", T0 + 10 * STEP, 80)]
    assert samples(small(pod_metrics=rows), max_age=None) == [70] * 10 + [80] * 3
    # It may have been taken long before: what was read in between does not matter.
    old = [usage_row("web-0", MIDNIGHT - 3 * 86_400_000, 70, fetched_at=T0 + STEP)]
    assert samples(small(pod_metrics=old), max_age=None) == [None] + [70] * 12


# ---- over midnight, late, early -----------------------------------------------------------------


HOUR = 3_600_000


def test_clocks_that_are_wrong_by_nearly_a_day_and_samples_that_wait_for_days() -> None:
    rows = [
        usage_row("web-0", T0, 1, fetched_at=T0),
        usage_row("web-0", MIDNIGHT + 30 * HOUR, 2, fetched_at=MIDNIGHT + 7 * HOUR),
        usage_row("web-0", MIDNIGHT + 40 * HOUR, 3, fetched_at=MIDNIGHT + 100 * HOUR),
        usage_row("web-0", MIDNIGHT + 101 * HOUR, 4, fetched_at=MIDNIGHT + 101 * HOUR),
    ]
    tables = small(pod_metrics=rows)
    found = samples(tables, period=HOUR, max_age=90 * HOUR)
    # Ticks are at full hours from midnight on.
    assert found == [1] * 7 + [2] * 93 + [3] + [4]


# ---- answers, renamed pods, unknown resources ----------------------------------------------------


@pytest.mark.parametrize("block", [1, 8192])
def test_a_resource_that_is_not_recorded_has_samples_without_a_value(block: int) -> None:
    gpu = resource("Resource", "nvidia.com/gpu", {"type": "AverageValue", "averageValue": "1"})
    tables = small(hpas=[hpa_row("one", "web", [gpu])])
    tick = align(tables, CLOCK, block)["c1", "shop", "one"].ticks[0]
    assert tick["metrics"][0]["answer"] == "ok"
    assert tick["metrics"][0]["samples"] == [None]


def test_a_pod_that_was_renamed_while_others_have_names_between() -> None:
    # A uid stands for one pod, whatever its rows call it.
    rows = [
        usage_row("web-0", T0, 1) | {"pod": "z"},
        usage_row("web-0", T0 + STEP, 2) | {"pod": "a"},
        usage_row("web-1", T0, 5) | {"pod": "m"},
    ]
    tables = small(pod_metrics=rows, pods=[pod_row("web-0"), pod_row("web-1")])
    assert samples(tables)[:3] == [1, 2, 2]


# ---- ambiguous selectors -------------------------------------------------------------------------


def ambiguous(tables: naive.Tables, **parameters: Any) -> dict[str, list[int]]:
    """Return the places of the ticks at which an HPA's selector is ambiguous, by HPA."""
    found = check(tables, CLOCK | parameters)
    return {
        key[2]: [k for k, tick in enumerate(seen.ticks) if tick["selector"] == "ambiguous"]
        for key, seen in found.items()
    }


def rivals(*names: str, **more: Any) -> list[naive.Row]:
    return [hpa_row(name, "web", METRICS[:1], **more) for name in names]


def test_the_first_of_two_to_sync_acts_once() -> None:
    assert ambiguous(small(hpas=rivals("b", "a"))) == {
        "a": list(range(1, 13)),
        "b": list(range(13)),
    }
    # With instants of their own the order is that of time.
    times = [("a", 3), ("b", 1), ("b", 2), ("a", 5), ("b", 6)]
    status = [status_row(name, T0 + k * STEP) for name, k in times]
    tables = small(hpas=rivals("b", "a"), hpa_status=status)
    assert ambiguous(tables, recorded=True) == {"a": [0, 1], "b": [2]}
