"""HPAs that can be replayed: their specs over time, from a history or from manifests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch._json import decode_json
from hpabatch.engine.columns.replay import SUMMARY
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.parameters import SAMPLE_TABLES, sample_spacing_ms
from hpabatch.history.provenance import RECORDER, ROWS, TABLE, TARGET_ROWS
from hpabatch.history.reader import History
from hpabatch.layout.records import I64
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec, MetricSpec
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.objects.validate import drop_disabled_fields, undecidable, validate_hpa
from hpabatch.model.versions import Profile


@dataclass(frozen=True, slots=True)
class SpecPeriod:
    """A spec and when it was in force, in ms, the end exclusive.

    Where they are known, its generation and the uid of the object.

    `order`: the place of each metric in the spec that was recorded; empty: the same.
    """

    from_ms: int
    to_ms: int
    spec: HPASpec
    generation: int | None = None
    uid: str = ""
    order: tuple[int, ...] = ()

    def places(self, recorded: I64) -> I64:
        """Return where metrics of the recorded spec, by their places, are; -1: nowhere."""
        if not self.order:
            return recorded
        table = np.full(max(self.order) + 2, -1, np.int64)
        table[list(self.order)] = np.arange(len(self.order))
        return table[np.minimum(recorded, table.size - 1)]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One HPA that may be replayed, with its specs in order of time.

    `earlier` are those of another target, from before: they are not replayed, but what the HPA did
    to others then counts. `created`: when it was created is recorded. `ignore` is its annotation of
    that name.
    """

    cluster: str
    namespace: str
    name: str
    periods: tuple[SpecPeriod, ...]
    labels: str = "{}"
    earlier: tuple[SpecPeriod, ...] = ()
    created: bool = False
    ignore: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Cluster, namespace and name."""
        return self.cluster, self.namespace, self.name

    @property
    def spec(self) -> HPASpec:
        """The last spec."""
        return self.periods[-1].spec

    def spec_of(self, ticks_ms: I64) -> I64:
        """Return the position of the period in force at each tick, -1 where there is none."""
        found = np.full(ticks_ms.size, -1, np.int64)
        for k, period in enumerate(self.periods):
            found[(ticks_ms >= period.from_ms) & (ticks_ms < period.to_ms)] = k
        return found

    @property
    def target(self) -> tuple[str, str, str, str]:
        """The key of the target's scale: cluster, namespace, kind, name."""
        return self.cluster, self.namespace, *_target(self.periods[-1])

    @property
    def of_targets(self) -> tuple[Candidate, ...]:
        """The HPA while it had one target, for each that it had, in order of time."""
        parts = groupby([*self.earlier, *self.periods], key=_target)
        return tuple(replace(self, periods=tuple(part), earlier=()) for _, part in parts)


IGNORE: Final = "hpabatch/ignore"
"""Annotation of an HPA with findings to ignore, see docs/findings.md."""

UNKNOWN_DRIVER: Final = "nothing says what drives "
"""Beginning of the reason why an HPA is left out until a plant file answers a question."""

NEVER_IN_FORCE: Final = "none of its specs was in force while samples were recorded"


@dataclass(frozen=True, slots=True)
class Skipped:
    """An HPA that could not be replayed: what is wrong and what to do."""

    cluster: str
    namespace: str
    hpa: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Cluster, namespace and name."""
        return self.cluster, self.namespace, self.hpa


def _checked_spec(
    row: dict[str, Any], profile: Profile, stored: bool
) -> tuple[HPASpec | None, str]:
    """Return a row's defaulted spec, or why it is not one; `stored`: a server had it."""
    try:
        hpa, problems = hpa_from_json(str(row["spec"]))
    except ValueError as error:
        return None, f"hpas.spec is not an HPA spec ({error}); record the HPA again"
    errors = [str(p) for p in problems if p.severity is Severity.error]
    if errors:
        return None, f"hpas.spec: {errors[0]}"
    named = HPA(
        name=str(row["name"]),
        namespace=str(row["namespace"]),
        spec=hpa.spec,
        api_version=hpa.api_version,
    )
    hpa = default_hpa(drop_disabled_fields(named, profile))
    complaints = validate_hpa(hpa, profile)
    if complaints and not (stored and not undecidable(hpa, profile)):
        return None, f"the API server of {profile.name} refuses it: {complaints[0]}"
    return hpa.spec, ""


def clusters_seen(history: History) -> frozenset[str]:
    """Return the clusters of which a recorder saw what HPAs the server had."""
    rows = history.distinct("provenance", ["cluster", "subject", "method"])
    own = (pl.col("method") == RECORDER) & (pl.col("subject") == "hpas")
    return frozenset(rows.filter(own)["cluster"].to_list())


