"""Causes of differences: of many changes, those that make an HPA's first difference.

Each change (a switch of the version, a part of the spec) is tried alone: one side is run again with
that one thing as on the other side. If the HPA then decides at that tick as the other side does,
the change makes the difference alone. If no change does, each is taken back from the other side:
the changes without which the tick is as it was are needed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.compare.frames import DECIDES, DECISION, EXPLANATION, FROM, TICK, TO
from hpabatch.engine.compare.sides import (
    Key,
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
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import Profile

ALONE: Final = "alone"
TOGETHER: Final = "together"

Change = Callable[[ReplayPlan], ReplayPlan]
"""Change of a replay plan: other rules or specs, without the HPAs that these refuse."""

Trials = Mapping[str, tuple[Change, Change]]
"""By name each change: to be made on the first side, and to be taken back on the other."""

SWITCHES: Final[dict[str, str]] = {
    "succeeded_pods_ignored": "pods that succeeded are ignored, like failed ones",
    "tolerance_by_bounds": "within the tolerance is 1-t <= ratio <= 1+t, not abs(1-ratio) <= t",
    "zero_needs_condition": "a target at 0 stays disabled unless its HPA put it there",
    "partial_failure_guard": "nothing shrinks while some metrics are invalid",
    "missing_charged_by_target": (
        "a missing pod is charged the target of its request where that is above 100%"
    ),
    "ratio_one_adds_nothing": "at a ratio of exactly 1, missing pods add nothing to an average",
    "plain_direction_guard": "an average never turns to the other side of the current size",
    "requests_after_emptiness": "a missing request is an error only once some sample is left",
    "windows_clamp_current": "both stabilization windows bound the current size",
    "both_event_lists": "moves up and down both count in either direction's policies",
    "averages_clamped": "sums, proposals and averages of External averages are capped",
    "totals_clamped": "sums of External values, and proposals of plain values, are capped",
    "container_may_lack": "a sample without the metric's container is a missing pod, not an error",
    "stored_as_v2": "metrics stay as written; before, stored as v1, cpu utilization moved last",
    "first_cpu_utilization_kept": "the first cpu utilization is kept, wherever it stands",
    "sidecars_counted": "requests of restartable init containers count",
    "container_must_exist": "a container that a pod does not have is an error, not a request of 0",
    "ambiguity_checked": "an HPA that shares pods with another one does not scale",
    "api_version_validated": "the API server checks the apiVersion of targets",
    "gate_container_metrics": "feature gate HPAContainerMetrics: ContainerResource metrics",
    "gate_scale_to_zero": "feature gate HPAScaleToZero",
    "gate_configurable_tolerance": "feature gate HPAConfigurableTolerance: tolerances in behavior",
    "gate_pod_level_resources": "feature gate PodLevelResources: requests of the pod as a whole",
}
"""Meanings of a profile's switches that are on; docs/versions.md has the evidence of each."""

PARTS: Final[dict[str, str]] = {
    "minReplicas": "min_replicas",
    "maxReplicas": "max_replicas",
    "metrics": "metrics",
    "behavior": "behavior",
}
"""The fields of a spec that make decisions, as the API calls them and as `HPASpec` does."""


def with_causes(
    differences: pl.DataFrame,
    trials: Trials,
    words: Callable[[Key], Mapping[str, str]],
    plans: tuple[ReplayPlan, ReplayPlan],
    report: Callable[[float], None],
) -> pl.DataFrame:
    """Return differences with the columns `cause`, `how` and `rule`, null where none is found.

    Args:
        differences: of `frames.find_differences`.
        trials: of everything that changed, in the order in which causes are to be named.
        words: what each change is for an HPA, in words.
        plans: of the first side and the second.
        report: called with the share that is done.
    """
    found: dict[Key, tuple[str, list[str]]] = {}
    left, done = differences, 0
    # In half of the time, at most: few differences are left for the second round.
    for how, side in ((ALONE, TO), (TOGETHER, FROM)):
        names: dict[Key, list[str]] = {}
        for name, changes in trials.items() if left.height else ():
            which = 0 if how == ALONE else 1
            for key in _alike(left, _replayed(plans[which], changes[which], left), side):
                names.setdefault(key, []).append(name)
            done += 1
            report(done / (2 * len(trials)))
        found |= {key: (how, theirs) for key, theirs in names.items()}
        known = pl.DataFrame(list(found), schema=dict.fromkeys(KEY, pl.String()), orient="row")
        left = differences.join(known, on=KEY, how="anti", maintain_order="left")
    rows: list[tuple[str | None, ...]] = []
    for c, n, h in differences.select(KEY).iter_rows():
        if (c, n, h) in found:
            how, theirs = found[c, n, h]
            rows.append((", ".join(theirs), how, sentence(how, theirs, words((c, n, h)))))
        else:
            rows.append((None, None, None))
    schema = dict.fromkeys(("cause", "how", "rule"), pl.String())
    return differences.with_columns(pl.DataFrame(rows, schema=schema, orient="row"))


