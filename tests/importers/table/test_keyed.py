"""Tests of the numbers that stand for keys, and of groups that are read ahead."""

from __future__ import annotations

import random

import polars as pl
import pytest

from hpabatch.importers.table import keyed
from hpabatch.importers.table import rows as table_rows
from hpabatch.importers.table.keyed import merge, split_names
from hpabatch.importers.table.rows import KEY, key_rank

RANKED = ["a", "b", "c"]


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
    ranked = frame.with_columns(rank=key_rank(frame, RANKED)).sort("rank", "seq")
    assert ranked.drop("rank").equals(frame.sort([*RANKED, "seq"]))
    assert ranked["rank"].n_unique() == frame.select(RANKED).n_unique()


NAMES = ["a", "b"]


def piece(seed: int, count: int, seq: int) -> pl.DataFrame:
    chance = random.Random(seed)
    rows = [
        (chance.choice(("x", "Ä", "")), f"pod-{chance.randrange(12)}", chance.randrange(9), seq + k)
        for k in range(count)
    ]
    kinds = {"a": pl.String, "b": pl.String, "ts": pl.Int64, "seq": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


@pytest.mark.parametrize("largest", [2**63 - 1, 1])
@pytest.mark.parametrize("counts", [(1,), (200,), (50, 1, 80), (50, 0, 80)])
def test_merged_pieces_are_sorted_by_names_and_time(
    counts: tuple[int, ...], largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed, "_LARGEST", largest)  # (1: no number stands for key and time)
    pieces = [piece(k, count, 1000 * k) for k, count in enumerate(counts)]
    found = merge([split_names(part, NAMES) for part in pieces])
    expected = pl.concat(pieces).sort(*NAMES, "ts", "seq")
    assert found.named().drop(KEY).select(expected.columns).equals(expected)
    assert found.keys.equals(expected.select(NAMES).unique().sort(NAMES))
