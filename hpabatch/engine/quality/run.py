"""Quality of a recording: one row per HPA.

Usage samples (`pod_metrics`) are read shard by shard and day by day: a shard is some targets of one
cluster, of which no day has many rows. Samples of custom, object and external metrics are not
looked at; `reads` says which tables an HPA depends on.

Coverage is the part of the pods' lives in which a sample no older than `max_age_ms` was there. A
life begins `status.startTime` and ends with the deletion's request, a terminal phase or the end of
recording (of the cluster; of a workload that was imported from a table, of its rows), whichever is
first. Its first max_age is covered even without a sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from hpabatch.engine.columns.history import QUALITY
from hpabatch.engine.fleet.candidates import Candidate, row_spans
from hpabatch.engine.fleet.membership import Place, Selections
from hpabatch.engine.quality.pods import (
    POD_COLUMNS,
    REQUEST_COLUMNS,
    STATE_COLUMNS,
    label_counts,
    membership,
    shard_pods,
)
from hpabatch.engine.quality.samples import USAGE_COLUMNS, SampleSums, listed
from hpabatch.engine.replay.summary import KEY, MS_PER_HOUR
from hpabatch.history.base import History
from hpabatch.history.provenance import behavior_methods

SHARD_ROWS: Final = 1 << 20  # some 400 MB at work


COLUMNS: Final = QUALITY.meanings
SCHEMA: Final = QUALITY.schema

_TABLES: Final = {
    "Resource": "pod_metrics",
    "ContainerResource": "pod_metrics",
    "Pods": "pod_custom_metrics",
    "Object": "object_metrics",
    "External": "external_metrics",
}


class Look:
    """A look at the recordings of HPAs, shard by shard; several HPAs may have one target."""

    def __init__(
        self,
        history: History,
        candidates: Sequence[Candidate],
        shard_rows: int = SHARD_ROWS,
    ) -> None:
        """Read what all shards need.

        `shard_rows` usage rows of a day (or pods) are held at once, if no single target has more.
        """
        self.history = history
        self._selections = Selections(
            history.distinct(
                "scales", ["cluster", "namespace", "target_kind", "target", "selector"]
            ),
            history.distinct("pods", ["cluster", "namespace", "target", "labels"]),
        )
        self._behavior = behavior_methods(history)
        # The first and last instant (ms) of each cluster's usage samples.
        span = history.span("pod_metrics").select(
            "cluster",
            first=pl.min_horizontal("fetched_first", "unfetched_first").to_physical(),
            last=pl.max_horizontal("fetched_last", "unfetched_last").to_physical(),
        )
        self._spans = {c: (first, last) for c, first, last in span.drop_nulls().iter_rows()}
        self._rows = row_spans(history)
        self._sizes = history.sizes("pod_metrics")
        self.shards = list(_shards(history, self._sizes, candidates, shard_rows))

    def part(self, k: int) -> pl.DataFrame:
        """Return the rows of a shard, for `joined` (HistoryError: a table is broken)."""
        candidates, history = self.shards[k], self.history
        cluster = candidates[0].cluster
        own: set[Place] = {_place(c)[1:] for c in candidates}
        wide = own.union(*(self._selections.places(c) for c in candidates))
        # An older history's states and requests do not say whose they are.
        unsaid = own | {(namespace, "") for namespace, _ in own}
        targets = self._targets(candidates)
        rows = history.select("pods", cluster, wide, columns=POD_COLUMNS)
        pods = shard_pods(
            rows.select(POD_COLUMNS),
            history.select("pod_states", cluster, unsaid, columns=STATE_COLUMNS),
            history.select("pod_requests", cluster, unsaid, columns=REQUEST_COLUMNS),
            targets,
        )
        sums = SampleSums(pods)
        sampled = self._sizes.filter(pl.col("cluster") == cluster).join(
            targets, left_on=["namespace", "place"], right_on=["namespace", "target"], how="semi"
        )
        for day in sampled["day"].unique().sort():
            usage = history.select("pod_metrics", cluster, own, day=day, columns=USAGE_COLUMNS)
            if usage["cpu_milli"].has_nulls():
                columns = [*USAGE_COLUMNS, "memory_bytes"]
                rows_of_day = history.select("pod_metrics", cluster, own, day=day, columns=columns)
                usage = listed(rows_of_day)
            sums.add(usage)
        found = targets.join(sums.close(), on="g")
        found = found.join(pods.facts, on="g", how="left")
        counts = label_counts(rows)
        hpas = [(*_row(c), *membership(c, self._selections, counts)) for c in candidates]
        keys = pl.DataFrame(hpas, schema={name: SCHEMA[name] for name in _OF_HPA}, orient="row")
        return _finished(keys.join(found, on=["namespace", "target"], how="left"))

    def _targets(self, candidates: Sequence[Candidate]) -> pl.DataFrame:
        """Return each target with its number `g` and the first and last instant of its recording.

        Beyond its own rows nothing was recorded of an imported workload: no sample is missing
        there.
        """
        span = self._spans.get(candidates[0].cluster, (0, 0))
        rows = []
        for g, place in enumerate(sorted({_place(c) for c in candidates})):
            first, last = self._rows.get(place, span)
            rows.append((*place[1:], g, max(first, span[0]), min(last, span[1])))
        schema: dict[str, pl.DataType] = dict.fromkeys(("namespace", "target"), pl.String())
        schema |= dict.fromkeys(("g", "since_ms", "until_ms"), pl.Int64())
        return pl.DataFrame(rows, schema, orient="row")

    def joined(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return a row per HPA with the columns of `COLUMNS`, by cluster, namespace and hpa."""
        found = pl.concat([pl.DataFrame(schema=SCHEMA), *parts]).sort(KEY)
        # numpy divides; polars multiplies by the reciprocal unless there is one row only, and a
        # result must not depend on the shards.
        hours = found["pod_hours"].to_numpy() / MS_PER_HOUR
        keys = found.select(KEY).iter_rows()
        told = [", ".join(sorted(self._behavior.of(*key))) or None for key in keys]
        return found.with_columns(
            pl.Series("pod_hours", hours), pl.Series("behavior", told, dtype=pl.String)
        )


