"""The two sides of a comparison: planned alike, for the HPAs that both have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from typing import Final

import polars as pl

from hpabatch.engine.fleet.candidates import (
    Candidate,
    Skipped,
    candidate_frame,
    candidates_from_history,
    clusters_seen,
    stored_candidate,
    within_lives,
)
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, Select, narrow_plan, plan_replay
from hpabatch.engine.fleet.selection import Selection
from hpabatch.engine.fleet.versions import Versions
from hpabatch.engine.replay.summary import KEY
from hpabatch.errors import UsageError
from hpabatch.history.reader import History
from hpabatch.model.objects.hpa import HPA

BOTH: Final = "both"
DAY_MS: Final = 86_400_000
_EPOCH = date(1970, 1, 1)

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """Name and inputs of one side; `manifests` None: the recorded HPAs."""

    name: str
    parameters: ReplayParameters
    manifests: tuple[HPA, ...] | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An HPA (or some of its time) that is not compared: on which side, `BOTH` or its name."""

    cluster: str
    namespace: str
    hpa: str
    side: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sides:
    """Two plans of the same HPAs, instants and shards, and the HPAs that are not in both."""

    names: tuple[str, str]
    before: ReplayPlan
    after: ReplayPlan
    left_out: tuple[LeftOut, ...]


def plan_sides(history: History, before: Side, after: Side, select: Select | None = None) -> Sides:
    """Plan both sides of a comparison.

    `select` is asked of the first side's HPAs, and of those that only the second side has.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: there is no profile for a Kubernetes version, or no HPA is selected.
    """
    asked = None if select is None else _Asked(select)
    first = plan_replay(history, before.parameters, before.manifests, asked)
    known = {c.key for c in first.everyone}
    # What lacks a scale on the first side is to be found lacking on the second one too.
    chosen = {c.key for c in first.chosen} | ({skipped.key for skipped in first.skipped} & known)
    more = None if asked is None else _Like(asked, known, chosen)
    second = plan_replay(history, after.parameters, after.manifests, more)
    if asked is not None and asked.error and not (first.chosen or second.chosen):
        raise asked.error
    if isinstance(select, Selection) and (select.names or select.namespaces):
        new = [c for c in second.everyone if c.key not in known]
        select(candidate_frame([*first.everyone, *new]))
        select.check([*first.skipped, *second.skipped])
    return _aligned((before.name, after.name), first, second)


class _Asked:
    """A selection that may find nothing on one side; `error` is then its error.

    `condition` is the selection's, for HPAs that are left out before they could be asked about.
    """

    def __init__(self, select: Select) -> None:
        self.select = select
        self.condition: pl.Expr | None = getattr(select, "condition", None)
        self.error: UsageError | None = None

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        try:
            return self.select(frame)
        except UsageError as error:
            self.error = self.error or error
            return frame.clear()


@dataclass(frozen=True, slots=True)
class _Like:
    """A selection of what another one has chosen, and of what that one did not know."""

    asked: _Asked
    known: Collection[Key]
    chosen: Collection[Key]

    @property
    def condition(self) -> pl.Expr | None:
        return self.asked.condition

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        keys = frame.select(KEY).rows()
        kept = [k for k, key in enumerate(keys) if key in self.chosen]
        new = frame[[k for k, key in enumerate(keys) if key not in self.known]]
        found = self.asked(new) if new.height else new
        return pl.concat([frame[kept], found])


def _aligned(names: tuple[str, str], first: ReplayPlan, second: ReplayPlan) -> Sides:
    """Return both plans with the HPAs of both, at the same instants."""
    ours, theirs = ({c.key: c for c in plan.chosen} for plan in (first, second))
    common = {k for k, c in ours.items() if k in theirs and c.target == theirs[k].target}
    left_out = [*_skipped(names, first.skipped, second.skipped)]
    skipped = {(item.cluster, item.namespace, item.hpa, item.side) for item in left_out}
    for key in sorted({*ours, *theirs} - common):
        if key in ours and key in theirs:
            targets = [c.target for c in (ours[key], theirs[key])]
            words = ", then ".join(f"{target[2]}/{target[3]}" for target in targets)
            left_out.append(LeftOut(*key, BOTH, f"its target is another one: {words}"))
            continue
        side, other = names if key in ours else names[::-1]
        # (a manifest whose target was not recorded is of no cluster)
        if not skipped & {(*place, other) for place in (key, ("", *key[1:]))}:
            left_out.append(LeftOut(*key, side, f"{other} has no such HPA"))
    estimated = {**second.clocks.estimated, **first.clocks.estimated}
    clocks = replace(first.clocks, estimated=estimated)
    before, after = (restricted(replace(p, clocks=clocks), common) for p in (first, second))
    return Sides(names, before, after, tuple(left_out))


