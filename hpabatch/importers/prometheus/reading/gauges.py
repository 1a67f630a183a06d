"""Changes of gauges, and the choice among several scrapes of one object.

An object may be exported or scraped twice: by a pair of exporters, one that moved to another
address, two jobs that read the kubelet, on /metrics/cadvisor and on /metrics/resource, or by the
two Prometheus servers of a pair. It must count once. Labels that the scrape adds tell the scrapes
apart; labels that describe the object itself (`OBJECT_LABELS`) make no other source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.importers.prometheus.client.samples import (
    POINTS,
    Findings,
    Samples,
    Span,
    joined_samples,
)

SILENT_MS: Final = 150_000
"""A source without a sample for longer than this has stopped: two scrapes of a minute are lost."""

OBJECT_LABELS: Final = frozenset(
    {
        # cAdvisor's
        *("__name__", "id", "name", "image", "cpu", "image_id", "image_spec", "container_id"),
        # kube-state-metrics', beside those that are always part of the identity
        *("uid", "node", "host_ip", "pod_ip", "host_network", "priority_class"),
        *("created_by_kind", "created_by_name", "owner_kind", "owner_name", "owner_is_controller"),
        *("resource", "unit", "restart_policy", "phase", "condition", "status"),
        *("metric_name", "metric_target_type"),
        *("scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name"),
    }
)
"""Labels of the object, not of the scrape."""

_EACH_TARGET = frozenset({"instance", "host", "hostname", "kubernetes_io_hostname", "pod"})
"""Scrape labels that differ between targets: they decide last."""


def one_source(
    samples: Samples,
    identity: Sequence[str],
    findings: Findings,
    *,
    silent_ms: int = SILENT_MS,
    ranks: Mapping[str, int] | None = None,
    complete_ms: int | None = None,
) -> Samples:
    """Return the samples of one source at a time for each thing; all series stay in the list.

    A sample is left out while a source that is preferred to its own has samples of the same thing
    both before and after it, each at most `silent_ms` away. So series that follow one another
    (another container, another address of the exporter) all stay, and where the preferred source
    is silent the other one stands in. In the last `silent_ms` before `complete_ms` the one before
    is enough, as the one after may not have been asked for.

    Args:
        identity: labels of a thing; a null is a value of its own.
        findings: gets "duplicate" and the number of things of which samples are left out.
        silent_ms: see above; at most what the samples reach back before the wanted time.
        ranks: the order of preference, by default that of `source_ranks`.
        complete_ms: up to when there would be samples, by default the time of the last one.
    """
    known = sources(samples, identity)
    several = _several(known)
    if several.is_empty() or not samples.count:
        return samples
    order = source_ranks([samples], identity) if ranks is None else ranks
    ranked = several.with_columns(
        rank=pl.col("source").replace_strict(order, default=len(order), return_dtype=pl.Int64)
    )
    points = samples.points.join(ranked, on="series", how="inner")
    last = pl.col("ts").max() if complete_ms is None else pl.lit(complete_ms)
    before, after = (nearby_minimum("thing", "rank", silent_ms, ahead=a) for a in (False, True))
    worse = (before < pl.col("rank")) & (
        (after < pl.col("rank")) | (pl.col("ts") > last - silent_ms)
    )
    left_out = points.with_columns(worse=worse).filter("worse")
    findings.note("duplicate", count=left_out["thing"].n_unique())
    kept = samples.points.join(
        left_out.select("series", "ts"), on=["series", "ts"], how="anti", maintain_order="left"
    )
    return Samples(samples.series, kept)


def nearby_minimum(group: str, column: str, within_ms: int, *, ahead: bool) -> pl.Expr:
    """Return a column's smallest value in [ts - within_ms, ts], or in [ts, ts + within_ms]."""
    by = -pl.col("ts") if ahead else pl.col("ts")
    return pl.col(column).rolling_min_by(by, f"{within_ms}i", closed="both").over(group)


def sources(samples: Samples, identity: Sequence[str]) -> pl.DataFrame:
    """Return per series: `series`, the number of its `thing`, its `source` and `profile`.

    The source is the text of all labels that are neither the thing's identity nor in
    OBJECT_LABELS; its profile leaves out those that differ from node to node.
    """
    frame = samples.with_labels(identity).series
    told = sorted(set(samples.names).difference(identity, OBJECT_LABELS))
    alike = [name for name in told if name not in _EACH_TARGET]
    things = frame.select(identity).unique(maintain_order=True).with_row_index("thing")
    numbered = frame.join(
        things, on=list(identity), how="left", nulls_equal=True, maintain_order="left"
    )
    return numbered.select(
        "series", "thing", _text(told).alias("source"), _text(alike).alias("profile")
    )


