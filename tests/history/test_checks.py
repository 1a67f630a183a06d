from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.history.checks import order_rows
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


@pytest.mark.parametrize("height", [0, 1])
def test_less_than_two_rows_are_in_order(height: int) -> None:
    rows = frame("pod_metrics")[:height]
    ordered, dropped = order_rows(rows, TABLES["pod_metrics"])
    assert ordered.equals(rows)
    assert dropped == 0
