"""Reading a shard: everything of its HPAs but the samples, then its samples in runs of days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.fleet.candidates import Candidate, Skipped
from hpabatch.engine.fleet.clocks import Clocks, HpaKey
from hpabatch.engine.fleet.flags import FlagPeriod
from hpabatch.engine.fleet.frames import integers, milliseconds
from hpabatch.engine.fleet.membership import Place, ScaleKey
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.pod_columns import PodColumns, pod_columns
from hpabatch.engine.fleet.sources import RESOURCE_COLUMNS, Load, load_rows
from hpabatch.engine.shards.ambiguity import Crowd, Pair, ambiguous_instants
from hpabatch.engine.shards.shard import ScaleColumns, Shard, scale_columns
from hpabatch.history.base import Days
from hpabatch.history.schema import empty_frame
from hpabatch.inputs.lenses import CPU, MEMORY, USAGE, Lens, lens_of
from hpabatch.layout import codes
from hpabatch.layout.observations import AMBIGUOUS, FETCH, Ambiguities, Fetches
from hpabatch.layout.records import I64, canonical, records_from
from hpabatch.model.messages import ambiguous_selector
from hpabatch.model.versions import Profile
from hpabatch.packing.arena import Arena
from hpabatch.packing.texts import Texts

DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
NOT_RECORDED = "<the error's text was not recorded>"

_RECORDED: Final = "recorded_ms"
_SIGNALS: Final = {"cpu_milli": CPU, "memory_bytes": MEMORY}
_MOST: Final = 10**15
"""The largest value that a scale makes, either way: sums of such do not wrap."""

_ANSWERS = {
    "ok": codes.METRIC_OK,
    "empty": codes.METRIC_ANSWER_EMPTY,
    "error": codes.METRIC_FETCH_FAILED,
}


@dataclass(slots=True)
class ShardFacts:
    """Facts found in a shard: pairs of rivals, HPAs with generated pods, and by uid rows of
    `pod_metrics` without a pod and rows of `pods` that a later one replaced.

    Once it is decided also HPAs left out, and in `silent` sentences on metrics never seen. A place
    may be read for several shards: by uid nothing is told twice.
    """

    cluster: str
    strays: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    generated: list[HpaKey] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShardInput:
    """All that a shard is packed from, but its samples.

    `fetches` are the FETCH records of its HPAs, by time; `starts_ms` the recorded starts of the
    cluster's controller, `flags` its flags over time, the first for all time before too;
    `ambiguous` the AMBIGUOUS records of HPAs whose selector is; `texts` those that records name.
    `series` are by namespace the external metrics' series; `statuses` the rows of `hpa_status` of
    HPAs that a live loop decides, else None. `whole`: statuses are asked for, beside decisions.
    """

    facts: ShardFacts
    candidates: Sequence[Candidate]
    clocks: Clocks
    pods: PodColumns
    scales: Mapping[ScaleKey, ScaleColumns]
    fetches: Mapping[HpaKey, Fetches]
    starts_ms: I64
    flags: Sequence[FlagPeriod]
    ambiguous: Mapping[HpaKey, Ambiguities]
    profile: Profile
    delay_ms: int
    max_age_ms: int
    recorded: bool
    texts: Texts
    series: Mapping[str, Sequence[tuple[str, ...]]]
    statuses: pl.DataFrame | None
    whole: bool


def read_shard(
    plan: ReplayPlan, candidates: Sequence[Candidate], places: Sequence[Sequence[Place]]
) -> ShardInput:
    """Read everything but the samples of some HPAs of one cluster (HistoryError: a bad table)."""
    cluster = candidates[0].cluster
    wanted = sorted({p for part in places for p in part}, key=lambda p: (p[0], p[1] or ""))
    facts, profile, texts = ShardFacts(cluster), plan.profile_of(cluster), Texts()
    pods = _read_pods(plan, cluster, wanted, facts)
    known = plan.rivals if profile.ambiguity_checked else {}
    groups = {c.key: known[c.key] for c in candidates if c.key in known}
    everyone = [*candidates, *chain.from_iterable(groups.values())]
    targets = {part.target for c in everyone for part in c.of_targets}
    places_of = {(namespace, name) for _, namespace, _, name in targets}
    scales = scale_columns(plan.history.select("scales", cluster, places_of))
    starts_ms = canonical(plan.starts_ms.get(cluster, np.zeros(0, np.int64)))
    crowds, facts.pairs = ambiguous_instants(groups, plan.clocks, pods, scales, starts_ms)
    statuses = None
    if cluster in plan.clocks.passes:
        names = [(c.namespace, c.name) for c in candidates]
        statuses = plan.history.select("hpa_status", cluster, names)
    return ShardInput(
        facts=facts,
        candidates=candidates,
        clocks=plan.clocks,
        pods=pods,
        scales=scales,
        fetches=_read_fetches(plan, cluster, candidates, texts),
        starts_ms=starts_ms,
        flags=plan.flags_of(cluster),
        ambiguous={key: _ambiguous(crowd, profile, texts) for key, crowd in crowds.items()},
        profile=profile,
        delay_ms=plan.settled.delay_ms,
        max_age_ms=plan.settled.max_age_of(cluster),
        recorded=plan.settled.events == "recorded",
        texts=texts,
        series=plan.external_series.get(cluster, {}),
        statuses=statuses,
        whole=plan.whole,
    )


def _read_pods(
    plan: ReplayPlan, cluster: str, places: Sequence[Place], facts: ShardFacts
) -> PodColumns:
    history = plan.history
    # A state or request whose target was not recorded may be any pod's.
    owned = {(namespace, owner or "") for namespace, owner in places}
    owned |= {(namespace, "") for namespace, _ in places}
    rows = history.select("pods", cluster, places)
    pods = pod_columns(
        rows,
        history.select("pod_states", cluster, owned),
        plan.requests_of(cluster, owned),
    )
    if rows.height > pods.count:
        often = rows.group_by("uid", maintain_order=True).len().filter(pl.col("len") > 1)
        facts.repeated = {uid: int(n) - 1 for uid, n in often.iter_rows()}
    return pods


def _ambiguous(crowd: Crowd, profile: Profile, texts: Texts) -> Ambiguities:
    numbers = [
        texts.number(ambiguous_selector(selector, names, profile))
        for selector, names in crowd.groups
    ]
    text = np.array(numbers, np.int64)[crowd.group]
    return records_from(AMBIGUOUS, crowd.ts_ms.size, ts_ms=crowd.ts_ms, text=text)


def _read_fetches(
    plan: ReplayPlan, cluster: str, candidates: Sequence[Candidate], texts: Texts
) -> dict[HpaKey, Fetches]:
    places = {(c.namespace, c.name): c for c in candidates}
    frame = plan.history.select("metric_fetches", cluster, places)
    found = {}
    for key, part in frame.partition_by("namespace", "name", as_dict=True).items():
        candidate = places[str(key[0]), str(key[1])]
        rows = part.with_columns(m=pl.Series(_metrics_of(candidate, part)))
        rows = rows.filter(pl.col("m") >= 0).sort("ts", "m", maintain_order=True)
        code = rows["answer"].replace_strict(_ANSWERS, return_dtype=pl.Int64)
        said = zip(rows["answer"], rows["error"], strict=True)
        found[cluster, candidate.namespace, candidate.name] = records_from(
            FETCH,
            rows.height,
            metric=integers(rows["m"]),
            ts_ms=milliseconds(rows["ts"]),
            code=integers(code),
            # An answer without error is the same whatever stands beside it.
            text=[texts.number(error or NOT_RECORDED) * (a == "error") for a, error in said],
        )
    return found


def _metrics_of(candidate: Candidate, rows: pl.DataFrame) -> I64:
    """Return the place in its spec of the metric that each answer is of; -1: of none."""
    metric, ts_ms = integers(rows["metric_index"]), milliseconds(rows["ts"])
    found = metric.copy()
    for period in candidate.periods:
        inside = (ts_ms >= period.from_ms) & (ts_ms < period.to_ms)
        found[inside] = period.places(metric[inside])
    longest = max(len(period.spec.metrics) for period in candidate.periods)
    return np.where(found < longest, found, -1)


class SampleReader:
    """Reads a shard's samples, a run of days at a time."""

    def __init__(
        self, plan: ReplayPlan, cluster: str, places: Sequence[Sequence[Place]], shard: Shard
    ) -> None:
        """Find the days and places on which the shard's tracks have samples."""
        self.plan = plan
        self.cluster = cluster
        self.places = sorted({p for part in places for p in part}, key=lambda p: (p[0], p[1] or ""))
        self.tracks = shard.tracks
        self.numbers = shard.numbers
        self.view = SampleView(plan.lenses, cluster)
        self.tables = self._tables()
        self.runs = self._runs()

    def _tables(self) -> dict[str, list[Place]]:
        """Return the metric tables that tracks look at, with the places to read."""
        found: dict[str, list[Place]] = {"pod_metrics": list(self.places)}
        if not self.tracks.asks_usage:
            found = {}
        for owner in self.tracks.owners:
            table = owner[0]
            if table == "pod_custom_metrics":
                found[table] = list(self.places)
            else:
                place = (owner[1], owner[2])
                found.setdefault(table, [])
                if place not in found[table]:
                    found[table].append(place)
        return found

    def _runs(self) -> list[Days]:
        """Return first and last UTC day of each reading: as many as have STEP_ROWS samples."""
        rows: Counter[date] = Counter()
        for table, places in self.tables.items():
            sizes = self.plan.days_of(table, self.cluster)
            for place in places:
                rows.update(sizes.get(place, {}))
        # Samples seen later than the last tick are not used; a fetch may come before the
        # sample's own time, by a clock that is wrong, but not by days.
        last = _EPOCH + timedelta(milliseconds=self.plan.clocks.to_ms + DAY_MS)
        runs, total = list[Days](), 0
        for day in sorted(day for day in rows if day <= last):
            total += rows[day]
            if runs and total <= planning.STEP_ROWS:
                runs[-1] = (runs[-1][0], day)
            else:
                runs.append((day, day))
                total = rows[day]
        return runs

    def load(self, run: Days, arena: Arena) -> Load:
        """Return the samples of a run of UTC days; the arena keeps what lies in pieces."""
        frames = {table: self._read(table, run, self._columns(table)) for table in self.tables}
        usage = frames.pop("pod_metrics", None)
        if usage is None:
            usage = empty_frame("pod_metrics")
        elif self.tracks.lack_columns(usage):
            # Rare: so no day is read with both columns for it.
            names = [*self.tracks.usage_columns(), *RESOURCE_COLUMNS]
            usage = self._read("pod_metrics", run, list(dict.fromkeys(names)))
        return load_rows(self.tracks, self.numbers, usage, frames, arena)

    def _read(self, table: str, run: Days, columns: list[str] | None) -> pl.DataFrame:
        day, last = run
        # What a mean is of may have been recorded the day before.
        frame = self.plan.history.select(
            table,
            self.cluster,
            self.tables[table],
            day=day - timedelta(days=1) if self.view.tail_ms(table) else day,
            last=last,
            columns=self.view.columns(table, columns),
        )
        return self.view.seen(frame, table, (day - _EPOCH).days * DAY_MS)

    def nothing(self) -> Load:
        """Return a load without any sample."""
        return load_rows(self.tracks, self.numbers, empty_frame("pod_metrics"), {}, Arena())

    def _columns(self, table: str) -> list[str] | None:
        if table == "pod_custom_metrics":
            return ["uid", "metric", "selector", "ts", "window_ms", "value_milli", "fetched_at"]
        return self.tracks.usage_columns() if table == "pod_metrics" else None


