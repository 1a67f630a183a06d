"""Loads: which rows belong to which track."""

from __future__ import annotations

import polars as pl

from hpabatch.engine.fleet.sources import TrackList
from hpabatch.history.schema import TABLES
from hpabatch.layout.observations import (
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
)
from tests.engine.naive_align import Row
from tests.engine.small_history import T0, to_frame, usage_row


def frame(table: str, rows: list[Row]) -> pl.DataFrame:
    return to_frame(table, rows).sort(TABLES[table].key)


def cpu() -> TrackList:
    tracks = TrackList()
    tracks.add_usage([2, 0, 1], "cpu", "")
    return tracks


def test_tracks_say_which_columns_they_look_at() -> None:
    tracks = cpu()
    assert tracks.usage_columns() == ["uid", "ts", "window_ms", "fetched_at", "cpu_milli"]
    # Neither resource would hide which rows withdraw a pod.
    other = TrackList()
    other.add_usage([0], "nvidia.com/gpu", "")
    assert other.usage_columns()[-1] == "cpu_milli"
    memory = TrackList()
    memory.add_usage([0], "memory", "")
    assert memory.usage_columns()[-1] == "memory_bytes"
    tracks.add_usage([0], "memory", "app")
    tracks.add_usage([0], "memory", "proxy")
    tracks.add_usage([0], "nvidia.com/gpu", "app")
    tracks.add_plain(("external_metrics", "shop", "lag", "", "a"))
    assert set(tracks.usage_columns()) >= {"container", "memory_bytes"}
    table = tracks.table()
    assert table.source.tolist() == [
        *[SOURCE_CPU] * 3,
        *[SOURCE_MEMORY] * 2,
        SOURCE_OTHER,
        SOURCE_PLAIN,
    ]
    assert table.container.tolist() == [-1, -1, -1, 0, 1, 0, -1]
    assert table.factor.tolist() == [1, 1, 1, 1000, 1000, 1, 1]
    assert len(tracks) == 7


def test_both_resources_are_read_where_one_alone_cannot_tell() -> None:
    tracks = cpu()
    rows = frame("pod_metrics", [usage_row("web-0", T0, 5), usage_row("web-0", T0 + 1, None)])
    assert tracks.lack_columns(rows.select(tracks.usage_columns()))
    assert not tracks.lack_columns(rows[:1].select(tracks.usage_columns()))
    assert not tracks.lack_columns(rows)
