"""Usage of containers, from raw counters: what metrics-server would have computed at each scrape.

metrics-server (pkg/storage/types.go, resourceUsage) takes two neighbouring values of the counter,
cuts their quotient to whole nanocores, and whoever asks for millicores gets it rounded up. This
module differs in one point: the counter is a float of seconds, which carries noise of 1e-8 s once
it is as large as 1e8 s; its increase is therefore rounded to whole microseconds first. Usage in
whole millicores over whole milliseconds is a whole number of microseconds, and so is what a kernel
with cgroup v2 counts: both come back exactly. (A nanosecond that cgroup v1 counted beyond the
microsecond is lost: less than 5e-8 cores over 10 s.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.importers.prometheus.client.samples import Findings, Samples, Span
from hpabatch.importers.prometheus.pods.samples import APART_MS, together
from hpabatch.importers.prometheus.reading.sources_seen import (
    SILENT_MS,
    one_source,
    source_ranks,
    sources,
)

USAGE: Final = pl.Schema(
    {
        **dict.fromkeys(("namespace", "pod", "container", "pod_uid"), pl.String()),
        **dict.fromkeys(("ts", "window_ms", "cpu_milli", "memory_bytes"), pl.Int64()),
    }
)
"""Columns of usage_rows and rated_rows; `pod_uid` is null without the cgroup's path."""

_IDENTITY = ("namespace", "pod", "container")
_NO_CONTAINER = ("", "POD")
_UID = r".*pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})"
# A counter of more seconds than that is none: thirty thousand years of one core.
_CPU_SECONDS_MAX = 1e12


def usage_rows(
    cpu: Samples,
    memory: Samples,
    span: Span,
    findings: Findings,
    *,
    apart_ms: int = APART_MS,
    ranks: Mapping[str, int] | None = None,
) -> pl.DataFrame:
    """Return what containers used, from raw samples.

    Two neighbouring samples of a counter at t1 < t2 give a row at t2 with `window_ms` t2 - t1. A
    row has a null `cpu_milli` (and `window_ms`) where memory is known but no interval ends: at a
    container's first sample, after a gap (t2 - t1 > span.lookback_ms) and after a reset (the
    counter fell; a restart that begins a new series is its first sample). Containers of one pod
    that were looked at one by one get common times (`samples.together`); a row then keeps its
    own `window_ms`.

    Rows depend on `span.lookback_ms` only, not on where windows are cut, if samples up to SILENT_MS
    after `span.until_ms` are given, too: they tell whether another source goes on, and what belongs
    to the pods' last samples.

    Args:
        cpu: counters in seconds (container_cpu_usage_seconds_total) with the labels namespace,
            pod, container, and id where there is one; series per cpu are added up.
        memory: container_memory_working_set_bytes, with the same labels.
        span: rows have span.after_ms < ts <= span.until_ms.
        findings: gets counts of what was left out: "gap", "reset", "value" (not finite, negative,
            or larger than a history holds), "no container" (rows of pods, and pause containers),
            "duplicate" (see `one_source`), "per cpu", "together".
        apart_ms: how far apart the containers of a pod may be looked at, less than SILENT_MS; 0:
            they are left as they are.
        ranks: which sources are preferred, by default those with the most samples here
            (`source_ranks`).

    Returns:
        USAGE, sorted by namespace, pod, container and ts, which are unique.
    """
    cpu = _added_up(_usable(_containers(cpu, findings), span, findings, _CPU_SECONDS_MAX), findings)
    memory = _usable(_containers(memory, findings), span, findings, float(MEMORY_BYTES_MAX))
    increases = _increases(cpu, span)
    kept = _kept(cpu, memory, span, findings, apart_ms, ranks)
    used = increases
    if kept[0].height < cpu.count:
        used = kept[0].join(increases, on=["series", "ts"], how="left", maintain_order="left")
    _note_intervals(used, span, findings)
    used = used.select("series", "ts", "window_ms", "cpu_milli")
    return _rows((cpu, used), (memory, _bytes(kept[1])), span, findings, apart_ms)


