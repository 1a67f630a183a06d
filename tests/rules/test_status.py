"""An HPA's status from tick to tick: what is set, since when, and whether it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import Fleet
from hpabatch.layout.results import (
    FROM_BEFORE,
    NO_GENERATION,
    NO_METRICS,
    NO_TIME_MS,
    Results,
    empty_results,
)
from hpabatch.model.objects.hpa import Condition, HPASpec, HPAStatus, MetricStatus
from hpabatch.model.versions import override_gates, profile_for
from hpabatch.packing.memory import make_memory, seed_status
from hpabatch.packing.pack import LaneView, MetricAnswer, PodSample, TickView, pack_fleet
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from hpabatch.rules.status import is_set_now, is_true
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    Json,
    Pod,
    at,
    external,
    hpa_spec,
    object_metric,
    resource,
    tick,
    total,
    wish,
)


@dataclass(frozen=True)
class Noted:
    """A lane that was replayed with its statuses."""

    fleet: Fleet
    results: Results
    rows: list[Json]

    def written(self) -> list[bool]:
        return [bool(row["written"]) for row in self.rows]

    def column(self, name: str) -> list[int]:
        return [row[name] for row in self.rows]

    def times(self, t: int) -> dict[str, int]:
        """Return since when each condition has its status, in ms."""
        decision = self.results.decisions[t]
        return {
            codes.CONDITIONS[int(decision[f"condition_{k}"])].type: self.rows[t][
                f"transition_{k}_ms"
            ]
            for k in range(4)
            if decision[f"condition_{k}"] != codes.NO_CONDITION
        }


def noted(
    specs: HPASpec | Sequence[HPASpec],
    ticks: Sequence[TickView],
    k8s: str = "1.38",
    status: HPAStatus | None = None,
    gates: str = "",
    observed: int = FROM_BEFORE,
    generations: Sequence[int] = (),
) -> Noted:
    """Replay one HPA with its statuses; times in the rows are ms."""
    profile = override_gates(profile_for(k8s), gates)
    view = LaneView([specs] if isinstance(specs, HPASpec) else list(specs), ticks)
    fleet = pack_fleet([view], NO_TOLERANCE, profile, Texts())
    memory, status_memory = make_memory(fleet, recorded=False), make_status_memory(fleet)
    if status is not None:
        seed_status(memory, 0, status)
        seed_status_memory(status_memory, 0, status, observed)
    if generations:
        status_memory.generations[:] = generations
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    replay_fleet(fleet, memory, False, results)
    statuses = empty_statuses(fleet.ticks.size)
    status_fleet(fleet, results, status_memory, fleet.lanes.last_tick.astype(np.int64), statuses)
    names = statuses.dtype.names or ()
    return Noted(fleet, results, [{n: int(row[n]) for n in names} for row in statuses])


SPEC = hpa_spec(EXACT_WISH, low=2, high=9)
FAILED = MetricAnswer(codes.METRIC_FETCH_FAILED, error="E")


# ---- conditions ----------------------------------------------------------------------------------


def test_the_status_of_every_condition() -> None:
    for code, words in codes.CONDITIONS.items():
        assert bool(is_true(code)) is (words.status == "True"), words
    for kind in codes.CONDITION_TYPES.values():
        assert is_true((kind << 4) + codes.OTHER_TRUE)
        assert not is_true((kind << 4) + codes.OTHER_FALSE)


def test_what_a_tick_sets() -> None:
    """Scaling's conditions are set where metrics were asked; ScaledToZero by every rescale."""
    spec = hpa_spec(EXACT_WISH, low=2, high=9)
    ticks = [
        wish(0, 5, 5),
        wish(15, 1, 5),  # below the minimum: forced
        wish(30, 0, 5),  # disabled
        tick(45, 5, answers=[FAILED]),
        wish(60, 5, 5, selector=codes.SELECTOR_MISSING),
        wish(75, 5, 5, selector=codes.SELECTOR_GONE),
        wish(90, 5, 5, scale=codes.SCALE_GET_FAILED),
    ]
    lane = noted(spec, ticks)
    kinds = list(codes.CONDITION_TYPES.values())
    found = [
        [bool(is_set_now(k, lane.results.decisions[t], lane.fleet.ticks[t])) for k in kinds]
        for t in range(len(ticks))
    ]
    able, active, limited, zero = zip(*found, strict=True)
    assert able == (True,) * 7
    assert active == (True, False, True, True, True, False, False)
    assert limited == (True, False, False, False, False, False, False)
    assert zero == (False, True, False, False, False, False, False)


