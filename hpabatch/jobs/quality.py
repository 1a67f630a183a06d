"""Worth of recordings; by workers a part is what the recordings of a shard's HPAs are worth."""

from __future__ import annotations

from collections.abc import Sequence
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
from hpabatch.jobs.folder import DIGEST, concat_frames, identity_of
from hpabatch.jobs.frames import FramesJob, computed, frames_job
from hpabatch.jobs.orders import Values, options_of
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
    look, parts = Look(history, candidates), []
    if not request.is_spread:  # (without a job: its identity takes digests of all tables)
        for k in range(len(look.shards)):
            progress("checking", k / len(look.shards))
            parts.append(look.part(k))
        return look.joined(parts)
    with computed(_planned(look, candidates, request), request, progress) as done:
        return look.joined([concat_frames(frames["hpas"] for frames, _ in done)])


def plan_job(values: Values) -> FramesJob:
    """Plan a look at recordings in a worker, from its order."""
    request = QualityRequest.from_json(values)
    history = open_history(values["history"])
    versions = versions_of(history.read("controller"), request.k8s, request.feature_gates)
    candidates, _ = chosen_hpas(history, versions.of, selection_of(request))
    return _planned(Look(history, candidates), candidates, request)


def _planned(look: Look, candidates: Sequence[Candidate], request: QualityRequest) -> FramesJob:
    weights = [len(shard) for shard in look.shards]
    names = [[*c.key, repr(c.periods)] for c in candidates]
    facts = {f"{DIGEST}{table}": digest for table, digest in look.history.digests().items()}
    identity = identity_of(facts, [names, weights])
    return frames_job(
        *(weights, lambda k: ({"hpas": look.part(k)}, {}), look.history),
        *(identity, PLAN_JOB, options_of(request)),
    )
