"""Least number of pods that a workload's disruption budgets and topology spread ask for.

Sources: pkg/controller/disruption/disruption.go (getExpectedPodCount: percentages of either kind
are rounded up) and pkg/scheduler/framework/plugins/podtopologyspread (below minDomains domains the
least loaded one counts as empty).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

HOSTNAME: Final = "kubernetes.io/hostname"
"""The topology key whose domains are single nodes, which a workload need not all be on."""

ALONE: Final = 2
"""Pods without which no pod is left when one goes."""


class Need(NamedTuple):
    """A least number of pods, and why."""

    pods: int
    why: str


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget of a workload's pods: limits as written, "" where one is not set."""

    name: str
    min_available: str = ""
    max_unavailable: str = ""

    def need(self) -> Need | None:
        """Return the least pods of which one may be evicted and one is left.

        None where no number of pods will do (minAvailable 100%, maxUnavailable 0 or 100%), and of
        what is no limit.
        """
        field, text = "minAvailable", self.min_available
        if not text:
            field, text = "maxUnavailable", self.max_unavailable
        share = text.endswith("%")
        number = text.removesuffix("%")
        if not (number.isascii() and number.isdigit()):
            return None
        if field == "maxUnavailable" and int(number) == 0:
            return None  # no pod may ever be evicted
        pods = int(number) + 1
        if share:
            free = 100 - int(number)
            if free <= 0:
                return None
            pods = -(-100 // free)
        told = f"PodDisruptionBudget {self.name} ({field} {text})"
        if field == "minAvailable":
            return Need(pods, f"{told} lets a pod go only of {pods} or more")
        return Need(pods, f"{told} may take all of fewer than {pods} pods")


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint of a workload's pods.

    `hard`: a pod that would break it is not scheduled. `domains`: of this key there are so many;
    None: not known.
    """

    key: str
    hard: bool = True
    min_domains: int | None = None
    domains: int | None = None

    def need(self) -> Need | None:
        """Return the least pods that all domains get one of; None: nothing says how many."""
        if not self.hard:
            return None
        if self.min_domains is not None:
            return Need(self.min_domains, f"its pods are spread over {self.key} with minDomains "
                                          f"{self.min_domains}")  # fmt: skip
        if self.domains is not None and self.key != HOSTNAME:
            return Need(self.domains, f"its pods are spread over the {self.domains} domains of "
                                      f"{self.key}")  # fmt: skip
        return None


@dataclass(frozen=True, slots=True)
class Availability:
    """What keeps a workload's pods available."""

    budgets: tuple[Budget, ...] = ()
    spreads: tuple[Spread, ...] = ()

    def need(self) -> Need:
        """Return the largest need, at least that of two pods."""
        found = [*(one.need() for one in self.budgets), *(one.need() for one in self.spreads)]
        known = [need for need in found if need is not None]
        alone = Need(ALONE, f"of fewer than {ALONE} pods none is left when one goes")
        return max([alone, *known], key=lambda need: need.pods)

    def budgets_json(self) -> list[dict[str, str]]:
        """Return the budgets as plain values, sorted by name."""
        return [
            {
                name: text
                for name, text in (
                    ("name", one.name),
                    ("minAvailable", one.min_available),
                    ("maxUnavailable", one.max_unavailable),
                )
                if text
            }
            for one in sorted(self.budgets, key=lambda one: one.name)
        ]

    def spreads_json(self) -> list[dict[str, Any]]:
        """Return the constraints as plain values, as written."""
        return [dict(_spread_fields(one)) for one in self.spreads]


def with_known_domains(spreads: Iterable[Spread], before: Iterable[Spread]) -> tuple[Spread, ...]:
    """Return constraints that have the earlier number of their key's domains if they have none."""
    known = {one.key: one.domains for one in before if one.domains is not None}
    return tuple(
        one if one.domains is not None else replace(one, domains=known.get(one.key))
        for one in spreads
    )


def _spread_fields(one: Spread) -> Iterator[tuple[str, object]]:
    yield "topologyKey", one.key
    yield "whenUnsatisfiable", "DoNotSchedule" if one.hard else "ScheduleAnyway"
    if one.min_domains is not None:
        yield "minDomains", one.min_domains
    if one.domains is not None:
        yield "domains", one.domains


def availability_of(
    budgets: Sequence[Mapping[str, Any]], spreads: Sequence[Mapping[str, Any]]
) -> Availability:
    """Return what `budgets_json` and `spreads_json` gave."""
    return Availability(
        tuple(
            Budget(
                str(one.get("name", "")),
                str(one.get("minAvailable", "")),
                str(one.get("maxUnavailable", "")),
            )
            for one in budgets
        ),
        tuple(
            Spread(
                str(one.get("topologyKey", "")),
                one.get("whenUnsatisfiable") != "ScheduleAnyway",
                _count(one.get("minDomains")),
                _count(one.get("domains")),
            )
            for one in spreads
        ),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
