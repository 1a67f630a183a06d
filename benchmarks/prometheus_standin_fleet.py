"""A fleet of any size, of which every value is a formula of the pod and the minute.

Deployments of ten pods: one in five is rolled out each day, one in four grows by two pods during
the day. A handful of pods restart, are not ready for a while, or are resized. Containers are
sampled once a minute, each at a time of its own; kube-state-metrics is scraped at second 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Number = TypeVar("Number", int, Ints)

DAY: Final = 1440
MINUTE_MS: Final = 60_000
SCRAPE_MS: Final = 5_000
EACH: Final = 10
GROWTH: Final = (600, 900, 2)
"""From and to which minute of the day a growing deployment has more pods, and how many."""
ROLLOUT: Final = 540
BASE_US: Final = 100_000_000_000
"""Where counters begin: all values have six digits before the point, and six after it."""
_WAVE: Final = 4_000
_NOISE: Final = 1_200
FLIP: Final = (700, 703)
"""From and to which minute of the day an unsteady pod is not ready."""


class Pod(NamedTuple):
    """A pod's life, in minutes since the start; scrapes first <= minute < last show it."""

    number: int
    namespace: str
    deployment: str
    name: str
    replicaset: str
    uid: str
    created: int
    first: int
    last: int

    @property
    def unsteady(self) -> bool:
        """Whether it is not ready for three minutes each day."""
        return self.number % 97 == 7

    @property
    def restarted(self) -> int | None:
        """The first minute of its second container, None: it has one."""
        minute = self.first + 1000
        return minute if self.number % 89 == 3 and minute < self.last - 10 else None

    @property
    def resized(self) -> int | None:
        """The first minute at which it requests more, None: it never does."""
        minute = self.first + 600
        return minute if self.number % 151 == 5 and minute < self.last - 10 else None


@dataclass(frozen=True)
class Fleet:
    """The fleet: `pods` at night, in deployments of ten, one HPA each.

    Attributes:
        pods: about how many there are at a time.
        namespaces: over which the deployments are dealt.
        days: from `start_ms` on.
        start_ms: a UTC midnight.
        cluster: value of the label `cluster`.
    """

    pods: int = 1000
    namespaces: int = 20
    days: int = 30
    start_ms: int = 1_790_812_800_000  # 2026-10-01
    cluster: str = "prod"

    @property
    def deployments(self) -> int:
        """Their number."""
        return max(1, self.pods // EACH)

    @property
    def minutes(self) -> int:
        """Their number."""
        return self.days * DAY

    @property
    def end_ms(self) -> int:
        """Where the last day ends."""
        return self.start_ms + self.minutes * MINUTE_MS

    def namespace(self, deployment: int) -> str:
        """Return where a deployment is."""
        return f"ns-{deployment % self.namespaces:02d}"

    def grows(self, deployment: int) -> bool:
        """Return whether a deployment has more pods during the day."""
        return deployment % 4 == 1

    def rollouts(self, deployment: int) -> list[int]:
        """Return the minutes at which a deployment's pods are replaced."""
        at = ROLLOUT + deployment * 7 % 300
        return [day * DAY + at for day in range(1, self.days) if (day + deployment) % 5 == 2]

    @cached_property
    def lives(self) -> list[Pod]:
        """All pods that ever are."""
        found: list[Pod] = []
        for deployment in range(self.deployments):
            found += self._lives_of(deployment, len(found))
        return found

    def _lives_of(self, deployment: int, number: int) -> Iterator[Pod]:
        bounds = [-5 * DAY, *self.rollouts(deployment), self.minutes]
        for generation, (born, end) in enumerate(pairwise(bounds)):
            # the old pods stay for two minutes after the new ones came
            last = self.minutes if end == self.minutes else end + 2
            for place in range(EACH):
                yield self._pod(deployment, generation, f"{place}", number, born, last)
                number += 1
        if not self.grows(deployment):
            return
        for day in range(self.days):
            # the template of the day's beginning, as there is no time to tell them apart
            generation = sum(at <= day * DAY + GROWTH[0] for at in bounds[1:-1])
            for place in range(GROWTH[2]):
                born, last = (day * DAY + minute for minute in GROWTH[:2])
                yield self._pod(deployment, generation, f"{day}x{place}", number, born, last)
                number += 1

    def _pod(
        self, deployment: int, generation: int, place: str, number: int, born: int, last: int
    ) -> Pod:
        name = f"app-{deployment:04d}"
        template = _digest(name, generation)[:9]
        digest = _digest(name, generation, place)
        uid = f"{digest[:8]}-{digest[8:12]}-4{digest[12:15]}-a{digest[15:18]}-{digest[18:30]}"
        replicaset = f"{name}-{template}"
        pod = f"{replicaset}-{digest[30:35]}"
        first = max(0, born + 1)
        return Pod(
            number, self.namespace(deployment), name, pod, replicaset, uid, born, first, last
        )

    # ---- samples of containers

    def sample_bounds(self, pods: list[Pod]) -> tuple[Ints, Ints]:
        """Return the first and the last minute, exclusive, at which containers are sampled."""
        first = np.array([pod.first for pod in pods], np.int64)
        last = np.array([pod.last - 1 for pod in pods], np.int64)
        last[[pod.last == self.minutes for pod in pods]] = self.minutes
        return first, last

    def sample_ms(self, number: Number, minute: Number) -> Number:
        """Return when a pod is sampled in a minute; of numbers or of arrays."""
        within = number * 6007 % 55_000 + (minute * 37 + number) % 900
        return self.start_ms + minute * MINUTE_MS + within

    def usage_us(self, number: Ints, minute: Ints, restarted: Ints) -> Ints:
        """Return what a container has used, in microseconds.

        It grows by 50 to 150 milli-cores, up to 100 more at noon, and noise of up to 20.

        Args:
            number: of the pod.
            minute: since the start.
            restarted: minute from which on it counts anew; a huge one: never.
        """
        used = self._work_us(number, minute)
        anew = minute >= restarted
        if anew.any():
            begun = self._work_us(number, np.where(anew, restarted - 1, 0))
            used = np.where(anew, used - begun, used)
        return used + BASE_US

    def _work_us(self, number: Ints, minute: Ints) -> Ints:
        day, within = np.divmod(minute, DAY)
        half = DAY // 2
        rise = np.where(within <= half, within * within, 2 * half * half - (DAY - within) ** 2)
        wave = _WAVE * (day * 2 * half * half + rise)
        noise = (minute * 7919 + number * 104_729) % 1000 * _NOISE
        used: Ints = (50 + number % 100) * MINUTE_MS * minute + wave + noise
        return used

    def memory_bytes(self, number: Ints, minute: Ints) -> Ints:
        """Return a container's working set: nine digits."""
        return 200_000_000 + number % 500 * 1_000_000 + (minute * 31 + number * 17) % 4096 * 4096

    # ---- sizes of deployments, minute by minute

    def sizes(self, deployment: int) -> list[tuple[int, int, int]]:
        """Return spec.replicas as (first minute, last minute exclusive, size)."""
        if not self.grows(deployment):
            return [(0, self.minutes, EACH)]
        found = []
        for day in range(self.days):
            at = day * DAY
            up, down = at + GROWTH[0], at + GROWTH[1]
            found += [(at, up, EACH), (up, down, EACH + GROWTH[2]), (down, at + DAY, EACH)]
        return found

    def utilization(self, deployment: int, minute: int) -> int:
        """Return what an HPA shows of its cpu metric, per cent."""
        return 40 + (deployment * 7 + minute // 3) % 30


def _digest(*words: object) -> str:
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()
