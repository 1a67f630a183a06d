"""An HPA's status from tick to tick: what is set, since when, and whether it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from hpabatch.model.objects.hpa import Condition, HPASpec, HPAStatus
from hpabatch.model.versions import override_gates, profile_for
from hpabatch.packing.memory import seed_status
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from hpabatch.rules.status import is_true
from tests.packed import LaneView, TickView, make_memory, pack_fleet
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    Json,
    at,
    external,
    hpa_spec,
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


# ---- conditions ----------------------------------------------------------------------------------


def test_the_status_of_every_condition() -> None:
    for code, words in codes.CONDITIONS.items():
        assert bool(is_true(code)) is (words.status == "True"), words
    for kind in codes.CONDITION_TYPES.values():
        assert is_true((kind << 4) + codes.OTHER_TRUE)
        assert not is_true((kind << 4) + codes.OTHER_FALSE)


def test_an_unknown_scale_changes_nothing_at_all() -> None:
    ticks = [wish(0, 5, 5), wish(15, 5, 5, scale=codes.SCALE_UNKNOWN)]
    lane = noted(SPEC, ticks)
    assert lane.written() == [True, False]
    first, second = lane.rows
    assert second == first | {"written": 0}


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


# ---- current metrics -----------------------------------------------------------------------------


@pytest.mark.parametrize(("k8s", "again"), [("1.26", True), ("1.32", False)])
def test_old_stores_give_totals_back_changed(k8s: str, again: bool) -> None:
    """A total's average came back with a value of 0, so the status was written at every sync."""
    ticks = [wish(15 * k, 5, 5) for k in range(3)]
    assert noted(SPEC, ticks, k8s).written() == [True, again, again]
    by_value = hpa_spec(external(value="1"), low=1, high=9)
    quiet = [tick(15 * k, 1, answers=[total(1000)]) for k in range(3)]
    assert noted(by_value, quiet, k8s).written() == [True, False, False]


# ---- generations ---------------------------------------------------------------------------------

EDITED = [SPEC, replace(SPEC, max_replicas=8)]
EDITS = [wish(0, 5, 5), wish(15, 5, 5, spec=1), wish(30, 5, 5, spec=1)]


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
