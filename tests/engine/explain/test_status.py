"""Statuses, events and errors read out of a replay, in the controller's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.results import empty_results
from hpabatch.model.objects.hpa import HPASpec, HPAStatus
from hpabatch.model.versions import override_gates, profile_for
from hpabatch.packing.memory import seed_status
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from tests.packed import LaneView, TickView, make_memory, pack_fleet
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    at,
    hpa_spec,
    tick,
    wish,
)

SPEC = hpa_spec(EXACT_WISH, low=2, high=9)


class Told:
    """One HPA `prod/web`, replayed, with what can be read of it."""

    def __init__(
        self,
        specs: HPASpec | Sequence[HPASpec],
        ticks: Sequence[TickView],
        k8s: str = "1.38",
        before: HPAStatus | None = None,
        gates: str = "",
        generations: dict[int, int] | None = None,
    ) -> None:
        profile, texts = override_gates(profile_for(k8s), gates), Texts()
        view = LaneView([specs] if isinstance(specs, HPASpec) else list(specs), ticks)
        fleet = pack_fleet([view], NO_TOLERANCE, profile, texts)
        memory, status_memory = make_memory(fleet, recorded=False), make_status_memory(fleet)
        before = before or HPAStatus()
        seed_status(memory, 0, before)
        seed_status_memory(status_memory, 0, before)
        results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
        replay_fleet(fleet, memory, False, results)
        statuses = empty_statuses(fleet.ticks.size)
        status_fleet(
            fleet, results, status_memory, fleet.lanes.last_tick.astype(np.int64), statuses
        )
        self.reader = StatusReader(fleet, results, statuses, view.specs, texts, profile)
        self.words = LaneWords("prod", before, "web", generations or {})

    def status(self, t: int = -1) -> HPAStatus:
        return self.reader.status(self.words, t % self.reader.statuses.size)

    def conditions(self, t: int = -1) -> dict[str, tuple[str, str, str | None]]:
        """Return (reason, message, time) of each condition."""
        return {
            c.type: (c.reason or "", c.message or "", c.last_transition_time)
            for c in self.status(t).conditions
        }

    def events(self, t: int = 0, unwritten: str = "") -> list[tuple[str, str, str]]:
        found = self.reader.events(self.words, t, unwritten)
        assert all(e.first_ms == e.last_ms == at(15 * t) and e.count == 1 for e in found)
        return [(e.type, e.reason, e.message) for e in found]

    def error(self, t: int = 0) -> str | None:
        return self.reader.error(self.words, t)


# ---- events and errors ---------------------------------------------------------------------------

COMPUTE = (
    "failed to compute desired number of replicas based on listed metrics for Deployment/prod/web: "
)


def test_no_metrics_at_all() -> None:
    told = Told(replace(SPEC, metrics=()), [tick(0, 5, answers=[])])
    text = "invalid metrics (0 invalid out of 0), first error is: %!v(<nil>)"
    assert told.events() == [("Warning", "FailedComputeMetricsReplicas", text)]
    assert told.error() == COMPUTE + text


def test_an_hpa_that_is_gone_has_an_error_and_no_condition() -> None:
    told = Told(SPEC, [wish(0, 5, 5, selector=codes.SELECTOR_GONE, selector_error="gone")])
    assert told.events() == [("Warning", "FailedComputeMetricsReplicas", "gone")]
    assert told.error() == f"{COMPUTE}gone"
    assert list(told.conditions()) == ["AbleToScale"]


def test_old_versions_take_the_error_of_a_selector_for_a_format() -> None:
    view = wish(0, 5, 5, selector=codes.SELECTOR_INVALID, selector_error="100% y")
    told = Told(SPEC, [view], "1.26")
    raw = "couldn't convert selector into a corresponding internal selector object: 100% y"
    printed = raw.replace("% y", "%!y(MISSING)")
    assert told.events() == [
        ("Warning", "InvalidSelector", raw),
        ("Warning", "FailedComputeMetricsReplicas", printed),
    ]
    assert told.conditions()["ScalingActive"][1] == printed


def test_a_scale_that_was_not_recorded_says_nothing() -> None:
    told = Told(SPEC, [wish(0, 5, 5, scale=codes.SCALE_UNKNOWN)])
    assert told.events() == []
    assert told.error() is None
    assert told.status().conditions == ()
