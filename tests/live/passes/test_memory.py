"""Tests of a loop's memory: moved, made larger, kept in a file, refused where that is damaged."""

from __future__ import annotations

import io
import json
import random
import zipfile
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
    HEAD_REC_SIZE,
    HEAD_REC_START,
    HEAD_SEEN,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    Memory,
)
from hpabatch.live.passes.memory import (
    Saved,
    SavedLane,
    load,
    moved,
    new_memory,
    save,
)
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


def lanes_of(count: int) -> list[SavedLane]:
    return [
        SavedLane("shop", f"web-{k}", f"uid-{k}", "Deployment/web", k - 1, "app=x" if k else None)
        for k in range(count)
    ]


# ---- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(effort(12)))
def test_moved_lanes_remember_what_they_did(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(0, 6)
    memory = random_memory(rng, count)
    source = np.array([rng.randint(-1, count - 1) for _ in range(rng.randint(0, 8))], np.int64)
    changes = np.array([rng.randint(0, 30) for _ in source], np.int64)
    found = moved(memory, source, changes)
    nothing = remembered(new_memory(1), 0)
    for h, k in enumerate(source.tolist()):
        assert remembered(found, h) == (nothing if k < 0 else remembered(memory, k))
    head = found.head
    assert np.all(head[:, HEAD_REC_COUNT] + 2 < head[:, HEAD_REC_SIZE])
    used = np.maximum(head[:, HEAD_UP_COUNT], head[:, HEAD_DOWN_COUNT]) + changes
    assert np.all(used < head[:, HEAD_DOWN_START] - head[:, HEAD_UP_START])


# ---- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(effort(6)))
def test_what_is_saved_is_loaded(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    count = rng.randint(0, 5)
    memory = random_memory(rng, count)
    path = tmp_path / "new" / "state"
    save(path, Saved(123_456, lanes_of(count), memory), WHAT)
    found = load(path, WHAT)
    assert found is not None
    assert found.saved_ms == 123_456
    assert found.lanes == lanes_of(count)
    for h in range(count):
        assert remembered(found.memory, h) == remembered(memory, h)
    assert [p.name for p in path.parent.iterdir()] == ["state"]


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert load(tmp_path / "nothing", WHAT) is None


def good(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    save(path, Saved(5, lanes_of(3), random_memory(random.Random(3), 3)), WHAT)
    return path


def refusal(path: Path, what: str = WHAT) -> str:
    with pytest.raises(UsageError) as caught:
        load(path, what)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_state_of_something_else_is_refused(tmp_path: Path) -> None:
    assert f"it is of {WHAT}, not of cluster b" in refusal(good(tmp_path), "cluster b")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path)
    with pytest.raises(UsageError, match="folder"):
        save(tmp_path, Saved(5, [], new_memory(0)), WHAT)


def test_a_save_that_fails_leaves_the_old_state(tmp_path: Path, monkeypatch: Any) -> None:
    path = good(tmp_path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UsageError, match="No space left on device"):
        save(path, Saved(6, [], new_memory(0)), WHAT)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("seed", range(effort(24)))
def test_a_damaged_file_is_refused_or_read(seed: int, tmp_path: Path) -> None:
    """Bytes cut off, turned or put in: a sentence, or (where nothing was hit) the same state."""
    rng, path = random.Random(seed), good(tmp_path)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    if seed % 3 == 0:
        data = data[:at]
    elif seed % 3 == 1:
        for _ in range(rng.choice([1, 4, 40])):
            data[rng.randrange(len(data))] = rng.randrange(256)
    else:
        data[at:at] = rng.randbytes(rng.choice([1, 100]))
    path.write_bytes(data)
    try:
        found = load(path, WHAT)
    except UsageError:
        return
    assert found is not None
    assert found.lanes == lanes_of(3)


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"\x93NUMPY", b"[" * 100_000, b"text", b"PK\x05\x06" + bytes(18)]
)
def test_files_of_other_kinds_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    assert "holds no state of this loop" in refusal(path)


def test_a_plain_array_and_a_pickle_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refusal(path)
    with path.open("wb") as file:
        np.savez(file, meta=np.array([{}], object), allow_pickle=True)
    refusal(path)


