"""A replay of any size: shards × settings, decided one by one, their decisions on disk."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import generated_evidence, replay_warnings
from hpabatch.engine.replay.score import Score
from hpabatch.engine.replay.sensitivity import AS_ASKED, Setting, compare, settings_of
from hpabatch.engine.replay.summary import join_summaries
from hpabatch.errors import HistoryError, RefusedError, UsageError
from hpabatch.jobs.folder import JobFolder, count_kept, open_job
from hpabatch.jobs.identity import replay_identity
from hpabatch.jobs.loop import Report, Task, run_job
from hpabatch.jobs.parts import (
    DECISIONS,
    ReplayWork,
    facts_from_json,
    read_scores,
    read_summaries,
    skipped_from_json,
)
from hpabatch.jobs.publish import Destination, publish
from hpabatch.model.objects.hpa import HPA

# Decisions that hardly ever change take 0.8 bytes, and parts and result are there at once: a disk
# with less room than that clearly has none.
LEAST_BYTES_PER_DECISION: Final = 1


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What is asked for: the plan, what stands in for the recorded HPAs, and what else to tell."""

    plan: ReplayPlan
    destination: Destination
    manifests: Sequence[HPA] | None = None
    score: bool = False
    sensitivity: bool = False
    restart: bool = False


@dataclass(frozen=True, slots=True)
class ReplayDone:
    """What a replay came to, but the decisions, which are at their destination.

    `sensitivity` and `score` are None where they were not asked for.
    """

    summary: pl.DataFrame
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]
    sensitivity: pl.DataFrame | None
    score: Score | None


def replay_to_disk(job: ReplayJob, report: Report = lambda status: None) -> ReplayDone:
    """Replay all shards, or those that an interrupted run of the same job has left.

    Memory is bounded by two shards, whatever the size of the history. The decisions appear at their
    destination when all are there; until then they are in a job folder beside it, which stays if
    this is interrupted or the disk is full.

    Args:
        job: what to do.
        report: is told how far it is, after every task.

    Raises:
        HistoryError: a table is broken; what was decided is thrown away.
        NothingReplayedError: no HPA could be replayed.
        UsageError: the destination cannot be written, or another job left its parts there.
    """
    settings = settings_of(job.plan) if job.sensitivity else [Setting(AS_ASKED, 0, job.plan)]
    tasks = _tasks(settings)
    identity = replay_identity(
        [setting.plan for setting in settings],
        job.manifests,
        {
            "score": str(job.score),
            "sensitivity": str(job.sensitivity),
            "why": str(job.plan.whole),
        },
    )
    place = job.destination.job_path
    with open_job(place, identity, restart=job.restart) as folder:
        _check_room(place, sum(t.weight for t in tasks if t.argument[0] == 0), folder)
        try:
            records = run_job(tasks, ReplayWork(settings, job.score), folder, report)
            done = _finish(job, settings, tasks, records, folder)
        except (HistoryError, RefusedError):
            # The history is at fault and must change: what was decided from it is of no use.
            folder.discard()
            raise
        except UsageError as error:
            kept = count_kept(place)
            more = f"; {kept} of {len(tasks)} parts are kept in {place}: the same command goes on"
            raise UsageError(f"{error}{more} from there" if kept else str(error)) from error
        folder.discard()
    return done


def _tasks(settings: Sequence[Setting]) -> list[Task]:
    """Return the tasks, those with decisions first."""
    return [
        Task(f"{s:02}-{k:05}", _decisions(setting.plan, *shard), (s, k))
        for s, setting in enumerate(settings)
        for k, shard in enumerate(setting.plan.shards)
    ]


def _decisions(plan: ReplayPlan, first: int, last: int) -> int:
    """Return how many decisions the HPAs of a shard have, at most and about."""
    clocks, count = plan.clocks, 0
    span_ms = clocks.to_ms - clocks.from_ms
    for c in plan.chosen[first:last]:
        key = (c.cluster, c.namespace, c.name)
        known = clocks.known(key)
        if known is not None:
            count += known
        else:
            sync = clocks.estimated.get(key)
            count += int(span_ms / (sync.period_ms if sync else clocks.grid.period_ms)) + 1
    return count


def _check_room(place: Path, decisions: int, folder: JobFolder) -> None:
    """Refuse a disk that clearly is too small for the decisions.

    Raises:
        UsageError: how much is needed and how much is there.
    """
    kept = sum(file.stat().st_size for file in place.glob(f"*/*/{DECISIONS}"))
    least = decisions * LEAST_BYTES_PER_DECISION - kept
    free = shutil.disk_usage(folder.path).free
    if least > free:
        raise UsageError(
            f"about {decisions:,} decisions take at least {least / 1e6:,.0f} MB more, and only "
            f"{free / 1e6:,.0f} MB are free beside {place.parent}: make room there, name another "
            "place, or replay fewer HPAs (--where)"
        )


def _finish(
    job: ReplayJob,
    settings: Sequence[Setting],
    tasks: Sequence[Task],
    records: Sequence[dict[str, Any]],
    folder: JobFolder,
) -> ReplayDone:
    """Put the parts together and publish the decisions."""
    plan = job.plan
    keys = [[t.key for t in tasks if t.argument[0] == s] for s in range(len(settings))]
    own = records[: len(keys[0])]
    facts = [facts_from_json(record["facts"]) for record in own]
    told = dict.fromkeys(text for record in records for text in record["warnings"])
    plan.history.warnings[:] = list(dict.fromkeys([*told, *plan.history.warnings]))
    silent = [record["silent"] for record in own]
    warnings = replay_warnings(plan, list(zip(facts, silent, strict=True)))
    skipped = [s for record in own for s in skipped_from_json(record["skipped"])]
    if not any(record["hpas"] for record in own):
        raise NothingReplayedError((*plan.skipped, *skipped), warnings)
    summaries = [join_summaries(read_summaries(folder, part)) for part in keys]
    done = ReplayDone(
        summary=summaries[0],
        skipped=(*plan.skipped, *skipped),
        warnings=warnings,
        evidence=plan.evidence | generated_evidence(facts),
        sensitivity=compare(settings, summaries) if job.sensitivity else None,
        score=read_scores(folder, keys[0]) if job.score else None,
    )
    parts = [folder.place(key) / DECISIONS for key in keys[0]]
    publish(job.destination, folder, parts, done.evidence)
    return done


class NothingReplayedError(RefusedError):
    """No HPA could be replayed: `skipped` has the reasons, `warnings` what else to tell."""

    def __init__(self, skipped: Sequence[Skipped], warnings: Sequence[str]) -> None:
        """Keep what there is to tell."""
        reasons = "the reasons are above" if skipped else "the history holds no HPA"
        super().__init__(f"no HPA could be replayed, so nothing is written; {reasons}")
        self.skipped = tuple(skipped)
        self.warnings = tuple(warnings)
