"""Replay plan: its HPAs, times of decisions, shards and resolved parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import polars as pl

from hpabatch.engine.fleet.candidates import (
    Candidate,
    Skipped,
    candidate_frame,
    candidates_from_manifests,
    candidates_of,
    stored_candidate,
    within_lives,
)
from hpabatch.engine.fleet.clocks import Clocks, HpaKey, clocks_of, passes_of
from hpabatch.engine.fleet.flags import (
    DEFAULT_FLAGS,
    FlagPeriod,
    recorded_flags,
    recorded_gates,
    recorded_passes,
    recorded_starts,
    stated_flags,
)
from hpabatch.engine.fleet.membership import Place, Selections
from hpabatch.engine.fleet.parameters import (
    SAMPLE_TABLES,
    ReplayParameters,
    Settled,
    evidence_of,
    settle,
    with_source,
)
from hpabatch.engine.fleet.selection import Selection
from hpabatch.engine.fleet.sources import POD_TABLES
from hpabatch.engine.fleet.stated_requests import (
    StatedRequest,
    stated_requests,
    with_requests,
)
from hpabatch.engine.fleet.versions import Versions, versions_of
from hpabatch.history.base import Wanted
from hpabatch.history.checks import BROKEN
from hpabatch.history.provenance import guesses_told
from hpabatch.history.reader import History
from hpabatch.inputs.lenses import Lens, ratios_words, words_of
from hpabatch.layout.records import I64
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import Profile

Select = Callable[[pl.DataFrame], pl.DataFrame]
See = Callable[["ReplayPlan"], "ReplayPlan"]
"""Puts lenses into a plan."""

# A shard's size: a decision takes some 200 bytes until it is written, a sample of a day some 100.
SHARD_DECISIONS = 400_000
SHARD_DAY_ROWS = 1_500_000
# A shard's samples are read day by day, or so many days at once that they stay below so many rows:
# each reading takes some 10 ms, however few its rows.
STEP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Plan of a replay; `shards` are consecutive positions of `chosen` (first, last).

    `everyone` are all HPAs of the clusters, `chosen` those to replay, in order of cluster,
    namespace and name. `places` belong to `chosen`: where their pods are. `rivals` are, of a chosen
    HPA that has some, all HPAs that may match the same pods, itself included. Samples are seen
    through `lenses`; of those of `ratios` only scale / targets is known.
    """

    history: History
    versions: Versions
    settled: Settled
    everyone: tuple[Candidate, ...]
    chosen: tuple[Candidate, ...]
    places: tuple[tuple[Place, ...], ...]
    rivals: Mapping[HpaKey, tuple[Candidate, ...]]
    shards: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    clocks: Clocks
    flags: dict[str, tuple[FlagPeriod, ...]]
    starts_ms: Mapping[str, I64]
    fetched: frozenset[str]
    days: Mapping[tuple[str, str], Mapping[Place, Mapping[date, int]]]
    external_series: Mapping[str, Mapping[str, Sequence[tuple[str, ...]]]]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]
    whole: bool = False
    lenses: tuple[Lens, ...] = ()
    ratios: tuple[Lens, ...] = ()
    requests: tuple[StatedRequest, ...] = ()

    def requests_of(self, cluster: str, places: Collection[Wanted]) -> pl.DataFrame:
        """Return the rows of `pod_requests` of some places, with the stated requests in them."""
        return with_requests(self.history.select("pod_requests", cluster, places), self.requests)

    def days_of(self, table: str, cluster: str) -> Mapping[Place, Mapping[date, int]]:
        """Return the UTC days on which each place of a sample table has rows, and how many."""
        return self.days.get((table, cluster), {})

    def profile_of(self, cluster: str) -> Profile:
        """Return the rules that a cluster's controller has."""
        return self.versions.of(cluster)

    def flags_of(self, cluster: str) -> tuple[FlagPeriod, ...]:
        """Return a cluster's flags over time; upstream's defaults where none were recorded."""
        return self.flags.get(cluster, DEFAULT_FLAGS)


NO_HPA = "scales: no HPA for"
"""The begin of the warning on targets that no HPA scales."""


