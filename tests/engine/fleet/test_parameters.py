"""Tests of a replay's assumptions: sample spacing, max age, sync period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpabatch.engine.fleet.flags import recorded_flags
from hpabatch.engine.fleet.parameters import ReplayParameters, Settled, sample_spacing_ms, settle
from hpabatch.errors import UsageError
from hpabatch.history.reader import History, open_history
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    MIDNIGHT,
    SHOP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    recorder_rows,
    request_row,
    scale_row,
    start_row,
    state_row,
    usage_row,
    write_pieces,
)


def history(folder: Path, **tables: list[Row]) -> History:
    """Return a history of one pod with one sample, and the given tables."""
    folder.mkdir(exist_ok=True)
    base: Tables = empty_tables()
    base["pods"] = [pod_row("web-0")]
    base["pod_requests"] = [request_row("web-0")]
    base["pod_states"] = [state_row("web-0")]
    base["pod_metrics"] = [usage_row("web-0", T0, 10)]
    base["scales"] = [scale_row("web", T0, 1)]
    base["hpas"] = [hpa_row("one", "web", METRICS[:1])]
    return open_history(write_pieces(base | tables, folder, 1))


def series(name: str, *instants: int) -> list[Row]:
    row = SHOP | {"metric": "lag", "selector": "", "series": name, "fetched_at": None}
    return [row | {"ts": T0 + ms, "value_milli": ms} for ms in instants]


def test_the_spacing_is_that_of_one_pod_or_series(tmp_path: Path) -> None:
    # Three series, each every 10 s but 1 s apart from one another.
    rows = [
        row
        for k, name in enumerate(("a", "b", "c"))
        for row in series(name, *(10_000 * n + 1_000 * k for n in range(4)))
    ]
    assert sample_spacing_ms(history(tmp_path, external_metrics=rows)) == 10_000


def test_the_spacing_of_two_metrics_of_a_pod_is_that_of_each(tmp_path: Path) -> None:
    rows = [
        usage_row("web-0", T0 + 7_000 * n + shift, None)
        | {"metric": metric, "selector": "", "value_milli": 1}
        for metric, shift in (("a", 0), ("b", 1_000))
        for n in range(5)
    ]
    assert sample_spacing_ms(history(tmp_path, pod_custom_metrics=rows)) == 7_000


def test_the_spacing_is_that_of_the_fullest_day_of_each_place(tmp_path: Path) -> None:
    # A history may begin minutes before midnight: one day has hardly a sample.
    rows = [usage_row("web-0", MIDNIGHT - ms, 1) for ms in (5, 1)]
    rows += [usage_row("web-0", MIDNIGHT + ms, 1) for ms in (0, 20_000, 40_000)]
    assert sample_spacing_ms(history(tmp_path, pod_metrics=rows)) == 20_000


def settled(folder: Path, controller: list[Row] | None = None, **given: Any) -> Settled:
    rows = [usage_row("web-0", T0 + 40_000 * k, 1) for k in range(2)]
    opened = history(folder, pod_metrics=rows, controller=controller or [])
    return settle(
        ReplayParameters("1.38", **given), opened, recorded_flags(opened.read("controller"))
    )


def test_what_is_not_given_is_assumed_or_estimated(tmp_path: Path) -> None:
    found = settled(tmp_path)
    assert (found.delay_ms, found.phase_ms, found.sync_period_ms) == (0, 0, 15_000)
    assert found.max_age_ms == 100_000  # two and a half times the spacing
    assert found.sources == {
        "delay": "assumed",
        "phase": "assumed",
        "sync_period": "assumed",
        "max_age": "estimated",
    }


def test_what_a_recorder_recorded_has_no_max_age(tmp_path: Path) -> None:
    rows = [
        usage_row("web-0", T0 + 40_000 * k, 1, cluster=c) for k in range(2) for c in ("c1", "x")
    ]
    tables: Tables = {"pod_metrics": rows, "provenance": recorder_rows("c1")}
    found = settle(ReplayParameters("1.38"), history(tmp_path / "some", **tables), {})
    assert found.standing == ("c1",)
    assert found.max_age_of("c1") > 10**17
    assert found.max_age_of("x") == found.max_age_ms == 100_000
    text = "100000 ms (estimated); none (recorded) in c1"
    assert (found.max_age_text(), found.sources["max_age"]) == (text, "estimated")
    tables["provenance"] = recorder_rows("c1", "x")
    opened = history(tmp_path / "all", **tables)
    found = settle(ReplayParameters("1.38"), opened, {})
    assert (found.max_age_text(), found.sources["max_age"]) == ("none (recorded)", "recorded")
    # What is given wins.
    found = settle(ReplayParameters("1.38", max_age_ms=61_000), opened, {})
    assert (found.standing, found.max_age_of("c1")) == ((), 61_000)
    assert found.max_age_text() == "61000 ms (given)"


def test_a_delay_comes_on_top_of_an_estimated_max_age(tmp_path: Path) -> None:
    found = settled(tmp_path, delay_ms=7_000, phase_ms=3, sync_period_ms=1_000)
    assert (found.delay_ms, found.phase_ms, found.sync_period_ms) == (7_000, 3, 1_000)
    assert found.max_age_ms == 107_000
    assert (
        found.sources["delay"] == found.sources["phase"] == found.sources["sync_period"] == "given"
    )


def test_a_recorded_sync_period_is_taken(tmp_path: Path) -> None:
    rows = [start_row(T0 + k, flags={"sync-period": f"{k + 5}s"}) for k in range(3)]
    found = settled(tmp_path, rows)
    assert (found.sync_period_ms, found.sources["sync_period"]) == (7_000, "recorded")


def test_a_delay_that_hides_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no sample would ever be visible"):
        settled(tmp_path, delay_ms=60_000, max_age_ms=60_000)
