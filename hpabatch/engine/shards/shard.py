"""A shard: some HPAs of one cluster over the replayed time, as arrays for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import integers, milliseconds
from hpabatch.engine.fleet.membership import ScaleKey
from hpabatch.engine.fleet.sources import TrackList
from hpabatch.engine.shards.initial import Seed
from hpabatch.history.checks import run_starts
from hpabatch.layout import codes
from hpabatch.layout.observations import Observations
from hpabatch.layout.records import I64, Fleet, Lanes, Memory, Specs
from hpabatch.layout.results import Results, Statuses, StatusMemory
from hpabatch.model.objects.hpa import HPAStatus, MetricSpec
from hpabatch.model.versions import Profile
from hpabatch.packing.arena import Arena
from hpabatch.packing.specs import StreamKey
from hpabatch.packing.texts import Texts


@dataclass(frozen=True, slots=True)
class ScaleColumns:
    """The recorded scale of one target, sorted by time; `selector` counts `selectors`.

    `error` counts `errors`: why it could not be read from a row on, "" where it was.
    """

    ts_ms: I64
    replicas: I64
    status_replicas: I64
    selector: I64
    selectors: tuple[str | None, ...]
    error: I64
    errors: tuple[str, ...]

    def codes(self) -> I64:
        """Return SCALE_* of each row."""
        return np.array([scale_code(text) for text in self.errors], np.int64)[self.error]

    def resized(self, begun_ms: Sequence[tuple[int, int]] = ()) -> I64:
        """Return the rows that change the size; one that was never known changes nothing.

        Args:
            begun_ms: of each loop that began with empty memory, after when it saw anything, and
                its first pass: a size that could not be read by then is found when it can be.
        """
        fine = self.codes() == codes.SCALE_OK
        known = np.flatnonzero(fine)
        changed = np.flatnonzero(np.diff(self.replicas)) + 1
        changed = changed[changed > (known[0] if known.size else self.ts_ms.size)]
        found = []
        for after_ms, first_ms in begun_ms:
            before = int(np.searchsorted(self.ts_ms, first_ms)) - 1
            if before >= 0 and not fine[before]:
                found += known[self.ts_ms[known] > after_ms][:1].tolist()
        return changed[~np.isin(changed, found)]

    def seen(self, now_ms: I64) -> I64:
        """Return the row that each tick reads, -1 before the first; shape of `now_ms`.

        A change at exactly a tick's instant is that tick's own outcome; the first row is what was
        found and counts at once.
        """
        seen = np.searchsorted(self.ts_ms, now_ms, side="left") - 1
        return np.where((seen < 0) & (now_ms == self.ts_ms[0]), 0, seen)


def scale_code(error: str) -> int:
    """Return SCALE_* of a scale by the error's text, "" for none.

    Upstream: horizontal.go, reconcileAutoscaler: a version that does not parse, a kind that no
    mapping is known for, and whatever the API server answered.
    """
    if not error:
        return codes.SCALE_OK
    if error.startswith("unexpected GroupVersion string"):
        return codes.SCALE_BAD_VERSION
    if error.startswith("no matches for kind"):
        return codes.SCALE_NO_RESOURCE
    return codes.SCALE_GET_FAILED


def scale_columns(scales: pl.DataFrame) -> dict[ScaleKey, ScaleColumns]:
    """Return the scales of a frame of `scales` rows, sorted by the table's key, by target."""
    keys = ["cluster", "namespace", "target_kind", "target"]
    starts = run_starts(scales.select(keys))
    ts_ms, texts = milliseconds(scales["ts"]), scales["selector"].to_list()
    failed = scales["error"].fill_null("").to_list()
    replicas, status = integers(scales["spec_replicas"]), integers(scales["status_replicas"])
    found = {}
    ends = np.append(starts, scales.height)[1:]
    for key, first, last in zip(scales.select(keys)[starts].rows(), starts, ends, strict=True):
        selectors = tuple(dict.fromkeys(texts[first:last]))
        errors = tuple(dict.fromkeys(failed[first:last]))
        number = {text: k for k, text in enumerate(selectors)}
        numbers = {text: k for k, text in enumerate(errors)}
        found[key[0], key[1], key[2], key[3]] = ScaleColumns(
            ts_ms=ts_ms[first:last],
            replicas=replicas[first:last],
            status_replicas=status[first:last],
            selector=np.array([number[text] for text in texts[first:last]], np.int64),
            selectors=selectors,
            error=np.array([numbers[text] for text in failed[first:last]], np.int64),
            errors=errors,
        )
    return found


@dataclass(frozen=True, slots=True)
class Epoch:
    """Since when a controller had which flags: the SPEC and LANE records that follow."""

    from_ms: int
    specs: Specs
    lanes: Lanes


@dataclass(slots=True)
class Shard:
    """A shard's arrays; a lane's `last_tick` is right once all loads are done.

    `candidates` are the lanes': those of the HPAs `asked` for that have a tick. Kernels write all
    of the arena's arrays before they read them. `streams` are each lane's, with their metrics;
    `numbers` lead from a pod's uid to its number, `pods` are each lane's. `statuses` are (0,) and
    without memory where they were not asked for; `texts` are the strings that records name. `seeds`
    are statuses to begin with, `status_before` those that were applied, by lane.
    """

    asked: Sequence[Candidate]
    candidates: list[Candidate]
    streams: list[list[tuple[StreamKey, MetricSpec]]]
    fleet: Fleet
    observations: Observations
    memory: Memory
    results: Results
    tracks: TrackList
    numbers: pl.DataFrame
    pods: list[list[int]]
    epochs: list[Epoch]
    arena: Arena
    profile: Profile
    texts: Texts
    statuses: Statuses
    status_memory: StatusMemory
    seeds: Sequence[Seed] = ()
    status_before: dict[int, list[tuple[int, HPAStatus]]] = field(default_factory=dict)

    @property
    def max_age_ms(self) -> int:
        """Time for which a sample counts without a newer one."""
        return int(self.observations.parameters[1])


def status_at(shard: Shard, h: int, t: int) -> HPAStatus:
    """Return the status from which lane h went on last, at tick t (a number over all ticks)."""
    now_ms = int(shard.fleet.ticks.now_ms[t])
    known = [status for at_ms, status in shard.status_before.get(h, ()) if at_ms <= now_ms]
    return known[-1] if known else HPAStatus()