def source_ranks(parts: Sequence[Samples], identity: Sequence[str]) -> dict[str, int]:
    """Return which sources are preferred, the best is 0, for samples of several names alike.

    One order for everything: of kinds of sources (see `sources`) that say the same things, those
    with the most samples come first, then go their texts. Counts that differ by less than a factor
    of about 1.4 are equal: whether a slice of the time has a sample more must not matter.
    """
    found = []
    for part in parts:
        several = _several(sources(part, identity))
        counts = part.points.group_by("series").agg(pl.len().alias("count"))
        found.append(several.join(counts, on="series", how="inner"))
    whole = pl.concat(found) if found else pl.DataFrame()
    if whole.is_empty():
        return {}
    by_profile = dict(whole.group_by("profile").agg(pl.col("count").sum()).rows())
    most = max(by_profile.values())
    tier = {profile: round(math.log2(most / count)) for profile, count in by_profile.items()}
    pairs = whole.select("profile", "source").unique().rows()
    ordered = sorted(pairs, key=lambda pair: (tier[pair[0]], *pair))
    return {source: rank for rank, (_, source) in enumerate(ordered)}


def _several(known: pl.DataFrame) -> pl.DataFrame:
    return known.filter(pl.col("source").n_unique().over("thing") > 1)


def _text(names: Sequence[str]) -> pl.Expr:
    if not names:
        return pl.lit("")
    parts = [pl.format("{}={}", pl.lit(name), pl.col(name)) for name in names]
    return pl.concat_str(parts, separator=" ", ignore_nulls=True)


@dataclass(frozen=True, slots=True)
class Gauge:
    """The values of a gauge over a window.

    Attributes:
        changes: the labels, `ts` (ms) and `value`, sorted by labels and ts: the first instant of
            each new value inside the window, and a row at span.after_ms for the value that was
            held already then (by something that was still there afterwards).
        seen: the labels, `first` and `last` (ms): when a thing was there. What was there when the
            window began has a first <= span.after_ms, which is not when it began itself.
        away: the labels, `last` and `back` (ms): absences between the two, longer than the
            lookback.
    """

    changes: pl.DataFrame
    seen: pl.DataFrame
    away: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def labels(self) -> list[str]:
        """The labels that identify its objects."""
        return self.seen.columns[:-2]


def reduce_gauge(
    raw: Samples,
    constant: Samples,
    labels: Sequence[str],
    span: Span,
    findings: Findings,
    *,
    there: pl.DataFrame | None = None,
) -> Gauge:
    """Return the changes of a gauge.

    A thing that is there again after more than span.lookback_ms says a new value, even if it is
    the old one: so changes do not depend on where windows are cut. Of several sources one counts
    at a time, the first by its text (`one_source`).

    Args:
        raw: samples over (span.from_ms, span.until_ms] of what was not the same all the time.
        constant: a sample per series of what was, and was there at both ends, with the value that
            it had; its time is not looked at. It is seen from span.after_ms to span.until_ms,
            or as `there` says.
        findings: gets "duplicate", "value" (not finite) and "conflict" (two series that were
            the same all the time say different values; the preferred source counts).
        there: some labels, `first` and `last` (ms): when things were there that were not there at
            both ends, but were the same while they were.
    """
    names = list(labels)
    silent = min(SILENT_MS, span.lookback_ms)
    raw, constant = _finite(raw, findings), _finite(constant, findings)
    raw, constant = _spelled_out(raw, constant, names, span, silent)
    known = [sources(part, names).select("profile", "source") for part in (raw, constant)]
    # An order of sources that does not depend on how many samples they gave.
    pairs = sorted(pl.concat(known).unique().rows())
    ranks = {source: rank for rank, (_, source) in enumerate(pairs)}
    held = _held(constant, names, ranks, findings)
    held = _with_times(held, there, span)
    begin = pl.max_horizontal("first", pl.lit(span.after_ms, dtype=pl.Int64))
    here = pl.col("last") > span.after_ms
    changed = [held.filter(here).select(*names, begin.alias("ts"), "value")]
    seen = [held.select(*names, "first", "last")]
    away = pl.DataFrame()
    if raw.count:
        one = one_source(raw, names, findings, silent_ms=silent, ranks=ranks)
        things, points = _by_thing(one, names)
        changed.append(_named(_changes(points, span), things, ["ts", "value"]))
        things, points = _by_thing(raw, names)
        times = points.group_by("thing").agg(
            pl.col("ts").min().alias("first"), pl.col("ts").max().alias("last")
        )
        seen.append(_named(times, things, ["first", "last"]))
        before = points.with_columns(last=pl.col("ts").shift(1).over("thing"), back="ts")
        absent = before.filter(pl.col("back") - pl.col("last") > span.lookback_ms)
        away = _named(absent, things, ["last", "back"])
    return Gauge(pl.concat(changed).sort([*names, "ts"]), pl.concat(seen).sort(names), away)


