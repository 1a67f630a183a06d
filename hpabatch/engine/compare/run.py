"""Comparison of two replays of a fleet: under two versions, or with two sets of specs.

Both sides have the same HPAs, samples, sizes and instants, so every difference comes from the rules
or the specs. Shards are decided under both settings one by one, and only differences are kept:
memory does not grow with the history. Every first difference is then traced to the switches or
fields that cause it (`causes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import polars as pl

from hpabatch.engine.compare.causes import (
    SpecTrials,
    changed_switches,
    switch_words,
    version_trials,
    with_causes,
)
from hpabatch.engine.compare.frames import DECIDES, EXPLAINS, SCHEMA, find_differences, side_by_side
from hpabatch.engine.compare.sides import BOTH, Key, LeftOut, Side, Sides, plan_sides
from hpabatch.engine.fleet.plan import Select
from hpabatch.engine.replay.run import join_notes, replay_shards
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.history.reader import History
from hpabatch.model.progress import Progress, silent

VERSIONS: Final = "versions"
SPECS: Final = "specs"
DECIDED: Final = 0.5  # how far a comparison is, about, before causes are looked for


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two runs of a fleet.

    `compared` is `VERSIONS` or `SPECS`, `names` what the two sides are called. `differences` has a
    row per HPA that differs, with `frames.SCHEMA`, sorted by name; `hpas` and `ticks` count
    what was compared, `left_out` says what was not.
    """

    compared: str
    names: tuple[str, str]
    differences: pl.DataFrame
    hpas: int
    ticks: int
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]

    @property
    def decide(self) -> int:
        """How many HPAs decide differently."""
        return int((self.differences["differs"] == DECIDES).sum())

    @property
    def explain(self) -> int:
        """How many HPAs do the same for another reason."""
        return int((self.differences["differs"] == EXPLAINS).sum())


def compare_history(
    history: History,
    before: Side,
    after: Side,
    select: Select | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Replay a history under two settings and return the HPAs that differ, since when and why.

    The sides differ in their version and feature gates, or in their manifests; everything else of
    their parameters is to be the same. `select` is as in `replay_history`, asked of the first side.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: there is no profile for a Kubernetes version, or no HPA is selected.
    """
    progress("planning", 0.0)
    sides = plan_sides(history, before, after, select)
    kind = VERSIONS if before.manifests is None and after.manifests is None else SPECS
    return compare_sides(kind, sides, progress)


def compare_sides(kind: str, sides: Sides, progress: Progress = silent) -> Comparison:
    """Return the comparison of two sides that are planned; `kind` is `VERSIONS` or `SPECS`.

    Raises:
        HistoryError: a table is broken.
    """
    plans, shards = (sides.before, sides.after), range(len(sides.before.shards))
    parts, ticks = [pl.DataFrame(schema=SCHEMA)], dict[Key, int]()
    facts: tuple[list[ShardFacts], list[ShardFacts]] = ([], [])
    both = zip(*(replay_shards(plan, shards) for plan in plans), strict=True)
    for k, results in enumerate(both):
        part, counts = find_differences(side_by_side(*(result.decisions for result in results)))
        parts.append(part)
        ticks |= {(c, n, h): count for c, n, h, count in counts.iter_rows()}
        for known, result in zip(facts, results, strict=True):
            known.append(result.facts)
        progress("deciding twice", DECIDED * (k + 1) / len(shards))
    differences = _explained(kind, sides, pl.concat(parts), progress)
    warnings = (join_notes(p, told).warnings for p, told in zip(plans, facts, strict=True))
    left_out = {*sides.left_out, *_without_ticks(sides, ticks, facts)}
    return Comparison(
        compared=kind,
        names=sides.names,
        differences=differences.sort(KEY),
        hpas=len(ticks),
        ticks=sum(ticks.values()),
        left_out=tuple(sorted(left_out, key=astuple)),
        warnings=joined_texts(sides.names, *warnings),
        evidence=joined_evidence(sides.names, *(plan.evidence for plan in plans)),
    )


def joined_texts(
    names: tuple[str, str], before: Sequence[str], after: Sequence[str]
) -> tuple[str, ...]:
    """Return the texts of both sides; one that only one side has begins with its name."""
    ours = [text if text in after else f"{names[0]}: {text}" for text in before]
    theirs = [f"{names[1]}: {text}" for text in after if text not in before]
    return tuple(dict.fromkeys([*ours, *theirs]))


def _without_ticks(
    sides: Sides, ticks: Mapping[Key, int], facts: Sequence[Sequence[ShardFacts]]
) -> Iterator[LeftOut]:
    """Yield the HPAs of both sides that have no tick to compare."""
    before, after = ({s.key: s.reason for f in told for s in f.skipped} for told in facts)
    for key in (candidate.key for candidate in sides.before.chosen):
        if key in ticks:
            continue
        if key in before:
            yield LeftOut(*key, BOTH if key in after else sides.names[0], before[key])
        elif key in after:
            yield LeftOut(*key, sides.names[1], after[key])
        else:
            yield LeftOut(*key, BOTH, "its specs of the two sides share no tick")


def _explained(
    kind: str, sides: Sides, differences: pl.DataFrame, progress: Progress
) -> pl.DataFrame:
    """Return differences with the columns of their causes."""

    def report(share: float) -> None:
        progress("looking for causes", DECIDED + (1 - DECIDED) * share)

    def of_version(key: Key) -> dict[str, str]:
        before, after = (plan.profile_of(key[0]) for plan in (sides.before, sides.after))
        return {name: switch_words(name, before, after) for name in changed_switches(before, after)}

    if differences.is_empty():
        return differences
    plans = (sides.before, sides.after)
    if kind == VERSIONS:
        trials = version_trials(sides, differences["cluster"].unique().sort().to_list())
        return with_causes(differences, trials, of_version, plans, report)
    specs = SpecTrials(sides, differences)
    return with_causes(differences, specs.trials(), specs.words, plans, report)


def joined_evidence(
    names: tuple[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Return the evidence of both sides; what differs stands twice, with `_from` and `_to`."""
    found = {"from": names[0], "to": names[1]}
    for name in dict.fromkeys([*before, *after]):
        ours, theirs = before.get(name, "none"), after.get(name, "none")
        found |= {name: ours} if ours == theirs else {f"{name}_from": ours, f"{name}_to": theirs}
    return found
