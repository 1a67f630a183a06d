"""Measures of a gate: the HPAs of two sets of manifests, simulated on the same work.

Both sides run on the plants that were fitted to the history, with the same random draws. Each
side's pods are those that its own decisions asked for, and the limits of the plants apply
(`engine.simulate.run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from typing import NamedTuple

import polars as pl

from hpabatch.engine.compare.run import DECIDED, joined_evidence, joined_texts
from hpabatch.engine.compare.sides import BOTH, Key, LeftOut, Side, Sides, plan_sides
from hpabatch.engine.fleet.plan import Select
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import PROPOSED, Loop, LoopOptions, prepare_loop
from hpabatch.history.reader import History
from hpabatch.model.progress import Progress, silent

Cases = Mapping[Key, SimulationCase]


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

    HPAs are simulated for the same time on both sides, or left out.

    Args:
        history: what was recorded.
        before: the first side, with manifests.
        after: the second one, with the same parameters.
        options: plants, seed and prices.
        select: which of its HPAs, as in `plan_replay`.
        progress: gets what is done, and the share.

    Raises:
        HistoryError: a table is broken, or no HPA of both sides is in the history.
        UsageError: there is no profile for a Kubernetes version, or no HPA is selected.
    """
    progress("planning", 0.0)
    sides = plan_sides(history, before, after, select)
    loops = [_loop(history, sides, side, options, progress) for side in (before, after)]
    cases = [_cases(loop) for loop in loops]
    left_out = [
        one
        for loop, own, name in zip(loops, cases, sides.names, strict=True)
        for one in _not_run(loop, sides, own, name)
    ]
    common = [key for key in cases[0] if key in cases[1]]
    same = {key for key in common if _run_of(cases[0][key]) == _run_of(cases[1][key])}
    reason = "what its metrics need was not recorded for the same time on both sides"
    left_out += [LeftOut(*key, BOTH, reason) for key in common if key not in same]
    frames = []
    for loop, own in zip(loops, cases, strict=True):
        progress("simulating", DECIDED)
        parts = [pl.DataFrame()]
        kept = [case for key, case in own.items() if key in same]
        for cluster, group in groupby(kept, key=lambda case: case.workload.cluster):
            rules = loop.plan.versions.of(cluster)
            found = simulate(list(group), rules, seed=options.seed).measures
            parts.append(with_advice(with_cost(found, options.prices), loop))
        frames.append(pl.concat(parts, how="diagonal"))
    return Measured(
        before=frames[0],
        after=frames[1],
        left_out=tuple(sorted({*sides.left_out, *_merged(left_out)}, key=astuple)),
        warnings=joined_texts(sides.names, *((*loop.plan.warnings, *loop.notes) for loop in loops)),
        evidence=joined_evidence(sides.names, *(loop.evidence for loop in loops)),
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


def _cases(loop: Loop) -> dict[Key, SimulationCase]:
    """Return the proposed cases in order of their names."""
    found = {case.key[:3]: case for case in loop.cases if case.setting == PROPOSED}
    return dict(sorted(found.items()))


def _run_of(case: SimulationCase) -> tuple[int, int, int]:
    return case.start_ms, case.period_ms, case.steps


def _not_run(loop: Loop, sides: Sides, cases: Cases, side: str) -> Iterator[LeftOut]:
    """Yield the HPAs of both sides for which a loop has no case, with why that is."""
    wanted = {c.key for c in sides.before.chosen} - set(cases)
    for skipped in loop.skipped:
        if skipped.key in wanted:
            # The side says which of the loop's settings this is about.
            reason = skipped.reason.removeprefix(f"{PROPOSED}: ")
            yield LeftOut(*skipped.key, side, reason)


def _merged(left_out: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """Yield the same, what both sides say as one."""
    sides: dict[LeftOut, set[str]] = {}
    for item in left_out:
        sides.setdefault(replace(item, side=BOTH), set()).add(item.side)
    for item, names in sides.items():
        yield item if len(names) > 1 else replace(item, side=names.pop())
