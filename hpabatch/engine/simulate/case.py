"""Simulation case: one HPA under one setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.requested import NOT_REQUESTED, Requested
from hpabatch.model.plant import Event
from hpabatch.model.versions import ControllerFlags
from hpabatch.packing.simulation import COMBINE_MAX, SimulatedLane
from hpabatch.packing.workloads import Workload


@dataclass(frozen=True, slots=True)
class SimulationCase:
    """One HPA under one setting.

    `periods` are the specs and when they are in force; before the first one it counts too. A run
    has `steps` ticks from `start_ms` on, `period_ms` (the effective sync period) apart. `combine`
    and `requests` are what no version does, as in `SimulatedLane`.
    """

    workload: Workload
    periods: tuple[SpecPeriod, ...]
    setting: str
    start_ms: int
    period_ms: int
    steps: int
    flags: ControllerFlags
    events: tuple[Event, ...] = ()
    requested: Requested = NOT_REQUESTED
    combine: str = COMBINE_MAX
    requests: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The columns that name it: cluster, namespace, HPA, setting."""
        w = self.workload
        return w.cluster, w.namespace, w.hpa, self.setting

    def lane(self, individual: bool = False) -> SimulatedLane:
        """Return the case as a lane."""
        return SimulatedLane(
            workload=self.workload,
            specs=tuple((p.from_ms, p.spec) for p in self.periods),
            start_ms=self.start_ms,
            period_ms=self.period_ms,
            steps=self.steps,
            events=self.events,
            individual=individual,
            combine=self.combine,
            requests=self.requests,
        )
