"""Tests of plant files: stated values go before fitted ones, and the result says so."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from decimal import Decimal, localcontext
from hashlib import blake2b
from pathlib import Path

import pytest

from hpabatch.engine.fit.overrides import (
    MAX_FAILURES,
    Draws,
    failures,
    override,
    plan_overrides,
    signal_statement,
)
from hpabatch.engine.fit.workload import GIVEN, NOT_IDENTIFIED, Fact
from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod, candidates_from_history
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.inputs.plants import (
    PipelineOverride,
    PodsOverride,
    SignalOverride,
    read_plant_file,
)
from hpabatch.model.objects.hpa import HPASpec, MetricSpec, ResourceMetricSource
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    DIVISIBLE,
    Pipeline,
    Plant,
    Pods,
    Signal,
)
from hpabatch.model.versions import profile_for
from tests.inputs.parsed import parse_plant_file

ROOT = Path(__file__).parents[3]
DRAWS = Draws(seed=7, name="demo/shop/web", served_ms=10 * 86_400_000)
DAY = 86_400_000
MI = 2**20

PLANT = Plant(
    signals={
        "resource/memory": Signal(AGE, base_milli=5, ceiling_milli=9),
        "resource/cpu": Signal(DIVISIBLE, base_milli=50, ceiling_milli=1000, request_milli=500),
        "external/depth": Signal(BACKLOG, api="external", rate_milli=4000),
    },
    pods=Pods(termination_ms=1000),
    pipelines={"resource": Pipeline(lag_ms=1, gaps_ms=((1, 2),))},
    capacity_milli=77,
    first_draw=3,
)


def given(text: str, plant: Plant = PLANT, draws: Draws = DRAWS) -> tuple[Plant, dict[str, Fact]]:
    """Return the plant with a plant file, and its facts by name (each must be there once)."""
    found, facts = override(plant, parse_plant_file(text), draws)
    names = [fact.name for fact in facts]
    assert len(names) == len(set(names))
    return found, {fact.name: fact for fact in facts}


def test_what_is_stated_of_signals() -> None:
    found, facts = given(
        """
