"""Wide tables: columns that become rows, and maps that say it wrongly; counters of CPU time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError, UsageError
from hpabatch.importers.table import files
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.unpivot import Unpivot
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