def plan_replay(
    history: History,
    parameters: ReplayParameters,
    manifests: Sequence[HPA] | None = None,
    select: Select | None = None,
    whole: bool = False,
) -> ReplayPlan:
    """Return the plan of a replay; only small parts of the history are read for it.

    `select` gets the frame of candidates and returns the rows to replay; `whole` asks for statuses
    beside decisions.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: there is no profile for that Kubernetes version, or the parameters hide all
            samples.
    """
    controller = history.read("controller")
    requests = stated_requests(parameters.requests, history)
    flags = recorded_flags(controller)
    settled = settle(parameters, history, flags)
    scales = history.distinct(
        "scales", ["cluster", "namespace", "target_kind", "target", "selector"]
    )
    clusters = scales["cluster"].unique().to_list()
    if stated := parameters.flags:
        flags = stated_flags(flags, sorted({*clusters, *flags}), stated)
        settled = with_source(settled, "flags", "given")
    passes = passes_of(history, parameters)
    # A loop decides by rules of its own.
    told = passes.filter(pl.col("k8s").is_not_null()).rename({"k8s": "version"})
    others = controller.filter(~pl.col("cluster").is_in(told["cluster"].unique().implode()))
    versions = versions_of(
        pl.concat([rows.select("cluster", "ts", "version") for rows in (others, told)]),
        parameters.k8s,
        parameters.feature_gates,
        clusters,
        recorded_gates(controller),
    )
    everyone, skipped = _candidates(history, scales, manifests, versions)
    everyone = [stored_candidate(c, versions.of(c.cluster)) for c in everyone]
    chosen = _selected(everyone, select)
    pods = history.distinct("pods", ["cluster", "namespace", "target", "labels"])
    selections = Selections(scales, pods)
    chosen, more = _with_scale(chosen, selections)
    skipped = _meant(skipped, select)
    if isinstance(select, Selection):
        select.check([*skipped, *more])
    rivals = _rivals(everyone, chosen, selections)
    passes_ms, began_ms = recorded_passes(passes)
    # A loop's memory is its own: that of the cluster's controller came and went beside it.
    starts_ms = recorded_starts(controller.filter(~pl.col("cluster").is_in([*passes_ms])))
    clocks, settled, fetched = clocks_of(history, settled, parameters, chosen, rivals, passes_ms)
    places = [tuple(selections.places(candidate)) for candidate in chosen]
    sizes = _day_rows(history, chosen, places)
    return ReplayPlan(
        history=history,
        versions=versions,
        settled=settled,
        everyone=tuple(everyone),
        chosen=tuple(chosen),
        places=tuple(places),
        rivals=rivals,
        shards=_shards(chosen, sizes, clocks),
        rows=tuple(sizes),
        clocks=clocks,
        flags=flags,
        starts_ms=starts_ms | began_ms,
        fetched=fetched,
        days=_days(history),
        external_series=_external_series(history),
        skipped=(*skipped, *more),
        warnings=(
            *versions.warnings,
            *_without_hpa(scales, everyone, skipped),
            *guesses_of(history, chosen, stated=manifests is not None),
        ),
        evidence=evidence_of(
            settled, [p.flags for c in sorted(flags) for p in flags[c]], versions, history
        )
        | ({"requests": "; ".join(parameters.requests)} if requests else {}),
        whole=whole,
        requests=requests,
    )


def with_lenses(
    plan: ReplayPlan, lenses: Sequence[Lens], ratios: Sequence[Lens] = ()
) -> ReplayPlan:
    """Return the same replay with its samples seen through lenses; `ratios` are only told."""
    told = {"ratio": "; ".join(ratios_words(ratios, lenses))} if ratios else {}
    evidence = plan.evidence | told | {"lens": words_of(lenses)}
    return replace(plan, lenses=tuple(lenses), ratios=tuple(ratios), evidence=evidence)


def as_recorded(plan: ReplayPlan) -> ReplayPlan:
    """Return a plan without a lens."""
    return plan


