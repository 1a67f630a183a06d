"""Comparison in a closed loop: a fleet simulated twice on the same work.

Both sides run on the plants that were fitted to the history, with the same random draws. Each
side's pods are those that its own decisions asked for, so differences compound, unlike those of two
replays, and the limits of the plants apply (`engine.simulate.run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import polars as pl

from hpabatch.engine.columns import compare as columns
from hpabatch.engine.compare.causes import Change, first_ms
from hpabatch.engine.compare.frames import TICK, find_differences, schema_of, side_by_side
from hpabatch.engine.compare.run import (
    DECIDED,
    SPECS,
    VERSIONS,
    Comparison,
    explained,
    joined_evidence,
    joined_texts,
    left_out_order,
)
from hpabatch.engine.compare.sides import BOTH, Key, LeftOut, Side, Sides, plan_sides, restricted
from hpabatch.engine.fleet.plan import ReplayPlan, Select
from hpabatch.engine.fleet.versions import Versions
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import in_parts, simulate
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import PROPOSED, RECORDED, Loop, LoopOptions, prepare_loop
from hpabatch.engine.simulate.work import lacking_signals
from hpabatch.history.reader import History
from hpabatch.model.progress import Progress, silent

POINTS_AT_ONCE: Final = 2_000_000  # of one side
TOLD: Final = ("desired", "proposal", "stabilized", "binding")
WHY_NOT: Final = columns.WHY_NOT.name
COLUMNS: Final = {WHY_NOT: columns.WHY_NOT.meaning}
"""Columns of a row beside those of `frames.schema_of(TOLD)`."""

Cases = Mapping[Key, SimulationCase]


@dataclass(frozen=True, slots=True)
class _Loops:
    """The prepared loop of each side, and the cases of the HPAs that both can run."""

    loops: tuple[Loop, Loop]
    before: Cases
    after: Cases
    left_out: tuple[LeftOut, ...]


def compare_simulated(
    history: History,
    before: Side,
    after: Side,
    options: LoopOptions,
    select: Select | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Simulate a history's HPAs under two settings; return those that differ, since when and why.

    Args:
        history: what the plants are fitted to.
        before: one side; see `compare.compare_history`.
        after: the other one.
        options: plants that are stated, seed and gaps; sides bring manifests, and there is no
            scenario.
        select: as in `compare.compare_history`.
        progress: called with a message and the share that is done.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to simulate.
        UsageError: there is no profile for a Kubernetes version, no HPA is selected, or a plant
            file does not fit the history.
    """
    progress("planning", 0.0)
    sides = plan_sides(history, before, after, select)
    kind = VERSIONS if before.manifests is None and after.manifests is None else SPECS
    prepare = _prepare_versions if kind == VERSIONS else _prepare_specs
    loops = prepare(history, sides, (before, after), options, progress)
    parts, ticks, done = [pl.DataFrame(schema=schema_of(TOLD))], 0, 0
    steps = [case.steps for case in loops.before.values()]
    for keys in in_parts(loops.before, steps, POINTS_AT_ONCE):
        points = (
            _points([cases[key] for key in keys], plan.versions, options.seed)
            for plan, cases in ((sides.before, loops.before), (sides.after, loops.after))
        )
        part, counts = find_differences(side_by_side(*points))
        parts.append(part)
        ticks += int(counts["ticks"].sum())
        done += len(keys)
        progress("simulating twice", DECIDED * done / len(loops.before))
    runners = (
        partial(simulated, sides.before, loops.before, loops.after, options.seed),
        partial(simulated, sides.after, loops.after, loops.before, options.seed),
    )
    differences = explained(kind, sides, runners, pl.concat(parts), progress)
    left_out = {*sides.left_out, *loops.left_out}
    return Comparison(
        compared=kind,
        names=sides.names,
        differences=_with_problems(differences.sort(KEY), loops.loops),
        hpas=len(loops.before),
        ticks=ticks,
        left_out=tuple(sorted(left_out, key=left_out_order)),
        warnings=joined_texts(
            sides.names, *((*loop.plan.warnings, *loop.notes) for loop in loops.loops)
        ),
        evidence=joined_evidence(sides.names, *(loop.evidence for loop in loops.loops)),
    )


