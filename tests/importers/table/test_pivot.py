"""Long and wide tables: rows become columns, and columns rows; counters of CPU time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError, RefusedError, UsageError
from hpabatch.importers.table import files
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.map import Unpivot
from tests.importers.tables import (
    BEGIN_S,
    POD_MAP,
    WORKLOAD_MAP,
    import_table,
    merged,
    read_tables,
    run_import,
    write_csv,
    write_map,
)

LONG = merged(
    POD_MAP,
    {
        "pivot": {"name": "metric", "value": "value"},
        "columns": {"cpu": {"column": "cpu_usage"}, "memory": {"column": "mem_rss"}},
    },
)


def long(*rows: tuple[int, str, str, float]) -> pl.DataFrame:
    """Return rows of second, pod, metric and value."""
    names = {"ts": pl.Int64, "pod": pl.String, "metric": pl.String, "value": pl.Float64}
    moved = [(BEGIN_S + second, *rest) for second, *rest in rows]
    frame = pl.DataFrame(moved, schema=names, orient="row")
    return frame.with_columns(app=pl.lit("web"))


def test_rows_of_several_metrics_are_one_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_ROWS", 2)  # cpu and memory are read in different pieces
    wide = [(60 * m, pod, 0.1 * m, 1000.0 * m) for m in range(5) for pod in "ab"]
    rows = [(s, pod, "cpu_usage", cpu) for s, pod, cpu, _ in wide]
    rows += [(s, pod, "mem_rss", memory) for s, pod, _, memory in wide]
    rows += [(s, pod, "fs_reads", 7.0) for s, pod, _, _ in wide]
    data = long(*rows).sample(fraction=1, shuffle=True, seed=1)
    result, tables = run_import(tmp_path, LONG, data)
    assert (result.rows_read, result.rows_excluded, result.duplicates) == (30, 10, 0)
    schema = ["ts", "pod", "cpu", "mem"]
    plain = pl.DataFrame([(BEGIN_S + s, *rest) for s, *rest in wide], schema=schema, orient="row")
    (tmp_path / "wide").mkdir()
    _, expected = run_import(tmp_path / "wide", POD_MAP, plain.with_columns(app=pl.lit("web")))
    for name in ("pod_metrics", "pods", "pod_requests", "scales"):
        assert tables[name].equals(expected[name]), name


def test_the_last_value_of_a_metric_counts_and_requests_may_be_rows(tmp_path: Path) -> None:
    said = merged(LONG, {"limits": None, "requests": {"cpu": {"column": "req", "unit": "cores"}}})
    data = long(
        (0, "a", "cpu_usage", 1), (0, "a", "mem_rss", 5), (0, "a", "cpu_usage", 2),
        (0, "a", "req", 0.5), (60, "a", "cpu_usage", 1), (120, "a", "req", 0.25),
    )  # fmt: skip
    result, tables = run_import(tmp_path, said, data)
    samples = tables["pod_metrics"].sort("ts").select("cpu_milli", "memory_bytes").rows()
    assert samples == [(2000, 5), (1000, None)]
    assert result.duplicates == 1
    assert sorted(tables["pod_requests"]["cpu_milli"]) == [250, 500]


@pytest.mark.parametrize("name", ["rows", "count"])
def test_the_column_of_metrics_may_have_any_name(tmp_path: Path, name: str) -> None:
    said = {**LONG, "pivot": {"name": name, "value": "value"}}
    frame = long((0, "web-0", "cpu_usage", 0.5), (0, "web-0", "mem_rss", 2e6))
    _, tables = run_import(tmp_path, said, frame.rename({"metric": name}))
    assert tables["pod_metrics"].height == 1


def test_replicas_may_be_rows(tmp_path: Path) -> None:
    said = merged(WORKLOAD_MAP, {"pivot": {"name": "what", "value": "v"}})
    lines = [f"{BEGIN_S + 60 * m},web,{what},{v}" for m in range(3)
             for what, v in (("size", 2 + m), ("cpu", 100))]  # fmt: skip
    result, tables = run_import(tmp_path, said, "\n".join(["ts,app,what,v", *lines]))
    assert not result.dropped.get("no replicas, nor did an earlier row of the workload say any")
    assert tables["scales"]["spec_replicas"].to_list() == [2, 3, 4]
    # The row of a change is of the pods that were there before it.
    assert tables["pod_metrics"].group_by("ts").len().sort("ts")["len"].to_list() == [2, 2, 3]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"name": "metric"}, "expected the column with its value"),
        ({"value": "value"}, "expected the column with the metric of a row"),
    ],
)
def test_a_wrong_pivot_is_a_sentence(tmp_path: Path, said: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_map(write_map(tmp_path, {**LONG, "pivot": said}))
    assert told in str(caught.value)


def test_pivot_and_unpivot_exclude_one_another(tmp_path: Path) -> None:
    both = {**LONG, "unpivot": {"keep": "ts", "name": "pod", "value": "cpu"}}
    with pytest.raises(UsageError, match="expected one of pivot and unpivot, got both"):
        read_map(write_map(tmp_path, both))


def test_name_and_value_are_two_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected two columns, got metric twice"):
        read_map(write_map(tmp_path, {**LONG, "pivot": {"name": "metric", "value": "metric"}}))


def test_names_that_are_neither_column_nor_metric_are_refused(tmp_path: Path) -> None:
    source = write_csv(tmp_path, f"ts,app,pod,metric,value\n{BEGIN_S},web,a,cpu_usage,1\n")
    path = write_map(tmp_path, merged(LONG, {"columns": {"cpu": {"column": "cpu_usge"}}}))
    with pytest.raises(HistoryError, match=r"no row has 'cpu_usge' .* did you mean cpu_usage\?"):
        import_table([source], path, tmp_path / "h")
    path = write_map(tmp_path, LONG)
    with pytest.raises(HistoryError) as caught:
        import_table([source], path, tmp_path / "h")
    assert "no row has 'mem_rss' in column 'metric'" in str(caught.value)
    assert not (tmp_path / "h" / "pod_metrics").exists()
    # A name of a row's place is a column, never a metric.
    path = write_map(tmp_path, merged(LONG, {"columns": {"pod": "pot"}}))
    with pytest.raises(HistoryError, match=r"no column 'pot' .*did you mean pod"):
        import_table([source], path, None)


def test_a_long_table_without_rows_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="the input has no rows; nothing is written"):
        run_import(tmp_path, LONG, "ts,pod,app,metric,value\n")


WIDE = {
    "level": "pod",
    "unpivot": {"keep": "ts", "name": "pod", "value": "cpu"},
    "columns": {
        "time": {"column": "ts", "unit": "s"},
        "workload": {"column": "pod", "pattern": "^(.+)-"},
        "pod": "pod",
        "cpu": {"column": "cpu", "unit": "cores"},
    },
}
BAD: list[tuple[Any, str]] = [
    ({"name": "a", "value": "b"}, "unpivot.keep: expected the columns that stay"),
    ({"keep": "ts", "name": "a"}, "expected one of value and pattern, got neither"),
    ({"keep": "ts", "name": "a", "value": "b", "pattern": "(a)(b)"}, "got both"),
    ({"keep": "ts", "name": "a", "pattern": "(a)"}, "expected two groups in (brackets), got 1"),
    ({"keep": [], "name": "a", "value": "b"}, "such as time, got an empty list"),
]


@pytest.mark.parametrize(("said", "told"), BAD)
def test_a_wrong_unpivot_is_a_sentence(tmp_path: Path, said: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_map(write_map(tmp_path, {**WIDE, "unpivot": said}))
    head, _, rest = told.partition(": ")
    assert (rest or head) in str(caught.value)
    assert "unpivot" in str(caught.value)


def test_rows_keep_their_order_and_empty_cells_are_none() -> None:
    frame = pl.DataFrame({"ts": [1, 2], "a": [0.5, None], "b": [1, 2]})
    found = Unpivot(("ts",), "pod", "cpu").apply(frame)
    assert found.rows() == [(1, "a", 0.5), (1, "b", 1.0), (2, "b", 2.0)]


def test_a_pattern_names_the_column_that_gets_the_value() -> None:
    frame = pl.DataFrame({"ts": [1], "web_cpu": [0.5], "web_size": [2], "db_cpu": [7.0], "x": [9]})
    wide = Unpivot(("ts",), "app", pattern="^(.+)_(cpu|size)$")
    assert wide.needed(frame.columns) == ["ts", "web_cpu", "web_size", "db_cpu"]
    assert wide.columns_of(frame.columns) == ["ts", "app", "cpu", "size"]
    assert wide.apply(frame).rows() == [(1, "web", 0.5, 2), (1, "db", 7.0, None)]
    assert wide.apply(frame.select("ts", "x")).is_empty()


def test_many_rows_and_columns_are_read_in_small_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_ROWS", 64)
    names = [f"web-{k}" for k in range(20)]
    lines = [",".join(["ts", *names])]
    lines += [",".join([str(BEGIN_S + 60 * m), *["0.1"] * 20]) for m in range(50)]
    source = write_csv(tmp_path, "\n".join(lines))
    table = read_map(write_map(tmp_path, WIDE))
    pieces = list(files.read_chunks(files.open_file(Path(source), 0, table), table))
    assert max(frame.height for _, frame in pieces) == 60
    assert [first for first, _ in pieces[:3]] == [0, 60, 120]
    result = import_table([source], tmp_path / "map.yaml", None)
    assert result.written["pod_metrics"] == 1000


def test_columns_that_are_missing_or_given_twice_are_named(tmp_path: Path) -> None:
    path = write_map(tmp_path, WIDE)
    for head, told in (("time,web-1", "no column 'ts'"), ("ts,web-1,web-1", "two columns 'web-1'")):
        source = write_csv(tmp_path, f"{head}\n{BEGIN_S},1,1\n"[: len(head) + 14])
        with pytest.raises(HistoryError, match=told):
            import_table([source], path, None)
    measured = merged(WIDE, {"unpivot": {"value": None, "pattern": "^(.+)_(cpu)$"}})
    source = write_csv(tmp_path, f"ts,web-1_mem\n{BEGIN_S},1\n")
    with pytest.raises(HistoryError, match="no column 'cpu'"):
        import_table([source], write_map(tmp_path, measured), None)


def counted(*samples: tuple[int, str, float | None]) -> pl.DataFrame:
    names = {"ts": pl.Int64, "pod": pl.String, "cpu": pl.Float64}
    rows = [(BEGIN_S + second, pod, value) for second, pod, value in samples]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.with_columns(app=pl.lit("web"), mem=pl.lit(1.0))


COUNTER = merged(POD_MAP, {"columns": {"cpu": {"unit": "cpu_seconds"}}})


def test_a_counter_becomes_the_rate_between_samples(tmp_path: Path) -> None:
    data = counted(
        (0, "a", 10), (30, "a", 25), (60, "a", 5), (90, "a", None), (120, "a", 35), (60, "b", 7),
    )  # fmt: skip
    _, tables = run_import(tmp_path, COUNTER, data.sample(fraction=1, shuffle=True, seed=3))
    found = tables["pod_metrics"].sort("pod", "ts")
    # It began again at 0 before 60 s; without a value at 90 s the next rate is over 60 s.
    assert found["cpu_milli"].to_list() == [None, 500, 167, None, 500, None]
    assert found["memory_bytes"].to_list() == [1] * 6


def test_a_counter_of_another_life_begins_anew(tmp_path: Path) -> None:
    data = counted((0, "a", 10), (30, "a", 25), (900, "a", 100), (930, "a", 130))
    said = merged(COUNTER, {"lives": {"gap": "5m"}})
    _, tables = run_import(tmp_path, said, data)
    assert tables["pod_metrics"].sort("ts")["cpu_milli"].to_list() == [None, 500, None, 1000]
    data.write_parquet(tmp_path / "again.parquet")
    import_table([str(tmp_path / "again.parquet")], tmp_path / "map.yaml", tmp_path / "h2")
    assert read_tables(tmp_path / "h2")["pod_metrics"].equals(tables["pod_metrics"])


def test_a_counter_is_a_containers(tmp_path: Path) -> None:
    said = merged(WORKLOAD_MAP, {"columns": {"cpu": {"unit": "cpu_seconds"}}})
    with pytest.raises(UsageError, match="expected one of cores, millicores"):
        read_map(write_map(tmp_path, said))