def test_a_condition_has_the_time_of_its_last_turn() -> None:
    ticks = [
        wish(0, 5, 5),
        wish(15, 5, 5),
        tick(30, 5, answers=[FAILED]),
        tick(45, 5, answers=[FAILED]),
        wish(60, 5, 5),
    ]
    lane = noted(SPEC, ticks)
    assert lane.times(1) == dict.fromkeys(["AbleToScale", "ScalingActive", "ScalingLimited"], at(0))
    assert lane.times(3) == lane.times(1) | {"ScalingActive": at(30)}
    assert lane.times(4) == lane.times(1) | {"ScalingActive": at(60)}
    # Nothing was asked of the limits while the metrics failed.
    assert lane.column("set_2") == [0, 1, 1, 1, 4]
    assert lane.column("set_1") == [0, 1, 2, 3, 4]


def test_a_failed_write_turns_able_to_scale_anew_every_time() -> None:
    """The status goes True with the scale that was read, and False again."""
    ticks = [wish(15 * k, 5, 9, scale=codes.SCALE_UPDATE_FAILED) for k in range(3)]
    lane = noted(SPEC, ticks)
    assert [lane.times(t)["AbleToScale"] for t in range(3)] == [at(0), at(15), at(30)]
    assert lane.written() == [True, True, True]


def test_a_scale_that_is_not_read_sets_able_to_scale_alone() -> None:
    ticks = [
        wish(0, 5, 5),
        wish(15, 5, 5, scale=codes.SCALE_GET_FAILED, scale_error="E"),
        wish(30, 5, 5, scale=codes.SCALE_GET_FAILED, scale_error="E"),
        wish(45, 5, 5, scale=codes.SCALE_GET_FAILED, scale_error="F"),
    ]
    lane = noted(SPEC, ticks)
    assert lane.times(3) == lane.times(0) | {"AbleToScale": at(15)}
    assert lane.column("metrics_tick") == [0, 0, 0, 0]
    assert lane.column("observed") == [0, 0, 0, 0]
    # Of the last two only the error differs, which is a change.
    assert lane.written() == [True, True, False, True]


def test_an_unknown_scale_changes_nothing_at_all() -> None:
    ticks = [wish(0, 5, 5), wish(15, 5, 5, scale=codes.SCALE_UNKNOWN)]
    lane = noted(SPEC, ticks)
    assert lane.written() == [True, False]
    first, second = lane.rows
    assert second == first | {"written": 0}


def test_a_condition_that_goes_lets_those_behind_it_move_up() -> None:
    """Without its gate ScaledToZero is removed, wherever it stands."""
    before = HPAStatus(
        0,
        0,
        conditions=tuple(
            Condition(kind, status, reason, "old", "2023-01-01T00:00:00Z")
            for kind, status, reason in [
                ("AbleToScale", "True", "SucceededGetScale"),
                SCALED_TO_ZERO,
                ("ScalingActive", "True", "ValidMetricFound"),
            ]
        ),
    )
    old_ms = 1_672_531_200_000
    lane = noted(
        hpa_spec(EXACT_WISH, low=0),
        [wish(0, 0, 0), wish(15, 0, 0)],
        status=before,
        gates="HPAScaleToZero=false",
    )
    assert lane.times(0) == {"AbleToScale": old_ms, "ScalingActive": at(0)}
    assert lane.column("set_1") == [0, 1]
    assert lane.written() == [True, False]


def test_words_of_the_time_before_stay_until_they_are_said_again() -> None:
    limited = Condition("ScalingLimited", "True", "TooManyReplicas", "old", "2023-01-01T00:00:00Z")
    before = HPAStatus(5, 5, conditions=(limited,))
    ticks = [tick(0, 5, answers=[FAILED]), wish(15, 5, 12), wish(30, 5, 12)]
    lane = noted(SPEC, ticks, status=before)
    assert [row["set_0"] for row in lane.rows] == [FROM_BEFORE, 1, 2]
    # Its status is the same, so its time is the old one.
    assert lane.times(1)["ScalingLimited"] == 1_672_531_200_000


@pytest.mark.parametrize("ambiguous", [False, True])
def test_a_selector_that_cannot_be_used(ambiguous: bool) -> None:
    code = codes.SELECTOR_AMBIGUOUS if ambiguous else codes.SELECTOR_INVALID
    ticks = [
        wish(15 * k, 5, 5, selector=code, selector_error=error) for k, error in enumerate("EEF")
    ]
    lane = noted(SPEC, ticks)
    assert lane.written() == [True, False, True]
    assert lane.column("metrics_tick") == [NO_METRICS] * 3


def test_an_hpa_that_is_gone_keeps_what_it_said_of_scaling() -> None:
    ticks = [wish(0, 5, 5), wish(15, 5, 5, selector=codes.SELECTOR_GONE, selector_error="gone")]
    lane = noted(SPEC, ticks)
    assert lane.column("set_1") == [0, 0]
    assert lane.results.decisions.condition_1.tolist() == [codes.VALID_METRIC_FOUND] * 2
    assert lane.results.decisions.binding[1] == codes.BOUND_BY_SELECTOR
    alone = noted(SPEC, ticks[1:])
    assert alone.results.decisions.condition_1.tolist() == [codes.NO_CONDITION]


