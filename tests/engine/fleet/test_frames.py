"""Columns of frames as arrays: nulls, chunks, runs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.frames import (
    NEVER_MS,
    integers,
    joined_integers,
    milliseconds,
)
from hpabatch.history.checks import run_starts
from hpabatch.packing.arena import Arena

TIME = pl.Datetime("ms", "UTC")
# Texts are compared by their first bytes and where they lie: short ones, long ones, equal starts.
texts = st.sampled_from(["", "a", "b", "twelve bytes", "thirteen byte", "thirteen bytf", "ä" * 20])
numbers = st.none() | st.integers(-5, 5)


def in_chunks(
    parts: list[list[str | None]] | list[list[int | None]], dtype: pl.DataType
) -> pl.Series:
    return pl.concat([pl.Series("x", part, dtype=dtype) for part in parts], rechunk=False)


def naive_starts(values: list[object]) -> list[int]:
    return [k for k in range(len(values)) if k == 0 or values[k] != values[k - 1]]


@given(
    parts=st.lists(st.lists(texts, max_size=5), min_size=1, max_size=4),
    first=st.integers(0, 3),
    length=st.integers(0, 12),
)
def test_runs_of_texts(parts: list[list[str | None]], first: int, length: int) -> None:
    column = in_chunks(parts, pl.String())
    assert run_starts(column.to_frame()).tolist() == naive_starts(column.to_list())
    part = column.slice(first, length)
    assert run_starts(part.to_frame()).tolist() == naive_starts(part.to_list())
    gathered = column.gather(list(range(0, len(column), 2)))
    assert run_starts(gathered.to_frame()).tolist() == naive_starts(gathered.to_list())


@given(st.lists(st.lists(st.none() | texts, max_size=5), min_size=1, max_size=3))
def test_runs_of_texts_with_nulls(parts: list[list[str | None]]) -> None:
    column = in_chunks(parts, pl.String())
    assert run_starts(column.to_frame()).tolist() == naive_starts(column.to_list())


@given(st.lists(st.lists(numbers, max_size=5), min_size=1, max_size=3))
def test_runs_of_numbers(parts: list[list[int | None]]) -> None:
    column = in_chunks(parts, pl.Int64())
    assert run_starts(column.to_frame()).tolist() == naive_starts(column.to_list())


@given(st.lists(st.lists(numbers, max_size=5), min_size=1, max_size=3))
def test_numbers_with_nulls_in_pieces_or_not(parts: list[list[int | None]]) -> None:
    column = in_chunks(parts, pl.Int64())
    expected = [7 if value is None else value for value in column.to_list()]
    arena = Arena()
    for found in (integers(column, 7), joined_integers(column, 7, "x", arena)):
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        assert found.tolist() == expected
    times = column.cast(TIME)
    for found in (milliseconds(times, 7), joined_integers(times, 7, "t", arena)):
        assert found.tolist() == expected


def test_a_time_that_is_not_there_is_never() -> None:
    assert milliseconds(pl.Series([None, 5], dtype=TIME)).tolist() == [NEVER_MS, 5]


@pytest.mark.parametrize("dtype", [pl.Int8(), pl.UInt32(), pl.Int64()])
def test_numbers_of_any_width_become_the_same(dtype: pl.DataType) -> None:
    assert integers(pl.Series([1, 2], dtype=dtype)).tolist() == [1, 2]
