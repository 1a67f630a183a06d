"""A deterministic history of any size, part by part.

Workloads are played in blocks, a block's days are the parts. Every random number has an address
(see `Streams`), so neither the number of HPAs nor the cut into blocks changes a workload. An
interrupted run is continued with the first part that is not there.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from benchmarks.fleet.draw import KIND, FleetRequest, Purpose
from benchmarks.fleet.parts import (
    Rows,
    compact_json,
    controller_rows,
    frame_of,
    hpa_row,
    request_rows,
)
from benchmarks.fleet.played import DAY_S, PlayedWorkload, PodLife, Samples
from hpabatch.errors import UsageError
from hpabatch.history.columns import TIME
from hpabatch.history.store.append import StoreWriter

# About how many usage samples, of about 250 bytes each, are in memory.
_PART_ROWS = 1 << 19
# So many lives of a block's pods, about 1 kB each, are in memory.
_BLOCK_LIVES = 50_000
_LIVES_PER_DAY = 3
_BLOCK_HPAS = 512

Frames = Iterator[tuple[str, pl.DataFrame]]
"""Rows of tables, with their names."""


def write_fleet(request: FleetRequest, store: StoreWriter) -> None:
    """Write what is missing of a fleet to a store, new or begun with the same options.

    Raises:
        UsageError: options that are not possible, a store that holds something else, or a place
            that cannot be written.
    """
    request.check()
    text = json.dumps(request.to_json(), sort_keys=True)
    prefix = f"fleet/{hashlib.sha256(text.encode()).hexdigest()[:16]}/"
    parts = store.snapshot.parts
    if any(not name.startswith(prefix) for name in parts) or (
        store.snapshot.partitions and not parts
    ):
        raise UsageError(
            f"{store.storage.location} already holds a history that was made in another way or "
            "with other options; repeat those options to continue it, or name a new folder"
        )
    for name, frames in fleet_parts(request, lambda part: store.has_part(prefix + part)):
        with store.part(prefix + name) as writer:
            for table, frame in frames:
                writer.add(table, frame)


def fleet_tables(request: FleetRequest) -> dict[str, pl.DataFrame]:
    """Return all rows of a fleet in memory, as they are made: not sorted, present columns only."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for _, frames in fleet_parts(request):
        for table, frame in frames:
            parts.setdefault(table, []).append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}