# ---- samples as lenses show them ----------------------------------------------------------------


class SampleView:
    """The samples of a cluster's pods through its lenses."""

    def __init__(self, lenses: Sequence[Lens], cluster: str) -> None:
        """Keep the lenses of a cluster that change something."""
        signals = dict.fromkeys([*USAGE, *(lens.signal for lens in lenses)])
        found = [lens_of(lenses, cluster, signal) for signal in signals]
        self.lenses = {lens.signal: lens for lens in found if lens.changes}
        self.lead_ms = max([0, *(-lens.lag_ms for lens in self.lenses.values())])
        """How long before its own time a sample may be seen."""

    def _of(self, table: str) -> list[Lens]:
        usage = table == "pod_metrics"
        if not usage and table != "pod_custom_metrics":
            return []  # (totals are seen as they are)
        return [lens for lens in self.lenses.values() if (lens.signal in USAGE) == usage]

    def tail_ms(self, table: str) -> int:
        """Return from how long before a sample others make up what was seen of it."""
        return max([0, *(lens.smoothing_ms for lens in self._of(table))])

    def columns(self, table: str, columns: list[str] | None) -> list[str] | None:
        """Return the columns to read: smoothing tells containers apart."""
        if table != "pod_metrics" or columns is None or not self.tail_ms(table):
            return columns
        return list(dict.fromkeys(["uid", "container", *columns]))

    def seen(self, frame: pl.DataFrame, table: str, from_ms: int) -> pl.DataFrame:
        """Return a table's rows (in the order of its key) as they were seen.

        Rows recorded before `from_ms` are there for the means of others, and left out.
        """
        lenses = {lens.signal: lens for lens in self._of(table)}
        if not lenses or frame.is_empty():
            return frame
        frame = frame.with_columns(pl.col("ts").to_physical().alias(_RECORDED))
        if table == "pod_metrics":
            named = {n: lenses[signal] for n, signal in _SIGNALS.items() if signal in lenses}
            found = _seen(frame, named)
        else:
            braces = pl.concat_str(pl.lit("{"), "selector", pl.lit("}"))
            selector = pl.when(pl.col("selector") != "").then(braces).otherwise(pl.lit(""))
            signal = pl.concat_str(pl.lit("pods/"), "metric", selector).alias("signal")
            parts = frame.with_columns(signal).partition_by(
                "signal", as_dict=True, maintain_order=True, include_key=False
            )
            found = pl.concat(
                _seen(part, {"value_milli": lenses.get(str(key[0]), Lens(str(key[0])))})
                for key, part in parts.items()
            )
        return found.filter(pl.col(_RECORDED) >= from_ms).drop(_RECORDED)


