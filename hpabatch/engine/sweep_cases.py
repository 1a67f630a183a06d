"""From settings to what is simulated: settings that come to the same run once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from hpabatch.arrays.simulation import COMBINE_MAX
from hpabatch.engine.candidates import SpecPeriod
from hpabatch.engine.closed_loop import KEY
from hpabatch.engine.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulation_case import SimulationCase
from hpabatch.model.config import Profile
from hpabatch.model.hpa import HPASpec
from hpabatch.model.plant import signal_name
from hpabatch.model.policy_sets import PolicySet
from hpabatch.model.setting import (
    Setting,
    SettingError,
    apply_setting,
    effective_key,
    parts_of,
    what_if,
)
from hpabatch.sources.grid import Grid

LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class SettingCases:
    """An HPA's case as recorded, and what its settings are made of.

    `limits` are by signal what a pod's containers may use, in milli, where that is known; `unfit`
    are the parts of settings that it cannot have.
    """

    case: SimulationCase
    profile: Profile
    limits: Mapping[str, int]
    unfit: Collection[Setting] = ()

    @property
    def today(self) -> HPASpec:
        """The last spec that was in force."""
        return self.case.periods[-1].spec

    def under(self, setting: Setting, sets: Mapping[str, PolicySet]) -> SimulationCase:
        """Return the case of a setting.

        Raises:
            SettingError: it does not fit the HPA.
        """
        case, asked = self.case, what_if(setting)
        spec = apply_setting(setting, self.today, sets, self.profile, case.flags)
        if asked.percentage_of == LIMIT:
            self._check_limits(spec)
        period_ms = asked.sync_period_ms or case.period_ms
        return replace(
            case,
            periods=(SpecPeriod(ALWAYS_MS, NEVER_MS, spec),),
            setting=setting.name,
            period_ms=period_ms,
            steps=max(case.steps * case.period_ms // period_ms, 1),
            combine=asked.combine or COMBINE_MAX,
            requests=self.limits if asked.percentage_of == LIMIT else {},
        )

    def _check_limits(self, spec: HPASpec) -> None:
        for metric in spec.metrics:
            member, name = metric.resource or metric.container_resource, signal_name(metric)
            by_share = member is not None and member.target.average_utilization is not None
            if by_share and name not in self.limits:
                raise SettingError([f"percentage-of=limit: the limit of {name} is not known"])


def cases_of(
    hpas: Sequence[SettingCases],
    grid: Grid,
    sets: Mapping[str, PolicySet],
    first: int,
    last: int,
) -> tuple[list[SimulationCase], pl.DataFrame]:
    """Return the cases of settings first:last, and which settings each of them stands for.

    The frame has a row per HPA and setting that fits it, in their order: KEY, `wanted` (the
    setting's name) and `setting` (the name of the case that it is run as).
    """
    cases: list[SimulationCase] = []
    rows: list[tuple[str, ...]] = []
    for hpa in hpas:
        names: dict[Any, str] = {}
        key = hpa.case.key[:3]
        for setting in grid.settings[first:last]:
            if any(part in hpa.unfit for part in parts_of(setting)):
                continue
            try:
                case = hpa.under(setting, sets)
            except SettingError:  # (limits are not known, or a scenario changed the spec)
                continue
            spec = case.periods[0].spec
            same = effective_key(spec, what_if(setting), hpa.case.period_ms)
            if same not in names:
                names[same] = setting.name
                cases.append(case)
            rows.append((*key, setting.name, names[same]))
    return cases, pl.DataFrame(rows, schema=[*KEY, "wanted", "setting"], orient="row")
