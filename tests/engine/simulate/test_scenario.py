"""Tests of scenario steps: their HPAs, steps that cannot be meant, effects beside work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod, candidates_from_history
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulate.scenario import Applied, apply, plan_scenario
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.inputs.scenarios import Scenario, read_scenario
from hpabatch.model.objects.hpa import (
    CrossVersionObjectReference,
    ExternalMetricSource,
    HPASpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    DIVISIBLE,
    PER_POD,
    TOTAL,
    Event,
    Pipeline,
    Plant,
    Signal,
)
from hpabatch.model.versions import profile_for
from hpabatch.packing.workloads import Workload
from tests.inputs.parsed import parse_scenario

ROOT = Path(__file__).parents[3]
PROFILE = profile_for("1.38")
START = 1_791_331_200_000  # 2026-10-07
HOUR = 3_600_000
END = START + 24 * HOUR

CPU = MetricSpec(
    type="Resource",
    resource=ResourceMetricSource("cpu", MetricTarget("Utilization", average_utilization=60)),
)
DEPTH = MetricSpec(
    type="External",
    external=ExternalMetricSource(MetricIdentifier("depth"), MetricTarget("AverageValue")),
)
SPEC = HPASpec(
    CrossVersionObjectReference("Deployment", "web", "apps/v1"),
    min_replicas=2,
    max_replicas=10,
    metrics=(CPU,),
)


def candidate(name: str, namespace: str = "shop", spec: HPASpec = SPEC) -> Candidate:
    return Candidate("demo", namespace, name, (SpecPeriod(ALWAYS_MS, NEVER_MS, spec),))


FLEET = (
    candidate("cart"),
    candidate("web", spec=replace(SPEC, max_replicas=40)),
    candidate("etl", "batch", replace(SPEC, metrics=(DEPTH,))),
)

WORK = {
    "resource/cpu": DIVISIBLE,
    "resource/memory": AGE,
    "pods/requests": PER_POD,
    "object/Ingress/web/rps": TOTAL,
    "external/depth": BACKLOG,
}


def workload(**changes: object) -> Workload:
    plant = Plant({name: Signal(kind=kind) for name, kind in WORK.items()})
    made = Workload(
        cluster="demo",
        namespace="shop",
        hpa="web",
        plant=plant,
        work={name: np.arange(1, 1441, dtype=np.int64) * 100 for name in WORK},
        work_start_ms=START,
        resolution_ms=60_000,
        initial=3,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def run(
    text: str,
    made: Workload | None = None,
    periods: tuple[SpecPeriod, ...] = FLEET[1].periods,
) -> Applied:
    return apply(parse_scenario(text), made or workload(), periods, START, END, profile=PROFILE)


def planned(text: str, fleet: Sequence[Candidate] = FLEET) -> tuple[Scenario, ...]:
    return plan_scenario(parse_scenario(text, "scenario s.yaml"), fleet, START, END)


def test_steps_go_to_the_hpas_that_they_are_for() -> None:
    cart, web, etl = planned(
        """
