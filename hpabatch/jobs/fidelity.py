"""Scores of the rules and the plants; by workers a part is the scores of a shard's HPAs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from hpabatch.engine.fidelity.lens import through_lens
from hpabatch.engine.fidelity.request import FidelityParameters, FidelityRequest
from hpabatch.engine.fidelity.run import Fidelity, Scoring
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.history.base import History
from hpabatch.inputs.plants import PlantOverride
from hpabatch.jobs.frames import computed, plan_from, shards_job
from hpabatch.jobs.job import Job, Part, Values
from hpabatch.model.progress import Progress, silent

PLAN_JOB: Final = "hpabatch.jobs.fidelity:plan_job"


def fidelity(history: History, request: FidelityRequest, progress: Progress) -> Fidelity:
    """Score the rules and the plants of a history, here or by workers.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: a file is wrong, or an entry of it matches nothing.
    """
    plants = read_plants(request)
    progress("planning", 0.0)
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan, lenses = through_lens(plan, request.lens, progress)
    scoring = _scoring(plan, request, plants, progress)
    if request.is_spread:
        with computed(_job(plan, request), request, progress) as parts:
            for frames, record in parts:
                scoring.add(frames, msgspec.convert(record["facts"], list[ShardFacts]))
    else:
        for _ in scoring.usages():
            pass
    return replace(scoring.fidelity(), lenses=tuple(lenses))


def plan_job(values: Values) -> Job:
    """Plan a score in a worker, from its order."""
    request = FidelityRequest.from_json(values)
    return _job(plan_from(values, request), request)


def _job(plan: ReplayPlan, request: FidelityRequest) -> Job:
    plants = read_plants(request)

    def part(some: ReplayPlan) -> Part:
        scoring = _scoring(some, request, plants)
        for _ in scoring.usages():
            pass
        return scoring.part(), {"facts": msgspec.to_builtins(scoring.facts)}

    return shards_job(plan, request, part, [repr(plants)], PLAN_JOB, "walk_observations")


def _scoring(
    plan: ReplayPlan,
    request: FidelityRequest,
    plants: Sequence[PlantOverride],
    progress: Progress = silent,
) -> Scoring:
    choices = FidelityParameters(split_share=request.split, horizon_ms=request.horizon_ms)
    return Scoring(plan, choices, plants, progress)
