"""The naive reference against all golden data.

``HPABATCH_GOLDEN`` names the folder with the golden files (default: the committed part).
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .calculator import evaluate_case
from .controller import run_timeline

Json = dict[str, Any]

_COMMITTED = Path(__file__).parents[1] / "conformance" / "golden"
_FOLDER = Path(os.environ.get("HPABATCH_GOLDEN") or _COMMITTED)
_SHOWN = 5


def _golden_files(prefix: str) -> list[Any]:
    """Return the golden files as parameters."""
    paths = sorted(_FOLDER.glob(f"{prefix}*.jsonl*"))
    assert paths, f"no {prefix} files in {_FOLDER}"
    return [pytest.param(path, id=path.name) for path in paths]


def _lines(path: Path) -> Iterator[str]:
    """Read lines one at a time: some files unpack to 78 MB."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from file
    else:
        with path.open(encoding="utf-8") as file:
            yield from file


def _differences(actual: Json, expected: Json) -> list[str]:
    """Compare every field that is expected; rows written by hand may expect fewer."""
    wrong = []
    for key, value in expected.items():
        found = actual[key]
        if key == "conditions":
            words = [set(condition) for condition in value or []]
            found = [
                {word: text for word, text in condition.items() if word in wanted}
                for condition, wanted in zip(found, words, strict=False)
            ] + found[len(words) :]
        if found != value:
            wrong.append(f"{key}: {found!r} != {value!r}")
    return wrong


@pytest.mark.parametrize("k8s", ["1.38", "1.36"])
@pytest.mark.parametrize("path", _golden_files("calculator"))
def test_calculator_agrees_with_golden(path: Path, k8s: str) -> None:
    """Every case, in both profiles; null fields are compared as null."""
    wrong, count = [], 0
    for line in _lines(path):
        case = json.loads(line)
        expected = case["expected"]
        if k8s == "1.36":
            expected = case.get("expected_v1_36") or expected
        found = _differences(evaluate_case(case, k8s), expected)
        wrong += [f"{case['id']}: {text}" for text in found]
        count += 1
    assert count > 0
    assert not wrong, "\n".join(wrong[:_SHOWN])


def _expected_tick(expected: Json, k8s: str) -> Json:
    """Return what a tick must show; the two that the data do not vouch for are left out."""
    visible = {key: value for key, value in expected.items() if key != "impl_defined"}
    unknown_type = "first error is: unknown metric source type" in (
        expected.get("reconcile_error") or ""
    )
    if k8s == "1.36" and unknown_type:
        visible.pop("error_label", None)  # v1_36_identical does not cover it
    return visible


@pytest.mark.parametrize("k8s", ["1.38", "1.36"])
@pytest.mark.parametrize("path", _golden_files("timeline"))
def test_timelines_agree_with_golden(path: Path, k8s: str) -> None:
    """Every tick of the sampled timelines; 1.36 only where it is known to be the same."""
    wrong, count = [], 0
    for line in _lines(path):
        golden = json.loads(line)
        if k8s == "1.36" and not golden["v1_36_identical"]:
            continue
        results = run_timeline(golden, k8s)
        for index, (actual, expected) in enumerate(zip(results, golden["expected"], strict=True)):
            found = _differences(actual, _expected_tick(expected, k8s))
            wrong += [f"{golden['id']} tick {index}: {text}" for text in found]
            count += 1
    if k8s == "1.36" and count == 0:
        pytest.skip("no timeline of the sample is marked v1_36_identical")
    assert count > 0
    assert not wrong, "\n".join(wrong[:_SHOWN])
