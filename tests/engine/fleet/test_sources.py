"""Loads: which rows belong to which track."""

from __future__ import annotations

import polars as pl

from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS, Load, TrackList, load_rows
from hpabatch.history.schema import TABLES
from hpabatch.layout.observations import (
    NOT_FETCHED_MS,
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
)
from hpabatch.packing.arena import Arena
from tests.engine.naive_align import Row
from tests.engine.small_history import SHOP, T0, to_frame, usage_row

NUMBERS = pl.DataFrame({"uid": ["uid-web-0", "uid-web-1", "uid-web-2"], "p": [0, 1, 2]})


def frame(table: str, rows: list[Row]) -> pl.DataFrame:
    return to_frame(table, rows).sort(TABLES[table].key)


def loaded(tracks: TrackList, usage: list[Row], **plain: list[Row]) -> Load:
    rows = frame("pod_metrics", usage).select(tracks.usage_columns())
    frames = {table: frame(table, part) for table, part in plain.items()}
    return load_rows(tracks, NUMBERS, rows, frames, Arena())


def times(load: Load, track: int, column: str = "usage_ts_ms") -> list[int]:
    values = getattr(load.rows, column)[load.first_row[track] : load.last_row[track]]
    return [int(ms) - T0 for ms in values]


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


def test_each_pods_rows_are_its_tracks() -> None:
    rows = [usage_row(f"web-{k}", T0 + 10 * k + j, 5) for k in (0, 2) for j in range(3)]
    load = loaded(cpu(), rows)
    assert [times(load, k) for k in range(3)] == [[20, 21, 22], [0, 1, 2], []]
    assert load.strays == {}


def test_rows_of_pods_that_are_not_known_are_counted_and_left_out() -> None:
    rows = [usage_row(name, T0, 5) for name in ("web-0", "a-0", "a-0'", "z-0")]
    load = loaded(cpu(), rows)
    assert sum(load.strays.values()) == 3
    assert [times(load, k) for k in range(3)] == [[], [0], []]


def test_rows_of_one_pod_under_several_names_and_targets_come_together() -> None:
    rows = [
        usage_row("web-0", T0, 1) | {"pod": "a"},
        usage_row("web-1", T0, 9) | {"pod": "b"},
        usage_row("web-0", T0 + 2, 3) | {"target": None},
        usage_row("web-0", T0 + 1, 2) | {"pod": "c"},
        usage_row("x-0", T0, 1),
    ]
    load = loaded(cpu(), rows)
    assert [times(load, k) for k in range(3)] == [[], [0, 1, 2], [0]]
    assert sum(load.strays.values()) == 1
    assert load.rows.cpu_milli.tolist() == [1, 2, 3, 9]


def test_columns_are_empty_where_they_say_nothing() -> None:
    load = loaded(cpu(), [usage_row("web-0", T0, 5)])
    assert {name for name, column in load.rows._asdict().items() if column.size} == {
        "usage_ts_ms",
        "usage_window_ms",
        "cpu_milli",
    }
    rows = [usage_row("web-0", T0, None), usage_row("web-0", T0 + 1, 5, fetched_at=T0 + 7)]
    load = loaded(cpu(), rows)
    assert load.rows.cpu_known.tolist() == [0, 1]
    assert load.rows.usage_fetched_ms.tolist() == [NOT_FETCHED_MS, T0 + 7]


def test_nothing_is_a_load_too() -> None:
    load = loaded(cpu(), [])
    assert load.first_row.tolist() == load.last_row.tolist() == [0, 0, 0]
    assert (
        load_rows(TrackList(), NUMBERS, frame("pod_metrics", []), {}, Arena()).first_row.size == 0
    )


def test_other_metrics_are_found_by_their_whole_key() -> None:
    custom = [
        usage_row(pod, T0 + k, None, fetched_at=T0 + k)
        | {"metric": metric, "selector": selector, "value_milli": 10 * k, "window_ms": None}
        for k, (pod, metric, selector) in enumerate(
            [
                ("web-1", "rps", ""),
                ("web-0", "rps", ""),
                ("web-0", "rps", "queue=a"),
                ("web-0", "hits", ""),
                ("stray-0", "rps", ""),
                ("web-0", "rps", ""),
            ]
        )
    ]
    series = [
        SHOP
        | {"metric": "lag", "selector": selector, "series": name, "ts": T0 + k, "value_milli": k}
        for k, (selector, name) in enumerate([("", "a"), ("", "b"), ("queue=a", "a"), ("", "a")])
    ]
    tracks = cpu()
    tracks.add_plain(("pod_custom_metrics", "rps", "", "0"))
    tracks.add_plain(("pod_custom_metrics", "rps", "", "1"))
    tracks.add_plain(("pod_custom_metrics", "rps", "", "2"))
    tracks.add_plain(("external_metrics", "shop", "lag", "", "a"))
    tracks.add_plain(("external_metrics", "other", "lag", "", "a"))
    # Two streams may look at the same samples.
    tracks.add_plain(("pod_custom_metrics", "rps", "", "0"))
    load = loaded(tracks, [], pod_custom_metrics=custom, external_metrics=series)
    found = [times(load, k, "plain_ts_ms") for k in range(3, 9)]
    assert found == [[1, 5], [0], [], [0, 3], [], [1, 5]]
    first = int(load.first_row[3])
    assert load.rows.plain_milli[first : first + 2].tolist() == [10, 50]
    assert load.rows.plain_window_ms[first] == CUSTOM_WINDOW_MS
    assert load.rows.plain_fetched_ms[first] == T0 + 1
    assert load.strays == {}


def test_pieces_of_a_column_are_joined() -> None:
    rows = [usage_row("web-0", T0 + k, k) for k in range(4)]
    tracks = cpu()
    parts = [frame("pod_metrics", rows[k : k + 1]).select(tracks.usage_columns()) for k in range(4)]
    usage = pl.concat(parts, rechunk=False)
    assert usage["ts"].n_chunks() == 4
    load = load_rows(tracks, NUMBERS, usage, {}, Arena())
    assert times(load, 1) == [0, 1, 2, 3]
    assert load.rows.cpu_milli.tolist() == [0, 1, 2, 3]


def test_both_resources_are_read_where_one_alone_cannot_tell() -> None:
    tracks = cpu()
    rows = frame("pod_metrics", [usage_row("web-0", T0, 5), usage_row("web-0", T0 + 1, None)])
    assert tracks.lack_columns(rows.select(tracks.usage_columns()))
    assert not tracks.lack_columns(rows[:1].select(tracks.usage_columns()))
    assert not tracks.lack_columns(rows)
