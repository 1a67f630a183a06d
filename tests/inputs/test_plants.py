"""Plant files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.inputs.document_kinds import Selector
from hpabatch.inputs.plants import (
    CapacityShare,
    PipelineOverride,
    PlantOverride,
    PodsOverride,
    SignalOverride,
    read_plant_file,
)
from tests.importers.mutations import refusal
from tests.inputs.parsed import parse_plant_file

DATA = Path(__file__).parents[2] / "data"
MI = 2**20 * 1000

FULL = """
- hpa: [shop/*, payments/api]
  where: max_replicas > 5
  signals:
    resource/cpu: {kind: divisible, base: 120m, ceiling: 2, startup: 500m, overload: queue,
                   queue: 3, request: 250m}
    external/depth{queue=orders}: {kind: backlog, rate: 300/m, queue: 40}
    resource/memory: {kind: age, base: 200Mi, growth: 10Mi/h, ceiling: none}
  pods:
    startup: [40s, {scheduling: 90s, starting: 30s}]
    reaction: 1s
    termination: 10s
    serves_while_terminating: true
    capacity: 20
    removal: statefulset
    shares: [1, 1.2]
    costs: [0, -100]
    mtbf: 2d
    restart: 20s
    surge: 50%
    unavailable: 0%
    initial_age: 2h
  pipelines:
    resource: {interval: 60s, phase: 7s, window: 30s, lag: 2s, first_sample: 20s, max_age: 5m}
    external: {lag: 5s}
  capacity: 80% of ceiling
- capacity: 5/s
"""


def test_every_key_means_what_the_page_says() -> None:
    first, second = parse_plant_file(FULL)
    assert first.selector == Selector(("shop/*", "payments/api"), "max_replicas > 5")
    assert first.signals == (
        (
            "resource/cpu",
            SignalOverride(
                kind="divisible",
                base_milli=120,
                ceiling_milli=2000,
                no_ceiling=False,
                startup_milli=500,
                overload="queue",
                queue_milli=3000,
                request_milli=250,
            ),
        ),
        (
            "external/depth{queue=orders}",
            SignalOverride(kind="backlog", rate_milli=5000, queue_milli=40_000),
        ),
        (
            "resource/memory",
            SignalOverride(
                kind="age", base_milli=200 * MI, growth_milli_per_hour=10 * MI, no_ceiling=True
            ),
        ),
    )
    assert first.pods == PodsOverride(
        startup_ms=((1000, 39_000), (90_000, 30_000)),
        reaction_ms=1000,
        termination_ms=10_000,
        serves_while_terminating=True,
        capacity=20,
        removal="statefulset",
        shares=(1000, 1200),
        costs=(0, -100),
        mtbf_ms=172_800_000,
        no_failures=False,
        restart_ms=20_000,
        surge_pct=50,
        unavailable_pct=0,
        initial_age_ms=7_200_000,
    )
    assert first.pipelines == (
        ("resource", PipelineOverride(60_000, 7000, 30_000, 2000, 20_000, 300_000)),
        ("external", PipelineOverride(lag_ms=5000)),
    )
    assert first.capacity == CapacityShare(800, "ceiling")
    assert second == PlantOverride(capacity=5000)
    assert second.place == "plant file, line 27: [1]"


def test_short_forms() -> None:
    assert parse_plant_file("capacity: 300m") == (PlantOverride(capacity=300),)
    (entry,) = parse_plant_file("pods: {startup: 500ms, shares: 2, mtbf: none}")
    assert entry.pods == PodsOverride(startup_ms=((500, 0),), shares=(2000,), no_failures=True)
    (entry,) = parse_plant_file("signals: {'*': {base: 1}}\ncapacity: 12.5% of rate")
    assert entry.signals == (("*", SignalOverride(base_milli=1000)),)
    assert entry.capacity == CapacityShare(125, "rate")


@pytest.mark.parametrize(
    ("rate", "milli"), [("5/s", 5000), ("300/m", 5000), ("1/h", 0), ("2/h", 1), ("1.5k / d", 17)]
)
def test_rates_are_rounded_half_up_to_thousandths_a_second(rate: str, milli: int) -> None:
    text = f"signals: {{external/q: {{rate: {rate}}}}}"
    if milli:
        assert parse_plant_file(text)[0].signals[0][1].rate_milli == milli
    else:
        assert "larger, got '1/h' (" in refusal(parse_plant_file, text)


def test_the_example_is_fine() -> None:
    assert len(read_plant_file(DATA / "plant.yaml")) == 4
