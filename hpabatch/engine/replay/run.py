"""Replay of a history: what the HPA rules decide at every tick, beside what was recorded.

Replay is not prediction: the replicas that the rules see are the recorded ones, so `desired` and
`applied` are separate columns. What had to be assumed is a named parameter, stored with the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from hpabatch.engine.fleet.candidates import NEVER_IN_FORCE, Skipped, candidate_frame
from hpabatch.engine.fleet.membership import foreign_pods
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.decisions import (
    SCHEMA,
    WHY_SCHEMA,
    applied_of,
    decisions_frame,
    metrics_of,
)
from hpabatch.engine.replay.summary import join_summaries, summarize
from hpabatch.engine.shards.ambiguity import Pair
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.engine.shards.run import ahead, run_step, shard_steps
from hpabatch.engine.shards.shard import Shard
from hpabatch.history.base import USAGE
from hpabatch.layout import codes
from hpabatch.model.objects.describe import metric_subject
from hpabatch.model.printable import counted

MOST_TOLD = 20  # warnings of one kind
_OF_USAGE = ("Resource", "ContainerResource")


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The decisions of one shard, if they were asked for, its HPAs and their summary."""

    facts: ShardFacts
    decisions: pl.DataFrame
    hpas: pl.DataFrame
    summary: pl.DataFrame


@dataclass(frozen=True, slots=True)
class ReplayNotes:
    """Notes on a replay, beside its decisions: HPAs left out, warnings, evidence."""

    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReplayResult(ReplayNotes):
    """A replay in memory: decisions per HPA and tick, the HPAs, and a summary of each."""

    decisions: pl.DataFrame
    hpas: pl.DataFrame
    summary: pl.DataFrame


def replay_plan(plan: ReplayPlan) -> ReplayResult:
    """Replay all HPAs of a plan through the exact rules, in memory.

    HPAs that cannot be replayed are `skipped`, the others go on. For results larger than memory see
    `jobs`.

    Raises:
        HistoryError: a table cannot be read.
    """
    results = list(replay_shards(plan, range(len(plan.shards))))
    notes = join_notes(plan, [result.facts for result in results])
    return ReplayResult(
        notes.skipped,
        notes.warnings,
        notes.evidence,
        pl.concat([pl.DataFrame(schema=_schema(plan)), *(r.decisions for r in results)]),
        pl.concat([candidate_frame([]).drop("labels"), *(r.hpas for r in results)]),
        join_summaries([r.summary for r in results]),
    )


def replay_shards(
    plan: ReplayPlan, shards: Sequence[int], keep: bool = True
) -> Iterator[ShardResult]:
    """Yield the results of some shards of a plan, in order; the next one is read meanwhile.

    A result depends on the plan's parameters and the shard's HPAs alone: neither on how the
    others are cut into shards nor on the number of threads. Decisions are kept, or summed up only.

    Raises:
        HistoryError: a table is broken.
    """
    for step in ahead(shard_steps(plan, shards)):
        run_step(plan, step)
        if step.last:
            yield shard_result(plan, step.shard, step.facts, keep)


def _has_usage(plan: ReplayPlan) -> bool:
    return not plan.history.sizes(USAGE).is_empty()


def shard_result(
    plan: ReplayPlan, shard: Shard, facts: ShardFacts, keep: bool = True
) -> ShardResult:
    """Return the result of a shard whose ticks are all decided."""
    hpas = candidate_frame(shard.candidates).drop("labels")
    decisions = pl.DataFrame(schema=_schema(plan))
    if keep and hpas.height:
        decisions = decisions_frame(shard, plan.whole)
    note_outcome(plan, shard, facts)
    applied = applied_of(shard.fleet)
    summary = summarize(shard.fleet, shard.results, applied, metrics_of(shard), hpas)
    return ShardResult(facts, decisions, hpas, summary)


def _schema(plan: ReplayPlan) -> pl.Schema:
    return pl.Schema(SCHEMA | WHY_SCHEMA) if plan.whole else SCHEMA


def note_outcome(plan: ReplayPlan, shard: Shard, facts: ShardFacts) -> None:
    """Note what a shard whose ticks are all decided left out, and which metrics were never seen."""
    kept = {id(candidate) for candidate in shard.candidates}
    facts.skipped = [Skipped(*c.key, NEVER_IN_FORCE) for c in shard.asked if id(c) not in kept]
    facts.silent = _silence(shard, _has_usage(plan))


