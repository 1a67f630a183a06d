"""Sweep: every HPA of a fleet under every setting of a grid, on the same work.

The last spec of an HPA holds today's settings; a setting changes it (`model.settings.setting`). All
settings run on the same fitted workload with the same random draws, so their measures differ by the
setting alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.sweep import SWEEP_HPAS
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import Scoring
from hpabatch.engine.fit.pods import STARTS
from hpabatch.engine.fit.workload import FITTED, OPEN, Fact
from hpabatch.engine.fleet.candidates import Candidate, Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters, replay_parameters
from hpabatch.engine.fleet.plan import (
    ReplayPlan,
    See,
    Select,
    as_recorded,
    narrow_plan,
    plan_replay,
)
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import elastic_speedup, points_frame, run_cases
from hpabatch.engine.simulate.measures import Bounds, measures_frame, was_at_max
from hpabatch.engine.simulate.result import with_advice, with_cost, with_recorded
from hpabatch.engine.simulate.run import (
    KEY,
    Loop,
    LoopOptions,
    loop_evidence,
    prepare_planned,
    read_work,
)
from hpabatch.engine.simulate.work import ratios_told
from hpabatch.engine.sweep.blocks import UNITS, block_count, block_unit, blocks_frame
from hpabatch.engine.sweep.cases import (
    OF_LIMIT,
    Limits,
    SettingCases,
    as_run,
    block_spans,
    cases_of,
    fitting,
    known_limits,
    siblings_of,
    spans_of,
    unlimited_told,
)
from hpabatch.engine.sweep.context import Context, contexts
from hpabatch.engine.sweep.groups import Unit, units_of
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.history.base import History
from hpabatch.inputs.grid import Grid, all_policy_sets, read_grids, read_policy_sets
from hpabatch.inputs.grid_check import Checked, check_grid
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.settings.fields import PolicySet
from hpabatch.model.settings.setting import Setting
from hpabatch.packing.workloads import primary_signal

HPAS_AT_ONCE: Final = 32
"""HPAs of one part of a sweep: their work is in memory together (1.4 MB a signal and 30 days)."""

ROWS_AT_ONCE: Final = 200_000
"""About as many rows of results one part may have: they are put together in memory."""

STEPS_AT_ONCE: Final = 600_000_000
"""About as many steps are one task, some 20 s of one core: what a killed sweep does again."""


_SCORED_AT: Final = SWEEP_HPAS.names.index("advice")
_OF_HPA: Final = pl.Schema(
    {name: SWEEP_HPAS.schema[name] for name in SWEEP_HPAS.names[:_SCORED_AT]}
)
_SCORES: Final = pl.Schema(
    {name: SWEEP_HPAS.schema[name] for name in (*KEY, *SWEEP_HPAS.names[_SCORED_AT:-1])}
)
"""Columns of the fidelity scores that a sweep keeps; the unit of the HPA is behind them."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What is asked of a sweep.

    `groups` as in `engine.sweep.groups`; `loop` is what is asked of each simulation (scenario,
    plants, prices, seed, gaps); `fidelity`: score both halves of the model too, without which there
    is no advice.
    """

    grid: Grid
    sets: Mapping[str, PolicySet]
    groups: tuple[str, ...] = ()
    loop: LoopOptions = field(default_factory=LoopOptions)
    fidelity: bool = True


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep, ready to run.

    `units` have positions in `plan.chosen`; `parts` are positions of HPAs that are fitted together,
    `chunks` positions of settings that run together; `checked` says by position which settings fit
    which HPA, `limits` by HPA and signal what a pod may use, where a setting asks for it. `unit` of
    blocks is "week" or "day".
    """

    plan: ReplayPlan
    parameters: ReplayParameters
    options: SweepOptions
    units: tuple[Unit, ...]
    parts: tuple[tuple[int, int], ...]
    chunks: tuple[tuple[int, int], ...]
    checked: Checked
    limits: Limits
    unit: str
    notes: tuple[str, ...]

    @cached_property
    def places(self) -> dict[tuple[str, str, str], int]:
        """By cluster, namespace and name the place of an HPA in `plan.chosen`."""
        return {candidate.key: k for k, candidate in enumerate(self.plan.chosen)}

    @cached_property
    def contexts(self) -> Mapping[tuple[str, str, str], Context]:
        """By cluster, namespace and name who writes an HPA, and what keeps its pods available."""
        return contexts(self.plan.history)

    @property
    def evidence(self) -> dict[str, str]:
        """Evidence of the results."""
        return loop_evidence(self.plan, self.options.loop)