def rewritten(path: Path, **changed: Any) -> None:
    with np.load(path) as file:
        columns = {name: file[name] for name in file.files}
    for name, change in changed.items():
        if name == "meta":
            meta = json.loads(columns["meta"].tobytes())
            text = json.dumps(change(meta)) if callable(change) else change
            columns["meta"] = np.frombuffer(text.encode(), np.uint8)
        else:
            columns[name] = change(columns[name])
    buffer = io.BytesIO()
    np.savez(buffer, **columns)
    path.write_bytes(buffer.getvalue())


def with_head(column: int, value: int) -> Any:
    def change(head: Any) -> Any:
        head = head.copy()
        head[0, column] = value
        return head

    return change


def with_lane(**fields: Any) -> Any:
    def change(meta: Any) -> Any:
        lanes = [SavedLane(*row)._replace(**fields) for row in meta["lanes"]]
        return meta | {"lanes": lanes}

    return change


BAD: dict[str, dict[str, Any]] = {
    "a newer format": {"meta": lambda m: m | {"format": 2}},
    "meta that is no object": {"meta": "[]"},
    "meta that is nested": {"meta": "[" * 50_000 + "]" * 50_000},
    "meta that is no JSON": {"meta": "\x00{"},
    "no lanes": {"meta": lambda m: m | {"lanes": None}},
    "fewer lanes": {"meta": lambda m: m | {"lanes": m["lanes"][:1]}},
    "lanes of other lengths": {"meta": lambda m: m | {"lanes": [["a"]] * 3}},
    "two equal lanes": {"meta": lambda m: m | {"lanes": [m["lanes"][0]] * 3}},
    "names that are numbers": {"meta": with_lane(name=7)},
    "names that are lists": {"meta": with_lane(namespace=[])},
    "a selector that does not parse": {"meta": with_lane(selector="app in (")},
    "a selector that is a number": {"meta": with_lane(selector=3)},
    "a size out of range": {"meta": with_lane(replicas=2**40)},
    "a size that is no number": {"meta": with_lane(replicas="3")},
    "a time that is none": {"meta": lambda m: m | {"saved_ms": "now"}},
    "a time far away": {"meta": lambda m: m | {"saved_ms": 10**30}},
    "too many recommendations": {"head": with_head(0, 10**6)},
    "more than any memory": {"head": with_head(0, 2**62)},
    "fewer than none": {"head": with_head(0, -1)},
    "too many events": {"head": with_head(1, 3_000_000)},
    "a status out of range": {"head": with_head(3, 2**40)},
    "a flag that is none": {"head": with_head(5, 2)},
    "a condition that does not exist": {"head": with_head(6, 99)},
    "a head of another shape": {"head": lambda c: c[:, :3]},
    "a head of one dimension": {"head": lambda c: c.reshape(-1)},
    "a head of floats": {"head": lambda c: c.astype(np.float64)},
    "one value for all": {"value": lambda c: c[:1]},
    "values of another shape": {"value": lambda c: c.reshape(1, -1)},
    "values out of range": {"value": lambda c: c + 2**31},
    "values that are texts": {"value": lambda c: c.astype(str)},
    "times out of range": {"ms": lambda c: c + 2**60},
    "the least time there is": {"ms": lambda c: np.full_like(c, -(2**63))},
    "fewer changes": {"change": lambda c: c[:-1]},
    "changes below zero": {"change": lambda c: -c},
    "more event times": {"event_ms": lambda c: np.append(c, 1)},
    "marks that are none": {"outdated": lambda c: c + 2},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_parts_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    path = good(tmp_path)
    rewritten(path)
    assert load(path, WHAT) is not None
    rewritten(path, **BAD[name])
    assert "holds no state of this loop" in refusal(path)


def test_a_part_that_is_missing_or_is_not_stored_as_it_should_be_is_refused(tmp_path: Path) -> None:
    path = good(tmp_path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    huge = parts["head.npy"].replace(b"(3, 10)", b"(9999999999, 10)")
    for changed in (
        {"ms.npy": None},
        {"ms.npy": b""},
        {"head.npy": huge},
        {"meta.npy": b"\x93NUMPY\x01\x00v\x00{"},
    ):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
            for name, data in (parts | changed).items():
                if data is not None:
                    archive.writestr(name, data)
        refusal(path)
