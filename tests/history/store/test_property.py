"""However rows are split into parts, files and row groups, a store reads like the flat layout."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.history import flat
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store import append as store
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.upkeep import compact
from hpabatch.history.store.writer import Limits
from tests.effort import effort
from tests.history.frames import frame, limited, minute

# Texts of the key that recur, sort differently as bytes than as letters, and one that is null.
NAMES: dict[str, list[Any]] = {
    "cluster": ["a", "b/ü"],
    "namespace": ["", "n", "é"],
    "target": [None, "", "t", "tt"],
    "uid": ["u", "v"],
    "pod": ["p", "q"],
    "name": ["a", "b"],
    "metric_index": [0, 1],
    "container": ["app", "envoy"],
    "target_kind": ["Deployment", "StatefulSet"],
}
TIMES = [minute(number) for number in (0, 1, 600, 1439, 1440, 2000, 2880)]
TRIED = ("pod_metrics", "pods", "scales", "metric_fetches", "controller")

Rows = list[dict[str, Any]]


@st.composite
def _parts(draw: st.DrawFn, table: str) -> list[Rows]:
    """Return the rows of several parts; keys recur, so that later rows replace earlier ones."""
    spec = TABLES[table]
    base = frame(table).row(0, named=True)
    cells: dict[str, st.SearchStrategy[Any]] = {}
    for name in spec.key:
        if name in NAMES and name in base | {"target": None}:
            choices = [n for n in NAMES[name] if n is not None or spec.column(name).holds_nulls]
            cells[name] = st.sampled_from(choices)
        elif name == "ts":
            cells[name] = st.sampled_from(TIMES)
    if "fetched_at" in spec.names:
        cells["fetched_at"] = st.none() | st.sampled_from(TIMES)
    rows = st.lists(st.fixed_dictionaries(cells), max_size=12)
    parts = draw(st.lists(rows, min_size=1, max_size=4))
    number = 0
    for part in parts:
        for row in part:
            number += 1
            row |= {n: v for n, v in base.items() if n not in row}
            _stamp(row, table, number)
    return parts


def _stamp(row: dict[str, Any], table: str, number: int) -> None:
    """Write a number into a column that is not of the key, to see which row was kept."""
    columns = {"pods": "node", "controller": "version", "metric_fetches": "error"}
    numbers = {"pod_metrics": "cpu_milli", "scales": "spec_replicas"}
    if table in numbers:
        row[numbers[table]] = number
    else:
        row[columns[table]] = str(number)


def _frame(rows: Rows, table: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLES[table].schema)


def _naive(parts: list[Rows], table: str) -> pl.DataFrame:
    """Return the last row of each key, sorted; slow and obvious."""
    spec = TABLES[table]
    full = _frame([row for part in parts for row in part], table)
    full = full.with_columns(
        pl.col(c.name).fill_null(c.fill) for c in spec.columns if c.fill is not None
    )
    last = {tuple(row[name] for name in spec.key): row for row in full.rows(named=True)}
    order = sorted(last, key=lambda key: [(v is not None, v or _low(v)) for v in key])
    return pl.DataFrame([last[key] for key in order], schema=spec.schema)


def _low(value: Any) -> Any:
    return "" if value is None or isinstance(value, str) else value


def _assert_same(history: History, expected: pl.DataFrame, table: str) -> None:
    spec = TABLES[table]
    if expected.is_empty():
        assert history.read(table, optional=True).is_empty()
        return
    assert_frame_equal(history.read(table), expected)
    few = [spec.names[-1], spec.key[-1], spec.names[0]]
    assert_frame_equal(history.read(table, few), expected.select(n for n in spec.names if n in few))
    assert_frame_equal(
        history.distinct(table, few),
        expected.select(n for n in spec.names if n in few).unique().sort(pl.all()),
    )
    _assert_selections(history, expected, table)
    _assert_sizes(history, expected, table)
    _assert_spans(history, expected, table)


def _assert_selections(history: History, expected: pl.DataFrame, table: str) -> None:
    spec = TABLES[table]
    clusters = expected["cluster"].unique().to_list()
    first, second = date(2026, 10, 7), date(2026, 10, 8)
    runs = [(None, None), (first, None), (second, None), (first, first), (first, second)]
    for cluster in clusters:
        rows = expected.filter(pl.col("cluster") == cluster)
        places = [("n", "t"), ("", ""), ("é", None), ("n", "a"), ("no", "such")]
        for chosen in (places[:1], places, [("", None), ("n", "tt")]):
            for day, last in runs:
                found = history.select(
                    table, cluster, chosen, day=day, last=last, columns=spec.names[2:]
                )
                wanted = rows
                if spec.place:
                    wanted = wanted.filter(
                        pl.struct("namespace", spec.place).is_in(
                            [{"namespace": n, spec.place: p} for n, p in chosen], nulls_equal=True
                        )
                    )
                if spec.day and day is not None:
                    wanted = wanted.filter(pl.col(spec.day).dt.date().is_between(day, last or day))
                assert_frame_equal(found, wanted.select(spec.names[2:]))


def _assert_sizes(history: History, expected: pl.DataFrame, table: str) -> None:
    spec = TABLES[table]
    sizes = history.sizes(table)
    assert sizes.columns == ["cluster", "namespace", "place", "day", "rows"]
    day = pl.col(spec.day).dt.date() if spec.day else pl.lit(None, dtype=pl.Date())
    none = pl.lit(None, dtype=pl.String())
    exact = (
        expected.select(
            "cluster",
            namespace="namespace" if spec.place else none,
            place=spec.place or none,
            day=day,
        )
        .group_by("cluster", "namespace", "place", "day")
        .len()
        .sort("cluster", "namespace", "place", "day")
    )
    assert_frame_equal(sizes.drop("rows"), exact.drop("len"))
    assert (sizes["rows"] >= exact["len"]).all()
    unique = {"cluster", *(["namespace", spec.place] if spec.place else [])}
    names = [n for n in spec.names if n in unique]
    assert_frame_equal(
        history.distinct(table, names), expected.select(names).unique().sort(pl.all())
    )


def _assert_spans(history: History, expected: pl.DataFrame, table: str) -> None:
    spec = TABLES[table]
    span = history.span(table)
    assert span["cluster"].to_list() == expected["cluster"].unique().sort().to_list()
    for row in span.rows(named=True):
        rows = expected.filter(pl.col("cluster") == row["cluster"])
        if not spec.day:
            assert list(row.values())[1:] == [None] * 4
            continue
        if "fetched_at" in spec.names:
            fetched = rows["fetched_at"].drop_nulls()
            rows = rows.filter(pl.col("fetched_at").is_null())
            if len(fetched):
                assert row["fetched_first"] <= fetched.min()
                assert row["fetched_last"] >= fetched.max()
        else:
            assert row["fetched_first"] is None
        if rows.height:
            assert row["unfetched_first"] <= rows[spec.day].min()
            assert row["unfetched_last"] >= rows[spec.day].max()


LIMITS = st.builds(Limits, st.integers(1, 5), st.integers(1, 7), st.integers(1, 9))


@pytest.mark.parametrize("table", TRIED)
@given(data=st.data())
@settings(max_examples=effort(6))
def test_a_store_reads_like_the_last_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, table: str, data: st.DataObject
) -> None:
    parts = data.draw(_parts(table))
    folder = tmp_path_factory.mktemp("store")
    compactions = data.draw(st.sets(st.integers(0, len(parts))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "BUFFER_ROWS", data.draw(st.integers(1, 30)))
        for number, part in enumerate(parts):
            writer = open_writer(folder)
            with limited(data.draw(LIMITS)), writer.part(f"part {number}") as adding:
                cut = data.draw(st.integers(0, len(part)))
                adding.add(table, _frame(part[:cut], table))
                adding.add(table, _frame(part[cut:], table))
            if number in compactions:
                with limited(data.draw(LIMITS)):
                    compact(folder)
    if not any(parts):
        return
    expected = _naive(parts, table)
    _assert_same(open_history(folder), expected, table)
    if len(parts) in compactions:
        with limited(data.draw(LIMITS)):
            compact(folder)
        history = open_history(folder)
        _assert_same(history, expected, table)
        assert history.sizes(table)["rows"].sum() == expected.height


@pytest.mark.parametrize("table", TRIED)
@pytest.mark.parametrize("keep", [0, 1 << 28])
@given(data=st.data())
@settings(max_examples=effort(4))
def test_a_flat_history_reads_like_the_last_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, table: str, keep: int, data: st.DataObject
) -> None:
    parts = data.draw(_parts(table))
    folder = tmp_path_factory.mktemp("flat")
    (folder / table).mkdir()
    for number, part in enumerate(parts):
        rows = _frame(part, table)
        if data.draw(st.booleans()):  # (places' rows then lie together)
            rows = rows.sort(TABLES[table].key, maintain_order=True)
        rows.write_parquet(folder / table / f"{number}.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "KEEP_BYTES", keep)
        patch.setattr(flat, "_PIECE_ROWS", data.draw(st.integers(1, 30)))
        _assert_same(open_history(folder), _naive(parts, table), table)


@given(data=st.data())
@settings(max_examples=effort(4))
def test_after_compaction_the_files_depend_on_the_rows_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    table = "pod_metrics"
    rows = [row for part in data.draw(_parts(table)) for row in part]
    files = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("store")
        shuffled = data.draw(st.permutations(_naive([rows], table).rows(named=True)))
        size = data.draw(st.integers(1, 12))
        for start in range(0, len(shuffled), size):
            with open_writer(folder).part() as adding:
                adding.add(table, _frame(shuffled[start : start + size], table))
        open_writer(folder)
        compact(folder, grace_s=0)
        files.append(_contents(folder))
    assert files[0] == files[1]


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")
    }
