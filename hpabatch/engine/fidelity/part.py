"""The first part of a history: what a plant may be fitted on if it is judged on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hpabatch.engine.fit.usage import Probes, SignalUsage, Usage, usage_of_shards
from hpabatch.engine.fit.usage_pods import Lives
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.layout.records import I64


def split_ms(usage: Usage, share: float) -> int:
    """Return the instant before which the first `share` of an HPA's ticks lies, in ms.

    The first part has at least one tick, and is all of it only if there is no other.
    """
    ticks = usage.now_ms.size
    if ticks == 1:
        return int(usage.now_ms[0]) + 1
    return int(usage.now_ms[min(max(int(share * ticks), 1), ticks - 1)])


def first_part(usage: Usage, until_ms: int) -> Usage:
    """Return what had been observed before an instant: as if the recording had ended there.

    But limits are those at the end; and the sums over each pod's samples (`SignalUsage.pods`)
    cannot be divided, so they are those of no sample. What grows with the age of pods is fitted on
    them: `first_parts_read` has them.
    """
    emptied = {}
    for name, signal in usage.signals.items():
        pods = signal.pods.copy()
        pods.even, pods.odd, pods.settled = 0, 0, 0
        emptied[name] = replace(signal, pods=pods)
    return _until(replace(usage, signals=emptied), until_ms)


def _until(usage: Usage, until_ms: int) -> Usage:
    ticks = int(np.searchsorted(usage.now_ms, until_ms))
    return replace(
        usage,
        now_ms=usage.now_ms[:ticks],
        period=usage.period[:ticks],
        replicas=usage.replicas[:ticks],
        ready=usage.ready[:ticks],
        serving=usage.serving[:ticks],
        starting=usage.starting[:ticks],
        deleting=usage.deleting[:ticks],
        signals={n: _signal_until(s, ticks, until_ms) for n, s in usage.signals.items()},
        lives=_lives_until(usage.lives, until_ms),
    )


def _signal_until(signal: SignalUsage, ticks: int, until_ms: int) -> SignalUsage:
    rows = int(np.searchsorted(signal.tick, ticks))
    probes, pods = signal.probes, signal.pods.copy()
    early = probes.ts_ms < until_ms
    pods.first_ms[pods.first_ms >= until_ms] = -1
    return replace(
        signal,
        tick=signal.tick[:rows],
        newest_ms=signal.newest_ms[:rows],
        mean_ms=signal.mean_ms[:rows],
        counted=signal.counted[:rows],
        sum_milli=signal.sum_milli[:rows],
        least_milli=signal.least_milli[:rows],
        most_milli=signal.most_milli[:rows],
        starting=signal.starting[:rows],
        starting_milli=signal.starting_milli[:rows],
        requested=signal.requested[:rows],
        request_milli=signal.request_milli[:rows],
        probes=Probes(
            probes.spacing_ms[early],
            probes.window_ms[early],
            probes.lag_ms[early],
            probes.ts_ms[early],
        ),
        pods=pods,
    )


def _lives_until(lives: Lives, until_ms: int) -> Lives:
    """Return lives of which nothing from an instant on has happened yet."""

    def known(at_ms: I64) -> I64:
        return np.where(at_ms < until_ms, at_ms, NEVER_MS)

    steps = int(np.searchsorted(lives.step_ms, until_ms))
    lost = lives.lost_ms < until_ms
    return replace(
        lives,
        created_ms=known(lives.created_ms),
        started_ms=known(lives.started_ms),
        ready_ms=known(lives.ready_ms),
        deleted_ms=known(lives.deleted_ms),
        gone_ms=known(lives.gone_ms),
        step_ms=lives.step_ms[:steps],
        step_ready=lives.step_ready[:steps],
        lost_pod=lives.lost_pod[lost],
        lost_ms=lives.lost_ms[lost],
        again_ms=known(lives.again_ms[lost]),
    )


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
        rows = [place[id(usage.candidate)] for usage in theirs]
        part = replace(
            plan,
            chosen=tuple(plan.chosen[r] for r in rows),
            places=tuple(plan.places[r] for r in rows),
            rows=tuple(plan.rows[r] for r in rows),
            shards=((0, len(rows)),),
            clocks=replace(plan.clocks, to_ms=end_ms - 1),
        )
        for usage in usage_of_shards(part, [0]):
            found[id(usage.candidate)] = _until(usage, end_ms)
    for usage, end_ms in zip(usages, until_ms, strict=True):
        yield found.get(id(usage.candidate), first_part(usage, end_ms))
