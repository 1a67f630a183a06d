"""The naive reference agrees with all golden data, and its generators are deterministic.

``HPABATCH_GOLDEN`` names the folder with the golden files (default: the committed part).
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import gomath, quantity
from .calculator import evaluate_case
from .controller import run_behavior_row, run_timeline
from .generate import behavior_timeline, calculator_case, timeline
from .selector import selector_error
from .times import format_time, parse_time

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


@pytest.mark.parametrize("path", _golden_files("behavior"))
def test_behavior_rows_agree_with_golden(path: Path) -> None:
    """Every row; events and recommendations in slot order, pod names in any order."""
    wrong, count = [], 0
    for line in _lines(path):
        row = json.loads(line)
        expected = dict(row["expected"])
        for key in {"unready", "missing", "ignored"} & expected.keys():
            expected[key] = sorted(expected[key] or [])
        actual = run_behavior_row(row)
        if actual != expected:
            wrong.append(f"{row['id']}: {actual} != {expected}")
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


@pytest.mark.parametrize(
    "generate",
    [
        pytest.param(lambda rng: [calculator_case(rng) for _ in range(50)], id="calculator_case"),
        pytest.param(lambda rng: timeline(rng, 40), id="timeline"),
        pytest.param(lambda rng: timeline(rng, 40, extended=True), id="extended_timeline"),
        pytest.param(lambda rng: behavior_timeline(rng, 80), id="behavior_timeline"),
    ],
)
def test_generators_are_deterministic(generate: Callable[[random.Random], object]) -> None:
    """The same seed gives the same JSON, another seed another one."""
    first, again, other = (json.dumps(generate(random.Random(seed))) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_generated_input_survives_json() -> None:
    """Evaluation depends on the JSON form alone, and does not change its input."""
    rng = random.Random(11)
    for draw in (timeline, behavior_timeline):
        drawn = draw(rng, 60)
        text = json.dumps(drawn)
        results = run_timeline(drawn)
        assert len(results) == 60
        assert json.dumps(drawn) == text
        assert run_timeline(json.loads(text)) == results


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("1n", 1),
        ("-1n", -1),
        ("1500u", 2),
        ("-1500u", -2),
        ("-0.0001Ki", -101),
        ("1.5Ki", 1_536_000),
        ("8Ei", -1000),
        ("9223372036854775807", -1000),
        ("1e18", 0),
        ("1E", 0),
        ("1000P", 0),
        ("1e15", 10**18),
        ("9007199254740993", 9007199254740993000),
        ("9223372036854775807m", 2**63 - 1),
    ],
)
def test_milli_value(text: str, milli: int) -> None:
    """Rounding away from zero, and the overflows of both internal forms."""
    assert quantity.milli(text) == milli


@pytest.mark.parametrize("text", ["", "m", ".", "1 ", "1K", "1.2.3", "--1", "1ki", "e3"])
def test_what_is_not_a_quantity(text: str) -> None:
    """Strings that ParseQuantity rejects."""
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse(text)


def test_approximate_float_is_one_multiplication() -> None:
    """``0.3`` is 3 * 1e-1, which is not the float 0.3; ``300m`` is."""
    assert quantity.approx_float("0.3") == 0.30000000000000004
    assert quantity.approx_float("300m") == 0.3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("app=web", None),
        ("a,!b,c in (x,y),d notin (,),e!=f,g>1", None),
        ("", None),
        ("k=", None),
        ("in in (in)", None),
        ("app=web,!", "unable to parse requirement: found '', expected: identifier"),
        (
            "cheddar cheese in (a",
            "unable to parse requirement: found 'cheese', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("!k=v", "found '=', expected: ',' or 'end of string'"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ],
)
def test_selector_grammar(text: str, error: str | None) -> None:
    """Selector strings and upstream's parse errors."""
    assert selector_error(text) == error


def test_go_arithmetic() -> None:
    """Truncation, wrapping, and the amd64 results of impossible conversions."""
    assert gomath.trunc_div(-7, 2) == -3
    assert gomath.trunc_div(gomath.MIN_INT64, -1) == gomath.MIN_INT64
    assert gomath.wrap32(2**31) == gomath.MIN_INT32
    assert gomath.ceil_to_int32(float("nan")) == gomath.MIN_INT32
    assert gomath.ceil_to_int32(2147483646.5) == gomath.MAX_INT32
    assert gomath.ceil_to_int64(float("inf")) == gomath.MIN_INT64
    assert gomath.float_div(-1.0, 0.0) == float("-inf")


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00Z", "2026-03-21T17:19:29.389Z", "2026-03-21T17:19:29.5Z"]
)
def test_timestamps_round_trip(text: str) -> None:
    """Go's zero time and fractions keep their text."""
    assert format_time(parse_time(text)) == text
