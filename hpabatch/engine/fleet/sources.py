"""Tracks of a shard's streams, and one load of their samples as rows.

A load is the samples of a run of days. Tracks are fixed for a shard; each load says which of its
rows belong to which track.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import polars as pl

from hpabatch.engine.fleet.frames import integers, joined_integers, milliseconds
from hpabatch.errors import HistoryError
from hpabatch.history.checks import run_starts
from hpabatch.history.columns import INT, TIME
from hpabatch.layout.observations import (
    NOT_FETCHED_MS,
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
    TRACK,
    Rows,
    Tracks,
)
from hpabatch.layout.records import I8, I32, I64, canonical, records
from hpabatch.packing.arena import Arena

CUSTOM_WINDOW_MS = 60_000  # metrics/client.go: what a custom metric without a window has
MILLI_PER_BYTE = 1000
RESOURCE_COLUMNS = ("cpu_milli", "memory_bytes")
POD_TABLES = ("pod_metrics", "pod_custom_metrics")
SERIES_TABLES = ("object_metrics", "external_metrics")

Owner = tuple[str, ...]
"""Source of a track's samples: (table, parts of the key), see `TrackList`."""


@dataclass(slots=True)
class TrackList:
    """The tracks of a shard, in the order of lanes, streams and pods.

    `owners` of plain tracks lead to rows by (table, key): a pod's custom metric
    ("pod_custom_metrics", metric, selector, pod number), an object's ("object_metrics", namespace,
    kind, name, metric, selector), a series' ("external_metrics", namespace, metric, selector,
    series). Usage tracks name their pod's number only. `texts` by track: see `TRACK`.
    """

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    pods: list[int] = field(default_factory=list)
    owners: dict[Owner, list[int]] = field(default_factory=dict)
    containers: dict[str, int] = field(default_factory=dict)
    texts: dict[int, int] = field(default_factory=dict)
    asks_usage: bool = False

    def __len__(self) -> int:
        """Return how many tracks there are."""
        return len(self.rows)

    def add_usage(self, pods: Sequence[int], resource: str, container: str) -> None:
        """Add a track per pod for its usage of a resource, of one container or ("") of all."""
        self.asks_usage = True  # even for no pods: rows of unknown pods are to be noticed
        source = {"cpu": SOURCE_CPU, "memory": SOURCE_MEMORY}.get(resource, SOURCE_OTHER)
        factor = MILLI_PER_BYTE if source == SOURCE_MEMORY else 1
        code = self.containers.setdefault(container, len(self.containers)) if container else -1
        self.rows += [(source, code, factor)] * len(pods)
        self.pods += pods

    def add_plain(self, owner: Owner) -> None:
        """Add a track for one owner's samples."""
        self.owners.setdefault(owner, []).append(len(self.rows))
        self.rows.append((SOURCE_PLAIN, -1, 1))
        self.pods.append(-1)

    def usage_columns(self) -> list[str]:
        """Return the columns of `pod_metrics` that the tracks look at: cpu or memory at least."""
        sources = {row[0] for row in self.rows}
        wanted = {
            "container": bool(self.containers),
            "cpu_milli": SOURCE_CPU in sources,
            "memory_bytes": SOURCE_MEMORY in sources,
        }
        wanted["cpu_milli"] |= not wanted["memory_bytes"]
        columns = ["uid", "ts", "window_ms", "fetched_at"]
        return columns + [name for name, is_wanted in wanted.items() if is_wanted]

    def lack_columns(self, usage: pl.DataFrame) -> bool:
        """Say whether rows may withdraw their pods, which takes the columns of both resources."""
        known = [name for name in RESOURCE_COLUMNS if name in usage.columns]
        return len(known) < len(RESOURCE_COLUMNS) and any(usage[name].has_nulls() for name in known)

    def table(self) -> Tracks:
        """Return the TRACK records without any rows or steps."""
        texts = (self.texts.get(k, 0) for k in range(len(self.rows)))
        rows = zip(self.rows, texts, strict=True)
        return records(TRACK, [(*row, 0, 0, 0, 0, 0, 0, text) for row, text in rows])


@dataclass(frozen=True, slots=True)
class Load:
    """Samples of some time: their columns, and per track its rows.

    `strays` are the rows of unknown pods by uid.
    """

    rows: Rows
    first_row: I64
    last_row: I64
    strays: dict[str, int]


def load_rows(
    tracks: TrackList,
    numbers: pl.DataFrame,
    usage: pl.DataFrame,
    plain: dict[str, pl.DataFrame],
    arena: Arena,
) -> Load:
    """Return one load, good until the next one.

    Args:
        tracks: the shard's.
        numbers: uid and number `p` of the shard's pods.
        usage: rows of `pod_metrics`, in the order of its key.
        plain: rows of the other metric tables by name, in the order of their keys.
        arena: where columns go that lie in pieces.
    """
    first, last = np.zeros(len(tracks), np.int64), np.zeros(len(tracks), np.int64)
    pods = np.array(tracks.pods, np.int64)
    usage, pod_first, pod_last, strays = _rows_of_pods(usage, numbers)
    with_pod = pods >= 0
    if pod_first.size:
        first[with_pod], last[with_pod] = pod_first[pods[with_pod]], pod_last[pods[with_pod]]
    parts, offset = [], 0
    for table, frame in plain.items():
        frame = _plain_columns(frame, table, numbers)
        for owner, start, end in _owners(frame, table):
            for track in tracks.owners.get(owner, ()):
                first[track], last[track] = offset + start, offset + end
        parts.append(frame.select("ts", "fetched_at", "window_ms", "value_milli"))
        offset += frame.height
    return Load(_columns(usage, parts, tracks.containers, arena), first, last, strays)


