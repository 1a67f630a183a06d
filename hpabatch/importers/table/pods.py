"""Rows of a group of pods as tables of a history, and the requests of containers.

Of an amount that several say, the table's counts, then the map's for that workload, the objects',
the map's for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.history.columns import AFTER_MS, TIME
from hpabatch.importers.common.objects import AMOUNTS, known_requests, with_known
from hpabatch.importers.common.rows import CPU_COUNTER, Rounding, changed_rows, is_new, whole
from hpabatch.importers.table.lives import (
    LIFE,
    PLACE,
    SIZE,
    pending_states,
    pod_uid,
    pods_table,
    states_table,
)
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.objects import DEFAULT_KIND
from hpabatch.importers.table.rows import KEY, METRIC, POD_KEY, amounts, usage_names
from hpabatch.importers.table.spill import Keyed, number_rows
from hpabatch.importers.table.values import Amount

Add = Callable[[str, pl.DataFrame], None]
_OF = ["cluster", "namespace", "target"]
_POD = [*_OF, "pod"]
_GAP_MS: Final = 600_000
_GAP_STEPS: Final = 5
"""Without `lives.gap`: a silence is longer than both, while the workload's other pods have rows."""
_LEAST: Final = {"cpu": 2, "memory": 1 << 20}
_MOST: Final = {"cpu": 1_000_000, "memory": 1 << 44}
_CPU_MILLI = 10  # what a container uses at most, if thousandths were taken for whole ones
_TIMES: Final = {"limit": 10, "request": 20}
"""Usage (millicores, bytes) and multiples of what pods ask for, beyond which a unit is wrong."""
_SAMPLE = [*POD_KEY[:5]]
_OWNER = "\0owner"
"""Number of a row's pod (and uid, where the table has it) in a group."""


@dataclass(slots=True)
class Figures:
    """Counts of a group or of all: rows by table, samples, and the largest usage seen (0: none).

    `medians` has each pod's median `cpu` and `memory`, as its multiples of request and limit, too.

    `unsized` rows say no replicas, nor does an earlier one; `conflicts` are metrics of which
    the rows of a pod's containers (or of a namespace) say different values.
    """

    samples: int = 0
    duplicates: int = 0
    unsized: int = 0
    conflicts: int = 0
    largest: dict[str, int] = field(default_factory=dict)
    medians: list[pl.DataFrame] = field(default_factory=list)
    asked: pl.DataFrame | None = None
    written: Counter[str] = field(default_factory=Counter)

    def add(self, other: Figures) -> None:
        """Add the figures of another group."""
        self.written.update(other.written)
        self.samples += other.samples
        self.duplicates += other.duplicates
        self.unsized += other.unsized
        self.conflicts += other.conflicts
        for name, most in other.largest.items():
            self.largest[name] = max(self.largest.get(name, 0), most)
        self.medians += other.medians

    def see(self, name: str, frame: pl.DataFrame) -> None:
        """Look at rows of a table that are written; those of pods' requests come first."""
        if name == "pod_requests":
            last = frame.unique(["uid", "container"], keep="last", maintain_order=True)
            self.asked = last.group_by("uid").agg(pl.col(AMOUNTS).sum().replace(0, None))
        if name != "pod_metrics" or self.asked is None:
            return
        largest = frame.select(cpu=pl.col("cpu_milli").max(), memory=pl.col("memory_bytes").max())
        self.add(Figures(largest={k: v for k, v in largest.row(0, named=True).items() if v}))
        usage = frame.group_by("uid", "container").agg(
            cpu=pl.col("cpu_milli").median(), memory=pl.col("memory_bytes").median()
        )
        of_pods = usage.group_by("uid").agg(pl.col("cpu", "memory").sum())
        of_pods = of_pods.join(self.asked, on="uid").with_columns(
            pl.col("memory_milli", "memory_limit_milli") / 1000
        )
        self.medians.append(
            of_pods.select(
                "cpu",
                "memory",
                *(
                    (pl.col(one) / pl.col(f"{one}{part}_milli")).alias(f"{one} {what}")
                    for one in _MOST
                    for what, part in (("request", ""), ("limit", "_limit"))
                ),
            )
        )

    def doubts(self, table: TableMap) -> list[str]:
        """Return a warning for each resource of which no container uses so much, or so little."""
        found = []
        medians = pl.concat(self.medians).median() if self.medians else None
        for name, most in self.largest.items():
            source = table.cpu if name == "cpu" else table.memory
            least, told = _LEAST[name], ""
            if source is not None and source.unit in ("millicores", "microcores", "nanocores"):
                least = _CPU_MILLI
            if most > _MOST[name]:
                told = f"one sample uses {_shown(name, most)}"
            elif most < least:
                told = f"no sample uses more than {_shown(name, most)} of {name}"
            elif medians is not None:
                for what, times in _TIMES.items():
                    more = medians[f"{name} {what}"][0]
                    if not told and more is not None and more > times:
                        usage = _shown(name, medians[name][0])
                        told = f"half of the pods use {usage} of {name} or more, "
                        told += f"{more:,.0f} times their {what}"
            if told:
                hint = " (Values such as 0.25 are cores)" if name == "cpu" and most < least else ""
                found.append(f"{told}: is columns.{name}.unit right?{hint}")
        return found