def _with_times(held: pl.DataFrame, there: pl.DataFrame | None, span: Span) -> pl.DataFrame:
    """Return objects with the time of their presence: all the time by default."""
    limits = {"first": span.after_ms, "last": span.until_ms}
    if there is None:
        return held.with_columns(pl.lit(ms, dtype=pl.Int64).alias(n) for n, ms in limits.items())
    keys = [name for name in there.columns if name not in limits]
    known = there.group_by(keys).agg(pl.col("first").min(), pl.col("last").max())
    timed = held.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return timed.with_columns(pl.col(n).fill_null(ms) for n, ms in limits.items())


def _finite(samples: Samples, findings: Findings) -> Samples:
    good = samples.points.filter(pl.col("value").is_finite())
    findings.note("value", "not a finite number", samples.count - good.height)
    return samples if good.height == samples.count else Samples(samples.series, good)


def _by_thing(samples: Samples, names: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the labels of each `thing`, and thing, ts and value, sorted and unique by both."""
    known = sources(samples, names).select("series", "thing")
    labels = samples.with_labels(names).series.select("series", *names)
    things = labels.join(known, on="series").unique("thing").drop("series")
    points = samples.points.join(known, on="series", how="left", maintain_order="left")
    points = points.select("thing", "ts", "value").sort("thing", "ts", maintain_order=True)
    return things, points.unique(["thing", "ts"], keep="last", maintain_order=True)


def _named(rows: pl.DataFrame, things: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    named = rows.join(things, on="thing", how="left", maintain_order="left")
    return named.select(*things.drop("thing").columns, *columns)


def _changes(points: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the rows of new values, and those held at the window's beginning, at its time."""
    follows = (pl.col("thing") == pl.col("thing").shift(1)) & (
        pl.col("ts").diff() <= span.lookback_ms
    )
    same = follows & (pl.col("value") == pl.col("value").shift(1))
    inside = pl.col("ts").is_between(span.after_ms + 1, span.until_ms)
    changed = points.filter(~same.fill_null(value=False) & inside)
    later = pl.col("ts") > span.after_ms
    stays = points.filter(later).select("thing").unique()
    before = points.filter(~later).unique("thing", keep="last", maintain_order=True)
    before = before.join(stays, on="thing", how="semi", maintain_order="left")
    return pl.concat([before.with_columns(ts=pl.lit(span.after_ms, dtype=pl.Int64)), changed])


def _held(
    constant: Samples, names: list[str], ranks: Mapping[str, int], findings: Findings
) -> pl.DataFrame:
    """Return labels and value of what had one value all the time."""
    known = sources(constant, names).select(
        "series",
        rank=pl.col("source").replace_strict(ranks, default=len(ranks), return_dtype=pl.Int64),
    )
    values = constant.points.join(known, on="series").sort("rank", "series")
    labels = constant.with_labels(names).series.select("series", *names)
    rows = values.join(labels, on="series", how="left", maintain_order="left")
    several = rows.group_by(names).agg(pl.col("value").n_unique())
    findings.note("conflict", "two sources differ", several.filter(pl.col("value") > 1).height)
    return rows.select(*names, "value").unique(names, keep="first", maintain_order=True)


def _spelled_out(
    raw: Samples, constant: Samples, names: list[str], span: Span, silent_ms: int
) -> tuple[Samples, Samples]:
    """Make samples of constant series whose things have others that are not constant."""
    moving = raw.with_labels(names).series.select(names).unique()
    series = constant.with_labels(names).series
    both = series.join(moving, on=names, how="semi", nulls_equal=True).select("series")
    if both.is_empty():
        return raw, constant
    step = max(1, silent_ms // 2)
    first = (span.from_ms // step + 1) * step
    grid = sorted({*range(first, span.until_ms, step), span.until_ms})
    times = pl.DataFrame({"ts": grid}, schema={"ts": pl.Int64()})
    values = constant.points.join(both, on="series", how="semi").select("series", "value")
    spelled = values.join(times, how="cross").select(list(POINTS)).sort("series", "ts")
    rest = constant.points.join(both, on="series", how="anti")
    return joined_samples([raw, Samples(constant.series, spelled)]), Samples(constant.series, rest)
