"""Names of series and labels at a site: `queries.yaml`, and a user's file that changes it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Scalar
from hpabatch.inputs.documents import Mistakes, read_document
from hpabatch.inputs.fields import Fields

BUILT_IN = Path(__file__).with_name("queries.yaml")
"""The file with the usual names; `hpabatch import prometheus --print-queries` prints it."""

RULES = Path(__file__).with_name("recording-rules.yaml")
"""Recording rules for cheap imports; `--print-rules` prints them."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query for some series.

    Attributes:
        name: in this package, e.g. `pod_info`.
        series: names of series, in order of preference.
        where: more matchers, as PromQL writes them; "": none.
        labels: this package's name of a label -> the site's.
    """

    name: str
    series: tuple[str, ...]
    where: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def their(self, label: str) -> str:
        """Return the site's name of a label."""
        return self.labels.get(label, label)


@dataclass(frozen=True, slots=True)
class Scalable:
    """The series of a kind of scale target: its name's label, spec.replicas, status.replicas."""

    kind: str
    label: str
    spec: str
    status: str


@dataclass(frozen=True, slots=True)
class Queries:
    """All queries by name, and the scale targets by kind."""

    queries: Mapping[str, Query]
    scalables: Mapping[str, Scalable]

    def digest(self) -> str:
        """Return a digest of everything that is said here."""
        said = (
            [(q.name, q.series, q.where, sorted(q.labels.items())) for q in self.queries.values()],
            [(s.kind, s.label, s.spec, s.status) for s in self.scalables.values()],
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def names(self) -> list[str]:
        """Return all names of series."""
        found = [name for query in self.queries.values() for name in query.series]
        found += [name for one in self.scalables.values() for name in (one.spec, one.status)]
        return sorted(set(found))

    def present(self, names: Iterable[str]) -> dict[str, Query]:
        """Return the queries of which a series is among `names`, each with those alone."""
        there = set(names)
        found = {}
        for name, query in self.queries.items():
            known = tuple(series for series in query.series if series in there)
            if known:
                found[name] = replace(query, series=known)
        return found

    def replicas(self, scalable: Scalable) -> tuple[Query, Query]:
        """Return the queries of a kind's spec.replicas and status.replicas."""
        labels = dict(self.queries["hpa_info"].labels)
        return (
            Query(f"{scalable.kind} spec.replicas", (scalable.spec,), "", labels),
            Query(f"{scalable.kind} status.replicas", (scalable.status,), "", labels),
        )


def read_queries(path: Path | str | None = None) -> Queries:
    """Return the built-in queries with what a user's file changes.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    known = _read(BUILT_IN, None)
    return known if path is None else _read(Path(path), known)


def _read(path: Path, known: Queries | None) -> Queries:
    mistakes = Mistakes()
    top = Fields(read_document(path, "query file"), mistakes)
    common = _labels(top)
    queries = dict(known.queries) if known else {}
    if common:
        queries = {
            name: replace(query, labels={**common, **query.labels})
            for name, query in queries.items()
        }
    if known is not None and isinstance(top.value("queries"), Mapping):
        mistakes.add(*top.at("queries").unknown_keys(known.queries))
    for name, fields in top.mappings("queries").items():
        queries[name] = _query(name, fields, queries.get(name), common)
    scalables = dict(known.scalables) if known else {}
    for kind, fields in top.mappings("scalables").items():
        scalables[kind] = read_scalable(kind, fields)
    top.close()
    mistakes.refuse()
    return Queries(queries, scalables)


def _query(name: str, fields: Fields, before: Query | None, common: Mapping[str, str]) -> Query:
    series = fields.read("series", _SERIES_LIST)
    where: str | None = fields.read("where", kinds.text())
    labels = {**common, **_labels(fields)}
    fields.close()
    if before is None:
        fields.missing("series", _SERIES_LIST.wants)
        before = Query(name, ())
    elif series is not None:
        before = replace(before, where="")  # what the usual series need may not fit others
    return Query(
        name,
        before.series if series is None else series,
        before.where if where is None else where,
        {**before.labels, **labels},
    )


def _labels(fields: Fields) -> dict[str, str]:
    inner = fields.child("labels")
    if inner is None:
        return {}
    for name in inner.members():
        inner.missing(name, LABEL_NAME.wants)
    return {name: inner.read(name, LABEL_NAME) or "" for name in inner.members()}


def read_scalable(kind: str, fields: Fields) -> Scalable:
    """Return the series of a kind of scale target."""
    fields.missing("label", LABEL_NAME.wants)
    fields.missing("spec", _SERIES.wants)
    label = fields.read("label", LABEL_NAME) or ""
    spec = fields.read("spec", _SERIES) or ""
    status = fields.read("status", _SERIES) or spec
    fields.close()
    return Scalable(kind, label, spec, status)


def _name_of(what: str, form: str) -> Scalar:
    """Return the kind of a name of a form."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(form, value):
            raise ValueError
        return value

    return Scalar(f"the name of a {what}", parse)


LABEL_NAME: Final = _name_of("label", "[a-zA-Z_][a-zA-Z0-9_]*")
_SERIES: Final = _name_of("series", "[a-zA-Z_:][a-zA-Z0-9_:]*")
_SERIES_LIST: Final = ListOf(_SERIES, f"{_SERIES.wants} or a list of names")


def need(queries: Mapping[str, Query], all_queries: Queries, *names: str) -> None:
    """Refuse a server that lacks what no history can do without.

    Raises:
        UsageError: it names what was looked for, and what to do.
    """
    for name in names:
        if name not in queries:
            looked = " or ".join(all_queries.queries[name].series)
            raise UsageError(
                f"the server has no {looked} in that time: is it the one that scrapes "
                "kube-state-metrics and cAdvisor, and are --start, --end and --cluster right? If "
                "the series have other names there, say them in a file for --queries"
            )