- signals:
    resource/*: {base: 120m}
    resource/cpu: {ceiling: 2, startup: 500m, overload: queue, queue: 3, request: 400m}
    resource/memory: {base: 200Mi, growth: 10Mi/h, ceiling: none}
- signals:
    external/depth: {kind: backlog, rate: 300/m, queue: 40}
    external/nothing: {kind: total}
"""
    )
    assert found.signals == {
        "resource/memory": Signal(
            AGE, base_milli=200 * MI * 1000, growth_milli_per_hour=10 * MI * 1000
        ),
        "resource/cpu": Signal(
            DIVISIBLE,
            base_milli=120,
            ceiling_milli=2000,
            startup_milli=500,
            overload="queue",
            queue_milli=3000,
            request_milli=400,
        ),
        "external/depth": Signal(BACKLOG, api="external", rate_milli=5000, queue_milli=40_000),
    }
    assert replace(found, signals=PLANT.signals) == PLANT

    def number(name: str, value: float, unit: str) -> Fact:
        return Fact(name, value, unit, None, None, GIVEN)

    def word(name: str, text: str) -> Fact:
        return Fact(name, None, "", None, None, GIVEN, text)

    expected = [
        number("signals.resource/memory.base", 200 * MI, "bytes"),
        number("signals.resource/memory.growth", 10 * MI, "bytes/h"),
        word("signals.resource/memory.ceiling", "none"),
        number("signals.resource/cpu.base", 0.12, "cores"),
        number("signals.resource/cpu.ceiling", 2.0, "cores"),
        number("signals.resource/cpu.startup", 0.5, "cores"),
        word("signals.resource/cpu.overload", "queue"),
        number("signals.resource/cpu.queue", 3.0, "cores"),
        number("signals.resource/cpu.request", 0.4, "cores"),
        word("signals.external/depth.kind", "backlog"),
        number("signals.external/depth.rate", 5.0, "/s"),
        number("signals.external/depth.queue", 40.0, ""),
    ]
    assert facts == {fact.name: fact for fact in expected}


def test_what_is_stated_of_pods_and_pipelines() -> None:
    found, facts = given(
        """
pods:
  startup: [40s, {scheduling: 90s, starting: 30s}]
  reaction: 1s
  termination: 10s
  serves_while_terminating: true
  capacity: 20
  removal: statefulset
  shares: [1, 1.2]
  costs: [0, -100]
  restart: 20s
  surge: 50%
  unavailable: 0%
  initial_age: 2h
pipelines:
  resource: {interval: 60s, phase: 7s, window: 30s, lag: 2s, first_sample: 20s, max_age: 5m}
  external: {lag: 1500ms}
"""
    )
    assert found.pods == Pods(
        startup_ms=((1000, 39_000), (90_000, 30_000)),
        reaction_ms=1000,
        termination_ms=10_000,
        serves_while_terminating=True,
        capacity=20,
        removal="statefulset",
        shares=(1000, 1200),
        costs=(0, -100),
        restart_ms=20_000,
        surge_pct=50,
        unavailable_pct=0,
        initial_age_ms=7_200_000,
    )
    assert found.pipelines == {
        "resource": Pipeline(60_000, 7000, 30_000, 2000, 20_000, 300_000, gaps_ms=((1, 2),)),
        "external": Pipeline(lag_ms=1500),
    }
    assert facts["pods.startup"] == Fact(
        "pods.startup", 80.0, "s", 40.0, 120.0, GIVEN, "2 equally likely"
    )
    assert facts["pods.capacity"] == Fact("pods.capacity", 20.0, "pods", None, None, GIVEN)
    assert facts["pods.surge"] == Fact("pods.surge", 50.0, "%", None, None, GIVEN)
    assert facts["pods.shares"].note == "1, 1.2"
    assert facts["pods.costs"].note == "0, -100"
    assert facts["pods.removal"].note == "statefulset"
    assert facts["pods.serves_while_terminating"].note == "true"
    assert facts["pipelines.external.lag"] == Fact(
        "pipelines.external.lag", 1.5, "s", None, None, GIVEN
    )
    assert {name.rpartition(".")[0] for name in facts} == {
        "pods",
        "pipelines.resource",
        "pipelines.external",
    }
    assert len(facts) == 12 + 7


def test_every_field_of_a_statement_makes_a_fact() -> None:
    """A parameter that is added to the plant files must be told, too."""
    from hpabatch.engine.fit import overrides

    told = {*overrides._SIGNAL_NAMES, "no_ceiling"}
    assert told == {f.name for f in fields(SignalOverride)}
    told = {*overrides._PODS_NAMES, "startup_ms", "shares", "costs", "no_failures"}
    assert told == {f.name for f in fields(PodsOverride)}
    own = {f.name for f in fields(Pipeline)}
    assert {f.name for f in fields(PipelineOverride)} == own - {"gaps_ms"}


def test_later_entries_win_parameter_by_parameter() -> None:
    found, facts = given(
        """
- pods: {termination: 10s, restart: 5s}
  signals: {resource/cpu: {ceiling: none, base: 10m}}
  capacity: 1
- pods: {termination: 20s}
  signals: {"*/cpu": {ceiling: 3}}
  pipelines: {resource: {lag: 5s, window: 40s}}
- pipelines: {resource: {lag: 6s}}
  capacity: 2
