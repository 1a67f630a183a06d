"""Map file: the meaning and unit of a table's columns, and the assumptions.

`decode` reads it. What it leaves open gets the default that docs/import.md lists, and every default
that shapes the result is named in `TableMap.assumed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from hpabatch.history.expressions.parser import columns
from hpabatch.importers.common.rows import CPU_COUNTER, Rounding
from hpabatch.importers.table.hpas import HpaMap
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.unpivot import Pivot, Unpivot
from hpabatch.importers.table.values import (
    Amount,
    Source,
    TimeSource,
)
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Scalar, key
from hpabatch.model.times import show_instant

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
MAX_REPLICAS = 100_000
"""More pods than any cluster has: a larger number of replicas is a fault of the table."""


class Level(StrEnum):
    """The level of a row: a pod or a workload."""

    pod = "pod"
    workload = "workload"


_DURATION = kinds.duration()


@dataclass(frozen=True, slots=True)
class Lives:
    """Rules for the lives of pods from their samples; times in ms.

    ready_after None: the usage of young pods tells, else at once. gap: a longer silence ends a
    life; None: none does.
    """

    ready_after_ms: int | None = key(
        "ready_after", _DURATION, "from a pod's creation until it is Ready", None
    )
    keep_ms: int = key("keep", _DURATION, "from the last sample until the pod is gone", 60_000)
    edge_ms: int = key(
        "edge", _DURATION, "pods seen so near the table's ends were there before, or stay", 300_000
    )
    ran_before_ms: int = key(
        "ran_before", _DURATION, "how long the pods of the beginning had run", 600_000
    )
    before_ms: int = key("before", _DURATION, "from a pod's creation to its first sample", 0)
    gap_ms: int | None = key(
        "gap",
        Scalar(_DURATION.wants, lambda value: None if value == "never" else _DURATION.parse(value)),
        "", None,
    )  # fmt: skip
    grace_ms: int = key("grace", _DURATION, "how long a pod that was taken away terminates", 30_000)


@dataclass(frozen=True, slots=True)
class Scales:
    """Where recorded sizes come from: replicas, pods, most_common or a constant (`size`)."""

    origin: str
    at_least: int = 0
    size: int = 0


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


@dataclass(frozen=True, slots=True)
class Format:
    """Format of a CSV; `separator` "" is detected in the first line."""

    separator: str = key("separator", kinds.choice(SEPARATORS), "", "")
    decimal: str = key("decimal", kinds.choice({"point": ".", "comma": ","}), "", ".")
    missing: tuple[str, ...] = key(
        "missing", ListOf(Scalar("a string", _string), "a string or a list of strings"), "",
        ("", "NA", "N/A", "null", "NULL", "None", "-"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableMap:
    """A decoded map file. Sources are keyed by meaning; amounts are requests and limits.

    `partial`: entries may match nothing. `guessed`: subjects of provenance that --init guessed.
    `beside`: objects of the cluster; then `texts` may lack
    workload, kind and container, which the objects say.
    """

    path: Path
    level: Level
    time: TimeSource
    texts: Mapping[str, Source]
    cpu: Source | None
    memory: Source | None
    metrics: Mapping[str, Source]
    replicas: Source | None
    ready: Source | None
    window: Source | None
    window_ms: int | None
    requests: Mapping[str, Amount]
    limits: Mapping[str, Amount]
    lives: Lives
    scales: Scales
    hpas: HpaMap
    where: str | None = None
    unpivot: Unpivot | None = None
    pivot: Pivot | None = None
    format: Format = field(default_factory=Format)
    rounding: Mapping[str, Rounding] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    partial: bool = False
    guessed: tuple[str, ...] = ()
    beside: Beside | None = None

    @property
    def whole_pods(self) -> bool:
        """Whether the table does not tell the containers of a pod apart."""
        return "container" not in self.texts

    @property
    def has_counter(self) -> bool:
        """Whether cpu is a counter of CPU time instead of a rate."""
        return self.cpu is not None and self.cpu.unit == CPU_COUNTER

    def describe(self) -> list[tuple[str, str]]:
        """Return the map as (meaning, source)."""
        time = self.time.source.describe()
        time += "".join(f", {text}" for text in (self.time.unit, self.time.zone) if text)
        if self.time.start_ms is not None:
            time += f" since {show_instant(self.time.start_ms)}"
        found = [("level", str(self.level)), ("time", time)]
        sources = {**self.texts, "cpu": self.cpu, "memory": self.memory}
        sources |= {f"metric {name}": source for name, source in self.metrics.items()}
        sources |= {"replicas": self.replicas, "ready": self.ready, "window": self.window}
        found += [(name, item.describe()) for name, item in sources.items() if item is not None]
        for kind, amounts in (("limit", self.limits), ("request", self.requests)):
            found += [
                (f"{name} {kind}", amount.describe("cores" if name == "cpu" else "bytes"))
                for name, amount in amounts.items()
            ]
        shapes = {"unpivot": self.unpivot, "pivot": self.pivot}
        found += [(key, shape.describe()) for key, shape in shapes.items() if shape is not None]
        if self.where is not None:
            found.append(("where", self.where))
        found.append(("sizes", f"{self.scales.origin}, at least {self.scales.at_least}"))
        lives = ", ".join(
            f"{name.removesuffix('_ms')} {value // 1000}s"
            for name, value in asdict(self.lives).items()
            if value is not None
        )
        return [*found, ("lives", lives)]

    @property
    def pods_metrics(self) -> list[str]:
        """The names of the metrics that are the pods' own."""
        return [name for name, source in self.metrics.items() if not source.kind]

    def used_columns(self) -> list[str]:
        """Return the names of all columns that the map needs, without the added `_time_ms`."""
        return list(dict.fromkeys([*self.row_columns(), *self.value_columns()]))

    def row_columns(self) -> list[str]:
        """Return the columns that say of which pod (or workload) and time a row is, and `where`."""
        names = _columns([self.time, *self.texts.values()])
        if self.where is not None:
            names += columns(self.where)
        return [name for name in dict.fromkeys(names) if name != TIME_COLUMN]

    def value_columns(self) -> list[str]:
        """Return the columns of what a row says: of a long table, also its metrics."""
        amounts = (*self.requests.values(), *self.limits.values())
        names = _columns([
            self.cpu, self.memory, *self.metrics.values(), self.replicas, self.ready, self.window,
            *(amount.source for amount in amounts),
        ])  # fmt: skip
        return [name for name in dict.fromkeys(names) if name != TIME_COLUMN]

    def read_columns(self, there: Sequence[str]) -> list[str]:
        """Return those columns of a file that are read."""
        if self.unpivot is not None:
            return self.unpivot.needed(there)
        if self.pivot is None:
            return self.used_columns()
        values = [name for name in self.value_columns() if name in there]
        return list(
            dict.fromkeys([*self.row_columns(), self.pivot.name, self.pivot.value, *values])
        )


def _columns(sources: Iterable[Source | TimeSource | None]) -> list[str]:
    return [name for source in sources if source is not None for name in source.columns]


TIME_COLUMN = "_time_ms"
"""Name of the decoded time (ms since 1970) in `where` and `sql`."""