def _seen(frame: pl.DataFrame, lenses: Mapping[str, Lens]) -> pl.DataFrame:
    """Return rows with their recorded times, and columns of values as their lenses show them."""
    either = next(iter(lenses.values()))  # (those of one table differ by their scale alone)
    later = pl.duration(milliseconds=either.lag_ms, time_unit="ms")
    changed = [pl.col("ts", "fetched_at") + later]
    if either.smoothing_ms and "window_ms" in frame.columns:
        # Until the window that a mean is told with has passed, a new pod is left out.
        least = pl.lit(either.smoothing_ms, pl.Int64)
        changed.append(pl.max_horizontal("window_ms", least).alias("window_ms"))
    # One pod's rows, and of one container, lie together.
    owner = [pl.col("uid").rle_id(), *(pl.col(n) for n in frame.columns if n == "container")]
    changed += [_value(n, lens, owner) for n, lens in lenses.items() if n in frame.columns]
    return frame.with_columns(changed)


def _value(name: str, lens: Lens, owner: Sequence[pl.Expr]) -> pl.Expr:
    """Return a column of whole numbers smoothed and scaled; nulls stay.

    A mean is that of the known values over the time up to a row, rounded to a whole number.
    """
    value = pl.col(name)
    if lens.smoothing_ms:
        sums, counts = (
            column.rolling_sum_by(_RECORDED, f"{lens.smoothing_ms}i").over(owner)
            for column in (value.fill_null(0), value.is_not_null().cast(pl.Int64))
        )
        value = (2 * sums + counts) // (2 * counts)
    if lens.scale != 1:
        value = (value * lens.scale).round().clip(-_MOST, _MOST).cast(pl.Int64)
    return pl.when(pl.col(name).is_not_null()).then(value).alias(name)
