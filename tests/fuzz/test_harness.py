"""The comparison itself: a planted difference is found, told and made small."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import harness
from tests.fuzz.harness import (
    AGREE,
    CASE,
    DIFFER,
    GROUP,
    OURS_FAILED,
    REFERENCE_FAILED,
    Batch,
    compare,
    draw,
    run_batch,
    run_batches,
)
from tests.fuzz.shrink import shrink

Json = dict[str, Any]


def test_batches_are_drawn_again_by_their_name() -> None:
    first, again = (run_batch(Batch(CASE, 3, 1000, 4)) for _ in range(2))
    assert first == again
    assert first.inputs == {CASE: 4}
    assert sum(first.decisions.values()) == 12
    assert first.decisions[CASE, "1.38"] == first.decisions[CASE, "1.36"] == 4


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(harness, "FAILURES", tmp_path)
    return tmp_path


def _planted(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Json], bool], fails: bool = False
) -> None:
    """Let the package's answer be wrong for some inputs."""
    right = harness.ours

    def ours(row: Json, k8s: str) -> list[Any]:
        if not wrong(row):
            return right(row, k8s)
        if fails:
            raise KeyError("planted")
        return [*right(row, k8s), "planted"]

    monkeypatch.setattr(harness, "ours", ours)


def test_a_difference_is_told_with_its_seed_and_written(
    monkeypatch: pytest.MonkeyPatch, failures: Path
) -> None:
    _planted(monkeypatch, lambda row: len(row.get("pods", ())) > 2)
    lines: list[str] = []
    figures = run_batches([Batch(CASE, 5, 0, 40)], 1, lines.append)
    assert tuple(lines) == figures.differences
    assert lines
    assert "differ under 1.38, drawn with SEED=5: calculator number " in lines[0]
    report = json.loads(Path(lines[0].partition(":")[0]).read_text())
    assert len(report["input"]["pods"]) == 3
    assert report["k8s"] == "1.38"
    assert report["way"] == DIFFER
    assert report["hpabatch"] == [*report["reference"], "planted"]
    # A few differences of one batch are enough.
    assert len(lines) < 40
    assert list(failures.iterdir())


def test_a_failure_of_the_package_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, failures: Path
) -> None:
    _planted(monkeypatch, lambda row: True, fails=True)
    row = draw(CASE, random.Random(1))
    assert compare(row, "1.38") == OURS_FAILED
    line = harness.report_difference(row, "1.38", "here")
    report = json.loads(Path(line.partition(":")[0]).read_text())
    assert report["hpabatch"] == "KeyError('planted')"
    assert isinstance(report["reference"], list)


def test_what_the_reference_refuses_is_no_smaller_input() -> None:
    group = draw(GROUP, random.Random(3), 10)
    assert compare(group, "1.38") == AGREE
    gone = group | {"ticks": [{**group["ticks"][0], "delete": ["nobody"]}]}
    assert compare(gone, "1.38") == REFERENCE_FAILED


def test_cases_lose_pods_and_samples() -> None:
    case = {
        "pods": [{"name": "a"}, {"name": "b"}],
        "pod_metrics": {"a": {}, "b": {}},
        "external_values": ["1", "2"],
    }

    def is_failing(row: Json) -> bool:
        return "b" in row["pod_metrics"] and "2" in row["external_values"]

    assert shrink(case, is_failing) == {
        "pods": [],
        "pod_metrics": {"b": {}},
        "external_values": ["2"],
    }
    assert shrink(case, is_failing, attempts=1)["pods"] == [{"name": "b"}]