def _shards(
    history: History, sizes: pl.DataFrame, candidates: Sequence[Candidate], most: int
) -> Iterator[list[Candidate]]:
    """Yield candidates of one cluster, HPAs of one target together, by the size of their targets.

    A target counts with its largest day of samples, or with all of its pods.
    """
    place = ["cluster", "namespace", "place"]
    days = sizes.group_by(place).agg(pl.col("rows").max())
    pods = history.sizes("pods").group_by(place).agg(pl.col("rows").sum())
    largest = pl.concat([days, pods]).group_by(place).agg(pl.col("rows").max())
    rows = {(c, namespace, name): n for c, namespace, name, n in largest.iter_rows()}
    shard: list[Candidate] = []
    held, last = 0, ("", "", "")
    for candidate in sorted(candidates, key=lambda c: (*_place(c), c.name)):
        place_of = _place(candidate)
        weight = 0 if place_of == last else rows.get(place_of, 0)
        other = place_of[0] != last[0] or (place_of != last and held + weight > most)
        if shard and other:
            yield shard
            shard, held = [], 0
        shard.append(candidate)
        held, last = held + weight, place_of
    if shard:
        yield shard


def _place(candidate: Candidate) -> tuple[str, str, str]:
    cluster, namespace, _, target = candidate.target
    return cluster, namespace, target


_OF_HPA: Final = (
    *KEY, "target_kind", "target", "reads", "utilization_of", "membership", "foreign_pods",
    "unmatched_pods",
)  # fmt: skip


def _row(candidate: Candidate) -> tuple[str | None, ...]:
    """Return key, target, the tables that its metrics read, and what it compares with requests."""
    metrics = [metric for period in candidate.periods for metric in period.spec.metrics]
    tables = sorted({_TABLES[m.type] for m in metrics if m.type in _TABLES})
    sources = [source for m in metrics for source in (m.resource, m.container_resource) if source]
    compared = sorted({s.name for s in sources if s.target.average_utilization is not None})
    cluster, namespace, kind, target = candidate.target
    texts = ", ".join(tables), ", ".join(compared) or None
    return cluster, namespace, candidate.name, kind, target, *texts


_COUNTED: Final = (
    "pods",
    "recreated",
    "unready_again",
    "never_sampled",
    "samples",
    "stray_rows",
    "gaps",
    "late",
    "skewed",
    "overtaken",
)


def _finished(found: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of `COLUMNS` from sums and numbers of pods.

    `pod_hours` are still in ms, `behavior` is null.
    """
    c, pods = pl.col, pl.col("pods")
    found = found.with_columns(c(*_COUNTED, "uncovered_ms").fill_null(0))
    time = pl.Datetime("ms", "UTC")
    return found.with_columns(
        c("first_ts", "last_ts").cast(time),
        behavior=pl.lit(None, dtype=pl.String),
        synthetic_share=_part(c("generated"), pods),
        unknown_requests_share=_part(c("no_requests"), pods),
        without_cpu_request_share=_part(c("no_cpu"), pods),
        without_memory_request_share=_part(c("no_memory"), pods),
        pod_hours=c("life_ms").fill_null(0),
        coverage=_part(c("life_ms") - c("uncovered_ms"), c("life_ms")),
        limited_share=_part(c("limited"), c("rows")),
        at_limit_share=_part(c("at_limit"), c("limited")),
        late_samples="late",
        lateness_max_ms=c("delay_max").clip(0),
        skewed_samples="skewed",
        skew_max_ms=pl.when(c("delay_min") < 0).then(-c("delay_min")),
        overtaken_samples="overtaken",
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _part(of: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(of / whole)
