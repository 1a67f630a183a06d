"""Reader of map files; what the map leaves open is named in `TableMap.assumed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hpabatch.history.provenance import HPAS as HPAS_SUBJECT
from hpabatch.history.provenance import REQUESTS
from hpabatch.importers.common.rows import (
    CPU_COUNTER,
    CPU_MILLI,
    MEMORY_BYTES,
    METRIC_MILLI,
    QUANTITY,
    Rounding,
)
from hpabatch.importers.table.hpas import HPAS, HpaMap, hpa_map
from hpabatch.importers.table.map import (
    MAX_REPLICAS,
    Format,
    Level,
    Lives,
    Pivot,
    Scales,
    TableMap,
    Unpivot,
)
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.values import EXPRESSION, Amount, Amounts, Source, Sources, Times
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Kind, ListOf, MapOf, Record, keys_of, never, record_of
from hpabatch.inputs.documents import Mistakes, Place, read_document, show

_TEXTS: Final = ("pod", "uid", "container", "namespace", "workload", "cluster", "kind")
_DEFAULT_TEXTS: Final = {"container": "app", "namespace": "default", "cluster": "default",
                         "kind": "Deployment"}  # fmt: skip
_SUBJECTS: Final = {"requests": REQUESTS, "hpas": HPAS_SUBJECT}
_UNITS: Final = {
    "cpu": ("cores", CPU_MILLI), "memory": ("bytes", MEMORY_BYTES), "metrics": ("one", METRIC_MILLI)
}  # fmt: skip
"""The unit of a source that says none, and all units with their factors."""
_READY_AFTER: Final = (
    "pods are Ready once they use what older ones do; where that does not tell, they are Ready at "
    "once (no lives.ready_after)"
)
_GAP: Final = (
    "a pod's life ends in a silence of over 10 min and 5 sampling steps in which other pods of its "
    "workload have rows (no lives.gap)"
)
_LEVEL: Final = replace(
    kinds.choice({item.value: item for item in Level}),
    wants="pod (a row per pod) or workload (a row per workload)",
)
# Amounts are thousandths: of a core, or of a byte.
_MEMORY_MILLI: Final = {name: factor * 1e3 for name, factor in MEMORY_BYTES.items()}


def read_map(
    path: Path | str, beside: Beside | None = None, start_ms: int | None = None
) -> TableMap:
    """Read a map file; with objects beside it, it may leave out what these say.

    Relative times begin at `start_ms` (since 1970) instead of the map's start.

    Raises:
        UsageError: it cannot be read; all mistakes in it with their lines and keys.
    """
    place = read_document(path, "map")
    said = place.at("level")
    level: Level = Level.pod if said.value is None else _LEVEL.read(said)
    given = _map(level, beside is not None, start_ms).read(place)
    return _Decoder(place, level, beside, given).decode(Path(path))


def _map(level: Level, beside: bool, start_ms: int | None) -> Record:
    """Return the keys of a map, with the least that it must have."""
    lives = ("grace",) if level is Level.pod else ("before", "gap")
    sections: dict[str, Kind] = {
        "level": _LEVEL,
        "columns": _columns(level, beside, start_ms),
        "window": kinds.duration(),
        **{
            name: record_of(
                {
                    "cpu": Amounts({**CPU_MILLI, QUANTITY: 1.0}, share),
                    "memory": Amounts({**_MEMORY_MILLI, QUANTITY: 1.0}, share),
                }
            )
            for name, share in (("limits", False), ("requests", True))
        },
        "lives": Record(dict, more=tuple(keys_of(Lives)), nulls=True, without=lives),
        "scales": record_of(
            {
                "from": kinds.word("replicas", "pods", "most_common"),
                "at_least": kinds.whole(0, MAX_REPLICAS),
            }
        ),
        "hpas": HPAS,
        "where": EXPRESSION,
        "format": Record(Format, nulls=True),
        "rounding": record_of({"replicas": kinds.choice({r.value: r for r in Rounding})}),
        "unpivot": Record(Unpivot, nulls=True),
        "pivot": Record(Pivot, nulls=True),
        "guessed": ListOf(kinds.choice(_SUBJECTS), "a list of requests and hpas", least=0),
    }
    return record_of(sections, "level", "columns")


class _Columns:
    """The kind of `columns`, whose `wants` names the least that a map must have."""

    wants = "a mapping of at least time, namespace, workload and cpu"

    def __init__(self, record: Record) -> None:
        self.read = record.read


def _columns(level: Level, beside: bool, start_ms: int | None) -> _Columns:
    pods = level is Level.pod
    told = " (or --objects FILE, which says whose pod it is)" if pods else ""
    needed = {
        "workload": f"the column with the name of the workload{told}",
        "pod": "the column with the name of the pod",
        "replicas": "the column with the number of pods",
    }
    found: dict[str, Kind] = {
        name: Sources(needed.get(name, Sources().wants)) for name in (*_TEXTS, "replicas", "ready")
    }
    if not pods:
        found["ready"] = never("no ready with level workload", "say lives.ready_after")
        found |= {n: never(f"no {n} with level workload", "drop it") for n in ("pod", "uid")}
    # A counter is one container's, so its rate is, too.
    of, counter = ((), {CPU_COUNTER: 1e3}) if pods else (("mean", "sum", "max"), {})
    metric = Sources(units={**METRIC_MILLI, QUANTITY: 1e3}, of=of, metric=True)
    found |= {
        "time": Times(start_ms),
        "cpu": Sources(units={**CPU_MILLI, **counter, QUANTITY: 1e3}, of=of),
        "memory": Sources(units={**MEMORY_BYTES, QUANTITY: 1.0}, of=of),
        "metrics": MapOf(metric, "a mapping of metrics", may_be_empty=True),
    }
    workload = () if pods and beside else ("workload",)
    return _Columns(record_of(found, "time", *workload, "pod" if pods else "replicas"))


class _Decoder:
    """Checks what the keys of a map say together; `assumed` collects what they leave open."""

    def __init__(
        self, place: Place, level: Level, beside: Beside | None, given: Mapping[str, Any]
    ) -> None:
        self.place, self.level, self.beside, self.given = place, level, beside, given
        self.columns: Mapping[str, Any] = given["columns"]
        self.mistakes = Mistakes()
        self.assumed: list[str] = []

    def decode(self, path: Path) -> TableMap:
        columns, given = self.columns, self.given
        texts = self._texts()
        usage = {
            name: self._in_units(name, name, columns[name])
            for name in ("cpu", "memory")
            if name in columns
        }
        metrics = {
            name: self._in_units(f"metrics.{name}", "metrics", source)
            for name, source in columns.get("metrics", ())
        }
        if not columns.keys() & {"cpu", "memory", "metrics"}:
            self._wrong("columns.cpu", "expected cpu, memory or metrics, got nothing")
        replicas: Source | None = columns.get("replicas")
        size = None if replicas is None else replicas.value
        if size is not None and not (isinstance(size, int) and 0 <= size <= MAX_REPLICAS):
            wanted = f"expected a whole number of pods, got {show(size)}"
            self._wrong("columns.replicas", wanted)
        if "window" not in given:
            self.assumed.append("samples have no window, which counts as 0s (no `window`)")
        limits, requests = dict(given.get("limits", {})), dict(given.get("requests", {}))
        self._complete(limits, requests)
        lives, scales, hpas = self._lives(), self._scales(), HpaMap()
        if "hpas" in given:
            place = self.place.at("hpas")
            hpas = self.mistakes.tried(hpa_map, place, given["hpas"], self.assumed)
        elif self.beside is None:
            self.assumed.append("the history has no HPA: replay it with --hpas (no hpas)")
        if "pivot" in given and "unpivot" in given:
            self._wrong("pivot", "expected one of pivot and unpivot, got both")
        rounding: Rounding | None = given.get("rounding", {}).get("replicas")
        if rounding is not None and replicas is None:
            wanted = "expected columns.replicas, got none"
            self._wrong("rounding.replicas", wanted, "drop it")
        self.mistakes.refuse()
        return TableMap(
            path=path,
            level=self.level,
            time=columns["time"],
            texts=texts,
            cpu=usage.get("cpu"),
            memory=usage.get("memory"),
            metrics=metrics,
            replicas=replicas,
            ready=columns.get("ready"),
            window_ms=given.get("window"),
            requests=requests,
            limits=limits,
            lives=lives,
            scales=scales,
            hpas=hpas,
            rounding=rounding,
            assumed=tuple(self.assumed),
            guessed=tuple(s for s in _SUBJECTS.values() if s in given.get("guessed", ())),
            beside=self.beside,
            **{
                name: given[name]
                for name in ("where", "unpivot", "pivot", "format")
                if name in given
            },
        )

    def _wrong(self, path: str, problem: str, fix: str = "") -> None:
        """Note a mistake at a key, whether it is there or not."""
        place = self.place
        for name in path.split("."):
            place = place.at(name)
        self.mistakes.add(place.problem(problem, fix))

    def _texts(self) -> dict[str, Source]:
        texts: dict[str, Source] = {}
        for name in _TEXTS:
            source = self.columns.get(name)
            left_out = self.beside is not None and name in ("kind", "container")
            if source is None and name in _DEFAULT_TEXTS and not left_out:
                value = _DEFAULT_TEXTS[name]
                self.assumed.append(f"{name} {value!r} (no columns.{name})")
                source = Source(value=value)
            if source is not None:
                texts[name] = source
        container = texts.get("container")
        if self.level is Level.workload and container is not None and container.value is None:
            self._wrong("columns.container", "expected one container per pod", "say a value")
        return texts

    def _in_units(self, name: str, kind: str, source: Source) -> Source:
        """Return a source of numbers with its unit, the default one where it says none."""
        if source.value is not None or source.unit:
            return source
        unit, factors = _UNITS[kind]
        told = "counts whole units" if kind == "metrics" else f"is in {unit}"
        self.assumed.append(f"columns.{name} {told} (no unit)")
        return replace(source, unit=unit, factor=factors[unit])

    def _complete(self, limits: Mapping[str, Amount], requests: dict[str, Amount]) -> None:
        """Add requests that are the limits."""
        for resource in limits:
            if resource not in requests:
                other = "" if self.beside is None else " where the objects have none"
                self.assumed.append(
                    f"{resource} requests are the limits{other} (no requests.{resource})"
                )
                requests[resource] = Amount(share=1.0)
        for resource, amount in requests.items():
            if amount.share is not None and resource not in limits:
                wanted = f"expected limits.{resource} for of_limit, got no such limit"
                self._wrong(f"requests.{resource}", wanted)
        if "cpu" not in requests and self.beside is None:
            self.assumed.append("containers have no cpu request (no requests.cpu or limits.cpu)")

    def _lives(self) -> Lives:
        said = dict(self.given.get("lives", {}))
        if "ready" in self.columns:
            if "ready_after_ms" in said:
                self._wrong("lives.ready_after", "expected one of it and columns.ready", "keep one")
            said["ready_after_ms"] = None
        pods = self.level is Level.pod
        default = Lives(ready_after_ms=None if pods else 10_000)
        for item in keys_of(Lives):
            if item.field in said or item.name in (("grace",) if pods else ("before", "gap")):
                continue
            value: int | None = getattr(default, item.field)
            if value is not None:
                self.assumed.append(f"lives.{item.name} {value // 1000}s ({item.meaning})")
            elif item.name == "ready_after":
                self.assumed.append(_READY_AFTER)
            else:
                self.assumed.append(_GAP)
        return replace(default, **said)

    def _scales(self) -> Scales:
        said = self.given.get("scales", {})
        allowed = ["replicas"] if "replicas" in self.columns else []
        if self.level is Level.pod:
            allowed += ["pods", "most_common"]
        origin = said.get("from")
        if origin is not None and origin not in allowed:
            self._wrong("scales.from", f"expected one of {', '.join(allowed)}, got {origin!r}")
        if origin is None:
            origin = allowed[0] if allowed else "replicas"
            told = "the replicas column" if origin == "replicas" else "the number of pods alive"
            self.assumed.append(f"recorded sizes are {told} (no scales.from)")
        if origin == "pods" and "at_least" not in said:
            self.assumed.append("a size counted from pods is at least 1 (no scales.at_least)")
        return Scales(origin, said.get("at_least", int(origin == "pods")))
