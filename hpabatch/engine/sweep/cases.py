"""Simulation cases of a sweep: every HPA under its settings, equal runs once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.candidates import Skipped, SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.requested import limits_of_signals
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.measures import HOUR_MS
from hpabatch.engine.simulate.result import Span
from hpabatch.engine.simulate.run import KEY
from hpabatch.engine.simulate.scenario import with_bounds
from hpabatch.errors import RefusedError
from hpabatch.inputs.grid import Grid
from hpabatch.inputs.scenarios import Scenario
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import signal_name
from hpabatch.model.printable import counted
from hpabatch.model.settings.fields import PolicySet
from hpabatch.model.settings.setting import (
    TODAY,
    Setting,
    apply_setting,
    effective_key,
    parts_of,
    what_if,
)
from hpabatch.model.versions import Profile
from hpabatch.packing.simulation import COMBINE_MAX

OF_LIMIT: Final = ("percentage-of", "limit")
_TOLD: Final = 3
_NAMES: Final = dict.fromkeys((*KEY, "setting", "ran"), pl.String())


@dataclass(frozen=True, slots=True)
class SettingCases:
    """An HPA's case as recorded, and what its settings are made of.

    `today` is the last spec that was in force, `limits` are by signal what a pod's containers may
    use, in milli, where that is known; `scenario` may set bounds for a while. `unfit` are the parts
    of settings that it cannot have.
    """

    case: SimulationCase
    today: HPASpec
    profile: Profile
    limits: Mapping[str, int]
    scenario: Scenario | None = None
    unfit: Collection[Setting] = ()

    def fits(self, setting: Setting) -> bool:
        """Return whether the HPA can have a setting."""
        return not any(part in self.unfit for part in parts_of(setting))

    def spec(self, setting: Setting, sets: Mapping[str, PolicySet]) -> HPASpec:
        """Return the spec of a setting that fits."""
        return apply_setting(setting, self.today, sets, self.profile, self.case.flags)

    def under(self, setting: Setting, spec: HPASpec) -> SimulationCase:
        """Return the case of a setting and its spec.

        Raises:
            RefusedError: the scenario sets bounds that the spec cannot have.
        """
        case, asked = self.case, what_if(setting)
        periods: tuple[SpecPeriod, ...] = (SpecPeriod(ALWAYS_MS, NEVER_MS, spec),)
        if self.scenario is not None:
            name = case.workload.hpa
            periods = with_bounds(self.scenario, name, spec, case.start_ms, self.profile)
        period_ms = asked.sync_period_ms or case.period_ms
        return replace(
            case,
            periods=periods,
            setting=setting.name,
            period_ms=period_ms,
            steps=max(case.steps * case.period_ms // period_ms, 1),
            combine=asked.combine or COMBINE_MAX,
            requests=self.limits if asked.percentage_of == OF_LIMIT[1] else {},
        )


def fitting(
    hpas: Sequence[SettingCases], grid: Grid, sets: Mapping[str, PolicySet]
) -> tuple[list[SettingCases], list[Skipped], list[str]]:
    """Return HPAs, and in notes their settings, that can be under the bounds of their scenarios.

    Those that cannot be even as today are in the second list.
    """
    kept, skipped, notes = [], [], []
    parts = (part for setting in grid.settings for part in parts_of(setting))
    bounds = dict.fromkeys(part for part in parts if part.values[0][0] in ("min", "max"))
    for hpa in hpas:
        if hpa.scenario is None:
            kept.append(hpa)
            continue
        key = hpa.case.key[:3]
        found: dict[Setting, str] = {}
        for part in (TODAY, *bounds):
            try:
                if hpa.fits(part):
                    hpa.under(part, hpa.spec(part, sets))
            except RefusedError as error:
                found[part] = str(error)
        if TODAY in found:
            skipped.append(Skipped(*key, found[TODAY]))
            continue
        kept.append(replace(hpa, unfit=frozenset({*hpa.unfit, *found})))
        for reason in dict.fromkeys(found.values()):
            names = [part.name for part, why in found.items() if why == reason]
            more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
            told = ", ".join(names[:_TOLD]) + more
            notes.append(f"{'/'.join(key[1:])}: {told} is left out: {reason}")
    return kept, skipped, notes


def cases_of(
    hpas: Sequence[SettingCases], grid: Grid, sets: Mapping[str, PolicySet], first: int, last: int
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
            if not hpa.fits(setting):
                continue
            spec = hpa.spec(setting, sets)
            same = effective_key(spec, what_if(setting), hpa.case.period_ms)
            if same not in names:
                names[same] = setting.name
                cases.append(hpa.under(setting, spec))
            rows.append((*key, setting.name, names[same]))
    return cases, pl.DataFrame(rows, schema=[*KEY, "wanted", "setting"], orient="row")


def siblings_of(cases: Sequence[SimulationCase]) -> list[list[SimulationCase]]:
    """Return the cases that only differ by maxReplicas together, the smallest first."""
    groups: dict[Any, list[SimulationCase]] = {}
    for case in cases:
        least = tuple((p.from_ms, p.to_ms, replace(p.spec, max_replicas=1)) for p in case.periods)
        same = (case.key[:3], least, case.period_ms, case.combine, bool(case.requests))
        groups.setdefault(same, []).append(case)
    return [
        sorted(group, key=lambda case: [period.spec.max_replicas for period in case.periods])
        for group in groups.values()
    ]


def as_run(copies: pl.DataFrame, groups: Sequence[Sequence[SimulationCase]]) -> pl.DataFrame:
    """Return the frame of `cases_of` with the first case of each group for all of the group."""
    rows = [(*case.key[:4], group[0].key[3]) for group in groups for case in group]
    ran = pl.DataFrame(rows, schema=_NAMES, orient="row")
    names = [*KEY, "setting"]
    joined = copies.join(ran, on=names, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("ran", "setting").alias("setting")).drop("ran")


# ---- what was recorded of today's setting --------------------------------------------------------


def spans_of(hpas: Sequence[SettingCases]) -> Iterator[Span]:
    """Yield from and until when today's setting was recorded of HPAs that had it all along."""
    for case in (hpa.case for hpa in hpas):
        if len(case.periods) > 1 and case.periods[-1].from_ms > case.start_ms:
            continue
        to_ms = case.start_ms + case.steps * case.period_ms
        yield (*case.key[:3], 0), case.key[:3], case.start_ms, to_ms


