"""Tests of the numbers that stand for keys: ordered as the strings are, also many of them."""

from __future__ import annotations

import random

import polars as pl
import pytest

from hpabatch.importers.table import rows as table_rows
from hpabatch.importers.table.rows import key_rank

KEY = ["a", "b", "c"]


def drawn(count: int, names: int) -> pl.DataFrame:
    chance = random.Random(1)
    values = {
        "a": [chance.choice(("x", "Ä", "", "z-1", "z-10")) for _ in range(count)],
        "b": [f"pod-{chance.randrange(names)}" for _ in range(count)],
        "c": [chance.choice(("same", "other")) for _ in range(count)],
    }
    return pl.DataFrame(values).with_row_index("seq")


@pytest.mark.parametrize(("count", "names"), [(5_000, 30), (5_000, 5_000), (1, 1), (2, 1)])
@pytest.mark.parametrize("most", [2**62, 100])
def test_the_order_is_that_of_the_strings(
    count: int, names: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "_RANKS", most)  # (a smaller one: ranks are made dense)
    frame = drawn(count, names)
    ranked = frame.with_columns(rank=key_rank(frame, KEY)).sort("rank", "seq")
    assert ranked.drop("rank").equals(frame.sort([*KEY, "seq"]))
    assert ranked["rank"].n_unique() == frame.select(KEY).n_unique()


def test_no_rows_have_no_rank() -> None:
    frame = drawn(3, 3).clear()
    assert key_rank(frame, KEY).to_list() == []
    assert key_rank(drawn(3, 3), []).to_list() == [0, 0, 0]