def join_notes(plan: ReplayPlan, facts: Iterable[ShardFacts]) -> ReplayNotes:
    """Return the notes on a replay from the facts of each shard."""
    skipped, strays, repeated = [*plan.skipped], dict[Any, int](), dict[Any, int]()
    pairs, generated, silent, silent_count = set[Pair](), 0, list[str](), 0
    for some in facts:
        skipped += some.skipped
        strays |= {(some.cluster, uid): n for uid, n in some.strays.items()}
        repeated |= {(some.cluster, uid): n for uid, n in some.repeated.items()}
        pairs.update(some.pairs)
        generated += len(some.generated)
        silent += some.silent[: MOST_TOLD - len(silent)]
        silent_count += len(some.silent)
    warnings = list(plan.history.warnings)
    if strays:
        warnings.append(
            f"pod_metrics: {counted(sum(strays.values()), 'row')} of pods that the pods table does "
            "not hold, left out: record those pods"
        )
    if repeated:
        warnings.append(
            f"pods: {counted(sum(repeated.values()), 'row')} with the uid of a later row, left "
            "out: a uid stands for one pod, correct the others"
        )
    for first, second in sorted(pairs):
        warnings.append(
            f"{first[1]}/{first[2]} and {second[1]}/{second[2]} match "
            "the same pods, so neither can scale (AmbiguousSelector): remove one of them"
        )
    warnings += [*_without_usage(plan), *silent]
    if silent_count > MOST_TOLD:
        warnings.append(f"… and {silent_count - MOST_TOLD} more such metrics")
    warnings += _foreign(plan, {key for pair in pairs for key in pair})
    evidence = plan.evidence
    if generated:
        told = f"of {counted(generated, 'HPA')} the pods stand for a recorded size"
        evidence = evidence | {"generated_pods": told}
    return ReplayNotes(tuple(skipped), (*warnings, *plan.warnings), evidence)


def _foreign(plan: ReplayPlan, told: Collection[Sequence[str]]) -> Iterator[str]:
    """Generate a sentence for each HPA that counts pods of others, but for those `told` already."""
    theirs = [
        (candidate, places)
        for candidate, places in zip(plan.chosen, plan.places, strict=True)
        if len(places) > 1 and candidate.key not in told
    ]
    for candidate, places in theirs[:MOST_TOLD]:
        if pods := foreign_pods(plan.history, candidate, places):
            more, them = "", "it"
            if len(pods) > 1:
                more, them = f" and {counted(len(pods) - 1, 'more pod')} of others", "them"
            yield (
                f"{candidate.namespace}/{candidate.name}: its selector matches pod {pods[0][0]}, "
                f"which belongs to {pods[0][1]}{more}; the controller counts {them}, too: make the "
                "selectors of the workloads distinct"
            )
    if len(theirs) > MOST_TOLD:
        more = counted(len(theirs) - MOST_TOLD, "more HPA")
        yield f"… and {more} may count pods of others: hpabatch history quality tells"


def _without_usage(plan: ReplayPlan) -> list[str]:
    """Return a sentence if HPAs read usage of pods and the history has none at all."""
    if _has_usage(plan):
        return []
    names = sorted(
        f"{candidate.namespace}/{candidate.name}"
        for candidate in plan.chosen
        if any(m.type in _OF_USAGE for period in candidate.periods for m in period.spec.metrics)
    )
    if not names:
        return []
    many = f"{names[0]} reads" if len(names) == 1 else f"{len(names):,} HPAs ({names[0]}, …) read"
    return [
        f"{many} cpu or memory of pods, of which the history has no sample ({USAGE}): these "
        "metrics count as failed throughout; import the pods' usage too"
    ]


def _silence(shard: Shard, has_usage: bool) -> list[str]:
    """Return a sentence for each metric that never had a visible sample.

    Without `has_usage` none of those of pods' usage: one sentence tells of all.
    """
    found, g = [], 0
    for candidate, streams in zip(shard.candidates, shard.streams, strict=True):
        for _, metric in streams:
            shown, rows = shard.observations.seen[g]
            g += 1
            if shown or metric.type not in codes.SOURCE_TYPES:
                continue
            if not has_usage and metric.type in _OF_USAGE:
                continue
            place = f"{candidate.namespace}/{candidate.name}"
            name = f"{place}: {metric.type} metric {metric_subject(metric)}"
            if rows:
                found.append(
                    f"{name} was never visible to a tick: its samples belong to other "
                    "times, or delay and max age hide them; it counts as failed throughout"
                )
            else:
                found.append(
                    f"{name}: no sample of it (for the pods of its target) is in the history; it "
                    "counts as failed throughout: record it, or check its name and selector"
                )
    return found
