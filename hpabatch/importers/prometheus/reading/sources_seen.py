"""Choice among several scrapes of one object, and the distance of samples.

A container may be scraped twice: by two jobs that read the kubelet, under two addresses of a node,
on /metrics/cadvisor and on /metrics/resource, or by the two Prometheus servers of a pair. Its usage
must count once. Labels that the scrape adds tell the scrapes apart; labels that describe the object
itself (`OBJECT_LABELS`) make no other source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings, Samples

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

_DOWNSAMPLED: Final[Mapping[int, str]] = {300_000: "5 minutes", 3_600_000: "1 hour"}
"""Distances of samples (ms) after downsampling by Thanos, with their names."""


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
        samples: of one name.
        identity: labels of a thing; a null is a value of its own.
        findings: gets ("duplicate", which source counts), once per thing.
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
    marked = points.with_columns(worse=worse, best=before)
    left_out = marked.filter("worse")
    _note_duplicates(left_out, ranked, findings)
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


def spacing_ms(samples: Samples) -> int | None:
    """Return the usual distance of a series' neighbouring samples, in ms; None: there are none."""
    same = pl.col("series") == pl.col("series").shift(1)
    distances = samples.points.select(pl.when(same).then(pl.col("ts").diff())).to_series()
    usual = distances.drop_nulls().quantile(0.5, interpolation="lower")
    return None if usual is None else int(usual)


def downsampled(samples: Samples, expected_ms: int | None) -> str | None:
    """Return what to tell of samples that Thanos made fewer, None if they do not look like it.

    Its resolutions are 5 minutes and 1 hour, and such samples stand at the last millisecond of
    their interval; those of a scrape that is merely slow stand anywhere.

    Args:
        samples: of one name.
        expected_ms: how far apart samples usually are here; None: not known.
    """
    usual = spacing_ms(samples)
    if usual is None or usual not in _DOWNSAMPLED:
        return None
    at_ends = samples.points.filter(pl.col("ts") % usual == usual - 1).height
    finer = expected_ms is not None and expected_ms < usual
    if not finer and (expected_ms is not None or 2 * at_ends < samples.count):
        return None
    return (
        f"samples are exactly {_DOWNSAMPLED[usual]} apart: the store behind the server has kept "
        "downsampled values only (Thanos); peaks are lost, ask a store that has raw samples"
    )


def _several(known: pl.DataFrame) -> pl.DataFrame:
    """Return the series of objects that several sources export."""
    return known.filter(pl.col("source").n_unique().over("thing") > 1)


def _text(names: Sequence[str]) -> pl.Expr:
    if not names:
        return pl.lit("")
    parts = [pl.format("{}={}", pl.lit(name), pl.col(name)) for name in names]
    return pl.concat_str(parts, separator=" ", ignore_nulls=True)


def _note_duplicates(left_out: pl.DataFrame, ranked: pl.DataFrame, findings: Findings) -> None:
    """Note which source counts instead of which, in terms of the labels in which they differ."""
    best = ranked.select("rank", better="source").unique()
    pairs = left_out.select("thing", "source", rank="best").unique().join(best, on="rank")
    for other, better, count in pairs.group_by("source", "better").len().sort(pl.all()).rows():
        findings.note("duplicate", _told(other, better), count)


def _told(other: str, better: str) -> str:
    sides = [set(text.split(" ")) if text else set[str]() for text in (other, better)]
    names = {part.partition("=")[0] for part in sides[0] ^ sides[1]}
    # Addresses are too many to be listed one by one.
    plain = names.difference(_EACH_TARGET)
    if not plain:
        return f"several values of {', '.join(sorted(names))}: the first counts"
    shown = [
        " ".join(sorted(p for p in side if p.partition("=")[0] in plain)) or "none of these labels"
        for side in (sides[0] - sides[1], sides[1] - sides[0])
    ]
    return f"{shown[0]} beside {shown[1]}: the latter counts"
