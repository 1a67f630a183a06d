"""Plant files: stated parameters of workloads, parts of `model.plant`; None: nothing is stated.

docs/scenarios.md lists all keys, from the declarations below. Times are ms, quantities milli-units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Record, Scalar, key, member_of, part
from hpabatch.inputs.document_kinds import Selector
from hpabatch.inputs.documents import Place, read_document
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    DIVISIBLE,
    KINDS,
    OVERLOADS,
    PER_POD,
    PIPELINES,
    REMOVAL_ORDERS,
    TOTAL,
)
from hpabatch.model.printable import listed

WHAT: Final = "plant file"
_MAX_CLASSES = 100
_SECOND_MS = 1000
_SCHEDULING_MS = 1000
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_NONE = -1

# The parameters that a kind of signal has no use for are refused beside it.
USED_BY: Final[Mapping[str, frozenset[str]]] = {
    DIVISIBLE: frozenset({"base", "ceiling", "startup", "request", "overload", "queue"}),
    PER_POD: frozenset({"base", "ceiling", "startup", "request"}),
    TOTAL: frozenset(),
    BACKLOG: frozenset({"rate", "queue"}),
    AGE: frozenset({"base", "ceiling", "request", "growth"}),
}
_OF_PODS = (DIVISIBLE, PER_POD, AGE)
KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "resource": _OF_PODS,
    "container": _OF_PODS,
    "pods": _OF_PODS,
    "object": (TOTAL, BACKLOG),
    "external": (TOTAL, BACKLOG),
}


def _or_none(kind: Scalar) -> Scalar:
    """Return a kind that the word none is of, too; it reads as _NONE."""
    return Scalar(
        f"{kind.wants}, or none", lambda value: _NONE if value == "none" else kind.parse(value)
    )


@dataclass(frozen=True, slots=True)
class SignalOverride:
    """Stated parameters of a signal, as in `plant.Signal`.

    `no_ceiling`: it is stated that there is none.
    """

    kind: str | None = key(
        "kind", kinds.word(*KINDS),
        "what the work is, as docs/simulation.md says; of resource, container and pods "
        f"{listed(_OF_PODS)}, of object and external {listed((TOTAL, BACKLOG))}",
        None, "fitted",
    )  # fmt: skip
    base_milli: int | None = key(
        "base", kinds.AMOUNT, "what a pod uses without work", None, "fitted"
    )
    ceiling_milli: int | None = key(
        "ceiling", _or_none(kinds.positive_amount()),
        "the most that a pod uses; `none`: there is no such bound", None, "the limit, else open",
    )  # fmt: skip
    no_ceiling: bool | None = None
    startup_milli: int | None = key(
        "startup", kinds.AMOUNT, "what a pod uses before it serves", None, "fitted"
    )
    request_milli: int | None = key(
        "request", kinds.positive_amount(), "a pod's request", None, "recorded"
    )
    overload: str | None = key(
        "overload", kinds.word(*OVERLOADS), "what happens to work above the ceiling", None, "drop"
    )
    queue_milli: int | None = key("queue", kinds.AMOUNT, "the queue at the start", None, "0")
    rate_milli: int | None = key(
        "rate", kinds.rate("s", minimum_milli=1),
        "what one serving pod takes out of a backlog", None, "none: must be stated",
    )  # fmt: skip
    growth_milli_per_hour: int | None = key(
        "growth", kinds.rate("h"), "what a pod's usage grows by with its age", None, "fitted"
    )

    def checked(self, place: Place) -> SignalOverride:
        """Refuse (MistakesError) what a kind has no use for, and a base above the ceiling."""
        members = place.members()
        for name in members if self.kind is not None else ():
            if name != "kind" and name not in USED_BY[str(self.kind)]:
                others = listed([kind for kind in KINDS if name in USED_BY[kind]])
                members[name].refuse(
                    f"expected no {name} of a signal of kind {self.kind}; only {others} signals "
                    "have it"
                )
        ceiling, base = self.ceiling_milli, self.base_milli
        if ceiling is None:
            return self
        if ceiling != _NONE and base is not None and base > ceiling:
            members["base"].refuse(
                f"expected at most the ceiling, which is {kinds.quantity_of(ceiling)}, got "
                f"{kinds.quantity_of(base)}"
            )
        is_open = ceiling == _NONE
        return replace(self, ceiling_milli=None if is_open else ceiling, no_ceiling=is_open)


SIGNAL: Final = Record(
    SignalOverride,
    "signals",
    "Parameters of a signal, by its name, or a pattern of names with the wildcard `*`; of several "
    "that match the last counts. The name is what an HPA's metric measures: `resource/cpu`, "
    "`container/app/cpu`, `pods/http_requests`, `object/Ingress/web/requests`, "
    "`external/queue_length`; a metric's selector in braces: `external/depth{queue=orders}`. "
    "Quantities are those of the metric: cores, bytes, or whatever is counted. What "
    "drives a Pods, Object or External metric is taken from changes of replicas where they tell, "
    "else guessed by its name: `hpabatch fit --init-plant` writes these questions with the best "
    "guess each. A backlog must have its rate stated, too.",
    example="signals:\n"
    "  external/queue_length: {kind: backlog, rate: 5/s}\n"
    "  resource/cpu: {base: 120m, ceiling: 2, startup: 500m, overload: queue}",
    some=True,
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A start-up time in its two parts, in ms."""

    scheduling: int = key("scheduling", kinds.duration(), "from its creation until it is started")
    starting: int = key("starting", kinds.duration(), "from there until it is ready")