def as_used(plan: ReplayPlan) -> ReplayPlan:
    """Return the same replay with its samples at the times of the usage that they tell.

    This is what pods did, whatever the controller saw of it: a plant is fitted and judged on it.
    """
    lenses = [lens.of_recording for lens in plan.lenses]
    return replace(plan, lenses=tuple(lenses) if any(one.changes for one in lenses) else ())


def narrow_plan(plan: ReplayPlan, positions: Sequence[int]) -> ReplayPlan:
    """Return a plan for some of the HPAs of another, by their positions in `chosen`, ascending."""
    chosen = [plan.chosen[k] for k in positions]
    rows = [plan.rows[k] for k in positions]
    return replace(
        plan,
        chosen=tuple(chosen),
        places=tuple(plan.places[k] for k in positions),
        rows=tuple(rows),
        shards=_shards(chosen, rows, plan.clocks),
    )


def _candidates(
    history: History, scales: pl.DataFrame, manifests: Sequence[HPA] | None, versions: Versions
) -> tuple[list[Candidate], list[Skipped]]:
    if manifests is None:
        return candidates_of(history, versions.of)
    targets = scales.select("cluster", "namespace", "target_kind", "target").unique().rows()
    found, skipped = candidates_from_manifests(manifests, targets)
    kept, outside = within_lives(found, history)
    return kept, skipped + outside


def chosen_hpas(
    history: History, profile_of: Callable[[str], Profile], select: Selection | None = None
) -> tuple[list[Candidate], list[Skipped]]:
    """Return the recorded HPAs that are meant, and those of them whose spec is refused.

    Raises:
        UsageError: a name or a condition of the selection is wrong.
    """
    candidates, skipped = candidates_of(history, profile_of)
    chosen, skipped = _selected(candidates, select), _meant(skipped, select)
    if select is not None:
        select.check(skipped)
    return chosen, skipped


def guesses_of(
    history: History, candidates: Sequence[Candidate], *, stated: bool = False
) -> tuple[str, ...]:
    """Return a sentence if an import guessed HPAs (unless `stated`) or requests of some HPAs."""
    targets = [(c.cluster, c.namespace, c.target[3]) for c in candidates]
    return guesses_told(history, targets, hpas=not stated)


def _meant(skipped: Sequence[Skipped], select: Select | None) -> list[Skipped]:
    """Return those of the HPAs left out that a selection by a condition does not rule out.

    Only their names are known, so a condition on anything else rules none out, nor does one that
    cannot convert a name.
    """
    condition = getattr(select, "condition", None)
    if condition is None or not skipped:
        return list(skipped)
    names = {
        "cluster": [s.cluster for s in skipped],
        "namespace": [s.namespace for s in skipped],
        "hpa": [s.hpa for s in skipped],
    }
    known = pl.DataFrame(names)
    others = {n: t for n, t in candidate_frame([]).schema.items() if n not in names}
    frame = known.with_columns(pl.lit(None, dtype=t).alias(n) for n, t in others.items())
    try:
        outside = frame.select((~condition).fill_null(value=False).alias("outside"))["outside"]
    except BROKEN:
        return list(skipped)
    return [s for s, out in zip(skipped, outside.to_list(), strict=True) if not out]


def _selected(candidates: list[Candidate], select: Select | None) -> list[Candidate]:
    if select is None:
        return candidates
    kept = select(candidate_frame(candidates).with_row_index("row"))["row"].to_list()
    return [candidates[k] for k in sorted(kept)]


def _with_scale(
    candidates: Sequence[Candidate], selections: Selections
) -> tuple[list[Candidate], list[Skipped]]:
    """Return the HPAs whose target's scale was recorded, and the others with the reason."""
    kept, skipped = [], []
    for c in candidates:
        if c.target in selections.selectors:
            kept.append(c)
            continue
        kind, name = c.target[2:]
        reason = (
            f"its target {kind}/{name} has no row in the scales table, so its replicas are "
            "not known; record the target's scale, or correct scaleTargetRef"
        )
        skipped.append(Skipped(c.cluster, c.namespace, c.name, reason))
    return kept, skipped


