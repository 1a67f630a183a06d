"""Stated workload parameters: parts of `model.plant`, None where nothing is stated.

Times are ms, quantities milli-units.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hpabatch.model.selection import Selector


@dataclass(frozen=True, slots=True)
class SignalOverride:
    """Stated parameters of a signal, as in `plant.Signal`.

    `no_ceiling`: it is stated that there is none.
    """

    kind: str | None = None
    base_milli: int | None = None
    ceiling_milli: int | None = None
    no_ceiling: bool | None = None
    startup_milli: int | None = None
    rate_milli: int | None = None
    growth_milli_per_hour: int | None = None
    overload: str | None = None
    queue_milli: int | None = None
    request_milli: int | None = None


@dataclass(frozen=True, slots=True)
class PodsOverride:
    """Stated parameters of pods, as in `plant.Pods`.

    `mtbf_ms` is the mean serving time of a pod between two failures; `no_failures`: it is stated
    that there are none.
    """

    startup_ms: tuple[tuple[int, int], ...] | None = None
    reaction_ms: int | None = None
    termination_ms: int | None = None
    serves_while_terminating: bool | None = None
    capacity: int | None = None
    removal: str | None = None
    shares: tuple[int, ...] | None = None
    costs: tuple[int, ...] | None = None
    mtbf_ms: int | None = None
    no_failures: bool | None = None
    restart_ms: int | None = None
    surge_pct: int | None = None
    unavailable_pct: int | None = None
    initial_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PipelineOverride:
    """Stated parameters of a metrics API, as in `plant.Pipeline`."""

    interval_ms: int | None = None
    phase_ms: int | None = None
    window_ms: int | None = None
    lag_ms: int | None = None
    first_sample_ms: int | None = None
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """The SLO capacity as a share, in thousandths, of a pod's ceiling, request or rate."""

    share_milli: int
    of: str


@dataclass(frozen=True, slots=True)
class PlantOverride:
    """One entry of a plant file: stated parameters of the selected HPAs.

    `signals` are (glob of signal names, override), `pipelines` (API, override), both in order.
    `capacity` is the SLO capacity of one pod in milli-units, or a share. `place` is the position of
    the entry in a file.
    """

    selector: Selector = field(default_factory=Selector)
    signals: tuple[tuple[str, SignalOverride], ...] = ()
    pods: PodsOverride | None = None
    pipelines: tuple[tuple[str, PipelineOverride], ...] = ()
    capacity: int | CapacityShare | None = None
    place: str = field(default="", compare=False)
