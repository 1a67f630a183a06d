"""A history that `hpabatch live --record` wrote, decided anew at whatever instants.

The plan of the replay is hpabatch's own; only the instants are replaced, or the fetches of some
moments taken for earlier ones: what would have been decided on the answers that came just after?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from hpabatch.engine.fleet.parameters import SAMPLE_TABLES, ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay
from hpabatch.engine.replay.run import replay_shards
from hpabatch.history.reader import History, open_history
from tests.live_cluster.truth import Hpa

CONDITIONS = {
    "able_to_scale": "AbleToScale", "scaling_active": "ScalingActive",
    "scaling_limited": "ScalingLimited",
}  # fmt: skip


class Decision(NamedTuple):
    """What hpabatch decides at an instant; sizes None: the target's size is not known then.

    `proposal` is the metrics' own answer, `failed`: there was none.
    """

    replicas: int | None
    desired: int | None
    proposal: int | None
    failed: bool
    why: str
    reasons: Mapping[str, str]


Decisions = dict[Hpa, dict[int, Decision]]
"""Decisions by HPA and instant in ms."""


FAILED = frozenset({"invalid_metric", "selector", "scale_read", "no_scale"})
"""What binds where nothing was decided: the status keeps its number."""


class Span(NamedTuple):
    """Moments after `from_ms` until `to_ms`, which is included.

    `shared_by_more`: the first answers of the span are taken for loads that the pods before it
    shared, and so many more of those that came; None: for what they are.
    """

    from_ms: int
    to_ms: int
    shared_by_more: int | None = None


@dataclass
class _Kept:
    """A history whose frames are read once: an HPA is decided anew some hundred times."""

    history: History
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.history, name)

    def select(self, table: str, cluster: str, places: Any, **options: Any) -> pl.DataFrame:
        key = repr((table, cluster, sorted(map(repr, places)), sorted(options.items())))
        if key not in self.frames:
            self.frames[key] = self.history.select(table, cluster, places, **options)
        return self.frames[key]

    def read(self, table: str) -> pl.DataFrame:
        if table not in self.frames:
            self.frames[table] = self.history.read(table)
        return self.frames[table]


@dataclass
class _Early:
    """A history whose answers of some spans came at the spans' beginnings.

    A controller that decides just after a load was changed has scaled before we ask again: then our
    next answers are of more pods, which share the load as the tests' metrics server spreads it.
    """

    history: History
    spans: Sequence[Span]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.history, name)

    def select(self, table: str, *arguments: Any, **options: Any) -> pl.DataFrame:
        frame = self.history.select(table, *arguments, **options)
        column = "ts" if table == "metric_fetches" else "fetched_at"
        if (table not in SAMPLE_TABLES and column == "fetched_at") or column not in frame.columns:
            return frame
        for span in self.spans:
            sharing = frame if span.shared_by_more is None else self._sharing(table, frame)
            frame = moved(frame, sharing, span, column)
        return frame

    def _sharing(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of all pods that share loads with a frame's: those of their apps.

        They may be of another HPA's target, which was scaled meanwhile.
        """
        if "uid" not in frame.columns:
            return frame
        pods = self.history.read("pods").select(
            "uid", app=pl.col("labels").str.json_path_match("$.app")
        )
        apps = pods.filter(pl.col("uid").is_in(frame["uid"].unique().implode()))["app"].unique()
        uids = pods.filter(pl.col("app").is_in(apps.implode()))["uid"]
        return self.history.read(table).filter(pl.col("uid").is_in(uids.implode()))


_SHARED = ("cpu_milli", "value_milli")
_LIFE_MS = 1250  # the tests' metrics server gives a sample of every second; then it is gone


def _first(frame: pl.DataFrame, span: Span, column: str) -> pl.DataFrame:
    """Return the rows of the first answer within a span."""
    at = pl.col(column).to_physical()
    inside = frame.filter((at > span.from_ms) & (at <= span.to_ms))
    return inside.filter(pl.col(column) == pl.col(column).min())


def moved(frame: pl.DataFrame, sharing: pl.DataFrame, span: Span, column: str) -> pl.DataFrame:
    """Let the span's first answer come at its beginning; `sharing` are rows of all who share."""
    value = next((name for name in _SHARED if name in frame.columns), None)
    if span.shared_by_more is not None and value is not None and "uid" in frame.columns:
        return _spread(frame, sharing, span, value)
    first = _first(frame, span, column)
    if first.is_empty():
        return frame
    at, when = pl.col(column).to_physical(), first[column].to_physical()[0]
    earlier = pl.when(at == when).then(pl.lit(span.from_ms)).otherwise(at)
    return frame.with_columns(earlier.cast(frame.schema[column]).alias(column))