def fleet_parts(
    request: FleetRequest,
    has_part: Callable[[str], bool] = lambda name: False,
    block_hpas: int | None = None,
) -> Iterator[tuple[str, Frames]]:
    """Yield the name and the rows of each part that is not there yet.

    A block without missing days is not played.
    """
    rows = request.pods * request.steps * request.containers
    lives = request.pods * (1 + _LIVES_PER_DAY * request.days)
    size = block_hpas or max(1, min(_PART_ROWS // rows, _BLOCK_LIVES // lives, _BLOCK_HPAS))
    for begin in range(0, request.hpas, size):
        days = [day for day in range(request.days) if not has_part(f"{begin}/{day}")]
        if days:
            indices = range(begin, min(begin + size, request.hpas))
            block = [PlayedWorkload(request, index) for index in indices]
            block.sort(key=lambda played: tuple(played.work.place.values()))
            for day in days:
                yield f"{begin}/{day}", _day_frames(request, block, day)
    if not has_part("end"):
        controller = controller_rows(request.start_ms, [request.cluster])
        yield "end", iter([("controller", controller)])


def _day_frames(request: FleetRequest, block: Sequence[PlayedWorkload], day: int) -> Frames:
    if day == 0:
        yield "pods", frame_of("pods", [row for p in block for row in _pods(p)])
        yield "pod_requests", frame_of("pod_requests", [row for p in block for row in _requests(p)])
        yield "hpas", frame_of("hpas", [_hpa(played) for played in block])
    for table, changes in (("pod_states", _states), ("scales", _scales)):
        if rows := [row for played in block for row in changes(played, day)]:
            yield table, frame_of(table, rows)
    for played in block:
        yield from _sample_frames(request, played, played.usage(day))


# ---- pods and sizes


def _ms(played: PlayedWorkload, second: int) -> int | None:
    """Return a time since 1970, None if it is after the recording."""
    request = played.request
    return request.start_ms + second * 1000 if second < request.days * DAY_S else None


def _pods(played: PlayedWorkload) -> Rows:
    work, rows = played.work, []
    for life in played.lives:
        labels = {"app": work.name, "pod-template-hash": life.revision}
        started = _ms(played, life.started)
        rows.append(work.place | {
            "uid": life.uid, "pod": life.pod, "labels": compact_json(labels),
            "owner": f"ReplicaSet/{work.name}-{life.revision}",
            "created": _ms(played, life.created), "started": started,
            "deletion_requested": _ms(played, life.deleted), "gone": _ms(played, life.gone),
            "node": life.node if started is not None else None,
        })  # fmt: skip
    return [row for row in rows if row["created"] is not None]


def _requests(played: PlayedWorkload) -> Rows:
    template = [played.work.place | row for row in request_rows(played.work.containers)]
    return [
        row | {"uid": pod["uid"], "valid_from": pod["created"]}
        for pod in _pods(played)
        for row in template
    ]


def _hpa(played: PlayedWorkload) -> dict[str, object]:
    work = played.work
    rng = played.streams.open(Purpose.profile, number=1)
    uid = str(uuid.UUID(bytes=rng.bytes(16), version=4))
    row = hpa_row(played.request.start_ms, work.name, uid, work.spec, work.name)
    return row | {"cluster": work.cluster, "namespace": work.namespace}


def _states(played: PlayedWorkload, day: int) -> Rows:
    own = played.work.place
    return [
        own | {
            "uid": life.uid, "ts": _ms(played, second), "phase": phase, "ready": ready,
            "last_transition": None if transition is None else _ms(played, transition),
        }
        for life in played.lives
        for second, phase, ready, transition in life.states
        if second // DAY_S == day
    ]  # fmt: skip


def _scales(played: PlayedWorkload, day: int) -> Rows:
    own = played.work.place | {"target_kind": KIND, "selector": f"app={played.work.name}"}
    return [
        own | {"ts": _ms(played, second), "spec_replicas": spec, "status_replicas": status}
        for second, (spec, status) in sorted(played.scales.items())
        if second // DAY_S == day
    ]


# ---- samples


def _sample_frames(
    request: FleetRequest,
    played: PlayedWorkload,
    samples: Iterable[tuple[PodLife, Samples]],
) -> Frames:
    """Yield samples of pods in frames of bounded size."""
    together: list[tuple[PodLife, Samples]] = []
    rows = 0
    for life, of_pod in samples:
        together.append((life, of_pod))
        rows += of_pod.values.size
        if rows > _PART_ROWS:
            yield "pod_metrics", _sample_frame(request, played, together)
            together, rows = [], 0
    if together:
        yield "pod_metrics", _sample_frame(request, played, together)


def _sample_frame(
    request: FleetRequest,
    played: PlayedWorkload,
    together: Sequence[tuple[PodLife, Samples]],
) -> pl.DataFrame:
    pods = pl.DataFrame(
        [(life.uid, life.pod) for life, _ in together], ["uid", "pod"], orient="row"
    )
    values = np.concatenate([s.values for _, s in together])
    scrapes, width, _ = values.shape
    pod = np.repeat(np.arange(len(together)), [len(s.ts_ms) * width for _, s in together])

    ts_ms = np.concatenate([s.ts_ms for _, s in together]) + request.start_ms
    names = pl.Series([container.name for container in played.work.containers])
    return pods[pod].with_columns(
        **{name: pl.lit(text) for name, text in played.work.place.items()},
        ts=pl.Series(np.repeat(ts_ms, width)).cast(TIME),
        window_ms=pl.lit(request.step_ms, dtype=pl.Int64()),
        container=names.gather(np.tile(np.arange(width), scrapes)),
        cpu_milli=pl.Series(values[:, :, 0].ravel()),
        memory_bytes=pl.Series(values[:, :, 1].ravel()),
    )
