"""Kinds of signals: decided where changes of replicas leave room for one only, else guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hpabatch.engine.fit.kinds import (
    FEWEST_TOLD,
    Kind,
    Question,
    guessed_kind,
    kind_of,
    kind_of_pods,
    kind_of_total,
    shown_kind,
)
from hpabatch.engine.fit.run import Fit, fit
from hpabatch.engine.fit.stats import Interval
from hpabatch.engine.fit.usage import Usage
from hpabatch.engine.fit.workload import FITTED, GUESSED
from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER
from hpabatch.inputs.plants import SignalOverride
from hpabatch.model.plant import BACKLOG, DIVISIBLE, PER_POD, TOTAL
from tests.engine.closed_loop import CPU, F64, RECORDING, STEP_MS, Loop, demand, run_loop, usage_of
from tests.engine.closed_loop import wandering as wander

Json = dict[str, Any]
SEEDS = (2, 4)  # of 55 to 60 of each kind none was wrong
RATE_MILLI = 500.0


def pods(name: str) -> Json:
    target = {"type": "AverageValue", "averageValue": "20"}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def external(name: str) -> Json:
    target = {"type": "AverageValue", "averageValue": "20"}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def driven(seed: int) -> Usage:
    """Return a loop on cpu, with values that hang on the pods in every way there is."""
    rng = np.random.default_rng(1000 + seed)
    loop = run_loop(seed, 100)
    steps = loop.ready.size
    noise = 1 + rng.normal(size=steps) * 0.03
    return usage_of(
        loop,
        (CPU, pods("shared"), pods("own"), external("outer"), external("mean"), external("held")),
        shared=loop.work / loop.ready * noise,
        own=20_000 * np.exp(wander(rng, steps, 1800, 0.2)) * noise,
        outer=loop.work * 3 * noise,
        mean=loop.work / loop.ready * noise,
        held=20_000 * loop.ready * noise,
    )


def queued(seed: int, days: float = 2) -> Loop:
    """Return a loop on the length of a queue, of which each pod takes RATE_MILLI a second."""
    rng = np.random.default_rng(seed)
    steps = round(days * 86_400_000 / STEP_MS)
    arrivals = demand(rng, steps, seed % 2 == 1) / 400 * RATE_MILLI
    each, size, queue = 300_000.0, 12, 3_600_000.0
    coming, asked = np.zeros(steps + 8, np.int64), [size]
    ready_of, queue_of = np.zeros(steps, np.int64), np.zeros(steps)
    ready = size
    for t in range(steps):
        ready += int(coming[t])
        queue = max(0.0, queue + (arrivals[t] - ready * RATE_MILLI) * STEP_MS / 1000)
        ready_of[t], queue_of[t] = ready, queue
        asked.append(int(np.ceil(queue / each)))
        wanted = max(2, min(40, asked[-1] if asked[-1] > size else min(size, max(asked[-20:]))))
        if wanted > size:
            coming[t + 4] += wanted - size
        else:
            ready -= min(size - wanted, ready - 1)
        size = wanted
    return Loop(arrivals, ready_of, queue_of, ready_of)


def question(found: Fit, signal: str) -> Question:
    return next(q for q in found.questions if q.signal == signal)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_replicas_show_the_kind(seed: int) -> None:
    usage = driven(seed)
    shown = {name: shown_kind(name, usage, s) for name, s in usage.signals.items()}
    assert shown["pods/shared"].kind == DIVISIBLE
    assert shown["pods/own"].kind == PER_POD
    assert shown["external/outer"].kind == TOTAL
    assert not shown["external/outer"].contradicts
    for name in ("external/mean", "external/held"):  # a mean of the pods, and a sum over them
        assert (shown[name].kind, shown[name].contradicts) == ("", True), name
    fact = shown["pods/shared"].facts[0]
    assert fact.name == "signals.pods/shared.elasticity"
    assert fact.low is not None
    assert fact.high is not None
    assert -1.3 < fact.low < fact.high < -0.7


def test_a_queue_shows_its_rate() -> None:
    usage = usage_of(queued(1), (external("stock"),), stock=queued(1).usage)
    found = fit(usage, RECORDING)
    assert found.workload is not None, found.problems
    signal = found.workload.plant.signals["external/stock"]
    rate = found.fact("signals.external/stock.rate")
    assert signal.kind == BACKLOG
    assert rate is not None
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < RATE_MILLI / 1000 < rate.high
    assert signal.rate_milli == pytest.approx(RATE_MILLI, rel=0.3)
    kind = found.fact("signals.external/stock.kind")
    assert kind is not None
    assert (kind.source, kind.note) == (FITTED, BACKLOG)
    assert question(found, "external/stock").source == FITTED


@pytest.mark.parametrize(
    ("interval", "kind"),
    [
        ((-1.05, -0.9), DIVISIBLE),
        ((-0.9, -0.55), DIVISIBLE),  # with a base
        ((-0.1, 0.1), PER_POD),
        ((-0.3, -0.1), ""),  # neither stays nor is shared
        ((-0.7, -0.4), ""),
        ((-1.2, 0.2), ""),  # too wide
        ((-2.4, -1.6), ""),
        ((0.2, 0.8), ""),
    ],
)
def test_an_elasticity_decides_only_with_room_for_one_kind(
    interval: tuple[float, float], kind: str
) -> None:
    low, high = interval
    assert kind_of_pods(Interval((low + high) / 2, low, high)) == kind


@pytest.mark.parametrize(
    ("elasticity", "rate", "fastest", "kind"),
    [
        ((-0.1, 0.1), (-5.0, 5.0), 100.0, TOTAL),
        ((-0.1, 0.1), (-5.0, 60.0), 100.0, ""),  # a queue of such a rate would fall so fast
        ((-0.6, 0.1), (-5.0, 5.0), 100.0, ""),
        ((-0.6, 0.1), (80.0, 120.0), 100.0, BACKLOG),
        ((-0.1, 0.1), (80.0, 120.0), 300.0, TOTAL),  # no queue falls faster than it is emptied
        ((-0.1, 0.1), (10.0, 190.0), 100.0, ""),
    ],
)
def test_a_total_is_decided_by_level_and_slope(
    elasticity: tuple[float, float], rate: tuple[float, float], fastest: float, kind: str
) -> None:
    found = kind_of_total(Interval(0, *elasticity), Interval(sum(rate) / 2, *rate), fastest)
    assert found == kind


@pytest.mark.parametrize(
    ("metric", "is_total", "kind"),
    [
        ("kafka_consumergroup_lag", True, BACKLOG),
        ("ApproximateNumberOfMessagesVisible", True, BACKLOG),
        ("nginx_requests_per_second", True, TOTAL),
        ("http_requests", False, DIVISIBLE),
        ("write_queue_length", False, DIVISIBLE),
        ("uploads_in_flight", True, TOTAL),
        ("consumer_lag_seconds", True, ""),
        ("search_latency_ms", False, ""),
        ("temperature", True, ""),
    ],
)
def test_a_name_suggests_a_kind(metric: str, is_total: bool, kind: str) -> None:
    assert guessed_kind(metric, is_total)[0] == kind


def resting(metric: Json, **values: F64) -> Fit:
    """Return the fit of an hour in which no pod comes or goes: the data say nothing."""
    ready = np.full(240, 4)
    loop = Loop(ready * 300.0, ready, ready * 75.0, ready)
    return fit(usage_of(loop, (CPU, metric), **values), RECORDING)


WAVES = 5_000 + 4_000 * np.sin(np.arange(240) / 20)


def test_without_changes_a_name_is_a_guess_and_marked_as_one() -> None:
    found = resting(external("orders_waiting"), orders_waiting=WAVES)
    assert found.workload is not None, found.problems
    signal = found.workload.plant.signals["external/orders_waiting"]
    assert signal.kind == BACKLOG
    # The waves fall by up to 200 milli in a step of 15 s, which four pods empty.
    assert signal.rate_milli == pytest.approx(200 / 15 / 4, abs=1)
    for name in ("kind", "rate"):
        fact = found.fact(f"signals.external/orders_waiting.{name}")
        assert fact is not None
        assert fact.source == GUESSED
    asked = question(found, "external/orders_waiting")
    assert (asked.source, asked.metric) == (GUESSED, "orders_waiting")
    assert asked.evidence == f"a queue by its name; {FEWEST_TOLD}"


@pytest.mark.parametrize("name", ["latency_ms", "temperature"])
def test_where_neither_data_nor_name_say_anything_there_is_no_plant(name: str) -> None:
    found = resting(pods(name), **{name: WAVES})
    assert found.workload is None
    (problem,) = found.problems
    assert problem.startswith(f"{UNKNOWN_DRIVER}pods/{name}: ")
    assert question(found, f"pods/{name}").kind == ""


NAME = "resource/memory"


def told(value: Any, target: int) -> Kind:
    """Return the kind of memory that is `value` per pod, of (ready, work), by a target in milli."""
    loop = run_loop(1, 100)
    values = np.asarray(value(loop.ready, loop.work), np.float64)
    wanted = {"type": "AverageValue", "averageValue": f"{target}m"}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": wanted}}
    usage = usage_of(loop, [metric], memory=values)
    return kind_of(NAME, usage, usage.signals[NAME], SignalOverride())


@pytest.mark.parametrize(("target", "kind"), [(100, ""), (10_000, "age")])
def test_undecided_memory_that_asks_for_pods_gives_no_number_but_a_question(
    target: int, kind: str
) -> None:
    """Half goes with the work and half is each pod's own: neither kind explains it."""
    found = told(lambda ready, work: 250 + work * 0.5 / ready, target)
    assert found.kind == kind
    assert ("whether pods share their memory" in found.problem) == (not kind)
    assert found.question is not None
    assert "divisible if pods share it" in found.question.evidence


def test_a_total_that_pods_share_may_be_noisy_and_change_slowly() -> None:
    def shared(ready: NDArray[np.int64], _: object) -> NDArray[np.float64]:
        total = 20_000 * (1 + 0.15 * np.sin(np.arange(ready.size) * 2 * np.pi / 3000))
        noise = 1 + np.random.default_rng(1).normal(size=ready.size) * 0.03
        return (total / ready + 500) * noise

    assert told(shared, 100).kind == DIVISIBLE
