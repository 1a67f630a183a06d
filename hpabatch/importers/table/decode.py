"""Decoding a map file: strictly, and with a note of everything that it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
from hpabatch.importers.table.units import (
    CPU_MILLI,
    DURATION_MS,
    MEMORY_BYTES,
    METRIC_MILLI,
    QUANTITY,
    Rounding,
)
from hpabatch.importers.table.values import (
    Amount,
    Source,
    check_expression,
    decode_amount,
    decode_source,
    decode_time,
)
from hpabatch.inputs.fields import Section, read_document, show

_TEXTS = ("pod", "uid", "container", "namespace", "workload", "cluster", "kind")
_DEFAULT_TEXTS = {"container": "app", "namespace": "default", "cluster": "default",
                  "kind": "Deployment"}  # fmt: skip
_POD_ONLY = ("pod", "uid")


def read_map(path: Path | str) -> TableMap:
    """Read a map file.

    Raises:
        UsageError: it cannot be read, or says something that is unknown, of a wrong type or
            contradictory; the message names the path in the file.
    """
    source = f"map {path}"
    top = Section(read_document(path, "map"), source)
    return _Decoder(top, Path(path)).decode()


class _Decoder:
    """Decodes one map; `assumed` collects what it leaves open."""

    def __init__(self, top: Section, path: Path) -> None:
        self.top = top
        self.path = path
        self.assumed: list[str] = []
        level = top.one_of("level", [item.value for item in Level])
        if level is None:
            top.refuse("level", "say `pod` (a row per pod) or `workload` (a row per workload)")
        self.level = Level(level)

    def decode(self) -> TableMap:
        top = self.top
        columns = top.section("columns")
        if columns is None:
            top.refuse("columns", "missing: say at least time, namespace, workload and cpu")
        time = decode_time(columns)
        texts = self._texts(columns)
        cpu = self._usage(columns, "cpu", CPU_MILLI, "cores")
        memory = self._usage(columns, "memory", MEMORY_BYTES, "bytes")
        metrics = self._metrics(columns)
        if cpu is None and memory is None and not metrics:
            columns.refuse("cpu", "missing: map cpu, memory or one of `metrics`")
        replicas = self._replicas(columns)
        ready = decode_source(columns, "ready") if self.level is Level.pod else None
        if "ready" in columns:
            columns.refuse("ready", "`level: workload` has no ready; say lives.ready_after")
        window, window_ms = self._window(columns)
        columns.close()
        requests, limits = self._resources()
        lives = self._lives(ready is not None)
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
            lives=lives,
            scales=self._scales(replicas is not None),
            hpas=decode_hpas(top, self.path.parent, self.assumed),
            where=self._where(),
            format=self._format(),
            rounding=self._rounding(bool(metrics)),
            assumed=tuple(self.assumed),
        )
        top.close()
        return found

    def _texts(self, columns: Section) -> dict[str, Source]:
        texts: dict[str, Source] = {}
        for name in _TEXTS:
            if name in _POD_ONLY and self.level is Level.workload:
                if name in columns:
                    columns.refuse(name, f"`level: workload` has no {name}; drop it")
                continue
            source = decode_source(columns, name)
            if source is None and name in _DEFAULT_TEXTS:
                value = _DEFAULT_TEXTS[name]
                self.assumed.append(f"{name} {value!r} (no columns.{name})")
                source = Source(value=value)
            if source is not None:
                texts[name] = source
        if self.level is Level.workload and texts["container"].value is None:
            columns.refuse("container", "`level: workload` has one container per pod: say a value")
        for name in ("workload", "pod"):
            if name not in texts and (name == "workload" or self.level is Level.pod):
                columns.refuse(name, f"missing: say which column holds the name of the {name}")
        return texts

    def _usage(
        self, columns: Section, name: str, units: Mapping[str, float], default: str
    ) -> Source | None:
        source = decode_source(columns, name, (*units, QUANTITY), statistic=self._statistics())
        if source is None or source.value is not None:
            return source
        if not source.unit:
            self.assumed.append(f"columns.{name} is in {default} (no unit)")
            source = source.with_unit(default)
        return source.with_factor(units.get(source.unit, 1e3 if name == "cpu" else 1.0))

    def _statistics(self) -> tuple[str, ...]:
        return ("mean", "sum", "max") if self.level is Level.workload else ()

    def _metrics(self, columns: Section) -> dict[str, Source]:
        section = columns.section("metrics")
        found: dict[str, Source] = {}
        if section is None:
            return found
        for name, value in section.rest().items():
            inner = Section({name: value}, section.source, section.path)
            source = decode_source(
                inner, name, (*METRIC_MILLI, QUANTITY), statistic=self._statistics()
            )
            if source is None:
                section.refuse(name, "nothing is said about this metric")
            if source.value is None and not source.unit:
                self.assumed.append(f"columns.metrics.{name} counts whole units (no unit)")
                source = source.with_unit("one")
            found[name] = source.with_factor(METRIC_MILLI.get(source.unit, 1e3))
        return found

    def _replicas(self, columns: Section) -> Source | None:
        source = decode_source(columns, "replicas")
        if source is None and self.level is Level.workload:
            columns.refuse("replicas", "missing: `level: workload` needs the number of pods")
        if source is not None and source.value is not None:
            value = source.value
            if not isinstance(value, int) or not 0 <= value <= MAX_REPLICAS:
                columns.refuse("replicas.value", f"a whole number of pods, found {show(value)}")
        return source

    def _window(self, columns: Section) -> tuple[Source | None, int | None]:
        source = decode_source(columns, "window", DURATION_MS)
        if source is not None and source.value is None and not source.unit:
            columns.refuse("window", f"say its unit: one of {', '.join(DURATION_MS)}")
        constant = self.top.duration_ms("window")
        if source is not None and constant is not None:
            self.top.refuse("window", "said here and in columns.window: keep one")
        if source is None and constant is None:
            self.assumed.append("samples have no window, which counts as 0s (no `window`)")
        if source is not None:
            source = source.with_factor(DURATION_MS.get(source.unit, 1.0))
        return source, constant

    def _resources(self) -> tuple[dict[str, Amount], dict[str, Amount]]:
        found: list[dict[str, Amount]] = []
        for name in ("limits", "requests"):
            section = self.top.section(name)
            amounts: dict[str, Amount] = {}
            if section is not None:
                for resource, units in (("cpu", CPU_MILLI), ("memory", MEMORY_BYTES)):
                    amount = decode_amount(
                        section, resource, units, self.path.parent, share=name == "requests"
                    )
                    if amount is not None:
                        amounts[resource] = amount
                section.close()
            found.append(amounts)
        limits, requests = found
        for resource in limits:
            if resource not in requests:
                self.assumed.append(f"{resource} requests are the limits (no requests.{resource})")
                requests[resource] = Amount(share=1.0)
        for resource, amount in requests.items():
            if amount.share is not None and resource not in limits:
                self.top.refuse(f"requests.{resource}", f"of_limit needs limits.{resource}")
        if "cpu" not in requests:
            self.assumed.append("containers have no cpu request (no requests.cpu or limits.cpu)")
        return requests, limits

    def _lives(self, has_ready: bool) -> Lives:
        section = self.top.section("lives") or Section({}, self.top.source, "lives")
        names = ["ready_after", "keep", "edge", "ran_before"]
        names += ["before", "gap"] if self.level is Level.pod else ["grace"]
        if has_ready:
            names.remove("ready_after")
            if "ready_after" in section:
                section.refuse("ready_after", "columns.ready says it already: keep one")
        default = Lives(ready_after_ms=10_000 if self.level is Level.workload else 0)
        values: dict[str, int] = {"ready_after": default.ready_after_ms}
        for name in names:
            if name == "gap" and section.is_text("gap", "never"):
                continue
            value = section.duration_ms(name)
            if value is not None:
                values[name] = value
            elif name != "gap":
                ms = getattr(default, f"{name}_ms")
                values[name] = ms
                self.assumed.append(f"lives.{name} {ms // 1000}s ({_LIVES[name]})")
            else:
                self.assumed.append("no silence ends a pod's life (no lives.gap)")
        section.close()
        return Lives(**{f"{name}_ms": value for name, value in values.items()})

    def _scales(self, has_replicas: bool) -> Scales:
        section = self.top.section("scales") or Section({}, self.top.source, "scales")
        allowed = ["replicas"] if has_replicas else []
        if self.level is Level.pod:
            allowed += ["pods", "most_common"]
        origin = section.one_of("from", allowed)
        size = section.whole("replicas", 0, MAX_REPLICAS) if self.level is Level.pod else None
        if size is not None and origin is not None:
            section.refuse("replicas", "said beside `from`: keep one")
        if size is not None:
            origin = "constant"
        if origin is None:
            origin = allowed[0]
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
        where = self.top.text("where")
        if where is not None:
            check_expression(self.top, "where", where)
        return where

    def _format(self) -> Format:
        section = self.top.section("format")
        if section is None:
            return Format()
        separator = section.one_of("separator", SEPARATORS)
        decimal = section.one_of("decimal", ["point", "comma"])
        missing = section.texts("missing")
        section.close()
        return Format(
            separator=SEPARATORS[separator] if separator else "",
            decimal="," if decimal == "comma" else ".",
            missing=Format().missing if missing is None else missing,
        )

    def _rounding(self, has_metrics: bool) -> dict[str, Rounding]:
        section = self.top.section("rounding") or Section({}, self.top.source, "rounding")
        found: dict[str, Rounding] = {}
        for name, default in (("cpu", "up"), ("memory", "up"), ("metrics", "down")):
            value = section.one_of(name, [item.value for item in Rounding])
            if value is None and (name != "metrics" or has_metrics):
                self.assumed.append(f"fractions of {_FRACTIONS[name]} are rounded {default}")
            found[name] = Rounding(value or default)
        section.close()
        return found


_FRACTIONS = {
    "cpu": "a millicore",
    "memory": "a byte",
    "metrics": "a thousandth of a metric",
}
_LIVES = {
    "ready_after": "from a pod's creation until it is Ready",
    "keep": "from the last sample until the pod is gone",
    "edge": "pods seen so near the table's ends were there before, or stay",
    "ran_before": "how long the pods of the beginning had run",
    "before": "from a pod's creation to its first sample",
    "grace": "how long a pod that was taken away terminates",
}