def _shown(resource: str, amount: float) -> str:
    """Return millicores or bytes as people write them."""
    if resource == "cpu":
        return f"{amount:.0f}m" if amount < 1000 else f"{amount / 1000:,.0f} cores"
    power = min(4, max(0, (int(amount).bit_length() - 1) // 10))
    return f"{amount / 1024**power:,.0f} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Result of a group beside its rows: lives (LIFE), recorded sizes (SIZE), and figures."""

    lives: pl.DataFrame
    sizes: pl.DataFrame
    figures: Figures


def import_pods(group: Keyed, spans: pl.DataFrame, table: TableMap, add: Add) -> GroupResult:
    """Give `add` the tables of a group of clean rows; `spans` has first and last ts by cluster."""
    rows, duplicates = without_duplicates(group.rows, table)
    rows, steps = _with_lives(Keyed(rows, group.keys), table)
    lives = _lives(rows, steps, group.keys, spans, table)
    if table.cpu is not None and table.cpu.unit == CPU_COUNTER:
        rows = rows.with_columns(cpu=_rates(rows))
    if table.ready is None and table.lives.ready_after_ms is None and table.cpu is not None:
        at_once = pl.col("ready") == pl.col("created") - AFTER_MS  # (no object says otherwise)
        wait = pl.when(at_once).then(ready_after(rows, lives, _OWNER)).otherwise(0)
        lives = lives.with_columns(ready=pl.col("ready") + wait)
    rows = rows.join(
        lives.select(_OWNER, "life", "uid", "created"),
        on=[_OWNER, "life"],
        maintain_order="left",
    )
    add("pods", pods_table(lives, table))
    found = rows.unique([KEY, "life"]).select(KEY, "uid", "created")
    container_keys = group.keys.select("cluster", "namespace", "target", "container")
    containers = Keyed(found, container_keys).named().drop(KEY)
    rows = Keyed(rows, group.keys.drop("uid")).named()
    changes, names = None, requested_names(table)
    if names:
        keys = ["cluster", "uid", "container"]
        changes = changed_rows(rows.select(*keys, "ts", *names), keys, names)
        changes = changes.with_columns(pl.col(names).round(0))
    add("pod_requests", requests_table(containers, changes, table))
    add("pod_states", states_table(lives) if table.ready is None else _states(rows, lives))
    samples = 0
    for name, frame in (*sample_tables(rows, table), *shared_tables(rows, table)):
        samples += frame.height
        add(name, frame)
    sizes = pl.DataFrame(schema=SIZE)
    if table.scales.origin == "replicas":
        sizes = recorded_sizes(rows)
    conflicts = metric_conflicts(rows, table)
    figures = Figures(samples, duplicates, conflicts=conflicts)
    return GroupResult(lives.select(list(LIFE)), sizes, figures)


def metric_conflicts(rows: pl.DataFrame, table: TableMap) -> int:
    """Return how many values of metrics differ at one time, within a pod or, shared, a namespace.

    Rows of workloads say one value of each of their pods.
    """
    found = 0
    for name, source in table.metrics.items():
        if table.level is Level.workload and not source.kind:
            continue
        owner = ["cluster", "namespace"] if source.kind else [*_POD, "uid"]
        value = pl.col(METRIC + name)
        said = rows.filter(value.is_not_null()).group_by([*owner, "ts"])
        found += said.agg(value.n_unique()).filter(value > 1).height
    return found


def without_duplicates(rows: pl.DataFrame, table: TableMap) -> tuple[pl.DataFrame, int]:
    """Return the rows of a group, each key and ts once, and how many rows that leaves out.

    The last row of the input stays. Of a long table's rows, the last value of each metric does:
    together they are one row.
    """
    following = [pl.col(name) != pl.col(name).shift(-1) for name in ("ts", KEY)]
    last = pl.any_horizontal(following).fill_null(value=True)
    if table.pivot is None:
        found = _where(rows, last)
        return found, rows.height - found.height
    said = [name for name in (*amounts(table), "replicas", "ready") if name in rows]
    found = rows.with_columns(pl.col(said).forward_fill().over(KEY, "ts")).filter(last)
    values = [frame.select(pl.col(usage_names(table)).count()).row(0) for frame in (rows, found)]
    return found, sum(values[0]) - sum(values[1])


def _with_lives(group: Keyed, table: TableMap) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return rows with the number of their pod and of which of its lives they belong to.

    uids tell lives apart, else silences do. Beside the rows, each workload's sampling step (ms;
    null: it has rows of one time only).
    """
    pods, owner = number_rows(group.keys.select(*_POD, "uid"))
    workloads, place = number_rows(pods.select(_OF))
    rows = group.rows.with_columns(owner.gather(group.rows[KEY]).alias(_OWNER))
    times = rows.select(_OWNER, "ts").unique().sort(_OWNER, "ts")
    times = times.with_columns(
        place.gather(times[_OWNER]).alias("place"),
        silence=pl.col("ts").diff().over(_OWNER),
        nameless=(pods["uid"] == "").gather(times[_OWNER]),
    )
    # Pods of one row each have the step of their workload's times.
    shared = times.select("place", "ts").unique().sort("place", "ts")
    shared = shared.with_columns(step=pl.col("ts").diff().over("place"))
    steps = shared.group_by("place").agg(other=pl.col("step").median())
    own = times.group_by("place").agg(step=pl.col("silence").median())
    steps = steps.join(own, on="place").sort("place").with_columns(pl.coalesce("step", "other"))
    longest = pl.lit(table.lives.gap_ms)
    if table.lives.gap_ms is None:
        # Times at which no pod of the workload has rows (an outage) are no silence of one.
        bound = (_GAP_STEPS * steps["step"]).fill_null(0).clip(_GAP_MS)
        shared = shared.with_columns(bound=bound.gather(shared["place"]))
        seen = pl.when(pl.col("step") <= pl.col("bound")).then("step").otherwise(0)
        shared = shared.with_columns(clock=seen.cum_sum().over("place")).drop("step")
        times = times.join(shared, on=["place", "ts"], how="left", maintain_order="left")
        times = times.with_columns(silence=pl.col("clock").diff().over(_OWNER))
        longest = pl.col("bound")
    silent = ((pl.col("silence") > longest) & pl.col("nameless")).fill_null(value=False)
    # (an expression over groups must not mix in another one)
    times = times.with_columns(silent=silent.cast(pl.Int64))
    lives = times.select(_OWNER, "ts", life=pl.col("silent").cum_sum().over(_OWNER))
    life = rows.join(lives, on=[_OWNER, "ts"], how="left", maintain_order="left")["life"]
    if table.beside is not None:
        life = table.beside.split_lives(Keyed(rows, group.keys).named(), life)
    return rows.with_columns(life=life), workloads.with_columns(steps["step"])


def _lives(
    rows: pl.DataFrame,
    steps: pl.DataFrame,
    keys: pl.DataFrame,
    spans: pl.DataFrame,
    table: TableMap,
) -> pl.DataFrame:
    """Return lives (LIFE) with `given` uid and `life` number, one row per pod and life."""
    said = table.lives
    found = rows.group_by([_OWNER, "life"]).agg(
        pl.col(KEY).first(), pl.col("ts").min().alias("begin"), pl.col("ts").max().alias("end")
    )
    found = Keyed(found, keys.select(*_POD, "uid", "kind")).named().join(steps, on=_OF)
    found = found.join(spans, on="cluster").sort([*_POD, "begin", "end", "uid", "life"])
    after, before = pl.col("begin").shift(-1).over(_POD), pl.col("end").shift(1).over(_POD)
    begin, end = pl.col("begin"), pl.col("end")
    # A pod that is sampled every minute and first seen a minute after its workload was not there
    # before: else its load would be counted for a pod more than bore it. So at the end.
    since = begin - begin.min().over(_OF)
    until = end.max().over(_OF) - end
    missed, ended = ((time >= pl.col("step")).fill_null(value=False) for time in (since, until))
    was_there = (begin - pl.col("first") < said.edge_ms) & ~missed
    stays = (pl.col("last") - end < said.edge_ms) & ~ended
    # A pod is gone when another takes its name, unless both were seen at once.
    followed = (after > end).fill_null(value=False)
    follows = (before < begin).fill_null(value=False)
    gone = (
        pl.when(followed)
        .then(pl.min_horizontal(end + said.keep_ms, after))
        .when(stays)
        .then(None)
        .otherwise(end + said.keep_ms)
    )
    created = begin - pl.when(was_there).then(said.ran_before_ms).otherwise(said.before_ms)
    earliest = pl.min_horizontal(before + said.keep_ms, begin)
    created = pl.when(follows).then(pl.max_horizontal(created, earliest)).otherwise(created)
    uids = [
        given or pod_uid(*names, life)
        for *names, given, life in found.select(*_POD, "uid", "life").rows()
    ]
    found = found.with_columns(
        given="uid",
        uid=pl.Series("uid", uids, dtype=pl.String),
        created=created + AFTER_MS,
        was_there=was_there,
        ready=created + (said.ready_after_ms or 0),
        deleted=pl.lit(None, dtype=pl.Int64),
        gone=gone + AFTER_MS,
    )
    return found if table.beside is None else table.beside.with_pods(found)


def _states(rows: pl.DataFrame, lives: pl.DataFrame) -> pl.DataFrame:
    """Return pod_states from a column: Pending until the first value, then its changes."""
    keys = ["cluster", "namespace", "target", "uid"]
    known = rows.filter(pl.col("ready").is_not_null())
    by_time = known.group_by([*keys, "ts"]).agg(pl.col("ready").all())
    changes = changed_rows(by_time, keys, ["ready"]).join(lives.select(*keys, "created"), on=keys)
    changes = changes.select(
        *keys,
        ts=pl.max_horizontal("ts", "created"),
        phase=pl.lit("Running"),
        ready=pl.when("ready").then(pl.lit("True")).otherwise(pl.lit("False")),
        last_transition="ts",
    )
    both = pl.concat([pending_states(lives), changes.cast({"ts": TIME, "last_transition": TIME})])
    return both.unique([*keys, "ts"], keep="last", maintain_order=True)


def recorded_sizes(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the sizes that matter of the replicas column (SIZE); of one time's the last counts.

    Of most workloads those are the changes. The first and the last one may have pods in other
    groups, whose rows can lie between these: all of theirs are kept.
    """
    place = list(PLACE)
    known = rows.filter(pl.col("replicas").is_not_null())
    by_time = known.sort("seq").unique([*place, "ts"], keep="last", maintain_order=True)
    by_time = by_time.select(list(SIZE))
    workload = ["cluster", "namespace", "target"]
    names = rows.select(workload).unique().sort(workload)
    edges = pl.concat([names.head(1), names.tail(1)]).unique()
    whole = by_time.join(edges, on=workload, how="anti")
    shared = by_time.join(edges, on=workload, how="semi")
    return pl.concat([changed_rows(whole, place, ["replicas"]), shared])


def sample_tables(rows: pl.DataFrame, table: TableMap) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield pod_metrics and pod_custom_metrics of rows that have their uid."""
    window = pl.lit(table.window_ms, dtype=pl.Int64)
    empty = pl.lit(None, dtype=pl.Float64)
    cpu = pl.col("cpu") if table.cpu is not None else empty
    memory = pl.col("memory") if table.memory is not None else empty
    used = _where(rows, cpu.is_not_null() | memory.is_not_null())
    if not used.is_empty():
        yield (
            "pod_metrics",
            used.select(
                *(*_SAMPLE, "container"),
                pl.col("ts").cast(TIME),
                window.alias("window_ms"),
                whole(cpu, Rounding.up).alias("cpu_milli"),
                whole(memory, Rounding.up).alias("memory_bytes"),
            ),
        )
    for name in (name for name, source in table.metrics.items() if not source.kind):
        found = _metric_rows(rows, name, _SAMPLE, table, window.alias("window_ms"))
        if not found.is_empty():
            yield "pod_custom_metrics", found


def shared_tables(rows: pl.DataFrame, table: TableMap) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield external_metrics and object_metrics: of each namespace and time the last value."""
    for name, source in table.metrics.items():
        if not source.kind:
            continue
        kind, _, described = source.object.partition("/")
        owner = {"series": ""} if source.kind == "External" else {"kind": kind, "name": described}
        more = (pl.lit(v).alias(n) for n, v in {"selector": source.selector, **owner}.items())
        found = _metric_rows(rows, name, ["cluster", "namespace"], table, *more)
        if not found.is_empty():
            yield f"{source.kind.lower()}_metrics", found


def _metric_rows(
    rows: pl.DataFrame, name: str, place: Sequence[str], table: TableMap, *more: pl.Expr
) -> pl.DataFrame:
    """Return the rows of a metric with more columns: of each place and time the last value."""
    found = rows.filter(pl.col(METRIC + name).is_not_null())
    return found.unique([*place, "ts"], keep="last", maintain_order=True).select(
        *place,
        pl.lit(name).alias("metric"),
        pl.col("ts").cast(TIME),
        whole(pl.col(METRIC + name), Rounding.down).alias("value_milli"),
        *more,
    )


def _where(rows: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows for which a condition is true, the frame itself where it is for all."""
    found = rows.select(condition).to_series()
    return rows if found.all() else rows.filter(found)


def _rates(rows: pl.DataFrame) -> pl.Series:
    """Return the rate of a counter between the samples of a container, null at its first one.

    A counter that fell began again at 0, as Prometheus' rate() takes it.
    """
    series = [KEY, "life"]
    known = rows.with_row_index("row").filter(pl.col("cpu").is_not_null()).sort([*series, "ts"])
    before = pl.col("cpu").shift(1)
    grown = pl.when(pl.col("cpu") < before).then(pl.col("cpu")).otherwise(pl.col("cpu") - before)
    rate = pl.when(~is_new(series, ())).then(grown * 1e3 / pl.col("ts").diff())
    found = known.select("row", rate=rate)
    return rows.with_row_index("row").join(found, on="row", how="left", maintain_order="left")[
        "rate"
    ]


_YOUNG_MS: Final = 600_000
"""Older pods are what young ones are compared with."""
_NEAR: Final = 0.25  # of what the older ones use
_FEWEST_PODS: Final = 10  # young ones of a workload
_WORKLOAD: Final = ["cluster", "namespace", "target", "kind"]


def ready_after(rows: pl.DataFrame, lives: pl.DataFrame, owner: str) -> pl.Series:
    """Return from a pod's creation until it is ready, ms, one value per life; 0: nothing tells.

    A pod that is not ready does no work, so it uses something else than the pods beside it; from
    when on it uses as much, it is ready. A start that uses as much as work does cannot be told.

    Args:
        rows: `owner`, `life`, `ts` (ms) and `cpu` by container.
        lives: `owner`, `life`, the workload's names, `created` and `begin` (ms; of the first row)
            and `was_there`: the pod is older than the table.
        owner: the column that numbers pods.
    """
    pod = [owner, "life"]
    used = rows.filter(pl.col("cpu").is_not_null()).group_by(*pod, "ts").agg(pl.col("cpu").sum())
    lives_of = lives.select(*pod, *_WORKLOAD, "begin", "created", "was_there")
    used = used.join(lives_of, on=pod).sort(*pod, "ts")
    every = pl.col("ts").diff().over(pod).median().over(_WORKLOAD)
    used = used.with_columns(every=every, age=pl.col("ts") + AFTER_MS - pl.col("created"))
    used = used.filter(pl.col("every") > 0).with_columns(
        at=(pl.col("ts") / pl.col("every")).floor(),
        step=((pl.col("ts") - pl.col("begin")) / pl.col("every")).round(),
        young=(pl.col("age") < _YOUNG_MS) & ~pl.col("was_there"),
    )
    older = (
        used.filter(~pl.col("young")).group_by(*_WORKLOAD, "at").agg(beside=pl.col("cpu").median())
    )
    young = used.filter("young").join(older, on=[*_WORKLOAD, "at"]).filter(pl.col("beside") > 0)
    by_step = young.group_by(*_WORKLOAD, "step").agg(
        (pl.col("cpu") / pl.col("beside")).median().alias("ratio"),
        pl.len().alias("pods"),
        pl.col("every", "age").median(),
    )
    by_step = by_step.filter(pl.col("pods") >= _FEWEST_PODS).sort(*_WORKLOAD, "step")
    unlike = (pl.col("ratio") - 1).abs() > _NEAR
    found = by_step.group_by(_WORKLOAD).agg(
        last_unlike=pl.col("age").filter(unlike).max(), last=pl.col("age").max(),
        every=pl.col("every").first(),
    )  # fmt: skip
    # Half a spacing before the first sample that is like the others'; not where none is.
    told = pl.col("last_unlike") < pl.col("last")
    wait = pl.when(told).then(pl.col("last_unlike") + pl.col("every") / 2)
    waits = found.select(*_WORKLOAD, wait.fill_null(0).round().cast(pl.Int64).alias("wait"))
    joined = lives.join(waits, on=_WORKLOAD, how="left", maintain_order="left")
    return joined["wait"].fill_null(0)


REQUESTED: Final = dict(
    zip(("requests.cpu", "requests.memory", "limits.cpu", "limits.memory"), AMOUNTS, strict=True)
)
"""Clean columns of requests and limits, and their columns in pod_requests."""

_PLACE: Final = ("namespace", "target", "container")
_CONTAINER: Final = ["cluster", "uid", "container"]


def requested_names(table: TableMap) -> list[str]:
    """Return the clean columns of requests and limits that a table's rows have."""
    return [name for name in amounts(table) if name in REQUESTED]


def requests_table(
    containers: pl.DataFrame, changes: pl.DataFrame | None, table: TableMap
) -> pl.DataFrame:
    """Return rows of `pod_requests`.

    Args:
        containers: cluster, namespace, target, uid, container and created (ms), once each.
        changes: cluster, uid, container, ts (ms) and the amounts that the table's rows hold, only
            where one of them changed; None where no amount is in the rows.
    """
    said = {
        REQUESTED[f"{kind}.{resource}"]: amount
        for kind, listed in (("requests", table.requests), ("limits", table.limits))
        for resource, amount in listed.items()
    }
    rows = containers.with_columns(valid_from="created")
    if changes is not None:
        rows = _over_time(containers, changes.rename(REQUESTED, strict=False))
    rows = _with_objects(rows, table, said)
    for name in AMOUNTS:
        rows = _with_amount(rows, name, said.get(name, Amount()))
    for name, amount in said.items():
        if amount.share is not None:
            limit = pl.col(name.replace("_milli", "_limit_milli"))
            share = (limit * amount.share).round(0).cast(pl.Int64)
            rows = rows.with_columns(pl.coalesce(name, share).alias(name))
    after = pl.col("index").max().over("cluster", "uid").fill_null(-1) + 1
    rank = pl.col("container").rank("dense").over("cluster", "uid", "kind").cast(pl.Int64) - 1
    return rows.select(
        *("cluster", "namespace", "target", "uid", "container"),
        pl.col("kind").fill_null("app"),
        pl.when(pl.col("kind").is_null()).then(after + rank).otherwise("index").alias("index"),
        pl.col("valid_from").cast(TIME),
        *AMOUNTS,
    )


def _over_time(containers: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return a row per container and change; what is known first holds from the beginning."""
    rows = containers.join(changes, on=_CONTAINER, how="left").sort([*_CONTAINER, "ts"])
    # The last change before the pod's beginning counts from its beginning on.
    valid_from = pl.max_horizontal(pl.col("ts"), pl.col("created")).fill_null(pl.col("created"))
    rows = rows.with_columns(valid_from=valid_from)
    rows = rows.unique([*_CONTAINER, "valid_from"], keep="last", maintain_order=True)
    first = pl.col("valid_from") == pl.col("valid_from").min().over(_CONTAINER)
    return rows.with_columns(valid_from=pl.when(first).then("created").otherwise("valid_from"))


def _with_objects(rows: pl.DataFrame, table: TableMap, said: dict[str, Amount]) -> pl.DataFrame:
    """Return rows with kind, index and amounts (`o.`) of the objects, null where none says any."""
    if table.beside is None:
        return rows.with_columns(
            pl.lit(None, pl.String).alias("kind"),
            pl.lit(None, pl.Int64).alias("index"),
            *(pl.lit(None, pl.Int64).alias(f"o.{name}") for name in AMOUNTS),
        )
    place = rows.select("namespace", "target").unique()
    kind_of = table.beside.objects.kind_of
    kinds = [kind_of(*names) or DEFAULT_KIND for names in place.rows()]
    place = place.with_columns(target_kind=pl.Series(kinds, dtype=pl.String))
    pods = rows.select("cluster", "namespace", "target", "uid", valid_from="created")
    pods = pods.unique(maintain_order=True).join(
        place, on=["namespace", "target"], how="left", maintain_order="left"
    )
    known = known_requests(pods, table.beside.requests).drop("target_kind")
    if table.whole_pods and any(amount.source is not None for amount in said.values()):
        # Its amounts are those of whole pods, too, which no single container has.
        known = known.join(rows, on=_CONTAINER, how="semi")
    elif table.whole_pods:
        other = rows.join(known, on=_CONTAINER, how="anti")
        other = other.join(known, on=["cluster", "uid"], how="semi")
        rows = rows.join(other, on=_CONTAINER, how="anti")
    return with_known(rows, known, _CONTAINER)


def _with_amount(rows: pl.DataFrame, name: str, amount: Amount) -> pl.DataFrame:
    """Add an amount as the first of its sources has it."""
    places = rows.select(_PLACE).unique(maintain_order=True)
    listed = [amount.named(*row) for row in places.rows()] if amount.listed else None
    places = places.with_columns(listed=pl.Series("listed", listed, pl.Int64) if listed else None)
    rows = rows.join(places, on=list(_PLACE), how="left", maintain_order="left")
    own = pl.col(name) if name in rows.columns else pl.lit(None, pl.Int64)
    # The map's amounts are those of containers that run.
    runs = pl.col("kind").is_null() | pl.col("kind").is_in(["app", "sidecar"])
    rows = rows.with_columns(own=own.cast(pl.Int64), listed=pl.when(runs).then("listed"))
    constant = pl.when(runs).then(pl.lit(amount.constant, pl.Int64))
    told = pl.coalesce("own", "listed", f"o.{name}", constant)
    return rows.with_columns(told.alias(name)).drop("own", "listed")
