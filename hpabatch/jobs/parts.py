"""What one shard of a replay came to, as the files of a task: written, and read again."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.replay.run import ShardResult, replay_shards
from hpabatch.engine.replay.score import Score, score
from hpabatch.engine.replay.sensitivity import Setting
from hpabatch.engine.replay.summary import summarize_part
from hpabatch.engine.shards.inputs import ShardFacts
from hpabatch.errors import HistoryError
from hpabatch.history.reader import open_history
from hpabatch.jobs.folder import JobFolder
from hpabatch.jobs.loop import Task
from hpabatch.jobs.parquet import write_parquet

DECISIONS: Final = "decisions.parquet"
_SUMMARY: Final = "summary.arrow"
_SCORES: Final = "scores.arrow"
_EVENTS: Final = "events.arrow"


@dataclass(frozen=True, slots=True)
class Computed:
    """A shard's result, for which setting it is, and the history's warnings up to here."""

    setting: int
    result: ShardResult
    warnings: tuple[str, ...]


@dataclass(slots=True)
class ReplayWork:
    """Replays shard `k` under setting `s`: a task's argument is (s, k).

    The decisions are kept of the first setting only, of the others their summary. `score`: judge
    the decisions of the first too.
    """

    settings: Sequence[Setting]
    score: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the open history, whose files and caches stay here."""
        nothing: Any = None  # `_reopen` puts the history back
        bare = [replace(s, plan=replace(s.plan, history=nothing)) for s in self.settings]
        return _reopen, (self.settings[0].plan.history.location, bare, self.score)

    def compute(self, tasks: Sequence[Task]) -> Iterator[Computed]:
        """Replay the shards; while one is decided the next one of its setting is read."""
        for setting, group in groupby(tasks, key=lambda task: int(task.argument[0])):
            plan = self.settings[setting].plan
            for result in replay_shards(plan, [task.argument[1] for task in group]):
                yield Computed(setting, result, tuple(plan.history.warnings))

    def save(self, result: Computed, place: Path) -> dict[str, Any]:
        """Write decisions, summary and score; return the facts."""
        found = result.result
        _write(summarize_part(found.decisions, found.hpas), place / _SUMMARY)
        if result.setting == 0:
            write_parquet(found.decisions, self.settings[0].plan.evidence, place / DECISIONS)
            if self.score:
                scores = score(found.decisions, found.hpas)
                _write(scores.hpas, place / _SCORES)
                _write(scores.events, place / _EVENTS)
        return {
            "decisions": found.decisions.height,
            "hpas": found.hpas.height,
            "skipped": [[s.cluster, s.namespace, s.hpa, s.reason] for s in found.skipped],
            "silent": list(found.silent),
            "facts": _facts_to_json(found.facts),
            "warnings": list(result.warnings),
        }


def _reopen(location: str, bare: Sequence[Setting], score: bool) -> ReplayWork:
    """Return a work that has travelled (HistoryError: its history is not what it was)."""
    history = open_history(location)
    evidence = bare[0].plan.evidence
    if any(evidence.get(f"sha256:{table}") != text for table, text in history.digests().items()):
        raise HistoryError(f"{location} has changed since the replay began; begin it anew")
    return ReplayWork([replace(s, plan=replace(s.plan, history=history)) for s in bare], score)


def _facts_to_json(facts: ShardFacts) -> dict[str, Any]:
    return {
        "cluster": facts.cluster,
        "strays": facts.strays,
        "repeated": facts.repeated,
        "pairs": facts.pairs,
        "generated": facts.generated,
    }


def facts_from_json(found: Mapping[str, Any]) -> ShardFacts:
    """Return a shard's facts from a task's record."""
    return ShardFacts(
        cluster=found["cluster"],
        strays=found["strays"],
        repeated=found["repeated"],
        pairs=[(tuple(first), tuple(second)) for first, second in found["pairs"]],
        generated=[tuple(key) for key in found["generated"]],
    )


def skipped_from_json(found: Sequence[Sequence[str]]) -> list[Skipped]:
    """Return the HPAs left out of a shard from a task's record."""
    return [Skipped(*row) for row in found]


def read_summaries(folder: JobFolder, keys: Sequence[str]) -> list[pl.DataFrame]:
    """Return the parts of a summary, in the keys' order."""
    return [_read(folder.place(key) / _SUMMARY) for key in keys]


def read_scores(folder: JobFolder, keys: Sequence[str]) -> Score:
    """Return the score of a replay from its parts."""
    places = [folder.place(key) for key in keys]
    return Score(
        pl.concat([_read(place / _SCORES) for place in places]),
        pl.concat([_read(place / _EVENTS) for place in places]),
    )


def _write(frame: pl.DataFrame, path: Path) -> None:
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    path.write_bytes(buffer.getvalue())


def _read(path: Path) -> pl.DataFrame:
    # Read whole: a mapped file must not be removed while it is in use.
    return pl.read_ipc(path.read_bytes())