def plan_sweep(
    history: History,
    parameters: ReplayParameters,
    options: SweepOptions,
    select: Select | None = None,
    see: See = as_recorded,
) -> SweepPlan:
    """Return a sweep ready to run, or refuse it with all mistakes at once.

    `see` says how the controllers saw what was recorded; it is called when nothing is wrong.

    Raises:
        GridError: grids, groups or settings that cannot be, all that is wrong in one message.
        HistoryError: a table cannot be read, or there is nothing to simulate.
        UsageError: the clusters run different Kubernetes versions.
    """
    plan = plan_replay(history, parameters, None, select)
    plan.versions.one()
    grouping = units_of(options.groups, plan.chosen)
    members = sorted({k for unit in grouping.units for k in unit.members})
    if grouping.complaints:
        members = list(range(len(plan.chosen)))  # (the grid's mistakes are to be told as well)
    narrowed = narrow_plan(plan, members)
    limits, unlimited = known_limits(narrowed, options.grid)
    complaints, notes = unlimited_told(narrowed, unlimited)
    checked = check_grid(
        options.grid,
        narrowed.chosen,
        options.sets,
        plan.profile_of,
        lambda cluster: plan.flags_of(cluster)[-1].flags,
        [*grouping.complaints, *complaints],
    )
    of_limit = Setting((OF_LIMIT,))
    unfit = [
        {**parts, of_limit: (unlimited[k],)} if k in unlimited else parts
        for k, parts in enumerate(checked.unfit)
    ]
    place = {k: n for n, k in enumerate(members)}
    units = [replace(u, members=tuple(place[k] for k in u.members)) for u in grouping.units]
    parts, chunks = _cut(narrowed, options)
    narrowed = see(narrowed)
    return SweepPlan(
        plan=narrowed,
        parameters=parameters,
        options=options,
        units=tuple(units),
        parts=parts,
        chunks=chunks,
        checked=replace(checked, unfit=tuple(unfit)),
        limits=limits,
        unit=block_unit(_length_ms(plan, options)),
        notes=(
            *plan.warnings,
            *ratios_told(narrowed),
            *_left_out(grouping.left_out, plan.chosen),
            *checked.notes,
            *notes,
        ),
    )


def plan_request(history: History, request: SweepRequest, see: See | None = None) -> SweepPlan:
    """Return the plan of the sweep that a request asks for; `see` puts its lens in, if known.

    Raises:
        UsageError: a file or the grid is wrong; all that is wrong with grid, policy sets and
            groups in one message.
        HistoryError: the history cannot be read, or lacks what a simulation needs.
    """
    own = {} if request.policy_sets is None else read_policy_sets(request.policy_sets)
    sets = all_policy_sets(own)
    grid = read_grids(request.grid, sets)
    loop = read_work(request, files=(request.policy_sets,))
    options = SweepOptions(grid, sets, request.group, loop, request.fidelity)
    see = see or seen_through(request.lens)
    return plan_sweep(history, replay_parameters(request), options, selection_of(request), see)


def _left_out(places: Sequence[int], chosen: Sequence[Candidate]) -> list[str]:
    """Return which HPAs are in no group."""
    if not places:
        return []
    first = "/".join(chosen[places[0]].key[1:])
    if len(places) == 1:
        return [f"1 HPA is in no group and is left out: {first}"]
    return [f"{len(places)} HPAs are in none of the groups and are left out: {first}, …"]


def _length_ms(plan: ReplayPlan, options: SweepOptions) -> int:
    """Return about how long the runs are."""
    return options.loop.length_ms or plan.clocks.to_ms - plan.clocks.from_ms


