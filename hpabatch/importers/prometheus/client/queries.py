"""Under which names a site keeps what is read: `queries.yaml`, and what a user's copy changes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpabatch.errors import UsageError
from hpabatch.inputs.fields import Section, read_document, show
from hpabatch.model.suggestions import did_you_mean

BUILT_IN = Path(__file__).with_name("queries.yaml")
"""The file with the usual names; `hpabatch import prometheus --print-queries` prints it."""

RULES = Path(__file__).with_name("recording-rules.yaml")
"""Recording rules for cheap imports; `--print-rules` prints them."""

_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_WHAT = "query file"


@dataclass(frozen=True, slots=True)
class Query:
    """One thing that is read.

    Attributes:
        name: ours, e.g. `pod_info`.
        series: names of series, in order of preference.
        where: more matchers, as PromQL writes them; "": none.
        labels: our name of a label -> theirs.
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
    """All that is read, by name, and the scale targets by kind."""

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
        UsageError: the file cannot be read, or says something that is not understood.
    """
    known = _read(BUILT_IN, None)
    return known if path is None else _read(Path(path), known)


def _read(path: Path, known: Queries | None) -> Queries:
    top = Section(read_document(path, _WHAT), f"{_WHAT} {path}")
    common = _labels(top)
    queries = dict(known.queries) if known else {}
    if common:
        queries = {
            name: replace(query, labels={**common, **query.labels})
            for name, query in queries.items()
        }
    said = top.section("queries")
    for name, value in (said.rest() if said else {}).items():
        if known is not None and name not in known.queries:
            hint = did_you_mean(name, known.queries)
            top.refuse(f"queries.{name}", f"nothing of that name is read{hint}")
        section = Section(value, top.source, f"queries.{name}")
        queries[name] = _query(name, section, queries.get(name), common)
    scalables = dict(known.scalables) if known else {}
    kinds = top.section("scalables")
    for kind, value in (kinds.rest() if kinds else {}).items():
        scalables[kind] = _scalable(kind, Section(value, top.source, f"scalables.{kind}"))
    top.close()
    return Queries(queries, scalables)


def _query(name: str, section: Section, before: Query | None, common: Mapping[str, str]) -> Query:
    series = section.texts("series")
    where = section.text("where")
    labels = {**common, **_labels(section)}
    section.close()
    if series is None and before is None:
        section.refuse("series", "missing: say the names of the series")
    for one in series or ():
        if not _SERIES.fullmatch(one):
            section.refuse("series", f"{show(one)} is no name of a series")
    return Query(
        name,
        tuple(series) if series is not None else before.series if before else (),
        where if where is not None else before.where if before and series is None else "",
        {**(before.labels if before else {}), **labels},
    )


def _labels(section: Section) -> dict[str, str]:
    found: dict[str, str] = {}
    inner = section.section("labels")
    for ours, theirs in (inner.rest() if inner else {}).items():
        if not isinstance(theirs, str) or not _LABEL.fullmatch(theirs):
            section.refuse(f"labels.{ours}", f"{show(theirs)} is no name of a label")
        found[ours] = theirs
    return found


def _scalable(kind: str, section: Section) -> Scalable:
    found: dict[str, str] = {}
    for name, form in (("label", _LABEL), ("spec", _SERIES), ("status", _SERIES)):
        value = section.text(name)
        if value is None and name == "status":
            value = found["spec"]
        if value is None or not form.fullmatch(value):
            section.refuse(name, f"{show(value)}: a name is wanted")
        found[name] = value
    section.close()
    return Scalable(kind, **found)


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