class Measured(NamedTuple):
    """Measures of the HPAs of both sides, with costs and whether to rely on them.

    A row per HPA as `engine.simulate.result` has them; `left_out` have none.
    """

    before: pl.DataFrame
    after: pl.DataFrame
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]


def measure_simulated(
    history: History,
    before: Side,
    after: Side,
    options: LoopOptions,
    select: Select | None = None,
    progress: Progress = silent,
) -> Measured:
    """Simulate a history's HPAs with two sets of manifests; return the measures of both.

    Arguments and errors are those of `compare_simulated`; `options` may have prices.
    """
    progress("planning", 0.0)
    sides = plan_sides(history, before, after, select)
    loops = _prepare_specs(history, sides, (before, after), options, progress)
    frames = []
    for loop, cases in zip(loops.loops, (loops.before, loops.after), strict=True):
        progress("simulating", DECIDED)
        parts = [pl.DataFrame()]
        for cluster, group in groupby(cases.values(), key=lambda case: case.workload.cluster):
            rules = loop.plan.versions.of(cluster)
            found = simulate(list(group), rules, seed=options.seed).measures
            parts.append(with_advice(with_cost(found, options.prices), loop))
        frames.append(pl.concat(parts, how="diagonal"))
    return Measured(
        before=frames[0],
        after=frames[1],
        left_out=tuple(sorted({*sides.left_out, *loops.left_out}, key=left_out_order)),
        warnings=joined_texts(
            sides.names, *((*loop.plan.warnings, *loop.notes) for loop in loops.loops)
        ),
        evidence=joined_evidence(sides.names, *(loop.evidence for loop in loops.loops)),
    )


# ---- cases --------------------------------------------------------------------------------------


def _prepare_versions(
    history: History,
    sides: Sides,
    pair: tuple[Side, Side],
    options: LoopOptions,
    progress: Progress,
) -> _Loops:
    """Fit once, by the first side's rules; the second one has its own specs and rules."""
    loop = _loop(history, sides, pair[0], options, progress)
    before, specs = _cases(loop, RECORDED), {c.key: c for c in sides.after.chosen}
    after = {key: replace(case, periods=specs[key].periods) for key, case in before.items()}
    other = replace(loop, evidence=loop.evidence | sides.after.versions.evidence())
    return _Loops((loop, other), before, after, tuple(_not_run(loop, sides, before, BOTH)))


def _prepare_specs(
    history: History,
    sides: Sides,
    pair: tuple[Side, Side],
    options: LoopOptions,
    progress: Progress,
) -> _Loops:
    """Fit for both sides: the same workloads, with the signals that their specs ask for."""
    second = _loop(history, sides, pair[1], options, progress)
    recorded = pair[0].manifests is None
    first = second if recorded else _loop(history, sides, pair[0], options, progress)
    before, after = _cases(first, RECORDED if recorded else PROPOSED), _cases(second, PROPOSED)
    left_out = [
        *_not_run(first, sides, before, sides.names[0]),
        *_not_run(second, sides, after, sides.names[1]),
    ]
    common = [key for key in before if key in after]
    same = [key for key in common if _run_of(before[key]) == _run_of(after[key])]
    reason = "what its metrics need was not recorded for the same time on both sides"
    left_out += [LeftOut(*key, BOTH, reason) for key in common if key not in same]
    return _Loops(
        (first, second),
        {key: before[key] for key in same},
        {key: after[key] for key in same},
        _merged(left_out),
    )


