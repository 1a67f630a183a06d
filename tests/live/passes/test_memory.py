"""Tests of a loop's memory: moved, made larger, kept in a file, refused where that is damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpabatch.errors import UsageError
from hpabatch.layout import codes
from hpabatch.layout.records import (
    HEAD_CONDITIONS,
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_REC_COUNT,
    HEAD_REC_START,
    HEAD_SEEN,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    Memory,
)
from hpabatch.live.passes.memory import Saved, SavedLane, load, memory_of, save
from hpabatch.live.passes.memory import remembered as product_remembered
from hpabatch.packing.memory import make_sized_memory
from tests.effort import effort

WHAT = "cluster a, 1.37"
ENTRIES = (
    (HEAD_REC_COUNT, HEAD_REC_START, "recs", ("value", "ms")),
    (HEAD_UP_COUNT, HEAD_UP_START, "events", ("change", "ms", "outdated")),
    (HEAD_DOWN_COUNT, HEAD_DOWN_START, "events", ("change", "ms", "outdated")),
)


def random_memory(rng: random.Random, lanes: int) -> Memory:
    recommendations = np.array([rng.randint(2, 40) for _ in range(lanes)], np.int64)
    events = np.array([rng.randint(1, 9) for _ in range(lanes)], np.int64)
    memory = make_sized_memory(recommendations, events)
    for h in range(lanes):
        head = memory.head[h]
        head[HEAD_REC_COUNT] = rng.randint(0, int(recommendations[h]))
        head[HEAD_UP_COUNT] = rng.randint(0, int(events[h]))
        head[HEAD_DOWN_COUNT] = rng.randint(0, int(events[h]))
        head[HEAD_STATUS_CURRENT], head[HEAD_STATUS_DESIRED] = rng.randint(0, 9), rng.randint(0, 9)
        head[HEAD_SEEN] = rng.randint(0, 1)
        head[HEAD_CONDITIONS : HEAD_CONDITIONS + 2] = rng.sample(list(codes.CONDITIONS), 2)
    for name in ("value", "ms"):
        memory.recs[name] = np.arange(memory.recs.size) + (10**12 if name == "ms" else 0)
    memory.events.change = 1 + np.arange(memory.events.size)
    memory.events.ms = 10**12 + np.arange(memory.events.size)
    memory.events.outdated = np.arange(memory.events.size) % 2
    return memory


def remembered(memory: Memory, h: int) -> dict[str, Any]:
    """Return what one lane remembers, wherever it lies."""
    head = memory.head[h]
    kept = [HEAD_STATUS_CURRENT, HEAD_STATUS_DESIRED, HEAD_SEEN]
    kept += range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4)
    found: dict[str, Any] = {"head": head[kept].tolist()}
    for count, start, table, names in ENTRIES:
        rows = slice(int(head[start]), int(head[start] + head[count]))
        columns = [getattr(memory, table)[name][rows].tolist() for name in names]
        found[f"{table} {start}"] = list(zip(*columns, strict=True))
    return found


# ---- moving --------------------------------------------------------------------------------------


# ---- the file ------------------------------------------------------------------------------------


def saved_of(seed: int, count: int) -> Saved:
    memories = product_remembered(random_memory(random.Random(seed), count))
    lanes = [
        SavedLane(
            "shop", f"web-{k}", f"uid-{k}", "Deployment/web", k - 1, "app=x" if k else None, "", one
        )
        for k, one in enumerate(memories)
    ]
    return Saved(123_456, lanes, WHAT)


@pytest.mark.parametrize("seed", range(effort(6)))
def test_what_is_saved_is_loaded(seed: int, tmp_path: Path) -> None:
    count = seed % 5
    memory, path = random_memory(random.Random(seed), count), tmp_path / "new" / "state"
    save(path, saved_of(seed, count))
    found = load(path, WHAT)
    assert found == saved_of(seed, count)
    restored = memory_of([lane.memory for lane in found.lanes])
    for h in range(count):
        assert remembered(restored, h) == remembered(memory, h)
    assert [p.name for p in path.parent.iterdir()] == ["state"]


def good(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    save(path, saved_of(3, 3))
    return path


def refusal(path: Path, what: str = WHAT) -> str:
    with pytest.raises(UsageError) as caught:
        load(path, what)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_state_of_something_else_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert load(tmp_path / "nothing", WHAT) is None
    assert f"it is of {WHAT}, not of cluster b" in refusal(good(tmp_path), "cluster b")
    assert "cannot be read" in refusal(tmp_path)
    with pytest.raises(UsageError, match="folder"):
        save(tmp_path, saved_of(1, 1))


def test_a_save_that_fails_leaves_the_old_state(tmp_path: Path, monkeypatch: Any) -> None:
    path = good(tmp_path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UsageError, match="No space left on device"):
        save(path, saved_of(6, 1))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"[" * 100_000, b"text", b"\xff", b"{}", b'{"saved_ms":1', b"[]"]
)
def test_files_of_other_kinds_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    assert "holds no state of this loop: it is damaged, or another's" in refusal(path)


def lane(**fields: Any) -> Any:
    """Return a document whose first lane has other fields, or another memory."""

    def change(document: dict[str, Any]) -> None:
        first = document["lanes"][0]
        (first["memory"] if fields.keys() <= first["memory"].keys() else first).update(fields)

    return change


BAD: dict[str, Any] = {
    "no lanes": lambda d: d.update(lanes=None),
    "lanes that are lists": lambda d: d.update(lanes=[["a"]] * 3),
    "a time that is none": lambda d: d.update(saved_ms="now"),
    "a name that is a number": lane(name=7),
    "a namespace that is a list": lane(namespace=[]),
    "a time far away": lambda d: d.update(saved_ms=10**17),
    "a selector that does not parse": lane(selector="app in ("),
    "a size out of range": lane(replicas=2**40),
    "a status out of range": lane(desired=2**40),
    "a flag that is none": lane(seen=2),
    "a condition that does not exist": lane(conditions=[10**6, 0, 0, 0]),
    "a recommendation below zero": lane(recommendations=[[-1, 1]]),
    "a time of a recommendation that would wrap": lane(recommendations=[[1, -(2**62)]]),
    "a mark that is none": lane(downs=[[1, 1, 2]]),
    "a size that is no number": lane(replicas="3"),
    "three conditions": lane(conditions=[0, 0, 0]),
    "a recommendation without a time": lane(recommendations=[[1]]),
    "a change of a fraction": lane(ups=[[1.5, 1, 0]]),
}


@pytest.mark.parametrize("name", BAD)
def test_parts_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    path = good(tmp_path)
    document = json.loads(path.read_text())
    BAD[name](document)
    path.write_text(json.dumps(document))
    assert "holds no state of this loop" in refusal(path)