"""
    )
    assert (found.pods.termination_ms, found.pods.restart_ms) == (20_000, 5000)
    assert found.signals["resource/cpu"].ceiling_milli == 3000
    assert found.signals["resource/cpu"].base_milli == 10
    assert found.pipelines["resource"].lag_ms == 6000
    assert found.pipelines["resource"].window_ms == 40_000
    assert found.capacity_milli == 2000
    assert facts["pods.termination"].value == 20.0


@pytest.mark.parametrize(
    ("text", "only", "milli", "unit", "note"),
    [
        ("400m", "", 400, "cores", "resource/cpu"),
        ("80% of ceiling", "", 750, "cores", "80% of ceiling of resource/cpu"),
        ("33.3% of request", "", 116, "cores", "33.3% of request of resource/cpu"),
        ("75% of rate", "external/depth", 3000, "/s", "75% of rate of external/depth"),
        ("5/s", "external/depth", 5000, "/s", "external/depth"),
        ("10% of rate", "", None, "", "10% of rate: the rate of resource/cpu is not known"),
        ("5% of ceiling", "", None, "", "5% of ceiling of resource/cpu is no more than its base"),
        ("1", "resource/memory", None, "", "it has neither a divisible signal nor a backlog"),
    ],
)
def test_a_capacity_and_what_it_is_of(
    text: str, only: str, milli: int | None, unit: str, note: str
) -> None:
    signals = {name: s for name, s in PLANT.signals.items() if only in ("", name)}
    plant = replace(PLANT, signals=signals)
    found, facts = given(f"capacity: {text}", plant)
    assert found == replace(plant, capacity_milli=77 if milli is None else milli)
    value, source = (None, NOT_IDENTIFIED) if milli is None else (milli / 1000, GIVEN)
    assert facts["capacity"] == Fact("capacity", value, unit, None, None, source, note)


TWO = Pods(shares=(1000, 1100), costs=(4, 4))


@pytest.mark.parametrize(
    ("text", "before", "shares", "costs"),
    [
        # A single one counts for all classes.
        ("costs: [5, 6, 7]", Pods(), (1000, 1000, 1000), (5, 6, 7)),
        ("shares: [1, 2]", Pods(), (1000, 2000), (0, 0)),
        ("costs: 5", TWO, (1000, 1100), (5, 5)),
        ("shares: 1", TWO, (1000, 1000), (4, 4)),
        # Stated ones go before fitted ones.
        ("costs: [1, 2, 3]", TWO, (1000, 1000, 1000), (1, 2, 3)),
        ("shares: [1, 2, 3]", TWO, (1000, 2000, 3000), (0, 0, 0)),
        ("restart: 1s", TWO, (1000, 1100), (4, 4)),
    ],
)
def test_classes_of_pods(
    text: str, before: Pods, shares: tuple[int, ...], costs: tuple[int, ...]
) -> None:
    pods = given(f"pods: {{{text}}}", replace(PLANT, pods=before))[0].pods
    assert (pods.shares, pods.costs) == (shares, costs)


def test_classes_that_disagree_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"demo/shop/web has 2 classes of pods by .* and 3 by"):
        given("- pods: {costs: [1, 2, 3]}\n- pods: {shares: [1, 2]}")


def test_failures_are_the_same_numbers_everywhere() -> None:
    expected = failures(2 * DAY, DRAWS)
    with localcontext() as context:
        context.prec = 3
        assert failures(2 * DAY, DRAWS) == expected
        assert Decimal(1) / Decimal(3) == Decimal("0.333")
    assert expected[:3] == (360_711_116, 437_759_099, 572_017_707)
    hashed = blake2b(b"7/demo/shop/web/0", digest_size=8).digest()
    share = (int.from_bytes(hashed) + 1) / 2**64
    assert abs(-math.log(share) * 2 * DAY - expected[0]) < 1


def test_too_many_failures_are_refused() -> None:
    assert failures(DAY, replace(DRAWS, served_ms=0)) == ()
    with pytest.raises(RefusedError, match=r"demo/shop/web: an mtbf of 0\.5 h means more than 100"):
        failures(1_800_000, replace(DRAWS, served_ms=MAX_FAILURES * 1_800_000 + 1))


def test_failures_can_be_stated_away() -> None:
    plant = replace(PLANT, pods=Pods(failure_at_ms=(1, 2)))
    found, facts = given("pods: {mtbf: none}", plant)
    assert found.pods.failure_at_ms == ()
    assert facts["pods.mtbf"].note == "none"
    assert given("pods: {restart: 1s}", plant)[0].pods.failure_at_ms == (1, 2)
    found, facts = given("- pods: {mtbf: none}\n- pods: {mtbf: 1d}", plant)
    assert found.pods.failure_at_ms == failures(DAY, DRAWS)
    assert facts["pods.mtbf"].value == 86_400.0


CPU = MetricSpec(type="Resource", resource=ResourceMetricSource("cpu"))
FLEET = tuple(
    Candidate("demo", namespace, name, (SpecPeriod(ALWAYS_MS, NEVER_MS, HPASpec(metrics=(CPU,))),))
    for namespace, name in (("shop", "web"), ("shop", "cart"), ("batch", "etl"))
)


def test_what_matches_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^f, line 1: \[0\].hpa: shop/wb matches none of 3 HPAs"):
        plan_overrides(parse_plant_file("- {hpa: shop/wb, capacity: 1}", "f"), FLEET)
    misspelt = parse_plant_file("signals: {resource/cpuu: {base: 1}}", "f")
    with pytest.raises(UsageError, match=r"^f, line 1: signals.resource/cpuu: no HPA that this is"):
        plan_overrides(misspelt, FLEET)
    plan_overrides(parse_plant_file("signals: {resource/memory: {base: 1}}"), FLEET)


def test_the_example_is_for_the_demo() -> None:
    history = open_history(ROOT / "data" / "demo")
    fleet, _ = candidates_from_history(history.read("hpas"), lambda _: profile_for("1.38"))
    entries = read_plant_file(ROOT / "data" / "plant.yaml")
    chosen = plan_overrides(entries, fleet)
    assert {entry for theirs in chosen for entry in theirs} == set(entries)
    named = {candidate.name: theirs for candidate, theirs in zip(fleet, chosen, strict=True)}
    backlog = signal_statement(named["webhooks"], "external/queue_messages_ready{queue=webhooks}")
    assert (backlog.kind, backlog.rate_milli) == (BACKLOG, 500)
