"""A replay through lenses is that of a history that was recorded as the lenses show it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay, with_lenses
from hpabatch.engine.replay.run import replay_plan
from hpabatch.history.reader import History
from hpabatch.inputs.lenses import Lens
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine import observed as observations
from tests.engine.shards.test_align import small
from tests.engine.small_history import STEP, T0, histories, usage_row
from tests.engine.ways import Way, cut, replayed, ways, written

PARAMETERS = ReplayParameters("1.38", sync_period_ms=STEP, phase_ms=0, max_age_ms=35_000)
NAMES = {"resource/cpu": "cpu_milli", "resource/memory": "memory_bytes"}


@st.composite
def lenses(draw: st.DrawFn) -> tuple[Lens, ...]:
    lag_ms = draw(st.sampled_from([0, 7_000, 30_000, -1, -30_000]))
    smoothing_ms = draw(st.sampled_from([0, 1, 10_000, 30_000]))
    scales = st.sampled_from([1.0, 0.7, 1.3, 3.0])
    signals = draw(st.sampled_from([["resource/cpu"], [*NAMES], []]))
    found = [Lens(s, "c1", lag_ms, smoothing_ms, draw(scales)) for s in signals]
    other = Lens("pods/rps{env=x,queue=a}", None, draw(st.sampled_from([0, -10_000])), 20_000)
    return (*found, other) if draw(st.booleans()) else tuple(found)


def trailing(rows: list[naive.Row], row: naive.Row, name: str, lens: Lens) -> Any:
    if row[name] is None:
        return None
    value = row[name]
    if lens.smoothing_ms:
        from_ms = row["ts"] - lens.smoothing_ms
        seen = [r[name] for r in rows if from_ms < r["ts"] <= row["ts"] and r[name] is not None]
        value = (2 * sum(seen) + len(seen)) // (2 * len(seen))
    return round(value * lens.scale) if lens.scale != 1 else value


def through(tables: naive.Tables, given: tuple[Lens, ...]) -> naive.Tables:
    """Return the tables as they would have been recorded through lenses."""
    usage = [lens for lens in given if lens.signal in NAMES]
    found = dict(tables)
    for table, names in (("pod_metrics", NAMES), ("pod_custom_metrics", {})):
        rows = []
        for row in tables[table]:
            own = [r for r in tables[table] if owner_of(r) == owner_of(row)]
            text = f"{{{row['selector']}}}" if row.get("selector") else ""
            signals = names or {f"pods/{row.get('metric')}{text}": "value_milli"}
            new = dict(row)
            for signal, name in signals.items():
                lens = next((one for one in given if one.signal == signal), None)
                if lens is None and names and usage:
                    lens = Lens(signal, "c1", usage[0].lag_ms, usage[0].smoothing_ms)
                if lens is None or row["cluster"] != (lens.cluster or row["cluster"]):
                    continue
                new[name] = trailing(own, row, name, lens)
                if lens.smoothing_ms:
                    new["window_ms"] = max(row["window_ms"] or 0, lens.smoothing_ms)
                for time in ("ts", "fetched_at"):
                    new[time] = None if row[time] is None else row[time] + lens.lag_ms
            rows.append(new)
        found[table] = rows
    return found


def owner_of(row: naive.Row) -> tuple[Any, ...]:
    names = ("cluster", "namespace", "target", "uid", "container", "metric", "selector")
    return tuple(row.get(name) for name in names)


def spanned(tables: naive.Tables) -> naive.Tables:
    """Return tables with another cluster's samples around all that a lens moves."""
    ends = (T0 - 10 * STEP, T0 + 20 * STEP)
    more = [usage_row("far-0", ms, 1, cluster="c3", fetched_at=ms) for ms in ends]
    return tables | {"pod_metrics": tables["pod_metrics"] + more}


@given(tables=histories(), given_lenses=lenses(), way=ways, other=ways)
@settings(max_examples=effort(8))
def test_lenses_show_what_would_have_been_recorded(
    tables: naive.Tables, given_lenses: tuple[Lens, ...], way: Way, other: Way
) -> None:
    tables = spanned(tables)
    assume(tables["hpas"])
    with written(tables, way) as history, cut(way):
        plan = with_lenses(plan_replay(history, PARAMETERS), given_lenses)
        found = replay_plan(plan)
    with written(through(tables, given_lenses), other) as history:
        wanted = replayed(history, PARAMETERS, other)
    assert_frame_equal(found.decisions, wanted.decisions, check_exact=True)
    assert "lens" in found.evidence


@pytest.mark.parametrize(
    "lens",
    [
        Lens("resource/cpu", "c1", lag_ms=-3 * STEP),
        Lens("resource/cpu", "c1", lag_ms=3 * STEP),
        Lens("resource/cpu", "c1", lag_ms=-STEP, smoothing_ms=3 * STEP),
        Lens("resource/cpu", "c1", smoothing_ms=4 * STEP, scale=1.3),
    ],
)
def test_a_lens_reaches_over_midnight(lens: Lens) -> None:
    rows = [usage_row("web-0", T0 + k * STEP // 2, 50 + 37 * k % 90) for k in range(24)]
    tables = spanned(small(pod_metrics=rows))
    by_day = Way("flat", 0, (1 << 20, 1 << 20), 64, 1, 0)
    with written(tables, by_day) as history:
        found = seen_by_day(history, lens)
    with written(through(tables, (lens,)), by_day) as history:
        wanted = seen_by_day(history, Lens("resource/cpu"))
    assert found == wanted
    assert len({str(tick["metrics"]) for tick in found}) > 12


def seen_by_day(history: History, lens: Lens) -> list[naive.Row]:
    """Return what was seen through a lens, the samples being read day by day."""

    def planned(source: History, parameters: ReplayParameters) -> ReplayPlan:
        return with_lenses(plan_replay(source, parameters), [lens])

    by_day = Way("flat", 0, (1 << 20, 1 << 20), 64, 1, 0)
    with cut(by_day), mock.patch.object(observations, "plan_replay", planned):
        seen, _ = observations.observed(history, PARAMETERS)
    return seen["c1", "shop", "one"].ticks