def _spread(frame: pl.DataFrame, sharing: pl.DataFrame, span: Span, value: str) -> pl.DataFrame:
    """Let the load of the span's first answer be there at its beginning, shared by fewer pods.

    Pods come one after another: so there may be more than at our pass before and fewer than at that
    after.
    """
    at = pl.col("fetched_at").to_physical()
    known = sharing.filter((at <= span.from_ms) & (at > span.from_ms - _LIFE_MS))
    pods = known.sort("fetched_at").group_by("uid").last().drop_nulls(value)["uid"]
    first = _first(sharing, span, "fetched_at").drop_nulls(value)
    if first.is_empty() or pods.is_empty():
        return frame
    most = max(len(pods), first["uid"].n_unique())
    share = int(first[value].sum()) // min(len(pods) + (span.shared_by_more or 0), most)
    theirs = (pl.col("fetched_at") == first["fetched_at"][0]) & pl.col("uid").is_in(pods.implode())
    begun = pl.lit(span.from_ms).cast(frame.schema["fetched_at"])
    return frame.with_columns(
        pl.when(theirs).then(pl.lit(share)).otherwise(pl.col(value)).alias(value),
        pl.when(theirs).then(begun).otherwise(pl.col("fetched_at")).alias("fetched_at"),
    )


@dataclass
class Recording:
    """A recorded run; `where` gives each HPA's place in the plan."""

    plan: ReplayPlan
    where: Mapping[Hpa, int]
    passes_ms: Sequence[int]
    kept: dict[Hpa, ReplayPlan] = field(default_factory=dict)

    def at_passes(self) -> Decisions:
        """Return what the loop's own passes come to."""
        return _decide(self.plan)

    def at(self, instants_ms: Mapping[Hpa, Sequence[int]]) -> Decisions:
        """Return what is decided at instants of each HPA's own."""
        positions = sorted(self.where[hpa] for hpa in instants_ms)
        return _decide(_clocked(narrow_plan(self.plan, positions), instants_ms))

    def alone(
        self, hpa: Hpa, instants_ms: Sequence[int], early: Sequence[Span]
    ) -> dict[int, Decision]:
        """Return one HPA's decisions, on answers of which some came earlier than they did."""
        if hpa not in self.kept:
            self.kept[hpa] = narrow_plan(self.plan, [self.where[hpa]])
        plan = _clocked(self.kept[hpa], {hpa: instants_ms})
        if early:
            plan = replace(plan, history=cast(History, _Early(plan.history, early)))
        return _decide(plan).get(hpa, {})


def open_recording(folder: Path, k8s: str | None, gates: str) -> Recording:
    """Open what a loop recorded, to be decided under the rules of a version."""
    history = open_history(folder)
    plan = plan_replay(history, ReplayParameters(k8s, gates, instants="passes"))
    plan = replace(plan, history=cast(History, _Kept(history)))
    where = {Hpa(c.namespace, c.name): k for k, c in enumerate(plan.chosen)}
    passes = history.read("passes")["ts"].to_physical().sort().to_list()
    return Recording(plan, where, passes)


def _clocked(plan: ReplayPlan, instants_ms: Mapping[Hpa, Sequence[int]]) -> ReplayPlan:
    recorded = {
        (c.cluster, c.namespace, c.name): np.unique(
            np.array(instants_ms[Hpa(c.namespace, c.name)], np.int64)
        )
        for c in plan.chosen
    }
    ends = [int(at[k]) for at in recorded.values() if at.size for k in (0, -1)]
    clocks = replace(
        plan.clocks, recorded=recorded, from_ms=min(ends), to_ms=max(ends), estimated={}
    )
    return replace(plan, clocks=clocks)


def _decide(plan: ReplayPlan) -> Decisions:
    found: Decisions = {}
    for result in replay_shards(plan, range(len(plan.shards))):
        rows = result.decisions.with_columns(pl.col("ts").to_physical())
        for row in rows.iter_rows(named=True):
            reasons = {CONDITIONS[k]: row[k] for k in CONDITIONS if row[k] is not None}
            words = [row["binding"], row["error"], row["metric"], row["ratio"]]
            why = ", ".join(str(word) for word in words if word is not None)
            failed = row["binding"] in FAILED
            decision = Decision(
                row["replicas"], row["desired"], row["proposal"], failed, why, reasons
            )
            found.setdefault(Hpa(row["namespace"], row["hpa"]), {})[row["ts"]] = decision
    return found
