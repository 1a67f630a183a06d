"""Plant files: stated parameters of workloads, YAML to `model.settings.overrides`.

docs/scenarios.md lists all keys, from the shapes below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import (
    Built,
    Key,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    member_of,
)
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
from hpabatch.model.settings.overrides import (
    CapacityShare,
    PipelineOverride,
    PlantOverride,
    PodsOverride,
    SignalOverride,
)

WHAT: Final = "plant file"
_MAX_CLASSES = 100
_SECOND_MS = 1000
_SCHEDULING_MS = 1000
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000

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


def _kinds_with(name: str) -> str:
    return kinds.names_of([kind for kind in KINDS if name in USED_BY[kind]])


def _ceiling(value: object) -> int | None:
    found: int | None = None if value == "none" else kinds.positive_amount().parse(value)
    return found


SIGNAL: Final = Shape(
    "signals",
    "Parameters of a signal, by its name, or a pattern of names with the wildcard `*`; of several "
    "that match the last counts. The name is what an HPA's metric measures: `resource/cpu`, "
    "`container/app/cpu`, `pods/http_requests`, `object/Ingress/web/requests`, "
    "`external/queue_length`; a metric's selector in braces: `external/depth{queue=orders}`. "
    "Quantities are those of the metric: cores, bytes, or whatever is counted. What "
    "drives a Pods, Object or External metric is taken from changes of replicas where they tell, "
    "else guessed by its name: `hpabatch fit --init-plant` writes these questions with the best "
    "guess each. A backlog must have its rate stated, too.",
    (
        Key("kind", kinds.word(*KINDS), "what the work is, as docs/simulation.md says; of "
            "resource, container and pods " + kinds.names_of(_OF_PODS) + ", of object and external "
            + kinds.names_of((TOTAL, BACKLOG)), field="kind", default="fitted"),
        Key("base", kinds.AMOUNT, "what a pod uses without work", field="base_milli",
            default="fitted"),
        Key("ceiling", Scalar(f"{kinds.positive_amount().wants}, or none", _ceiling),
            "the most that a pod uses; `none`: there is no such bound", field="ceiling_milli",
            default="the limit, else open"),
        Key("startup", kinds.AMOUNT, "what a pod uses before it serves", field="startup_milli",
            default="fitted"),
        Key("request", kinds.positive_amount(), "a pod's request", field="request_milli",
            default="recorded"),
        Key("overload", kinds.word(*OVERLOADS), "what happens to work above the ceiling",
            field="overload", default="drop"),
        Key("queue", kinds.AMOUNT, "the queue at the start", field="queue_milli", default="0"),
        Key("rate", kinds.rate("s", minimum_milli=1), "what one serving pod takes out of a backlog",
            field="rate_milli", default="none: must be stated"),
        Key("growth", kinds.rate("h"), "what a pod's usage grows by with its age",
            field="growth_milli_per_hour", default="fitted"),
    ),
    example="signals:\n"
    "  external/queue_length: {kind: backlog, rate: 5/s}\n"
    "  resource/cpu: {base: 120m, ceiling: 2, startup: 500m, overload: queue}",
)  # fmt: skip


def _signal(place: Place, given: dict[str, Any]) -> SignalOverride:
    if not given:
        place.expected(SIGNAL.wants)
    members = place.members()
    kind = given.get("kind")
    if kind is not None:
        for name in members:
            if name != "kind" and name not in USED_BY[kind]:
                members[name].refuse(
                    f"expected no {name} of a signal of kind {kind}; only {_kinds_with(name)} "
                    "signals have it"
                )
    if "ceiling_milli" in given:
        given["no_ceiling"] = given["ceiling_milli"] is None
    ceiling, base = given.get("ceiling_milli"), given.get("base_milli")
    if ceiling is not None and base is not None and base > ceiling:
        members["base"].refuse(
            f"expected at most the ceiling, which is {kinds.quantity_of(ceiling)}, got "
            f"{kinds.quantity_of(base)}"
        )
    return SignalOverride(**given)


@dataclass(frozen=True, slots=True)
class _Startup:
    """One start-up time: a duration, or its two parts; reads as (scheduling, starting) in ms."""

    shape: Shape

    @property
    def wants(self) -> str:
        return f"a duration such as 40s, or {self.shape.wants}"

    def read(self, place: Place) -> tuple[int, int]:
        if isinstance(place.value, Mapping):
            given = self.shape.read(place)
            return given["scheduling"], given["starting"]
        if isinstance(place.value, list):
            place.expected(self.wants)
        total: int = kinds.duration().read(place)
        scheduling = min(_SCHEDULING_MS, total)
        return scheduling, total - scheduling


STARTUP: Final = Shape(
    "startup",
    "A pod's start-up in its two parts.",
    (
        Key("scheduling", kinds.duration(), "from its creation until it is started",
            field="scheduling", required=True),
        Key("starting", kinds.duration(), "from there until it is ready", field="starting",
            required=True),
    ),
    example="pods:\n"
    "  startup: [{scheduling: 1s, starting: 30s}, {scheduling: 90s, starting: 30s}]",
)  # fmt: skip

_MTBF = kinds.duration(10 * _MINUTE_MS)


def _mtbf(value: object) -> int | None:
    found: int | None = None if value == "none" else _MTBF.parse(value)
    return found


PODS: Final = Shape(
    "pods",
    "The lives of pods.",
    (
        Key("startup", ListOf(_Startup(STARTUP), "a duration such as 40s, or a mapping with the "
            "keys scheduling, starting, or a list of such"), "from a pod's creation until it is "
            "ready (of a duration, the first second is scheduling); of a list, each is equally "
            "likely", field="startup_ms", default="fitted, else 15s"),
        Key("reaction", kinds.duration(), "from a decision until pods are created or marked for "
            "deletion", field="reaction_ms", default="500ms"),
        Key("termination", kinds.duration(), "from there until a deleted pod is gone",
            field="termination_ms", default="fitted, else 30s"),
        Key("serves_while_terminating", kinds.YES_NO, "whether a pod works until it is gone",
            field="serves_while_terminating", default="false"),
        Key("capacity", kinds.whole(0, 1_000_000), "how many pods there is room for; 0: no limit",
            field="capacity", default="0"),
        Key("removal", kinds.word(*REMOVAL_ORDERS), "the order in which pods are removed",
            field="removal", default="by the target's kind"),
        Key("shares", ListOf(kinds.WEIGHT, "a list of numbers above 0, such as [1, 1.2]",
            _MAX_CLASSES), "classes of pods, by how much of the work they take against each "
            "other; with `costs` one for each class, or one for all", field="shares",
            default="fitted, else [1]"),
        Key("costs", ListOf(kinds.whole(-(2**31), 2**31 - 1), "a list of whole numbers, one a "
            "class", _MAX_CLASSES), "the pod deletion cost of each class", field="costs",
            default="[0]"),
        Key("mtbf", Scalar(f"{_MTBF.wants}, or none", _mtbf), "a pod's mean serving time between "
            "two failures, which are drawn from the seed; `none`: there are no failures",
            field="mtbf_ms", default="fitted, else none"),
        Key("restart", kinds.duration(), "from a failure until the pod is ready again",
            field="restart_ms", default="recorded, else 30s"),
        Key("surge", kinds.percent(1000), "how many pods a rollout may have above the size",
            field="surge_pct", default="25%"),
        Key("unavailable", kinds.percent(100), "how many pods a rollout may have below the size",
            field="unavailable_pct", default="25%"),
        Key("initial_age", kinds.duration(), "how long the first pods have been there at the start",
            field="initial_age_ms", default="recorded, else 1h"),
    ),
    example="pods: {startup: 40s, termination: 10s, mtbf: 2d, surge: 50%}",
)  # fmt: skip


def _pods(place: Place, given: dict[str, Any]) -> PodsOverride:
    if not given:
        place.expected(PODS.wants)
    shares, costs = given.get("shares"), given.get("costs")
    if shares is not None and costs is not None and 1 != len(costs) != len(shares) != 1:
        member_of(place, "costs").refuse(
            f"expected one cost for each of {len(shares)} classes (`shares`), got {len(costs)}"
        )
    if "mtbf_ms" in given:
        given["no_failures"] = given["mtbf_ms"] is None
    return PodsOverride(**given)


PIPELINE: Final = Shape(
    "pipelines",
    "How a metrics API (" + ", ".join(f"`{api}`" for api in PIPELINES) + ") measures; `external` "
    "stands for Object and External metrics.",
    (
        Key("interval", kinds.duration(_SECOND_MS, _HOUR_MS), "between two scrapes",
            field="interval_ms", default="recorded, else 15s"),
        Key("phase", kinds.duration(0, _HOUR_MS), "scrapes come this long after full intervals",
            field="phase_ms", default="recorded, else 0s"),
        Key("window", kinds.duration(0, _HOUR_MS), "a sample is the mean over this time before "
            "its own", field="window_ms", default="recorded, else 15s"),
        Key("lag", kinds.duration(0, _HOUR_MS), "from a sample's time until the rules can see it",
            field="lag_ms", default="recorded, else 0s"),
        Key("first_sample", kinds.duration(), "from a pod's start until its first sample",
            field="first_sample_ms", default="recorded, else 15s"),
        Key("max_age", kinds.duration(1), "how long a sample counts without a newer one",
            field="max_age_ms", default="1m"),
    ),
    example="pipelines:\n"
    "  resource: {interval: 60s, window: 60s, lag: 5s}",
)  # fmt: skip


def _pipeline(place: Place, given: dict[str, Any]) -> PipelineOverride:
    if not given:
        place.expected(PIPELINE.wants)
    return PipelineOverride(**given)


def _check_api(name: str) -> None:
    kinds.word(*PIPELINES).parse(name)


def _check_glob(glob: str) -> None:
    kinds.check_signal(glob)


CAPACITY_OF: Final = ("ceiling", "request", "rate")
_SHARE_OF = re.compile(r"([0-9]{1,4}(?:\.[0-9])?) ?% of (\w+)", re.ASCII)


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


ENTRY: Final = Shape(
    "An entry",
    "Parameters, and the HPAs that they are for: those that match both `hpa` and `where`, if both "
    "are given.",
    (
        *kinds.SELECTOR_KEYS,
        Key("signals", MapOf(Built(SIGNAL, _signal), "a mapping of signals, such as "
            "resource/cpu: {base: 120m}", _check_glob), "see below", field="signals"),
        Key("pods", Built(PODS, _pods), "see below", field="pods"),
        Key("pipelines", MapOf(Built(PIPELINE, _pipeline), "a mapping of metrics APIs, such as "
            "resource: {lag: 5s}", _check_api), "see below", field="pipelines"),
        Key("capacity", Scalar("a quantity such as 400m, a rate such as 5/s, or a share such as "
            "80% of ceiling (or of " + ", of ".join(CAPACITY_OF[1:]) + ")", _capacity),
            "the work that one pod is meant to do (the SLO capacity), by which provisioning is "
            "measured: of the first divisible signal, else of the first backlog (per second). A "
            "share of the ceiling or request is what it leaves for work beside the base",
            field="capacity",
            default="80% of what is between base and limit; else what the HPA's target leaves"),
    ),
)  # fmt: skip


def _entry(place: Place, given: dict[str, Any]) -> PlantOverride:
    selectors = {key.field for key in kinds.SELECTOR_KEYS}
    if not set(given) - selectors:
        stated = ENTRY.names[len(kinds.SELECTOR_KEYS) :]
        place.refuse(f"expected one or more of {', '.join(stated)}, got none")
    for glob, signal in given.get("signals", ()):
        _check_kind(place.members()["signals"].members()[glob], glob, signal)
    own = {key: value for key, value in given.items() if key not in selectors}
    return PlantOverride(**own, selector=kinds.selector_of(place, given), place=str(place))


def _check_kind(place: Place, glob: str, signal: SignalOverride) -> None:
    """Refuse a kind that a signal of this name cannot be of."""
    possible = KINDS_OF.get(glob.partition("/")[0], KINDS)
    if signal.kind is not None and signal.kind not in possible:
        place.members()["kind"].refuse(
            f"expected one of {', '.join(possible)} for {glob}, got {signal.kind!r}"
        )


_ENTRIES = ListOf(Built(ENTRY, _entry), f"{ENTRY.wants}, or a list of such", 10_000)


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
