"""Tests of what a command may replace: a file of its own kind, and no other."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import UsageError
from hpabatch.history.replaced import check_replaced

TABLE = "time,pod,cpu\n2026-10-26T00:01:00Z,web,4\n"


@pytest.mark.parametrize("kind", ["parquet", "html", "json", "markdown", "sums"])
def test_a_table_of_a_user_is_not_replaced(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "small.csv"
    check_replaced(place, kind)  # (nothing is there)
    place.write_text("")
    check_replaced(place, kind)
    place.write_text(TABLE)
    told = r"^--out .*small\.csv is there already and is no .*; name another file, or remove it$"
    with pytest.raises(UsageError, match=told):
        check_replaced(place, kind, "--out")
    check_replaced(place, "png")


def test_what_the_command_wrote_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "out"
    pl.DataFrame({"a": [1]}).write_parquet(place)
    check_replaced(place, "parquet")
    place.write_text("growth,scope,cluster\n")
    check_replaced(place, "sums")
    place.write_text("x" * 20_000 + "<sub>made by: hpabatch report h</sub>\n")
    check_replaced(place, "markdown")
    with pytest.raises(UsageError, match="is no Parquet file"):
        check_replaced(place, "parquet")
