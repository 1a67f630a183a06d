"""Tests of rows by the number of their key: order and names are those of the strings."""

from __future__ import annotations

import random

import polars as pl
import pytest

from hpabatch.importers.table import keyed
from hpabatch.importers.table.keyed import Keyed, merge, split_names
from hpabatch.importers.table.rows import KEY

NAMES = ["a", "b"]


def drawn(seed: int, count: int, seq: int) -> pl.DataFrame:
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
    pieces = [drawn(k, count, 1000 * k) for k, count in enumerate(counts)]
    found = merge([split_names(piece, NAMES) for piece in pieces])
    expected = pl.concat(pieces).sort(*NAMES, "ts", "seq")
    assert found.named().drop(KEY).select(expected.columns).equals(expected)
    assert found.keys.equals(expected.select(NAMES).unique().sort(NAMES))


def test_merged_twice_is_merged_once() -> None:
    pieces = [split_names(drawn(k, 60, 100 * k), NAMES) for k in range(4)]
    once = merge(pieces)
    twice = merge([merge(pieces[:2]), merge(pieces[2:])])
    assert once.rows.equals(twice.rows)
    assert once.keys.equals(twice.keys)


def test_rows_of_a_piece_keep_their_order() -> None:
    piece = drawn(1, 100, 0)
    found = split_names(piece, NAMES)
    assert isinstance(found, Keyed)
    assert found.named().drop(KEY).select(piece.columns).equals(piece)


def test_no_rows_are_no_keys() -> None:
    found = merge([split_names(drawn(1, 0, 0), NAMES)])
    assert found.rows.is_empty()
    assert found.keys.is_empty()
