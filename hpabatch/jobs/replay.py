"""Replay shard by shard: to disk and resumable, or summaries only."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, See, plan_replay
from hpabatch.engine.fleet.request import NO_LENS
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.fleet.versions import history_profile
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.replay.run import (
    ReplayNotes,
    ShardResult,
    join_notes,
    replay_shards,
)
from hpabatch.engine.replay.score import Score, score
from hpabatch.engine.replay.summary import join_summaries
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.errors import RefusedError
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.jobs.folder import (
    JobFolder,
    concat_frames,
    finishing,
    identity_of,
    open_job,
    temporary_job,
)
from hpabatch.jobs.frames import known_lenses, lenses_of, read_part
from hpabatch.jobs.job import (
    Job,
    Part,
    Report,
    Task,
    Values,
    executor_of,
    numbered_tasks,
    options_of,
    run_job,
)
from hpabatch.jobs.publish import Destination, publish
from hpabatch.model.objects.hpa import HPA

PLAN_JOB: Final = "hpabatch.jobs.replay:plan_job"
DECISIONS: Final = "decisions.parquet"
_SUMMARY: Final = "summary"
_SCORES: Final = "scores"
_EVENTS: Final = "events"


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """A replay: its plan, manifests in place of the recorded HPAs, and what was asked for.

    Without a destination no decision is kept, only what is summed up of them. `request` says who
    computes the parts, too.
    """

    plan: ReplayPlan
    destination: Destination | None
    manifests: Sequence[HPA] | None = None
    request: ReplayToRequest = field(default_factory=ReplayToRequest)


@dataclass(frozen=True, slots=True)
class ReplayDone(ReplayNotes):
    """A finished replay: all but the decisions, which are at their destination, if there is one.

    `score` is None where it was not asked for.
    """

    summary: pl.DataFrame
    score: Score | None


def replay_to_disk(job: ReplayJob, report: Report = lambda status: None) -> ReplayDone:
    """Replay all shards, or those that an interrupted run of the same job has left.

    Memory is bounded by two shards, whatever the size of the history. The decisions appear at their
    destination when all are there; until then they are in a job folder beside it, which stays if
    this is interrupted or the disk is full. Without a destination the summaries of the shards stand
    in a temporary folder, and nothing is resumed.

    Args:
        job: plan, destination and options.
        report: called with the progress after every task.

    Raises:
        HistoryError: a table is broken; finished parts are removed.
        NothingReplayedError: no HPA could be replayed.
        UsageError: the destination cannot be written, or another job left its parts there.
    """
    whole = _whole(job)
    execute = executor_of(job.request, whole)
    with ExitStack() as opened:
        if job.destination is None:
            folder = opened.enter_context(temporary_job(whole.identity))
        else:
            path, restart = job.destination.job_path, job.request.restart
            folder = opened.enter_context(open_job(path, whole.identity, restart=restart))
            opened.enter_context(finishing(folder, len(whole.tasks)))
        records = run_job(whole, folder, report, execute)
        return _finish(job, whole.tasks, records, folder)


def _whole(job: ReplayJob) -> Job:
    plan, keep = job.plan, job.destination is not None
    facts = {
        **plan.evidence,
        "HPAs": str(len(plan.chosen)),
        "score": str(job.request.score),
        "why": str(plan.whole),
    }
    given = None if job.manifests is None else [repr(hpa) for hpa in job.manifests]
    depends = [[c.key for c in plan.chosen], given, plan.shards, repr(plan.settled)]
    weights = array("q", (_decisions(plan, *shard) for shard in plan.shards))
    return Job(
        tasks=numbered_tasks(weights),
        results=lambda shards: replay_shards(plan, shards, keep or job.request.score),
        identify=lambda: identity_of(facts, [*depends, repr(plan.clocks.grid)]),
        plan_job=PLAN_JOB,
        values={
            "history": plan.history.location,
            "keep": keep,
            "lenses": lenses_of(plan),
            **options_of(job.request),
        },
        kernel="replay_observations",
        history=plan.history,
        part_of=partial(_part_of, job),
        evidence=plan.evidence,
    )


def _part_of(job: ReplayJob, found: ShardResult) -> Part:
    """Return the part of a shard: its summary, and decisions and scores if they are asked for."""
    frames = {_SUMMARY: found.summary}
    if job.destination is not None:
        frames[DECISIONS] = found.decisions
    if job.request.score:
        scores = score(found.decisions, found.hpas)
        frames |= {_SCORES: scores.hpas, _EVENTS: scores.events}
    return frames, {"hpas": found.hpas.height, "facts": msgspec.to_builtins(found.facts)}


def plan_job(values: Values) -> Job:
    """Plan a replay in a worker, from its order (HistoryError, UsageError: it cannot be)."""
    request = ReplayToRequest.from_json(values)
    history = open_history(values["history"], None if request.hpas else "replay")
    manifests = given_hpas(history, request) if request.hpas else None
    plan = plan_of(history, request, manifests, known_lenses(values["lenses"]))
    job = ReplayJob(
        plan=plan,
        destination=Destination(Path(DECISIONS)) if values["keep"] else None,
        manifests=manifests,
        request=request,
    )
    return _whole(job)


def plan_of(
    history: History,
    request: ReplayRequest,
    manifests: Sequence[HPA] | None,
    see: See | None = None,
) -> ReplayPlan:
    """Return the plan of a replay; `see` puts in its lenses, if they are known.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: an option is not possible.
    """
    parameters, select = replay_parameters(request), selection_of(request)
    plan = plan_replay(history, parameters, manifests, select, whole=request.why)
    if see is not None or request.lens == NO_LENS:
        return plan if see is None else see(plan)
    from hpabatch.engine.fidelity.lens import through_lens

    return through_lens(plan, request.lens)[0]


def given_hpas(history: History, request: ReplayRequest) -> list[HPA]:
    """Return the valid HPAs of manifests, of several with one name the first."""
    from hpabatch.inputs.manifests import check_manifests, load_manifests

    profile = history_profile(history, request.k8s, request.feature_gates)
    found: dict[tuple[str, str], HPA] = {}
    for item in check_manifests(load_manifests(request.hpas).entries, profile):
        if item.hpa is not None:
            found.setdefault((item.hpa.namespace or "default", item.hpa.name), item.hpa)
    return list(found.values())


def _decisions(plan: ReplayPlan, first: int, last: int) -> int:
    """Return how many decisions the HPAs of a shard have, at most and about."""
    clocks, count = plan.clocks, 0
    span_ms = clocks.to_ms - clocks.from_ms
    for c in plan.chosen[first:last]:
        known = clocks.known(c.key)
        if known is not None:
            count += known
        else:
            sync = clocks.estimated.get(c.key)
            count += int(span_ms / (sync.period_ms if sync else clocks.grid.period_ms)) + 1
    return count


def _finish(
    job: ReplayJob,
    tasks: Sequence[Task],
    records: Iterable[dict[str, Any]],
    folder: JobFolder,
) -> ReplayDone:
    warnings, hpas = dict[str, None](), 0

    def facts() -> Iterator[ShardFacts]:
        nonlocal hpas
        for record in records:
            warnings.update(dict.fromkeys(record["warnings"]))
            hpas += record["hpas"]
            yield msgspec.convert(record["facts"], ShardFacts)
        told = job.plan.history.warnings
        told[:] = dict.fromkeys([*warnings, *told])

    notes = join_notes(job.plan, facts())
    if not hpas:
        raise NothingReplayedError(notes.skipped, notes.warnings)

    def read(name: str) -> pl.DataFrame:
        return concat_frames(read_part(folder, task, name) for task in tasks)

    done = ReplayDone(
        notes.skipped,
        notes.warnings,
        notes.evidence,
        summary=join_summaries([read(_SUMMARY)]),
        score=Score(read(_SCORES), read(_EVENTS)) if job.request.score else None,
    )
    if job.destination is not None:
        parts = (folder.place(task.key) / DECISIONS for task in tasks)
        publish(job.destination, folder, parts, done.evidence)
    return done


class NothingReplayedError(RefusedError):
    """No HPA could be replayed: `skipped` has the reasons."""

    def __init__(self, skipped: Sequence[Skipped], warnings: Sequence[str]) -> None:
        """Keep skipped HPAs and warnings."""
        reasons = "the reasons are above" if skipped else "the history holds no HPA"
        super().__init__(f"no HPA could be replayed, so nothing is written; {reasons}")
        self.skipped = tuple(skipped)
        self.warnings = tuple(warnings)
