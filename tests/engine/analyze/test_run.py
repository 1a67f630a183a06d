"""Static analysis of one metric: dead bands, resting sizes and cycles against the naive twin."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.analyze.map import Piece
from hpabatch.engine.analyze.run import (
    Analysis,
    Assumed,
    MetricAnalysis,
    analyze_hpa,
)
from hpabatch.model.versions import ControllerFlags
from tests.effort import effort
from tests.reference import analysis as naive
from tests.rules.helpers import (
    Json,
    external,
    hpa_spec,
    pods_metric,
    resource,
)

NO_TOLERANCE = ControllerFlags(tolerance=0.0)
TOLERANCES = (0.0, 0.01, 0.05, 0.1, 0.3, 1.5)
KINDS = (naive.UTILIZATION, naive.POD_AVERAGE, naive.TOTAL_AVERAGE, naive.TOTAL_VALUE)


def document(metric: naive.Metric) -> Json:
    """Return the metric as a manifest has it."""
    if metric.kind == naive.UTILIZATION:
        return resource(metric.target)
    amount = f"{metric.target}m"
    if metric.kind == naive.POD_AVERAGE:
        return pods_metric(amount)
    return external(average=amount) if metric.kind == naive.TOTAL_AVERAGE else external(amount)


@st.composite
def metrics(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> naive.Metric:
    kind = draw(st.sampled_from(kinds))
    small = kind == naive.UTILIZATION
    target = draw(st.integers(1, 150) if small else st.integers(1, 400))
    request = draw(st.sampled_from([1, 7, 64, 100, 250]))
    full = target * request // 100 if small else target
    return naive.Metric(
        kind,
        target,
        down=(tolerance := draw(st.sampled_from(TOLERANCES))),
        up=tolerance,
        request=request,
        base=draw(st.sampled_from([0, 0, full // 5, full // 2, full + 1])),
    )


@st.composite
def bounds(draw: st.DrawFn, most: int = 14) -> naive.Bounds:
    low = draw(st.integers(1, 4))
    return naive.Bounds(low, draw(st.integers(low, low + most)))


def analyzed(metric: naive.Metric, limits: naive.Bounds, behavior: Json | None = None) -> Analysis:
    """Return our analysis of the same HPA, without a base."""
    spec = hpa_spec(document(metric), low=limits.low, high=limits.high, behavior=behavior)
    flags = ControllerFlags(tolerance=metric.up)
    return analyze_hpa(spec, flags, assumed=Assumed({"cpu": metric.request}))


def full(metric: naive.Metric) -> int:
    """Return an observation at about the target."""
    return metric.target * metric.request // 100 + 1 if metric.kind == KINDS[0] else metric.target


# ---- dead bands ----------------------------------------------------------------------------------


@settings(max_examples=effort(40))
@given(metrics(), bounds())
def test_a_dead_band_is_every_usage_that_asks_for_just_that_size(
    metric: naive.Metric, limits: naive.Bounds
) -> None:
    largest = limits.high if metric.kind == naive.TOTAL_AVERAGE else 1
    until = 4 * full(metric) * largest + 300
    (found,) = analyzed(metric, limits).metrics
    assert [band.size for band in found.bands] == list(range(limits.low, limits.high + 1))
    for band in found.bands:
        stay = naive.staying(metric, band.size, until)
        assert band.empty == (not stay)
        if stay:
            assert stay == list(range(stay[0], stay[-1] + 1))
            assert band.low_milli == stay[0]
            assert band.high_milli == (stay[-1] if stay[-1] + 1 < until else None)
            edges = (band.up_to, stay[-1] + 1), (band.down_to, stay[0] - 1)
            for goal, observed in edges:
                if observed >= 0 and (goal is not None or observed < until):
                    wish = metric.want(band.size, observed)
                    assert (goal or band.size) == limits.step(band.size, wish)


def test_an_unset_upper_end_is_a_tolerance_that_covers_everything() -> None:
    behavior = {"scaleUp": {"tolerance": "1e18"}, "scaleDown": {"tolerance": "1"}}
    analysis = analyze_hpa(hpa_spec(resource(60), high=5, behavior=behavior))
    assert {(band.low_milli, band.high_milli) for band in analysis.metrics[0].bands} == {(0, None)}
    assert analysis.metrics[0].pieces == (Piece(0, None, ((1, 5),)),)


# ---- smallest changes ----------------------------------------------------------------------------


def test_smallest_changes_of_four_tasks_a_pod() -> None:
    (metric,) = analyze_hpa(hpa_spec(external(average="4"), high=30), at_size=10).metrics
    nine, ten, smallest = metric.band(9), metric.band(10), metric.smallest
    assert nine is not None
    assert ten is not None
    assert smallest is not None
    assert (nine.high_milli, ten.low_milli, ten.high_milli) == (39_600, 36_000, 44_000)
    # 44.001 / 4 is 11.0003
    assert (ten.up_to, ten.down_to, str(smallest.asked)) == (
        12, 9, "at 10 pods the nearest sizes: 10 -> 12 or 9"
    )  # fmt: skip
    # 3 x 4 x 1.1 is 13.2, 10 x 4 x 1.1 is 44
    assert (smallest.unit_more, smallest.pod_more) == (3, 10)
    # 28 x 4 x 1.1 is 123.2, 27 x 4 x 1.1 is 118.8, and 30 x 4 is 120
    assert (smallest.fits_milli, smallest.below_max) == (120_000, (28, 29))


@settings(max_examples=effort(40))
@given(metrics((naive.UTILIZATION, naive.POD_AVERAGE, naive.TOTAL_AVERAGE)), bounds())
def test_sizes_that_stay(metric: naive.Metric, limits: naive.Bounds) -> None:
    metric = replace(metric, base=0)
    is_share = metric.kind == naive.UTILIZATION
    spec = hpa_spec(document(metric), low=limits.low, high=limits.high)
    flags = ControllerFlags(tolerance=metric.up)
    analysis = analyze_hpa(spec, flags, assumed=Assumed({"cpu": metric.request}))
    smallest = analysis.metrics[0].smallest
    assert smallest is not None
    sizes = range(limits.low, limits.high + 1)
    each = metric.target * metric.request / 100 if is_share else metric.target

    def stays(size: int, demand: float) -> bool:
        return metric.wish(size, int(demand)) == size

    below = [n for n in sizes if n < limits.high]
    after = [n for n in below if all(stays(k, (k + 1) * each) for k in below if k >= n)]
    assert smallest.pod_more == min(after, default=None)
    held = [n for n in below if all(stays(k, limits.high * each) for k in below if k >= n)]
    assert smallest.below_max == ((min(held), max(held)) if held else None)


# ---- resting -------------------------------------------------------------------------------------


def at(metric: MetricAnalysis, demand: int) -> list[int]:
    """Return the resting sizes of the piece that holds a demand."""
    (piece,) = [
        piece
        for piece in metric.pieces
        if piece.low_milli <= demand and (piece.high_milli is None or demand <= piece.high_milli)
    ]
    return [n for first, last in piece.runs for n in range(first, last + 1)]


@given(metrics(), bounds(), st.data())
def test_resting_sizes_of_any_demand(
    metric: naive.Metric, limits: naive.Bounds, data: st.DataObject
) -> None:
    metric = replace(metric, base=0)
    (found,) = analyzed(metric, limits).metrics
    pieces = found.pieces
    assert pieces[0].low_milli == 0
    assert pieces[-1].high_milli is None
    assert [p.high_milli + 1 for p in pieces[:-1] if p.high_milli is not None] == [
        p.low_milli for p in pieces[1:]
    ]
    edges = [piece.low_milli + k for piece in pieces for k in (-1, 0)][1:]
    chosen = data.draw(st.integers(0, 2 * pieces[-1].low_milli + 10))
    for demand in (chosen, *edges):
        assert at(found, demand) == naive.resting(metric, limits, demand)


@settings(max_examples=effort(40))
@given(bounds(most=8), st.integers(0, 4000), st.sampled_from(["scaleUp", "scaleDown"]))
def test_a_disabled_direction_rests_wherever_it_would_go(
    limits: naive.Bounds, demand: int, name: str
) -> None:
    behavior = {name: {"selectPolicy": "Disabled"}}
    spec = hpa_spec(resource(60), low=limits.low, high=limits.high, behavior=behavior)
    blocked = naive.Bounds(limits.low, limits.high, name == "scaleUp", name == "scaleDown")
    metric = naive.Metric(naive.UTILIZATION, 60)
    expected = naive.resting(metric, blocked, demand)
    (found,) = analyze_hpa(spec).metrics
    assert (at(found, demand), found.cycles) == (expected, ())


def test_with_a_metric_that_cannot_be_computed_nothing_shrinks() -> None:
    bad: Json = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    spec = hpa_spec(resource(50), external(average="10", selector=bad), high=6)
    analysis = analyze_hpa(spec)
    broken = analysis.metrics[1]
    assert (broken.error, broken.bands, broken.cycles) == (
        "the metric's selector is not usable", (), ()
    )  # fmt: skip
    assert not analysis.moves.shrinks
    assert analysis.down is not None
    assert analysis.down.ended == "stuck"


# ---- cycles --------------------------------------------------------------------------------------


def cycles_of(metric: MetricAnalysis, demand: int) -> set[tuple[int, ...]]:
    found = [timed.cycle for timed in metric.cycles]
    return {c.members for c in found if c.low_milli <= demand <= c.high_milli}


@given(metrics(kinds=(naive.UTILIZATION, naive.POD_AVERAGE)), bounds(most=10))
def test_cycles_of_every_demand(metric: naive.Metric, limits: naive.Bounds) -> None:
    metric = replace(metric, base=0, target=metric.target % 40 + 1)
    (found,) = analyzed(metric, limits).metrics
    for demand in range((limits.high + 2) * full(metric) + 20):
        assert cycles_of(found, demand) == naive.cycles_at(metric, limits, demand), demand


# ---- what is asked for ---------------------------------------------------------------------------


def test_at_zero_pod_metrics_have_no_answer() -> None:
    spec = hpa_spec(resource(50), external(average="10"), low=0, high=9)
    assert analyze_hpa(spec).metrics[0].bands[0].empty


def test_more_sizes_than_are_looked_at() -> None:
    analysis = analyze_hpa(hpa_spec(resource(70), high=50_000))
    (metric,) = analysis.metrics
    assert not metric.complete
    assert metric.pieces == ()
    assert 500 < len(metric.bands) < 1000
    assert (metric.bands[0].size, metric.bands[-1].size) == (1, 50_000)
    assert analysis.middle == 224


def test_sizes_at_which_the_integers_overflow_are_left_out() -> None:
    spec = hpa_spec(resource(70, name="memory"), low=40_000, high=2**31 - 1)
    (metric,) = analyze_hpa(spec).metrics
    assert metric.bands[-1].size == (2**63 - 1) // (100 * 2 * 751_619_276_800)
    (large,) = analyze_hpa(hpa_spec(external(average="8Ei"), high=9)).metrics
    assert "no positive number" in large.error


def test_memory_that_is_not_stated_to_be_shared_has_no_resting_sizes() -> None:
    spec = hpa_spec(resource(70, name="memory"), low=1, high=9)
    (unknown,) = analyze_hpa(spec).metrics
    assert (unknown.divides, unknown.pieces, unknown.cycles) == (None, (), ())
    assert unknown.smallest is not None
    assert (unknown.smallest.pod_more, unknown.smallest.below_max) == (None, None)
    (stated,) = analyze_hpa(spec, assumed=Assumed(base_pct={"memory": 0})).metrics
    assert stated.divides
    assert stated.pieces