def test_another_object_of_the_name_begins_without_a_status() -> None:
    ticks = [wish(0, 5, 7), wish(15, 7, 7), wish(30, 7, 7, recreated=True)]
    lane = noted(SPEC, ticks)
    assert lane.times(2) == dict.fromkeys(
        ["AbleToScale", "ScalingActive", "ScalingLimited"], at(30)
    )
    assert lane.column("last_scale_ms") == [at(0), at(0), NO_TIME_MS]
    assert lane.written() == [True, True, True]
    unread = [ticks[0], wish(15, 7, 7, scale=codes.SCALE_GET_FAILED, recreated=True)]
    lane = noted(SPEC, unread)
    assert list(lane.times(1)) == ["AbleToScale"]
    assert lane.column("metrics_tick") == [0, NO_METRICS]
    assert lane.column("observed") == [0, NO_GENERATION]
    assert lane.results.decisions.desired.tolist() == [7, 0]


# ---- what is written -----------------------------------------------------------------------------


def test_a_status_that_stays_is_not_written() -> None:
    ticks = [wish(0, 5, 5), wish(15, 5, 5), wish(30, 5, 9), wish(45, 9, 9), wish(60, 9, 9)]
    lane = noted(SPEC, ticks)
    assert lane.written() == [True, False, True, True, False]
    assert lane.column("last_scale_ms") == [NO_TIME_MS, NO_TIME_MS, at(30), at(30), at(30)]


def test_another_driving_metric_is_a_change() -> None:
    spec = hpa_spec(EXACT_WISH, external(average="1", name="other"), low=2, high=9)
    ticks = [
        tick(15 * k, 5, answers=[total(1000 * a), total(1000 * b)])
        for k, (a, b) in enumerate([(5, 4), (5, 4), (5, 5), (4, 5)])
    ]
    lane = noted(spec, ticks)
    assert lane.written() == [True, False, True, True]


def test_the_error_of_the_first_failed_metric_is_what_counts() -> None:
    spec = hpa_spec(EXACT_WISH, external(average="1", name="other"), low=2, high=9)
    broken = replace(FAILED, error="F")
    ticks = [
        tick(0, 5, answers=[total(5000), FAILED]),
        tick(15, 5, answers=[total(1000), FAILED]),  # would shrink: nothing is done
        tick(30, 5, answers=[total(1000), FAILED]),
        tick(45, 5, answers=[total(1000), broken]),
        tick(60, 5, answers=[FAILED, broken]),
    ]
    lane = noted(spec, ticks)
    active = lane.results.decisions.condition_1
    assert active[0] == codes.VALID_METRIC_FOUND
    assert set(active[1:].tolist()) == {codes.FAILED_GET_EXTERNAL_METRIC}
    assert lane.written() == [True, True, False, True, True]


def test_a_request_that_nobody_asked_for_is_no_change() -> None:
    """Without any sample it does not matter which pod has no request."""
    answers = [MetricAnswer(samples={name: PodSample(100)}) for name in ("p0", "q0")]
    first = tick(0, 1, [Pod(request=None, phase="Pending")], answers[:1])
    renamed = [replace(pod, name="q0") for pod in first.pods]
    later = replace(first, now_ms=at(15), pods=renamed, answers=answers[1:])
    lane = noted(hpa_spec(resource(50), low=1, high=9), [first, later])
    assert lane.results.metrics.code.tolist() == [codes.METRIC_NO_SAMPLES] * 2
    assert lane.results.details.text[0] != lane.results.details.text[1]
    assert lane.written() == [True, False]


def test_the_size_of_the_target_is_part_of_the_status() -> None:
    lane = noted(SPEC, [wish(0, 5, 5), wish(15, 6, 6), wish(30, 6, 6)])
    assert lane.written() == [True, True, False]


# ---- current metrics -----------------------------------------------------------------------------


def test_metrics_are_null_where_none_was_asked() -> None:
    ticks = [wish(0, 5, 5), wish(15, 1, 5), wish(30, 0, 5), wish(45, 0, 5)]
    lane = noted(SPEC, ticks)
    assert lane.column("metrics_tick") == [0, NO_METRICS, NO_METRICS, NO_METRICS]
    assert lane.written()[3] is False


def test_a_spec_without_metrics_shows_none() -> None:
    none = replace(hpa_spec(low=2, high=9), metrics=())
    lane = noted(none, [tick(0, 5, answers=[]), tick(15, 1, answers=[])])
    assert lane.column("metrics_tick") == [NO_METRICS, NO_METRICS]