def _alike(differences: pl.DataFrame, ticks: pl.DataFrame, side: str) -> list[Key]:
    """Return the HPAs whose tick at the first difference equals that of a side."""
    compared = (*DECISION, *EXPLANATION)
    tried = ticks.select(*TICK, *compared).rename({"ts": "first_ts"})
    rows = differences.join(tried, on=[*KEY, "first_ts"], maintain_order="left")

    def same(name: str) -> pl.Expr:
        return pl.col(name).eq_missing(pl.col(f"{name}{side}"))

    decided = pl.all_horizontal(same(name) for name in compared if name in DECISION)
    # Of a difference in the explanation alone, what the two sides have in common says nothing.
    explained = pl.all_horizontal(
        same(name) | pl.col(f"{name}{FROM}").eq_missing(pl.col(f"{name}{TO}")) for name in compared
    )
    alike = pl.when(pl.col("differs") == DECIDES).then(decided).otherwise(explained)
    return [(c, n, h) for c, n, h in rows.filter(alike).select(KEY).iter_rows()]


def sentence(how: str, names: Sequence[str], words: Mapping[str, str]) -> str:
    """Return the changes that make a difference in words; `words` say what each change is."""
    told = "; ".join(words[name] for name in names)
    if len(names) == 1:
        return told if how == ALONE else f"{told}, but not alone"
    return f"each alone: {told}" if how == ALONE else f"only together: {told}"


def first_ms(differences: pl.DataFrame) -> dict[Key, int]:
    """Return when each HPA differs first, ms."""
    rows = differences.select(*KEY, pl.col("first_ts").to_physical())
    return {(c, n, h): int(ms) for c, n, h, ms in rows.iter_rows()}


def _replayed(plan: ReplayPlan, change: Change, differences: pl.DataFrame) -> pl.DataFrame:
    """Replay HPAs of a plan with a change; return the ticks of their first differences."""
    wanted = first_ms(differences)
    changed = change(restricted(plan, wanted))
    left = {c.key: wanted[c.key] for c in changed.chosen}
    firsts = differences.select(*KEY, ts="first_ts")
    found = [
        result.decisions.join(firsts, on=[*KEY, "ts"], how="semi")
        for cut in until_first(changed, left)
        for result in replay_shards(cut, range(len(cut.shards)))
    ]
    return pl.concat([pl.DataFrame(schema=TICK_SCHEMA), *found])


# ---- versions -----------------------------------------------------------------------------------


def changed_switches(before: Profile, after: Profile) -> tuple[str, ...]:
    """Return the switches in which two versions differ: what is not words."""
    return tuple(
        field.name
        for field in fields(Profile)
        if not isinstance(getattr(before, field.name), str)
        and getattr(before, field.name) != getattr(after, field.name)
    )


def switch_words(name: str, before: Profile, after: Profile) -> str:
    """Return a switch, its meaning and its two states in words."""
    values = (getattr(profile, name) for profile in (before, after))
    states = " -> ".join({True: "on", False: "off"}[v] if isinstance(v, bool) else str(v)
                         for v in values)  # fmt: skip
    meaning = SWITCHES.get(name, "")
    return f"{name} {states}" + (f" ({meaning})" if meaning else "")


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