def candidates_from_history(
    hpas: pl.DataFrame, profile_of: Callable[[str], Profile], seen: Collection[str] = ()
) -> tuple[list[Candidate], list[Skipped]]:
    """Return the HPAs of a history's `hpas` table, and those whose spec is refused.

    In the clusters of `seen` (`clusters_seen`) a spec is refused only where no controller could
    decide on it: the server had it, whatever it says to such a spec today.
    """
    found, skipped = [], []
    millis = hpas.with_columns(pl.col("valid_from").to_physical(), pl.col("valid_to").to_physical())
    # (the table is sorted by cluster, namespace and name)
    for key, group in groupby(
        millis.iter_rows(named=True),
        key=lambda row: (str(row["cluster"]), str(row["namespace"]), str(row["name"])),
    ):
        periods, problem = [], ""
        # A re-created HPA has another uid: the table's order is not that of time.
        rows = sorted(group, key=lambda r: int(r["valid_from"]))
        for row in rows:
            spec, problem = _checked_spec(row, profile_of(key[0]), key[0] in seen)
            if spec is None:
                break
            end = NEVER_MS if row["valid_to"] is None else int(row["valid_to"])
            generation = None if row.get("generation") is None else int(row["generation"])
            uid = str(row["uid"])
            periods.append(SpecPeriod(int(row["valid_from"]), end, spec, generation, uid))
        if problem:
            skipped.append(Skipped(*key, problem))
            continue
        # A lane has one scale: that of the last target.
        *before, kept = (tuple(part) for _, part in groupby(periods, key=_target))
        earlier = tuple(chain.from_iterable(before))
        if earlier:
            kind, name = _target(earlier[-1])
            reason = (
                f"its target was {kind}/{name} before; only the time with its last target is "
                "replayed: record the HPA under another name to have both"
            )
            skipped.append(Skipped(*key, reason))
        created = any(row.get("created") is not None for row in rows)
        last = rows[-1]
        ignore = ""
        if IGNORE in (annotations := str(last.get("annotations") or "")):
            with suppress(ValueError):
                ignore = decode_json(annotations, dict[str, str]).get(IGNORE, "")
        labels = str(last["labels"] or "{}")
        found.append(Candidate(*key, kept, labels, earlier, created, ignore))
    return found, skipped


def _target(period: SpecPeriod) -> tuple[str, str]:
    ref = period.spec.scale_target_ref
    return ref.kind, ref.name


def candidates_from_manifests(
    manifests: Sequence[HPA], targets: Sequence[tuple[str, str, str, str]]
) -> tuple[list[Candidate], list[Skipped]]:
    """Return one candidate per manifest and cluster that holds its target, sorted by name.

    `targets` are the (cluster, namespace, kind, name) whose scale was recorded.

    A manifest without a namespace is taken to be in `default`, as kubectl does; of several with one
    name the last counts, as if they were applied. Manifests are expected to be defaulted and valid.
    """
    where: dict[tuple[str, str, str], list[str]] = {}
    for cluster, namespace, kind, name in sorted(targets):
        where.setdefault((namespace, kind, name), []).append(cluster)
    last = {(hpa.namespace or "default", hpa.name): k for k, hpa in enumerate(manifests)}
    found, skipped = [], []
    for k, hpa in enumerate(manifests):
        namespace, ref = hpa.namespace or "default", hpa.spec.scale_target_ref
        clusters = where.get((namespace, ref.kind, ref.name), [])
        if last[namespace, hpa.name] != k:
            reason = "a later manifest has the same name and replaces it; keep one of them"
            skipped.append(Skipped("", namespace, hpa.name, reason))
            continue
        if not clusters:
            reason = (
                f"its target {ref.kind}/{ref.name} is not in the history's scales table for "
                f"namespace {namespace}; record it, or correct scaleTargetRef or the namespace"
            )
            skipped.append(Skipped("", namespace, hpa.name, reason))
        periods = (SpecPeriod(ALWAYS_MS, NEVER_MS, hpa.spec),)
        ignore = dict(hpa.annotations).get(IGNORE, "")
        found += [
            Candidate(cluster, namespace, hpa.name, periods, ignore=ignore) for cluster in clusters
        ]
    found.sort(key=lambda c: c.key)
    return found, skipped


def candidate_frame(candidates: Sequence[Candidate]) -> pl.DataFrame:
    """Return one row per candidate, in order, for selections by column."""
    rows = [
        (c.cluster, c.namespace, c.name, c.spec.scale_target_ref.kind, c.spec.scale_target_ref.name,
         c.spec.min_replicas, c.spec.max_replicas, c.spec.behavior is not None, len(c.periods),
         c.labels)
        for c in candidates
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=_FRAME, orient="row")


_FRAME: Final = {name: SUMMARY.schema[name] for name in SUMMARY.names[:9]} | {"labels": pl.String()}


def stored_candidate(candidate: Candidate, profile: Profile) -> Candidate:
    """Return an HPA whose specs are as the API server of that version hands them back."""
    if profile.stored_as_v2:
        return candidate

    def stored(period: SpecPeriod) -> SpecPeriod:
        # The first utilization of cpu comes last, if it is kept.
        spec, places = as_stored(period.spec, profile), range(len(period.spec.metrics))
        cpu = [k for k in places if _is_cpu_utilization(period.spec.metrics[k])]
        others = [k for k in places if k not in cpu]
        kept = cpu[: len(spec.metrics) - len(others)]
        return replace(period, spec=spec, order=(*others, *kept))

    periods, earlier = (tuple(map(stored, p)) for p in (candidate.periods, candidate.earlier))
    return replace(candidate, periods=periods, earlier=earlier)