def test_a_failed_sync_shows_its_metrics_or_those_before() -> None:
    ticks = [
        wish(0, 5, 5),
        tick(15, 5, answers=[FAILED]),
        wish(30, 5, 5, selector=codes.SELECTOR_MISSING),
        wish(45, 5, 9, scale=codes.SCALE_UPDATE_FAILED),
    ]
    assert noted(SPEC, ticks).column("metrics_tick") == [0, 1, NO_METRICS, 3]
    assert noted(SPEC, ticks, "1.26").column("metrics_tick") == [0, 0, 0, 0]


def test_each_value_of_a_metric_counts() -> None:
    """Average, value, and whether there is an answer at all."""
    spec = hpa_spec(external(average="1"), object_metric(average="1"), low=1, high=9)
    pairs: list[tuple[Any, Any]] = [
        (total(1000), total(1000)),
        (total(1000), total(1000)),
        (total(1001), total(1000)),
        (total(1001), total(1001)),
        (total(1001), FAILED),
        (total(1001), FAILED),
    ]
    ticks = [tick(15 * k, 1, answers=list(pair)) for k, pair in enumerate(pairs)]
    lane = noted(replace(spec, max_replicas=1), ticks)
    assert lane.written() == [True, False, True, True, True, False]


def test_the_same_series_under_another_target_is_the_same_entry() -> None:
    specs = [SPEC, replace(hpa_spec(external(average="2"), low=2, high=9))]
    ticks = [tick(15 * k, 5, answers=[total(10_000)], status=5, spec=k % 2) for k in range(4)]
    lane = noted(specs, ticks, gates="HPAGeneration=false")
    # Only the proposals differ (10 and 5), and with them the conditions and the desired size.
    assert lane.column("metrics_tick") == [0, 1, 2, 3]
    assert noted(specs[1], [replace(t, spec=0) for t in ticks]).written() == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(("k8s", "again"), [("1.26", True), ("1.32", False)])
def test_old_stores_give_totals_back_changed(k8s: str, again: bool) -> None:
    """A total's average came back with a value of 0, so the status was written at every sync."""
    ticks = [wish(15 * k, 5, 5) for k in range(3)]
    assert noted(SPEC, ticks, k8s).written() == [True, again, again]
    by_value = hpa_spec(external(value="1"), low=1, high=9)
    quiet = [tick(15 * k, 1, answers=[total(1000)]) for k in range(3)]
    assert noted(by_value, quiet, k8s).written() == [True, False, False]


def test_metrics_from_before_count_as_others() -> None:
    known = HPAStatus(5, 5, current_metrics=(MetricStatus("External"),))
    forced = [wish(0, 0, 5), wish(15, 0, 5)]
    lane = noted(SPEC, forced, status=known)
    assert lane.column("metrics_tick") == [NO_METRICS, NO_METRICS]
    unread = [wish(0, 5, 5, scale=codes.SCALE_GET_FAILED)]
    assert noted(SPEC, unread, status=known).column("metrics_tick") == [FROM_BEFORE]


# ---- generations ---------------------------------------------------------------------------------

EDITED = [SPEC, replace(SPEC, max_replicas=8)]
EDITS = [wish(0, 5, 5), wish(15, 5, 5, spec=1), wish(30, 5, 5, spec=1)]


def test_an_edit_alone_is_written_where_generations_are_observed() -> None:
    lane = noted(EDITED, EDITS)
    assert lane.column("observed") == [0, 1, 1]
    assert lane.written() == [True, True, False]
    older = noted(EDITED, EDITS, "1.36")
    assert older.column("observed") == [NO_GENERATION] * 3
    assert older.written() == [True, False, False]


def test_specs_of_one_generation_are_one() -> None:
    lane = noted(EDITED, EDITS, generations=[7, 7])
    assert lane.column("observed") == [0, 1, 1]
    assert lane.written() == [True, False, False]


STEADY = HPAStatus(
    0,
    0,
    observed_generation=7,
    conditions=tuple(
        Condition(kind, status, reason, "old", "2023-01-01T00:00:00Z")
        for kind, status, reason in [("AbleToScale", "True", "SucceededGetScale")]
    ),
)


@pytest.mark.parametrize(
    ("gates", "observed", "seen"),
    [
        ("HPAGeneration=true", 0, 0),
        ("HPAGeneration=true", FROM_BEFORE, 0),
        ("HPAGeneration=false", FROM_BEFORE, NO_GENERATION),
    ],
)
def test_the_generation_of_the_status_before(gates: str, observed: int, seen: int) -> None:
    ticks = [
        wish(0, 5, 5, scale=codes.SCALE_GET_FAILED),
        wish(15, 0, 5),
        wish(30, 0, 5),
    ]
    lane = noted(SPEC, ticks, status=STEADY, gates=gates, observed=observed)
    assert lane.column("observed") == [observed, seen, seen]
    assert lane.written()[2] is False