def block_spans(hpas: Sequence[SettingCases], blocks: pl.DataFrame) -> Iterator[Span]:
    """Yield the same for each of their blocks, which are rows of `blocks.parquet`."""
    whole = {hpa: to_ms for _, hpa, _, to_ms in spans_of(hpas)}
    today = blocks.filter(pl.col("setting_id") == 0).sort(*KEY, "block")
    rows = today.select(*KEY, "block", pl.col("start").dt.epoch("ms"), "hours").iter_rows()
    for cluster, namespace, hpa, block, start_ms, hours in rows:
        key = cluster, namespace, hpa
        if key in whole:
            yield (*key, 0, block), key, start_ms, start_ms + round(hours * HOUR_MS)


# ---- percentages of limits -----------------------------------------------------------------------


Limits = Mapping[tuple[str, str, str], Mapping[str, int]]
"""By HPA and signal what a pod's containers may use, in milli."""


Unlimited = Mapping[int, str]
"""By place the HPAs without a limit that a setting needs, and which limits they lack."""


def known_limits(plan: ReplayPlan, grid: Grid) -> tuple[Limits, Unlimited]:
    """Return the limits of a plan's HPAs, and the HPAs without.

    Nothing is read where no setting asks for them.

    Raises:
        HistoryError: the table of requests is broken.
    """
    values = dict(zip(grid.fields, grid.values, strict=True))
    if OF_LIMIT[1] not in values.get(OF_LIMIT[0], ()):
        return {}, {}
    limits = limits_of_signals(plan)
    lacking = {k: _lacking(c.spec, limits[c.key]) for k, c in enumerate(plan.chosen)}
    return limits, {
        k: f"the limit of {', '.join(names)} is not set, or not recorded"
        for k, names in lacking.items()
        if names
    }


def unlimited_told(plan: ReplayPlan, unlimited: Unlimited) -> tuple[list[str], list[str]]:
    """Return a complaint if the setting fits no HPA, else a note if it does not fit some."""
    if not unlimited:
        return [], []
    count, first = len(plan.chosen), min(unlimited)
    told = f"such as {'/'.join(plan.chosen[first].key[1:])}: {unlimited[first]}"
    if len(unlimited) == count:
        return [f"percentage-of=limit fits no HPA, {told}"], []
    some = f"{len(unlimited)} of {counted(count, 'HPA')}"
    return [], [f"percentage-of=limit is left out for {some}, {told}"]


def _lacking(spec: HPASpec, limits: Mapping[str, int]) -> list[str]:
    """Return the signals whose targets are percentages and whose limits are not known."""
    found = []
    for metric in spec.metrics:
        by_share = metric.target.average_utilization is not None
        if by_share and (name := signal_name(metric)) not in limits:
            found.append(name)
    return found
