"""Histories as a site can tell them: functions from tables to tables (times Int64 ms)."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import polars as pl

from tests.real.openmetrics_cadvisor import CONTAINER, counters
from tests.real.openmetrics_pods import label_name
from tests.real.openmetrics_site import FOREVER, Ints, Site, Tables

_POD: Final = ["cluster", "uid"]
LONGEST_WINDOW_MS: Final = 300_000
"""A difference over more than this gives no cpu."""


def quantized(
    tables: Tables,
    site: Site,
) -> Tables:
    """Return the tables as the server of a site tells them.

    * Changes of states, scales, requests and specs are at the first scrape that shows them; what
      no scrape shows is not there. Created and started are whole seconds.
    * A usage sample's window is the time since the one before, its cpu_milli the mean over it,
      rounded up; a counter's first sample gives none.
    * Not told, and null: selectors, a sample's fetched_at. Containers are numbered by name within
      their kind.
    * Kept, though not told: behavior and all else of an HPA's spec, its uid, the pods' target.

    Args:
        tables: the source, which the site exports (see `expose`).
        site: placed or not.
    """
    grid = site.placed(tables).instants()
    told = {name: frame for name, frame in tables.items() if name != "controller"}
    told["pods"] = pods = _pods(tables["pods"], grid)
    visible = pods.select(*_POD)
    told["pod_metrics"] = _usage(counters(tables, site), tables).join(
        visible, on=_POD, how="semi", maintain_order="left"
    )
    if "pod_states" in tables:
        told["pod_states"] = _states(tables["pod_states"], pods, grid)
    if "pod_requests" in tables:
        told["pod_requests"] = _requests(tables["pod_requests"], pods, grid)
    if "scales" in tables:
        keys = ["cluster", "namespace", "target_kind", "target"]
        scales = tables["scales"].with_columns(selector=pl.lit(None, pl.String))
        told["scales"] = _changes(scales, keys, "ts", grid, ["spec_replicas", "status_replicas"])
    if "hpas" in tables:
        told["hpas"] = _specs(tables["hpas"], grid)
    told.pop("hpa_status", None)
    return told


def next_scrape(times: pl.Series, grid: Ints) -> pl.Series:
    """Return the first scrape at or after each time; null: there is none, or no time."""
    padded = np.append(grid, FOREVER)
    found = padded[np.searchsorted(grid, times.fill_null(FOREVER).to_numpy(), "left")]
    return pl.Series(times.name, found).replace(FOREVER, None)


def _at_scrape(column: str, grid: Ints) -> pl.Expr:
    return pl.col(column).map_batches(lambda s: next_scrape(s, grid), return_dtype=pl.Int64)


def _changes(
    frame: pl.DataFrame, keys: list[str], since: str, grid: Ints, values: list[str]
) -> pl.DataFrame:
    """Return the rows that scrapes show: the last one before each, where it differs."""
    rows = frame.with_columns(_at_scrape(since, grid)).filter(pl.col(since).is_not_null())
    rows = rows.unique([*keys, since], keep="last", maintain_order=True).sort(*keys, since)
    same = pl.struct(values).eq_missing(pl.struct(values).shift(1).over(keys))
    first = pl.struct(keys).is_first_distinct()
    return rows.filter(first | ~same)


def _pods(pods: pl.DataFrame, grid: Ints) -> pl.DataFrame:
    """Return the pods that a scrape showed."""
    gone = next_scrape(pods["gone"], grid)
    # the last scrape that showed it: the one before it was missing
    places = np.searchsorted(grid, pods["gone"].fill_null(FOREVER).to_numpy(), "left")
    last = np.append(grid, -1)[places - 1]
    seen = pl.Series(np.where(places > 0, last, -1))
    asked = next_scrape(pods["deletion_requested"], grid)
    labels = [_told_labels(text) for text in pods["labels"]]
    told = pods.with_columns(
        created=pl.col("created") // 1000 * 1000,
        started=pl.when(pl.col("started") <= seen).then(pl.col("started") // 1000 * 1000),
        gone=gone,
        deletion_requested=pl.when(asked <= seen).then(asked),
        labels=pl.Series(labels, dtype=pl.String),
        node=pl.when(pl.col("started") <= seen).then("node"),
    )
    return told.filter(next_scrape(pods["created"], grid) <= seen)


def _told_labels(text: str) -> str:
    """An import knows the hash of a template by its exported name, other labels keep theirs."""
    told = {
        key if key == "pod-template-hash" else label_name(key).removeprefix("label_"): value
        for key, value in json.loads(text).items()
    }
    return json.dumps(dict(sorted(told.items())), separators=(",", ":"))


def _usage(samples: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return rows of pod_metrics: the differences of neighbouring samples of a counter."""
    run = CONTAINER
    gap = (pl.col("ts") - pl.col("ts").shift(1)).over(run)
    rise = (pl.col("total_us") - pl.col("total_us").shift(1)).over(run)
    rows = samples.with_columns(gap=gap, rise=rise)
    rows = rows.with_columns(known=(pl.col("gap") <= LONGEST_WINDOW_MS).fill_null(False))
    owner = tables["pods"].select(*_POD, "target")
    rows = rows.with_columns(
        window_ms=pl.when("known").then("gap"),
        cpu_milli=pl.when("known").then(-(-pl.col("rise") // pl.col("gap"))),
        fetched_at=pl.lit(None, pl.Int64),
    )
    rows = rows.filter(pl.col("known") | pl.col("memory_bytes").is_not_null())
    rows = rows.join(owner, on=_POD, how="left", maintain_order="left")
    return rows.select(tables["pod_metrics"].columns)


def _states(states: pl.DataFrame, pods: pl.DataFrame, grid: Ints) -> pl.DataFrame:
    lives = pods.select(*_POD, "gone", begun=pl.coalesce("started", "created"))
    rows = states.with_columns(_at_scrape("ts", grid)).filter(pl.col("ts").is_not_null())
    rows = rows.join(lives, on=_POD, how="inner", maintain_order="left")
    rows = rows.filter(pl.col("ts") < pl.col("gone").fill_null(FOREVER))
    rows = rows.unique([*_POD, "ts"], keep="last", maintain_order=True).sort(*_POD, "ts")
    told = pl.when(pl.col("ready") == "True").then(pl.col("last_transition") // 1000 * 1000)
    turned = ~pl.col("ready").eq_missing(pl.col("ready").shift(1).over(_POD))
    first = pl.struct(_POD).is_first_distinct()
    rows = rows.with_columns(told=told, turned=turned | first, first=first)
    since = pl.coalesce(pl.when("first").then("begun"), "ts")
    since = pl.when("turned").then(since).forward_fill().over(_POD)
    rows = rows.with_columns(
        last_transition=pl.when(pl.col("ready").is_not_null()).then(pl.coalesce("told", since))
    )
    values = pl.struct("phase", "ready", "last_transition")
    same = values.eq_missing(values.shift(1).over(_POD)) & ~pl.col("first")
    return rows.filter(~same).select(states.columns)


def _requests(requests: pl.DataFrame, pods: pl.DataFrame, grid: Ints) -> pl.DataFrame:
    lives = pods.select(*_POD, "created", "gone", born=next_scrape(pods["created"], grid))
    rows = requests.filter(pl.col("kind") != "pod")
    rows = rows.with_columns(_at_scrape("valid_from", grid)).filter(
        pl.col("valid_from").is_not_null()
    )
    rows = rows.join(lives, on=_POD, how="inner", maintain_order="left")
    rows = rows.filter(pl.col("valid_from") < pl.col("gone").fill_null(FOREVER))
    rows = rows.with_columns(
        valid_from=pl.when(pl.col("valid_from") <= pl.col("born"))
        .then("created")
        .otherwise("valid_from"),
        index=pl.col("container").rank("dense").over(*_POD, "kind").cast(pl.Int64) - 1,
    )
    keys = [*_POD, "kind", "container"]
    rows = rows.unique([*keys, "valid_from"], keep="last", maintain_order=True)
    rows = rows.sort(*keys, "valid_from")
    values = pl.struct("cpu_milli", "memory_milli", "cpu_limit_milli", "memory_limit_milli")
    same = values.eq_missing(values.shift(1).over(keys)) & ~pl.struct(keys).is_first_distinct()
    return rows.filter(~same).select(requests.columns)


def _specs(hpas: pl.DataFrame, grid: Ints) -> pl.DataFrame:
    """Return the specs that a scrape showed."""
    rows = hpas.with_columns(_at_scrape("valid_from", grid), _at_scrape("valid_to", grid))
    end = pl.col("valid_to").fill_null(FOREVER)
    return rows.filter(pl.col("valid_from") < end)


# ---- odd histories


def jittered(
    tables: Tables, spread_ms: int, noise_ms: int, seed: int = 1, *, by_pod: bool = False
) -> Tables:
    """Return the tables with every container's samples at times of their own.

    Args:
        tables: a source.
        spread_ms: each container is off by a constant of up to this much.
        noise_ms: and each of its samples by up to this much more; less than half a window.
        seed: of both.
        by_pod: all containers of a pod are looked at together.
    """
    thing = ["cluster", "uid"] if by_pod else CONTAINER
    rows = tables["pod_metrics"].sort(*thing, "ts", "container")
    numbers = np.random.default_rng(seed)
    first = rows.select(pl.struct(thing).rle_id()).to_series().to_numpy()
    offsets = numbers.integers(0, spread_ms + 1, int(first.max()) + 1 if len(first) else 0)
    look = rows.select(pl.struct(*thing, "ts").rle_id()).to_series().to_numpy()
    noise = numbers.integers(0, noise_ms + 1, int(look.max()) + 1 if len(look) else 0)
    moved = rows["ts"] + pl.Series(offsets[first]) + pl.Series(noise[look])
    return tables | {"pod_metrics": rows.with_columns(moved.alias("ts"))}


def both(*sources: Tables) -> Tables:
    """Return the rows of several sources, of different clusters or namespaces, as of one."""
    names = list(dict.fromkeys(name for source in sources for name in source))
    return {name: pl.concat([s[name] for s in sources if name in s]) for name in names}
