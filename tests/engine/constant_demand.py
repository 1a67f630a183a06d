"""HPAs under a constant demand, by the static analysis: resting sizes, and where they settle.

Held against the naive twin and against simulations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hpabatch.engine.analyze.loop import moves_of, settle
from hpabatch.engine.analyze.meter import Meter, Ruled, read_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import signal_name
from hpabatch.model.versions import DEFAULT_K8S, PROFILES, ControllerFlags, Profile

Amounts = int | Mapping[str, int]
"""Milli-units for every signal, or by signal (`model.plant.signal_name`)."""

_FLAGS = ControllerFlags()
_PROFILE = PROFILES[DEFAULT_K8S]


@dataclass(frozen=True, slots=True)
class _Demands:
    """An HPA's metrics, each with its demand; None: that metric cannot be computed."""

    meters: Sequence[Meter | None]
    demands: Sequence[int]

    def wish(self, size: int) -> int | None:
        """Return what the metrics together ask for; None if they cannot move the target.

        The largest counts; with a metric that cannot be computed nothing shrinks.
        """
        asked = [
            meter.wish_for(demand, size) if meter is not None else None
            for meter, demand in zip(self.meters, self.demands, strict=True)
        ]
        known = [wish for wish in asked if wish is not None]
        if not known:
            return None
        best = max(known)
        return None if len(known) < len(asked) and best < size else best


def fixed_points(
    spec: HPASpec,
    demand_milli: Amounts,
    request_milli: Amounts = 1000,
    *,
    base_milli: Amounts = 0,
    unit_milli: Amounts = 1,
    flags: ControllerFlags = _FLAGS,
    profile: Profile = _PROFILE,
) -> tuple[int, ...]:
    """Return the sizes at which an HPA rests under a constant demand, ascending.

    With integer percent `u = (base + demand // n) * 100 // request` a size n strictly between the
    bounds is one of them if u / target is within the tolerance or `ceil(u / target * n)` is n.
    """
    ruled = read_spec(spec, flags, profile)
    demands = _demands(ruled, demand_milli, request_milli, base_milli, unit_milli)
    moves = moves_of(ruled)
    sizes = range(ruled.lowest, ruled.highest + 1)
    return tuple(size for size in sizes if moves.next_size(size, demands.wish(size)) == size)


def settles(
    spec: HPASpec,
    demand_milli: Amounts,
    n0: int,
    request_milli: Amounts = 1000,
    *,
    base_milli: Amounts = 0,
    unit_milli: Amounts = 1,
    flags: ControllerFlags = _FLAGS,
    profile: Profile = _PROFILE,
) -> tuple[int, ...]:
    """Return the sizes in which an HPA ends that starts with n0 replicas; several: a cycle.

    Windows and policies are run tick by tick from a controller that has just started.
    """
    ruled = read_spec(spec, flags, profile)
    demands = _demands(ruled, demand_milli, request_milli, base_milli, unit_milli)
    return settle(ruled, demands.wish, n0).members


def _demands(
    ruled: Ruled, demand: Amounts, request: Amounts, base: Amounts, unit: Amounts
) -> _Demands:
    def of(amounts: Amounts, signal: str, default: int = 1) -> int:
        return amounts if isinstance(amounts, int) else amounts.get(signal, default)

    meters: list[Meter | None] = []
    signals = [signal_name(metric.metric) for metric in ruled.metrics]
    for metric, signal in zip(ruled.metrics, signals, strict=True):
        meter = replace(
            metric,
            request_milli=of(request, signal),
            base_milli=of(base, signal, 0),
            unit_milli=of(unit, signal),
        )
        meters.append(None if metric.error else meter)
    return _Demands(meters, [of(demand, signal) for signal in signals])
