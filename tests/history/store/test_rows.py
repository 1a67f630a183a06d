"""Tests of the reading of a store's data files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hpabatch.history.store.catalog import FileEntry
from hpabatch.history.store.rows import DataFiles, _ranges
from hpabatch.history.store.storage import LocalStorage


def file_of(groups: list[int]) -> FileEntry:
    """Return a data file with row groups of so many rows."""
    parts = tuple((rows, 1, 0) for rows in groups)
    return FileEntry(
        "a.parquet", "pod_metrics", "", None, 0, sum(groups), 1, "", (1, ""), parts, ()
    )


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(10, 20)], [(10, 20)]),  # not the whole row group
        ([(10, 20), (60, 70)], [(10, 70)]),  # one range of a row group
        ([(90, 120), (150, 160)], [(90, 160)]),  # neighbouring ones are joined
        ([(10, 20), (350, 360)], [(10, 20), (350, 360)]),  # groups between are not read
        ([(10, 60), (20, 30)], [(10, 60)]),
        ([(0, 390)], [(0, 400)]),  # nearly all: the file as a whole
    ],
)
def test_only_the_wanted_rows_are_read(
    spans: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert _ranges(file_of([100, 100, 100, 100]), spans) == expected


def bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def test_two_ranges_of_a_file_are_read_and_not_all_of_it(tmp_path: Path) -> None:
    noise = np.random.default_rng(7).integers(2**62, size=200_000)
    rows = pl.DataFrame({"cpu_milli": noise, "memory_bytes": noise[::-1]})
    rows.write_parquet(tmp_path / "a.parquet", row_group_size=10_000)
    size = (tmp_path / "a.parquet").stat().st_size
    spans = [(15_000, 15_010), (185_000, 185_010)]
    before = bytes_read()
    file = file_of([10_000] * 20)
    found = DataFiles(LocalStorage(tmp_path))._load(
        [(file, *span) for span in spans], ["cpu_milli"]
    )
    assert bytes_read() - before < size / 4
    for frame, (start, stop) in zip(found, spans, strict=True):
        assert frame.equals(rows.select("cpu_milli")[start:stop])
