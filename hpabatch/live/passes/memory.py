"""Controller memory of the live loop: recommendations and scale events, moved, enlarged and saved.

Upstream keeps recommendations and scale events in memory only; here they may outlive the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from hpabatch._json import decode_json
from hpabatch.errors import UsageError
from hpabatch.history.files import atomic_path, read_regular
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
    HEAD_UNSORTED,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    I64,
    Memory,
)
from hpabatch.model.selectors import parse_selector
from hpabatch.packing.memory import make_sized_memory

_KEPT: Final = (
    HEAD_REC_COUNT,
    HEAD_UP_COUNT,
    HEAD_DOWN_COUNT,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    HEAD_SEEN,
    *range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4),
)
_FEW_RECOMMENDATIONS: Final = 24  # five minutes at 15 s, with a reserve
_FEW_EVENTS: Final = 8
_MOST_BYTES: Final = 2**30
_CODES: Final = {
    codes.NO_CONDITION,
    *codes.CONDITIONS,
    *(
        (kind << 4) + other
        for kind in codes.CONDITION_TYPES.values()
        for other in (codes.OTHER_TRUE, codes.OTHER_FALSE)
    ),
}


def new_memory(lanes: int) -> Memory:
    """Return the empty memory of lanes."""
    return make_sized_memory(
        np.full(lanes, _FEW_RECOMMENDATIONS, np.int64), np.full(lanes, _FEW_EVENTS, np.int64)
    )


def copied(memory: Memory) -> Memory:
    """Return a copy, to which a pass can go back."""
    return Memory(memory.head.copy(), memory.recs.copy(), memory.events.copy())


def moved(memory: Memory, source: I64, changes: I64) -> Memory:
    """Return the memory of a pass's lanes: lane h has that of lane source[h], -1: an empty one.

    Args:
        memory: of the lanes before.
        source: (H,) lanes of `memory`, or -1.
        changes: (H,) size changes since the last pass: each may become an event.
    """
    to = np.flatnonzero(source >= 0)
    head = memory.head[source[to]]
    # Beside a pass's own recommendation there is room for one that is followed.
    recommendations = np.full(source.size, _FEW_RECOMMENDATIONS, np.int64)
    recommendations[to] = np.maximum(head[:, HEAD_REC_COUNT] + 3, _FEW_RECOMMENDATIONS)
    events = np.zeros(source.size, np.int64)
    events[to] = np.maximum(head[:, HEAD_UP_COUNT], head[:, HEAD_DOWN_COUNT])
    found = make_sized_memory(recommendations, np.maximum(events + changes + 1, _FEW_EVENTS))
    for k in _KEPT:
        found.head[to, k] = head[:, k]
    # The rings beside the list are rebuilt at its next use.
    found.head[to, HEAD_UNSORTED] = 1
    for start, count, before, after in (
        (HEAD_REC_START, HEAD_REC_COUNT, memory.recs, found.recs),
        (HEAD_UP_START, HEAD_UP_COUNT, memory.events, found.events),
        (HEAD_DOWN_START, HEAD_DOWN_COUNT, memory.events, found.events),
    ):
        places = _stretches(found.head[to, start], head[:, count])
        after[places] = before[_stretches(head[:, start], head[:, count])]
    return found


def _stretches(first: I64, counts: I64) -> I64:
    """Return the positions first:first + count of every range, joined."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if ends.size else 0)


def follow_rescale(memory: Memory, h: int, ms: int, before: int, after: int, since_ms: int) -> None:
    """Let lane h recommend what another controller has scaled its target to.

    After a scale-down no recommendation in that controller's windows was higher than the new size,
    and after a scale-up none was lower: it would have held the size back. So a scale-down cuts
    higher recommendations until then to the new size, and a scale-up adds a recommendation.
    Recommendations after the rescale stay. A policy or a bound may have kept the new size below
    what was recommended: then the highest own recommendation since `since_ms` is added, since the
    new size would hold back the next scale-down for a window. `moved` leaves room for one addition.
    """
    head = memory.head[h]
    start, count = int(head[HEAD_REC_START]), int(head[HEAD_REC_COUNT])
    if after < before:
        recs = memory.recs[start : start + count]
        recs.value[:] = np.where(recs.ms <= ms, np.minimum(recs.value, after), recs.value)
    elif count + 1 < head[HEAD_REC_SIZE]:
        seen_ms = memory.recs.ms[start : start + count]
        near = (since_ms <= seen_ms) & (seen_ms <= ms)
        own = memory.recs.value[start : start + count][near]
        memory.recs.value[start + count] = max(after, int(own.max(initial=after)))
        memory.recs.ms[start + count] = ms
        head[HEAD_REC_COUNT] = count + 1
    head[HEAD_UNSORTED] = 1  # the rings are rebuilt at the next use


