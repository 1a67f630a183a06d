"""Tests of fitted workloads: kinds, work, ceilings, capacity, and what stays unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES
from hpabatch.engine.fit.overrides import Draws, override
from hpabatch.engine.fit.pipeline import Recording
from hpabatch.engine.fit.run import CAPACITY_SHARE, Fit, Recorded, fit
from hpabatch.engine.fit.usage import Limits, Usage
from hpabatch.engine.fit.workload import (
    ASSUMED,
    FITTED,
    GIVEN,
    NOT_IDENTIFIED,
    OPEN,
    RECORDED,
    Fact,
)
from hpabatch.inputs.lenses import Lens
from hpabatch.inputs.plants import PlantOverride, SignalOverride
from hpabatch.kernels.usage import TRACK_USAGE
from hpabatch.layout.records import records_from
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    CEILINGS_PCT,
    DIVISIBLE,
    TOTAL,
    Sight,
    Signal,
)
from hpabatch.packing.workloads import Workload
from tests.engine.closed_loop import (
    CPU,
    F64,
    HOUR_MS,
    MEMORY,
    QUEUE,
    RATE,
    RECORDING,
    START,
    STEP_MS,
    TARGET,
    Loop,
    run_loop,
    usage_of,
)
from tests.inputs.parsed import parse_plant_file

NAME = "resource/cpu"
DEPTH = "external/depth"
BASE = 100


def loop_of(base: float = BASE, steps: int = 3200, changes: int = 40) -> Loop:
    """Return smooth work on sizes that move by themselves: everything is known exactly."""
    t = np.arange(steps)
    work = 4000 * (1 + 0.3 * np.sin(2 * np.pi * t / steps))
    ready = np.resize(np.repeat([8, 10, 9, 12], steps // changes), steps)
    return Loop(work, ready, base + work / ready, ready)


def stated(name: str = NAME, **fields: Any) -> tuple[PlantOverride, ...]:
    """Return a plant file's entry for one signal."""
    return (PlantOverride(signals=((name, SignalOverride(**fields)),)),)


def fact(found: Fit, name: str) -> Fact:
    known = found.fact(name)
    assert known is not None, name
    return known


def workload(found: Fit) -> Workload:
    assert found.workload is not None, found.problems
    return found.workload


# ---- work and base -------------------------------------------------------------------------------


def test_too_few_changes_are_said_to_be_too_few() -> None:
    size = np.full(3200, 5)
    usage = np.full(3200, 400.0)
    found = fit(usage_of(Loop(usage * 5, size, usage, size)), RECORDING)
    base = fact(found, f"signals.{NAME}.base")
    assert base.source == NOT_IDENTIFIED
    assert base.value == 0
    assert base.note.startswith("plant not identified, base taken as 0: ")
    assert base.high == 0.4  # no base is above what pods used all the time
    # There is a plant all the same, with all of the usage taken for work.
    assert workload(found).plant.signals[NAME].base_milli == 0
    assert (workload(found).work[NAME] == 2000).all()


def test_an_interval_that_is_too_wide_is_no_answer() -> None:
    loop = loop_of()
    rng = np.random.default_rng(0)
    noisy = loop.usage * np.exp(rng.normal(size=loop.usage.size) * 0.4)
    found = fit(usage_of(Loop(loop.work, loop.ready, noisy, loop.size)), RECORDING)
    base = fact(found, f"signals.{NAME}.base")
    assert base.source == NOT_IDENTIFIED
    assert re.search(
        r"too wide \(.* hours: base usage [-0-9.]+ cores, 95 % interval [-0-9.]+ cores to "
        r"[-0-9.]+ cores\)",
        base.note,
    )
    assert workload(found).plant.signals[NAME].base_milli == 0


def test_usage_that_falls_with_every_pod_is_not_divisible() -> None:
    """Each pod more makes all others use less than their part: no base explains that."""
    loop = loop_of(0)
    usage = loop.work / loop.ready * (9 / loop.ready)
    found = fit(usage_of(Loop(loop.work, loop.ready, usage, loop.size)), RECORDING)
    base = fact(found, f"signals.{NAME}.base")
    assert base.source == NOT_IDENTIFIED
    assert "as divisible work does" in base.note


