"""Upstream's unit tables: rate limits, windows, slots of both lists, pod groups, requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.behavior_rows import decide_row
from tests.conformance.compare import assert_no_differences, differences, file_parameters
from tests.conformance.golden import Json, read_rows


def _expected(row: Json) -> Json:
    """Return what a row expects, pod names sorted."""
    expected: Json = dict(row["expected"])
    for group in {"unready", "missing", "ignored"} & expected.keys():
        expected[group] = sorted(expected[group] or [])
    return expected


@pytest.mark.parametrize("path", file_parameters("behavior"))
def test_behavior_rows(path: Path) -> None:
    wrong, count = [], 0
    for row in read_rows(path):
        actual = decide_row(row)
        wrong += differences(row["id"], "behavior", _expected(row), actual)
        count += 1
    assert_no_differences(wrong, count)
