"""Controller memory of the live loop: recommendations and scale events, moved, enlarged and saved.

Upstream keeps recommendations and scale events in memory only; here they may outlive the process.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from hpabatch.errors import UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.history.files import read_regular
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
_FORMAT: Final = 1
_CODES: Final = [
    codes.NO_CONDITION,
    *codes.CONDITIONS,
    *(
        (kind << 4) + other
        for kind in codes.CONDITION_TYPES.values()
        for other in (codes.OTHER_TRUE, codes.OTHER_FALSE)
    ),
]


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
        _copy(before, head[:, start], after, found.head[to, start], head[:, count])
    return found


def _copy(source: Any, first: I64, target: Any, to: I64, counts: I64) -> None:
    """Copy ranges of records, lane by lane."""
    target[_stretches(to, counts)] = source[_stretches(first, counts)]


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


class SavedLane(NamedTuple):
    """Identity and further saved state of one lane.

    `target`: `Kind/name`; `replicas`: its last size, -1 if unknown; `selector`: the registered one
    (`live.passes.ambiguity`), None if there is none; `zero`: the status of the cluster's own
    condition ScaledToZero, "" without one.
    """

    namespace: str
    name: str
    uid: str
    target: str
    replicas: int
    selector: str | None
    zero: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved controller memory of a loop.

    Attributes:
        saved_ms: time of saving.
        lanes: the HPAs.
        memory: of those lanes.
    """

    saved_ms: int
    lanes: Sequence[SavedLane]
    memory: Memory


def save(path: Path, saved: Saved, what: str) -> None:
    """Write controller memory, whole or not at all; `what` names its cluster and rules.

    Raises:
        UsageError: the file cannot be written.
    """
    head = saved.memory.head
    recs = _stretches(head[:, HEAD_REC_START], head[:, HEAD_REC_COUNT])
    ups = _stretches(head[:, HEAD_UP_START], head[:, HEAD_UP_COUNT])
    downs = _stretches(head[:, HEAD_DOWN_START], head[:, HEAD_DOWN_COUNT])
    events = saved.memory.events[np.concatenate([ups, downs])]
    meta = {
        "format": _FORMAT,
        "what": what,
        "saved_ms": saved.saved_ms,
        "lanes": saved.lanes,
    }
    buffer = io.BytesIO()
    np.savez(
        buffer,
        meta=np.frombuffer(json.dumps(meta).encode(), np.uint8),
        head=head[:, list(_KEPT)],
        value=np.array(saved.memory.recs.value[recs]),
        ms=np.array(saved.memory.recs.ms[recs]),
        change=np.array(events.change),
        event_ms=np.array(events.ms),
        outdated=np.array(events.outdated),
    )
    try:
        with atomic_path(path) as temporary:
            temporary.write_bytes(buffer.getvalue())
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
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return _decoded({name: file[name] for name in _ARRAYS}, what)
    except Exception as error:
        said = str(error) if isinstance(error, _WrongStateError) else "it is damaged, or another's"
        raise UsageError(f"{path} holds no state of this loop: {said}; remove it") from error


class _WrongStateError(ValueError):
    """A readable state that cannot be used."""


_ARRAYS: Final = ("meta", "head", "value", "ms", "change", "event_ms", "outdated")
_NO_FIT: Final = "its parts do not fit together"
_MOST_MS: Final = 2**53  # far beyond any clock, and no sum with a window wraps


def _decoded(columns: dict[str, Any], what: str) -> Saved:
    meta = json.loads(columns["meta"].tobytes())
    if meta["format"] != _FORMAT:
        raise _WrongStateError(f"it is of format {meta['format']!r}, not {_FORMAT}")
    if meta["what"] != what:
        raise _WrongStateError(f"it is of {meta['what']}, not of {what}")
    lanes = [SavedLane(*row) for row in meta["lanes"]]
    _check(all(map(_is_lane, lanes)))
    _check(len({lane[:2] for lane in lanes}) == len(lanes))
    _check(all(columns[name].dtype == np.int64 for name in _ARRAYS[1:]))
    head = columns["head"]
    _check(head.shape == (len(lanes), len(_KEPT)))
    recommendations, ups, downs = _counts(head, columns)
    memory = make_sized_memory(recommendations + 3, np.maximum(ups, downs) + 1)
    for k, at in enumerate(_KEPT):
        memory.head[:, at] = head[:, k]
    memory.head[:, HEAD_UNSORTED] = 1
    recs = _stretches(memory.head[:, HEAD_REC_START], recommendations)
    memory.recs.value[recs], memory.recs.ms[recs] = columns["value"], columns["ms"]
    events = np.concatenate(
        [
            _stretches(memory.head[:, HEAD_UP_START], ups),
            _stretches(memory.head[:, HEAD_DOWN_START], downs),
        ]
    )
    memory.events.change[events] = columns["change"]
    memory.events.ms[events] = columns["event_ms"]
    memory.events.outdated[events] = columns["outdated"]
    saved_ms = meta["saved_ms"]
    _check(isinstance(saved_ms, int) and abs(saved_ms) < _MOST_MS)
    return Saved(saved_ms, lanes, memory)


def _counts(head: I64, columns: dict[str, Any]) -> tuple[I64, I64, I64]:
    """Check all columns; return each lane's numbers of recommendations and events up and down."""
    column = {at: head[:, k] for k, at in enumerate(_KEPT)}
    counts = [column[k] for k in (HEAD_REC_COUNT, HEAD_UP_COUNT, HEAD_DOWN_COUNT)]
    # (Before they are added up, where they could wrap.)
    _check(all(np.all((part >= 0) & (part < 2**31)) for part in counts))
    recommendations, ups, downs = counts
    for names, length in (
        (("value", "ms"), recommendations.sum()),
        (("change", "event_ms", "outdated"), ups.sum() + downs.sum()),
    ):
        _check(all(columns[name].shape == (length,) for name in names))
    for name in ("ms", "event_ms"):
        _check(bool(np.all((columns[name] > -_MOST_MS) & (columns[name] < _MOST_MS))))
    sizes = [column[HEAD_STATUS_CURRENT], column[HEAD_STATUS_DESIRED], columns["value"]]
    for values in (*sizes, columns["change"]):
        _check(bool(np.all((values >= 0) & (values < 2**31))))
    for flags in (column[HEAD_SEEN], columns["outdated"]):
        _check(bool(np.all((flags == 0) | (flags == 1))))
    conditions = head[:, [_KEPT.index(HEAD_CONDITIONS + k) for k in range(4)]]
    _check(bool(np.isin(conditions, _CODES).all()))
    return recommendations, ups, downs


def _check(fits: bool) -> None:
    if not fits:
        raise _WrongStateError(_NO_FIT)


def _is_lane(lane: SavedLane) -> bool:
    """Return whether a lane's fields are valid (ValueError: its selector does not parse)."""
    if lane.selector is not None:
        parse_selector(lane.selector)
    texts = all(isinstance(text, str) for text in (*lane[:4], lane.zero))
    return texts and type(lane.replicas) is int and -1 <= lane.replicas < 2**31