STARTUP: Final = Record(
    _Parts,
    "startup",
    "A pod's start-up in its two parts.",
    example="pods:\n  startup: [{scheduling: 1s, starting: 30s}, {scheduling: 90s, starting: 30s}]",
)


class _Startup:
    """One start-up time: a duration, or its two parts; reads as (scheduling, starting) in ms."""

    shape = STARTUP
    wants = f"a duration such as 40s, or {STARTUP.wants}"

    def read(self, place: Place) -> tuple[int, int]:
        if isinstance(place.value, Mapping):
            parts: _Parts = STARTUP.read(place)
            return parts.scheduling, parts.starting
        if isinstance(place.value, list):
            place.expected(self.wants)
        total: int = kinds.duration().read(place)
        scheduling = min(_SCHEDULING_MS, total)
        return scheduling, total - scheduling


@dataclass(frozen=True, slots=True)
class PodsOverride:
    """Stated parameters of pods, as in `plant.Pods`.

    `mtbf_ms` is the mean serving time of a pod between two failures; `no_failures`: it is stated
    that there are none.
    """

    startup_ms: tuple[tuple[int, int], ...] | None = key(
        "startup",
        ListOf(
            _Startup(), "a duration such as 40s, or a mapping with the keys scheduling, starting, "
            "or a list of such",
        ),
        "from a pod's creation until it is ready (of a duration, the first second is scheduling); "
        "of a list, each is equally likely", None, "fitted, else 15s",
    )  # fmt: skip
    reaction_ms: int | None = key(
        "reaction", kinds.duration(),
        "from a decision until pods are created or marked for deletion", None, "500ms",
    )  # fmt: skip
    termination_ms: int | None = key(
        "termination", kinds.duration(), "from there until a deleted pod is gone", None,
        "fitted, else 30s",
    )  # fmt: skip
    serves_while_terminating: bool | None = key(
        "serves_while_terminating", kinds.YES_NO, "whether a pod works until it is gone", None,
        "false",
    )  # fmt: skip
    capacity: int | None = key(
        "capacity", kinds.whole(0, 1_000_000), "how many pods there is room for; 0: no limit",
        None, "0",
    )  # fmt: skip
    removal: str | None = key(
        "removal", kinds.word(*REMOVAL_ORDERS), "the order in which pods are removed", None,
        "by the target's kind",
    )  # fmt: skip
    shares: tuple[int, ...] | None = key(
        "shares",
        ListOf(kinds.WEIGHT, "a list of numbers above 0, such as [1, 1.2]", _MAX_CLASSES),
        "classes of pods, by how much of the work they take against each other; with `costs` one "
        "for each class, or one for all", None, "fitted, else [1]",
    )  # fmt: skip
    costs: tuple[int, ...] | None = key(
        "costs",
        ListOf(
            kinds.whole(-(2**31), 2**31 - 1), "a list of whole numbers, one a class", _MAX_CLASSES
        ),
        "the pod deletion cost of each class", None, "[0]",
    )  # fmt: skip
    mtbf_ms: int | None = key(
        "mtbf", _or_none(kinds.duration(10 * _MINUTE_MS)),
        "a pod's mean serving time between two failures, which are drawn from the seed; `none`: "
        "there are no failures", None, "fitted, else none",
    )  # fmt: skip
    no_failures: bool | None = None
    restart_ms: int | None = key(
        "restart", kinds.duration(), "from a failure until the pod is ready again", None,
        "recorded, else 30s",
    )  # fmt: skip
    surge_pct: int | None = key(
        "surge", kinds.percent(1000), "how many pods a rollout may have above the size", None,
        "25%",
    )  # fmt: skip
    unavailable_pct: int | None = key(
        "unavailable", kinds.percent(100), "how many pods a rollout may have below the size",
        None, "25%",
    )  # fmt: skip
    initial_age_ms: int | None = key(
        "initial_age", kinds.duration(), "how long the first pods have been there at the start",
        None, "recorded, else 1h",
    )  # fmt: skip

    def checked(self, place: Place) -> PodsOverride:
        """Refuse (MistakesError) shares and costs of other numbers of classes."""
        shares, costs = self.shares, self.costs
        if shares is not None and costs is not None and 1 != len(costs) != len(shares) != 1:
            member_of(place, "costs").refuse(
                f"expected one cost for each of {len(shares)} classes (`shares`), got {len(costs)}"
            )
        if self.mtbf_ms is None:
            return self
        never = self.mtbf_ms == _NONE
        return replace(self, mtbf_ms=None if never else self.mtbf_ms, no_failures=never)