def _is_cpu_utilization(metric: MetricSpec) -> bool:
    member = metric.resource if metric.type == "Resource" else None
    if member is None or member.name != "cpu":
        return False
    return member.target.average_utilization is not None


# ---- lives ---------------------------------------------------------------------------------------

# Nobody records in a table of usage when an HPA was created or deleted. Its import says from when
# to when each workload has rows (provenance), and an HPA lives as long. That is looked up for each
# plan and not written into `hpas`: a later import of the same workload then prolongs the life.

EDGE_MS = 300_000
EDGE_SPACINGS = 2.5
"""Data that begin or end this near the history's first or last, in ms or in the usual time between
two samples, are not the begin or end of a life: workloads are sampled at different times."""

_OUTSIDE = (
    "its specs were in force only at times at which its target {target} has no rows; import those "
    "times of the target, or correct valid_from and valid_to in hpas"
)

_Workload = tuple[str, str, str]
"""Cluster, namespace and name."""


class DataSpans(NamedTuple):
    """First and last row of workloads that were imported from a table, and of the history, ms."""

    of: Mapping[_Workload, tuple[int, int]]
    first_ms: int
    last_ms: int
    edge_ms: int


def candidates_of(
    history: History, profile_of: Callable[[str], Profile]
) -> tuple[list[Candidate], list[Skipped]]:
    """Return the HPAs of a history, each for its own life, and those whose spec is refused."""
    seen = clusters_seen(history)
    found, skipped = candidates_from_history(history.read("hpas"), profile_of, seen)
    kept, outside = within_lives(found, history)
    return kept, skipped + outside


def within_lives(
    candidates: Iterable[Candidate], history: History
) -> tuple[list[Candidate], list[Skipped]]:
    """Return HPAs with their specs cut to their targets' data, unless their life was recorded.

    A gap within the data stays in the life; a target at 0 replicas has data while rows say so. HPAs
    of which nothing is left are returned apart, with the reason.
    """
    of = row_spans(history)
    if not of:
        return list(candidates), []
    ends = pl.concat([history.span(table) for table in SAMPLE_TABLES]).drop("cluster")
    seen = [ms for column in ends for ms in column.drop_nulls().to_physical().to_list()]
    spans = DataSpans(
        of,
        first_ms=min([*seen, *(first for first, _ in of.values())]),
        last_ms=max([*seen, *(last for _, last in of.values())]),
        edge_ms=max(EDGE_MS, int(EDGE_SPACINGS * sample_spacing_ms(history))),
    )
    kept, outside = [], []
    for candidate in candidates:
        within = _within(candidate, spans)
        if within.periods:
            kept.append(within)
        else:
            reason = _OUTSIDE.format(target="/".join(candidate.target[2:]))
            outside.append(Skipped(candidate.cluster, candidate.namespace, candidate.name, reason))
    return kept, outside


def row_spans(history: History) -> dict[_Workload, tuple[int, int]]:
    """Return the first and last row (ms) of each workload that was imported from a table."""
    columns = ["cluster", "namespace", "name", "subject", "method", "valid_from", "valid_to"]
    rows = history.distinct(TABLE, columns)
    rows = rows.filter((pl.col("subject") == TARGET_ROWS) & (pl.col("method") == ROWS))
    times = rows.with_columns(pl.col("valid_from", "valid_to").to_physical()).drop_nulls("valid_to")
    found = times.group_by("cluster", "namespace", "name").agg(
        pl.col("valid_from").min(), pl.col("valid_to").max() - 1
    )
    return {(c, n, w): (first, last) for c, n, w, first, last in found.iter_rows()}


def _within(candidate: Candidate, spans: DataSpans) -> Candidate:
    """Return an HPA with its specs cut to its target's data, where nothing else says its life.

    Kinds are not compared: a history tells workloads apart by namespace and name.
    """
    cluster, namespace, _, target = candidate.target
    data = spans.of.get((cluster, namespace, target))
    if data is None or candidate.created:
        return candidate
    begins = data[0] - spans.first_ms > spans.edge_ms
    # A recorded deletion counts as it is.
    ends = spans.last_ms - data[1] > spans.edge_ms and candidate.periods[-1].to_ms == NEVER_MS
    from_ms = data[0] if begins else ALWAYS_MS
    to_ms = data[1] + 1 if ends else NEVER_MS
    cut = [
        replace(p, from_ms=max(p.from_ms, from_ms), to_ms=min(p.to_ms, to_ms))
        for p in candidate.periods
    ]
    return replace(candidate, periods=tuple(p for p in cut if p.from_ms < p.to_ms))