_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Ms = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]  # no sum with a window wraps
_Flag = Annotated[int, msgspec.Meta(ge=0, le=1)]


class Remembered(msgspec.Struct, frozen=True):
    """Controller memory of one HPA: status, and lists of recommendations and scale events.

    `recommendations`: (size, UTC ms); `ups` and `downs`: (change, UTC ms, whether it is outdated).
    """

    current: _Size = 0
    desired: _Size = 0
    seen: _Flag = 0
    conditions: tuple[int, int, int, int] = (codes.NO_CONDITION,) * 4
    recommendations: list[tuple[_Size, _Ms]] = []
    ups: list[tuple[_Size, _Ms, _Flag]] = []
    downs: list[tuple[_Size, _Ms, _Flag]] = []


class SavedLane(msgspec.Struct, frozen=True):
    """Identity and saved state of one HPA.

    `target`: `Kind/name`; `replicas`: its last size, -1 if unknown; `selector`: the registered one
    (`live.passes.ambiguity`), None if there is none; `zero`: the status of the cluster's own
    condition ScaledToZero, "" without one.
    """

    namespace: str
    name: str
    uid: str
    target: str
    replicas: Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
    selector: str | None
    zero: str = ""
    memory: Remembered = Remembered()


class Saved(msgspec.Struct, frozen=True):
    """Saved controller memory of a loop.

    `saved_ms`: time of saving; `what` names its cluster and rules.
    """

    saved_ms: _Ms
    lanes: list[SavedLane]
    what: str


def remembered(memory: Memory) -> list[Remembered]:
    """Return the memory of each lane."""
    recs = list(zip(memory.recs.value.tolist(), memory.recs.ms.tolist(), strict=True))
    columns = [memory.events[name].tolist() for name in ("change", "ms", "outdated")]
    events = list(zip(*columns, strict=True))
    return [
        Remembered(
            row[HEAD_STATUS_CURRENT], row[HEAD_STATUS_DESIRED], row[HEAD_SEEN],
            tuple(row[HEAD_CONDITIONS : HEAD_CONDITIONS + 4]),
            _part(recs, row[HEAD_REC_START], row[HEAD_REC_COUNT]),
            _part(events, row[HEAD_UP_START], row[HEAD_UP_COUNT]),
            _part(events, row[HEAD_DOWN_START], row[HEAD_DOWN_COUNT]),
        )
        for row in memory.head.tolist()
    ]  # fmt: skip


def _part(rows: list[Any], start: int, count: int) -> list[Any]:
    return rows[start : start + count]


def memory_of(lanes: Sequence[Remembered]) -> Memory:
    """Return the memory of lanes."""
    counts = np.array(
        [(len(lane.recommendations), len(lane.ups), len(lane.downs)) for lane in lanes], np.int64
    ).reshape(-1, 3)
    memory = make_sized_memory(counts[:, 0] + 3, counts[:, 1:].max(axis=1, initial=0) + 1)
    memory.head[:, [HEAD_REC_COUNT, HEAD_UP_COUNT, HEAD_DOWN_COUNT]] = counts
    memory.head[:, HEAD_UNSORTED] = 1
    for lane, head in zip(lanes, memory.head, strict=True):
        head[[HEAD_STATUS_CURRENT, HEAD_STATUS_DESIRED]] = lane.current, lane.desired
        head[HEAD_SEEN] = lane.seen
        head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4] = lane.conditions
        _put(memory.recs, head[HEAD_REC_START], lane.recommendations, ("value", "ms"))
        for start, rows in ((HEAD_UP_START, lane.ups), (HEAD_DOWN_START, lane.downs)):
            _put(memory.events, head[start], rows, ("change", "ms", "outdated"))
    return memory


def _put(table: Any, start: int, rows: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    for name, column in zip(names, zip(*rows, strict=True), strict=False):
        table[name][start : start + len(rows)] = column


def save(path: Path, saved: Saved) -> None:
    """Write controller memory, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        with atomic_path(path) as temporary:
            temporary.write_bytes(msgspec.json.encode(saved))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def load(path: Path, what: str) -> Saved | None:
    """Return saved controller memory; None: there is no such file.

    Raises:
        UsageError: it cannot be read, is damaged, or belongs to another cluster or other rules.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        saved = decode_json(data, Saved, _MOST_BYTES)
        for lane in saved.lanes:
            if lane.selector is not None:
                parse_selector(lane.selector)
            if not set(lane.memory.conditions) <= _CODES:
                raise ValueError("an unknown condition")
    except ValueError:
        said = "it is damaged, or another's"
    else:
        if saved.what == what:
            return saved
        said = f"it is of {saved.what}, not of {what}"
    raise UsageError(f"{path} holds no state of this loop: {said}; remove it")
