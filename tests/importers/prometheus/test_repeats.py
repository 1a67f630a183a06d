"""Tests of repeated values: what says nothing new is left out, whoever said it before."""

from __future__ import annotations

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.common.continued import continued_requests, without_repeats

KEY, VALUES = ["uid"], ["phase"]


def rows(*told: tuple[str, int, str]) -> pl.DataFrame:
    schema = {"uid": pl.String, "ts": pl.Int64, "phase": pl.String}
    return pl.DataFrame(list(told), schema=schema, orient="row")


def stored(*told: tuple[str, int, str]) -> pl.DataFrame:
    return rows(*told).with_columns(pl.col("ts").cast(TIME))


def test_a_repeated_row_is_left_out() -> None:
    told = rows(("a", 1, "x"), ("a", 2, "x"), ("a", 3, "y"), ("b", 4, "y"), ("a", 5, "x"))
    assert without_repeats(told, None, KEY, VALUES)["ts"].to_list() == [1, 3, 4, 5]


def test_the_store_has_said_it_before() -> None:
    before = stored(("a", 1, "z"), ("a", 5, "x"), ("b", 1, "x"), ("a", 99, "y"))
    told = rows(("a", 10, "x"), ("a", 11, "y"), ("b", 10, "y"), ("c", 10, "x"))
    kept = without_repeats(told, before, KEY, VALUES)
    assert kept.rows() == [("a", 11, "y"), ("b", 10, "y"), ("c", 10, "x")]


def test_a_row_that_is_stored_already_is_given_again() -> None:
    told = rows(("a", 10, "x"))
    assert without_repeats(told, stored(("a", 1, "y"), ("a", 10, "x")), KEY, VALUES).equals(told)


def requests(*told: tuple[str, int, int]) -> pl.DataFrame:
    schema = {"uid": pl.String, "valid_from": pl.Int64, "cpu_milli": pl.Int64}
    none = dict.fromkeys(("memory_milli", "cpu_limit_milli", "memory_limit_milli"))
    return pl.DataFrame(list(told), schema=schema, orient="row").with_columns(
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in none),
        kind=pl.lit("app"), container=pl.lit("main"),
    )  # fmt: skip


def test_a_pod_seen_again_after_an_outage_was_not_always_as_it_is_now() -> None:
    before = requests(("a", 100, 500), ("b", 100, 500)).with_columns(
        pl.col("valid_from").cast(TIME)
    )
    seen = pl.DataFrame({"uid": ["a", "b", "c"], "first": [900, 900, 900]})
    found = continued_requests(
        requests(("a", 100, 777), ("b", 100, 500), ("c", 850, 1)), before, seen
    )
    assert found.select("uid", "valid_from", "cpu_milli").rows() == [("a", 900, 777), ("c", 850, 1)]