def _day_rows(
    history: History, chosen: Sequence[Candidate], places: Sequence[tuple[Place, ...]]
) -> list[int]:
    """Return for each HPA how many usage samples its busiest day has, at most."""
    sizes = pl.concat([history.sizes(table) for table in POD_TABLES])
    sizes = sizes.group_by("cluster", "namespace", "place", "day").agg(pl.col("rows").sum())
    most = sizes.group_by("cluster", "namespace", "place").agg(pl.col("rows").max())
    rows = {(c, n, p): int(r) for c, n, p, r in most.iter_rows()}
    return [
        sum(rows.get((candidate.cluster, *place), 0) for place in theirs)
        for candidate, theirs in zip(chosen, places, strict=True)
    ]


def _days(history: History) -> dict[tuple[str, str], dict[Place, dict[date, int]]]:
    found: dict[tuple[str, str], dict[Place, dict[date, int]]] = {}
    for table in SAMPLE_TABLES:
        keys = ["cluster", "namespace", "place"]
        days = history.sizes(table).group_by(keys, maintain_order=True).agg("day", "rows")
        for cluster, namespace, place, theirs, rows in days.iter_rows():
            known = dict(zip(theirs, rows, strict=True))
            found.setdefault((table, cluster), {})[namespace, place] = known
    return found


def _external_series(history: History) -> dict[str, dict[str, list[tuple[str, ...]]]]:
    """Return the (namespace, metric, selector, series) of external metrics, sorted, by cluster and
    namespace.
    """
    columns = ["cluster", "namespace", "metric", "selector", "series"]
    found: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    for cluster, *owner in sorted(history.distinct("external_metrics", columns).iter_rows()):
        found.setdefault(cluster, {}).setdefault(owner[0], []).append(tuple(owner))
    return found


def _shards(
    chosen: Sequence[Candidate], rows: Sequence[int], clocks: Clocks
) -> tuple[tuple[int, int], ...]:
    """Cut the HPAs into shards of one cluster each, so that a shard's arrays stay small."""
    usual = max((clocks.to_ms - clocks.from_ms) // clocks.grid.period_ms, 1)
    shards, first, decisions, day_rows = [], 0, 0, 0
    for k, candidate in enumerate(chosen):
        known = clocks.known(candidate.key)
        ticks = usual if known is None else known
        full = decisions + ticks > SHARD_DECISIONS or day_rows + rows[k] > SHARD_DAY_ROWS
        if k > first and (full or candidate.cluster != chosen[first].cluster):
            shards.append((first, k))
            first, decisions, day_rows = k, 0, 0
        decisions, day_rows = decisions + ticks, day_rows + rows[k]
    return (*shards, (first, len(chosen))) if chosen else ()


def _rivals(
    everyone: Sequence[Candidate], chosen: Sequence[Candidate], selections: Selections
) -> dict[HpaKey, tuple[Candidate, ...]]:
    """Return for each chosen HPA that may share pods all HPAs that may, itself included."""
    at: dict[tuple[str, str, str | None], list[int]] = {}
    for k, candidate in enumerate(everyone):
        places = {place for part in candidate.of_targets for place in selections.places(part)}
        for namespace, owner in places:
            at.setdefault((candidate.cluster, namespace, owner), []).append(k)
    found = {}
    for c in chosen:
        numbers = {k for n, owner in selections.places(c) for k in at[c.cluster, n, owner]}
        if len(numbers) > 1:
            found[c.key] = tuple(everyone[k] for k in sorted(numbers))
    return found


def _without_hpa(
    scales: pl.DataFrame, everyone: Sequence[Candidate], skipped: Sequence[Skipped]
) -> tuple[str, ...]:
    if skipped:
        return ()  # a refused HPA's target is not known
    targets = scales.select("cluster", "namespace", "target_kind", "target").unique().rows()
    idle = sorted(set(targets) - {candidate.target for candidate in everyone})
    if not idle:
        return ()
    names = ", ".join(f"{namespace}/{name}" for _, namespace, _, name in idle[:3])
    more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
    return (
        f"{NO_HPA} {names}{more}; they are left out: add their HPAs to hpas (or to the "
        "manifests) if they had any",
    )