def _loop(
    history: History, sides: Sides, side: Side, options: LoopOptions, progress: Progress
) -> Loop:
    """Return the loop of a side's HPAs, of those that both sides have."""
    keys = {c.key for c in sides.before.chosen}

    def chosen(frame: pl.DataFrame) -> pl.DataFrame:
        return frame[[k for k, key in enumerate(frame.select(KEY).rows()) if key in keys]]

    options = replace(options, manifests=side.manifests, scenario=None)
    return prepare_loop(history, side.parameters, options, chosen, progress)


def _cases(loop: Loop, setting: str) -> dict[Key, SimulationCase]:
    """Return the cases of a setting in order of their names."""
    found = {case.key[:3]: case for case in loop.cases if case.setting == setting}
    return dict(sorted(found.items()))


def _run_of(case: SimulationCase) -> tuple[int, int, int]:
    return case.start_ms, case.period_ms, case.steps


def _not_run(loop: Loop, sides: Sides, cases: Cases, side: str) -> Iterator[LeftOut]:
    """Yield the HPAs of both sides for which a loop has no case, with why that is."""
    wanted = {c.key for c in sides.before.chosen} - set(cases)
    for skipped in loop.skipped:
        key = skipped.key
        if key in wanted:
            # The side says which of the loop's settings this is about.
            reason = skipped.reason.removeprefix(f"{RECORDED}: ").removeprefix(f"{PROPOSED}: ")
            yield LeftOut(*key, side, reason)


def _merged(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Return the same, what both sides say as one."""
    sides: dict[LeftOut, set[str]] = {}
    for item in left_out:
        sides.setdefault(replace(item, side=BOTH), set()).add(item.side)
    return tuple(
        item if len(names) > 1 else replace(item, side=names.pop()) for item, names in sides.items()
    )


# ---- running ------------------------------------------------------------------------------------


def _points(cases: Sequence[SimulationCase], versions: Versions, seed: int) -> pl.DataFrame:
    """Return the ticks of runs, those of each cluster under its rules."""
    columns = [*TICK, "replicas", *TOLD]
    parts = [pl.DataFrame(schema={name: TICK_SCHEMA[name] for name in columns})]
    for cluster, group in groupby(cases, key=lambda case: case.workload.cluster):
        found = simulate(list(group), versions.of(cluster), seed=seed, keep_points=True).points
        if found is not None:
            parts.append(found.select(columns).cast({"binding": TICK_SCHEMA["binding"]}))
    return pl.concat(parts).sort(TICK)


def simulated(
    plan: ReplayPlan,
    cases: Cases,
    others: Cases,
    seed: int,
    change: Change,
    differences: pl.DataFrame,
) -> pl.DataFrame:
    """Simulate HPAs of a plan with a change, until their first difference; see `causes.Runner`.

    `others` are the other side's cases: their plants have the signals that its metrics need.
    """
    wanted = first_ms(differences)
    changed = change(restricted(plan, wanted))
    cut = []
    for candidate in changed.chosen:
        key = candidate.key
        case = cases[key]
        if lacking_signals(candidate, case.workload.plant):
            case = replace(case, workload=others[key].workload)
        steps = (wanted[key] - case.start_ms) // case.period_ms + 1
        cut.append(replace(case, periods=candidate.periods, steps=steps))
    firsts = differences.select(*KEY, ts="first_ts")
    return _points(cut, changed.versions, seed).join(firsts, on=TICK, how="semi")


def _with_problems(differences: pl.DataFrame, loops: Sequence[Loop]) -> pl.DataFrame:
    """Return the rows with the reasons not to rely on them."""
    known: list[str | None] = []
    for c, n, h in differences.select(KEY).iter_rows():
        texts = dict.fromkeys(text for loop in loops for text in loop.problems.get((c, n, h), ()))
        known.append("; ".join(texts) or None)
    return differences.with_columns(pl.Series(WHY_NOT, known, dtype=pl.String()))
