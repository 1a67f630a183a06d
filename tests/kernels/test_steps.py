"""Steps of a track against their naive twin: each sample that is the newest seen for some time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.kernels.steps import count_kept, extend_track, save_kept
from hpabatch.layout.observations import (
    AMBIGUOUS,
    FETCH,
    LACKS_CONTAINER,
    LANE_POD,
    LANE_SOURCE,
    NOT_FETCHED_MS,
    PERIOD,
    SCALE_ROW,
    SELECTOR,
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
    STREAM_SOURCE,
    TRACK,
    WITHDRAWN,
    Observations,
    Rows,
    empty_steps,
)
from hpabatch.layout.records import records_from

DELAY = 3
FOR_EVER = 2**60
APP, PROXY = 0, 1


class Sample(NamedTuple):
    """A container's row; times in ms, None where nothing was recorded."""

    ts: int
    container: int
    cpu: int | None
    memory: int | None
    fetched: int | None


class Step(NamedTuple):
    """As the array's records."""

    seen: int
    ts: int
    window: int
    value: int
    present: int


def observations(track: tuple[int, int, int], max_age: int = 0) -> Observations:
    """Return the observations of one track of (source, container, factor) with room for steps."""
    none, bits = np.zeros(0, np.int64), np.zeros(0, np.int8)
    fields = dict(zip(("source", "container", "factor"), track, strict=True))
    return Observations(
        lanes=records_from(LANE_SOURCE, 0),
        clock_ms=none,
        periods=records_from(PERIOD, 0),
        scales=records_from(SCALE_ROW, 0),
        starts_ms=none,
        selectors=records_from(SELECTOR, 0),
        member=bits,
        pods=records_from(LANE_POD, 0),
        state_ms=none,
        ambiguous=records_from(AMBIGUOUS, 0),
        fetches=records_from(FETCH, 0),
        streams=records_from(STREAM_SOURCE, 0),
        tracks=records_from(TRACK, 1, **fields),
        steps=poisoned(1),
        old_steps=empty_steps(0),
        parameters=np.array([DELAY, max_age], np.int64),
        cursors=np.zeros((0, 9), np.int64),
        state_cursor=none,
        step_cursor=np.zeros(1, np.int64),
        answers=np.zeros((0, 2), np.int64),
        in_view=none,
        seen=np.zeros((0, 2), np.int64),
    )


def poisoned(length: int) -> Any:
    """Return room for steps, with what no step has."""
    steps = empty_steps(length)
    for name in steps.dtype.names or ():
        steps[name] = -(2**60)
    return steps


def columns(samples: list[Sample]) -> Rows:
    """Return the samples as one load, each column empty if it may be."""

    def known(values: list[int | None]) -> Any:
        bits = [value is not None for value in values]
        return np.array([] if all(bits) else bits, np.int8)

    def amounts(values: list[int | None]) -> Any:
        return np.array([value or 0 for value in values], np.int64)

    fetched = [NOT_FETCHED_MS if s.fetched is None else s.fetched for s in samples]
    if all(ms == NOT_FETCHED_MS for ms in fetched):
        fetched = []
    ts, window = [s.ts for s in samples], [10 * s.ts + s.container for s in samples]
    return Rows(
        usage_ts_ms=np.array(ts, np.int64),
        usage_fetched_ms=np.array(fetched, np.int64),
        usage_window_ms=np.array(window, np.int64),
        usage_container=np.array([s.container for s in samples], np.int32),
        cpu_milli=amounts([s.cpu for s in samples]),
        cpu_known=known([s.cpu for s in samples]),
        memory_bytes=amounts([s.memory for s in samples]),
        memory_known=known([s.memory for s in samples]),
        plain_ts_ms=np.array(ts, np.int64),
        plain_fetched_ms=np.array(fetched, np.int64),
        plain_window_ms=np.array(window, np.int64),
        plain_milli=amounts([s.cpu for s in samples]),
        plain_known=known([s.cpu for s in samples]),
    )


