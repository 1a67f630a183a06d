"""Samples of the containers of a pod, brought to common times.

cAdvisor samples each container at a time of its own. The metrics API and the replay add up the
usage of a pod's containers at one time. So the rows of a pod are brought together as metrics-server
does it: at each of its looks, the newest sample of every container.
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.reading.sources_seen import nearby_minimum

APART_MS: Final = 15_000
"""The longest distance between samples of a pod's containers: the kubelet's interval."""

_PATIENCE: Final = 1.5
"""A container's last row stands in for this many distances of the leading container's rows."""


def together(
    rows: pl.DataFrame, lookback_ms: int, findings: Findings, apart_ms: int = APART_MS
) -> pl.DataFrame:
    """Return rows of which all containers of a pod have the same times.

    Where they have already (the scrape's own time was taken), nothing changes. Else the first
    container by name leads: each of its rows makes a sample of the pod at its time, and so does a
    row of another one that is alone within `apart_ms`. To it belongs the nearest row of every other
    container: one before it or, if that is nearer, one at most `apart_ms` after it. One before it
    may be `apart_ms` old, or 1.5 times as old as the leading container's own last row (a container
    that idles is not looked at each time), but less than half of `lookback_ms`; and a row that
    shares its own time with one of the leading container belongs to that one. What an earlier row
    says of an interval longer than half of `lookback_ms` is left out: a window that was cut right
    before the sample could not know it.

    Rows up to `apart_ms` after the wanted time make the last samples exact; without them, older
    rows stand in.

    Args:
        rows: pod, container (numbers; containers in the order of their names) and ts, unique by
            the three; window_ms and cpu_milli; and columns that are carried along.
        lookback_ms: how far what is known reaches back before a window.
        findings: gets ("together", …), the number of pods.
        apart_ms: see above.
    """
    scattered = _scattered(rows)
    if scattered.is_empty():
        return rows
    own = rows.join(scattered, on="pod", how="semi").sort("pod", "container", "ts")
    made = _samples(own, lookback_ms, apart_ms)
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


def _samples(rows: pl.DataFrame, lookback_ms: int, apart_ms: int) -> pl.DataFrame:
    """Return the samples of pods; `of` is the time that a row had."""
    known = _leading(rows, apart_ms).with_row_index("row")
    leading = known.filter("leads").select("row", "pod", "container", "ts", "of", "since")
    retries = pl.when(pl.col("since") < lookback_ms).then(pl.col("since") * _PATIENCE)
    wanted = leading.select(
        "pod",
        "ts",
        lead="container",
        retries=pl.max_horizontal(retries.fill_null(0), pl.lit(float(apart_ms))),
    )
    others = rows.select("pod", "container").unique().join(wanted, on="pod")
    others = others.filter(pl.col("container") != pl.col("lead")).sort("ts")
    found = known.select("row", "pod", "container", "ts", "of").sort("ts")
    before, after = _nearest(others, found, "backward"), _nearest(others, found, "forward")
    both = pl.concat([others, before, after], how="horizontal")
    older, newer = pl.col("ts") - pl.col("backward_of"), pl.col("forward_of") - pl.col("ts")
    old = ((older <= pl.col("retries")) & (older * 2 < lookback_ms)).fill_null(value=False)
    new = (newer <= apart_ms).fill_null(value=False)
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


def _leading(rows: pl.DataFrame, apart_ms: int) -> pl.DataFrame:
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
    near = [nearby_minimum("pod", "lone", apart_ms, ahead=ahead) for ahead in (False, True)]
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
