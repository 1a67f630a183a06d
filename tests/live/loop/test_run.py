"""The loop: what is asked when, who is told what, late passes, state."""

from __future__ import annotations

import io
import json
import random
import threading
import time
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

import pytest

from hpabatch.cluster.objects.types import (
    Change,
    HpaObject,
    Kind,
    MetricKey,
    Response,
    Responses,
    response_to,
)
from hpabatch.cluster.watch.feed import Cut
from hpabatch.cluster.watch.site import Site
from hpabatch.cluster.watch.watch import WatchState
from hpabatch.live.loop.run import Loop
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.memory import load
from hpabatch.live.passes.result import PassResult
from hpabatch.live.passes.shadow import Comparison, Shadow
from hpabatch.live.passes.words import PassWords
from hpabatch.live.serve.log import LineLog
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.cluster.wires import wanted
from tests.live.apply.test_applier import PROBE, SWITCH, Bench
from tests.live.cases import World
from tests.live.documents import START_MS


class Clustered(Site):
    """A cluster in memory: a world's changes, and answers to what is asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now_ms = START_MS
        self.asked: list[Set[MetricKey]] = []
        self.cuts = 0
        self.before_cut: dict[int, Sequence[Change]] = {}
        self.listed = True

    def cut(self) -> Cut:
        self.cuts += 1
        self.now_ms += 1000
        changes = [change for change, _ in self.world.take()]
        changes += self.before_cut.get(self.cuts, ())
        return Cut([replace(c, seen_ms=self.now_ms - 1) for c in changes], self.now_ms)

    def learn(self) -> None:
        pass

    def states(self) -> list[WatchState]:
        return [WatchState("pods", synced=self.listed)]

    def problems(self) -> dict[str, str]:
        return {} if self.listed else {"pods": "pods is forbidden"}

    def is_refused(self) -> bool:
        return False

    def read_scales(self) -> int:
        return 0

    def fetch(self, wanted: Set[MetricKey]) -> Responses:
        self.asked.append(wanted)
        known, none = self.world.answers(), Response(self.now_ms, error="no such metric")
        return {key: response_to(key, known) or none for key in wanted}

    def request_count(self) -> int:
        return len(self.asked)


def _loop(
    cluster: Clustered,
    state: Path | None = None,
    own_hpa: tuple[str, str] | None = None,
) -> Loop:
    decider = Decider(profile_for("1.37"), ControllerFlags())
    return Loop(cluster, decider, Shadow(2000), 1000, "1.37", state, "a test", own_hpa)


def _world(seed: int = 3) -> World:
    world = World(random.Random(seed))
    for _ in range(40):
        world.step()
    return world


@pytest.mark.parametrize("own", [True, False])
def test_the_switch_and_the_probe_are_read_beside_the_metrics(own: bool, tmp_path: Path) -> None:
    """A slow API server does not let the metrics of a decision grow old."""
    bench, read = Bench(tmp_path, own=own), threading.Event()
    last = SWITCH if own else PROBE

    class Beside(Clustered):
        def fetch(self, wanted: Set[MetricKey]) -> Responses:
            assert read.wait(5), "the metrics do not wait for it, nor it for them"
            return super().fetch(wanted)

    bench.client.before = lambda method, path: read.set() if path == last else None
    loop = Loop(Beside(_world()), bench.decider, Shadow(2000), 1000, "1.37", applier=bench.applier)
    loop.one_pass()
    assert read.is_set()


def test_an_hpa_of_hpabatch_itself_is_left_out() -> None:
    def decided(own_hpa: tuple[str, str] | None) -> set[tuple[str, str]]:
        result = _loop(Clustered(_world()), own_hpa=own_hpa).one_pass().result
        problems = {(p.namespace, p.name) for p in result.problems}
        return problems | set(zip(result.namespaces, result.names, strict=True))

    whole = decided(None)
    one = min(whole)
    assert decided(one) == whole - {one}


@pytest.mark.parametrize("seed", [2, 4])
def test_an_hpa_that_appears_while_others_are_asked_for_is_asked_for_too(seed: int) -> None:
    world = _world(seed)
    cluster = Clustered(world)
    world_changes = [c for c, _ in world.take()]
    last = {c.key: c for c in world_changes if c.kind is Kind.hpa}
    hpas = {key: c.thing for key, c in last.items() if isinstance(c.thing, HpaObject)}
    everything = wanted(hpas.values())

    def without(key: tuple[str, ...]) -> frozenset[MetricKey]:
        return wanted(item for at, item in hpas.items() if at != key)

    key = next(key for key in hpas if without(key) != everything)
    now = [c for c in world_changes if c.key != key or c.kind is not Kind.hpa]
    cluster.before_cut = {1: now, 2: [last[key]]}
    loop = _loop(cluster)
    result = loop.one_pass().result
    assert key in [*zip(result.namespaces, result.names, strict=True)]
    first, second = cluster.asked
    assert first == without(key)
    assert second == everything - first


def test_an_hpa_whose_explanation_raises_an_error_costs_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than five of them in a row would end the loop."""
    cluster, stop, out = Clustered(_world()), threading.Event(), io.StringIO()
    whole = decided_keys(_loop(Clustered(_world())).one_pass().result)
    key, why = min(whole), PassWords.why

    def breaks(words: PassWords, h: int) -> str:
        if words._columns.lanes[h].key == key:
            raise ZeroDivisionError("division by zero")
        return why(words, h)

    monkeypatch.setattr(PassWords, "why", breaks)
    decider = Decider(profile_for("1.37"), ControllerFlags())
    log = LineLog(out, "east", as_json=True)
    loop = Loop(cluster, decider, Shadow(2000), 1, "1.37", log=log)
    passes: list[set[tuple[str, str]]] = []

    def completed(result: PassResult) -> Comparison:
        passes.append(decided_keys(result))
        if len(passes) == 9:
            stop.set()
        return compare(result)

    compare = loop.shadow.compare
    monkeypatch.setattr(loop.shadow, "compare", completed)
    loop.run(stop)
    assert [key in keys for keys in passes] == [True, *7 * [False], True]
    assert all(whole - {key} <= keys for keys in passes)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    problems = {line["about"]: line["text"] for line in said if line["event"] == "problem"}
    assert "ZeroDivisionError" in problems["pass"]
    assert problems[f"hpa {key[0]}/{key[1]}"].startswith("left out, and tried again within minutes")


