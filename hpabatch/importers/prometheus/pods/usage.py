"""Usage of containers, from raw counters: what metrics-server would have computed at each scrape.

metrics-server (pkg/storage/types.go, resourceUsage) takes two neighbouring values of the counter,
cuts their quotient to whole nanocores, and whoever asks for millicores gets it rounded up. This
module differs in one point: the counter is a float of seconds, which carries noise of 1e-8 s once
it is as large as 1e8 s; its increase is therefore rounded to whole microseconds first. Usage in
whole millicores over whole milliseconds is a whole number of microseconds, and so is what a kernel
with cgroup v2 counts: both come back exactly. (A nanosecond that cgroup v1 counted beyond the
microsecond is lost: less than 5e-8 cores over 10 s.)

cAdvisor samples each container at a time of its own. The metrics API and the replay add up the
usage of a pod's containers at one time. So the rows of a pod are brought together as metrics-server
does it: at each of its looks, the newest sample of every container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import polars as pl

from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.importers.prometheus.client.samples import Findings, Samples, Span
from hpabatch.importers.prometheus.reading.gauges import (
    SILENT_MS,
    nearby_minimum,
    one_source,
    source_ranks,
    sources,
)

APART_MS: Final = 15_000
"""The longest distance between samples of a pod's containers: the kubelet's interval."""

_PATIENCE: Final = 1.5
"""A container's last row stands in for this many distances of the leading container's rows."""


def together(rows: pl.DataFrame, lookback_ms: int, findings: Findings) -> pl.DataFrame:
    """Return rows of which all containers of a pod have the same times.

    Where they have already (the scrape's own time was taken), nothing changes. Else the first
    container by name leads: each of its rows makes a sample of the pod at its time, and so does a
    row of another one that is alone within `APART_MS`. To it belongs the nearest row of every other
    container: one before it or, if that is nearer, one at most `APART_MS` after it. One before it
    may be `APART_MS` old, or 1.5 times as old as the leading container's own last row (a container
    that idles is not looked at each time), but less than half of `lookback_ms`; and a row that
    shares its own time with one of the leading container belongs to that one. What an earlier row
    says of an interval longer than half of `lookback_ms` is left out: a window that was cut right
    before the sample could not know it.

    Rows up to `APART_MS` after the wanted time make the last samples exact; without them, older
    rows stand in.

    Args:
        rows: pod, container (numbers; containers in the order of their names) and ts, unique by
            the three; window_ms and cpu_milli; and columns that are carried along.
        lookback_ms: how far what is known reaches back before a window.
        findings: gets ("together", …), the number of pods.
    """
    scattered = _scattered(rows)
    if scattered.is_empty():
        return rows
    own = rows.join(scattered, on="pod", how="semi").sort("pod", "container", "ts")
    made = _samples(own, lookback_ms)
    moved = made.filter(pl.col("of") != pl.col("ts"))["pod"].n_unique()
    findings.note("together", "pods whose containers are looked at one by one", moved)
    doubtful = (pl.col("of") < pl.col("ts")) & (pl.col("window_ms") * 2 > lookback_ms)
    made = made.with_columns(
        pl.when(~doubtful.fill_null(value=False)).then(pl.col("window_ms", "cpu_milli"))
    )
    rest = rows.join(scattered, on="pod", how="anti")
    return pl.concat([rest, made.select(rows.columns)])


def _scattered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the pods of which some containers have rows at times at which others have none."""
    sizes = rows.group_by("pod", "container").len().group_by("pod").len("size")
    several = sizes.filter(pl.col("size") > 1)
    if several.is_empty():
        return several.select("pod")
    here = rows.join(several, on="pod").group_by("pod", "ts").agg(pl.len(), pl.col("size").first())
    return here.filter(pl.col("len") < pl.col("size")).select("pod").unique()


def _samples(rows: pl.DataFrame, lookback_ms: int) -> pl.DataFrame:
    """Return the samples of pods; `of` is the time that a row had."""
    known = _leading(rows).with_row_index("row")
    leading = known.filter("leads").select("row", "pod", "container", "ts", "of", "since")
    retries = pl.when(pl.col("since") < lookback_ms).then(pl.col("since") * _PATIENCE)
    wanted = leading.select(
        "pod",
        "ts",
        lead="container",
        retries=pl.max_horizontal(retries.fill_null(0), pl.lit(float(APART_MS))),
    )
    others = rows.select("pod", "container").unique().join(wanted, on="pod")
    others = others.filter(pl.col("container") != pl.col("lead")).sort("ts")
    found = known.select("row", "pod", "container", "ts", "of").sort("ts")
    before, after = _nearest(others, found, "backward"), _nearest(others, found, "forward")
    both = pl.concat([others, before, after], how="horizontal")
    older, newer = pl.col("ts") - pl.col("backward_of"), pl.col("forward_of") - pl.col("ts")
    old = ((older <= pl.col("retries")) & (older * 2 < lookback_ms)).fill_null(value=False)
    new = (newer <= APART_MS).fill_null(value=False)
    # At equal distances the earlier one counts.
    later = new & (~old | (newer < older))
    taken = both.filter(old | new).select(
        *(
            pl.when(later).then(f"forward_{n}").otherwise(f"backward_{n}").alias(n)
            for n in ("row", "of")
        ),
        *("pod", "container", "ts", "lead"),
    )
    moved = taken.filter(pl.col("of") != pl.col("ts"))
    theirs = rows.select("pod", lead="container", of="ts")
    free = moved.join(theirs, on=["pod", "lead", "of"], how="anti")
    same = taken.filter(pl.col("of") == pl.col("ts"))
    picked = pl.concat([part.select("row", "ts", "of") for part in (leading, same, free)])
    values = rows.select(pl.exclude("ts").gather(picked["row"]))
    return values.with_columns(ts=picked["ts"], of=picked["of"])


