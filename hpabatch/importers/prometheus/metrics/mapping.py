"""Sources of custom, object and external metrics, and the queries for the metrics of HPAs.

Files are prometheus-adapter's configuration (bare or in its ConfigMap), manifests of KEDA's
ScaledObjects, and mapping files; their content shows which. For a metric the mapping files count
first, then the ScaledObject that its selector names, then the adapter. A file that is given by its
name must hold a known kind of document. Of a folder's files those that do are read; a note names
each file that cannot be read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from hpabatch.errors import RefusedError
from hpabatch.importers.prometheus.client.queries import Scalable
from hpabatch.importers.prometheus.metrics import adapter, mapping_file
from hpabatch.importers.prometheus.metrics.adapter import (
    PODS,
    AdapterConfig,
    Found,
    ResourceQuery,
    read_adapter,
    resource_of,
)
from hpabatch.importers.prometheus.metrics.mapping_file import (
    Kind,
    MappedMetric,
    MappingFile,
    read_mapping_file,
)
from hpabatch.importers.prometheus.metrics.queries import PODS_HOLE, MetricQuery, ValueRule
from hpabatch.inputs import keda
from hpabatch.inputs.documents import Mistakes, Place, duplicate_keys, place_of, read_text
from hpabatch.inputs.keda import ScaledObject, owner_of, read_scaled_object
from hpabatch.inputs.manifest_documents import (
    Document,
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.inputs.manifests import manifest_files
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.selectors import selector_from_object

_NO_MAPPING: Final = (
    "its values in Prometheus are not known: give the configuration of "
    "prometheus-adapter, the ScaledObject, or a mapping file (docs/prometheus.md)"
)
_NOTHING: Final = AdapterConfig()


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A metric without values: of which HPA (`namespace/name`), which metric, and why."""

    hpa: str
    metric: str
    reason: str

    def __str__(self) -> str:
        return f"{self.hpa}: {self.metric}: {self.reason}"


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """Queries for the metrics of some HPAs, and the metrics without one.

    Attributes:
        queries: each once, whichever HPAs share it, by namespace, kind and metric.
    """

    queries: tuple[MetricQuery, ...] = ()
    unmapped: tuple[Unmapped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mappings:
    """Content of the mapping files.

    Attributes:
        metrics: the entries of mapping files, the first that fits counts.
        custom, external, usage: the adapter's configuration that serves custom metrics, external
            ones, and cpu and memory.
    """

    metrics: tuple[MappedMetric, ...] = ()
    scalables: tuple[Scalable, ...] = ()
    scaled_objects: tuple[ScaledObject, ...] = ()
    custom: AdapterConfig = _NOTHING
    external: AdapterConfig = _NOTHING
    usage: AdapterConfig = _NOTHING
    told: tuple[str, ...] = field(default=())

    def notes(self) -> list[str]:
        """Return sentences for the reader of the result."""
        places: dict[str, list[str]] = {}
        for one in self.scaled_objects:
            for note in one.notes():
                places.setdefault(note, []).append(one.place)
        found = [*self.told, *(f"{_few(there)}: {note}" for note, there in places.items())]
        triggers = [one for owner in self.scaled_objects for one in owner.triggers]
        servers = {_without_user(one.metadata.get("serverAddress", "")) for one in triggers} - {""}
        if servers:
            found.append(
                f"KEDA asked {', '.join(sorted(servers))}: --url must be a server with these series"
            )
        return found

    def series_selectors(self) -> tuple[str, ...]:
        """Return the selectors of which the adapter's series must be known."""
        found = (*adapter.series_selectors(self.custom), *adapter.series_selectors(self.external))
        return tuple(dict.fromkeys(found))

    def wanted_series(
        self, hpas: Iterable[HPA], names: Mapping[str, Iterable[str]]
    ) -> list[tuple[str, str, str]]:
        """Return the series whose labels are needed: those that make a metric of the HPAs.

        Args:
            names: by selector, the names of its series (/api/v1/label/__name__/values).

        Returns:
            selector, series, and a selector for that series alone (for /api/v1/labels).
        """
        wanted = {one.query.metric for one in _metrics(hpas) if one.query.kind != "external"}
        found: dict[tuple[str, str, str], None] = {}
        for rule in self.custom.rules:
            series = names.get(rule.series_query, ())
            for metric, owners in adapter.metric_names(rule, series).items():
                for owner in owners if metric in wanted else ():
                    narrowed = adapter.narrowed(rule.series_query, owner)
                    found[rule.series_query, owner, narrowed] = None
        return list(found)

    def plan(self, hpas: Iterable[HPA], found: Found | None = None) -> MetricPlan:
        """Return the queries for the metrics of HPAs other than resources.

        Args:
            hpas: in any order; several states of one HPA may be among them.
            found: the adapter's series by selector, with the names of their labels (those of
                External metrics may have none).
        """
        queries: dict[MetricQuery, MetricQuery] = {}
        unmapped: dict[Unmapped, None] = {}
        notes: dict[str, None] = {}
        for one in _metrics(hpas):
            query, hpa = queries.get(one.query), f"{one.query.namespace}/{one.hpa}"
            if query is None:
                try:
                    query, note = self._query(one, found or {})
                except ValueError as error:
                    unmapped[Unmapped(hpa, one.query.name(), str(error))] = None
                    continue
                if note:
                    notes[f"{hpa}: {note}"] = None
            if one.hpa not in query.hpas:
                query = replace(query, hpas=tuple(sorted((*query.hpas, one.hpa))))
            queries[one.query] = query
        ordered = sorted(
            queries.values(),
            key=lambda q: (q.namespace, q.kind, q.metric, q.selector, q.object_kind, q.object_name),
        )
        return MetricPlan(tuple(ordered), tuple(unmapped), tuple(notes))

    def resource_query(
        self, resource: str, namespace: str, pods: Sequence[str]
    ) -> ResourceQuery | None:
        """Return the adapter's query for `cpu` or `memory`, None where it served neither.

        Raises:
            RefusedError: the rule cannot be followed.
        """
        try:
            return adapter.resource_query(self.usage, resource, namespace, pods)
        except ValueError as error:
            rule = getattr(self.usage.resource_rules, resource)
            raise RefusedError(f"{rule.place}: {error}") from None

    def _query(self, metric: _Metric, found: Found) -> tuple[MetricQuery, str]:
        """Return the query and a note; raises a ValueError with the reason where there is none."""
        if metric.problem:
            raise ValueError(metric.problem)
        made = metric.query
        for entry in self.metrics:
            if entry.fits(made.kind, made.metric, made.namespace, made.selector) and (
                made.kind != "object" or entry.fits_object(made.object_kind, made.object_name)
            ):
                promql = entry.promql(made.namespace, made.selector, made.object_name)
                return replace(made, promql=promql, label=entry.label, place=entry.place), ""
        owner = owner_of(made.selector) if made.kind == "external" else None
        if owner is not None:
            return self._keda_query(made, owner), ""
        return self._adapter_query(made, metric.api_version, found)

    def _keda_query(self, made: MetricQuery, owner: str) -> MetricQuery:
        scaled = next(
            (
                one
                for one in self.scaled_objects
                if one.name == owner and one.namespace in ("", made.namespace)
            ),
            None,
        )
        if scaled is None:
            raise ValueError(
                f"it is KEDA's, of the ScaledObject {made.namespace}/{owner}, which is not among "
                "the files: give its manifest"
            )
        trigger = scaled.trigger_of(made.metric)
        return replace(
            made,
            promql=trigger.metadata["query"],
            rule=ValueRule.keda if trigger.ignore_null else ValueRule.keda_strict,
            place=f"{scaled.place}: spec.triggers[{trigger.index}]",
        )

    def _adapter_query(
        self, made: MetricQuery, api_version: str, found: Found
    ) -> tuple[MetricQuery, str]:
        external, namespace = made.kind == "external", made.namespace
        if not (self.external.external_rules if external else self.custom.rules):
            raise ValueError(_NO_MAPPING)
        if external:
            query = adapter.external_query(
                self.external, found, made.metric, namespace, made.selector
            )
        else:
            pods = made.kind == "pods"
            resource = PODS if pods else resource_of(made.object_kind, api_version)
            names = (PODS_HOLE,) if pods else (made.object_name,)
            query = adapter.custom_query(
                self.custom, found, resource, made.metric, namespace, names, made.selector
            )
        rule = ValueRule.adapter_external if external else ValueRule.adapter
        asked = replace(made, promql=query.promql, rule=rule, label=query.label, place=query.place)
        return asked, query.note


def read_mappings(paths: Sequence[str | Path]) -> Mappings:
    """Return the mappings of files and folders.

    Raises:
        UsageError: all mistakes of all files, with their lines and keys.
    """
    mistakes, read = Mistakes(), Mapped()
    for path in paths:
        read_path(Path(path), read, mistakes)
    _check_twice(read, mistakes)
    mistakes.refuse()
    return Mappings(
        tuple(one for file in read.files for one in file.metrics),
        tuple(one for file in read.files for one in file.scalables),
        tuple(read.scaled_objects),
        next((one for one in read.adapters if one.rules), _NOTHING),
        next((one for one in read.adapters if one.external_rules), _NOTHING),
        next((one for one in read.adapters if one.resource_rules), _NOTHING),
        tuple(read.notes),
    )


def _check_twice(read: Mapped, mistakes: Mistakes) -> None:
    """Note duplicates: each API is served by one adapter."""
    for what in ("rules", "external_rules", "resource_rules"):
        owners = [one.place for one in read.adapters if getattr(one, what)]
        if len(owners) > 1:
            key = "rules" if what == "rules" else f"{what.split('_')[0]}Rules"
            mistakes.add(
                f"expected {key} once, got them in {owners[0]} and in {owners[1]}; give the one "
                "that serves the cluster"
            )
    seen: dict[tuple[str, str], str] = {}
    for scaled in read.scaled_objects:
        key_ = (scaled.namespace, scaled.name)
        if key_ in seen:
            mistakes.add(f"expected it once, got {seen[key_]} and {scaled.place}; keep one")
        seen.setdefault(key_, scaled.place)
    kinds: set[str] = set()
    for one in (scalable for file in read.files for scalable in file.scalables):
        if one.kind in kinds:
            mistakes.add(f"expected scalables.{one.kind} once, got it in two files; keep one")
        kinds.add(one.kind)


class _Metric(NamedTuple):
    """A metric of an HPA that is no resource: what is to be queried, and why that cannot be."""

    hpa: str
    query: MetricQuery
    api_version: str
    problem: str


def _metrics(hpas: Iterable[HPA]) -> Iterator[_Metric]:
    for hpa in hpas:
        for spec in hpa.spec.metrics:
            source = spec.pods or spec.external or spec.object
            if source is None:
                continue
            selector, problem, kind, name, api_version = "", "", "", "", ""
            try:
                selector = str(selector_from_object(source.metric.selector))
            except ValueError as error:
                problem = f"the controller refuses its selector: {error}"
            if spec.object is not None:
                of = spec.object.described_object
                kind, api_version = of.kind, of.api_version
                # The controller requests its own namespace, whatever the name.
                is_namespace = kind == "Namespace" and "/" not in api_version
                name = hpa.namespace if is_namespace else of.name
            query = MetricQuery(
                _KINDS[spec.type], hpa.namespace, source.metric.name, selector, "",
                ValueRule.plain, object_kind=kind, object_name=name,
            )  # fmt: skip
            yield _Metric(hpa.name, query, api_version, problem)


_KINDS: Final[Mapping[str, Kind]] = {"Pods": "pods", "Object": "object", "External": "external"}


def _few(places: Sequence[str]) -> str:
    """Return up to three places, and how many more there are."""
    more = len(places) - 3
    return ", ".join(places[:3]) + (f" and {more} more" if more > 0 else "")


def _without_user(url: str) -> str:
    """Return a URL without user and password."""
    return re.sub(r"//[^/@]*@", "//", url)


MAX_BYTES: Final = 64 * 2**20
_WHAT: Final = "mapping"
_WANTED: Final = (
    "expected the configuration of prometheus-adapter or its ConfigMap, ScaledObjects of KEDA, or "
    "a mapping file with `metrics` or `scalables`"
)


@dataclass(slots=True)
class Mapped:
    """The documents by kind, in the order of the files; other kinds are counted."""

    adapters: list[AdapterConfig] = field(default_factory=list)
    scaled_objects: list[ScaledObject] = field(default_factory=list)
    files: list[MappingFile] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of documents of known kinds."""
        return len(self.adapters) + len(self.scaled_objects) + len(self.files)


def read_path(path: Path, into: Mapped, mistakes: Mistakes) -> None:
    """Read a file, or all manifests below a folder."""
    before = into.count + len(mistakes.found)
    if os.path.isdir(path):

        def refuse(error: OSError) -> None:
            mistakes.add(f"{_WHAT} folder {error.filename} cannot be read: {error.strerror}")

        for one in manifest_files(path, refuse):
            _read_file(one, into, mistakes, in_folder=True)
        if into.count + len(mistakes.found) == before:
            mistakes.add(f"{_WANTED}, got nothing of that ({_WHAT} folder {path})")
        return
    others = into.others.copy()
    _read_file(path, into, mistakes, in_folder=False)
    if into.count + len(mistakes.found) == before:
        kinds = ", ".join(sorted(into.others - others)) or "no document"
        mistakes.add(f"{_WANTED}, got {kinds} ({_WHAT} {path})")


def _read_file(path: Path, into: Mapped, mistakes: Mistakes, in_folder: bool) -> None:
    source = f"{_WHAT} {path}"
    with mistakes.gather():
        text = read_text(path, source, MAX_BYTES)
        for piece, offset in split_documents(text):
            try:
                for document in parse_documents(piece):
                    _read_document(document, source, offset, into, mistakes)
            except DocumentError as error:
                if in_folder:
                    into.notes.append(f"{source}: left out: {error.describe(offset)}")
                else:
                    mistakes.add(f"{source}: {error.describe(offset)}")


def _read_document(
    document: Document, source: str, offset: int, into: Mapped, mistakes: Mistakes
) -> None:
    if document.value is None:
        return
    if not isinstance(document.value, Mapping | list):
        into.others["text"] += 1
        return
    for value, node in expand(document.value, document.node):
        if isinstance(value, str):
            into.others["a list of something else"] += 1
        elif _read_object(place_of(value, node, source, offset), value, into, mistakes):
            mistakes.add(*duplicate_keys(document, source, offset, node))


def _read_object(
    place: Place, value: Mapping[str, object], into: Mapped, mistakes: Mistakes
) -> bool:
    """Read an object of a kind that is understood; False for another, which is counted."""
    kind = value.get("kind")
    if kind == keda.KIND:
        found = read_scaled_object(place, mistakes)
        into.scaled_objects += [] if found is None else [found]
        return True
    if kind == "ConfigMap":
        return _read_config_map(value, place.source, into, mistakes)
    if "kind" not in value and any(key in value for key in adapter.TOP_KEYS):
        into.adapters.append(read_adapter(place, mistakes))
        return True
    if "kind" not in value and any(key in value for key in mapping_file.TOP_KEYS):
        into.files.append(read_mapping_file(place, mistakes))
        return True
    keys = ", ".join(list(value)[:5]) or "nothing"
    into.others[kind if isinstance(kind, str) and kind else f"a mapping of {keys}"] += 1
    return False


def _read_config_map(
    value: Mapping[str, object], source: str, into: Mapped, mistakes: Mistakes
) -> bool:
    data, found = value.get("data"), False
    for key, text in (data if isinstance(data, Mapping) else {}).items():
        if not isinstance(text, str):
            continue
        inner = f'{source}: data["{key}"]'
        try:
            documents = parse_documents(text)
        except DocumentError as error:
            if any(word in text for word in adapter.TOP_KEYS):
                mistakes.add(f"{inner}: {error.describe(0)}")
                found = True
            continue
        for document in documents:
            config = document.value
            if not isinstance(config, Mapping):
                continue
            if not any(name in config for name in adapter.TOP_KEYS):
                continue
            found = True
            into.adapters.append(read_adapter(place_of(config, document.node, inner), mistakes))
            mistakes.add(*duplicate_keys(document, inner))
    if not found:
        into.others["ConfigMap"] += 1
    return found
