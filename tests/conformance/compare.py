"""Comparison with the golden data: the compared fields, and the words for differences."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpabatch._jit import INTERPRETED
from tests.conformance.golden import COMMITTED, Json, golden_files, read_rows

SHOWN = 5  # differences in a failing test's message
VERSIONS = ("1.38", "1.36")
INTERPRETED_TICKS = 40
_ALL = os.environ.get("HPABATCH_REFERENCE_ALL") == "1"
_SHARE = 0.1  # of the rows of HPABATCH_GOLDEN; the committed part shows every property of them

_CONDITION = ("type", "status", "reason", "message", "last_transition_time")
_DECISION = {
    "calculator": (
        "replicas",
        "metric_name",
        "current_average_utilization",
        "current_average_value_milli",
        "current_value_milli",
        "condition_reason",
    ),
    "timeline": (
        "desired_replicas",
        "status_current_replicas",
        "rescaled",
        "scale_to",
        "conditions",
    ),
}
_TEXTS = {
    "calculator": ("current_average_value", "current_value", "error", "condition_message"),
    "timeline": (
        "current_metrics",
        "events",
        "last_scale_time",
        "last_scale_time_set",
        "reconcile_error",
        "status_written",
        "action_label",
        "error_label",
    ),
}


def compared(kind: str, expected: Json) -> Json:
    """Return the fields of a golden `expected` that are compared; of behavior rows all.

    A field of a decision that is not given is expected to be None, a text is not compared then.
    """
    fields = tuple(expected) if kind == "behavior" else _DECISION[kind]
    fields += tuple(key for key in _TEXTS.get(kind, ()) if key in expected)
    result = {field: expected.get(field) for field in fields}
    if "conditions" in result:
        conditions = expected.get("conditions") or []
        result["conditions"] = [{w: c[w] for w in _CONDITION if w in c} for c in conditions]
    return result


def _like(wanted: Json, actual: Json) -> Json:
    """Return of a result only what is wanted, of its conditions too (not all rows have texts)."""
    found = {field: actual[field] for field in wanted}
    if wanted.get("conditions"):
        words = wanted["conditions"][0]
        found["conditions"] = [{word: c[word] for word in words} for c in actual["conditions"]]
    return found


def differences(where: str, kind: str, expected: Json, actual: Json) -> list[str]:
    """Return one line per differing field: the case, the field, what is and what should be."""
    wanted = compared(kind, expected)
    found = _like(wanted, actual)
    return [
        f"{where}: {field} is {found[field]!r}, expected {value!r}"
        for field, value in wanted.items()
        if found[field] != value
    ]


def assert_no_differences(wrong: list[str], compared_count: int) -> None:
    """Fail with the first differences, or if nothing at all was compared."""
    assert compared_count > 0, "nothing to compare in this file"
    shown = "\n".join(wrong[:SHOWN])
    assert not wrong, f"{len(wrong)} differences in {compared_count} compared:\n{shown}"


def file_parameters(kind: str) -> list[object]:
    """Return the golden files of one kind as test parameters: the committed part, and the full."""
    files = {path.name: path for path in (*COMMITTED.glob(f"{kind}*"), *golden_files(kind))}
    return [pytest.param(path, id=name) for name, path in sorted(files.items())]


def selected_rows(path: Path) -> Iterator[Json]:
    """Yield a file's rows: all of the committed part and in `make long`, else a seeded sample."""
    share = 1.0 if _ALL or path.parent == COMMITTED else _SHARE
    rng = random.Random(path.name)
    yield from (row for k, row in enumerate(read_rows(path)) if rng.random() < share or k == 0)


def cut_timeline(timeline: Json) -> Json:
    """Return the part of a timeline that is replayed: all compiled, its start interpreted."""
    if not INTERPRETED:
        return timeline
    ticks, expected = timeline["ticks"], timeline["expected"]
    return timeline | {
        "ticks": ticks[:INTERPRETED_TICKS],
        "expected": expected[:INTERPRETED_TICKS],
    }
