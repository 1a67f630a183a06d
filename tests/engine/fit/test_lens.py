"""Lenses of a fit: the plant stays as it was recorded, the controller sees it through them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpabatch.engine.fit.overrides import Draws, override
from hpabatch.engine.fit.run import Fit, fit
from hpabatch.engine.fit.workload import FITTED, GIVEN, NOT_IDENTIFIED, RECORDED
from hpabatch.inputs.lenses import Lens
from hpabatch.model.plant import Sight, Signal
from tests.engine.closed_loop import RECORDING, usage_of
from tests.engine.fit.test_run import NAME, fact, limits_of, loop_of, workload
from tests.inputs.parsed import parse_plant_file

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


def test_what_a_pod_uses_at_the_target_is_less_where_more_of_it_is_seen() -> None:
    plain, seen = fitted(), fitted(Lens(NAME, None, scale=1.25))
    base = cpu(plain).base_milli
    assert workload(plain).plant.capacity_milli == 500 - base
    assert workload(seen).plant.capacity_milli == 400 - base


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