def extend(obs: Observations, samples: list[Sample], since_ms: int) -> Observations:
    """Take in one load, as the engine does between two."""
    kept = poisoned(count_kept(obs, since_ms))
    save_kept(obs, since_ms, kept)
    track: Any = obs.tracks
    track.first_step, track.last_step = 1, 1  # (step 0 is another track's)
    track.first_row, track.last_row = 0, len(samples)
    room = poisoned(1 + kept.size + len(samples) + 1)
    obs = obs._replace(old_steps=kept, steps=room)
    extend_track(obs, columns(samples), 0)
    assert room[0].tolist() == room[-1].tolist() == (-(2**60),) * 5
    assert obs.step_cursor.tolist() == [0]
    return obs


def steps_of(obs: Observations) -> list[Step]:
    """Return the steps of the track."""
    first, last = int(obs.tracks.first_step[0]), int(obs.tracks.last_step[0])
    return [Step(*row) for row in obs.steps[first:last].tolist()]


def naive_steps(samples: list[Sample], source: int, container: int) -> list[Step]:
    """Return the steps of samples: those that no newer one comes before or with."""
    items: dict[int, list[Sample]] = {}
    for sample in samples:
        items.setdefault(sample.ts, []).append(sample)
    found = []
    for ts, rows in items.items():
        fetched = [row.fetched for row in rows if row.fetched is not None]
        chosen = [row for row in rows if container in (-1, row.container)]
        values = [row.memory if source == SOURCE_MEMORY else row.cpu for row in chosen]
        total: int | None = None
        if values and None not in values and source != SOURCE_OTHER:
            factor = 1000 if source == SOURCE_MEMORY else 1
            total = sum(value * factor for value in values if value is not None)
        seen = max(fetched) if fetched else ts + DELAY
        window = 10 * ts + rows[0].container
        present = int(total is not None) if chosen else LACKS_CONTAINER
        # A plain sample without a value is none any more; so is one without any resource.
        plain = source == SOURCE_PLAIN
        if all(row.cpu is None and (plain or row.memory is None) for row in rows):
            total, present = 0, WITHDRAWN
        found.append(Step(seen, ts, window, total or 0, present))
    return [s for s in found if not any(o.ts > s.ts and o.seen <= s.seen for o in found)]