def test_usage_that_nearly_ceases_bounds_the_base() -> None:
    size = np.full(3200, 3)
    usage = np.full(3200, 400.0)
    usage[1000:1200] = 40.0
    found = fit(usage_of(Loop(usage * 3, size, usage, size)), RECORDING)
    base = fact(found, f"signals.{NAME}.base")
    assert (base.source, base.low, base.high) == (FITTED, 0.0, 0.04)
    assert base.value == 0.02


def test_a_stated_base_above_the_ceiling_is_refused() -> None:
    entries = stated(base_milli=600, ceiling_milli=500)
    found = fit(usage_of(loop_of()), RECORDING, entries)
    assert found.workload is None
    assert "leaves no room for work" in found.problems[0]


# ---- ceilings ------------------------------------------------------------------------------------


def limits_of(usage: Usage, *milli: int) -> Limits:
    """Return limits of the pods in order of creation, the last one's for the rest."""
    count = usage.lives.created_ms.size
    values = np.array([*milli, *[milli[-1]] * count][:count], np.int64)
    order = np.argsort(usage.lives.created_ms, kind="stable")
    by_pod = np.zeros(count, np.int64)
    by_pod[order] = values
    return {("cpu", ""): by_pod, ("memory", ""): by_pod}


def test_the_limit_is_the_ceiling() -> None:
    observed = usage_of(loop_of())
    found = fit(replace(observed, limits=limits_of(observed, 900, 1000)), RECORDING)
    ceiling = fact(found, f"signals.{NAME}.ceiling")
    assert (ceiling.value, ceiling.low, ceiling.high) == (1.0, 0.9, 1.0)
    assert ceiling.source == RECORDED
    plant = workload(found).plant
    assert plant.signals[NAME].ceiling_milli == 1000
    base = plant.signals[NAME].base_milli
    assert plant.capacity_milli == round(CAPACITY_SHARE * (1000 - base))


def test_without_a_limit_the_ceiling_is_open_and_assumed_around_the_highest_that_lasted() -> None:
    loop = loop_of()
    usage = loop.usage.copy()
    usage[500] = 5000.0  # one sample of four in a minute, in one minute of 800
    usage[1000:1008] = 2000.0  # two minutes
    found = fit(usage_of(Loop(loop.work, loop.ready, usage, loop.size)), RECORDING)
    ceiling, highest = (fact(found, f"signals.{NAME}.{name}") for name in ("ceiling", "highest"))
    assert (ceiling.value, ceiling.source) == (None, OPEN)
    assert highest.value == 2.0
    assert "99.9 %" in highest.note
    signal = workload(found).plant.signals[NAME]
    assert signal.ceiling_milli is None
    assert signal.levels_milli == tuple(20 * pct for pct in CEILINGS_PCT)
    assert not found.censored[NAME].any()
    # What a pod can do is not known then: the target says what it is meant to do.
    plant = workload(found).plant
    assert plant.capacity_milli == TARGET - plant.signals[NAME].base_milli
    assert fact(found, "capacity").source == ASSUMED


@pytest.mark.parametrize("part", [0.3, 0.5])
def test_without_a_limit_usage_that_is_cut_off_tells_the_ceiling(part: float) -> None:
    loop = loop_of()
    free = loop.usage * np.linspace(1, 4, loop.usage.size)
    level = float(np.round(np.quantile(free, 1 - part)))
    cut = Loop(loop.work, loop.ready, np.minimum(free, level), loop.size)
    small = stated(request_milli=300)
    found = fit(usage_of(cut), RECORDING, small)
    ceiling = fact(found, f"signals.{NAME}.ceiling")
    assert (ceiling.value, ceiling.source) == (level / 1000, FITTED)
    assert found.censored[NAME].any()
    open_ = fit(usage_of(Loop(loop.work, loop.ready, free, loop.size)), RECORDING, small)
    assert fact(open_, f"signals.{NAME}.ceiling").source == OPEN
    # Below the request it is something else: a node keeps that much free for a pod.
    asks_more = fit(usage_of(cut), RECORDING, stated(request_milli=round(level * 1.5)))
    assert fact(asks_more, f"signals.{NAME}.ceiling").source == OPEN
    # A limit goes before it.
    limited = replace(usage_of(cut), limits=limits_of(usage_of(cut), 5000))
    assert fact(fit(limited, RECORDING), f"signals.{NAME}.ceiling").value == 5.0


