"""Advice on every HPA of a sweep: change, keep, or no advice, with the reasons.

A change is recommended where a setting within the bounds holds the SLO on the training blocks, does
better than today's there, and still does on the judged blocks, on which it was not chosen. Each
reason against it is told; docs/recommend.md lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE, answer, notes, relative_notes
from hpabatch.engine.advise.doubts import refused, unit_doubts
from hpabatch.engine.advise.judge import TODAY, Judged, Judging, judge, resample, saves, split_of
from hpabatch.engine.advise.objective import MINUTES_AN_HOUR, RecommendOptions
from hpabatch.engine.advise.request import MEDIUM, JudgeRules
from hpabatch.engine.advise.rules import Doubt, accepted, confidence_of, weighed
from hpabatch.engine.advise.specs import (
    Apply,
    Inputs,
    Specs,
    allowed_mask,
    contexts_of,
    misfits,
    profile_of,
    refusals,
)
from hpabatch.engine.advise.unit import (
    AT_MAX,
    KEY,
    MOST_AT_MAX,
    TODAY_ID,
    Key,
    UnitBlocks,
    key_of,
    unit_blocks,
)
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.sweep.context import Context
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import UsageError
from hpabatch.inputs.cluster_objects import ClusterObjects
from hpabatch.inputs.manifests import stored_spec
from hpabatch.model.availability import Availability, with_known_domains
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.owners import Metadata, Source, source_of, telling
from hpabatch.model.settings.patch import patch_version, spec_differences, spec_patch
from hpabatch.model.versions import Profile

WORTH_PCT: Final = 1.0
"""What a field must save, in percent of today's objective, to be part of a change."""

RESTLESS_WORTH_PCT: Final = 3.0
"""The same of a field with which an HPA rescales RESTLESS times as often."""
RESTLESS: Final = 1.5


