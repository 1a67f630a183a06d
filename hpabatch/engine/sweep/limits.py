"""Which HPAs can have their utilization counted of limits: those whose limits are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.requested import limits_of_signals
from hpabatch.engine.simulate.work import key_of
from hpabatch.inputs.grid import Grid
from hpabatch.inputs.grid_check import Checked
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import signal_name
from hpabatch.model.settings.setting import Setting

Limits = Mapping[tuple[str, str, str], Mapping[str, int]]
"""By HPA and signal what a pod's containers may use, in milli."""

OF_LIMIT: Final = ("percentage-of", "limit")


@dataclass(frozen=True, slots=True)
class Unlimited:
    """The HPAs, by place, that lack a limit that a setting asks for: the reason. `notes` tell."""

    reasons: Mapping[int, str]
    notes: tuple[str, ...] = ()

    def added_to(self, checked: Checked) -> Checked:
        """Return what does not fit with these."""
        of_limit = Setting((OF_LIMIT,))
        unfit = [
            {**parts, of_limit: (self.reasons[k],)} if k in self.reasons else parts
            for k, parts in enumerate(checked.unfit)
        ]
        return replace(checked, unfit=tuple(unfit))


def known_limits(plan: ReplayPlan, grid: Grid) -> tuple[Limits, Unlimited, list[str]]:
    """Return the limits of a plan's HPAs, who lacks them, and a complaint if all do.

    Nothing is read where no setting asks for them.

    Raises:
        HistoryError: the table of requests is broken.
    """
    values = dict(zip(grid.fields, grid.values, strict=True))
    if OF_LIMIT[1] not in values.get(OF_LIMIT[0], ()):
        return {}, Unlimited({}), []
    limits = limits_of_signals(plan)
    reasons = {}
    for k, candidate in enumerate(plan.chosen):
        lacking = _lacking(candidate.spec, limits[key_of(candidate)])
        if lacking:
            reasons[k] = f"the limit of {', '.join(lacking)} is not set, or not recorded"
    if not reasons:
        return limits, Unlimited({}), []
    count, first = len(plan.chosen), min(reasons)
    told = f"{'/'.join(key_of(plan.chosen[first])[1:])}: {reasons[first]}"
    if len(reasons) == count:
        return limits, Unlimited(reasons), [f"percentage-of=limit fits no HPA, such as {told}"]
    note = f"percentage-of=limit is left out for {len(reasons)} of {count} HPAs, such as {told}"
    return limits, Unlimited(reasons, (note,)), []


def _lacking(spec: HPASpec, limits: Mapping[str, int]) -> list[str]:
    """Return the signals whose targets are percentages and whose limits are not known."""
    found = []
    for metric in spec.metrics:
        source, name = metric.resource or metric.container_resource, signal_name(metric)
        by_share = source is not None and source.target.average_utilization is not None
        if by_share and name not in limits:
            found.append(name)
    return found
