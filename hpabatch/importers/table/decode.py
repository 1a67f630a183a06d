"""Decoder of map files: a strict reader that notes everything that the map leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpabatch.history.provenance import HPAS, REQUESTS
from hpabatch.importers.common.units import (
    CPU_COUNTER,
    CPU_MILLI,
    DURATION_MS,
    MEMORY_BYTES,
    METRIC_MILLI,
    QUANTITY,
    Rounding,
)
from hpabatch.importers.table.hpas import decode_hpas
from hpabatch.importers.table.map import (
    MAX_REPLICAS,
    SEPARATORS,
    Format,
    Level,
    Lives,
    Scales,
    TableMap,
)
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.unpivot import decode_pivot, decode_unpivot
from hpabatch.importers.table.values import (
    Amount,
    Source,
    check_expression,
    decode_amount,
    decode_source,
    decode_time,
)
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Scalar
from hpabatch.inputs.documents import Mistakes, read_document, show
from hpabatch.inputs.fields import Fields

_TEXTS = ("pod", "uid", "container", "namespace", "workload", "cluster", "kind")
_DEFAULT_TEXTS = {"container": "app", "namespace": "default", "cluster": "default",
                  "kind": "Deployment"}  # fmt: skip
_POD_ONLY = ("pod", "uid")
_KEYS = ("columns", "window", "limits", "requests", "lives", "scales", "hpas", "where", "format",
         "rounding", "partial", "unpivot", "pivot", "guessed")  # fmt: skip


def read_map(
    path: Path | str, beside: Beside | None = None, start_ms: int | None = None
) -> TableMap:
    """Read a map file; with objects beside it, it may leave out what these say.

    Relative times begin at `start_ms` (since 1970) instead of the map's start.

    Raises:
        UsageError: it cannot be read; all mistakes in it with their lines and keys.
    """
    mistakes = Mistakes()
    top = Fields(read_document(path, "map"), mistakes)
    found = _Decoder(top, Path(path), beside).decode(start_ms)
    mistakes.refuse()
    return found


class _Decoder:
    """Decodes one map; `assumed` collects what it leaves open."""

    def __init__(self, top: Fields, path: Path, beside: Beside | None) -> None:
        self.top = top
        self.beside = beside
        self.path = path
        self.assumed: list[str] = []
        names = [item.value for item in Level]
        top.missing("level", "pod (a row per pod) or workload (a row per workload)")
        level = top.one_of("level", names)
        if not level:
            top.get_all(_KEYS)
            top.close()  # a misspelled `level` is told as such
            top.mistakes.refuse()  # the level decides what the other keys may be
        self.level = Level(level)

    def decode(self, start_ms: int | None) -> TableMap:
        top = self.top
        top.missing("columns", "a mapping of at least time, namespace, workload and cpu")
        columns = top.child("columns") or self._empty("columns")
        time = decode_time(columns, start_ms)
        texts = self._texts(columns)
        cpu = self._usage(columns, "cpu", self._cpu_units(), "cores")
        memory = self._usage(columns, "memory", MEMORY_BYTES, "bytes")
        metrics = self._metrics(columns)
        if not any(name in columns for name in ("cpu", "memory", "metrics")):
            columns.missing("cpu", "cpu, memory or metrics")
        replicas = self._replicas(columns)
        ready = decode_source(columns, "ready") if self.level is Level.pod else None
        if self.level is Level.workload and columns.get("ready") is not None:
            fix = "say lives.ready_after"
            columns.mistake("ready", "expected no ready with level workload", fix)
        window, window_ms = self._window(columns)
        columns.close()
        requests, limits = self._resources()
        found = TableMap(
            path=self.path,
            level=self.level,
            time=time,
            texts=texts,
            cpu=cpu,
            memory=memory,
            metrics=metrics,
            replicas=replicas,
            ready=ready,
            window=window,
            window_ms=window_ms,
            requests=requests,
            limits=limits,
            lives=self._lives("ready" in columns),
            scales=self._scales("replicas" in columns),
            hpas=decode_hpas(top, self.assumed, known=self.beside is not None),
            where=self._where(),
            unpivot=decode_unpivot(top),
            pivot=decode_pivot(top),
            format=self._format(),
            rounding=self._rounding(columns, bool(metrics)),
            assumed=tuple(self.assumed),
            partial=bool(top.read("partial", kinds.YES_NO)),
            guessed=self._guessed(),
            beside=self.beside,
        )
        top.close()
        return found

    def _empty(self, key: str) -> Fields:
        """Return a mapping in the place of one that is absent."""
        return Fields(self.top.here.within(key, {}), Mistakes())

    def _texts(self, columns: Fields) -> dict[str, Source]:
        texts: dict[str, Source] = {}
        for name in _TEXTS:
            if name in _POD_ONLY and self.level is Level.workload:
                if columns.get(name) is not None:
                    columns.mistake(name, f"expected no {name} with level workload", "drop it")
                continue
            source = decode_source(columns, name)
            left_out = self.beside is not None and name in ("kind", "container")
            if source is None and name in _DEFAULT_TEXTS and not left_out:
                value = _DEFAULT_TEXTS[name]
                self.assumed.append(f"{name} {value!r} (no columns.{name})")
                source = Source(value=value)
            if source is not None:
                texts[name] = source
        container = texts.get("container")
        if self.level is Level.workload and container is not None and container.value is None:
            columns.mistake("container", "expected one container per pod", "say a value")
        for name in ("workload", "pod"):
            if name == "workload" and self.level is Level.pod and self.beside is not None:
                continue
            if name == "workload" or self.level is Level.pod:
                or_objects = name == "workload" and self.level is Level.pod
                told = " (or --objects FILE, which says whose pod it is)" if or_objects else ""
                columns.missing(name, f"the column with the name of the {name}{told}")
        return texts

    def _usage(
        self, columns: Fields, name: str, units: Mapping[str, float], default: str
    ) -> Source | None:
        source = decode_source(columns, name, (*units, QUANTITY), statistic=self._statistics())
        if source is None or source.value is not None:
            return source
        if not source.unit:
            self.assumed.append(f"columns.{name} is in {default} (no unit)")
            source = source.with_unit(default)
        return source.with_factor(units.get(source.unit, 1e3 if name == "cpu" else 1.0))

    def _cpu_units(self) -> Mapping[str, float]:
        """Return the units of usage; a counter is one container's, so its rate is, too."""
        return {**CPU_MILLI, CPU_COUNTER: 1e3} if self.level is Level.pod else CPU_MILLI

    def _statistics(self) -> tuple[str, ...]:
        return ("mean", "sum", "max") if self.level is Level.workload else ()

    def _metrics(self, columns: Fields) -> dict[str, Source]:
        section = columns.child("metrics")
        found: dict[str, Source] = {}
        if section is None:
            return found
        for name in section.members():
            section.missing(name, "a column, or a mapping with column, sql or value")
            source = decode_source(
                section,
                name,
                (*METRIC_MILLI, QUANTITY),
                statistic=self._statistics(),
                metric=True,
            )
            if source is None:
                continue
            if source.value is None and not source.unit:
                self.assumed.append(f"columns.metrics.{name} counts whole units (no unit)")
                source = source.with_unit("one")
            found[name] = source.with_factor(METRIC_MILLI.get(source.unit, 1e3))
        return found

    def _replicas(self, columns: Fields) -> Source | None:
        source = decode_source(columns, "replicas")
        if self.level is Level.workload:
            columns.missing("replicas", "the column with the number of pods")
        if source is not None and source.value is not None:
            value = source.value
            if not isinstance(value, int) or not 0 <= value <= MAX_REPLICAS:
                columns.mistake("replicas", f"expected a whole number of pods, got {show(value)}")
        return source

    def _window(self, columns: Fields) -> tuple[Source | None, int | None]:
        source = decode_source(columns, "window", DURATION_MS)
        if source is not None and source.value is None and not source.unit:
            columns.mistake("window", f"expected a unit, one of {', '.join(DURATION_MS)}, got none")
        constant: int | None = self.top.read("window", kinds.duration())
        if source is not None and constant is not None:
            self.top.mistake("window", "expected one window, got columns.window too", "keep one")
        if source is None and constant is None:
            self.assumed.append("samples have no window, which counts as 0s (no `window`)")
        if source is not None:
            source = source.with_factor(DURATION_MS.get(source.unit, 1.0))
        return source, constant

    def _resources(self) -> tuple[dict[str, Amount], dict[str, Amount]]:
        found: list[dict[str, Amount]] = []
        for name in ("limits", "requests"):
            section = self.top.child(name)
            amounts: dict[str, Amount] = {}
            if section is not None:
                for resource, units in (("cpu", CPU_MILLI), ("memory", MEMORY_BYTES)):
                    amount = decode_amount(section, resource, units, share=name == "requests")
                    if amount is not None:
                        amounts[resource] = amount
                section.close()
            found.append(amounts)
        limits, requests = found
        for resource in limits:
            if resource not in requests:
                other = "" if self.beside is None else " where the objects have none"
                self.assumed.append(
                    f"{resource} requests are the limits{other} (no requests.{resource})"
                )
                requests[resource] = Amount(share=1.0)
        for resource, amount in requests.items():
            if amount.share is not None and resource not in limits:
                place = self.top.at("requests").members()[resource]
                self.top.mistakes.add(
                    place.problem(f"expected limits.{resource} for of_limit, got no such limit")
                )
        if "cpu" not in requests and self.beside is None:
            self.assumed.append("containers have no cpu request (no requests.cpu or limits.cpu)")
        return requests, limits

    def _lives(self, has_ready: bool) -> Lives:
        section = self.top.child("lives") or self._empty("lives")
        names = ["ready_after", "keep", "edge", "ran_before"]
        names += ["before", "gap"] if self.level is Level.pod else ["grace"]
        if has_ready:
            names.remove("ready_after")
            if section.get("ready_after") is not None:
                section.mistake("ready_after", "expected one of it and columns.ready", "keep one")
        default = Lives(ready_after_ms=10_000 if self.level is Level.workload else None)
        values: dict[str, int] = {}
        for name in names:
            if name == "gap" and section.get("gap") == "never":
                continue
            value = section.read(name, kinds.duration())
            if value is not None:
                values[name] = value
            elif name == "ready_after" and self.level is Level.pod:
                self.assumed.append(_READY_AFTER)
            elif name != "gap":
                ms = getattr(default, f"{name}_ms")
                values[name] = ms
                self.assumed.append(f"lives.{name} {ms // 1000}s ({_LIVES[name]})")
            else:
                self.assumed.append("no silence ends a pod's life (no lives.gap)")
        section.close()
        return Lives(**{f"{name}_ms": value for name, value in values.items()})

    def _scales(self, has_replicas: bool) -> Scales:
        section = self.top.child("scales") or self._empty("scales")
        allowed = ["replicas"] if has_replicas else []
        if self.level is Level.pod:
            allowed += ["pods", "most_common"]
        origin = section.one_of("from", allowed)
        size = section.whole("replicas", 0, MAX_REPLICAS) if self.level is Level.pod else None
        if size is not None and "from" in section:
            section.mistake("replicas", "expected one of `replicas` and `from`, got both")
        if size is not None:
            origin = "constant"
        if not origin:
            origin = allowed[0] if allowed else "replicas"
            told = "the replicas column" if origin == "replicas" else "the number of pods alive"
            self.assumed.append(f"recorded sizes are {told} (no scales.from)")
        at_least = section.whole("at_least", 0, MAX_REPLICAS)
        if at_least is None:
            at_least = 1 if origin == "pods" else 0
            if at_least:
                self.assumed.append("a size counted from pods is at least 1 (no scales.at_least)")
        section.close()
        return Scales(origin, at_least, size or 0)

    def _where(self) -> str | None:
        where: str | None = self.top.read("where", kinds.text())
        if where is not None:
            check_expression(self.top, "where", where)
        return where

    def _guessed(self) -> tuple[str, ...]:
        """Return the subjects of provenance that the map states as guessed."""
        if self.top.get("guessed") == []:  # all that --init guessed is stated by now
            return ()
        names: tuple[str, ...] = self.top.read("guessed", _GUESSED) or ()
        return tuple(subject for name, subject in _SUBJECTS.items() if name in names)

    def _format(self) -> Format:
        section = self.top.child("format")
        if section is None:
            return Format()
        separator = section.one_of("separator", SEPARATORS)
        decimal = section.one_of("decimal", ["point", "comma"])
        missing: tuple[str, ...] | None = section.read("missing", _MISSING)
        section.close()
        return Format(
            separator=SEPARATORS[separator] if separator else "",
            decimal="," if decimal == "comma" else ".",
            missing=Format().missing if missing is None else missing,
        )

    def _rounding(self, columns: Fields, has_metrics: bool) -> dict[str, Rounding]:
        section = self.top.child("rounding") or self._empty("rounding")
        found: dict[str, Rounding] = {}
        for name, default in (
            ("cpu", "up"),
            ("memory", "up"),
            ("metrics", "down"),
            ("replicas", ""),
        ):
            value = section.one_of(name, [item.value for item in Rounding])
            if not value and default and (name != "metrics" or has_metrics):
                self.assumed.append(f"fractions of {_FRACTIONS[name]} are rounded {default}")
            if value and name not in columns:
                section.mistake(name, f"expected columns.{name} for it, got none", "drop it")
            if value or default:
                found[name] = Rounding(value or default)
        section.close()
        return found


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_MISSING = ListOf(Scalar("a string", _string), "a string or a list of strings")
_SUBJECTS = {"requests": REQUESTS, "hpas": HPAS}


def _guess(value: object) -> str:
    if value not in _SUBJECTS:
        raise ValueError
    return str(value)


_GUESSED = ListOf(Scalar("requests or hpas", _guess), "a list of requests and hpas")
_FRACTIONS = {
    "cpu": "a millicore",
    "memory": "a byte",
    "metrics": "a thousandth of a metric",
}
_READY_AFTER = (
    "pods are Ready once they use what older ones do; where that does not tell, they are Ready at "
    "once (no lives.ready_after)"
)
_LIVES = {
    "ready_after": "from a pod's creation until it is Ready",
    "keep": "from the last sample until the pod is gone",
    "edge": "pods seen so near the table's ends were there before, or stay",
    "ran_before": "how long the pods of the beginning had run",
    "before": "from a pod's creation to its first sample",
    "grace": "how long a pod that was taken away terminates",
}