def _skipped(
    names: tuple[str, str], before: Sequence[Skipped], after: Sequence[Skipped]
) -> Iterator[LeftOut]:
    """Yield what either side skipped; what both did for one reason once."""
    for skipped in before:
        yield LeftOut(*skipped.key, BOTH if skipped in after else names[0], skipped.reason)
    for skipped in after:
        if skipped not in before:
            yield LeftOut(*skipped.key, names[1], skipped.reason)


def restricted(plan: ReplayPlan, keys: Collection[Key]) -> ReplayPlan:
    """Return a plan of some of its HPAs, cut into shards anew."""
    return narrow_plan(plan, [k for k, c in enumerate(plan.chosen) if c.key in keys])


def until_first(plan: ReplayPlan, first_ms: Mapping[Key, int]) -> Iterator[ReplayPlan]:
    """Yield plans of some HPAs of a plan, each until (and with) the tick that is named.

    HPAs of one day go together, so that nothing is read after it.
    """
    # An HPA that may share pods with others is looked at by them: its instants stay.
    own = {key: ms for key, ms in first_ms.items() if key not in plan.rivals}
    if len(own) < len(first_ms):
        yield restricted(plan, {key for key in first_ms if key not in own})
    for day, keys in groupby(sorted(own, key=lambda key: own[key]), lambda k: own[k] // DAY_MS):
        yield _until(plan, {key: own[key] for key in keys}, day)


def _until(plan: ReplayPlan, first_ms: Mapping[Key, int], day: int) -> ReplayPlan:
    """Return a plan of HPAs that end on a day (its number since 1970)."""
    clocks = plan.clocks
    instants = {key: clocks.instants(clocks.of(key)) for key in first_ms}
    cut = {key: own[own <= first_ms[key]] for key, own in instants.items()}
    # A fetch may come before the sample's own time, by a clock that is wrong.
    last = _EPOCH + timedelta(days=day + bool(plan.fetched))
    days = {
        table: {
            place: {d: n for d, n in theirs.items() if d <= last} for place, theirs in of.items()
        }
        for table, of in plan.days.items()
    }
    clocks = replace(clocks, recorded={**clocks.recorded, **cut})
    return restricted(replace(plan, clocks=clocks, days=days), first_ms)


def under_versions(plan: ReplayPlan, versions: Versions) -> ReplayPlan:
    """Return a plan of recorded HPAs under other rules, those left out that these refuse."""
    keys = {c.key for c in plan.chosen}
    wanted = pl.DataFrame(list(keys), schema=dict.fromkeys(KEY, pl.String()), orient="row")
    hpas = plan.history.read("hpas")
    rows = hpas.join(wanted, left_on=["cluster", "namespace", "name"], right_on=KEY, how="semi")
    found, _ = candidates_from_history(rows, versions.of, clusters_seen(plan.history))
    living, _ = within_lives(found, plan.history)
    return with_candidates(
        replace(plan, versions=versions),
        [stored_candidate(c, versions.of(c.cluster)) for c in living],
    )


def with_candidates(plan: ReplayPlan, candidates: Sequence[Candidate]) -> ReplayPlan:
    """Return a plan of these HPAs in place of its own of the same names; others are left out."""
    new = {c.key: c for c in candidates}

    def of(theirs: Sequence[Candidate]) -> tuple[Candidate, ...]:
        return tuple(new.get(c.key, c) for c in theirs)

    changed = replace(
        plan,
        everyone=of(plan.everyone),
        chosen=of(plan.chosen),
        rivals={key: of(group) for key, group in plan.rivals.items()},
    )
    return restricted(changed, new)
