"""Sources of custom, object and external metrics, and the queries for the metrics of HPAs.

Files are manifests of KEDA's ScaledObjects and mapping files; their content shows which. For a
metric the mapping files count first, then the ScaledObject that its selector names. A file that is
given by its name must hold a known kind of document. Of a folder's files those that do are read; a
note names each file that cannot be read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from hpabatch.importers.prometheus.metrics import mapping_file
from hpabatch.importers.prometheus.metrics.mapping_file import (
    Kind,
    MappedMetric,
    MappingFile,
    read_mapping_file,
)
from hpabatch.importers.prometheus.metrics.queries import CLUSTER_HOLE, MetricQuery, ValueRule
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
    "its values in Prometheus are not known: give its ScaledObject, or a mapping file "
    "(docs/prometheus.md)"
)
_NO_CLUSTER: Final = (
    "the server has several clusters, and its query names none: say it in a mapping file with "
    "$cluster among the matchers"
)


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


@dataclass(frozen=True, slots=True)
class Mappings:
    """Content of the mapping files; of `metrics`, their entries, the first that fits counts."""

    metrics: tuple[MappedMetric, ...] = ()
    scaled_objects: tuple[ScaledObject, ...] = ()
    told: tuple[str, ...] = field(default=())

    def notes(self) -> list[str]:
        """Return sentences for the reader of the result."""
        places: dict[str, list[str]] = {}
        for one in self.scaled_objects:
            for note in one.notes():
                places.setdefault(note, []).append(one.place)
        return [*self.told, *(f"{_few(there)}: {note}" for note, there in places.items())]

    def plan(self, hpas: Iterable[HPA], *, several: bool = False) -> MetricPlan:
        """Return the queries for the metrics of HPAs other than resources.

        Args:
            hpas: in any order; several states of one HPA may be among them.
            several: whether the server has several clusters, which a query must tell apart.
        """
        queries: dict[MetricQuery, MetricQuery] = {}
        unmapped: dict[Unmapped, None] = {}
        for one in _metrics(hpas):
            query, hpa = queries.get(one.query), f"{one.query.namespace}/{one.hpa}"
            if query is None:
                try:
                    query = self._query(one)
                    if several and CLUSTER_HOLE not in query.promql:
                        raise ValueError(_NO_CLUSTER)
                except ValueError as error:
                    unmapped[Unmapped(hpa, one.query.name(), str(error))] = None
                    continue
            if one.hpa not in query.hpas:
                query = replace(query, hpas=tuple(sorted((*query.hpas, one.hpa))))
            queries[one.query] = query
        ordered = sorted(
            queries.values(),
            key=lambda q: (q.namespace, q.kind, q.metric, q.selector, q.object_kind, q.object_name),
        )
        return MetricPlan(tuple(ordered), tuple(unmapped))

    def _query(self, metric: _Metric) -> MetricQuery:
        """Return the query; raises a ValueError with the reason where there is none."""
        if metric.problem:
            raise ValueError(metric.problem)
        made = metric.query
        for entry in self.metrics:
            if entry.fits(made.kind, made.metric, made.namespace, made.selector) and (
                made.kind != "object" or entry.fits_object(made.object_kind, made.object_name)
            ):
                promql = entry.promql(made.namespace, made.selector, made.object_name)
                return replace(made, promql=promql, label=entry.label, place=entry.place)
        owner = owner_of(made.selector) if made.kind == "external" else None
        if owner is None:
            raise ValueError(_NO_MAPPING)
        return self._keda_query(made, owner)

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
        tuple(read.scaled_objects),
        tuple(read.notes),
    )


def _check_twice(read: Mapped, mistakes: Mistakes) -> None:
    """Note ScaledObjects that are there twice."""
    seen: dict[tuple[str, str], str] = {}
    for scaled in read.scaled_objects:
        key_ = (scaled.namespace, scaled.name)
        if key_ in seen:
            mistakes.add(f"expected it once, got {seen[key_]} and {scaled.place}; keep one")
        seen.setdefault(key_, scaled.place)


class _Metric(NamedTuple):
    """A metric of an HPA that is no resource: what is to be queried, and why that cannot be."""

    hpa: str
    query: MetricQuery
    problem: str


def _metrics(hpas: Iterable[HPA]) -> Iterator[_Metric]:
    for hpa in hpas:
        for spec in hpa.spec.metrics:
            source = spec.pods or spec.external or spec.object
            if source is None:
                continue
            selector, problem, kind, name = "", "", "", ""
            try:
                selector = str(selector_from_object(source.metric.selector))
            except ValueError as error:
                problem = f"the controller refuses its selector: {error}"
            if spec.object is not None:
                of = spec.object.described_object
                kind = of.kind
                # The controller requests its own namespace, whatever the name.
                is_namespace = kind == "Namespace" and "/" not in of.api_version
                name = hpa.namespace if is_namespace else of.name
            query = MetricQuery(
                _KINDS[spec.type], hpa.namespace, source.metric.name, selector, "",
                ValueRule.plain, object_kind=kind, object_name=name,
            )  # fmt: skip
            yield _Metric(hpa.name, query, problem)


_KINDS: Final[Mapping[str, Kind]] = {"Pods": "pods", "Object": "object", "External": "external"}


def _few(places: Sequence[str]) -> str:
    """Return up to three places, and how many more there are."""
    more = len(places) - 3
    return ", ".join(places[:3]) + (f" and {more} more" if more > 0 else "")


MAX_BYTES: Final = 64 * 2**20
_WHAT: Final = "mapping"
_WANTED: Final = (
    "expected ScaledObjects of KEDA, or a mapping file with `metrics` (for rules of "
    "prometheus-adapter write one: docs/prometheus.md)"
)


@dataclass(slots=True)
class Mapped:
    """The documents by kind, in the order of the files; other kinds are counted."""

    scaled_objects: list[ScaledObject] = field(default_factory=list)
    files: list[MappingFile] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of documents of known kinds."""
        return len(self.scaled_objects) + len(self.files)


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
    if "kind" not in value and mapping_file.TOP_KEY in value:
        into.files.append(read_mapping_file(place, mistakes))
        return True
    keys = ", ".join(list(value)[:5]) or "nothing"
    into.others[kind if isinstance(kind, str) and kind else f"a mapping of {keys}"] += 1
    return False
