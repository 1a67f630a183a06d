"""Names of series and labels at a site: `queries.yaml`, and a user's file that changes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import Mistakes, read_document

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


_LABELS: Final = MapOf(LABEL_NAME, "a mapping of labels", may_be_empty=True)
_QUERY: Final = record_of({"series": _SERIES_LIST, "where": kinds.text(), "labels": _LABELS})
_SCALABLE: Final = record_of(
    {"label": LABEL_NAME, "spec": _SERIES, "status": _SERIES}, "label", "spec",
    of=partial(Scalable, "", status=""),
)  # fmt: skip
SCALABLES: Final = MapOf(_SCALABLE, "a mapping", may_be_empty=True)
"""The kind of scale targets by kind of object, see `scalables_of`."""

_FILE: Final = record_of({
    "labels": _LABELS, "queries": MapOf(_QUERY, "a mapping", may_be_empty=True),
    "scalables": SCALABLES,
})  # fmt: skip


def scalables_of(pairs: Iterable[tuple[str, Scalable]]) -> dict[str, Scalable]:
    """Return scale targets by kind; without a series of its own the status has that of the spec."""
    return {kind: replace(one, kind=kind, status=one.status or one.spec) for kind, one in pairs}


def _read(path: Path, known: Queries | None) -> Queries:
    mistakes, document = Mistakes(), read_document(path, "query file")
    given = mistakes.tried(_FILE.read, document)
    if known is not None and isinstance(document.at("queries").value, Mapping):
        mistakes.add(*document.at("queries").unknown_keys(known.queries))
    mistakes.refuse()
    common = dict(given.get("labels", ()))
    queries = dict(known.queries) if known else {}
    queries = {name: replace(q, labels={**common, **q.labels}) for name, q in queries.items()}
    for name, said in given.get("queries", ()):
        before = queries.get(name, Query(name, ()))
        if "series" in said:
            before = replace(before, where="")  # what the usual series need may not fit others
        labels = {**before.labels, **common, **dict(said.get("labels", ()))}
        queries[name] = replace(before, **{**said, "labels": labels})
    scalables = scalables_of(given.get("scalables", ()))
    return Queries(queries, {**(known.scalables if known else {}), **scalables})


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