@pytest.mark.parametrize(
    "seen",
    [
        lambda usage: usage * 0.0,  # a metric that is always 0 has no ceiling of 0
        lambda usage: np.ceil(usage / 100) * 100,  # the top step is as wide as the next one
        lambda usage: np.where(np.arange(usage.size) % 400 < 8, usage.max() * 1.5, usage),  # rare
    ],
)
def test_a_mere_peak_is_not_cut_off(seen: Callable[[F64], F64]) -> None:
    loop = loop_of()
    usage = seen(loop.usage)
    found = fit(usage_of(Loop(loop.work, loop.ready, usage, loop.size)), RECORDING)
    assert fact(found, f"signals.{NAME}.ceiling").source == OPEN


def test_a_rare_outlier_hides_no_level() -> None:
    loop = loop_of()
    level = float(np.round(np.quantile(loop.usage, 0.6)))
    usage = np.minimum(loop.usage, level)
    usage[1000] = 3 * level
    small = stated(request_milli=300)
    found = fit(usage_of(Loop(loop.work, loop.ready, usage, loop.size)), RECORDING, small)
    assert fact(found, f"signals.{NAME}.ceiling").value == level / 1000


def test_usage_that_is_always_nearly_the_same_is_not_cut_off() -> None:
    loop = loop_of()
    usage = np.minimum(np.full_like(loop.usage, 500.0) + loop.usage % 100, 560.0)
    found = fit(
        usage_of(Loop(loop.work, loop.ready, usage, loop.size)),
        RECORDING,
        stated(request_milli=300),
    )
    assert fact(found, f"signals.{NAME}.ceiling").source == OPEN


def test_a_stated_ceiling_or_none_is_taken() -> None:
    observed = usage_of(loop_of())
    found = fit(observed, RECORDING, stated(ceiling_milli=700))
    assert workload(found).plant.signals[NAME].ceiling_milli == 700
    assert workload(found).plant.signals[NAME].levels_milli == ()
    found = fit(observed, RECORDING, stated(no_ceiling=True))
    assert workload(found).plant.signals[NAME].ceiling_milli is None
    assert workload(found).plant.signals[NAME].levels_milli  # (it is relative to today's peaks)


# ---- kinds ---------------------------------------------------------------------------------------


def test_a_queue_has_no_default() -> None:
    loop = loop_of()
    observed = usage_of(loop, (CPU, QUEUE), depth=np.full(3200, 4000.0))
    found = fit(observed, RECORDING)
    assert found.workload is None
    (problem,) = found.problems
    assert problem == (
        f"nothing says what drives {DEPTH}: a queue by its name, which never fell, so nothing "
        "bounds its rate"
    )
    assert fact(found, f"signals.{NAME}.base").source == FITTED  # the rest is told


def backlog(rate: float, arrivals: F64, ready: Any) -> F64:
    """Return the length of a queue at the end of each step."""
    found, left = np.zeros(arrivals.size), 0.0
    for t in range(arrivals.size):
        left = max(0.0, left + (arrivals[t] - ready[t] * rate) * STEP_MS / 1000)
        found[t] = left
    return found


def test_arrivals_are_found_from_a_queue() -> None:
    loop = loop_of(steps=1600)
    rate = 500.0
    arrivals = rate * loop.ready * (0.95 + 0.5 * np.sin(np.arange(1600) / 60))
    depth = backlog(rate, arrivals, loop.ready)
    observed = usage_of(loop, (QUEUE,), depth=depth)
    found = fit(observed, RECORDING, stated(DEPTH, kind=BACKLOG, rate_milli=round(rate)))
    made = workload(found)
    assert made.plant.capacity_milli == rate
    work = made.work[DEPTH]
    busy = np.flatnonzero((depth[:-2] > 0) & (depth[1:-1] > 0))
    best = min(
        float(np.median(np.abs(work[busy + k] - arrivals[busy + 1])) / rate) for k in range(3)
    )
    assert best < 0.05
    idle = fact(found, f"signals.{DEPTH}.idle").value
    assert idle is not None
    assert 0 < idle < 0.5
    # An empty queue says that no more arrived than the pods could do.
    assert (work <= np.maximum(arrivals.max(), rate * loop.ready.max()) + 1).all()


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        (DEPTH, BACKLOG, "a backlog needs the rate"),
        (DEPTH, DIVISIBLE, "total or backlog"),
        (NAME, TOTAL, "divisible or per_pod or age"),
    ],
)
def test_a_kind_that_cannot_be_is_refused(name: str, kind: str, told: str) -> None:
    observed = usage_of(loop_of(), (CPU, QUEUE), depth=np.full(3200, 4000.0))
    found = fit(observed, RECORDING, stated(name, kind=kind))
    assert found.workload is None
    assert any(told in problem for problem in found.problems)


