"""Queries: names of series and labels at a site, and requests for series, divisible into halves.

`queries.yaml` has the usual names, a user's file changes them. A request names its pods (or
namespaces, or HPAs) one by one: the server finds their series in its index and reads nothing else.
If a response is too large, the request is divided: by time for raw samples, else by names. Halves
do not overlap, so the same samples come back however a request is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.samples import Expected, Samples
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import Mistakes, read_document

BUILT_IN = Path(__file__).with_name("queries.yaml")
"""The file with the usual names; `hpabatch import prometheus --print-queries` prints it."""


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


def read_queries(path: Path | str | None = None) -> Queries:
    """Return the built-in queries with what a user's file changes.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    known = _read(BUILT_IN, None)
    return known if path is None else _read(Path(path), known)


def _name_of(what: str, form: str) -> Scalar:

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


Form = Literal["raw", "min", "max", "last", "now"]
"""raw: all samples; min, max, last: one sample a series, over the time; now: at its end."""

SHORTEST_MS = 10 * 60_000
"""Raw requests are not divided below this length."""
LONG_CHARS = 4000
"""Names of more characters are divided first: gateways take 8 KiB in an address."""

_OVER_TIME = {"min": "min_over_time", "max": "max_over_time", "last": "last_over_time"}
_SPECIAL = set("\\.+*?()[]{}|^$")


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """A request for the samples of series.

    Attributes:
        query: its first series is requested.
        from_ms, until_ms: samples after the first and up to the second instant.
        names: values by label, in this package's names; other labels are not restricted.
        split: the label whose values may be divided among several requests.
    """

    query: Query
    form: Form
    from_ms: int
    until_ms: int
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: str = "pod"

    def promql(self) -> str:
        """Return the request as PromQL, to be evaluated at `until_ms`."""
        matchers = [_matcher(self.query.their(n), v) for n, v in sorted(self.names.items())]
        if self.query.where:
            matchers.append(self.query.where)
        selector = f"{self.query.series[0]}{{{','.join(matchers)}}}"
        if self.form == "now":
            return selector
        selector += f"[{self.until_ms - self.from_ms}ms]"
        return selector if self.form == "raw" else f"{_OVER_TIME[self.form]}({selector})"

    def kind(self) -> str:
        """Return the kind, within which sizes are compared."""
        return f"{self.form} {self.query.name}"

    def size(self) -> int:
        """Return the size, to compare with others of its kind."""
        return (self.until_ms - self.from_ms) * max(1, len(self.names.get(self.split, ())))

    def form_fields(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the path after /api/v1/, and the names and values of the form."""
        return "query", [("query", self.promql()), ("time", seconds(self.until_ms))]

    def expected(self) -> Expected:
        """Return what the response must be, by the site's names."""
        must = {self.query.their(name): frozenset(values) for name, values in self.names.items()}
        if self.form in ("raw", "now"):
            must["__name__"] = frozenset(self.query.series[:1])
        if self.form == "raw":
            return Expected(self.from_ms, self.until_ms, must, "matrix")
        return Expected(self.until_ms, self.until_ms, must, "vector")

    def halves(self) -> tuple[SeriesRequest, SeriesRequest] | None:
        """Return two requests for the same samples, None where there is nothing to divide."""
        length = self.until_ms - self.from_ms
        values = self.names.get(self.split, ())
        # A long query may be refused for its length, which only fewer names make less.
        is_long = len(values) > 1 and sum(map(len, values)) > LONG_CHARS
        if self.form == "raw" and length >= 2 * SHORTEST_MS and not is_long:
            middle = self.from_ms + length // 2
            return replace(self, until_ms=middle), replace(self, from_ms=middle)
        if len(values) < 2:
            return None
        at = len(values) // 2
        return (
            replace(self, names={**self.names, self.split: values[:at]}),
            replace(self, names={**self.names, self.split: values[at:]}),
        )

    def ours(self, response: Samples) -> Samples:
        """Return a response with this package's names of labels, within the time."""
        renamed = {
            theirs: ours
            for ours, theirs in self.query.labels.items()
            if theirs in response.names and theirs != ours
        }
        series = response.series
        # A renamed label replaces one of the same name, which is the exporter's own.
        series = series.drop([ours for ours in renamed.values() if ours in series.columns])
        found = Samples(series.rename(renamed), response.points)
        return found.cut(self.from_ms, self.until_ms) if self.form == "raw" else found


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A request for the values of an expression at every multiple of a step.

    Attributes:
        name: of the subject, e.g. a metric.
        from_ms, until_ms: instants after the first and up to the second.
        step_ms: between two evaluations, which fall on its multiples since 1970.
    """

    name: str
    expression: str
    from_ms: int
    until_ms: int
    step_ms: int

    def promql(self) -> str:
        """Return the expression."""
        return self.expression

    @property
    def first_ms(self) -> int:
        """The first evaluation."""
        return (self.from_ms // self.step_ms + 1) * self.step_ms

    @property
    def last_ms(self) -> int:
        """The last evaluation; before the first if there is none."""
        return self.until_ms // self.step_ms * self.step_ms

    def kind(self) -> str:
        """Return the kind, within which sizes are compared."""
        return f"range {self.name}"

    def size(self) -> int:
        """Return the size, to compare with others of its kind."""
        return self.until_ms - self.from_ms

    def form_fields(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the path after /api/v1/, and the names and values of the form."""
        return "query_range", [
            ("query", self.expression), ("start", seconds(self.first_ms)),
            ("end", seconds(self.last_ms)), ("step", seconds(self.step_ms)),
        ]  # fmt: skip

    def expected(self) -> Expected:
        """Return what the response must be; its labels may be any."""
        return Expected(self.first_ms, self.last_ms, {}, "matrix", self.step_ms)

    def halves(self) -> tuple[RangeRequest, RangeRequest] | None:
        """Return two requests for the same values, None where there is one evaluation."""
        if self.last_ms - self.first_ms < self.step_ms:
            return None
        middle = (self.first_ms + self.last_ms) // 2
        return replace(self, until_ms=middle), replace(self, from_ms=middle)

    def ours(self, response: Samples) -> Samples:
        """Return the response."""
        return response


Request = SeriesRequest | RangeRequest
"""A request that can be divided, of samples after `from_ms` and up to `until_ms`."""


def seconds(ms: int) -> str:
    """Return an instant or a length as servers read it, to the millisecond."""
    return f"{ms // 1000}.{ms % 1000:03d}"


def chunks(values: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return values in as few parts of at most `size` as there can be, about equally large."""
    count = -(-len(values) // size)
    bounds = [round(place * len(values) / count) for place in range(count + 1)] if count else []
    return [tuple(values[a:b]) for a, b in pairwise(bounds)]


def _matcher(label: str, values: tuple[str, ...]) -> str:
    # Each value is a regular expression (RE2) for just itself.
    escaped = ("".join(f"\\{c}" if c in _SPECIAL else c for c in value) for value in values)
    sign, text = ("=", values[0]) if len(values) == 1 else ("=~", "|".join(escaped))
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}{sign}"{plain}"'
