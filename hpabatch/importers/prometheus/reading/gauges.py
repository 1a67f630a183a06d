"""Changes of gauges: values of an object, since when, and the time that it was exported.

An object may be exported twice (a pair of exporters, two Prometheus servers, an exporter that moved
to another address): labels that tell the copies apart are left out of `labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.importers.prometheus.client.samples import (
    POINTS,
    Findings,
    Samples,
    Span,
    joined_samples,
)
from hpabatch.importers.prometheus.reading.sources_seen import SILENT_MS, one_source, sources


@dataclass(frozen=True, slots=True)
class Gauge:
    """The values of a gauge over a window.

    Attributes:
        changes: the labels, `ts` (ms) and `value`, sorted by labels and ts: the first instant of
            each new value inside the window, and a row at span.after_ms for the value that was
            held already then (by something that was still there afterwards).
        seen: the labels, `first` and `last` (ms): when a thing was there. What was there when the
            window began has a first <= span.after_ms, which is not when it began itself.
    """

    changes: pl.DataFrame
    seen: pl.DataFrame

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
    silent_ms: int = SILENT_MS,
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
        labels: those that tell things apart.
        span: the window.
        findings: gets "duplicate", "value" (not finite) and "conflict" (two series that were
            the same all the time say different values; the preferred source counts).
        silent_ms: see `one_source`.
        there: some labels, `first` and `last` (ms): when things were there that were not there at
            both ends, but were the same while they were.
    """
    names = list(labels)
    silent = min(silent_ms, span.lookback_ms)
    raw, constant = _finite(raw, findings), _finite(constant, findings)
    raw, constant = _spelled_out(raw, constant, names, span, silent)
    ranks = _text_order([raw, constant], names)
    held = _held(constant, names, ranks, findings)
    held = _with_times(held, there, span)
    begin = pl.max_horizontal("first", pl.lit(span.after_ms, dtype=pl.Int64))
    here = pl.col("last") > span.after_ms
    changed = [held.filter(here).select(*names, begin.alias("ts"), "value")]
    seen = [held.select(*names, "first", "last")]
    if raw.count:
        one = one_source(raw, names, findings, silent_ms=silent, ranks=ranks)
        things, points = _by_thing(one, names)
        changed.append(_named(_changes(points, span), things, ["ts", "value"]))
        things, points = _by_thing(raw, names)
        times = points.group_by("thing").agg(
            pl.col("ts").min().alias("first"), pl.col("ts").max().alias("last")
        )
        seen.append(_named(times, things, ["first", "last"]))
    return Gauge(pl.concat(changed).sort([*names, "ts"]), pl.concat(seen).sort(names))


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


def _text_order(parts: Sequence[Samples], names: list[str]) -> dict[str, int]:
    """Return an order of sources that does not depend on how many samples they gave."""
    known = pl.concat([sources(part, names).select("profile", "source") for part in parts])
    pairs = sorted(known.unique().rows())
    return {source: rank for rank, (_, source) in enumerate(pairs)}


def _by_thing(samples: Samples, names: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the labels of each `thing`, and thing, ts and value, sorted and unique by both."""
    known = sources(samples, names).select("series", "thing")
    labels = samples.with_labels(names).series.select("series", *names)
    things = labels.join(known, on="series").unique("thing").drop("series")
    points = samples.points.join(known, on="series", how="left", maintain_order="left")
    points = points.select("thing", "ts", "value").sort("thing", "ts", maintain_order=True)
    return things, points.unique(["thing", "ts"], keep="last", maintain_order=True)


def _named(rows: pl.DataFrame, things: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Return rows with the labels of their object."""
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