def grown(usage: Usage, name: str, base: float, per_hour: float) -> Usage:
    """Return usage whose pods' memory was followed for hours."""
    count = usage.lives.created_ms.size
    age = np.linspace(0, 3, 60)
    tracks = records_from(
        TRACK_USAGE,
        count,
        settled=60,
        from_ms=usage.lives.started_ms,
        last_ms=usage.lives.started_ms + 3 * HOUR_MS,
        from_milli=round(base),
        age_h=age.sum(),
        above=(per_hour * age).sum(),
        age_above=(per_hour * age**2).sum(),
        age_age=(age**2).sum(),
        first_ms=-1,
    )
    signals = {**usage.signals, name: replace(usage.signals[name], pods=tracks)}
    return replace(usage, signals=signals)


def test_memory_grows_with_age_and_not_with_work() -> None:
    loop = loop_of()
    observed = usage_of(loop, (CPU, MEMORY), memory=np.full(3200, 2e11))
    observed = grown(observed, "resource/memory", 1.5e11, 4e9)
    found = fit(observed, RECORDING)
    made = workload(found)
    signal = made.plant.signals["resource/memory"]
    assert signal.kind == AGE
    assert signal.base_milli == pytest.approx(1.5e11, rel=1e-3)
    assert signal.growth_milli_per_hour == pytest.approx(4e9, rel=1e-3)
    assert signal.unit_milli == 1000
    assert signal.ceiling_milli == 2e11  # (no pod was seen above it)
    assert "resource/memory" not in made.work
    growth = fact(found, "signals.resource/memory.growth")
    assert (growth.unit, growth.source) == ("bytes/h", FITTED)
    with_limit = replace(observed, limits=limits_of(observed, 10**12))
    limited = workload(fit(with_limit, RECORDING)).plant.signals["resource/memory"]
    assert limited.ceiling_milli == 10**12


# ---- what is missing -----------------------------------------------------------------------------


def test_a_signal_without_samples_is_a_problem() -> None:
    observed = usage_of(loop_of(), (CPU, RATE), requests_per_second=np.zeros(3200))
    empty = replace(observed.signals["pods/requests_per_second"], counted=np.zeros(3200, np.int64))
    signals = {**observed.signals, "pods/requests_per_second": empty}
    found = fit(replace(observed, signals=signals), RECORDING)
    assert found.workload is None
    assert "has no sample of a pod that was ready" in found.problems[0]


def test_an_unknown_size_is_a_problem() -> None:
    observed = usage_of(loop_of())
    found = fit(replace(observed, replicas=np.full(3200, -1)), RECORDING)
    assert found.workload is None
    assert "record scales" in found.problems[0]


def test_an_unknown_request_leaves_the_capacity_unknown() -> None:
    utilization = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    observed = usage_of(loop_of(), (utilization,))
    found = fit(observed, RECORDING)
    base = workload(found).plant.signals[NAME].base_milli
    assert workload(found).plant.capacity_milli == 500 - base
    unasked = replace(observed.signals[NAME], requested=np.zeros(3200, np.int64))
    found = fit(replace(observed, signals={NAME: unasked}), RECORDING)
    assert workload(found).plant.capacity_milli is None
    assert fact(found, f"signals.{NAME}.request").source == NOT_IDENTIFIED


# ---- pipeline and the whole ---------------------------------------------------------------


def test_the_pipeline_is_what_was_recorded() -> None:
    observed = usage_of(loop_of())
    lag = np.full(512, 4_000)
    probes = replace(observed.signals[NAME].probes, lag_ms=lag)
    signal = replace(observed.signals[NAME], probes=probes)
    fetched = replace(RECORDING, fetched=True)
    found = fit(replace(observed, signals={NAME: signal}), fetched)
    pipeline = workload(found).plant.pipelines["resource"]
    assert (pipeline.interval_ms, pipeline.window_ms) == (15_000, 15_000)
    assert (pipeline.lag_ms, pipeline.phase_ms, pipeline.max_age_ms) == (4_000, 0, 60_000)
    assert fact(found, "pipelines.resource.lag").source == RECORDED
    unknown = Recording(2_000, GIVEN, 90_000, GIVEN, GIVEN, FITTED, fetched=False)
    found = fit(observed, unknown)
    assert workload(found).plant.pipelines["resource"].lag_ms == 2_000
    assert fact(found, "pipelines.resource.lag").source == GIVEN
    assert fact(found, "sync.period").source == GIVEN
    assert fact(found, "sync.phase").source == FITTED


