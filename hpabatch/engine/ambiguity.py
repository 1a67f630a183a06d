"""Ambiguous selectors: several HPAs of a namespace that match the same pod.

Plain and symmetric: from the tick at which a shared pod is in the cache, all its HPAs are
ambiguous. (Upstream registers an HPA's selector at its own first sync, so the very first of them
acts once more; that order is not recorded.) Source: horizontal.go, validateAndParseSelector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpabatch.arrays.layout import I64
from hpabatch.engine.align import Lane
from hpabatch.engine.recording import Recording
from hpabatch.model import codes


def shared_pods(recording: Recording, lanes: Sequence[Lane]) -> dict[int, list[int]]:
    """Return the lanes of every pod that more than one lane's selectors match."""
    owners: dict[int, list[int]] = {}
    for h, lane in enumerate(lanes):
        scale = recording.scales[lane.candidate.target]
        place, target = lane.candidate.target[:2], lane.candidate.target[3]
        pods = {
            p for text in scale.selectors for p in recording.pods_of(place, target, text).tolist()
        }
        for p in pods:
            owners.setdefault(p, []).append(h)
    return {p: found for p, found in owners.items() if len(found) > 1}


def mark_ambiguous(recording: Recording, lanes: Sequence[Lane]) -> list[tuple[int, int]]:
    """Mark the ticks of ambiguous selectors in place; return the pairs of lanes concerned."""
    pairs: set[tuple[int, int]] = set()
    for p, owners in shared_pods(recording, lanes).items():
        for h in owners:
            others = [other for other in owners if other != h]
            both = _both_live(recording, p, lanes[h], [lanes[o] for o in others])
            ticks = lanes[h].ticks
            usable = ticks.selector == codes.SELECTOR_OK
            ticks.selector[both & usable] = codes.SELECTOR_AMBIGUOUS
            pairs.update((min(h, other), max(h, other)) for other in others)
    return sorted(pairs)


def _both_live(recording: Recording, p: int, lane: Lane, others: Sequence[Lane]) -> I64:
    """Return for each tick of a lane whether pod p is cached and another of its HPAs exists."""
    now_ms = lane.ticks.now_ms
    cached = (now_ms >= recording.pods.created_ms[p]) & (now_ms < recording.pods.gone_ms[p])
    other_ticks = np.unique(np.concatenate([other.ticks.now_ms for other in others]))
    return cached & np.isin(now_ms, other_ticks)