def _cut(
    plan: ReplayPlan, options: SweepOptions
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Cut the HPAs into parts and the settings into chunks."""
    settings = len(options.grid.settings)
    steps = max(_length_ms(plan, options) // plan.clocks.grid.period_ms, 1)
    parts = _parts(plan.chosen, min(max(ROWS_AT_ONCE // settings, 1), HPAS_AT_ONCE))
    most = max((last - first for first, last in parts), default=1)
    # (chunks of about equal size)
    size = -(-settings // -(-settings // max(STEPS_AT_ONCE // (steps * most), 1)))
    return parts, tuple((k, min(k + size, settings)) for k in range(0, settings, size))


def _parts(chosen: Sequence[Candidate], at_once: int) -> tuple[tuple[int, int], ...]:
    """Cut the HPAs into parts of one cluster each."""
    parts, first = [], 0
    for k, candidate in enumerate(chosen):
        other = candidate.cluster != chosen[first].cluster
        if k > first and (k - first == at_once or other):
            parts.append((first, k))
            first = k
    return (*parts, (first, len(chosen))) if chosen else ()


@dataclass(frozen=True, slots=True)
class SweptPart:
    """A part's HPAs, fitted: what their settings are made of, and what is known of them.

    `scores` has both fidelity scores of the HPAs, without rows where they were not asked for.
    """

    loop: Loop
    cases: tuple[SettingCases, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    scores: pl.DataFrame

    def alone(self, hpa: SettingCases) -> SweptPart:
        """Return the part of one of its HPAs."""
        return replace(self, cases=(hpa,))


def prepare_part(sweep: SweepPlan, number: int, *, scored: bool = False) -> SweptPart:
    """Fit the workloads of a part; `scored`: in the same walk over their usage score them.

    Raises:
        HistoryError: a table cannot be read.
        UsageError: a scenario or a plant file that does not fit.
    """
    plan = narrow_plan(sweep.plan, range(*sweep.parts[number]))
    options, scoring, usages = sweep.options, None, None
    if scored and options.fidelity:
        scoring = Scoring(plan, FidelityParameters(), options.loop.plants)
        usages = scoring.usages()
    loop = prepare_planned(plan, sweep.parameters, options.loop, sweep.plan, usages=usages)
    hpas = []
    for case in loop.cases:
        key = case.key[:3]
        place = sweep.places[key]
        known = SettingCases(
            case=case,
            today=sweep.plan.chosen[place].spec,
            profile=sweep.plan.profile_of(key[0]),
            limits=sweep.limits.get(key, {}),
            scenario=loop.scenarios.get(key),
            unfit=sweep.checked.unfit[place],
        )
        hpas.append(known)
    hpas, skipped, notes = fitting(hpas, sweep.options.grid, sweep.options.sets)
    scores = pl.DataFrame(schema=_SCORES)
    if scoring is not None:
        scores = scoring.fidelity().hpas.select(*_SCORES)
    skipped, notes = [*loop.skipped, *skipped], [*loop.notes, *notes]
    return SweptPart(loop, tuple(hpas), tuple(skipped), tuple(notes), scores)


def run_part(
    sweep: SweepPlan, part: SweptPart, first: int, last: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run settings first:last of a part's HPAs; return rows of `results` and of `blocks`.

    Settings that come to the same spec run once, and so do those that only differ by a maxReplicas
    that the smallest of them never comes to. `elastic_speedup` is added by `finish_results`.
    """
    options, bounds, unit_ms = sweep.options, Bounds(), UNITS[sweep.unit]
    cases, copies = cases_of(part.cases, options.grid, options.sets, first, last)
    lengths = {c.case.key[:3]: c.case.steps * c.case.period_ms for c in part.cases}
    measures, blocks = [], []
    left = siblings_of(cases)
    while left:
        bound: set[tuple[str, ...]] = set()
        firsts, profile = [group[0] for group in left], part.loop.plan.versions.one()
        for ran in run_cases(firsts, profile, options.loop.seed, block_ms=unit_ms):
            measures.append(measures_frame(ran.fleet, ran.chosen, bounds))
            blocks.append(blocks_frame(ran, unit_ms, bounds, lengths))
            bound |= {case.key for h, case in ran.chosen if was_at_max(ran.fleet, h)}
        copies = as_run(copies, [group for group in left if group[0].key not in bound])
        left = [group[1:] for group in left if group[0].key in bound and group[1:]]
    if not measures:
        return pl.DataFrame(), pl.DataFrame()
    numbers = settings_frame(options.grid).select("setting_id", "setting")
    found = []
    for frame in (pl.concat(measures), pl.concat(blocks)):
        frame = copies.join(frame, on=[*KEY, "setting"], how="inner", maintain_order="left")
        frame = frame.drop("setting").rename({"wanted": "setting"})
        frame = frame.join(numbers, on="setting", how="left", maintain_order="left")
        found.append(with_cost(frame, options.loop.prices))
    results, per_block = with_advice(found[0], part.loop), found[1].drop("setting", "currency")
    key, known = (*KEY, "setting_id"), part.loop.recorded
    results = with_recorded(results, key, spans_of(part.cases), known)
    spans = block_spans(part.cases, per_block)
    return results, with_recorded(per_block, (*key, "block"), spans, known)


def finish_results(results: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    """Return the results of whole HPAs in the order of their settings, with units and speed-ups."""
    speedy = elastic_speedup(results, "today")
    joined = speedy.join(units, on=KEY, how="left", maintain_order="left")
    first = [*KEY, "unit", "setting_id", "setting"]
    rest = [name for name in joined.columns if name not in first]
    return joined.select(*first, *rest).sort(*KEY, "setting_id")


def trajectory_points(
    part: SweptPart, sweep: SweepPlan, setting_ids: Sequence[int]
) -> pl.DataFrame:
    """Return every tick of some settings of a part's HPAs, as `simulate --trajectories` does."""
    frames, profile = [], part.loop.plan.versions.one()
    for k in setting_ids:
        cases, _ = cases_of(part.cases, sweep.options.grid, sweep.options.sets, k, k + 1)
        for ran in run_cases(cases, profile, sweep.options.loop.seed, keep_points=True):
            frames.append(points_frame(ran.fleet, ran.chosen))
    return pl.concat(frames) if frames else pl.DataFrame()


def settings_frame(grid: Grid) -> pl.DataFrame:
    """Return one row per setting: setting_id, setting, and a column per field of the grid."""
    values = [dict(setting.values) for setting in grid.settings]
    return pl.DataFrame(
        {
            "setting_id": pl.Series(range(len(grid.settings)), dtype=pl.Int32),
            "setting": pl.Series([s.name for s in grid.settings], dtype=pl.String),
            **{
                name: pl.Series([v.get(name) for v in values], dtype=pl.String)
                for name in grid.fields
            },
        }
    )


def units_frame(sweep: SweepPlan) -> pl.DataFrame:
    """Return the unit of each HPA."""
    rows = [(*sweep.plan.chosen[k].key, unit.name) for unit in sweep.units for k in unit.members]
    return pl.DataFrame(rows, schema=[*KEY, "unit"], orient="row").sort(KEY)


def hpas_frame(sweep: SweepPlan, part: SweptPart) -> pl.DataFrame:
    """Return one row per HPA of a scored part that was simulated: its spec, scores, problems."""
    rows: list[dict[str, Any]] = []
    unit_ms, assumed = UNITS[sweep.unit], {note: name for name, note in STARTS.items()}
    for known in part.cases:
        case, spec = known.case, known.today
        key = case.key[:3]
        length_ms = case.steps * case.period_ms
        starts = _fact(part.loop, case, "pods.startup")
        rows.append(
            dict(zip(KEY, key, strict=True))
            | {
                "target_kind": spec.scale_target_ref.kind,
                "target": spec.scale_target_ref.name,
                "spec": spec_to_json(HPA(name=key[2], namespace=key[1], spec=spec)),
                "min_replicas": spec.min_replicas,
                "max_replicas": spec.max_replicas,
                "cpu_milli": case.requested.cpu_milli,
                "memory_milli": case.requested.memory_milli,
                "days": length_ms / UNITS["day"],
                "blocks": block_count(length_ms, unit_ms),
                "problems": "; ".join(part.loop.problems[key]),
                "censored_pct": part.loop.censored[key],
                "ceiling": _ceiling_source(part.loop, case),
                "base_share": _fitted_share(part.loop, case, "base"),
                "starting_share": _fitted_share(part.loop, case, "startup"),
                "starts_assumed": None if starts is None else assumed.get(starts.note),
            }
            | sweep.contexts.get(key, Context()).columns()
        )
    frame = pl.DataFrame(rows, schema=_OF_HPA, orient="row")
    joined = frame.join(part.scores, on=KEY, how="left", maintain_order="left")
    return joined.join(units_frame(sweep), on=KEY, how="left", maintain_order="left")


def _fact(loop: Loop, case: SimulationCase, name: str) -> Fact | None:
    return next((fact for fact in loop.facts[case.key[:3]] if fact.name == name), None)


def _fitted_share(loop: Loop, case: SimulationCase, name: str) -> float | None:
    """Return an amount of the work's signal as a share of a pod's median usage; None: not fitted.

    That of fewer pods saved by a higher target which rests on a base is the same share.
    """
    signal = f"signals.{primary_signal(case.workload.plant)}"
    amount, used = _fact(loop, case, f"{signal}.{name}"), _fact(loop, case, f"{signal}.observed")
    if amount is None or amount.source != FITTED or used is None or not used.value:
        return None
    return (amount.value or 0.0) / used.value


def _ceiling_source(loop: Loop, case: SimulationCase) -> str | None:
    """Return where the ceiling of the work's signal is from (`Fact.source`); None: no such work.

    OPEN where `none` is stated, too: it bounds no usage.
    """
    found = _fact(loop, case, f"signals.{primary_signal(case.workload.plant)}.ceiling")
    if found is None:
        return None
    return OPEN if found.value is None else found.source
