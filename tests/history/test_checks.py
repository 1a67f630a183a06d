from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import HistoryError
from hpabatch.history.checks import conform, order_rows, run_starts
from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from tests.history.frames import frame, minute

Row = tuple[str | None, str, int, str]


def _frame(rows: list[Row]) -> pl.DataFrame:
    base = frame("pod_metrics").row(0, named=True)
    full: list[dict[str, Any]] = [
        base
        | {"target": target, "pod": pod, "ts": minute(ts), "container": container, "cpu_milli": i}
        for i, (target, pod, ts, container) in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=TABLES["pod_metrics"].schema)


def _naive(rows: list[Row]) -> list[int]:
    """Return which rows are left, in order: the last of each key, nulls first."""
    last = {row: i for i, row in enumerate(rows)}
    order = sorted(last, key=lambda r: (r[0] is not None, r[0] or "", *r[1:]))
    return [last[row] for row in order]


ROW = st.tuples(
    st.sampled_from([None, "", "a"]),
    st.sampled_from(["p", "q"]),
    st.integers(0, 2),
    st.sampled_from(["app", "envoy"]),
)


@given(rows=st.lists(ROW, min_size=1, max_size=7), presort=st.booleans())
def test_order_is_that_of_a_naive_sort(rows: list[Row], presort: bool) -> None:
    if presort:
        rows = sorted(rows, key=lambda r: (r[0] is not None, r[0] or "", *r[1:]))
    ordered, dropped = order_rows(_frame(rows), TABLES["pod_metrics"])
    assert ordered["cpu_milli"].to_list() == _naive(rows)
    assert dropped == len(rows) - ordered.height


# Texts are first compared by where they lie: short ones in the view, longer ones in a buffer.
TEXT = st.sampled_from(["", "a", "b", "twelve bytes", "thirteen byte", "thirteen bytf", "ä" * 20])
CELLS = st.tuples(TEXT, TEXT, st.none() | TEXT, st.none() | st.integers(-5, 5))
CELL_TYPES = {"one": pl.String(), "two": pl.String(), "bare": pl.String(), "number": pl.Int64()}


@given(
    pool=st.tuples(CELLS, CELLS),
    chunks=st.lists(st.lists(st.integers(0, 1), max_size=6), min_size=1, max_size=4),
    cut=st.integers(0, 3),
)
def test_runs_begin_where_neighbours_differ(
    pool: tuple[tuple[object, ...], ...], chunks: list[list[int]], cut: int
) -> None:
    numbered = [
        pl.DataFrame([(*pool[k], c) for k in chunk], CELL_TYPES | {"c": pl.Int64()}, orient="row")
        for c, chunk in enumerate(chunks)
    ]
    whole = pl.concat(numbered, rechunk=False)
    some = whole.lazy().filter(pl.col("c") != cut).collect()  # (empty chunks stay)
    for rows in (whole, whole.slice(cut), some):
        for names in (["one"], ["two", "one"], ["bare"], ["number"], list(CELL_TYPES)):
            found, values = run_starts(rows.select(names)).tolist(), rows.select(names).rows()
            assert found == [k for k, row in enumerate(values) if k == 0 or row != values[k - 1]]


@pytest.mark.parametrize(
    ("table", "column", "bound"),
    [
        ("pods", "gone", "created"),
        ("pods", "deletion_requested", "created"),
        ("provenance", "valid_to", "valid_from"),
    ],
)
def test_a_time_before_the_one_it_must_follow(table: str, column: str, bound: str) -> None:
    rows, spec = frame(table)[:1], TABLES[table]
    same = rows.with_columns(pl.col(bound).alias(column))
    assert conform(same, spec, "x").height == 1
    early = same.with_columns(pl.col(column) - timedelta(milliseconds=1))
    with pytest.raises(HistoryError, match=f"x: column {column}: a time before {bound} in 1 row"):
        conform(early, spec, "x")
    unknown = same.with_columns(pl.lit(None, dtype=TIME).alias(column))
    assert conform(unknown, spec, "x").height == 1


def test_every_pair_of_times_of_a_row_is_thought_of() -> None:
    """A new time column either follows another one or stands here."""
    free = {
        # A pod that ran before the recording began has `created` from its begin.
        ("pods", "started"),
        # Clocks of nodes, of metric servers and of the API server differ.
        *((name, "fetched_at") for name in TABLES if name.endswith("_metrics")),
        ("pod_states", "last_transition"),
        ("hpa_status", "last_scale_time"),
        # `check_validity` looks at the specs of an HPA together.
        *(("hpas", name) for name in ("valid_to", "created")),
    }
    for spec in TABLES.values():
        times = [c for c in spec.columns if c.dtype == TIME]
        for column in times[1:]:
            assert bool(column.not_before) != ((spec.name, column.name) in free), column.name