def rated_rows(
    cpu_cores: Samples,
    memory: Samples,
    window_ms: int,
    span: Span,
    findings: Findings,
    *,
    apart_ms: int = APART_MS,
    ranks: Mapping[str, int] | None = None,
) -> pl.DataFrame:
    """Return what containers used, where only rates are to be had.

    `rate()` looks back, smooths, and extrapolates: its cores are rounded to microcores, where
    millicores that were whole are whole again, and then up to millicores.

    Args:
        cpu_cores: cores, e.g. the values of a range query or of a recording rule.
        memory: see `usage_rows`; it needs the same times to share a row.
        window_ms: over which the rate was taken.
        span: see `usage_rows`.
        findings: see `usage_rows`.
        apart_ms, ranks: see `usage_rows`.

    Returns:
        USAGE, see `usage_rows`.
    """
    most = CPU_MILLI_MAX / 1000
    cpu = _usable(_containers(cpu_cores, findings), span, findings, most)
    memory = _usable(_containers(memory, findings), span, findings, float(MEMORY_BYTES_MAX))
    kept = _kept(cpu, memory, span, findings, apart_ms, ranks)
    micro = (pl.col("value") * 1e6).round(0).cast(pl.Int64)
    used = kept[0].select(
        "series",
        "ts",
        window_ms=pl.lit(window_ms, dtype=pl.Int64),
        cpu_milli=-(-micro // 1000),
    )
    return _rows((cpu, used), (memory, _bytes(kept[1])), span, findings, apart_ms)


def _containers(samples: Samples, findings: Findings) -> Samples:
    """Return the series of containers, without those of pods as a whole and of pause."""
    found = samples.with_labels(_IDENTITY)
    named = pl.all_horizontal(pl.col(name).fill_null("") != "" for name in _IDENTITY)
    series = found.series.filter(named & ~pl.col("container").is_in(_NO_CONTAINER))
    findings.note("no container", "", found.series.height - series.height)
    if series.height == found.series.height:
        return found
    points = found.points.join(series.select("series"), on="series", how="semi")
    return Samples(series, points)


def _usable(samples: Samples, span: Span, findings: Findings, most: float) -> Samples:
    """Return the samples that have a value that can be."""
    good = pl.col("value").is_finite() & (pl.col("value") >= 0) & (pl.col("value") <= most)
    wrong = samples.points.filter(~good)
    findings.note("value", "not finite, negative, or far too large", _inside(wrong, span))
    return Samples(samples.series, samples.points.filter(good)) if wrong.height else samples


def _inside(points: pl.DataFrame, span: Span) -> int:
    return points.filter(pl.col("ts").is_between(span.after_ms + 1, span.until_ms)).height


def _added_up(samples: Samples, findings: Findings) -> Samples:
    """Return one series per container where there is one per cpu (cpu="cpu00", …)."""
    if "cpu" not in samples.names:
        return samples
    single = pl.col("cpu").is_null() | (pl.col("cpu") == "total")
    parts = samples.series.filter(~single)
    if parts.is_empty():
        return samples
    findings.note("per cpu", "added up", parts.height)
    names = [name for name in samples.names if name != "cpu"]
    first = pl.col("series").first().over(names)
    into = parts.select("series", whole=first)
    points = samples.points.join(into, on="series", how="left", maintain_order="left")
    points = points.with_columns(series=pl.coalesce("whole", "series")).drop("whole")
    # A core that was not used yet has no series: what is there is the sum.
    added = points.group_by("series", "ts").agg(pl.col("value").sum()).sort("series", "ts")
    left = samples.series.filter(single | pl.col("series").is_in(into["whole"].unique().implode()))
    return Samples(left, added)


def _increases(cpu: Samples, span: Span) -> pl.DataFrame:
    """Return per sample of a counter: series, ts, window_ms, cpu_milli, and why there is none."""
    follows = pl.col("series") == pl.col("series").shift(1)
    window = pl.when(follows).then(pl.col("ts").diff())
    more = ((pl.col("value") - pl.col("value").shift(1)) * 1e6).round(0).cast(pl.Int64)
    frame = cpu.points.with_columns(window_ms=window, micro=pl.when(follows).then(more))
    gap = (pl.col("window_ms") > span.lookback_ms).fill_null(value=False)
    reset = ~gap & (pl.col("micro") < 0).fill_null(value=False)
    # Microseconds per millisecond are millicores; what is less than a nanocore does not count.
    whole, rest = pl.col("micro") // pl.col("window_ms"), pl.col("micro") % pl.col("window_ms")
    milli = whole + (rest * 1_000_000 >= pl.col("window_ms")).cast(pl.Int64)
    frame = frame.with_columns(gap=gap, reset=reset, milli=milli)
    large = ~pl.col("gap") & (pl.col("milli") > CPU_MILLI_MAX).fill_null(value=False)
    usual = pl.col("window_ms").is_not_null() & ~pl.col("gap") & ~pl.col("reset") & ~large
    return frame.select(
        "series",
        "ts",
        pl.when(usual).then("window_ms").alias("window_ms"),
        pl.when(usual).then("milli").alias("cpu_milli"),
        "gap",
        "reset",
        large=large,
    )


def _note_intervals(used: pl.DataFrame, span: Span, findings: Findings) -> None:
    for kind, detail in (
        ("gap", "cpu: two samples too far apart"),
        ("reset", "cpu: the counter fell"),
    ):
        findings.note(kind, detail, _inside(used.filter(kind), span))
    detail = "not finite, negative, or far too large"
    findings.note("value", detail, _inside(used.filter("large"), span))


def _kept(
    cpu: Samples,
    memory: Samples,
    span: Span,
    findings: Findings,
    apart_ms: int,
    ranks: Mapping[str, int] | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the points of both that count: of one source, and of the newest container."""
    order = source_ranks([cpu, memory], _IDENTITY) if ranks is None else ranks
    # What is brought together with the last samples must be sure, too, up to `apart_ms` later.
    silent = min(SILENT_MS - apart_ms, span.lookback_ms // 2)
    found = []
    for part, noted in ((cpu, findings), (memory, Findings())):
        one = one_source(
            part,
            _IDENTITY,
            noted,
            silent_ms=silent,
            ranks=order,
            complete_ms=span.until_ms + SILENT_MS,
        )
        found.append(_newest(one))
    return found[0], found[1]


def _newest(samples: Samples) -> pl.DataFrame:
    """Return points without those of a container that its successor has replaced.

    The exporter may show a container for a while after another one of the same name began.
    """
    begun = samples.points.group_by("series").agg(pl.col("ts").min().alias("first"))
    known = sources(samples, _IDENTITY).join(begun, on="series")
    known = known.sort("thing", "source", "first", "series")
    replaced = known.select("series", end=pl.col("first").shift(-1).over("thing", "source"))
    replaced = replaced.drop_nulls()
    if replaced.is_empty():
        return samples.points
    points = samples.points.join(replaced, on="series", how="left", maintain_order="left")
    return points.filter(pl.col("end").is_null() | (pl.col("ts") < pl.col("end"))).drop("end")


def _bytes(points: pl.DataFrame) -> pl.DataFrame:
    return points.select("series", "ts", memory_bytes=pl.col("value").ceil().cast(pl.Int64))


def _rows(
    cpu: tuple[Samples, pl.DataFrame],
    memory: tuple[Samples, pl.DataFrame],
    span: Span,
    findings: Findings,
    apart_ms: int,
) -> pl.DataFrame:
    """Return USAGE from the points of both (series, ts and their columns)."""
    known = [_containers_of(part) for part, _ in (cpu, memory)]
    things = pl.concat(known).select(_IDENTITY).unique().sort(_IDENTITY).with_row_index("thing")
    pods = pl.concat(known).select(*_IDENTITY[:2], "pod_uid").unique().with_row_index("owner")
    sides = []
    for labels, (_, points) in zip(known, (cpu, memory), strict=True):
        numbers = labels.join(things, on=list(_IDENTITY)).join(
            pods, on=[*_IDENTITY[:2], "pod_uid"], nulls_equal=True
        )
        numbers = numbers.select("series", "thing", "owner")
        sides.append(points.join(numbers, on="series").drop("series").sort("thing", "ts"))
    rows = _both(sides[0], sides[1], pods)
    if apart_ms > 0:
        rows = rows.rename({"owner": "pod", "thing": "container"})
        rows = together(rows, span.lookback_ms, findings, apart_ms)
        rows = rows.rename({"pod": "owner", "container": "thing"})
    inside = rows.filter(pl.col("ts").is_between(span.after_ms + 1, span.until_ms))
    empty = pl.col("cpu_milli").is_null() & pl.col("memory_bytes").is_null()
    blank, kept = inside.filter(empty), inside.filter(~empty)
    if apart_ms > 0 and blank.height:
        # Beside containers that have values, one that has none is known not to have any.
        beside = blank.join(kept, on=["owner", "ts"], how="semi")
        kept = pl.concat([kept, beside])
    kept = kept.sort("thing", "ts")
    named = kept.join(things, on="thing", how="left", maintain_order="left").join(
        pods.select("owner", "pod_uid"), on="owner", how="left", maintain_order="left"
    )
    return named.select(list(USAGE)).cast(USAGE)


def _containers_of(samples: Samples) -> pl.DataFrame:
    """Return per series its container and, if its cgroup's path has it, its pod's uid."""
    uid = pl.col("id").str.extract(_UID, 1).str.replace_all("_", "-", literal=True)
    labels = samples.with_labels([*_IDENTITY, "id"]).series
    return labels.select("series", *_IDENTITY, pod_uid=uid)


def _both(cpu: pl.DataFrame, memory: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
    """Return cpu and memory of the same container and time as one row."""
    key = ["thing", "ts"]
    if cpu.select(key).equals(memory.select(key)) and cpu["owner"].equals(memory["owner"]):
        return cpu.with_columns(memory["memory_bytes"])
    both = cpu.join(memory, on=key, how="full", coalesce=True, suffix="_memory")
    unnamed = pods.filter(pl.col("pod_uid").is_null())["owner"].implode()
    named = [pl.when(~pl.col(name).is_in(unnamed)).then(name) for name in ("owner", "owner_memory")]
    owner = pl.coalesce(*named, "owner", "owner_memory")
    return both.with_columns(owner=owner).drop("owner_memory").sort(key)