def version_trials(sides: Sides, clusters: Sequence[str]) -> Trials:
    """Return a trial per switch that differs in any of some clusters."""
    before, after = sides.before.versions, sides.after.versions
    changes = (changed_switches(before.of(c), after.of(c)) for c in clusters)
    names = dict.fromkeys(name for theirs in changes for name in theirs)

    def changed(own: Versions, other: Versions, name: str) -> Change:
        return lambda plan: under_versions(plan, with_switch(own, other, name, clusters))

    return {name: (changed(before, after, name), changed(after, before, name)) for name in names}


# ---- manifests ----------------------------------------------------------------------------------


def parts_that_differ(before: HPASpec, after: HPASpec) -> tuple[str, ...]:
    """Return which of `PARTS` differ."""
    return tuple(
        part for part, name in PARTS.items() if getattr(before, name) != getattr(after, name)
    )


def with_part(spec: HPASpec, part: str, other: HPASpec) -> HPASpec:
    """Return a spec with one of `PARTS` as in another one."""
    values = {PARTS[part]: getattr(other, PARTS[part])}
    return replace(spec, **values)


def is_valid(name: str, namespace: str, spec: HPASpec, profile: Profile) -> bool:
    """Return whether an API server would take a spec."""
    return not validate_hpa(HPA(name=name, namespace=namespace, spec=spec), profile)


def part_words(before: HPASpec, after: HPASpec, part: str) -> str:
    """Return what differs in one of `PARTS`, as `maxReplicas 10 -> 20`; empty: nothing does."""
    ours, theirs = (encode_spec(spec).get(part) for spec in (before, after))
    return ", ".join(f"{path} {a} -> {b}" for path, a, b in _leaves(part, ours, theirs))


def _leaves(path: str, before: object, after: object) -> Iterator[tuple[str, str, str]]:
    """Yield the path and both values of everything that differs, as deep as both have it."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from _leaves(f"{path}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for k, (ours, theirs) in enumerate(zip(before, after, strict=True)):
            yield from _leaves(f"{path}[{k}]", ours, theirs)
    else:
        yield path, _text(before), _text(after)


def _text(value: object) -> str:
    """Return a value as YAML's flow form would have it, as far as an HPA's go."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


def spec_at(candidate: Candidate, now_ms: int) -> HPASpec:
    """Return the spec in force at an instant, else the last one."""
    number = int(candidate.spec_of(np.array([now_ms], np.int64))[0])
    return candidate.periods[number].spec


class SpecTrials:
    """The trials of specs: one part of each HPA's as on the other side."""

    def __init__(self, sides: Sides, differences: pl.DataFrame) -> None:
        """Take rows of differences; every HPA has its own specs."""
        self.at = first_ms(differences)
        self.before = {c.key: c for c in sides.before.chosen}
        self.after = {c.key: c for c in sides.after.chosen}

    def specs(self, key: Key) -> tuple[HPASpec, HPASpec]:
        """Return both specs of an HPA at its first difference."""
        return spec_at(self.before[key], self.at[key]), spec_at(self.after[key], self.at[key])

    def words(self, key: Key) -> dict[str, str]:
        """Return what differs in an HPA's spec, by part."""
        before, after = self.specs(key)
        return {p: part_words(before, after, p) for p in parts_that_differ(before, after)}

    def trials(self) -> Trials:
        """Return a trial per part of a spec."""
        return {
            part: (
                partial(self._with, part, self.before, 1),
                partial(self._with, part, self.after, 0),
            )
            for part in PARTS
        }

    def _with(
        self, part: str, own: Mapping[Key, Candidate], other: int, plan: ReplayPlan
    ) -> ReplayPlan:
        """Return a plan whose HPAs have a part from one of the two `specs`."""
        found = []
        for candidate in plan.chosen:
            key = candidate.key
            specs = self.specs(key)
            if part not in parts_that_differ(*specs):
                continue
            periods = (
                replace(p, spec=with_part(p.spec, part, specs[other])) for p in own[key].periods
            )
            new = replace(own[key], periods=tuple(periods))
            profile = plan.profile_of(candidate.cluster)
            if all(is_valid(new.name, new.namespace, p.spec, profile) for p in new.periods):
                found.append(new)
        return with_candidates(plan, found)
