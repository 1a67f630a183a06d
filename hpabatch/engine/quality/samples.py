"""Sums over the usage samples of some targets, day after day.

Its samples cut a pod's life into stretches without a sample. The part of a stretch beyond max_age
is uncovered, since a sample counts no longer than that; a pod's first sample may take as long. In
the same way, all samples of a target's pods cut the life of the target, which gives its gaps. The
last sample of each pod is carried from day to day. Lengths are counted in bins, so that max_age can
be computed from the scrape interval once all days were read.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.fleet.frames import integers, keyed, milliseconds, unkeyed
from hpabatch.engine.quality.pods import Lives, ShardPods
from hpabatch.layout.records import I64

AT_LIMIT: Final = 0.95  # usage from this part of the cpu limit on counts as censored
LATE_MS: Final = 60_000
MIN_MAX_AGE_MS: Final = 60_000
MAX_AGE_SPACINGS: Final = 2.5  # as in replay: outlives one lost sample, not two
JITTER_QUANTILE: Final = 0.95
LOST_SPACINGS: Final = 1.5  # a longer step has lost a sample: that is no jitter
_PRECISION: Final = 10  # bits of a length that its bin keeps: 0.2 %
_FOLD: Final = 1 << 20
_UNKNOWN: Final = -1

USAGE_COLUMNS: Final = ("namespace", "target", "uid", "container", "ts", "cpu_milli", "fetched_at")


def listed(usage: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `pod_metrics` without those that only say that a pod is listed no more."""
    said = pl.col("cpu_milli").is_not_null() | pl.col("memory_bytes").is_not_null()
    return usage.filter(said.any().over("namespace", "target", "uid", "ts")).drop("memory_bytes")