@dataclass(frozen=True, slots=True)
class UnitAdvice:
    """Advice on a unit, from its HPAs that can get advice.

    `why_not` says of each setting why it is no candidate; `judged` None: too few blocks.
    """

    unit: UnitBlocks
    why_not: tuple[str, ...]
    judged: Judged | None
    answer: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The advice on one HPA.

    `setting_id` and `wanted` are what is recommended (today's with "keep"; None: nothing is),
    `considered_id` the setting that was looked at. `patch` is what changes in the spec. `advice` is
    its unit's, None where the HPA itself gives none; it is member `member` there. `doubts` are the
    unit's, its own and those of the other members. `source` is what writes the HPA; `withheld`: why
    no patch is written though something changes, "": it is; `was_edited`: because the spec is not
    the judged one any more, beside any source.
    """

    key: Key
    unit: str
    answer: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    today: HPASpec
    setting_id: int | None = None
    considered_id: int | None = None
    wanted: HPASpec | None = None
    patch: Mapping[str, object] = field(default_factory=dict)
    advice: UnitAdvice | None = None
    member: int = 0
    doubts: tuple[Doubt, ...] = ()
    source: Source | None = None
    withheld: str = ""
    was_edited: bool = False

    @property
    def confidence(self) -> str | None:
        """How sure the answer is: high, medium or low; None: there is no advice."""
        return None if self.answer == NONE else confidence_of(self.doubts)


@dataclass(frozen=True, slots=True)
class Recommendations:
    """The advice on all HPAs of a sweep, sorted by cluster, namespace and name.

    `facts` are the rows of the sweep's HPAs.
    """

    items: tuple[Recommendation, ...]
    units: tuple[UnitAdvice, ...]
    options: RecommendOptions
    result: SweepResult
    specs: Specs
    facts: Mapping[Key, Mapping[str, Any]]

    @property
    def skipped(self) -> list[Skipped]:
        """The HPAs that were asked for and could not be simulated, with their reasons."""
        return [Skipped(*row) for row in self.result.parameters.get("skipped", ())]

    def written(self) -> list[Recommendation]:
        """Return the changes that are sure enough to be written (`options.accept`)."""
        sure = accepted(self.options.accept)
        return [item for item in self.items if item.answer == CHANGE and item.confidence in sure]

    def reviewed(self) -> list[Recommendation]:
        """Return the changes of medium confidence that are not written, for somebody to judge."""
        written = {item.key for item in self.written()}
        return [
            item
            for item in self.items
            if item.answer == CHANGE and item.confidence == MEDIUM and item.key not in written
        ]

    def changes(self, item: Recommendation) -> str:
        """Return what changes in an HPA's spec: `target 60 -> 78, minReplicas 4 -> 2`."""
        return ", ".join(self.specs.changes(item.key, item.setting_id or TODAY_ID))

    @property
    def patch_version(self) -> str:
        """Return the API version that patches are for."""
        return patch_version(profile_of(self.result))


def recommend(result: SweepResult, options: RecommendOptions, apply: Apply) -> Recommendations:
    """Return the advice on every HPA of a sweep; `apply` puts setting values into a spec.

    Raises:
        HistoryError: the sweep is not whole.
        UsageError: its settings do not fit this version.
    """
    specs = Specs(result, apply)
    wrong = dict(refused(result, options.goal))
    inputs = Inputs(result, options, specs)
    rows = {key_of(r): r for r in result.hpas.iter_rows(named=True)}
    units: dict[str, UnitAdvice] = {}
    for name, unit in unit_blocks(result, wrong):
        unit = replace(unit, lifts=specs.lifts(unit))
        advice = _advise(unit, inputs)
        today = {k: specs.today(k) for k in unit.members}
        judged = advice.judged
        lifts = advice.answer == CHANGE and judged is not None and judged.lifts(judged.considered)
        own = unit_doubts(unit, rows, today, result.parameters, options, lifts=lifts)
        units[name] = replace(advice, doubts=weighed([*advice.doubts, *own]))
    items = tuple(_items(result, specs, units, wrong, options))
    ordered = tuple(units[name] for name in sorted(units))
    found = Recommendations(items, ordered, options, result, specs, rows)
    return withhold_owned(found)


def _advise(unit: UnitBlocks, inputs: Inputs) -> UnitAdvice:
    options = inputs.options
    split = split_of(unit.blocks, options.rules)
    if split is None:
        kept = options.rules.judged_blocks or 1
        why = (
            f"too few blocks of time: {unit.blocks}, of which the last {kept} would be judged on "
            "and none is left to choose on"
        )
        return UnitAdvice(unit, ("",) * unit.settings.size, None, NONE, (why,), ())
    raised = inputs.specs.raises_idle_max(unit, options.bounds)
    misfit, training = misfits(unit, inputs.specs, options.bounds, raised), slice(0, split)
    why_not, possible = tuple(refusals(unit, misfit, training)), allowed_mask(misfit)
    asked = Judging(unit, options.goal, options.rules, possible, inputs.block_unit)
    found = judge(asked)
    assert found is not None  # there are blocks enough
    if found.choice not in (None, TODAY):
        choice = simplest(found, inputs.specs, options.rules)
        sure = resample(asked, training, choice) if found.resampled is not None else None
        found = replace(found, choice=choice, resampled=sure)
    told = answer(found, inputs)
    more = tuple(notes(found, why_not, raised, inputs)) if told.answer != NONE else ()
    return UnitAdvice(unit, why_not, found, told.answer, told.reasons, more, told.doubts)


def simplest(found: Judged, specs: Specs, rules: JudgeRules) -> int:
    """Return the candidate that changes the fewest fields of those about as good as the choice.

    On the blocks that it is chosen on, those cost WORTH_PCT of today's objective more at most
    (RESTLESS_WORTH_PCT where the choice only saves and rescales much more often), save enough, come
    no nearer to a limit, and rescale no more often.
    """
    unit, place, stands = found.unit, found.considered, found.trained
    percent = abs(stands.objective[TODAY]) / 100
    dearer = stands.objective - stands.objective[place]
    pressure = stands.pressure(rules.robust)
    near = found.allowed & (pressure <= pressure[place])
    today_holds = stands.holds(rules.robust)[TODAY]
    if today_holds:
        near &= saves(stands, np.arange(near.size), rules.least_saving_pct)
    worth = np.full(near.size, WORTH_PCT)
    if "rescales" in unit.values:
        moves = np.nan_to_num(unit.total("rescales", slice(0, found.split)))
        near &= moves <= moves[place]
        if today_holds:
            calmer = (moves < moves[place]) & (moves * RESTLESS <= moves[place])
            worth[calmer] = RESTLESS_WORTH_PCT
    near &= dearer <= worth * percent
    near[TODAY] = False
    near[place] = True

    def changes(s: int) -> int:
        setting = int(unit.settings[s])
        return sum(
            _leaves(spec_patch(specs.written(key), specs.under(key, setting)))
            for key in unit.members
        )

    places = [int(s) for s in np.flatnonzero(near)]
    return min(places, key=lambda s: (changes(s), found.trained.objective[s], s))


def _leaves(value: object) -> int:
    """Count what a patch sets; a list counts as one."""
    return sum(map(_leaves, value.values())) if isinstance(value, Mapping) else 1


def _items(
    result: SweepResult,
    specs: Specs,
    units: Mapping[str, UnitAdvice],
    wrong: Mapping[Key, tuple[str, ...]],
    options: RecommendOptions,
) -> Iterator[Recommendation]:
    ordered = list(result.hpas.sort(*KEY).iter_rows(named=True))
    left = Counter(row["unit"] for row in ordered if key_of(row) in wrong)
    for row in ordered:
        key, name = key_of(row), row["unit"]
        if key in wrong:
            today = specs.written(key)
            yield Recommendation(key, name, NONE, wrong[key], (), today)
            continue
        item = _item(key, units[name], specs, left[name])
        if item.answer != NONE:
            more = relative_notes(key, specs.today(key), result)
            item = replace(item, notes=(*item.notes, *more))
        if item.patch:
            context, label = specs.contexts[key], options.instance_label
            source = source_of_change(key, context, item.today, item.patch, label)
            item = replace(item, source=source)
        yield item


def _short_at_max(found: Judged, member: int) -> Iterator[str]:
    """Yield for how long the maxReplicas that stays held a member, if that is worth a note."""
    judged = slice(found.split, None)
    minutes, hours = found.unit.values.get(AT_MAX), float(found.unit.hours[member, judged].sum())
    held = 0.0 if minutes is None else float(minutes[member, TODAY, judged].sum()) / MINUTES_AN_HOUR
    if held > MOST_AT_MAX * hours:
        yield (
            f"maxReplicas stays as it is: in {held:.1f} of the {hours:.0f} judged hours the "
            "metrics asked for more"
        )


def _item(key: Key, advice: UnitAdvice, specs: Specs, left_out: int) -> Recommendation:
    """Return a member's advice: its unit's, or "keep" where the change changes nothing of it."""
    told = list(advice.notes)
    if left_out:
        told.append(f"chosen without {left_out} of the group's HPAs, which give no advice")
    found = advice.judged
    considered = None if found is None else int(advice.unit.settings[found.considered])
    given, reasons, wanted, patch = advice.answer, advice.reasons, None, {}
    if given == CHANGE:
        assert considered is not None
        wanted = specs.under(key, considered)
        patch = spec_patch(specs.written(key), wanted)
        if not patch:
            given, reasons = KEEP, ("its spec already says what is recommended",)
        elif found is not None and wanted.max_replicas == specs.today(key).max_replicas:
            told += _short_at_max(found, advice.unit.members.index(key))
    if given == KEEP:
        wanted = wanted or specs.today(key)
    chosen = {CHANGE: considered, KEEP: TODAY_ID, NONE: None}[given]
    return Recommendation(
        key=key,
        unit=advice.unit.name,
        answer=given,
        reasons=reasons,
        notes=tuple(told),
        today=specs.written(key),
        setting_id=chosen,
        considered_id=considered,
        wanted=wanted,
        patch=patch,
        advice=advice,
        member=advice.unit.members.index(key),
        doubts=advice.doubts,
    )


# ---- safeguards of patches -----------------------------------------------------------------------

# A patch is withheld, with the reason, where it would be undone (a controller or a tool writes the
# HPA), or where it is not known to do good (the spec is not the one that was judged).

PLAIN: Final = "plain"
"""Value of `--instance-label`: nothing writes an HPA because of app.kubernetes.io/instance."""


GONE: Final = (
    "gone: --objects has other HPAs of its namespace and not this one; if it is still there, give "
    "all HPAs of the namespace"
)


def source_of_change(
    key: Key, context: Context, today: HPASpec, patch: Mapping[str, object], instance_label: str
) -> Source | None:
    """Return what writes an HPA that is to be patched, None if nothing does."""
    found = source_of(key[1], key[2], context.metadata, today, patch)
    return None if found is not None and found.doubtful and instance_label == PLAIN else found


def with_objects(result: SweepResult, objects: ClusterObjects) -> SweepResult:
    """Return a sweep with the metadata and the availability that a cluster's objects say.

    Raises:
        UsageError: the sweep has several clusters, and the objects are of one.
    """
    clusters = result.hpas["cluster"].unique().sort().to_list()
    if len(clusters) > 1:
        raise UsageError(
            f"--objects are of one cluster, and the sweep has {', '.join(clusters)}: sweep each by "
            "itself (--where)"
        )
    rows = list(_told(result, objects))
    columns = {
        name: pl.Series(name, [row[name] for row in rows], pl.String()) for name in rows[0]
    } if rows else {}  # fmt: skip
    return replace(result, hpas=result.hpas.with_columns(**columns))


def _told(result: SweepResult, objects: ClusterObjects) -> Iterator[dict[str, str | None]]:
    known = contexts_of(result)
    for row in result.hpas.iter_rows(named=True):
        context = known[key_of(row)]
        hpa = objects.hpas.get((row["namespace"], row["hpa"]))
        if hpa is not None:
            labels, annotations = telling(dict(hpa.labels)), telling(dict(hpa.annotations))
            needs = _needs(hpa, objects, context.availability)
            context = Context(Metadata(labels, annotations, hpa.owner), needs)
        yield context.columns()


def _needs(hpa: HPA, objects: ClusterObjects, recorded: Availability | None) -> Availability | None:
    """Return what an HPA's pods need: what the objects do not say is as it was recorded.

    Objects without any budget, or without any node, were listed without that kind.
    """
    found = objects.availability_of(hpa)
    if found is None or recorded is None:
        return recorded if found is None else found
    spreads = found.spreads
    if not objects.domains.values:
        spreads = with_known_domains(spreads, recorded.spreads)
    return Availability(found.budgets if objects.budgets else recorded.budgets, spreads)


def edits_since(
    found: Recommendations, objects: ClusterObjects, profile: Profile
) -> dict[Key, str]:
    """Return the HPAs with a change whose spec in a cluster is not the judged one, and how.

    One that is not among the other HPAs of its namespace is gone. Of a namespace without any HPA
    the objects say nothing.
    """
    told = {namespace for namespace, _ in (*objects.hpas, *objects.unusable)}
    edited = {}
    for item in found.items:
        place = item.key[1:]
        hpa, broken = objects.hpas.get(place), objects.unusable.get(place)
        if not item.patch or place[0] not in told:
            continue
        if broken is not None:
            edited[item.key] = edited_since([f"no controller can use its spec now ({broken})"])
        elif hpa is None:
            edited[item.key] = GONE
        elif differences := spec_differences(
            found.specs.today(item.key), stored_spec(hpa, profile)
        ):
            edited[item.key] = edited_since(differences)
    return edited


def edited_since(differences: list[str]) -> str:
    """Return the sentence on a spec that is not the judged one."""
    return f"edited since it was judged: {', '.join(differences)}; import it and sweep again"


def withhold_owned(found: Recommendations) -> Recommendations:
    """Return advice without the patches of HPAs that something else writes."""
    return replace(
        found,
        items=tuple(
            item if item.source is None else _withheld(item, str(item.source))
            for item in found.items
        ),
    )


def withhold_edited(found: Recommendations, why: Mapping[Key, str]) -> Recommendations:
    """Return advice without the patches of HPAs that were edited since, by `edits_since`."""
    return replace(
        found,
        items=tuple(
            item
            if item.key not in why or item.was_edited
            else replace(_withheld(item, why[item.key]), was_edited=True)
            for item in found.items
        ),
    )


def _withheld(item: Recommendation, why: str) -> Recommendation:
    both = f"{item.withheld}; and {why}" if item.withheld else why
    return replace(item, withheld=both, notes=(*item.notes, f"no patch is written: {why}"))