- rollout: 1h
- rollout: 2h
  hpa: shop/*
- rollout: 3h
  where: max_replicas > 20
- rollout: 4h
  hpa: [demo/batch/*, shop/cart]
  where: namespace <> 'shop'
"""
    )

    def hours(scenario: Scenario) -> list[str]:
        return [str(step.action.times.at[0]) for step in scenario.steps]  # type: ignore[union-attr]

    assert hours(cart) == ["1h", "2h"]
    assert hours(web) == ["1h", "2h", "3h"]
    assert hours(etl) == ["1h", "4h"]


REFUSED = {
    "- rollout: 1d": "s.yaml, line 1: steps[0].rollout: 1d (2026-10-08T00:00:00Z) is outside the "
    "run, which is from 2026-10-07T00:00:00Z to 2026-10-08T00:00:00Z",
    "- rollout: 2026-10-06T23:59:59Z": "steps[0].rollout: 2026-10-06T23:59:59Z is outside the run",
    "- growth: {factor: 2, from: 25h}": "steps[0].growth: 1d1h (2026-10-08T01:00:00Z) is outside",
    "- set: {minReplicas: 2, at: 2d}": "steps[0].set: 2d (2026-10-09T00:00:00Z) is outside the run",
    "- repeat: {period: day, at: 2d}": "steps[0].repeat: 2d (2026-10-09T00:00:00Z) is outside the",
    "- {growth: 2, hpa: shop/wbe}": "steps[0].hpa: shop/wbe matches none of 3 HPAs, such as shop/c",
    "- {growth: 2, where: max_replicas > 99}": "steps[0].where: 'max_replicas > 99' is true for "
    "none of 3 HPAs; widen it",
    "- {growth: 2, where: max_replicas > 20, hpa: '*/cart'}": "none of 3 HPAs where hpa matches; ",
    "- {growth: 2, where: replicas > 3}": "give a condition on cluster, namespace, hpa, target_k",
    "- {growth: 2, where: max_replicas}": "expected a condition, got a number",
    "- {growth: 2, where: ')('}": "give a condition on cluster",
    "- {growth: 2, signals: external/depht}": "steps[0].growth: no HPA that this is for has a "
    "signal external/depht; there are external/depth, resource/cpu, resource/memory",
    "- {growth: 2, signals: external/*, hpa: shop/*}": "no HPA that this is for has a sig",
    "- repeat: 12h\n- repeat: 6h": "line 2: steps[1].repeat: scenario s.yaml, line 1: "
    "steps[0].repeat repeats the same work for the same HPA; keep one",
    "- set: {minReplicas: 2}\n- set: {minReplicas: 3, at: 0s}": "steps[0].set sets the same bou",
    "- scale: {replicas: 3, at: 1h}\n- scale: {replicas: 4, at: 2026-10-07T01:00:00Z}": "scales at "
    "2026-10-07T01:00:00Z too for the same HPA; keep one",
    "- rollout: 2h\n- rollout: {at: 1h, every: 1h}": "begins a rollout at 2026-10-07T02:00:00Z too",
    "- spike: {at: 1h, for: 1h, factor: 2}\n- repeat: 12h": "steps[1].repeat: it would overwrite "
    "what scenario s.yaml, line 1: steps[0].spike does after the recorded work; put it above that",
    "- growth: {factor: 2, ramp: 1h}\n- repeat: 12h": "put it above that",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(text)
    assert str(caught.value).startswith("scenario s.yaml, line ")
    assert REFUSED[text] in str(caught.value)


def test_growth_is_of_work_and_not_of_the_base_or_of_age() -> None:
    before = workload()
    found = run("- growth: 2", before).workload
    for name, kind in WORK.items():
        factor = 1 if kind == AGE else 2
        assert (found.work[name] == before.work[name] * factor).all()
    assert found.plant is before.plant
    only = run("- growth: 2\n  signals: [external/*, resource/memory]", before).workload
    changed = {name for name in WORK if (only.work[name] != before.work[name]).any()}
    assert changed == {"external/depth"}


def test_a_step_without_a_signal_is_noted() -> None:
    found = run("- growth: 2\n  signals: resource/memory")
    assert found.notes == (
        "scenario, line 1: steps[0].growth: shop/web: it has no such signal with work; nothing is "
        "changed",
    )
    empty = {name: values[:0] for name, values in workload().work.items()}
    assert len(run("- growth: 2", workload(work=empty)).notes) == 1


def test_events_come_in_order_of_time() -> None:
    found = run(
        """
- scale: {replicas: 7, at: [5h, 2h]}
- rollout: {at: 1h, every: 8h}
- lose: {share: 12.5%, at: 5h}
"""
    )
    assert found.events == (
        Event(START + HOUR, "rollout"),
        Event(START + 2 * HOUR, "scale", 7),
        Event(START + 5 * HOUR, "scale", 7),
        Event(START + 5 * HOUR, "lose", 125),
        Event(START + 9 * HOUR, "rollout"),
        Event(START + 17 * HOUR, "rollout"),
    )


def test_outages_are_gaps_of_pipelines() -> None:
    at = [START + k * HOUR for k in range(25)]
    recorded = Pipeline(lag_ms=5, gaps_ms=((at[3], at[4]), (at[20], at[21])))
    plant = replace(workload().plant, pipelines={"resource": recorded})
    found = run(
        """
- outage: {api: [resource, external], at: 1h, for: 30m, every: 12h}
- outage: {api: resource, at: 4h, for: 1h}
- outage: {api: resource, at: 150m, for: 45m}
""",
        workload(plant=plant),
    )
    half = HOUR // 2
    assert found.workload.plant.pipelines["resource"] == Pipeline(
        lag_ms=5,
        gaps_ms=(
            (at[1], at[1] + half),
            (at[2] + half, at[5]),
            (at[13], at[13] + half),
            (at[20], at[21]),
        ),
    )
    assert found.workload.plant.pipelines["external"].gaps_ms == (
        (at[1], at[1] + half),
        (at[13], at[13] + half),
    )
    assert set(found.workload.plant.pipelines) == {"resource", "external"}
    assert plant.pipelines == {"resource": recorded}