def _rows_of_pods(
    usage: pl.DataFrame, numbers: pl.DataFrame
) -> tuple[pl.DataFrame, I64, I64, dict[str, int]]:
    """Return the rows with each pod's together, where they begin and end, and the strays."""
    count = numbers.height
    starts = run_starts(usage.select("uid"))
    uids = usage["uid"].gather(starts)
    runs = uids.to_frame().join(numbers, on="uid", how="left", maintain_order="left")
    pod = integers(runs["p"], -1)
    ends = np.append(starts, usage.height)[1:]
    known = pod >= 0
    strays: dict[str, int] = {}
    for k in np.flatnonzero(~known).tolist():
        strays[uids[k]] = strays.get(uids[k], 0) + int(ends[k] - starts[k])
    if np.unique(pod[known]).size < known.sum() or _goes_back(usage["ts"], starts):
        # One uid under several names or targets: its rows do not lie together, or not in order.
        numbered = usage.join(numbers, on="uid", how="inner").sort("p", "ts", maintain_order=True)
        bounds = np.searchsorted(integers(numbered["p"]), np.arange(count + 1)).astype(np.int64)
        return numbered.drop("p"), bounds[:-1], bounds[1:], strays
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    first[pod[known]], last[pod[known]] = starts[known], ends[known]
    return usage, first, last, strays


def _goes_back(ts: pl.Series, starts: I64) -> bool:
    """Say whether times fall anywhere but where a run begins."""
    back = (ts < ts.shift(1)).arg_true().to_numpy()
    return bool(back.size) and bool(np.setdiff1d(back, starts, assume_unique=True).size)


def _plain_columns(frame: pl.DataFrame, table: str, numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows sorted by owner and time, with `window_ms`."""
    if table == "pod_custom_metrics":
        frame = frame.join(numbers, on="uid", how="inner", maintain_order="left")
        frame = frame.sort("metric", "selector", "p", "ts", maintain_order=True)
        return frame.with_columns(pl.col("window_ms").fill_null(CUSTOM_WINDOW_MS))
    return frame.with_columns(window_ms=pl.lit(0, dtype=pl.Int64))


OWNER_COLUMNS = {
    "pod_custom_metrics": ("metric", "selector", "p"),
    "object_metrics": ("namespace", "kind", "name", "metric", "selector"),
    "external_metrics": ("namespace", "metric", "selector", "series"),
}
"""The columns of a plain table that name a track's owner."""


def _owners(frame: pl.DataFrame, table: str) -> list[tuple[Owner, int, int]]:
    columns = OWNER_COLUMNS[table]
    if frame.is_empty():
        return []
    starts = run_starts(frame.select(columns))
    ends = np.append(starts, frame.height)[1:]
    keys = frame.select(columns)[starts].rows()
    return [
        ((table, *map(str, key)), start, end)
        for key, start, end in zip(keys, starts.tolist(), ends.tolist(), strict=True)
    ]


def _columns(
    usage: pl.DataFrame,
    parts: Sequence[pl.DataFrame],
    containers: dict[str, int],
    arena: Arena,
) -> Rows:
    plain = pl.concat([_NO_PLAIN, *parts], rechunk=True)
    return Rows(
        usage_ts_ms=joined_integers(usage["ts"], 0, "usage ts", arena),
        usage_fetched_ms=_fetched(usage, arena),
        usage_window_ms=joined_integers(usage["window_ms"], 0, "usage window", arena),
        usage_container=_containers(usage, containers),
        cpu_milli=_amount(usage, "cpu_milli", arena),
        cpu_known=_known(usage, "cpu_milli"),
        memory_bytes=_amount(usage, "memory_bytes", arena),
        memory_known=_known(usage, "memory_bytes"),
        plain_ts_ms=milliseconds(plain["ts"]),
        plain_fetched_ms=_fetched(plain, arena),
        plain_window_ms=integers(plain["window_ms"]),
        plain_milli=integers(plain["value_milli"]),
        plain_known=_known(plain, "value_milli"),
    )


_NO_PLAIN = pl.DataFrame(
    schema={"ts": TIME, "fetched_at": TIME, "window_ms": INT, "value_milli": INT}
)


def _fetched(frame: pl.DataFrame, arena: Arena) -> I64:
    column = frame["fetched_at"]
    if column.null_count() == frame.height:
        return np.zeros(0, np.int64)
    lead = (frame["ts"] - column).max()
    if isinstance(lead, timedelta) and lead > timedelta(days=1):
        raise HistoryError(
            f"a sample was fetched {lead} before it was taken; clocks that differ by more than a "
            "day cannot be aligned: correct ts or fetched_at"
        )
    return joined_integers(column, NOT_FETCHED_MS, f"fetched {frame.width}", arena)


def _amount(frame: pl.DataFrame, name: str, arena: Arena) -> I64:
    """Return a usage column; a column that no track asks for was not read."""
    if name not in frame.columns:
        return np.zeros(0, np.int64)
    return joined_integers(frame[name], 0, name, arena)


def _known(frame: pl.DataFrame, name: str) -> I8:
    if name not in frame.columns or not frame[name].null_count():
        return np.zeros(0, np.int8)
    return canonical(frame[name].is_not_null().to_numpy(), np.int8)


def _containers(frame: pl.DataFrame, containers: dict[str, int]) -> I32:
    if not containers:
        return np.zeros(0, np.int32)
    found = frame["container"].replace_strict(containers, default=-1, return_dtype=pl.Int32)
    return canonical(found.to_numpy(), np.int32)
