"""A simulated world for `live --apply`: API server, network, clocks and instances in one process.

Only one actor runs at a time. It gives way in each request and each pause, and goes on at its time;
what happens in between is drawn from one seed. The wire is replaced below `WriteClient`: requests
and responses are lost, slow or sent twice, instances are killed, frozen, cut off and begun anew,
clocks differ in pace and time, and somebody deletes the Lease, edits sizes and pulls the switch.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from hpabatch.cluster.connection.errors import ApiError, Unreachable, Withheld
from hpabatch.cluster.connection.writes import Budget, Json, WriteClient
from hpabatch.cluster.objects.types import (
    Change,
    ContainerUsage,
    HpaObject,
    Kind,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    UsageSample,
)
from hpabatch.live.apply.applier import Applier
from hpabatch.live.apply.guards import Gate, read_switch
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.lease import Candidate, Election
from hpabatch.live.apply.ledger import Ledger
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.rivals import Rivals
from hpabatch.live.apply.scales import ScaleWriter, Written
from hpabatch.live.passes.decide import Decider
from hpabatch.model.objects.hpa import Behavior, ScalingPolicy, ScalingRules
from hpabatch.model.versions import DEFAULT_K8S, ControllerFlags, profile_for
from tests.live import two_pods
from tests.live.apply.fake_writes import FakeClient
from tests.live.apply.test_applier import SWITCH, Site
from tests.live.apply.test_lease import PATH as LEASE
from tests.live.apply.test_scales import KEY, TARGET, Apis

PERIOD_S = 15.0
UP, DOWN, POLICY_S = 2, 1, 60
"""Pods that the HPA's policies let it add and remove in POLICY_S."""
PACE = 0.01  # by which clocks are too quick or too slow
DECIDED_S = 30.0
"""A write reaches the server within so long after its decision."""
SEEN_S = 120.0
"""An edit counts from when it is seen, by an instance that was frozen and cut off so long after."""
SWITCHED_OFF_S = 45.0
"""A write may reach the server so long after the switch: the pass that had read it ends."""


class BrokenRuleError(AssertionError):
    """Something that must never happen."""


class Ended(BaseException):
    """An instance is gone: its actors end where they are."""