def in_order(samples: list[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: (sample.ts, sample.container))


milli = st.none() | st.integers(0, 500)
usage = st.lists(
    st.builds(
        Sample,
        ts=st.integers(0, 40),
        container=st.sampled_from([APP, PROXY]),
        cpu=milli,
        memory=milli,
        fetched=st.none() | st.integers(-5, 60),
    ),
    max_size=14,
    unique_by=lambda sample: (sample.ts, sample.container),
).map(in_order)

TRACKS = [
    (SOURCE_CPU, -1, 1),
    (SOURCE_CPU, PROXY, 1),
    (SOURCE_MEMORY, -1, 1000),
    (SOURCE_MEMORY, APP, 1000),
    (SOURCE_OTHER, -1, 1),
]


@given(samples=usage, track=st.sampled_from(TRACKS))
def test_one_load_of_usage(samples: list[Sample], track: tuple[int, int, int]) -> None:
    obs = extend(observations(track), samples, 0)
    assert steps_of(obs) == naive_steps(samples, track[0], track[1])


@given(samples=usage)
def test_one_load_of_plain_samples(samples: list[Sample]) -> None:
    samples = list({s.ts: s for s in samples}.values())
    obs = extend(observations((SOURCE_PLAIN, -1, 1)), samples, 0)
    assert steps_of(obs) == naive_steps(samples, SOURCE_PLAIN, -1)


@given(
    samples=usage,
    track=st.sampled_from([*TRACKS, (SOURCE_PLAIN, -1, 1)]),
    cuts=st.lists(st.integers(0, 40), max_size=3).map(sorted),
    max_age=st.integers(1, 50) | st.just(FOR_EVER),
)
def test_loads_show_at_each_instant_what_one_load_shows(
    samples: list[Sample], track: tuple[int, int, int], cuts: list[int], max_age: int
) -> None:
    if track[0] == SOURCE_PLAIN:
        samples = list({s.ts: s for s in samples}.values())
    obs, begin = observations(track, max_age), -10
    for end in [*cuts, 100]:
        # Of fetches before their samples' time only those count here that come with their load.
        part = [s for s in samples if begin <= s.ts < end]
        obs = extend(obs, part, begin - max_age)
        steps = steps_of(obs)
        # No more is kept than one that shows at once, and what is seen later.
        assert sum(s.seen <= begin for s in kept_of(obs)) <= 1
        assert [s.seen for s in steps] == sorted({s.seen for s in steps})
        assert [s.ts for s in steps] == sorted({s.ts for s in steps})
        assert all(s.ts >= begin - max_age for s in steps)
        known = naive_steps([s for s in samples if s.ts < end], track[0], track[1])
        for now in range(begin, end):
            assert shown(steps, now, max_age) == shown(known, now, max_age)
        begin = end


def kept_of(obs: Observations) -> list[Step]:
    """Return what was kept of the loads before."""
    return [Step(*row) for row in obs.old_steps.tolist()]


def shown(steps: list[Step], now: int, max_age: int) -> Step | None:
    """Return the step that is visible at an instant."""
    seen = [step for step in steps if step.seen <= now]
    return seen[-1] if seen and now - seen[-1].ts <= max_age else None


@pytest.mark.parametrize("container", [-1, APP, PROXY])
def test_containers_of_one_time_are_one_sample(container: int) -> None:
    # (at 5 the container that lacks memory has cpu: the pod is listed)
    rows = [Sample(5, APP, 10, 1, 9), Sample(5, PROXY, 7, None, 11), Sample(6, PROXY, 1, 1, 20)]
    obs = extend(observations((SOURCE_CPU, container, 1)), rows, 0)
    # Seen when the last container was fetched, chosen or not; the window is the first one's.
    value = {-1: 17, APP: 10, PROXY: 7}[container]
    later = (20, 6, 61, 0, LACKS_CONTAINER) if container == APP else (20, 6, 61, 1, 1)
    assert steps_of(obs) == [(11, 5, 50, value, 1), later]
    memory = extend(observations((SOURCE_MEMORY, container, 1000)), rows, 0)
    value = {-1: 0, APP: 1000, PROXY: 0}[container]
    assert steps_of(memory)[0] == (11, 5, 50, value, int(value > 0))


def test_a_resource_that_is_not_recorded_needs_no_column() -> None:
    rows = columns([Sample(5, APP, 1, 1, None)])
    none = np.zeros(0, np.int64)
    obs = observations((SOURCE_OTHER, -1, 1))
    obs.tracks.last_row[:] = 1
    extend_track(obs, rows._replace(cpu_milli=none, memory_bytes=none), 0)
    assert steps_of(obs) == [(5 + DELAY, 5, 50, 0, 0)]


@pytest.mark.parametrize("track", TRACKS)
def test_a_sample_without_any_resource_withdraws_the_pod(track: tuple[int, int, int]) -> None:
    rows = [Sample(5, APP, 10, 1, 9), Sample(7, APP, None, None, 12), Sample(7, PROXY, None, 2, 12)]
    assert steps_of(extend(observations(track), rows, 0))[-1].present != WITHDRAWN
    rows[-1] = rows[-1]._replace(memory=None)
    assert steps_of(extend(observations(track), rows, 0))[-1] == (12, 7, 70, 0, WITHDRAWN)
    # A column that was not read withdraws nothing.
    unread = columns(rows)._replace(memory_known=np.zeros(0, np.int8))
    obs = observations(track)
    obs.tracks.last_row[:] = 3
    obs = obs._replace(steps=poisoned(3))
    extend_track(obs, unread, 0)
    assert steps_of(obs)[-1].present != WITHDRAWN
