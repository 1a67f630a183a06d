"""Packing: every observation is found again where the offsets say it lies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import Fleet
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.pack import (
    LaneView,
    MetricAnswer,
    PodResources,
    PodSample,
    PodView,
    TickView,
    pack_fleet,
    pod_flags,
    starts,
)
from hpabatch.packing.specs import stream_keys
from tests.effort import effort
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    Pod,
    at,
    external,
    hpa_spec,
    pods_metric,
    resource,
    some,
    tick,
    total,
    usages,
)

PROFILE = profile_for("1.38")


def fleet_of(*lanes: LaneView, gate: bool = True) -> Fleet:
    profile = replace(PROFILE, gate_pod_level_resources=gate)
    return pack_fleet(lanes, ControllerFlags(), profile)


def test_starts_are_running_sums() -> None:
    assert starts([]).tolist() == [0]
    assert starts([3, 0, 2]).tolist() == [0, 3, 3, 5]


def test_flags_of_a_pod() -> None:
    assert pod_flags("Running", False, True, "True") == 2 + 16 + 64
    assert pod_flags("Odd", True, False, None) == 8
    assert pod_flags("", False, False, "Strange") == codes.READY_UNKNOWN


def test_an_empty_fleet_has_empty_columns() -> None:
    fleet = fleet_of()
    assert [len(column) for column in fleet] == [0] * len(fleet)


def test_lanes_own_their_ticks() -> None:
    spec = hpa_spec(EXACT_WISH)
    views = [
        LaneView([spec], [tick(k, 5, answers=[total(1)]) for k in range(n)]) for n in (2, 0, 1)
    ]
    fleet = fleet_of(*views)
    assert fleet.lanes.first_tick.tolist() == [0, 2, 2]
    assert fleet.lanes.last_tick.tolist() == [2, 2, 3]
    assert fleet.ticks.now_ms.tolist() == [at(0), at(1), at(0)]
    assert fleet.ticks.spec.tolist() == [0, 0, 2]
    assert fleet.changes.size == 0


def test_a_tick_is_packed_field_by_field() -> None:
    specs = [hpa_spec(EXACT_WISH), hpa_spec(EXACT_WISH, low=2)]
    ticks = [
        tick(
            7,
            5,
            answers=[total(1)],
            status=4,
            spec=1,
            scale=codes.SCALE_UPDATE_FAILED,
            selector=codes.SELECTOR_AMBIGUOUS,
            restart=True,
        )
    ]
    ticks = [replace(ticks[0], recreated=True, scale_error="conflict", selector_error="two HPAs")]
    row = fleet_of(LaneView([specs[0]], []), LaneView(specs, ticks)).ticks[0]
    assert row.tolist() == (at(7), 2, 5, 4, 2, 3, at(7), 1, 0, 0, 1, 2, -1)


def test_equal_pods_share_a_state_and_states_are_the_lanes_own() -> None:
    resources = PodResources((ContainerRequests("app", {"cpu": Quantity.parse("1")}),))
    twins = some(2, 10, resources=resources)
    other = replace(twins[0], ready="False")
    spec = hpa_spec(resource(60))
    view = LaneView([spec], [tick(0, 3, [*twins, other]), tick(1, 3, [other])])
    fleet = fleet_of(view, view)
    assert fleet.row_state.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert fleet.states.start_ms.tolist() == [at(-86_400)] * 4
    unset = Pod(start_s=None, transition_s=None, ready=None)
    fleet = fleet_of(LaneView([spec], [tick(0, 3, [unset])]))
    assert fleet.states.tolist() == [(codes.PHASE_RUNNING, 0, 0)]


def test_strays_come_after_the_pods_once_each() -> None:
    spec = hpa_spec(resource(60), pods_metric("1"))
    pods = [Pod(5), Pod(None)]
    answers = [usages(pods, [7, 8]), usages(pods, [9])]
    fleet = fleet_of(LaneView([spec], [tick(0, 3, pods, answers)]))
    assert fleet.row_state.tolist() == [0, 1, -1, -1]
    assert fleet.ticks.last_row.tolist() == [4]
    assert fleet.present.tolist() == [1, 0, 1, 1, 1, 0, 1, 0]
    assert fleet.value_milli.tolist() == [5, 0, 7, 8, 5, 0, 9, 0]
    assert fleet.timing.window_ms.tolist() == [30_000, 0, 30_000, 30_000, 30_000, 0, 30_000, 0]


def test_metrics_without_their_tick_in_a_spec_have_no_answer() -> None:
    specs = [hpa_spec(resource(60)), hpa_spec(EXACT_WISH)]
    pods = some(1, 10)
    ticks = [tick(0, 1, pods), tick(1, 1, pods, [total(3)], spec=1)]
    fleet = fleet_of(LaneView(specs, ticks))
    assert fleet.answers.first_value.tolist() == [0, 0, 0, 0]
    assert fleet.answers.last_value.tolist() == [0, 0, 0, 1]
    assert fleet.present.tolist() == [1, 0, 0, 0]


def test_answers_must_be_one_per_metric() -> None:
    view = LaneView([hpa_spec(EXACT_WISH)], [tick(0, 1, answers=[])])
    with pytest.raises(ValueError, match="zip"):
        fleet_of(view)


def test_answers_keep_their_codes_and_values() -> None:
    spec = hpa_spec(EXACT_WISH, external(value="1", name="b"))
    ticks = [
        tick(0, 1, answers=[total(1, 2), FETCH_FAILED]),
        tick(1, 1, answers=[MetricAnswer(codes.METRIC_ANSWER_EMPTY), total(3)]),
    ]
    fleet = fleet_of(LaneView([spec], ticks))
    assert fleet.answers.code.tolist() == [0, 2, 1, 0]  # stream by stream
    assert fleet.values_milli.tolist() == [1, 2, 3]
    assert fleet.answers.first_value.tolist() == [0, 2, 2, 2]
    assert fleet.answers.last_value.tolist() == [2, 2, 2, 3]


# ---- requests ------------------------------------------------------------------------------------


def container(name: str, cpu: str | None) -> ContainerRequests:
    return ContainerRequests(name, {} if cpu is None else {"cpu": Quantity.parse(cpu)})


def requests_of(resources: PodResources, *metrics: object, gate: bool = True) -> list[object]:
    spec = hpa_spec(*metrics)  # type: ignore[arg-type]
    pods = [Pod(1, resources=resources)]
    view = LaneView([spec], [tick(0, 1, pods, [usages(pods)] * len(metrics))])
    return list(fleet_of(view, gate=gate).requests.tolist())


def test_requests_per_stream() -> None:
    resources = PodResources((container("app", "300m"), container("side", "45m")))
    metrics = (resource(60), resource(60, container="side"), resource(60, container="none"))
    # Where one is not known stands the number of the text that says so.
    assert requests_of(resources, *metrics) == [(1, 345), (1, 45), (0, 1)]
    assert requests_of(resources, resource(60, name="memory"), pods_metric("1")) == [(0, 1), (1, 0)]


def test_pod_level_requests_need_their_gate() -> None:
    level = {"cpu": Quantity.parse("2")}
    resources = PodResources((container("app", "1"),), (), level, {"cpu": Quantity.parse("10m")})
    assert requests_of(resources, resource(60)) == [(1, 2010)]
    assert requests_of(resources, resource(60), gate=False) == [(1, 1000)]


# ---- everything is found again -------------------------------------------------------------------

METRICS = [resource(60), resource(60, name="memory"), pods_metric("1"), EXACT_WISH]
answers_of = st.lists(
    st.builds(
        MetricAnswer,
        st.sampled_from([codes.METRIC_OK, codes.METRIC_FETCH_FAILED]),
        st.dictionaries(
            st.sampled_from(["p0", "p1", "p2", "x", "y"]),
            st.builds(PodSample, st.integers(-9, 9), st.integers(0, 9), st.integers(0, 9)),
        ),
        st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    ),
    min_size=len(METRICS),
    max_size=len(METRICS),
)
SHARED = PodResources((container("app", "1"),))
pod_views = st.builds(
    PodView,
    name=st.just(""),
    phase=st.sampled_from(["Running", "Pending"]),
    resources=st.just(SHARED),
    start_ms=st.sampled_from([None, 5]),
    ready=st.sampled_from([None, "True"]),
)


@st.composite
def lane_views(draw: st.DrawFn) -> LaneView:
    chosen = draw(st.lists(st.lists(st.sampled_from(range(4)), min_size=1), min_size=1, max_size=3))
    specs = [hpa_spec(*(METRICS[k] for k in ks)) for ks in chosen]
    ticks = []
    for now in range(draw(st.integers(0, 3))):
        s = draw(st.integers(0, len(specs) - 1))
        pods = draw(st.lists(pod_views, max_size=3))
        pods = [replace(pod, name=f"p{k}") for k, pod in enumerate(pods)]
        answers = [draw(answers_of)[k] for k in chosen[s]]
        ticks.append(TickView(now, s, 1, 1, pods, answers))
    return LaneView(specs, ticks)


def check_tick(fleet: Fleet, h: int, t: int, view: LaneView) -> None:
    now = t - int(fleet.lanes.first_tick[h])
    expected = view.ticks[now]
    row = fleet.ticks[t]
    spec = fleet.specs[int(row.spec)]
    assert int(row.now_ms) == now
    for m, answer in enumerate(expected.answers):
        stream = fleet.streams[int(fleet.metrics[int(spec.first_metric) + m].stream)]
        packed = fleet.answers[t + int(stream.answer_offset)]
        values = fleet.values_milli[int(packed.first_value) : int(packed.last_value)]
        assert (int(packed.code), tuple(values.tolist())) == (answer.code, answer.values_milli)
        seen = []
        for r in range(int(row.first_row), int(row.last_row)):
            sample = r + int(stream.sample_offset)
            if fleet.present[sample]:
                time = fleet.timing[sample]
                value = int(fleet.value_milli[sample])
                seen.append((value, int(time.ts_ms), int(time.window_ms)))
            if fleet.row_state[r] >= 0:
                request = fleet.requests[int(fleet.row_state[r]) + int(stream.request_offset)]
                wanted = "Resource" in stream_keys(view.specs[expected.spec])[m].type
                assert int(request.known) in ((0, 1) if wanted else (1,))
                assert not request.known or int(request.milli) == (1000 if wanted else 0)
        samples = answer.samples.values()
        assert sorted(seen) == sorted((s.value_milli, s.ts_ms, s.window_ms) for s in samples)


@settings(max_examples=effort(50))
@given(st.lists(lane_views(), max_size=3))
def test_every_observation_is_found_again(views: list[LaneView]) -> None:
    fleet = fleet_of(*views)
    for h, view in enumerate(views):
        first, last = int(fleet.lanes.first_tick[h]), int(fleet.lanes.last_tick[h])
        assert last - first == len(view.ticks)
        for t in range(first, last):
            check_tick(fleet, h, t, view)
            rows = slice(int(fleet.ticks.first_row[t]), int(fleet.ticks.last_row[t]))
            pods = view.ticks[t - first].pods
            states = [int(s) for s in fleet.row_state[rows] if s >= 0]
            flags = [pod_flags(p.phase, p.deleting, p.start_ms is not None, p.ready) for p in pods]
            assert [fleet.states[s].tolist()[0] for s in states] == flags
