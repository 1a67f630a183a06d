"""Reader of one window: gauges as changes, facts once, counters raw.

A gauge that did not change in a window costs two samples: its smallest and its largest value are
requested first, and raw samples only of gauges that changed or were not there all the time. Most
pods are Ready for days, and most targets keep their size for hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import polars as pl

from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.queries import Form, Query, SeriesRequest
from hpabatch.importers.prometheus.client.samples import (
    Findings,
    Samples,
    Span,
    empty_samples,
    joined_samples,
)
from hpabatch.importers.prometheus.reading.gauges import Gauge, reduce_gauge

FACTS_AT_ONCE = 1000
"""Objects that a request for one sample a series names."""


@dataclass(frozen=True, slots=True)
class Things:
    """Objects of a kind, as (namespace, name), sorted; `partial` were not there all the time."""

    label: str
    names: tuple[tuple[str, str], ...]
    partial: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def frame(self) -> pl.DataFrame:
        """Return the names as columns `namespace` and the label's."""
        return pl.DataFrame(
            self.names, schema={"namespace": pl.String, self.label: pl.String}, orient="row"
        )


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of one cluster in one window.

    Attributes:
        cluster: matchers of the cluster, e.g. {"cluster": ("a",)}.
        spacing_ms: of samples, for the size of requests only.
        at_once: names in a request for raw samples.
    """

    server: Server
    queries: Mapping[str, Query]
    span: Span
    cluster: Mapping[str, tuple[str, ...]]
    spacing_ms: int
    max_samples: int
    at_once: int
    findings: Findings

    def matchers(self) -> str:
        """Return the matchers of the cluster in PromQL, "" where there is one."""
        return ",".join(f'{label}="{values[0]}"' for label, values in self.cluster.items())

    def has(self, name: str) -> bool:
        """Whether the server has series for a query."""
        return name in self.queries

    def facts(self, name: str, form: Form, **names: tuple[str, ...]) -> Samples:
        """Return one sample a series, over the window and what lies right before it."""
        if name not in self.queries:
            return empty_samples()
        return self.server.joined([self.ask(self.queries[name], form, names)])

    def at(self, ms: int, name: str, **names: tuple[str, ...]) -> Samples:
        """Return the series that are there at an instant, with their values then."""
        ask = replace(self.ask(self.queries[name], "now", names), until_ms=ms)
        return self.server.joined([ask])

    def raw_facts(self, name: str, **names: tuple[str, ...]) -> Samples:
        """Return all samples of the few series of a name."""
        if name not in self.queries:
            return empty_samples()
        asks = self._slices(self.ask(self.queries[name], "raw", names), 2)
        return self.server.joined(asks)

    def facts_of(self, name: str, form: Form, things: Things) -> Samples:
        """Return one sample a series of these objects."""
        if name not in self.queries or not things.names:
            return empty_samples()
        asks = self._asks(self.queries[name], form, things.names, things.label, FACTS_AT_ONCE)
        return only(self.server.joined(asks), things)

    def raw(self, query: Query, things: Things, series_each: int, ahead_ms: int = 0) -> Samples:
        """Return all samples of these objects, which have about so many series each.

        With `ahead_ms` also those so long after the window, by which its last ones are judged.
        """
        if not things.names:
            return empty_samples()
        asks = []
        for group in self._asks(query, "raw", things.names, things.label, self.at_once):
            count = len(group.names[things.label]) * max(1, series_each)
            asks += self._slices(replace(group, until_ms=group.until_ms + ahead_ms), count)
        return only(self.server.joined(asks), things)

    def gauge(
        self,
        of: str | Query | None,
        labels: Sequence[str],
        things: Things,
        there: pl.DataFrame | None = None,
    ) -> Gauge:
        """Return when a gauge of these objects changed; None: it is not exported.

        Args:
            of: the query, or its name.
            labels: by which its series are told apart, beside the scrape's own.
            there: when objects were there that were not all the time (see `reduce_gauge`), if
                their series are there as long as they: raw samples are then not needed of what
                did not change.
        """
        query = self.queries.get(of) if isinstance(of, str) else of
        told = [*dict.fromkeys(("namespace", things.label, *labels))]
        if query is None or not things.names:
            return reduce_gauge(empty_samples(), empty_samples(), told, self.span, self.findings)
        low, high = (
            only(self.server.joined(asks), things)
            for asks in (
                self._asks(query, form, things.names, things.label, FACTS_AT_ONCE)
                for form in ("min", "max")
            )
        )
        changed = _moving(low, high, told, things, there)
        changed |= self._switching(query, told, low, things)
        moving = tuple(name for name in things.names if name in changed)
        each = -(-low.series.height // max(1, len(things.names)))
        raw = self.raw(query, Things(things.label, moving), each)
        still = set(things.names).difference(moving)
        constant = only(low, Things(things.label, tuple(sorted(still))))
        return reduce_gauge(raw, constant, told, self.span, self.findings, there=there)

    def _switching(
        self, query: Query, told: Sequence[str], seen: Samples, things: Things
    ) -> set[tuple[str, str]]:
        """Return the objects of which a series is not there while the object is.

        An edited metric, a limit that was added, a deletion that was asked for: each is a series
        that begins or ends within the window, and says the same while it is there.
        """
        known = seen.with_labels(told).series.select(told).unique()
        key = ["namespace", things.label]
        found: set[tuple[str, str]] = set()
        for ms in (self.span.after_ms, self.span.until_ms):
            there = self._now(query, things, ms).with_labels(told).series.select(told)
            lost = known.join(there, on=told, how="anti", nulls_equal=True)
            absent = things.partial - set(there.select(key).rows())
            found |= set(lost.select(key).rows()) - absent
        return found

    def _now(self, query: Query, things: Things, ms: int) -> Samples:
        asks = self._asks(query, "now", things.names, things.label, FACTS_AT_ONCE)
        return self.server.joined([replace(ask, until_ms=ms) for ask in asks])

    def with_presence(self, query: Query, things: Things) -> Things:
        """Return the objects, marked where a series is not there at both ends of the window."""
        always = set(things.names)
        for ms in (self.span.after_ms, self.span.until_ms):
            told = self._now(query, things, ms).with_labels(["namespace", things.label]).series
            always &= set(told.select("namespace", things.label).rows())
        return replace(things, partial=frozenset(set(things.names) - always))

    def ask(
        self,
        query: Query,
        form: Form,
        names: Mapping[str, tuple[str, ...]],
        split: str = "namespace",
    ) -> SeriesRequest:
        """Return a request for this cluster and window."""
        wanted = {**self.cluster, **{name: values for name, values in names.items() if values}}
        from_ms = self.span.from_ms
        return SeriesRequest(query, form, from_ms, self.span.until_ms, wanted, split)

    def _asks(
        self,
        query: Query,
        form: Form,
        names: Sequence[tuple[str, str]],
        label: str,
        size: int,
    ) -> list[SeriesRequest]:
        asks = []
        for at in range(0, len(names), size):
            part = names[at : at + size]
            spaces = tuple(sorted({namespace for namespace, _ in part}))
            values = tuple(sorted({name for _, name in part}))
            asks.append(self.ask(query, form, {"namespace": spaces, label: values}, label))
        return asks

    def _slices(self, ask: SeriesRequest, series: int) -> list[SeriesRequest]:
        """Return the request in parts of the time, of about as many samples as one may have."""
        length = ask.until_ms - ask.from_ms
        count = max(1, -(-series * (length // self.spacing_ms) // self.max_samples))
        bounds = [ask.from_ms + round(k * length / count) for k in range(count + 1)]
        return [
            SeriesRequest(ask.query, ask.form, a, b, ask.names, ask.split)
            for a, b in pairwise(bounds)
        ]


def only(samples: Samples, things: Things) -> Samples:
    """Return the samples of these objects; a request's names allow for others of like names."""
    if not samples.series.height:
        return samples
    found = samples.with_labels(["namespace", things.label])
    kept = found.series.join(
        things.frame(), on=["namespace", things.label], how="semi", maintain_order="left"
    )
    if kept.height == found.series.height:
        return found
    points = found.points.join(kept.select("series"), on="series", how="semi")
    numbers = kept.select("series").with_row_index("new")
    moved = points.join(numbers, on="series", how="left", maintain_order="left")
    renamed = moved.select(pl.col("new").alias("series"), "ts", "value")
    return joined_samples([Samples(kept.with_columns(series=numbers["new"]), renamed)])


def _moving(
    low: Samples,
    high: Samples,
    told: Sequence[str],
    things: Things,
    there: pl.DataFrame | None,
) -> set[tuple[str, str]]:
    """Return the objects whose gauges changed, or whose time of presence is not known.

    Series that differ in the scrape's labels only are one gauge: where one exporter followed
    another, each may have said one value, but not the same.
    """
    lowest = low.joined(told).group_by(told).agg(pl.col("value").min())
    highest = high.joined(told).group_by(told).agg(pl.col("value").max().alias("high"))
    both = lowest.join(highest, on=list(told), how="full", nulls_equal=True, coalesce=True)
    changed = both.filter(pl.col("value").ne_missing(pl.col("high")))
    found = set(changed.select("namespace", things.label).rows())
    if there is None:
        found |= things.partial
    else:
        keys = [name for name in there.columns if name not in ("first", "last")]
        unknown = both.join(there, on=keys, how="anti", nulls_equal=True)
        found |= things.partial & set(unknown.select("namespace", things.label).rows())
    return found