def test_everything_is_told_once_and_with_a_known_source() -> None:
    loop = run_loop(3, BASE, days=0.5)
    observed = usage_of(loop, (CPU, MEMORY), memory=np.full(loop.ready.size, 2e11))
    found = fit(observed, RECORDING)
    names = [known.name for known in found.facts]
    assert len(set(names)) == len(names)
    sources = {RECORDED, FITTED, ASSUMED, GIVEN, NOT_IDENTIFIED, OPEN}
    for known in found.facts:
        assert known.source in sources
        for number in (known.value, known.low, known.high):
            assert number is None or np.isfinite(number)
        if known.low is not None and known.high is not None and known.value is not None:
            assert known.low <= known.value + 1e-9
            assert known.value <= known.high + 1e-9
    again = fit(observed, RECORDING)
    assert again.facts == found.facts


def test_usage_far_below_the_request_is_nothing_that_a_pod_cannot_do() -> None:
    """Up to a quarter of the request; a pod of which less was seen was idle."""
    busy = loop_of()
    idle = replace(busy, usage=busy.usage / 20)
    found = {}
    for name, loop in (("busy", busy), ("idle", idle)):
        signal = workload(fit(usage_of(loop), RECORDING)).plant.signals[NAME]
        assert signal.observed_milli is not None
        found[name] = signal.observed_milli[1]
    assert idle.usage.max() < 100 < found["idle"] == 250
    assert found["busy"] > 250


LENS = f"signals.{NAME}.lens"
BY_SHARE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def fitted(*lenses: Lens, **changes: Any) -> Fit:
    observed = usage_of(loop_of(), (BY_SHARE,))
    recording = replace(RECORDING, lenses=lenses if lenses else None)
    if "window_ms" in changes:
        signal = observed.signals[NAME]
        windows = np.full_like(signal.probes.window_ms, changes["window_ms"])
        signal = replace(signal, probes=replace(signal.probes, window_ms=windows))
        observed = replace(observed, signals={NAME: signal})
    return fit(observed, replace(recording, fetched=changes.get("fetched", False)))


def cpu(found: Fit) -> Signal:
    return workload(found).plant.signals[NAME]


def lens_facts(found: Fit) -> dict[str, float | None]:
    return {f.name.removeprefix(f"{LENS}."): f.value for f in found.facts if LENS in f.name}


def test_usage_base_ceiling_and_work_are_as_recorded() -> None:
    plain, seen = fitted(), fitted(Lens(NAME, None, 30_000, 60_000, 1.25))
    assert cpu(plain).sight == Sight()
    assert cpu(seen).sight == Sight(30_000, 60_000, 1_250_000)
    assert replace(cpu(seen), sight=Sight()) == cpu(plain)
    assert workload(seen).work[NAME].tolist() == workload(plain).work[NAME].tolist()
    assert workload(seen).plant.pipelines == workload(plain).plant.pipelines
    assert lens_facts(plain) == {}
    assert lens_facts(seen) == {"lag": 30.0, "smoothing": 60.0, "scale": 1.25}
    others = [f for f in seen.facts if LENS not in f.name and f.name != "capacity"]
    assert others == [f for f in plain.facts if f.name != "capacity"]
    assert fact(seen, f"{LENS}.scale").source == FITTED
    stated = fitted(Lens(NAME, None, scale=2.0, place="lens.yaml:1"))
    assert fact(stated, f"{LENS}.scale").source == GIVEN


@pytest.mark.parametrize(("scale", "ceiling"), [(0.8, 1250), (1.0, 1000), (1.25, 800)])
def test_limits_are_of_what_the_controller_saw(scale: float, ceiling: int) -> None:
    observed = usage_of(loop_of(), (BY_SHARE,))
    lenses = (Lens(NAME, None, scale=scale),)
    found = fit(
        replace(observed, limits=limits_of(observed, 1000)), replace(RECORDING, lenses=lenses)
    )
    assert cpu(found).ceiling_milli == ceiling
    told = fact(found, f"signals.{NAME}.ceiling")
    assert ("the lens's scale" in told.note) == (scale != 1)


