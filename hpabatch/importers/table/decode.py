"""Reader of map files; what the map leaves open is named in `TableMap.assumed`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hpabatch.history.provenance import HPAS as HPAS_SUBJECT
from hpabatch.history.provenance import REQUESTS
from hpabatch.importers.common.rows import (
    CPU_COUNTER,
    CPU_MILLI,
    DURATION_MS,
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
from hpabatch.inputs.documents import Mistakes, MistakesError, Place, read_document, show

_TEXTS: Final = ("pod", "uid", "container", "namespace", "workload", "cluster", "kind")
_DEFAULT_TEXTS: Final = {"container": "app", "namespace": "default", "cluster": "default",
                         "kind": "Deployment"}  # fmt: skip
_SUBJECTS: Final = {"requests": REQUESTS, "hpas": HPAS_SUBJECT}
_SUM: Final = ("mean", "sum", "max")
_FRACTIONS: Final = {
    "cpu": ("a millicore", "up"),
    "memory": ("a byte", "up"),
    "metrics": ("a thousandth of a metric", "down"),
    "replicas": ("", ""),
}
_READY_AFTER: Final = (
    "pods are Ready once they use what older ones do; where that does not tell, they are Ready at "
    "once (no lives.ready_after)"
)
_WINDOW: Final = Sources(units=DURATION_MS)
_RESOURCES: Final = {
    "cpu": {**CPU_MILLI, QUANTITY: 1.0},
    # Amounts are thousandths: of a core, or of a byte.
    "memory": {name: factor * 1e3 for name, factor in (*MEMORY_BYTES.items(), (QUANTITY, 1e-3))},
}


def read_map(
    path: Path | str, beside: Beside | None = None, start_ms: int | None = None
) -> TableMap:
    """Read a map file; with objects beside it, it may leave out what these say.

    Relative times begin at `start_ms` (since 1970) instead of the map's start.

    Raises:
        UsageError: it cannot be read; all mistakes in it with their lines and keys.
    """
    place = read_document(path, "map")
    level = _level(place)
    record, mistakes = _map(level, beside is not None, start_ms), Mistakes()
    given = mistakes.tried(record.read, place)
    if not mistakes.found:
        return _Decoder(place, level, beside, given).decode(Path(path))
    # What the sections that are right say together is told with the mistakes of the others.
    right: dict[str, Any] = {}
    for item in record.keys:
        if (there := place.at(item.name)).value is not None:
            with suppress(MistakesError):
                right[item.field] = item.kind.read(there)
    if "limits" not in right:  # (a share of a limit cannot be judged)
        right.pop("requests", None)
    if "columns" in right:
        mistakes.tried(_Decoder(place, level, beside, right).decode, Path(path))
    elif "hpas" in right:
        mistakes.tried(hpa_map, place.at("hpas"), right["hpas"], [])
    raise MistakesError(mistakes.found)


def _level(place: Place) -> Level:
    if not isinstance(place.value, Mapping):
        place.expected("a mapping")
    there, mistakes = place.at("level"), Mistakes()
    unknown = place.unknown(_map(Level.pod, beside=False, start_ms=None).names)
    if there.value is not None:
        kind = kinds.choice({item.value: item for item in Level})
        level: Level = mistakes.tried(kind.read, there)
        if not mistakes.found:
            return level
    elif "level" not in {nearest for _, nearest in unknown.values()}:
        wanted = "expected pod (a row per pod) or workload (a row per workload), got nothing"
        mistakes.add(there.problem(wanted))
    mistakes.add(*(sentence for sentence, _ in unknown.values()))
    raise MistakesError(mistakes.found)


def _map(level: Level, beside: bool, start_ms: int | None) -> Record:
    amounts = {
        name: record_of({resource: Amounts(units, share=name == "requests")
                         for resource, units in _RESOURCES.items()})
        for name in ("limits", "requests")
    }  # fmt: skip
    sections: dict[str, Kind] = {
        "level": kinds.text(),
        "columns": _columns(level, beside, start_ms),
        "window": kinds.duration(),
        **amounts,
        "lives": _lives(level),
        "scales": _SCALES,
        "hpas": HPAS,
        "where": EXPRESSION,
        "format": Record(Format, nulls=True),
        "rounding": _ROUNDING,
        "partial": kinds.YES_NO,
        "unpivot": Record(Unpivot, nulls=True),
        "pivot": Record(Pivot, nulls=True),
        "guessed": ListOf(kinds.choice(_SUBJECTS), "a list of requests and hpas", least=0),
    }
    return record_of(sections, "columns")


_SCALES: Final = record_of({
    "from": kinds.word("replicas", "pods", "most_common"),
    "replicas": kinds.whole(0, MAX_REPLICAS),
    "at_least": kinds.whole(0, MAX_REPLICAS),
})  # fmt: skip
_ROUNDING: Final = record_of(
    dict.fromkeys(_FRACTIONS, kinds.choice({item.value: item for item in Rounding}))
)


def _lives(level: Level) -> Record:
    return Record(dict, more=tuple(keys_of(Lives)), nulls=True, without=(
        ("grace",) if level is Level.pod else ("before", "gap")
    ))  # fmt: skip


class _Columns:
    """The kind of `columns`, whose `wants` names the least that a map must have."""

    wants = "a mapping of at least time, namespace, workload and cpu"

    def __init__(self, record: Record) -> None:
        self.read = record.read


def _columns(level: Level, beside: bool, start_ms: int | None) -> _Columns:
    of = _SUM if level is Level.workload else ()
    cpu = {**CPU_MILLI, QUANTITY: 1e3}
    if level is Level.pod:  # a counter is one container's, so its rate is, too
        cpu = {**CPU_MILLI, CPU_COUNTER: 1e3, QUANTITY: 1e3}
    metric = Sources(units={**METRIC_MILLI, QUANTITY: 1e3}, of=of, metric=True)
    needed = ["time", "workload"]
    if level is Level.pod:
        needed = ["time", "pod"] if beside else ["time", "workload", "pod"]
    else:
        needed.append("replicas")
    told = " (or --objects FILE, which says whose pod it is)" if level is Level.pod else ""
    wants = {
        "workload": f"the column with the name of the workload{told}",
        "pod": "the column with the name of the pod",
        "replicas": "the column with the number of pods",
    }
    sources: dict[str, Kind] = {
        name: Sources(wants.get(name, _WINDOW.wants)) for name in (*_TEXTS, "replicas", "ready")
    }
    if level is Level.workload:
        sources["ready"] = never("no ready with level workload", "say lives.ready_after")
        for name in ("pod", "uid"):
            sources[name] = never(f"no {name} with level workload", "drop it")
    pairs: dict[str, Kind] = {
        "time": Times(start_ms),
        **sources,
        "cpu": Sources(units=cpu, of=of),
        "memory": Sources(units={**MEMORY_BYTES, QUANTITY: 1.0}, of=of),
        "metrics": MapOf(metric, "a mapping of metrics", may_be_empty=True),
        "window": _WINDOW,
    }
    return _Columns(record_of(pairs, *needed))


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
        cpu, memory = self._usage("cpu", "cores"), self._usage("memory", "bytes")
        metrics = {name: self._in_units(f"metrics.{name}", source, "one", METRIC_MILLI)
                   for name, source in columns.get("metrics", ())}  # fmt: skip
        if not columns.keys() & {"cpu", "memory", "metrics"}:
            self._wrong("columns.cpu", "expected cpu, memory or metrics, got nothing")
        replicas = self._replicas()
        self._check_window()
        limits, requests = dict(given.get("limits", {})), dict(given.get("requests", {}))
        self._complete(limits, requests)
        lives, scales = self._lives(), self._scales()
        hpas = self._hpas()
        if "pivot" in given and "unpivot" in given:
            self._wrong("pivot", "expected one of pivot and unpivot, got both")
        rounding = self._rounding()
        self.mistakes.refuse()
        return TableMap(
            path=path,
            level=self.level,
            time=columns["time"],
            texts=texts,
            cpu=cpu,
            memory=memory,
            metrics=metrics,
            replicas=replicas,
            ready=columns.get("ready"),
            window=columns.get("window"),
            window_ms=given.get("window"),
            requests=requests,
            limits=limits,
            lives=lives,
            scales=scales,
            hpas=hpas,
            where=given.get("where"),
            unpivot=given.get("unpivot"),
            pivot=given.get("pivot"),
            format=given.get("format", Format()),
            rounding=rounding,
            assumed=tuple(self.assumed),
            partial=given.get("partial", False),
            guessed=tuple(s for s in _SUBJECTS.values() if s in given.get("guessed", ())),
            beside=self.beside,
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

    def _usage(self, name: str, default: str) -> Source | None:
        source, units = self.columns.get(name), CPU_MILLI if name == "cpu" else MEMORY_BYTES
        return None if source is None else self._in_units(name, source, default, units)

    def _in_units(
        self, name: str, source: Source, default: str, units: Mapping[str, float]
    ) -> Source:
        if source.value is not None or source.unit:
            return source
        told = "counts whole units" if default == "one" else f"is in {default}"
        self.assumed.append(f"columns.{name} {told} (no unit)")
        return replace(source, unit=default, factor=units[default])

    def _replicas(self) -> Source | None:
        source: Source | None = self.columns.get("replicas")
        value = None if source is None else source.value
        if value is not None and not (isinstance(value, int) and 0 <= value <= MAX_REPLICAS):
            wanted = f"expected a whole number of pods, got {show(value)}"
            self._wrong("columns.replicas", wanted)
        return source

    def _check_window(self) -> None:
        source, constant = self.columns.get("window"), self.given.get("window")
        if source is not None and source.value is None and not source.unit:
            units = ", ".join(DURATION_MS)
            self._wrong("columns.window", f"expected a unit, one of {units}, got none")
        if source is not None and constant is not None:
            self._wrong("window", "expected one window, got columns.window too", "keep one")
        if source is None and constant is None:
            self.assumed.append("samples have no window, which counts as 0s (no `window`)")

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
        default = Lives(ready_after_ms=10_000 if self.level is Level.workload else None)
        for item in _lives(self.level).keys:
            if item.field in said:
                continue
            value: int | None = getattr(default, item.field)
            if value is not None:
                self.assumed.append(f"lives.{item.name} {value // 1000}s ({item.meaning})")
            elif item.name == "ready_after":
                self.assumed.append(_READY_AFTER)
            else:
                self.assumed.append("no silence ends a pod's life (no lives.gap)")
        return replace(default, **said)

    def _scales(self) -> Scales:
        said = self.given.get("scales", {})
        allowed = ["replicas"] if "replicas" in self.columns else []
        if self.level is Level.pod:
            allowed += ["pods", "most_common"]
        elif "replicas" in said:
            self._wrong("scales.replicas", "expected no replicas with level workload", "drop it")
        origin, size = said.get("from"), said.get("replicas")
        if origin is not None and origin not in allowed:
            self._wrong("scales.from", f"expected one of {', '.join(allowed)}, got {origin!r}")
        if origin is not None and size is not None:
            wanted = "expected one of `replicas` and `from`, got both"
            self._wrong("scales.replicas", wanted)
        if size is not None:
            origin = "constant"
        if origin is None:
            origin = allowed[0] if allowed else "replicas"
            told = "the replicas column" if origin == "replicas" else "the number of pods alive"
            self.assumed.append(f"recorded sizes are {told} (no scales.from)")
        at_least = said.get("at_least")
        if at_least is None:
            at_least = int(origin == "pods")
            if at_least:
                self.assumed.append("a size counted from pods is at least 1 (no scales.at_least)")
        return Scales(origin, at_least, size or 0)

    def _hpas(self) -> HpaMap:
        if "hpas" not in self.given:
            if self.beside is None:
                self.assumed.append("the history has no HPA: replay it with --hpas (no hpas)")
            return HpaMap()
        place = self.place.at("hpas")
        return self.mistakes.tried(hpa_map, place, self.given["hpas"], self.assumed)

    def _rounding(self) -> dict[str, Rounding]:
        found: dict[str, Rounding] = dict(self.given.get("rounding", {}))
        for name in found:
            if name not in self.columns:
                self._wrong(f"rounding.{name}", f"expected columns.{name}, got none", "drop it")
        for name, (fraction, default) in _FRACTIONS.items():
            if name not in found and default:
                found[name] = Rounding(default)
                if name != "metrics" or "metrics" in self.columns:
                    self.assumed.append(f"fractions of {fraction} are rounded {default}")
        return found
