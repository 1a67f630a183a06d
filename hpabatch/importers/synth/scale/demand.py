"""Demand of a synthetic workload over any number of days, and its recorded sizes."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hpabatch.importers.synth.fleet import Floats
from hpabatch.importers.synth.scale.streams import Purpose, Streams
from hpabatch.importers.synth.scale.workload import ScaleWorkload, mean_level

MINUTES = 1440
_HOLD_MINUTES = 10
_FAST_MINUTES = 6
_SATURDAY = 5


def demand_pods(work: ScaleWorkload, streams: Streams, days: int, weekday: int) -> Floats:
    """Return the demand per minute, in pods doing their plan; shape (days x 1440,).

    A cosine day (narrow at the top), quieter weekends, noise that changes over minutes and hours,
    and bursts. Each day is drawn by itself: more days change none of the earlier ones.

    Args:
        weekday: of the first day, 0 is Monday.
    """
    minute = np.arange(days * MINUTES)
    hour = (minute % MINUTES) / 60.0
    wave = (1.0 + np.cos((hour - work.peak_hour) / 24.0 * 2.0 * np.pi)) / 2.0
    shape = work.night + (1.0 - work.night) * wave**1.3
    noise = np.empty(days * MINUTES)
    bursts = np.ones(days * MINUTES)
    for day in range(days):
        rng = streams.open(Purpose.demand, day)
        slow = _knots(rng, 60) + 0.7 * _knots(rng, _FAST_MINUTES)
        noise[day * MINUTES : (day + 1) * MINUTES] = slow
        if (weekday + day) % 7 >= _SATURDAY:
            shape[day * MINUTES : (day + 1) * MINUTES] *= work.weekend
        for _ in range(int(rng.poisson(work.bursts))):
            start = day * MINUTES + int(rng.integers(MINUTES))
            _add_burst(bursts[start:], int(rng.integers(4, 40)), float(rng.uniform(1.15, 1.9)))
    scale = work.mean_pods / mean_level(work.night, work.weekend)
    return np.asarray(shape * np.maximum(1.0 + work.noise * noise, 0.1) * bursts * scale)


def _knots(rng: np.random.Generator, minutes: int) -> Floats:
    """Return a day of noise that bends every so many minutes."""
    values = rng.standard_normal(MINUTES // minutes + 1)
    return np.interp(np.arange(MINUTES), np.arange(len(values)) * minutes, values)


def _add_burst(bursts: Floats, minutes: int, factor: float) -> None:
    """Let the demand rise in three minutes, stay, and fade away."""
    since = np.arange(min(len(bursts), minutes + 60))
    rise = np.clip(since / 3.0, 0.0, 1.0)
    fade = np.exp(-np.maximum(since - minutes, 0.0) / 8.0)
    part = bursts[: len(since)]
    np.maximum(part, 1.0 + (factor - 1.0) * rise * fade, out=part)


def recorded_sizes(work: ScaleWorkload, demand: Floats) -> list[tuple[int, int]]:
    """Return (minute, size) of every change of size; the first is the size at minute 0.

    A stand-in for what an autoscaler did, not the HPA's rule: two minutes late, up when the need
    is a tenth more than the size, down when it was a tenth less for ten minutes.
    """
    late = np.concatenate([np.full(4, demand[0]), demand])
    need = sliding_window_view(late[:-2], 3).mean(axis=1)
    before = np.concatenate([np.full(_HOLD_MINUTES - 1, need[0]), need])
    highest = sliding_window_view(before, _HOLD_MINUTES).max(axis=1)
    size = _within(work, math.ceil(need[0]))
    changes = [(0, size)]
    for minute, (now, recent) in enumerate(zip(need.tolist(), highest.tolist(), strict=True)):
        if now > 1.1 * size:
            wish = _within(work, math.ceil(now))
        elif recent < 0.9 * size:
            wish = _within(work, math.ceil(recent))
        else:
            continue
        if wish != size:
            size = wish
            changes.append((minute, size))
    return changes


def _within(work: ScaleWorkload, size: int) -> int:
    return min(max(size, work.low), work.high)