class Inline(Executor):
    """Does at once, on the actor's own thread, what would be done beside it."""

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(do(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future


@dataclass
class Actor:
    """A thread that runs while it has the turn."""

    instance: Instance
    do: Callable[[], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class World:
    """Time, events, the API server's objects, and what must hold of each write."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw, self.folder, self.now = random.Random(seed), folder, 0.0
        self.server = FakeClient()
        self.server.put(SWITCH, data={})
        self.server.put(TARGET, metadata={"namespace": "shop", "name": "web"}, spec={"replicas": 2})
        self.wanted, self.loss, self.slow = 4, 0.02, 0.05
        self.sizes: list[tuple[float, int, str]] = [(0.0, 2, self._version())]
        self.writes: list[tuple[float, int, int]] = []
        self.edits: list[tuple[float, int, int]] = []
        self.holder, self.off_since = "", float("inf")
        self.instances: list[Instance] = []
        self._events: list[tuple[float, int, Actor | Callable[[], None]]] = []
        self._count = itertools.count()
        self._back = threading.Semaphore(0)
        self._running: Actor | None = None
        self._errors: list[BaseException] = []

    # ---- time

    def at(self, when: float, what: Actor | Callable[[], None]) -> None:
        """Let an actor go on, or something happen, at a time."""
        heapq.heappush(self._events, (when, next(self._count), what))

    def begin(self, instance: Instance, do: Callable[[], None], after_s: float) -> None:
        """Begin an actor of an instance."""
        actor = Actor(instance, do)

        def live() -> None:
            actor.turn.acquire()
            try:
                if not instance.gone:
                    do()
            except Ended:
                pass
            except BaseException as error:  # noqa: BLE001 - it is raised where the world is run
                self._errors.append(error)
            self._back.release()

        threading.Thread(target=live, daemon=True).start()
        self.at(self.now + after_s, actor)

    def pause(self, seconds: float) -> None:
        """Let the running actor wait (Ended: its instance is gone then)."""
        actor = self._running
        assert actor is not None
        self.at(self.now + seconds, actor)
        self._back.release()
        actor.turn.acquire()
        if actor.instance.gone:
            raise Ended

    def run(self, until: float) -> None:
        """Let everything happen until a time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            if not isinstance(what, Actor):
                what()
            elif self.now < what.instance.frozen_until and not what.instance.gone:
                self.at(what.instance.frozen_until, what)
            else:
                self._running = what
                what.turn.release()
                self._back.acquire()
            if self._errors:
                raise self._errors[0]
        self.now = until

    def end(self) -> None:
        """End all actors."""
        for one in self.instances:
            one.gone = True
        while self._events:
            what = heapq.heappop(self._events)[2]
            if isinstance(what, Actor):
                self._running = what
                what.turn.release()
                self._back.acquire()

    def monotonic(self) -> float:
        """The clock of the machine whose actor is running."""
        return self.now if self._running is None else self._running.instance.monotonic()

    # ---- the server

    def _version(self) -> str:
        return str(self.server.objects[TARGET]["metadata"]["resourceVersion"])

    @property
    def size(self) -> int:
        return int(self.server.objects[TARGET]["spec"]["replicas"])

    def store(self, of: Instance, method: str, path: str, document: Mapping[str, Any]) -> Json:
        """Do what a request asks, and check what must hold of it."""
        before, version = self.size, self._version()
        found = self.server.write(method, path, document, 0)
        if path.endswith("/scale"):
            if self._version() != version:
                self._check(of, before, self.size)
                self.writes.append((self.now, before, self.size))
                self.sizes.append((self.now, self.size, self._version()))
        elif "leases" in path:
            self.holder = found["spec"].get("holderIdentity") or self.holder
        elif of.name != self.holder:
            raise BrokenRuleError(f"{of.name} wrote {path}, and {self.holder} has the lease")
        return found

    def _check(self, of: Instance, before: int, after: int) -> None:
        told = f"{self.now:.1f} s: {of.name} wrote {before} -> {after}"
        if of.name != self.holder:
            raise BrokenRuleError(f"{told}, and {self.holder} has the lease")
        if of.change != (before, after):
            raise BrokenRuleError(f"{told}, and decided {of.change}")
        if self.now - self.off_since > SWITCHED_OFF_S:
            raise BrokenRuleError(f"{told}, and the switch is on since {self.off_since:.1f} s")
        least, most = self._allowed(before)
        if not least <= after <= most:
            raise BrokenRuleError(
                f"{told}, beyond the policies: {least} to {most} after {self.writes[-4:]}"
            )

    def _allowed(self, before: int) -> tuple[int, int]:
        """Return the sizes that the policies allow, over all times of the decision.

        A period begins with the size less what was added in it and more what was removed. An edit
        of somebody else counts or not: whoever sees it without the lease takes it for the leader's.
        """
        short, long = POLICY_S * (1 - PACE) ** 2, POLICY_S * (1 + PACE) ** 2 + DECIDED_S
        changes = [*self.writes, *self.edits]
        least, most = [], []
        for lasts in (short, *(self.now - at for at, *_ in changes), long):
            if short <= lasts <= long:
                since = self.now - lasts
                begin = before - sum(b - a for at, a, b in self.writes if at > since)
                edits = [b - a for at, a, b in self.edits if at > since - SEEN_S]
                least.append(begin - sum(e for e in edits if e > 0) - DOWN)
                most.append(begin - sum(e for e in edits if e < 0) + UP)
        return min(least), max(most)

    # ---- what others do

    def edit(self, size: int) -> None:
        """Let somebody else change the size."""
        if size != self.size:
            self.edits.append((self.now, self.size, size))
            self.server.put(TARGET, spec={"replicas": size})
            self.sizes.append((self.now, size, self._version()))

    def switch(self, off: bool) -> None:
        """Pull the kill switch, or release it."""
        self.server.put(SWITCH, data={"stop": "yes"} if off else {})
        self.off_since = min(self.now, self.off_since) if off else float("inf")

    def instance(self) -> Instance:
        """Begin an instance."""
        one = Instance(self, f"i{next(self._count)}")
        self.instances.append(one)
        self.begin(one, one.apply_for_lease, self.draw.uniform(0, 2))
        self.begin(one, one.make_passes, self.draw.uniform(0, PERIOD_S))
        return one

    @property
    def alive(self) -> list[Instance]:
        return [one for one in self.instances if not one.gone]

    def keep_two(self) -> None:
        """Begin others in place of those that are gone."""
        while len(self.alive) < 2:
            self.instance()

    def trouble(self) -> None:
        """Let something happen, rarely the same twice."""
        self.keep_two()
        draw, one = self.draw, self.draw.choice(self.alive)
        lease = self.server.objects.get(LEASE)
        what = draw.choice(
            [
                "kill",
                "end",
                "freeze",
                "cut",
                "watch",
                "lease",
                "holder",
                "edit",
                "switch",
                "wanted",
                "slow",
            ]
        )
        if what == "kill":
            one.gone = True
        elif what == "end":
            one.ends = True
        elif what == "freeze":
            one.frozen_until = self.now + draw.uniform(1, 60)
        elif what == "cut":
            one.cut_until = self.now + draw.uniform(1, 60)
        elif what == "watch":
            for each in self.alive:  # as where a node is lost with a leader and an API server
                each.blind_until = self.now + draw.uniform(1, 60)
        elif what == "lease":
            self.server.objects.pop(LEASE, None)
        elif what == "holder" and lease:
            self.server.put(LEASE, spec={**lease["spec"], "holderIdentity": ""})
        elif what == "edit":
            self.edit(draw.randint(1, 10))
        elif what == "switch":
            self.switch(draw.random() < 0.5)
        elif what == "wanted":
            self.wanted = draw.choice([1, *range(3, 11)])
        elif what == "slow":
            self.slow = draw.choice([0.0, 0.05, 0.3])
        self.keep_two()


class Wire(WriteClient):
    """Client of an instance: requests take time, and some are lost on the way or the way back."""

    def __init__(self, of: Instance, fence: Callable[[float], str] | None = None) -> None:
        self.of, self.world, self.fence, self.dry_run = of, of.world, fence, False

    def read(self, path: str, timeout: float) -> Json:
        return self._sent_over(lambda: self.world.server.read(path, 0), timeout)

    def write(
        self, method: str, path: str, document: Mapping[str, Any] | None, timeout: float
    ) -> Json:
        if self.fence and (why := self.fence(timeout)):
            raise Withheld(why)
        assert document is not None
        return self._sent_over(
            lambda: self.world.store(self.of, method, path, document), timeout, twice=0.02
        )

    def _sent_over(self, do: Callable[[], Json], timeout: float, twice: float = 0.0) -> Json:
        world, draw = self.world, self.world.draw
        box: list[Json | ApiError] = []

        def arrive() -> None:
            try:
                box.append(do())
            except ApiError as error:
                box.append(error)

        most = timeout if draw.random() < world.slow else 0.2
        there, back = draw.uniform(0, most), draw.uniform(0, most)
        is_cut = world.now < self.of.cut_until
        arrives = not is_cut and draw.random() >= world.loss and there < timeout - 1
        if arrives:
            world.at(world.now + there, arrive)
            if draw.random() < twice and there + 0.5 < timeout - 1:
                world.at(world.now + there + 0.5, arrive)
        if not arrives or there + back >= timeout or draw.random() < world.loss:
            world.pause(timeout)
            raise Unreachable("no response")
        world.pause(there + back)
        first = box[0]
        if isinstance(first, ApiError):
            raise first
        return first


class Writer(ScaleWriter):
    """Keeps the change that an instance carries out."""

    of: Instance

    def write(self, key: ScaleKey, before: int, after: int, seen: ScaleObject | None) -> Written:
        self.of.change = before, after
        return super().write(key, before, after, seen)


class Instance:
    """A process: its clocks, its lease, its passes."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.pace = 1 + world.draw.uniform(-PACE, PACE)
        self.skew_s = world.draw.choice([0.0, world.draw.uniform(-90, 90)])
        self.frozen_until = self.cut_until = self.blind_until = 0.0
        self.gone = self.ends = False
        self.change: tuple[int, int] | None = None
        self.election = Election(Wire(self), Candidate("ours", name, 15), clock=self.monotonic)
        control = Wire(self, self.election.refusal)
        journal = Journal(world.folder / name, {})
        gate = Gate(
            PERIOD_S, self.election, lambda: read_switch(control, "ours"), clock=self.monotonic
        )
        budget = Budget(1e6, 1e6, self.monotonic)
        scales = Writer(control, Apis(), budget, gate, sleep=world.pause)
        scales.of = self
        self.decider = Decider(profile_for(DEFAULT_K8S), ControllerFlags())
        ledger = Ledger(control, "ours", self.election, lambda: -self.skew_s, clock=self.monotonic)
        self.applier = Applier(
            control, "ours", scales, gate, None, self.election, journal, ledger,
            Rivals(Site(), Site(), None, None),
            ApplyOptions(most_removed=100, most_removed_fleet=100), self.decider,
            lambda event, text: None,
        )  # fmt: skip
        self.applier._reader = self.applier._writers = Inline()  # type: ignore[assignment]
        self._shown = 0  # sizes that its list or watch has shown

    def monotonic(self) -> float:
        return 1000 + self.world.now * self.pace

    def now_ms(self) -> int:
        """The time of its machine."""
        return two_pods.NOW_MS + round(1000 * (self.world.now + self.skew_s))

    def apply_for_lease(self) -> None:
        while not self.ends:
            self.election.turn()
            self.world.pause(self.election.pause_s)

    def make_passes(self) -> None:
        self._shown = len(self.world.sizes)
        self.decider.apply([*map(self._listed, two_pods.changes())])
        due = self.world.now
        while not self.ends:
            self._pass()
            due = max(due + PERIOD_S, self.world.now)
            self.world.pause(due - self.world.now)
        self.applier.stop()
        self.gone = True

    def _listed(self, change: Change) -> Change:
        thing = change.thing
        if isinstance(thing, ScaleObject):
            thing = self._scale(*self.world.sizes[self._shown - 1][1:])
        if isinstance(thing, HpaObject):
            up, down = (
                ScalingRules(
                    policies=(ScalingPolicy("Pods", pods, POLICY_S),),
                    stabilization_window_seconds=0,
                )
                for pods in (UP, DOWN)
            )
            behavior = Behavior(scale_up=up, scale_down=down)
            spec = replace(thing.hpa.spec, behavior=behavior)
            thing = replace(thing, hpa=replace(thing.hpa, spec=spec))
        seen_ms = self.now_ms() if change.kind is Kind.scale else change.seen_ms
        return replace(change, thing=thing, seen_ms=seen_ms)

    def _scale(self, size: int, version: str) -> ScaleObject:
        uid = str(self.world.server.objects[TARGET]["metadata"]["uid"])
        return ScaleObject(KEY, size, size, "app=web", uid=uid, version=version)

    def _pass(self) -> None:
        self.applier.read_ahead()
        self.world.pause(self.world.draw.uniform(0.01, 0.5))  # requests for metrics
        if self.world.now >= max(self.cut_until, self.blind_until):
            late = self.world.now - self.world.draw.choice([0.0, 0.0, 0.5])
            shown = [one for one in self.world.sizes[self._shown :] if one[0] <= late]
            self._shown += len(shown)
            self.decider.apply(
                Change(Kind.scale, KEY, self._scale(*one[1:]), self.now_ms()) for one in shown
            )
        self.applier.begin()
        now_ms = self.now_ms()
        self.applier.carry_out(self.decider.decide(now_ms, self._usage(now_ms)))

    def _usage(self, now_ms: int) -> Responses:
        usage = (ContainerUsage("app", 25 * self.world.wanted, None),)
        samples = (UsageSample("shop", f"web-{k}", now_ms, 30_000, usage) for k in range(2))
        return {"": Response(now_ms, tuple(samples))}


@contextmanager
def simulated(seed: int, folder: Path) -> Iterator[World]:
    """Make a world with two instances; its actors end with the block."""
    world = World(seed, folder)
    world.instance(), world.instance()
    with mock.patch("time.monotonic", world.monotonic), mock.patch("os.fsync"):
        try:
            yield world
        finally:
            world.end()
