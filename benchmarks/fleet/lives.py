"""Lives of a drawn workload's pods over any number of days.

All times are whole seconds since the start of the history, negative before it; NEVER is later than
all of them.
"""

from __future__ import annotations

import heapq
import uuid
from dataclasses import dataclass, field

from benchmarks.fleet.draw import DrawnWorkload, Purpose, Streams
from benchmarks.fleet.parts import ALPHABET

DAY_S = 86_400
NEVER = 1 << 40
_NODES = 40
_PAGE = 1024
_MASK = (1 << 64) - 1

State = tuple[int, str, str | None, int | None]
"""Second, phase, Ready condition (None: no such condition) and its last transition."""


@dataclass(slots=True, eq=False)
class PodLife:
    """One pod. `ready` and `until` bound when it serves; `stopped` ends its samples."""

    number: int
    pod: str
    uid: str
    revision: str
    node: str
    created: int
    started: int = NEVER
    ready: int = NEVER
    until: int = NEVER
    stopped: int = NEVER
    deleted: int = NEVER
    gone: int = NEVER
    states: list[State] = field(default_factory=list)
    downs: list[tuple[int, int]] = field(default_factory=list)


class PodPlay:
    """Plays the pods of one workload as its size changes and things go wrong.

    Attributes:
        lives: every pod, in the order of creation.
        scales: (second, spec.replicas, status.replicas), the last of a second counts.
    """

    def __init__(self, work: DrawnWorkload, streams: Streams, days: int) -> None:
        """Start without pods."""
        self.work = work
        self.days = days
        self.lives: list[PodLife] = []
        self.scales: dict[int, tuple[int, int]] = {}
        self._streams = streams
        self._dice = _Dice(streams)
        self._active: list[PodLife] = []
        self._size = 0
        self._rolling = False
        self._revision = self._dice.word(10)
        self._events: list[tuple[int, str]] = []

    def run(self, changes: list[tuple[int, int]]) -> None:
        """Play all days; changes are (minute, size), the first is the size at the start."""
        self._begin(changes[0][1])
        phase = self._dice.below(60)
        for minute, size in changes[1:]:
            self._at(minute * 60 + phase, str(size))
        for day in range(self.days):
            self._plan_troubles(day)
        end = self.days * DAY_S
        while self._events and self._events[0][0] < end:
            second, kind = heapq.heappop(self._events)
            if kind.isdigit():
                self._resize(second, int(kind))
            else:
                getattr(self, f"_{kind}")(second)

    def _at(self, second: int, kind: str) -> None:
        """Plan an event; its kind is the name of a method, or a new size."""
        heapq.heappush(self._events, (second, kind))

    def _plan_troubles(self, day: int) -> None:
        rng = self._streams.open(Purpose.trouble, day)
        rollout, evicted = rng.random(2)
        start = day * DAY_S
        if rollout < 0.2:
            # People roll out while they are at work.
            self._at(start + int(rng.integers(8 * 3600, 19 * 3600)), "rollout")
        if evicted < 0.04:
            self._at(start + int(rng.integers(DAY_S)), "evict")
        for _ in range(int(rng.poisson(0.015 * self.work.mean_pods))):
            self._at(start + 1 + int(rng.integers(DAY_S - 1)), "restart")

    def _begin(self, size: int) -> None:
        """Make the pods that are there at the start, hours to days old."""
        self._size = size
        for _ in range(size):
            life = self._pod(-3600 - self._dice.below(4 * DAY_S))
            life.started = life.created + 2
            life.ready = life.started + 2 + self._startup()
            # The recording begins with a list: what was before it is not in it.
            life.states = [(0, "Running", "True", life.ready)]
        self.scales[0] = (size, size)

    def _pod(self, second: int) -> PodLife:
        dice = self._dice
        pod = f"{self.work.name}-{self._revision}-{dice.word(5)}"
        node = f"node-{dice.below(_NODES) + 1:03d}"
        life = PodLife(len(self.lives), pod, dice.uid(), self._revision, node, second)
        self.lives.append(life)
        self._active.append(life)
        return life

    def _startup(self) -> int:
        return self.work.startup_s * (85 + self._dice.below(45)) // 100

    def _create(self, second: int) -> PodLife:
        """Make a pod: Pending on its node, Running, Ready."""
        life = self._pod(second)
        life.started = second + 1 + self._dice.below(3)
        running = life.started + 2
        life.ready = running + 1 + self._startup()
        life.states = [
            (second, "Pending", None, None),
            (running, "Running", "False", life.started),
            (life.ready, "Running", "True", life.ready),
        ]
        return life

    def _record(self, second: int) -> None:
        self.scales[second] = (self._size, len(self._active))

    def _resize(self, second: int, size: int) -> None:
        self._size = size
        self._record(second)
        # The controller of the workload follows within a second.
        surplus = len(self._active) - size
        for _ in range(-surplus):
            self._create(second + 1)
        if surplus > 0:
            newest = heapq.nlargest(
                surplus, self._active, key=lambda life: (life.ready, life.number)
            )
            self._remove(second + 1, newest)
        self._record(second + 1)

    def _remove(self, second: int, victims: list[PodLife]) -> None:
        leaving = {life.number for life in victims}
        self._active = [life for life in self._active if life.number not in leaving]
        for life in victims:
            life.deleted = second
            life.gone = life.stopped = second + 3 + self._dice.below(29)
            served = life.ready < second and not (life.downs and life.downs[-1][1] > second)
            self._end(life, second)
            if served:
                life.states.append((life.gone - 1, "Running", "False", life.gone - 1))

    def _end(self, life: PodLife, second: int) -> None:
        """Let a pod serve no more, and drop what was planned for it but does not happen."""
        life.until = second
        life.states = [state for state in life.states if state[0] < second]
        if life.started >= second:
            life.started = NEVER
        if life.ready >= second:
            life.ready = NEVER

    def _rollout(self, second: int) -> None:
        self._revision = self._dice.word(10)
        if not self._rolling:
            self._rolling = True
            self._replace(second + 1)

    def _replace(self, second: int) -> None:
        """One step of a rollout: a quarter of the size as new pods beside the old ones."""
        old = sum(life.revision != self._revision for life in self._active)
        if not old:
            self._rolling = False
            return
        fresh = [self._create(second) for _ in range(min(old, max(1, self._size // 4)))]
        self._record(second)
        self._at(max(life.ready for life in fresh) + 1, "retire")

    def _retire(self, second: int) -> None:
        surplus = max(len(self._active) - self._size, 0)
        old = [life for life in self._active if life.revision != self._revision]
        self._remove(second, old[:surplus])
        self._record(second)
        self._at(second + 2, "replace")

    def _evict(self, second: int) -> None:
        """The oldest pod fails; its object stays for hours, another pod takes its place."""
        life = min(self._active, key=lambda life: (life.created, life.number))
        self._active.remove(life)
        life.stopped = second
        self._end(life, second)
        life.states.append((second, "Failed", "False", second))
        life.deleted = second + 3600 + self._dice.below(6 * 3600)
        life.gone = life.deleted + 1
        self._create(second + 1)

    def _restart(self, second: int) -> None:
        """A container is killed and comes back; the pod stays the same."""
        life = self._active[self._dice.below(len(self._active))]
        back = second + 10 + self.work.startup_s
        if life.ready + 600 > second or (life.downs and life.downs[-1][1] >= second):
            return
        life.downs.append((second, back))
        life.states.append((second, "Running", "False", second))
        life.states.append((back, "Running", "True", back))


class _Dice:
    """Small random numbers one at a time, drawn from the stream by the page: calls are slow."""

    def __init__(self, streams: Streams) -> None:
        self._rng = streams.open(Purpose.lives)
        self._page: list[int] = []

    def _bits(self) -> int:
        if not self._page:
            page = self._rng.integers(0, _MASK, _PAGE, dtype="uint64", endpoint=True)
            self._page = page[::-1].tolist()
        return self._page.pop()

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1; the bias of 64 bits does not matter here."""
        return self._bits() % bound

    def word(self, length: int) -> str:
        """Return a generated part of a name, up to 13 letters."""
        bits, letters = self._bits(), []
        for _ in range(length):
            bits, letter = divmod(bits, len(ALPHABET))
            letters.append(ALPHABET[letter])
        return "".join(letters)

    def uid(self) -> str:
        """Return an object's uid as Kubernetes writes it."""
        high, low = self._bits(), self._bits()
        return str(uuid.UUID(int=high << 64 | low, version=4))