PODS: Final = Record(
    PodsOverride,
    "pods",
    "The lives of pods.",
    example="pods: {startup: 40s, termination: 10s, mtbf: 2d, surge: 50%}",
    some=True,
)


@dataclass(frozen=True, slots=True)
class PipelineOverride:
    """Stated parameters of a metrics API, as in `plant.Pipeline`."""

    interval_ms: int | None = key(
        "interval", kinds.duration(_SECOND_MS, _HOUR_MS), "between two scrapes", None,
        "recorded, else 15s",
    )  # fmt: skip
    phase_ms: int | None = key(
        "phase", kinds.duration(0, _HOUR_MS), "scrapes come this long after full intervals", None,
        "recorded, else 0s",
    )  # fmt: skip
    window_ms: int | None = key(
        "window", kinds.duration(0, _HOUR_MS),
        "a sample is the mean over this time before its own", None, "recorded, else 15s",
    )  # fmt: skip
    lag_ms: int | None = key(
        "lag", kinds.duration(0, _HOUR_MS), "from a sample's time until the rules can see it",
        None, "recorded, else 0s",
    )  # fmt: skip
    first_sample_ms: int | None = key(
        "first_sample", kinds.duration(), "from a pod's start until its first sample", None,
        "recorded, else 15s",
    )  # fmt: skip
    max_age_ms: int | None = key(
        "max_age", kinds.duration(1), "how long a sample counts without a newer one", None, "1m"
    )


PIPELINE: Final = Record(
    PipelineOverride,
    "pipelines",
    "How a metrics API (" + ", ".join(f"`{api}`" for api in PIPELINES) + ") measures; `external` "
    "stands for Object and External metrics.",
    example="pipelines:\n  resource: {interval: 60s, window: 60s, lag: 5s}",
    some=True,
)