def decided_keys(result: PassResult) -> set[tuple[str, str]]:
    return set(zip(result.namespaces, result.names, strict=True))


def test_the_loop_says_what_it_waits_for_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpabatch.live.loop.run._WAIT_SAID_S", 0.0)
    cluster, out, stop = Clustered(_world()), io.StringIO(), threading.Event()
    cluster.listed = False
    decider = Decider(profile_for("1.37"), ControllerFlags())
    loop = Loop(cluster, decider, Shadow(2000), 1, "1.37", log=LineLog(out, "east"))
    waiting = threading.Thread(target=loop.wait_until_listed, args=(stop,))
    waiting.start()
    until = time.monotonic() + 60
    while out.getvalue().count("\n") < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    stop.set()
    waiting.join(60)
    lines = [line.partition(" ")[2] for line in out.getvalue().splitlines()]
    assert lines == [
        "problem: cluster watches: not yet listed: pods",
        "problem: cluster pods: pods is forbidden",
    ]
    cluster.listed = True
    loop.one_pass()
    loop.one_pass()
    assert out.getvalue().count("fine again: cluster") == 2


def test_the_loop_ends_when_it_is_told() -> None:
    cluster, stop = Clustered(_world()), threading.Event()
    seen: list[int] = []

    class Log(LineLog):
        def __init__(self) -> None:
            pass

        def tell(self, comparison: object) -> None:
            seen.append(cluster.now_ms)
            if len(seen) == 3:
                stop.set()

        def say(self, *args: object, **kwargs: object) -> None:
            pass

    decider = Decider(profile_for("1.37"), ControllerFlags())
    loop = Loop(cluster, decider, Shadow(2000), 1, "1.37", log=Log())
    loop.run(stop)
    assert len(seen) == 3


@pytest.mark.parametrize("where", ["scales", "metrics"])
def test_a_pass_whose_requests_are_broken_off_decides_nothing(where: str) -> None:
    """Else all metrics would seem to fail, and that would be recorded."""
    stop = threading.Event()
    told: list[object] = []

    class Ended(Clustered):
        def read_scales(self) -> int:
            if where == "scales" and told:
                stop.set()
            return 0

        def fetch(self, wanted: Set[MetricKey]) -> Responses:
            if where == "metrics" and told:
                stop.set()
            return super().fetch(wanted)

    class Log(LineLog):
        def tell(self, comparison: object) -> None:
            told.append(comparison)

    cluster = Ended(_world())
    decider = Decider(profile_for("1.37"), ControllerFlags())
    log = Log(io.StringIO(), "east")
    Loop(cluster, decider, Shadow(2000), 1, "1.37", log=log).run(stop)
    assert len(told) == 1


def test_what_is_remembered_is_kept_after_every_pass(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state.json"
    cluster = Clustered(_world())
    loop = _loop(cluster, state=state)
    result = loop.one_pass().result
    saved = load(state, "a test")
    assert saved is not None
    assert saved.saved_ms == result.now_ms
    assert [lane.name for lane in saved.lanes] == list(result.names)


@pytest.mark.parametrize("place", ["folder", "file"])
def test_a_state_that_cannot_be_written_stops_nothing(tmp_path: Path, place: str) -> None:
    state = tmp_path / place
    if place == "folder":
        state.mkdir()
    else:
        (tmp_path / "file").write_text("no folder")
        state = tmp_path / "file" / "state.json"
    assert len(_loop(Clustered(_world()), state=state).one_pass().result) > 0
