"""Demand of a synthetic workload over the weeks of the demo."""

from __future__ import annotations

import numpy as np

from data.generator.fleet import Workload
from hpabatch.importers.synth.fleet import Floats, Ints

DAY_S = 86_400
STEP_S = 60
DAY_STEPS = DAY_S // STEP_S

# A workday is the measure; a Saturday and a Sunday are quieter.
WEEKDAY_FACTORS = (1.0, 1.02, 1.0, 0.99, 0.95, 0.62, 0.55)
_RISE_MINUTES = 3.0
_FADE_MINUTES = 8.0


def demand_milli(workload: Workload, weekday: int, days: int, rng: np.random.Generator) -> Floats:
    """Return the work that arrives, in milli-cores of the whole workload, per minute.

    A cosine day (narrow at the top), the day of the week (`weekday` is that of the first day, 0 for
    Monday), slow noise (an AR(1) process, so that neighbors are alike) and daily bursts, which
    differ in height from day to day. Shape (days * 1440,).
    """
    minute = np.arange(DAY_STEPS * days)
    hour = minute % DAY_STEPS / 60.0
    wave = (1.0 + np.cos((hour - workload.peak_hour) / 24.0 * 2.0 * np.pi)) / 2.0
    shape = workload.night + (1.0 - workload.night) * wave**1.3
    day = minute // DAY_STEPS
    shape = shape * np.array(WEEKDAY_FACTORS)[(weekday + day) % 7]
    shape = shape * _slow_noise(workload.noise, days, rng)
    for burst in workload.bursts:
        height = (burst.factor - 1.0) * rng.uniform(0.6, 1.2, days)[day]
        shape = shape * _burst(hour, burst.hour, burst.minutes, height)
    return np.asarray(np.maximum(shape, 0.0) * workload.plan_milli * workload.peak_pods)


def _slow_noise(size: float, days: int, rng: np.random.Generator) -> Floats:
    """Return factors around 1, each minute's like the one before."""
    steps = rng.standard_normal(DAY_STEPS * days)
    noise = np.empty(steps.size)
    state = 0.0
    for i, step in enumerate(steps.tolist()):
        state = 0.9 * state + 0.43 * step
        noise[i] = state
    return np.asarray(np.maximum(1.0 + size * noise, 0.05))


def _burst(hour: Floats, start: float, minutes: float, height: Floats) -> Floats:
    """Return the factor per minute: up in three minutes, a plateau, then fading away."""
    since = (hour - start) * 60.0
    rise = np.clip(since / _RISE_MINUTES, 0.0, 1.0)
    fade = np.exp(-np.maximum(since - minutes, 0.0) / _FADE_MINUTES)
    return np.asarray(1.0 + height * rise * fade)


def smoothed(work: Floats, minutes: int = 30) -> Floats:
    """Return the mean of the last minutes: memory follows the work slowly."""
    total = np.concatenate([[0.0], np.cumsum(work)])
    end = np.arange(1, work.size + 1)
    begin = np.maximum(end - minutes, 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))


def whole(values: Floats) -> Ints:
    """Return values as whole numbers."""
    return np.rint(values).astype(np.int64)
