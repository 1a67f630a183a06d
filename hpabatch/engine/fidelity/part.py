"""First part of a history, on which a plant is fitted that is judged on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hpabatch.engine.fit.usage import (
    POD_COUNTS,
    SIGNAL_COLUMNS,
    Probes,
    SignalUsage,
    Usage,
    observed_usage,
)
from hpabatch.engine.fit.usage_pods import Lives
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan


def split_ms(usage: Usage, share: float) -> int:
    """Return the instant before which the first `share` of an HPA's ticks lies, in ms.

    The first part has at least one tick, and is all of it only if there is no other.
    """
    ticks = usage.now_ms.size
    if ticks == 1:
        return int(usage.now_ms[0]) + 1
    return int(usage.now_ms[min(max(int(share * ticks), 1), ticks - 1)])


def first_part(usage: Usage, until_ms: int) -> Usage:
    """Return what had been observed before an instant, as if the recording had ended there.

    Two exceptions: limits are those at the end, and the sums over each pod's samples
    (`SignalUsage.pods`) are those of no sample, since they cannot be divided. Growth with the age
    of pods is fitted on these sums: for it use `first_parts_read`.
    """
    emptied = {}
    for name, signal in usage.signals.items():
        pods = signal.pods.copy()
        pods.even, pods.odd, pods.settled = 0, 0, 0
        emptied[name] = replace(signal, pods=pods)
    return _until(replace(usage, signals=emptied), until_ms)


def _until(usage: Usage, until_ms: int) -> Usage:
    ticks = int(np.searchsorted(usage.now_ms, until_ms))
    by_tick = ("now_ms", "period", "replicas", *POD_COUNTS)
    return replace(
        usage,
        signals={n: _signal_until(s, ticks, until_ms) for n, s in usage.signals.items()},
        lives=_lives_until(usage.lives, until_ms),
        **{name: getattr(usage, name)[:ticks] for name in by_tick},
    )


def _signal_until(signal: SignalUsage, ticks: int, until_ms: int) -> SignalUsage:
    rows = int(np.searchsorted(signal.tick, ticks))
    probes, pods = signal.probes, signal.pods.copy()
    early = probes.ts_ms < until_ms
    pods.first_ms[pods.first_ms >= until_ms] = -1
    return replace(
        signal,
        probes=Probes(*(getattr(probes, field.name)[early] for field in fields(probes))),
        pods=pods,
        **{name: getattr(signal, name)[:rows] for name in ("tick", *SIGNAL_COLUMNS)},
    )


def _lives_until(lives: Lives, until_ms: int) -> Lives:
    """Return lives of which nothing from an instant on has happened yet."""
    moments = ("created_ms", "started_ms", "ready_ms", "deleted_ms", "gone_ms", "again_ms")
    known: dict[str, Any] = {}
    for name in moments:
        at_ms = getattr(lives, name)
        known[name] = np.where(at_ms < until_ms, at_ms, NEVER_MS)
    steps, lost = int(np.searchsorted(lives.step_ms, until_ms)), lives.lost_ms < until_ms
    known |= {"step_ms": lives.step_ms[:steps], "step_ready": lives.step_ready[:steps]}
    known |= {"lost_pod": lives.lost_pod[lost], "lost_ms": lives.lost_ms[lost]}
    return replace(lives, **known | {"again_ms": known["again_ms"][lost]})


def first_parts_read(
    plan: ReplayPlan, usages: Sequence[Usage], until_ms: Sequence[int]
) -> Iterator[Usage]:
    """Yield the first part of each of some usages of one cluster, their pods' sums included.

    The samples are read again, once for every different instant, by a plan that ends there.

    Raises:
        HistoryError: a table is broken.
    """
    place = {id(candidate): k for k, candidate in enumerate(plan.chosen)}
    found: dict[int, Usage] = {}
    for end_ms in sorted(set(until_ms)):
        theirs = [u for u, ms in zip(usages, until_ms, strict=True) if ms == end_ms]
        part = narrow_plan(plan, [place[id(usage.candidate)] for usage in theirs])
        clocks = replace(plan.clocks, to_ms=end_ms - 1)
        part = replace(part, shards=((0, len(theirs)),), clocks=clocks)
        for usage in observed_usage(part, shards=[0]):
            found[id(usage.candidate)] = _until(usage, end_ms)
    for usage, end_ms in zip(usages, until_ms, strict=True):
        yield found.get(id(usage.candidate), first_part(usage, end_ms))