def test_a_late_recording_is_not_seen_before_its_time() -> None:
    found = fitted(Lens(NAME, None, -30_000))
    assert cpu(found).sight == Sight()
    assert lens_facts(found) == {"lag": -30.0}
    assert "recorded late" in fact(found, f"{LENS}.lag").note


@pytest.mark.parametrize(
    ("lens", "changes", "source"),
    [
        (Lens(NAME), {"window_ms": 300_000}, NOT_IDENTIFIED),
        (Lens(NAME), {"window_ms": 15_000}, RECORDED),
        (Lens(NAME), {"window_ms": 300_000, "fetched": True}, RECORDED),
        (Lens(NAME, smoothing_ms=600_000), {"window_ms": 300_000}, RECORDED),
        (None, {"window_ms": 300_000}, RECORDED),
    ],
)
def test_a_window_that_hides_jumps_is_not_identified(
    lens: Lens | None, changes: dict[str, Any], source: str
) -> None:
    found = fitted(*([] if lens is None else [lens]), **changes)
    window = fact(found, "pipelines.resource.window")
    assert (window.source, window.value) == (source, changes["window_ms"] / 1000)
    assert ("hidden" in window.note) == (source == NOT_IDENTIFIED)


def test_a_stated_lag_or_window_is_the_whole_one() -> None:
    plant = workload(fitted(Lens(NAME, None, 30_000, 60_000, 1.25))).plant

    def stated(text: str) -> tuple[Sight, dict[str, float | None]]:
        entries = parse_plant_file(f"pipelines: {text}")
        found, facts = override(plant, entries, Draws(0, "web", 0))
        own = {f.name.removeprefix(f"{LENS}."): f.value for f in facts if LENS in f.name}
        return found.signals[NAME].sight, own

    assert stated("{resource: {lag: 45s}}") == (Sight(0, 60_000, 1_250_000), {"lag": 0.0})
    assert stated("{resource: {window: 1m}}") == (Sight(30_000, 0, 1_250_000), {"smoothing": 0.0})
    assert stated("{custom: {lag: 45s}}") == (Sight(30_000, 60_000, 1_250_000), {})
    assert stated("{resource: {interval: 30s}}") == (Sight(30_000, 60_000, 1_250_000), {})


HOURS = [k * HOUR_MS for k in range(6)]


def small() -> Recorded:
    """Return two hours of 3, one of 5 and three of 4 pods; a minute an hour is above levels."""
    return Recorded(
        size_ms=np.array([0, 2 * HOUR_MS, 3 * HOUR_MS]),
        size=np.array([3, 5, 4]),
        until_ms=6 * HOUR_MS,
        pods_ms=np.array([[0, 6 * HOUR_MS], [HOUR_MS, 1 << 60]]),
        starts_ms=np.array(HOURS),
        saturated=np.array([True, False, True, True, False, False]),
        above=np.array([0, 1, 2, 3, 4, 5], np.int8),
    )


def test_sums_of_a_time() -> None:
    found = small().between(HOUR_MS, 4 * HOUR_MS)
    assert tuple(found) == RECORDED_MEASURES
    assert found["replica_hours"] == pytest.approx(3 + 5 + 4)
    assert found["rescales"] == 2
    assert found["pod_hours"] == pytest.approx(3 + 3)
    assert found["saturated_minutes"] == 2
    assert [found[name] for name in ABOVE_MINUTES] == [3, 2, 1, 0, 0]


def test_a_fit_tells_what_was_recorded() -> None:
    """Usage of 20 minutes is at 2 cores, of the rest far below."""
    loop = loop_of()
    usage = np.full(loop.usage.size, 500.0)
    usage[400:480] = 2000.0
    observed = usage_of(Loop(loop.work, loop.ready, usage, loop.size))
    found = fit(observed, RECORDING).recorded
    assert found is not None
    told = found.between(START, START + usage.size * STEP_MS + HOUR_MS)
    assert told["saturated_minutes"] is None
    at = [pct <= 100 for pct in CEILINGS_PCT]
    assert [told[name] for name in ABOVE_MINUTES] == [20 if is_at else 0 for is_at in at]
    changes = np.flatnonzero(np.diff(loop.size)).size
    assert told["rescales"] == changes
    limited = fit(replace(observed, limits=limits_of(observed, 2000)), RECORDING).recorded
    assert limited is not None
    told = limited.between(START, START + usage.size * STEP_MS + HOUR_MS)
    assert told["saturated_minutes"] == 20
    assert told[ABOVE_MINUTES[0]] is None