CAPACITY_OF: Final = ("ceiling", "request", "rate")
_SHARE_OF = re.compile(r"([0-9]{1,4}(?:\.[0-9])?) ?% of (\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """The SLO capacity as a share, in thousandths, of a pod's ceiling, request or rate."""

    share_milli: int
    of: str


def _capacity(value: object) -> int | CapacityShare:
    if isinstance(value, str) and "%" in value:
        found = _SHARE_OF.fullmatch(value)
        if found is None or found[2] not in CAPACITY_OF:
            raise ValueError
        milli = int(Decimal(found[1]) * 10)
        if not 1 <= milli <= 1000:
            raise ValueError(f"expected a share above 0%, at most 100%, got {value!r}")
        return CapacityShare(milli, found[2])
    if isinstance(value, str) and "/" in value:
        rate: int = kinds.rate("s", minimum_milli=1).parse(value)
        return rate
    amount: int = kinds.positive_amount().parse(value)
    return amount


@dataclass(frozen=True, slots=True)
class PlantOverride:
    """One entry of a plant file: stated parameters of the selected HPAs.

    `signals` are (glob of signal names, override), `pipelines` (API, override), both in order.
    `capacity` is the SLO capacity of one pod in milli-units, or a share. `place` is the position of
    the entry in a file.
    """

    selector: Selector = part(Selector)
    signals: tuple[tuple[str, SignalOverride], ...] = key(
        "signals",
        MapOf(
            SIGNAL, "a mapping of signals, such as resource/cpu: {base: 120m}", kinds.check_signal
        ),
        "see below", (),
    )  # fmt: skip
    pods: PodsOverride | None = key("pods", PODS, "see below", None)
    pipelines: tuple[tuple[str, PipelineOverride], ...] = key(
        "pipelines",
        MapOf(
            PIPELINE, "a mapping of metrics APIs, such as resource: {lag: 5s}",
            kinds.word(*PIPELINES).parse,
        ),
        "see below", (),
    )  # fmt: skip
    capacity: int | CapacityShare | None = key(
        "capacity",
        Scalar(
            "a quantity such as 400m, a rate such as 5/s, or a share such as 80% of ceiling (or of "
            + ", of ".join(CAPACITY_OF[1:]) + ")", _capacity,
        ),
        "the work that one pod is meant to do (the SLO capacity), by which provisioning is "
        "measured: of the first divisible signal, else of the first backlog (per second). A "
        "share of the ceiling or request is what it leaves for work beside the base",
        None, "80% of what is between base and limit; else what the HPA's target leaves",
    )  # fmt: skip
    place: str = field(default="", compare=False)

    def checked(self, place: Place) -> PlantOverride:
        """Refuse (MistakesError) nothing stated, and a kind that such a signal cannot be of."""
        stated = ("signals", "pods", "pipelines", "capacity")
        if not set(place.members()) & set(stated):
            place.refuse(f"expected one or more of {', '.join(stated)}, got none")
        for glob, signal in self.signals:
            possible = KINDS_OF.get(glob.partition("/")[0], KINDS)
            if signal.kind is not None and signal.kind not in possible:
                place.members()["signals"].members()[glob].members()["kind"].refuse(
                    f"expected one of {', '.join(possible)} for {glob}, got {signal.kind!r}"
                )
        return self


ENTRY: Final = Record(
    PlantOverride,
    "An entry",
    "Parameters, and the HPAs that they are for: those that match both `hpa` and `where`, if both "
    "are given.",
)
_ENTRIES = ListOf(ENTRY, f"{ENTRY.wants}, or a list of such", 10_000)


def read_plant_file(path: Path | str) -> tuple[PlantOverride, ...]:
    """Return the entries of a plant file, in order: of several for one HPA the last counts.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return entries_of(read_document(path, WHAT))


def entries_of(document: Place) -> tuple[PlantOverride, ...]:
    """Return the entries of a document.

    Raises:
        MistakesError: all mistakes in it.
    """
    if not isinstance(document.value, list | Mapping):
        document.expected(_ENTRIES.wants)
    if document.value == []:  # as `fit --init-plant` writes it where nothing is open
        return ()
    found: tuple[PlantOverride, ...] = _ENTRIES.read(document)
    return found
