"""Demand of a synthetic workload over the day, the recorded replicas and the custom metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpabatch.importers.synth.fleet import Signal, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DAY_S = 86_400
STEP_S = 60
STEPS = DAY_S // STEP_S

# A workday is the measure; a Saturday and a Sunday are quieter.
WEEKDAY_FACTORS = (1.0, 1.02, 1.0, 0.99, 0.95, 0.62, 0.55)


@dataclass(frozen=True, slots=True)
class Change:
    """The recorded size of a workload from a second of the day on."""

    second: int
    replicas: int


def demand_milli(workload: Workload, weekday: int, rng: np.random.Generator) -> Floats:
    """Return the work that arrives, in milli-cores of the whole workload, per minute of the day.

    A cosine day (narrow at the top), the weekday, slow noise (an AR(1) process, so that neighbours
    are alike) and bursts. Shape (1440,).
    """
    hour = np.arange(STEPS) / 60.0
    wave = (1.0 + np.cos((hour - workload.peak_hour) / 24.0 * 2.0 * np.pi)) / 2.0
    shape = workload.night + (1.0 - workload.night) * wave**1.3
    shape = shape * _slow_noise(workload.noise, rng)
    for burst in workload.bursts:
        shape = shape * _burst(hour, burst.hour, burst.minutes, burst.factor)
    peak = workload.plan_milli * workload.peak_pods * WEEKDAY_FACTORS[weekday]
    return np.asarray(np.maximum(shape, 0.0) * peak)


def _slow_noise(size: float, rng: np.random.Generator) -> Floats:
    steps = rng.standard_normal(STEPS)
    noise = np.empty(STEPS)
    state = 0.0
    for i in range(STEPS):
        state = 0.8 * state + 0.6 * steps[i]
        noise[i] = state
    return np.asarray(np.maximum(1.0 + size * noise, 0.05))


def _burst(hour: Floats, start: float, minutes: float, factor: float) -> Floats:
    """Return the factor per minute: up in three minutes, a plateau, then fading away."""
    since = (hour - start) * 60.0
    rise = np.clip(since / 3.0, 0.0, 1.0)
    fade = np.exp(-np.maximum(since - minutes, 0.0) / 8.0)
    return np.asarray(1.0 + (factor - 1.0) * rise * fade)


def recorded_replicas(
    workload: Workload, demand: Floats, rng: np.random.Generator
) -> tuple[Change, ...]:
    """Return what the recording shows as the workload's size: a stand-in, not the HPA's rule.

    It follows the demand two minutes late, goes up at once and down only when the need was smaller
    for `hold_minutes`. The rule of the HPA exists once in this package and is not repeated here;
    once the closed loop exists, it takes this function's place.
    """
    late = np.concatenate([np.full(2, demand[0]), demand])[:STEPS]
    smooth = np.convolve(np.concatenate([np.full(2, late[0]), late]), np.full(3, 1 / 3), "valid")
    need = np.ceil(smooth / workload.plan_milli - 0.02).astype(np.int64)
    if workload.bounds(0.0)[0] == 0:
        # What is left of a workload at rest rounds up to one pod: let it go to zero.
        need[smooth < 0.12 * workload.plan_milli] = 0
    phase = int(rng.integers(0, STEP_S))
    changes: list[Change] = []
    size = -1
    for minute in range(STEPS):
        low, high = workload.bounds(minute / 60.0)
        recent = need[max(0, minute - workload.hold_minutes) : minute + 1]
        wish = max(int(need[minute]), min(size, int(recent.max())))
        wish = min(max(wish, low), high)
        if wish != size:
            changes.append(Change(0 if size < 0 else minute * STEP_S + phase, wish))
            size = wish
    return tuple(changes)


def total_signal(signal: Signal, demand: Floats, rng: np.random.Generator) -> Floats:
    """Return an Object or External metric's value per minute, in units; shape (1440,)."""
    work = demand / 1000.0
    noise = 1.0 + signal.noise * rng.standard_normal(STEPS)
    return np.asarray(np.maximum(work * signal.per_core * noise, 0.0))
