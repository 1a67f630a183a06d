"""Ambiguous selectors: several HPAs of a namespace that match the same pod.

Symmetric but lazy, as upstream: an HPA's selector is known to the others from its own first sync
that reached its metrics on, until the HPA or the controller's memory goes. So of two HPAs on the
same pods the first to sync acts once. Two syncs at one instant are taken in the order of names; at
0 replicas an HPA is taken to keep what it had registered.
Source: horizontal.go, validateAndParseSelector; hpa_selector_store.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.fleet.clocks import Clocks, HpaKey
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.membership import ScaleKey, selector_code
from hpabatch.engine.fleet.pod_columns import PodColumns, matched_pods
from hpabatch.engine.shards.shard import ScaleColumns
from hpabatch.layout import codes
from hpabatch.layout.records import I64

NOT_RECORDED = "<not recorded>"

Mask: TypeAlias = NDArray[np.bool_]
Pair: TypeAlias = tuple[HpaKey, HpaKey]


@dataclass(frozen=True, slots=True)
class _Rival:
    """One HPA's syncs: instants, the selector it has at each (-1: the metrics are not reached).

    `member` says which pods of the shard each selector matches, shape (pods, selectors);
    `known_twice_ms` and `known` since when which selector is registered, -1 for none.
    """

    key: HpaKey
    now_ms: I64
    selector: I64
    member: Mask
    known_twice_ms: I64
    known: I64
    selectors: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Crowd:
    """When an HPA's selector is ambiguous: instants (ms, ascending), and the group of each.

    A group is the HPA's selector then (NOT_RECORDED where pods go by their owner), and the
    `namespace/name` of all HPAs on the same pods, itself among them.
    """

    ts_ms: I64
    group: I64
    groups: tuple[tuple[str, tuple[str, ...]], ...]


def ambiguous_instants(
    groups: Mapping[HpaKey, Sequence[Candidate]],
    clocks: Clocks,
    pods: PodColumns,
    scales: Mapping[ScaleKey, ScaleColumns],
    starts_ms: I64,
) -> tuple[dict[HpaKey, Crowd], list[Pair]]:
    """Return when and with whom selectors are ambiguous, and pairs of rivals.

    `groups` are by HPA all of its namespace that may share pods with it, itself included. A pair
    names an HPA with one that stands in its way, the lesser name first.
    """
    everyone = {candidate.key: candidate for group in groups.values() for candidate in group}
    rivals = {
        key: _rival(candidate, clocks, pods, scales, starts_ms)
        for key, candidate in everyone.items()
        if any(part.target in scales for part in candidate.of_targets)
    }
    found: dict[HpaKey, Crowd] = {}
    pairs: dict[Pair, None] = {}
    for key in sorted(rivals.keys() & groups.keys()):
        shares: dict[HpaKey, Mask] = {}
        for other in groups[key]:
            if other.key != key and other.key in rivals:
                shared = _shares_pods(rivals[key], rivals[other.key], pods)
                if shared.any():
                    shares[other.key] = shared
                    pairs[min(key, other.key), max(key, other.key)] = None
        if shares:
            found[key] = _crowd(rivals[key], shares, rivals[key].selectors)
    return found, sorted(pairs)


def _crowd(rival: _Rival, shares: Mapping[HpaKey, Mask], selectors: Sequence[str | None]) -> Crowd:
    """Return the instants at which any other HPA shares pods, with those that do."""
    together = np.stack(list(shares.values()))
    at = np.flatnonzero(together.any(axis=0))
    columns = np.concatenate([together[:, at], rival.selector[None, at]])
    # (few instants differ from those before them)
    starts = np.flatnonzero(np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0)))
    patterns, number = np.unique(columns[:, starts], axis=1, return_inverse=True)
    which = np.repeat(number.reshape(-1), np.diff(np.append(starts, at.size)))
    others, groups = list(shares), []
    for pattern in patterns.T.tolist():
        keys = [key for key, there in zip(others, pattern[:-1], strict=True) if there]
        names = tuple(sorted(f"{key[1]}/{key[2]}" for key in (rival.key, *keys)))
        text = selectors[pattern[-1]]
        groups.append((NOT_RECORDED if text is None else text, names))
    return Crowd(rival.now_ms[at], which.astype(np.int64), tuple(groups))


def _rival(
    candidate: Candidate,
    clocks: Clocks,
    pods: PodColumns,
    scales: Mapping[ScaleKey, ScaleColumns],
    starts_ms: I64,
) -> _Rival:
    key = candidate.key
    instants = clocks.instants(clocks.of(key))
    now_ms, selector = [instants[:0]], [instants[:0]]
    selectors: list[str | None] = []
    member = [np.zeros((pods.count, 0), np.bool_)]
    for part in candidate.of_targets:
        scale = scales.get(part.target)
        if scale is None:
            continue
        at, number = _selectors_at(part, instants, scale)
        now_ms.append(at)
        selector.append(np.where(number >= 0, number + len(selectors), -1))
        selectors += scale.selectors
        numbers, matched = matched_pods(pods, key[1], part.target[3], scale.selectors)
        member.append(np.zeros((pods.count, len(scale.selectors)), np.bool_))
        member[-1][numbers] = matched != 0
    at_ms, numbers = np.concatenate(now_ms), np.concatenate(selector)
    passes_ms = clocks.passes.get(candidate.cluster)
    known_twice_ms, known = _registered(candidate, passes_ms, at_ms, numbers, starts_ms)
    return _Rival(
        key, at_ms, numbers, np.concatenate(member, axis=1), known_twice_ms, known, tuple(selectors)
    )


def _selectors_at(candidate: Candidate, instants: I64, scale: ScaleColumns) -> tuple[I64, I64]:
    """Return the instants that an HPA has, and its selector's number at each.

    -1: it does not get as far as its metrics.
    """
    spec_of = candidate.spec_of(instants)
    now_ms, spec_of = instants[spec_of >= 0], spec_of[spec_of >= 0]
    seen = scale.seen(now_ms)
    size = scale.replicas[np.maximum(seen, 0)]
    least = np.array([least_of(p.spec.min_replicas) for p in candidate.periods], np.int64)[spec_of]
    most = np.array([p.spec.max_replicas for p in candidate.periods], np.int64)[spec_of]
    usable = np.array([selector_code(text) == codes.SELECTOR_OK for text in scale.selectors])
    number = scale.selector[np.maximum(seen, 0)]
    readable = (seen >= 0) & (scale.codes()[np.maximum(seen, 0)] == codes.SCALE_OK)
    reached = metrics_reached(size, least, most, readable, usable[number])
    return now_ms, np.where(reached, number, -1)


def least_of(min_replicas: int | None) -> int:
    """Return spec.minReplicas, which is 1 where it is unset."""
    return 1 if min_replicas is None else min_replicas


def metrics_reached(
    size: I64 | int, least: I64 | int, most: I64 | int, readable: Mask | bool, usable: Mask | bool
) -> Mask:
    """Say whether a sync gets as far as its metrics: then the HPA's selector is registered.

    Args:
        size: the scale's spec.replicas.
        least: of the spec (`least_of`).
        most: spec.maxReplicas.
        readable: whether the scale was read.
        usable: whether its selector is there and parses.
    """
    inside = (np.asarray(size) != 0) & (np.asarray(size) >= least) & (np.asarray(size) <= most)
    return np.asarray(inside & readable & usable)


def _registered(
    candidate: Candidate, passes_ms: I64 | None, now_ms: I64, selector: I64, starts_ms: I64
) -> tuple[I64, I64]:
    """Return since when (twice ms, ascending) which selector is registered, -1 for none.

    Twice, and 1 more for a sync: what is gone at an instant is gone before its syncs.
    """
    at = np.flatnonzero(selector >= 0)
    periods = [*candidate.earlier, *candidate.periods]
    ends = [p.to_ms for p in periods[-1:] if p.to_ms < NEVER_MS]
    ends += [p.to_ms for p, after in pairwise(periods) if _is_forgotten(p, after, passes_ms)]
    gone = np.array([*ends, *starts_ms.tolist()], np.int64)
    times = np.concatenate([2 * gone, 2 * now_ms[at] + 1])
    values = np.concatenate([np.full(gone.size, -1, np.int64), selector[at]])
    order = np.argsort(times, kind="stable")
    return times[order], values[order]


def _is_forgotten(period: SpecPeriod, after: SpecPeriod, passes_ms: I64 | None) -> bool:
    """Say whether an HPA was gone between two of its specs.

    Not where a recorder saw the same object again before any pass missed it.
    """
    if passes_ms is None:
        return after.from_ms > period.to_ms
    first, last = np.searchsorted(passes_ms, [period.to_ms, after.from_ms])
    return bool(period.uid != after.uid or first < last)


def _shares_pods(rival: _Rival, other: _Rival, pods: PodColumns) -> Mask:
    """Say at which of the rival's instants the other's registered selector matches its pods."""
    crowded = np.zeros(rival.now_ms.size, np.bool_)
    side: Literal["left", "right"] = "right" if other.key < rival.key else "left"
    at = np.searchsorted(other.known_twice_ms, 2 * rival.now_ms + 1, side=side) - 1
    theirs = np.where(at >= 0, other.known[np.maximum(at, 0)], -1) if other.known.size else at
    for k in range(rival.member.shape[1]):
        for m in range(other.member.shape[1]):
            both = np.flatnonzero(rival.member[:, k] & other.member[:, m])
            together = (rival.selector == k) & (theirs == m)
            if both.size and together.any():
                crowded |= together & _any_cached(rival.now_ms, pods, both)
    return crowded


def _any_cached(now_ms: I64, pods: PodColumns, numbers: I64) -> Mask:
    """Say at which instants any of some pods is in the cache."""
    numbers = numbers[pods.created_ms[numbers] < pods.gone_ms[numbers]]
    change = np.zeros(now_ms.size + 1, np.int64)
    np.add.at(change, np.searchsorted(now_ms, pods.created_ms[numbers]), 1)
    np.add.at(change, np.searchsorted(now_ms, pods.gone_ms[numbers]), -1)
    return np.cumsum(change)[:-1] > 0