def _leading(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with `leads`, their distance to the container's last row, and `of` (= ts)."""
    alone = pl.len().over("pod", "ts") == 1
    nobody = pl.lit(2**32 - 1, dtype=pl.UInt32)
    lone = pl.when(alone).then(pl.col("container").cast(pl.UInt32)).otherwise(nobody)
    known = rows.with_columns(
        lone=lone,
        first=pl.col("container").min().over("pod", "ts"),
        since=pl.col("ts") - pl.col("ts").shift(1).over("pod", "container"),
        of="ts",
    )
    near = [nearby_minimum("pod", "lone", APART_MS, ahead=ahead) for ahead in (False, True)]
    leads = (pl.col("first") == pl.col("container")) & (
        pl.min_horizontal(near) >= pl.col("container")
    )
    return known.with_columns(leads=leads).drop("lone", "first")


def _nearest(
    others: pl.DataFrame, found: pl.DataFrame, strategy: Literal["backward", "forward"]
) -> pl.DataFrame:
    """Return the row, and its time, that lies nearest on one side of each time."""
    by = ["pod", "container"]
    joined = others.join_asof(found, on="ts", by=by, strategy=strategy, check_sortedness=False)
    return joined.select(pl.col("row", "of").name.prefix(f"{strategy}_"))


USAGE: Final = pl.Schema(
    {
        **dict.fromkeys(("namespace", "pod", "container", "pod_uid"), pl.String()),
        **dict.fromkeys(("ts", "window_ms", "cpu_milli", "memory_bytes"), pl.Int64()),
    }
)
"""Columns of usage_rows; `pod_uid` is null without the cgroup's path."""

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
            pod, container, and id where there is one; series of single cores do not count.
        memory: container_memory_working_set_bytes, with the same labels.
        span: rows have span.after_ms < ts <= span.until_ms.
        findings: gets counts of what was left out: "gap", "reset", "value" (not finite, negative,
            or larger than a history holds), "no container" (rows of pods, and pause containers),
            "duplicate" (see `one_source`), "together".
        ranks: which sources are preferred, by default those with the most samples here
            (`source_ranks`).

    Returns:
        USAGE, sorted by namespace, pod, container and ts, which are unique.
    """
    cpu = _usable(_containers(cpu, findings), span, findings, _CPU_SECONDS_MAX)
    memory = _usable(_containers(memory, findings), span, findings, float(MEMORY_BYTES_MAX))
    kept = _kept(cpu, memory, span, findings, ranks)
    used = _increases(cpu, span)
    if kept[0].height < cpu.count:
        used = kept[0].join(used, on=["series", "ts"], how="left", maintain_order="left")
    _note_intervals(used, span, findings)
    used = used.select("series", "ts", "window_ms", "cpu_milli")
    return _rows((cpu, used), (memory, _bytes(kept[1])), span, findings)


def _containers(samples: Samples, findings: Findings) -> Samples:
    found = samples.with_labels(_IDENTITY)
    named = pl.all_horizontal(pl.col(name).fill_null("") != "" for name in _IDENTITY)
    if "cpu" in found.names:  # (an old cAdvisor may have one per core, too)
        named &= pl.col("cpu").is_null() | (pl.col("cpu") == "total")
    series = found.series.filter(named & ~pl.col("container").is_in(_NO_CONTAINER))
    findings.note("no container", "", found.series.height - series.height)
    if series.height == found.series.height:
        return found
    points = found.points.join(series.select("series"), on="series", how="semi")
    return Samples(series, points)


def _usable(samples: Samples, span: Span, findings: Findings, most: float) -> Samples:
    good = pl.col("value").is_finite() & (pl.col("value") >= 0) & (pl.col("value") <= most)
    wrong = samples.points.filter(~good)
    findings.note("value", "not finite, negative, or far too large", _inside(wrong, span))
    return Samples(samples.series, samples.points.filter(good)) if wrong.height else samples


def _inside(points: pl.DataFrame, span: Span) -> int:
    return points.filter(pl.col("ts").is_between(span.after_ms + 1, span.until_ms)).height


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
    ranks: Mapping[str, int] | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    order = source_ranks([cpu, memory], _IDENTITY) if ranks is None else ranks
    # What is brought together with the last samples must be sure, too, up to `APART_MS` later.
    silent = min(SILENT_MS - APART_MS, span.lookback_ms // 2)
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
    rows = rows.rename({"owner": "pod", "thing": "container"})
    rows = together(rows, span.lookback_ms, findings)
    rows = rows.rename({"pod": "owner", "container": "thing"})
    inside = rows.filter(pl.col("ts").is_between(span.after_ms + 1, span.until_ms))
    empty = pl.col("cpu_milli").is_null() & pl.col("memory_bytes").is_null()
    blank, kept = inside.filter(empty), inside.filter(~empty)
    if blank.height:
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
    key = ["thing", "ts"]
    if cpu.select(key).equals(memory.select(key)) and cpu["owner"].equals(memory["owner"]):
        return cpu.with_columns(memory["memory_bytes"])
    both = cpu.join(memory, on=key, how="full", coalesce=True, suffix="_memory")
    unnamed = pods.filter(pl.col("pod_uid").is_null())["owner"].implode()
    named = [pl.when(~pl.col(name).is_in(unnamed)).then(name) for name in ("owner", "owner_memory")]
    owner = pl.coalesce(*named, "owner", "owner_memory")
    return both.with_columns(owner=owner).drop("owner_memory").sort(key)
