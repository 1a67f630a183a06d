"""Parts of a replay on disk: one shard's decisions, summary, score and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import ShardNotes, ShardResult, replay_shards
from hpabatch.engine.replay.score import Score, score
from hpabatch.engine.replay.summary import join_summaries
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.jobs.folder import JobFolder, concat_frames, read_frame, write_frame
from hpabatch.jobs.loop import Task
from hpabatch.jobs.parquet import write_parquet

DECISIONS: Final = "decisions.parquet"
_SUMMARY: Final = "summary.arrow"
_SCORES: Final = "scores.arrow"
_EVENTS: Final = "events.arrow"


@dataclass(frozen=True, slots=True)
class Computed:
    """A shard's result, and the history's warnings up to here."""

    result: ShardResult
    warnings: tuple[str, ...]


@dataclass(slots=True)
class ReplayWork:
    """Replays shard `k`, a task's argument; `score`: judge its decisions, `keep`: write them."""

    plan: ReplayPlan
    score: bool
    keep: bool = True

    def compute(self, tasks: Sequence[Task]) -> Iterator[Computed]:
        """Replay the shards; while one is decided the next one is read."""
        shards = [task.argument for task in tasks]
        for result in replay_shards(self.plan, shards, self.keep or self.score):
            yield Computed(result, tuple(self.plan.history.warnings))

    def save(self, result: Computed, place: Path) -> dict[str, Any]:
        """Write decisions, summary and score; return the facts."""
        found = result.result
        write_frame(found.summary, place / _SUMMARY)
        if self.keep:
            write_parquet(found.decisions, self.plan.evidence, place / DECISIONS)
        if self.score:
            scores = score(found.decisions, found.hpas)
            write_frame(scores.hpas, place / _SCORES)
            write_frame(scores.events, place / _EVENTS)
        return {
            "decisions": int(found.summary["ticks"].sum()),
            "hpas": found.hpas.height,
            **notes_to_json(found.notes),
            "warnings": list(result.warnings),
        }


def notes_to_json(notes: ShardNotes) -> dict[str, Any]:
    """Return the notes of a shard as plain values, for the record of its part."""
    return {
        "skipped": [[s.cluster, s.namespace, s.hpa, s.reason] for s in notes.skipped],
        "silent": list(notes.silent),
        "facts": asdict(notes.facts),
    }


def notes_from_json(found: Mapping[str, Any]) -> ShardNotes:
    """Return the notes of a shard from the record of its part."""
    facts = found["facts"]
    pairs = [(tuple(first), tuple(second)) for first, second in facts["pairs"]]
    generated = [tuple(key) for key in facts["generated"]]
    return ShardNotes(
        skipped=tuple(Skipped(*row) for row in found["skipped"]),
        facts=ShardFacts(**facts | {"pairs": pairs, "generated": generated}),
        silent=tuple(found["silent"]),
    )


def read_summary(folder: JobFolder, tasks: Sequence[Task]) -> pl.DataFrame:
    """Return the summary of a replay from its parts."""
    return join_summaries([_read(folder, tasks, _SUMMARY)])


def read_scores(folder: JobFolder, tasks: Sequence[Task]) -> Score:
    """Return the score of a replay from its parts."""
    return Score(_read(folder, tasks, _SCORES), _read(folder, tasks, _EVENTS))


def _read(folder: JobFolder, tasks: Sequence[Task], name: str) -> pl.DataFrame:
    return concat_frames(read_frame(folder.place(task.key) / name) for task in tasks)