def bounds(periods: Sequence[SpecPeriod]) -> list[tuple[int, int, int | None, int]]:
    """Return (hours from, hours to, min, max) of periods; for ever is far away."""
    return [
        (
            (max(p.from_ms, START - HOUR) - START) // HOUR,
            (min(p.to_ms, END + HOUR) - START) // HOUR,
            p.spec.min_replicas,
            p.spec.max_replicas,
        )
        for p in periods
    ]


def test_bounds_are_set_from_a_time_on() -> None:
    assert bounds(run("- set: {minReplicas: 5}").periods) == [(-1, 0, 2, 40), (0, 25, 5, 40)]
    periods = (
        SpecPeriod(START, START + 6 * HOUR, SPEC),
        SpecPeriod(START + 6 * HOUR, NEVER_MS, replace(SPEC, max_replicas=20)),
    )
    found = run("- set: {maxReplicas: 30, at: 4h, for: 6h}", periods=periods)
    assert bounds(found.periods) == [(0, 4, 2, 10), (4, 6, 2, 30), (6, 10, 2, 30), (10, 25, 2, 20)]
    at_the_edge = run("- set: {maxReplicas: 30, at: 6h}", periods=periods)
    assert bounds(at_the_edge.periods) == [(0, 6, 2, 10), (6, 25, 2, 30)]
    both = run("- set: {minReplicas: 3}\n- set: {minReplicas: 4, at: 3h, for: 1h}", periods=periods)
    assert bounds(both.periods) == [(0, 3, 3, 10), (3, 4, 4, 10), (4, 6, 3, 10), (6, 25, 3, 20)]
    assert found.periods[1].spec.metrics == SPEC.metrics


def test_an_edit_that_the_api_server_refuses_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        run("- set: {minReplicas: 50, at: 6h}")
    assert str(caught.value) == (
        "scenario, line 1: steps[0].set: shop/web: the API server would refuse the edit: "
        "spec.maxReplicas: Invalid value: 40: must be greater than or equal to `minReplicas`; set "
        "both bounds"
    )
    assert bounds(run("- set: {minReplicas: 50, maxReplicas: 60}").periods)[1][2:] == (50, 60)


def test_a_repeated_day_fills_the_run() -> None:
    short = workload(
        work={name: values[:360] for name, values in workload().work.items()}, hpa="short"
    )
    found = run("- repeat: 2h", short)
    cpu = found.workload.work["resource/cpu"]
    assert cpu.size == 1440
    assert cpu[:360].tolist() == [100 * k for k in range(1, 361)]
    assert cpu[360:480].tolist() == [100 * k for k in range(241, 361)]
    assert cpu[1320:].tolist() == [100 * k for k in range(241, 361)]
    assert found.notes == ()
    again = run("- repeat: {period: 1h, from: 1h, at: 3h}", short).workload.work["resource/cpu"]
    assert again[180:240].tolist() == [100 * k for k in range(61, 121)]
    with pytest.raises(RefusedError) as caught:
        run("- repeat: day", short)
    assert str(caught.value) == (
        "scenario, line 1: steps[0].repeat: shop/short: 1d from 2026-10-06T06:00:00Z on is not "
        "within the work of resource/cpu, which is from 2026-10-07T00:00:00Z to "
        "2026-10-07T06:00:00Z: repeat a shorter period"
    )
    nothing = run("- repeat: day")
    assert nothing.notes[0].endswith("its work reaches to the run's end; nothing is repeated")


def test_work_that_is_too_large_refuses_the_hpa() -> None:
    huge = {name: np.full(3, 2**52, np.int64) for name in WORK}
    with pytest.raises(RefusedError, match=r"^scenario, line 1: steps\[0\].growth: shop/web: work"):
        run("- growth: 3", workload(work=huge))


@pytest.mark.parametrize("name", ["peak.yaml", "outage.yaml", "rollout.yaml"])
def test_the_examples_are_for_the_demo(name: str) -> None:
    history = open_history(ROOT / "data" / "demo")
    fleet, skipped = candidates_from_history(history.read("hpas"), lambda _: PROFILE)
    assert not skipped
    scenario = read_scenario(ROOT / "data" / "scenarios" / name)
    plans = plan_scenario(scenario, fleet, START, END)
    assert len(plans) == 31
    for step in scenario.steps:
        assert any(step in plan.steps for plan in plans)
    for candidate, plan in zip(fleet, plans, strict=True):
        made = workload(hpa=candidate.name, namespace=candidate.namespace)
        found = apply(plan, made, candidate.periods, START, END, profile=PROFILE)
        assert found.notes == ()
