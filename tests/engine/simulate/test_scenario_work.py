"""Steps on work, against the same said plainly, and where pieces do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpabatch.engine.simulate.scenario import apply
from hpabatch.engine.simulate.scenario_work import (
    MAX_WORK_MILLI,
    multiplied,
    recorded,
    refined,
)
from hpabatch.errors import RefusedError
from hpabatch.inputs.document_kinds import Moment
from hpabatch.inputs.scenarios import (
    Action,
    Growth,
    Repeat,
    Scenario,
    Shift,
    Spike,
    Step,
    Times,
)
from hpabatch.model.plant import BACKLOG, DIVISIBLE, Plant, Signal
from hpabatch.model.versions import profile_for
from hpabatch.packing.workloads import Workload
from tests.effort import effort
from tests.engine import naive_scenario as naive

GRID = 15_000
DAY = 1_791_331_200_000  # 2026-10-07
SIGNALS = {
    "resource/cpu": Signal(kind=DIVISIBLE),
    "external/q": Signal(kind=BACKLOG, api="external"),
}


def slots(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high).map(lambda k: k * GRID)


MOMENTS = slots(0, 39).map(Moment)
FACTORS = st.integers(0, 4000)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Growth, FACTORS, st.none() | MOMENTS, st.sampled_from([0, GRID, 3 * GRID, 7000])),
    st.builds(Shift, slots(-30, 30).filter(bool)),
    st.builds(
        lambda at, long, factor, ramp, every: Spike(
            Times((at,), every and max(every, long)), long, factor, min(ramp, long // 2)
        ),
        MOMENTS,
        slots(1, 12),
        FACTORS,
        st.sampled_from([0, 0, 40_000]),
        st.none() | slots(4, 20),
    ),
    st.builds(Repeat, slots(4, 20), st.none() | MOMENTS, st.none() | MOMENTS),
)
VALUES = st.lists(st.integers(0, 10**7), min_size=1, max_size=30)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    return Workload(
        cluster="demo",
        namespace="shop",
        hpa="web",
        plant=Plant(SIGNALS),
        work={name: np.array(draw(VALUES), np.int64) for name in SIGNALS},
        work_start_ms=DAY + draw(slots(-20, 20)),
        resolution_ms=draw(st.sampled_from([GRID, 2 * GRID, 4 * GRID])),
        initial=3,
    )


def naive_step(
    work: naive.Function,
    action: Action,
    known: tuple[int, int],
    end: int,
    last: int,
) -> tuple[naive.Function, tuple[int, int]]:
    """Return the work of one signal after a step, and from when to when it is known."""
    match action:
        case Growth():
            return naive.grow(work, action, DAY), known
        case Shift():
            return naive.shift(work, action), (known[0] + action.by_ms, known[1] + action.by_ms)
        case Spike():
            return naive.spike(work, action, DAY, end), known
        case Repeat():
            first = known[1] if action.at is None else DAY + action.at.ms
            since = known[1] - action.period_ms if action.since is None else DAY + action.since.ms
            if first >= last:
                return work, known
            assume(known[0] <= since and since + action.period_ms <= known[1])
            return naive.repeat(work, action, DAY, known), (min(known[0], first), last)
        case _:
            raise AssertionError(action)


@settings(max_examples=effort(200))
@given(
    workloads(),
    st.lists(st.tuples(ACTIONS, st.sampled_from([(), ("resource/*",)])), min_size=1, max_size=4),
)
def test_steps_do_what_is_said_plainly(
    workload: Workload, steps: list[tuple[Action, tuple[str, ...]]]
) -> None:
    end = DAY + 40 * GRID
    last = end + sum(-action.by_ms for action, _ in steps if isinstance(action, Shift)
                     and action.by_ms < 0)  # fmt: skip
    before = {name: values.copy() for name, values in workload.work.items()}
    expected = {}
    for name, values in workload.work.items():
        work = naive.pieces(workload.work_start_ms, workload.resolution_ms, values.tolist())
        known = (
            workload.work_start_ms,
            workload.work_start_ms + workload.resolution_ms * values.size,
        )
        for action, signals in steps:
            if not signals or name == "resource/cpu":
                work, known = naive_step(work, action, known, end, last)
        expected[name] = [work(at) for at in range(DAY, end, GRID)]
    scenario = Scenario(tuple(Step(action, signals=signals) for action, signals in steps))
    found = apply(scenario, workload, (), DAY, end, profile=profile_for("1.38")).workload
    for name, instants in expected.items():
        work = naive.pieces(found.work_start_ms, found.resolution_ms, found.work[name].tolist())
        assert [work(at) for at in range(DAY, end, GRID)] == instants, name
        assert found.work[name].dtype == np.int64
        assert (workload.work[name] == before[name]).all()


@given(st.integers(0, MAX_WORK_MILLI), st.integers(0, 1_000_000))
def test_products_are_exact_as_far_as_they_go(work: int, factor: int) -> None:
    exact = (work * factor + 500) // 1000
    values = np.array([work], np.int64)
    if work * factor // 1000 > MAX_WORK_MILLI:
        with pytest.raises(RefusedError, match="is too large: at most 9,007,199,254,740 can be"):
            multiplied(values, factor)
    else:
        assert multiplied(values, factor).tolist() == [exact]


@pytest.mark.parametrize(
    ("resolution", "parts"), [(60_000, 4), (15_000, 1), (20_000, 2), (17_001, 3), (17_011, 1),
                              (300_000, 20), (16_000, 2), (15_001, 7)]
)  # fmt: skip
def test_pieces_are_cut_into_equal_ones(resolution: int, parts: int) -> None:
    work = recorded(7, resolution, {"a": np.array([3, 4], np.int64)})
    found = refined(work, 15_000)
    assert found.resolution_ms * parts == resolution
    assert found.series["a"].tolist() == [3] * parts + [4] * parts
    assert found.known_ms == work.known_ms