class Lengths:
    """Counts of lengths (ms) by target, in bins; a bin has the mean of its lengths."""

    def __init__(self) -> None:
        """Begin empty."""
        self._parts: list[pl.DataFrame] = []
        self._rows = 0

    def add(self, target: I64, length_ms: I64) -> None:
        """Count lengths above 0, one per entry."""
        shift = np.maximum(np.frexp(length_ms.astype(np.float64))[1] - _PRECISION, 0)
        # A length has 43 bits, of which 10 are kept, and 6 say which.
        cell = (target << 17) | ((length_ms >> shift) << 6) | shift
        part = pl.DataFrame({"bin": cell, "sum": length_ms}).group_by("bin")
        self._parts.append(part.agg(pl.len().cast(pl.Int64).alias("n"), _SUM))
        self._rows += self._parts[-1].height
        if self._rows > _FOLD:
            self._fold()

    def _fold(self) -> None:
        joined = pl.concat(self._parts).group_by("bin").agg(pl.col("n").sum(), _SUM)
        self._parts, self._rows = [joined], joined.height // 2

    def table(self) -> pl.DataFrame:
        """Return target g, number `n`, sum and mean `ms` of each bin, sorted by g and length."""
        if not self._parts:
            schema = {"g": pl.Int64, "n": pl.Int64, "sum": pl.Int64, "ms": pl.Float64}
            return pl.DataFrame(schema=schema)
        self._fold()
        found = (
            self._parts[0]
            .select("n", "sum", g=pl.col("bin") // (1 << 17), ms=pl.col("sum") / pl.col("n"))
            .select("g", "n", "sum", "ms")
        )
        return found.sort("g", "ms")


_SUM: Final = pl.col("sum").sum()


def _before(owner: I64, values: I64, last: I64) -> I64:
    """Return the value before each one of the same owner; `last` is those of earlier calls.

    Rows of an owner lie together. `last` then has the newest value of each owner.
    """
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    found = np.append(0, values[:-1])
    found[starts] = last[owner[starts]]
    ends = np.append(starts[1:], owner.size) - 1
    last[owner[ends]] = values[ends]
    return found


class Stretches:
    """The stretches of lives that samples leave; those that may be uncovered are kept."""

    def __init__(self, lives: Lives, group: I64) -> None:
        """Begin with nothing seen; `group` is the target of each life."""
        self.lengths = Lengths()
        self._lives, self._group = lives, group
        self._last = lives.from_ms.copy()

    def add(self, life: I64, ms: I64) -> None:
        """Cut lives at times within them; sorted by life and time, later than all before."""
        if not life.size:
            return
        self._keep(life, ms - _before(life, ms, self._last))

    def close(self) -> None:
        """Count what is left of each life behind its last sample."""
        self._keep(np.arange(self._last.size), self._lives.to_ms - self._last)

    def _keep(self, life: I64, length: I64) -> None:
        long = length > MIN_MAX_AGE_MS
        if long.any():
            self.lengths.add(self._group[life[long]], length[long])


class SampleSums:
    """Everything that is summed over the samples of a shard's targets."""

    def __init__(self, pods: ShardPods) -> None:
        """Begin empty."""
        self._pods = pods
        self.steps = Lengths()
        self.pods_alone = Stretches(pods.lives, pods.target_of[pods.lives.owner])
        self.together = Stretches(pods.together, pods.together.owner)
        count = pods.numbers.height
        self._last_ms = np.full(count, _UNKNOWN, np.int64)
        self._last_fetched = np.full(count, _UNKNOWN, np.int64)
        self._sums: list[pl.DataFrame] = []

    def add(self, usage: pl.DataFrame) -> None:
        """Add a day's rows of `pod_metrics` (`USAGE_COLUMNS`), sorted by its key; days in order."""
        rows = _numbered(usage, self._pods)
        strays = rows.filter(pl.col("p").is_null())
        strays = strays.join(self._pods.targets, on=["namespace", "target"])
        self._sums.append(strays.group_by("g").agg(stray_rows=pl.len().cast(pl.Int64)))
        rows = rows.filter(pl.col("p").is_not_null())
        if rows.is_empty():
            return
        pod, ts_ms = integers(rows["p"]), milliseconds(rows["ts"])
        self._sums.append(self._at_limits(rows, pod))
        starts = np.flatnonzero((np.diff(pod, prepend=-1) != 0) | (np.diff(ts_ms, prepend=-1) != 0))
        fetched = np.maximum.reduceat(milliseconds(rows["fetched_at"], _UNKNOWN), starts)
        self._add_samples(pod[starts], ts_ms[starts], fetched)

    def _at_limits(self, rows: pl.DataFrame, pod: I64) -> pl.DataFrame:
        """Return per target the rows, those with a cpu limit, and those at it."""
        known = rows.select("p", "container", "ts", "cpu_milli").with_columns(
            g=pl.Series(self._pods.target_of[pod])
        )
        found = known.sort("ts", maintain_order=True).join_asof(
            self._pods.limits, left_on="ts", right_on="valid_from", by=["p", "container"],
            check_sortedness=False,
        )  # fmt: skip
        limited = (pl.col("limit") > 0) & pl.col("cpu_milli").is_not_null()
        at_limit = limited & (pl.col("cpu_milli") >= AT_LIMIT * pl.col("limit"))
        return found.group_by("g").agg(
            rows=pl.len().cast(pl.Int64),
            limited=limited.sum().cast(pl.Int64),
            at_limit=at_limit.sum().cast(pl.Int64),
        )

    def _add_samples(self, pod: I64, ts_ms: I64, fetched: I64) -> None:
        """Add pod samples, sorted by pod and time; `fetched` is _UNKNOWN where it is."""
        target = self._pods.target_of[pod]
        before = _before(pod, ts_ms, self._last_ms)
        fetched_before = _before(pod, fetched, self._last_fetched)
        step = np.where(before == _UNKNOWN, 0, ts_ms - before)
        self.steps.add(target[step > 0], step[step > 0])
        self._sums.append(_sample_sums(target, ts_ms, fetched, fetched_before))
        self._cut(pod, ts_ms)

    def _cut(self, pod: I64, ts_ms: I64) -> None:
        """Cut the pods' and the targets' lives by the samples that are within their pod's life."""
        lives = self._pods.lives
        life = self._pods.life_of[pod]
        alive = life >= 0
        if lives.owner.size:
            alive &= (ts_ms >= lives.from_ms[life]) & (ts_ms <= lives.to_ms[life])
        life, ms = life[alive], ts_ms[alive]
        self.pods_alone.add(life, ms)
        self.together.add(*unkeyed(np.sort(keyed(self._pods.together_of[life], ms))))

    def close(self) -> pl.DataFrame:
        """Return one row per target g that has pods or samples; nothing can be added after it.

        Columns: samples, rows, stray_rows, limited, at_limit (rows), late, skewed, overtaken,
        delay_max, delay_min, first_ts, last_ts, interval_ms, jitter_ms, max_age_ms, uncovered_ms,
        gaps, gap_longest_ms, never_sampled. Those of no sample are null.
        """
        self.pods_alone.close()
        self.together.close()
        steps = self.steps.table()
        found = self._pods.targets.select("g").join(_joined(self._sums), on="g", how="left")
        found = found.join(_quantile(steps, 0.5, "interval_ms"), on="g", how="left")
        # How far steps are from the interval, but for those with a lost sample.
        near = steps.join(found.select("g", "interval_ms"), on="g").filter(
            pl.col("ms") < LOST_SPACINGS * pl.col("interval_ms")
        )
        off = near.select("g", "n", ms=(pl.col("ms") - pl.col("interval_ms")).abs())
        found = found.join(_quantile(off, JITTER_QUANTILE, "jitter_ms"), on="g", how="left")
        spacing = (MAX_AGE_SPACINGS * pl.col("interval_ms").fill_null(0)).cast(pl.Int64)
        found = found.with_columns(max_age_ms=pl.max_horizontal(pl.lit(MIN_MAX_AGE_MS), spacing))
        ages = found.select("g", "max_age_ms")
        # Whole numbers: the sum does not depend on its order.
        beyond = pl.col("sum") - pl.col("n") * pl.col("max_age_ms")
        uncovered = self._long(self.pods_alone, ages).agg(uncovered_ms=beyond.sum())
        gaps = self._long(self.together, ages).agg(
            gaps=pl.col("n").sum(), gap_longest_ms=pl.col("ms").max().round().cast(pl.Int64)
        )
        for part in (uncovered, gaps, self._never_sampled(ages)):
            found = found.join(part, on="g", how="left")
        return found

    def _long(self, stretches: Stretches, ages: pl.DataFrame) -> pl.dataframe.group_by.GroupBy:
        table = stretches.lengths.table().join(ages, on="g")
        return table.filter(pl.col("ms") > pl.col("max_age_ms")).group_by("g")

    def _never_sampled(self, ages: pl.DataFrame) -> pl.DataFrame:
        lives = self._pods.lives
        unseen = self._last_ms[lives.owner] == _UNKNOWN
        frame = pl.DataFrame(
            {
                "g": self._pods.target_of[lives.owner][unseen],
                "ms": (lives.to_ms - lives.from_ms)[unseen],
            }
        )
        long = frame.join(ages, on="g").filter(pl.col("ms") > pl.col("max_age_ms"))
        return long.group_by("g").agg(never_sampled=pl.len().cast(pl.Int64))


def _numbered(usage: pl.DataFrame, pods: ShardPods) -> pl.DataFrame:
    """Return rows with their pod `p` (null: not known), sorted by pod and time.

    A pod's rows lie together, so texts are looked up once per run.
    """
    run = usage["uid"].rle_id() if usage.height else pl.Series(dtype=pl.UInt32)
    heads = usage["uid"].gather((run != run.shift(1)).fill_null(value=True).arg_true())
    found = heads.to_frame().join(pods.numbers, on="uid", how="left", maintain_order="left")["p"]
    numbered = usage.with_columns(found.gather(run).alias("p"))
    runs = found.drop_nulls()
    if runs.n_unique() < runs.len() or not runs.is_sorted():
        return numbered.sort("p", "ts", maintain_order=True)
    return numbered


def _sample_sums(target: I64, ts_ms: I64, fetched: I64, fetched_before: I64) -> pl.DataFrame:
    """Return the sums of one day."""
    samples = {"g": target, "ts": ts_ms, "fetched": fetched, "before": fetched_before}
    was_fetched, delay = pl.col("fetched") != _UNKNOWN, pl.col("fetched") - pl.col("ts")
    overtaken = (pl.col("before") != _UNKNOWN) & (pl.col("fetched") < pl.col("before"))
    tests = {"late": delay > LATE_MS, "skewed": delay < 0, "overtaken": overtaken}
    return (
        pl.DataFrame(samples)
        .group_by("g")
        .agg(
            samples=pl.len().cast(pl.Int64),
            **{name: (was_fetched & test).sum().cast(pl.Int64) for name, test in tests.items()},
            delay_max=delay.filter(was_fetched).max(),
            delay_min=delay.filter(was_fetched).min(),
            first_ts=pl.col("ts").min(),
            last_ts=pl.col("ts").max(),
        )
    )


def _joined(sums: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the days' sums as one row per target."""
    summed = ("samples", "rows", "stray_rows", "limited", "at_limit", "late", "skewed", "overtaken")
    schema = dict.fromkeys(
        ("g", *summed, "delay_max", "last_ts", "delay_min", "first_ts"), pl.Int64
    )
    joined = pl.concat([pl.DataFrame(schema=schema), *sums], how="diagonal")
    return joined.group_by("g").agg(
        pl.col(*summed).sum(),
        pl.col("delay_max", "last_ts").max(),
        pl.col("delay_min", "first_ts").min(),
    )


def _quantile(table: pl.DataFrame, share: float, name: str) -> pl.DataFrame:
    """Return per target the length that so great a share is not above; `table` has ms and n."""
    upto = pl.col("n").cum_sum().over("g")
    enough = upto >= (share * pl.col("n").sum().over("g")).ceil()
    ordered = table.sort("g", "ms").filter(enough)
    found = ordered.unique("g", keep="first", maintain_order=True)
    return found.select("g", pl.col("ms").round().cast(pl.Int64).alias(name))
