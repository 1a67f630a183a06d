"""Trials of a comparison: replays with one of the changes between its two sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from hpabatch.engine.compare.causes import Key, Run, Trial
from hpabatch.engine.compare.changes import (
    PARTS,
    changed_switches,
    is_valid,
    part_words,
    parts_that_differ,
    with_part,
)
from hpabatch.engine.compare.sides import (
    Sides,
    restricted,
    under_versions,
    until_first,
    with_candidates,
)
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.versions import Versions
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.engine.replay.run import replay_shards
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.simulate.work import key_of
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import Profile

Change = Callable[[ReplayPlan], ReplayPlan]
"""Change of a replay plan: other rules or specs, without the HPAs that these refuse."""

Runner = Callable[[Change], Run]
"""Factory of runs of a change on one side; see `Trial`."""


def first_ms(differences: pl.DataFrame) -> dict[Key, int]:
    """Return when each HPA differs first, ms."""
    rows = differences.select(*KEY, pl.col("first_ts").to_physical())
    return {(c, n, h): int(ms) for c, n, h, ms in rows.iter_rows()}


def replayed(plan: ReplayPlan) -> Runner:
    """Return what replays HPAs of a plan with a change, until their first difference."""

    def with_change(change: Change) -> Run:
        def run(differences: pl.DataFrame) -> pl.DataFrame:
            wanted = first_ms(differences)
            changed = change(restricted(plan, wanted))
            left = {key_of(c): wanted[key_of(c)] for c in changed.chosen}
            firsts = differences.select(*KEY, ts="first_ts")
            found = [
                result.decisions.join(firsts, on=[*KEY, "ts"], how="semi")
                for cut in until_first(changed, left)
                for result in replay_shards(cut, range(len(cut.shards)))
            ]
            return pl.concat([pl.DataFrame(schema=TICK_SCHEMA), *found])

        return run

    return with_change


# ---- versions -----------------------------------------------------------------------------------


def with_switch(
    versions: Versions, others: Versions, name: str, clusters: Iterable[str]
) -> Versions:
    """Return versions with one switch as in others."""

    def switched(profile: Profile, other: Profile) -> Profile:
        value = {name: getattr(other, name)}
        return replace(profile, **value)

    return replace(
        versions,
        default=switched(versions.default, others.default),
        profiles={c: switched(versions.of(c), others.of(c)) for c in clusters},
    )


def version_trials(
    sides: Sides, runners: tuple[Runner, Runner], clusters: Sequence[str]
) -> list[Trial]:
    """Return a trial per switch that differs in any of some clusters; a runner for each side."""
    before, after = sides.before.versions, sides.after.versions
    names: dict[str, None] = {}
    for cluster in clusters:
        names |= dict.fromkeys(changed_switches(before.of(cluster), after.of(cluster)))

    def changed(own: Versions, other: Versions, name: str) -> Change:
        return lambda plan: under_versions(plan, with_switch(own, other, name, clusters))

    return [
        Trial(
            name,
            alone=runners[0](changed(before, after, name)),
            without=runners[1](changed(after, before, name)),
        )
        for name in names
    ]


# ---- manifests ----------------------------------------------------------------------------------


def spec_at(candidate: Candidate, now_ms: int) -> HPASpec:
    """Return the spec in force at an instant, else the last one."""
    number = int(candidate.spec_of(np.array([now_ms], np.int64))[0])
    return candidate.periods[number].spec


class SpecTrials:
    """The trials of specs: one part of each HPA's as on the other side."""

    def __init__(self, sides: Sides, differences: pl.DataFrame) -> None:
        """Take rows of differences; every HPA has its own specs."""
        self.sides = sides
        self.at = first_ms(differences)
        self.before = {key_of(c): c for c in sides.before.chosen}
        self.after = {key_of(c): c for c in sides.after.chosen}

    def specs(self, key: Key) -> tuple[HPASpec, HPASpec]:
        """Return both specs of an HPA at its first difference."""
        return spec_at(self.before[key], self.at[key]), spec_at(self.after[key], self.at[key])

    def words(self, key: Key) -> dict[str, str]:
        """Return what differs in an HPA's spec, by part."""
        before, after = self.specs(key)
        return {p: part_words(before, after, p) for p in parts_that_differ(before, after)}

    def trials(self, runners: tuple[Runner, Runner]) -> list[Trial]:
        """Return a trial per part of a spec; a runner for each side."""
        return [
            Trial(
                part,
                alone=runners[0](self._with(part, self.before, 1)),
                without=runners[1](self._with(part, self.after, 0)),
            )
            for part in PARTS
        ]

    def _with(self, part: str, own: Mapping[Key, Candidate], other: int) -> Change:
        """Return the change of plans that takes a part from one of the two `specs`."""

        def changed(plan: ReplayPlan) -> ReplayPlan:
            found = []
            for candidate in plan.chosen:
                key = key_of(candidate)
                specs = self.specs(key)
                if part not in parts_that_differ(*specs):
                    continue
                new = _with_part(own[key], part, specs[other])
                profile = plan.profile_of(candidate.cluster)
                if all(is_valid(new.name, new.namespace, p.spec, profile) for p in new.periods):
                    found.append(new)
            return with_candidates(plan, found)

        return changed


def _with_part(candidate: Candidate, part: str, other: HPASpec) -> Candidate:
    periods = (replace(p, spec=with_part(p.spec, part, other)) for p in candidate.periods)
    return replace(candidate, periods=tuple(periods))
