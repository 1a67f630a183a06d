"""Golden calculator cases, under both versions, int64 extremes included."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.compare import (
    VERSIONS,
    assert_no_differences,
    differences,
    file_parameters,
    selected_rows,
)
from tests.conformance.decide import decide_calculator_case
from tests.conformance.golden import calculator_lane


@pytest.mark.parametrize("path", file_parameters("calculator"))
def test_calculator_cases(path: Path) -> None:
    wrong, count = [], 0
    for case in selected_rows(path):
        lane = calculator_lane(case)  # (test_timeline.py: both versions read alike)
        for k8s in VERSIONS:
            expected = case["expected"]
            if k8s == "1.36":
                expected = case.get("expected_v1_36") or expected
            actual = decide_calculator_case(case, k8s, lane)
            wrong += differences(f"{case['id']} under {k8s}", "calculator", expected, actual)
            count += 1
    assert_no_differences(wrong, count)
