"""Worth of recordings; a part is what the recordings of a shard's HPAs are worth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import chosen_hpas
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.quality.run import Look
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.jobs.folder import DIGEST, Identity, concat_frames, identity_of
from hpabatch.jobs.frames import computed
from hpabatch.jobs.job import Job, Part, Values, numbered_tasks, options_of
from hpabatch.model.progress import Progress, silent

PLAN_JOB: Final = "hpabatch.jobs.quality:plan_job"


def quality(
    history: History,
    request: QualityRequest,
    candidates: Sequence[Candidate],
    progress: Progress = silent,
) -> pl.DataFrame:
    """Return what the recording of each HPA is worth; the columns are `engine.quality.run.COLUMNS`.

    Raises:
        HistoryError: a table is broken.
    """
    look = Look(history, candidates)
    with computed(_job(look, candidates, request, progress), request, progress) as parts:
        return look.joined([concat_frames(frames["hpas"] for frames, _ in parts)])


def plan_job(values: Values) -> Job:
    """Plan a look at recordings in a worker, from its order."""
    request = QualityRequest.from_json(values)
    history = open_history(values["history"])
    versions = versions_of(history.read("controller"), request.k8s, request.feature_gates)
    candidates, _ = chosen_hpas(history, versions.of, selection_of(request))
    return _job(Look(history, candidates), candidates, request)


def _job(
    look: Look,
    candidates: Sequence[Candidate],
    request: QualityRequest,
    progress: Progress = silent,
) -> Job:
    weights, history = [len(shard) for shard in look.shards], look.history

    def identify() -> Identity:
        names = [[*c.key, repr(c.periods)] for c in candidates]
        facts = {f"{DIGEST}{table}": digest for table, digest in history.digests().items()}
        return identity_of(facts, [names, weights])

    def part(k: int) -> Part:
        progress("checking", k / len(weights))
        return {"hpas": look.part(k)}, {}

    return Job(
        tasks=numbered_tasks(weights),
        results=partial(map, part),
        identify=identify,
        plan_job=PLAN_JOB,
        values={"history": history.location, **options_of(request)},
        history=history,
    )
