"""Tests of the reading of a store's data files."""

from __future__ import annotations

import pytest

from hpabatch.history.store.catalog import FileEntry
from hpabatch.history.store.rows import _ranges


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
