"""Ambiguous selectors: several HPAs of a namespace that match the same pod.

Plain and symmetric: at every tick at which a cached pod is matched by several HPAs, all of them are
ambiguous. (Upstream registers an HPA's selector at its own first sync of the metrics path, so the
very first of them acts once more; that order is not recorded.)
Source: horizontal.go, validateAndParseSelector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hpabatch.arrays.layout import I64
from hpabatch.engine.align import Clock, Lane, scale_seen, spec_of_ticks
from hpabatch.engine.candidates import Candidate
from hpabatch.engine.recording import Recording
from hpabatch.model import codes

Mask: TypeAlias = NDArray[np.bool_]


def shared_pods(
    recording: Recording, candidates: Sequence[Candidate]
) -> dict[int, list[tuple[int, list[int]]]]:
    """Return the pods that several HPAs' selectors match, at whatever times.

    For each pod the positions of these HPAs, and which of their scale's selectors match it.
    """
    owners: dict[int, dict[int, list[int]]] = {}
    for h, candidate in enumerate(candidates):
        scale = recording.scales.get(candidate.target)
        place, target = candidate.target[:2], candidate.target[3]
        for k, text in enumerate(scale.selectors if scale else ()):
            for p in recording.pods_of(place, target, text).tolist():
                owners.setdefault(p, {}).setdefault(h, []).append(k)
    return {p: list(found.items()) for p, found in owners.items() if len(found) > 1}


class _Matches:
    """Which HPAs match a pod at each tick; what hangs on the HPA only is computed once."""

    def __init__(self, recording: Recording, clock: Clock, candidates: Sequence[Candidate]) -> None:
        self.recording = recording
        self.ticks_ms = clock.ticks_ms
        self.candidates = candidates
        self._selectors: dict[int, I64] = {}

    def of_pod(self, p: int, owners: Sequence[tuple[int, list[int]]]) -> Mask:
        """Return whether pod p is cached and matched, shape (owners, ticks)."""
        pods = self.recording.pods
        cached = (self.ticks_ms >= pods.created_ms[p]) & (self.ticks_ms < pods.gone_ms[p])
        return np.array([cached & np.isin(self._selector(h), numbers) for h, numbers in owners])

    def _selector(self, h: int) -> I64:
        """Return the number of the selector that an HPA has at each tick, -1 for none."""
        if h not in self._selectors:
            scale = self.recording.scales[self.candidates[h].target]
            seen = scale_seen(scale, self.ticks_ms)
            seen[spec_of_ticks(self.candidates[h], self.ticks_ms) < 0] = -1
            self._selectors[h] = np.where(seen < 0, -1, scale.selector[np.maximum(seen, 0)])
        return self._selectors[h]


def mark_ambiguous(
    recording: Recording, clock: Clock, lanes: Sequence[Lane], everyone: Sequence[Candidate]
) -> list[tuple[Candidate, Candidate]]:
    """Mark the ticks of ambiguous selectors in place; return each lane's HPA with one rival.

    `everyone` are all HPAs that the clusters had, the lanes' own candidates among them: a rival
    counts whether it is replayed or not.
    """
    lane_of = {id(lane.candidate): lane for lane in lanes}
    matches = _Matches(recording, clock, everyone)
    pairs: set[tuple[int, int]] = set()
    for p, owners in shared_pods(recording, everyone).items():
        if not any(id(everyone[h]) in lane_of for h, _ in owners):
            continue
        matched = matches.of_pod(p, owners)
        crowded = matched & (matched.sum(axis=0) > 1)
        for row, (h, _) in enumerate(owners):
            lane = lane_of.get(id(everyone[h]))
            if lane is not None and crowded[row].any():
                _mark(lane, clock, crowded[row])
                rival = owners[_rival(crowded, row)][0]
                pairs.add((min(h, rival), max(h, rival)))
    return [(everyone[a], everyone[b]) for a, b in sorted(pairs)]


def _mark(lane: Lane, clock: Clock, ambiguous: Mask) -> None:
    """Mark a lane's ticks among those of the clock; a selector that is wrong stays so."""
    at = ambiguous[np.searchsorted(clock.ticks_ms, lane.ticks.now_ms)]
    lane.ticks.selector[at & (lane.ticks.selector == codes.SELECTOR_OK)] = codes.SELECTOR_AMBIGUOUS


def _rival(crowded: Mask, row: int) -> int:
    """Return the first other row that shares a tick with this one."""
    together = (crowded & crowded[row]).any(axis=1)
    together[row] = False
    return int(np.argmax(together))
