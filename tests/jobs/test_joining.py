"""Parquet files joined without reading their rows, against readers that know nothing of it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.errors import UnreadableError
from hpabatch.jobs import thrift
from hpabatch.jobs.joining import join_parquet
from hpabatch.jobs.parquet import write_parquet
from tests.effort import effort
from tests.engine.made import decisions

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "hpa": st.sampled_from(["a", "b", "cart"]),
            "replicas": st.integers(-(2**62), 2**62),
            "ratio": st.none() | st.floats(allow_nan=False),
            "error": st.none() | st.text(max_size=5),
        }
    ),
    max_size=40,
)


@settings(max_examples=effort(40))
@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_the_rows_are_those_of_the_parts(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Any], group: int, index: bool
) -> None:
    folder = tmp_path_factory.mktemp("join")
    frames = [decisions(rows) for rows in parts]
    paths = []
    for k, frame in enumerate(frames):
        paths.append(folder / f"{k}.parquet")
        # Indexes, statistics and small pages: more places to move than our own writer makes.
        pq.write_table(
            frame.to_arrow(), paths[-1], row_group_size=group, write_page_index=index,
            store_schema=False, write_page_checksum=True, data_page_size=64,
        )  # fmt: skip
    joined = folder / "joined.parquet"
    assert join_parquet(paths, {"who": "hpabatch", "why": "ü"}, joined) == sum(map(len, frames))
    whole = pl.concat(frames)
    assert pl.read_parquet(joined).equals(whole)
    assert (
        pl.scan_parquet(joined)
        .filter(pl.col("hpa") == "cart")
        .collect()
        .equals(whole.filter(pl.col("hpa") == "cart"))
    )
    file = pq.ParquetFile(joined, page_checksum_verification=True)
    assert file.metadata.num_rows == whole.height
    assert file.metadata.metadata == {b"who": b"hpabatch", b"why": "ü".encode()}
    assert pl.DataFrame(file.read()).equals(whole)
    for k in range(file.metadata.num_row_groups):
        assert file.metadata.row_group(k).num_rows == file.read_row_group(k).num_rows > 0


def test_row_groups_are_not_held(tmp_path: Path) -> None:
    write_parquet(decisions([{}]), {}, tmp_path / "one")

    def peak(count: int) -> int:
        tracemalloc.start()
        join_parquet((tmp_path / "one" for _ in range(count)), {}, tmp_path / "joined")
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    peak(1)
    assert peak(150) - peak(50) < 100 * 200


def test_parts_without_rows(tmp_path: Path) -> None:
    write_parquet(decisions([]), {}, tmp_path / "empty")
    write_parquet(decisions([{}]), {}, tmp_path / "one")
    for parts, height in ((["empty"], 0), (["empty", "one", "empty"], 1)):
        join_parquet([tmp_path / name for name in parts], {}, tmp_path / "joined")
        assert pl.read_parquet(tmp_path / "joined").height == height
        assert pq.read_metadata(tmp_path / "joined").num_row_groups == height


def test_other_columns_do_not_join(tmp_path: Path) -> None:
    write_parquet(decisions([{}]), {}, tmp_path / "a")
    write_parquet(decisions([{}]).drop("error"), {}, tmp_path / "b")
    with pytest.raises(UnreadableError, match=r"b: its columns are not those of .*a"):
        join_parquet([tmp_path / "a", tmp_path / "b"], {}, tmp_path / "joined")


def broken(data: bytes) -> dict[str, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    return {
        "empty": b"",
        "magic only": b"PAR1",
        "cut short": data[:-5],
        "another magic": data[:-4] + b"PARE",
        "a footer longer than the file": data[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        "no footer": data[:-8] + bytes(4) + b"PAR1",
        "a cut footer": data[:-8] + (length // 2).to_bytes(4, "little") + b"PAR1",
        "zeros": data[: -8 - length] + bytes(length) + data[-8:],
        "ones": data[: -8 - length] + b"\xff" * length + data[-8:],
        "nested without end": data[: -8 - length] + (b"\x1c" * length) + data[-8:],
        "half a footer": data[: -8 - length]
        + footer[: length // 2].ljust(length, b"\0")
        + data[-8:],
    }


@pytest.mark.parametrize("name", broken(b"PAR1" + bytes(20)))
def test_broken_parts(tmp_path: Path, name: str) -> None:
    write_parquet(decisions([{}]), {}, tmp_path / "a")
    (tmp_path / "a").write_bytes(broken((tmp_path / "a").read_bytes())[name])
    with pytest.raises(UnreadableError, match=r"is not a Parquet file|footer cannot be read"):
        join_parquet([tmp_path / "a"], {}, tmp_path / "joined")


@given(st.binary(max_size=200))
def test_no_bytes_are_worse_than_an_error(data: bytes) -> None:
    try:
        fields = thrift.read_struct(data)
    except ValueError:
        return
    again = thrift.read_struct(thrift.write_struct(fields))
    assert repr(again) == repr(fields)  # NaN
