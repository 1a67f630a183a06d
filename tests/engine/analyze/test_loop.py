"""Ramps and settling: the rules tick by tick, against documented series and the naive twin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.analyze import loop as analyze_loop
from hpabatch.engine.analyze.loop import Loop, Ramp, follow_ramp, moves_of, settle
from hpabatch.engine.analyze.meter import read_spec
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.errors import RefusedError
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.effort import effort
from tests.reference import analysis as naive
from tests.rules.helpers import (
    EXACT_WISH,
    Json,
    external,
    hpa_spec,
    policies,
    replay,
    resource,
    some,
    tick,
)

SYNC_S = 15
PROFILE = profile_for("1.38")


def ramp(
    low: int, high: int, behavior: Json | None, *, down: bool = False, sync_s: int = 15
) -> Ramp:
    """Return the ramp between two bounds."""
    spec = hpa_spec(EXACT_WISH, low=low, high=high, behavior=behavior)
    ruled = read_spec(spec, ControllerFlags(sync_period_ms=sync_s * 1000), PROFILE)
    return follow_ramp(ruled, high, low) if down else follow_ramp(ruled, low, high)


def sizes(found: Ramp) -> list[int]:
    return [found.first_size, *(size for _, size in found.steps)]


# ---- ramps ---------------------------------------------------------------------------------------


def test_a_ramp_longer_than_a_day_is_unfinished() -> None:
    found = ramp(1, 60, {"scaleUp": policies(("Pods", 1, 1800))}, sync_s=60)
    assert (found.ended, found.reached_ms, len(found.steps)) == ("unfinished", None, 49)


def test_no_percentage_leads_away_from_zero() -> None:
    percent = {"scaleUp": policies(("Percent", 900, 15))}
    spec = hpa_spec(external(average="1"), low=0, high=50, behavior=percent)
    analysis = analyze_hpa(spec)
    assert not analysis.moves.leaves_zero
    assert analysis.up == Ramp(0, 50, (), "stuck")
    assert settles(spec, 7000, 0) == (0,)
    assert sizes(ramp(0, 50, {})) == [0, 4, 8, 16, 32, 50]
    assert sizes(ramp(0, 50, {}, down=True)) == [50, 0]
    assert moves_of(read_spec(hpa_spec(EXACT_WISH, low=0), ControllerFlags(), PROFILE)).leaves_zero


@st.composite
def behaviors(draw: st.DrawFn) -> Json | None:
    """Return a behavior with both directions filled in, or None."""
    if draw(st.booleans()):
        return None

    def rules(window: int | None) -> Json:
        policy = st.fixed_dictionaries(
            {
                "type": st.sampled_from(["Pods", "Percent"]),
                "value": st.integers(1, 120),
                "periodSeconds": st.sampled_from([1, 15, 20, 60, 90]),
            }
        )
        found = {
            "selectPolicy": draw(st.sampled_from(["Max", "Min", "Disabled", "Max"])),
            "policies": draw(st.lists(policy, min_size=1, max_size=3)),
        }
        return found if window is None else found | {"stabilizationWindowSeconds": window}

    windows = st.sampled_from([0, 1, 30, 45, 100])
    return {
        "scaleUp": rules(draw(windows)),
        "scaleDown": rules(draw(st.one_of(windows, st.none()))),
    }


FLAGS = ControllerFlags(downscale_stabilization_ms=75_000)


@given(behaviors(), st.integers(1, 4), st.integers(1, 60), st.booleans())
def test_ramps_of_any_behavior(behavior: Json | None, low: int, more: int, down: bool) -> None:
    spec = hpa_spec(EXACT_WISH, low=low, high=low + more, behavior=behavior)
    ends = (low + more, low) if down else (low, low + more)
    found = follow_ramp(read_spec(spec, FLAGS, PROFILE), *ends)
    follower = naive.Follower(naive.Bounds(low, low + more), behavior, ends[0], 75, SYNC_S)
    naive.follow(follower, lambda _: ends[0], 20)  # long enough for every window
    until = 700
    expected = naive.follow(follower, lambda _: ends[1], until)
    steps = [
        (k * SYNC_S * 1000, size)
        for k, size in enumerate(expected)
        if size != (expected[k - 1] if k else ends[0])
    ]
    assert list(found.steps)[: len(steps)] == steps
    assert found.ended == ("reached" if expected[-1] == ends[1] else "stuck")


# ---- settling ------------------------------------------------------------------------------------


def settles(
    spec: HPASpec, demand: int, start: int, request: int = 1000, flags: ControllerFlags = FLAGS
) -> tuple[int, ...]:
    """Return the sizes in which an HPA of one metric ends under a demand; several: a cycle."""
    ruled = read_spec(spec, flags, PROFILE)
    meter = replace(ruled.metrics[0], request_milli=request)
    return settle(ruled, lambda size: meter.wish_for(demand, size), start).members


def test_policies_too_slow_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze_loop, "MOST_TICKS", 500)
    down = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}
    spec = hpa_spec(resource(50), high=5000, behavior={"scaleDown": down})
    with pytest.raises(RefusedError, match="nothing has settled after 500 syncs"):
        settles(spec, 0, 5000)


@given(
    behaviors(), st.integers(1, 20), st.integers(1, 14), st.integers(1, 20), st.integers(0, 3000),
    st.sampled_from([0.0, 0.02, 0.1]),
)  # fmt: skip
def test_settling_is_what_the_reference_repeats(
    behavior: Json | None, target: int, high: int, start: int, demand: int, tolerance: float
) -> None:
    metric = naive.Metric(naive.UTILIZATION, target, tolerance, tolerance, 100)
    demand = demand * high * target // 2000
    spec = hpa_spec(resource(target), high=high, behavior=behavior)
    flags = ControllerFlags(tolerance=tolerance, downscale_stabilization_ms=75_000)
    found = settles(spec, demand, start, 100, flags)
    follower = naive.Follower(naive.Bounds(1, high), behavior, start, 75, SYNC_S)
    expected = naive.members(naive.follow(follower, lambda n: metric.wish(n, demand), 600))
    assert len(found) == len(expected)
    assert list(found) in [expected[k:] + expected[:k] for k in range(len(expected))]
    up, down = (
        (behavior or {}).get(way, {}).get("selectPolicy") == "Disabled"
        for way in ("scaleUp", "scaleDown")
    )
    if len(found) == 1:
        assert found[0] in naive.resting(metric, naive.Bounds(1, high, up, down), demand)
    elif not (up or down):
        assert naive.cycles_at(metric, naive.Bounds(1, high), demand)


def test_settled_says_when_and_for_how_long() -> None:
    spec = hpa_spec(EXACT_WISH, high=20, behavior={})
    ruled = read_spec(spec, ControllerFlags(), PROFILE)
    rest = settle(ruled, lambda _: 9, 1)
    assert (rest.members, rest.period_ms, rest.after_ms) == ((9,), 0, 30_000)
    around = settle(ruled, lambda n: 9 if n == 10 else 10, 5)
    # ten until its last wish for ten, of when it was nine, has left the window
    assert around.runs == ((10, 300_000), (9, 15_000))
    assert around.period_ms == 315_000


@settings(max_examples=effort(20))
@given(behaviors(), st.integers(1, 12), st.integers(0, 9000), st.sampled_from([0.0, 0.1]))
def test_the_wish_decides_as_the_pods_would(
    behavior: Json | None, start: int, demand: int, tolerance: float
) -> None:
    """Every decision of a loop is that of a replay with pods, requests and samples."""
    spec = hpa_spec(resource(70), high=12, behavior=behavior)
    flags = ControllerFlags(tolerance=tolerance, downscale_stabilization_ms=75_000)
    metric = naive.Metric(naive.UTILIZATION, 70, tolerance, tolerance)
    loop = Loop(read_spec(spec, flags, PROFILE), start, running=False)
    path = [start]
    for _ in range(40):
        path.append(loop.tick(metric.wish(path[-1], demand)))
    ticks = [tick(SYNC_S * k, n, some(n, demand // n)) for k, n in enumerate(path[:-1])]
    assert [result["desired"] for result in replay(spec, ticks, flags=flags)] == path[1:]


@pytest.mark.parametrize("running", [False, True])
def test_a_running_controller_has_no_hold_of_its_start(running: bool) -> None:
    loop = Loop(read_spec(hpa_spec(EXACT_WISH, behavior={}), ControllerFlags(), PROFILE), 10,
                running=running)  # fmt: skip
    held = 0
    while loop.tick(2) == 10:
        held += 1
    # its first sync, or the one before it, is what the window must lose
    assert held == (19 if running else 20)
