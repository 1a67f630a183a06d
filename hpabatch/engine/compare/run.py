"""Comparison of two replays of a fleet: under two versions, or with two sets of specs.

Both sides have the same HPAs, samples, sizes and instants, so every difference comes from the rules
or the specs. Shards are decided under both settings one by one, and only differences are kept:
memory does not grow with the history. Every first difference is then traced to the switches or
fields that cause it (`causes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl

from hpabatch.engine.compare.causes import Cause, Key, Runner, find_causes, sentence
from hpabatch.engine.compare.frames import DECIDES, EXPLAINS, SCHEMA, find_differences, side_by_side
from hpabatch.engine.compare.sides import BOTH, LeftOut, Side, Sides, plan_sides
from hpabatch.engine.compare.trials import (
    SpecTrials,
    changed_switches,
    replayed,
    switch_words,
    version_trials,
)
from hpabatch.engine.fleet.plan import Select
from hpabatch.engine.replay.run import ShardResult, join_notes, replay_shards
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
    found = _Found()
    shards = range(len(sides.before.shards))
    both = (replay_shards(plan, shards) for plan in (sides.before, sides.after))
    for k, (ours, theirs) in enumerate(zip(*both, strict=True)):
        found.add(ours, theirs)
        progress("deciding twice", DECIDED * (k + 1) / len(shards))
    runners = partial(replayed, sides.before), partial(replayed, sides.after)
    differences = with_causes(kind, sides, runners, found.differences(), progress)
    left_out = (*sides.left_out, *_without_ticks(sides, found))
    return Comparison(
        compared=kind,
        names=sides.names,
        differences=differences.sort(KEY),
        hpas=len(found.ticks),
        ticks=sum(found.ticks.values()),
        left_out=tuple(sorted(set(left_out), key=left_out_order)),
        warnings=found.warnings(sides),
        evidence=joined_evidence(sides.names, sides.before.evidence, sides.after.evidence),
    )


def left_out_order(item: LeftOut) -> tuple[str, ...]:
    """Return what items are sorted by."""
    return item.cluster, item.namespace, item.hpa, item.side, item.reason


class _Found:
    """Results of the shards that are kept: differences, ticks by HPA, reasons and warnings."""

    def __init__(self) -> None:
        self.parts: list[pl.DataFrame] = []
        self.ticks: dict[Key, int] = {}
        self.without: tuple[dict[Key, str], dict[Key, str]] = ({}, {})
        self.told: tuple[list[ShardFacts], ...] = ([], [])

    def add(self, ours: ShardResult, theirs: ShardResult) -> None:
        """Compare the results of a shard."""
        part, ticks = find_differences(side_by_side(ours.decisions, theirs.decisions))
        self.parts.append(part)
        self.ticks |= {(c, n, h): count for c, n, h, count in ticks.iter_rows()}
        for k, result in enumerate((ours, theirs)):
            self.told[k].append(result.facts)
            self.without[k].update({s.key: s.reason for s in result.facts.skipped})

    def differences(self) -> pl.DataFrame:
        """Return the differences of all shards."""
        return pl.concat([pl.DataFrame(schema=SCHEMA), *self.parts])

    def warnings(self, sides: Sides) -> tuple[str, ...]:
        """Return what is to be told of either side; what is of one alone names it."""
        plans = (sides.before, sides.after)
        before, after = (
            join_notes(plan, told).warnings for plan, told in zip(plans, self.told, strict=True)
        )
        return joined_texts(sides.names, before, after)


def joined_texts(
    names: tuple[str, str], before: Sequence[str], after: Sequence[str]
) -> tuple[str, ...]:
    """Return the texts of both sides; one that only one side has begins with its name."""
    ours = [text if text in after else f"{names[0]}: {text}" for text in before]
    theirs = [f"{names[1]}: {text}" for text in after if text not in before]
    return tuple(dict.fromkeys([*ours, *theirs]))


def _without_ticks(sides: Sides, found: _Found) -> list[LeftOut]:
    """Return the HPAs of both sides that have no tick to compare."""
    before, after = found.without
    left_out = []
    for candidate in sides.before.chosen:
        key = candidate.key
        if key in found.ticks:
            continue
        if key in before:
            side = BOTH if key in after else sides.names[0]
            left_out.append(LeftOut(*key, side, before[key]))
        elif key in after:
            left_out.append(LeftOut(*key, sides.names[1], after[key]))
        else:
            left_out.append(LeftOut(*key, BOTH, "its specs of the two sides share no tick"))
    return left_out


# ---- causes -------------------------------------------------------------------------------------


def with_causes(
    kind: str,
    sides: Sides,
    runners: tuple[Runner, Runner],
    differences: pl.DataFrame,
    progress: Progress,
) -> pl.DataFrame:
    """Return differences with the columns of their causes; a runner for each side."""

    def report(share: float) -> None:
        progress("looking for causes", DECIDED + (1 - DECIDED) * share)

    if differences.is_empty():
        return differences
    if kind == VERSIONS:
        clusters = differences["cluster"].unique().sort().to_list()
        causes = find_causes(differences, version_trials(sides, clusters), runners, report)
        return _told(differences, causes, lambda key: _version_words(sides, key))
    specs = SpecTrials(sides, differences)
    causes = find_causes(differences, specs.trials(), runners, report)
    return _told(differences, causes, specs.words)


def _version_words(sides: Sides, key: Key) -> dict[str, str]:
    """Return what differs in the rules of an HPA's cluster, by switch."""
    before, after = (plan.profile_of(key[0]) for plan in (sides.before, sides.after))
    return {name: switch_words(name, before, after) for name in changed_switches(before, after)}


def _told(
    differences: pl.DataFrame, causes: dict[Key, Cause], words: Callable[[Key], dict[str, str]]
) -> pl.DataFrame:
    """Return differences with their causes; `words` say what changed for an HPA."""
    rows = []
    for c, n, h in differences.select(KEY).iter_rows():
        cause = causes.get((c, n, h))
        names = None if cause is None else ", ".join(cause.names)
        how = None if cause is None else cause.how
        rows.append((names, how, sentence(cause, words((c, n, h)))))
    schema = dict.fromkeys(("cause", "how", "rule"), pl.String())
    return differences.with_columns(pl.DataFrame(rows, schema=schema, orient="row"))


# ---- evidence -----------------------------------------------------------------------------------


def joined_evidence(
    names: tuple[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Return the evidence of both sides; what differs stands twice, with `_from` and `_to`."""
    found = {"from": names[0], "to": names[1]}
    for name in dict.fromkeys([*before, *after]):
        ours, theirs = before.get(name, "none"), after.get(name, "none")
        found |= {name: ours} if ours == theirs else {f"{name}_from": ours, f"{name}_to": theirs}
    return found
