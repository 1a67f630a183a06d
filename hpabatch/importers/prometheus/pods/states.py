"""Phases, readiness, requests and limits of pods: rows of pod_states and pod_requests.

kube-state-metrics says which phase and which Ready condition a pod has at each scrape, and, since
version 2.8, when a pod that is Ready became it (kube_pod_status_ready_time; some builds tell the
condition's last transition whatever its status). A pod has no Ready condition until the kubelet
gives it one: then there is no series, and `ready` is null.

It tells cpu in cores and memory in bytes, both rounded up by itself (millicores, bytes). It does
not tell the order of a pod's containers: `index` is their order by name, among the containers or
among the init containers. Which init containers are sidecars (restartPolicy Always) it tells since
version 2.11, by a label of kube_pod_init_container_info; from earlier ones they come as init
containers. Requests of a pod as a whole (spec.resources) it does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_MILLI_MAX
from hpabatch.importers.common.objects import (
    AMOUNTS,
    PodRequests,
    known_requests,
    with_known,
)
from hpabatch.importers.common.rows import Rounding, is_new, ms_schema, whole
from hpabatch.importers.prometheus.client.samples import LAST_S, Findings, Span
from hpabatch.importers.prometheus.pods.lives import assign_pods
from hpabatch.importers.prometheus.reading.gauges import Gauge

STATES: Final = ms_schema("pod_states")
_READY: Final = {"true": "True", "false": "False", "unknown": "Unknown"}
_STATE = ("phase", "ready", "last_transition")


def state_rows(
    phase: Gauge,
    ready: Gauge,
    ready_time: Gauge | None,
    pods: pl.DataFrame,
    span: Span,
    findings: Findings,
    *,
    initial: bool,
    before: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the changes of pods' phases, Ready conditions and their last transitions.

    `ts` is when a change was seen. `last_transition` is what is recorded of it, if it fits: told
    since the change was seen, not later than `ts` and, to the second, not before the state before
    was seen. Else it is when the change was seen, or the pod's start if it had no condition before
    and that fits. Of the state that a pod was seen in first it is: that of `before`, where that
    state had lasted already; when it was seen, if the pod is new and Ready; and the start (else
    the creation) of all others.

    Args:
        phase: kube_pod_status_phase by namespace, pod, uid and phase.
        ready: kube_pod_status_ready by namespace, pod, uid and condition.
        ready_time: kube_pod_status_ready_time (unix seconds) by namespace, pod and uid.
        pods: POD_ROWS; states of other pods are left out ("no pod").
        findings: gets ("assumed", …), the number of states whose phase is not recorded: it is
            Running with a pod that is Ready, else empty.
        initial: whether the states at span.after_ms are written, too.
        before: uid, ready and last_transition (ms) of each pod's last state before the window;
            without it, a change of the phase alone repeats an assumed transition.

    Returns:
        STATES (times in ms), sorted by namespace, uid and ts.
    """
    said = [
        _said(phase, "phase", "phase", pods, findings),
        _said(ready, "condition", "ready", pods, findings),
        _times(ready_time, pods, findings),
    ]
    values = ["phase", "ready", "since", "told"]
    whole = pl.concat(said, how="diagonal").group_by("namespace", "target", "uid", "ts")
    rows = whole.agg(pl.col(values).drop_nulls().last()).sort("uid", "ts")
    rows = rows.with_columns(pl.col(values).forward_fill().over("uid"))
    # A time without a state is left out.
    rows = rows.filter(pl.col("phase").is_not_null() | pl.col("ready").is_not_null())
    lacking = pl.col("phase").is_null()
    findings.note("assumed", "phase of a pod", rows.filter(lacking).height)
    guess = pl.when(pl.col("ready") == "True").then(pl.lit("Running")).otherwise(pl.lit(""))
    rows = rows.with_columns(phase=pl.coalesce("phase", guess))
    rows = _with_transitions(rows, pods, span, before)
    rows = rows.filter(is_new(["uid"], _STATE))
    if not initial:
        rows = rows.filter(pl.col("ts") > span.after_ms)
    return rows.select(list(STATES)).cast(STATES).sort("namespace", "uid", "ts")


def _said(
    gauge: Gauge, label: str, name: str, pods: pl.DataFrame, findings: Findings
) -> pl.DataFrame:
    """Return namespace, target, uid, ts and the label's value that holds from then on."""
    holds = gauge.changes.filter(pl.col("value") == 1).drop_nulls(label)
    value = pl.col(label)
    if name == "ready":
        value = value.str.to_lowercase().replace_strict(_READY, default=None)
    rows = holds.select("namespace", "pod", pl.col("uid").alias("pod_uid"), "ts", value.alias(name))
    found = assign_pods(rows.drop_nulls(name), pods, findings)
    return found.select("namespace", "target", "uid", "ts", name)


def _times(ready_time: Gauge | None, pods: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return namespace, target, uid, ts, the transition that was `told` then, and this (ms)."""
    schema = {**dict.fromkeys(("namespace", "target", "uid"), pl.String()), "ts": pl.Int64()}
    if ready_time is None:
        return pl.DataFrame(schema={**schema, "since": pl.Int64(), "told": pl.Int64()})
    ms = (pl.col("value") * 1000).round(0).cast(pl.Int64).alias("since")
    rows = ready_time.changes.filter(pl.col("value").is_between(1, LAST_S))
    rows = rows.select("namespace", "pod", pl.col("uid").alias("pod_uid"), "ts", ms)
    return assign_pods(rows, pods, findings).select(*schema, "since", told="ts")


def _with_transitions(
    rows: pl.DataFrame, pods: pl.DataFrame, span: Span, before: pl.DataFrame | None
) -> pl.DataFrame:
    """Add last_transition; `rows` are sorted by uid and ts and have `since` and `told`."""
    changed = pl.col("ready").ne_missing(pl.col("ready").shift(1)).fill_null(value=True)
    rows = rows.with_columns(run=changed.cast(pl.Int64).cum_sum().over("uid"))
    runs = rows.group_by("uid", "run").agg(pl.col("ts").min().alias("begin"))
    runs = runs.sort("uid", "run").with_columns(previous=pl.col("begin").shift(1).over("uid"))
    facts = pods.select("uid", "created", "started").unique("uid", keep="last")
    rows = rows.join(runs, on=["uid", "run"], how="left", maintain_order="left")
    rows = rows.join(facts, on="uid", how="left", maintain_order="left")
    rows = rows.join(_earlier(before), on="uid", how="left", maintain_order="left")
    is_first, is_true = pl.col("previous").is_null(), pl.col("ready") == "True"
    earliest = pl.when(is_first).then("created").otherwise("previous")
    # Recorded times are whole seconds, cut off. A transition before the state belongs to another.
    fits = (
        (pl.col("since") <= pl.col("ts"))
        & (pl.col("since") + 999 >= earliest)
        & (pl.col("told") >= pl.col("begin"))
    )
    started = pl.when(pl.col("started") <= pl.col("begin")).then("started")
    is_new = pl.col("created") > span.from_ms
    lasted = pl.when(pl.col("old_ready") == pl.col("ready")).then("old_transition")
    seen_first = (
        pl.when(lasted.is_not_null())
        .then(lasted)
        .when(is_new & is_true)
        .then("begin")
        .otherwise(pl.coalesce(started, "created"))
    )
    # A pod that had no condition yet gets it when it starts.
    appears = ~is_true & (pl.col("run") == pl.col("run").min().over("uid", "known"))
    with_start = pl.when(appears & (started + 999 >= pl.col("previous"))).then(started)
    told = (
        pl.when(fits)
        .then("since")
        .when(is_first)
        .then(seen_first)
        .otherwise(pl.coalesce(with_start, "begin"))
    )
    rows = rows.with_columns(known=pl.col("ready").is_not_null())
    return rows.with_columns(last_transition=pl.when("known").then(told))


def _earlier(before: pl.DataFrame | None) -> pl.DataFrame:
    if before is None:
        names = {"uid": pl.String(), "old_ready": pl.String(), "old_transition": pl.Int64()}
        return pl.DataFrame(schema=names)
    known = before.select("uid", old_ready="ready", old_transition="last_transition")
    return known.unique("uid", keep="last", maintain_order=True)


REQUESTS: Final = ms_schema("pod_requests")
_MILLI = 1000.0
_MOST: Final = {"cpu": CPU_MILLI_MAX, "memory": MEMORY_MILLI_MAX}
_PLACE = ["uid", "kind", "container"]


REQUESTED: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("container",),
    "requests": ("container", "resource"),
    "limits": ("container", "resource"),
    "init_containers": ("container", "restart_policy"),
    "init_requests": ("container", "resource"),
    "init_limits": ("container", "resource"),
    "overhead_cpu": (),
    "overhead_memory": (),
}
"""Queries of containers and their requests, with labels beside namespace, pod and uid. (Usage is no
substitute for `containers`: it has init and debug containers, too, and an app container without any
request stops an HPA.)"""


def request_rows(
    said: Mapping[str, Gauge], pods: pl.DataFrame, span: Span, findings: Findings, *, initial: bool
) -> pl.DataFrame:
    """Return what containers request, since their pod's creation or a resize in place.

    A container's first row is valid from the pod's creation on, and written by the window that
    saw the container first; a container without any request or limit has one with nulls only.

    Args:
        said: the gauges of REQUESTED.
        pods: POD_ROWS; containers of other pods are left out ("no pod").
        findings: gets ("value", …) for amounts that cannot be, and ("no request", …), the number
            of containers without a request for cpu.
        initial: whether what holds at span.after_ms is written, too.

    Returns:
        REQUESTS (valid_from in ms), sorted by namespace, uid, kind, index and valid_from.
    """
    parts = [
        (said["requests"], "app", ""),
        (said["limits"], "app", "_limit"),
        (said["init_requests"], "init", ""),
        (said["init_limits"], "init", "_limit"),
    ]
    changes = [_amounts(gauge, kind, suffix, findings) for gauge, kind, suffix in parts]
    overhead = [said["overhead_cpu"], said["overhead_memory"]]
    for gauge, resource in zip(overhead, _MOST, strict=True):
        told = [pl.lit("").alias("container"), pl.lit(resource).alias("resource")]
        named = Gauge(gauge.changes.with_columns(told), gauge.seen)
        changes.append(_amounts(named, "overhead", "", findings))
    known = [*parts, (said["containers"], "app", ""), (said["init_containers"], "init", "")]
    there = _there([(gauge, kind) for gauge, kind, _ in known], overhead)
    there = assign_pods(there.filter(pl.col("ts") > span.after_ms), pods, findings)
    there = there.group_by("namespace", "target", *_PLACE).agg(pl.col("first").min())
    there = _indexed(there, _sidecars(said["init_containers"], pods))
    # Pods that are not known were counted already.
    values = assign_pods(pl.concat(changes, how="diagonal"), pods, Findings())
    rows = _over_time(values, there, pods, span, initial=initial)
    order = ["namespace", "uid", "kind", "index", "valid_from"]
    return rows.select(list(REQUESTS)).cast(REQUESTS).sort(order)


def beside_objects(rows: pl.DataFrame, pods: pl.DataFrame, requests: PodRequests) -> pl.DataFrame:
    """Return requests of a window (REQUESTS) of a server that exports none, filled in by objects.

    `rows` are of the containers that were there.
    """
    place = ("namespace", "target", "uid", "target_kind", "created")
    named = pods.select(place).drop_nulls().rename({"created": "valid_from"})
    both = with_known(rows, known_requests(named, requests), ["uid", "container"])
    merged = both.with_columns(pl.coalesce(name, f"o.{name}").alias(name) for name in AMOUNTS)
    order = ("namespace", "uid", "kind", "index", "valid_from")
    return merged.select(list(REQUESTS)).sort(order)


def note_lacking(rows: pl.DataFrame, findings: Findings) -> None:
    """Note how many containers of requests (REQUESTS) have none for cpu."""
    lacking = (pl.col("kind") == "app") & pl.col("cpu_milli").is_null()
    without = rows.filter(lacking).select(_PLACE).n_unique()
    findings.note("no request", "containers without a request for cpu", without)


def _amounts(gauge: Gauge, kind: str, suffix: str, findings: Findings) -> pl.DataFrame:
    """Return namespace, pod, pod_uid, kind, container, ts and one of AMOUNTS, the others null."""
    found = []
    for resource, most in _MOST.items():
        rows = gauge.changes.filter(pl.col("resource") == resource).drop_nulls("container")
        good = pl.col("value").is_between(0, most / _MILLI)
        findings.note("value", f"a {resource} request that cannot be", rows.filter(~good).height)
        amount = whole(pl.col("value") * _MILLI, Rounding.up)
        found.append(
            rows.filter(good).select(
                *("namespace", "pod", pl.col("uid").alias("pod_uid"), "container", "ts"),
                pl.lit(kind).alias("kind"),
                amount.alias(f"{resource}{suffix}_milli"),
            )
        )
    return pl.concat(found, how="diagonal")


def _there(gauges: list[tuple[Gauge, str]], overhead: list[Gauge]) -> pl.DataFrame:
    """Return namespace, pod, pod_uid, kind, container, `first` seen, and last seen (as `ts`)."""
    places = [(gauge.seen, pl.col("container"), kind) for gauge, kind in gauges] + [
        (gauge.seen, pl.lit("").alias("container"), "overhead") for gauge in overhead
    ]
    frames = [
        seen.select(
            *("namespace", "pod", pl.col("uid").alias("pod_uid"), container),
            pl.lit(kind).alias("kind"),
            "first",
            # By when a pod of that name must have begun.
            ts="last",
        )
        for seen, container, kind in places
    ]
    return pl.concat(frames).drop_nulls("container")


def _sidecars(init_containers: Gauge, pods: pl.DataFrame) -> pl.DataFrame:
    """Return uid and container of the init containers that go on running."""
    always = init_containers.seen.filter(pl.col("restart_policy") == "Always")
    rows = always.select("namespace", "pod", "container", pod_uid="uid", ts="last")
    return assign_pods(rows, pods, Findings()).select("uid", "container").unique()


def _indexed(there: pl.DataFrame, sidecars: pl.DataFrame) -> pl.DataFrame:
    """Add each container's index among those of its list, and the kind as it is written."""
    index = pl.col("container").rank("dense").over("uid", "kind").cast(pl.Int64) - 1
    marked = sidecars.with_columns(kind=pl.lit("init"), written=pl.lit("sidecar"))
    rows = there.with_columns(index=index).join(marked, on=_PLACE, how="left")
    return rows.with_columns(written=pl.coalesce("written", "kind"))


def _over_time(
    values: pl.DataFrame, there: pl.DataFrame, pods: pl.DataFrame, span: Span, *, initial: bool
) -> pl.DataFrame:
    amounts = [name for name in AMOUNTS if name not in values.columns]
    values = values.with_columns(pl.lit(None, dtype=pl.Int64).alias(name) for name in amounts)
    rows = values.group_by(*_PLACE, "ts").agg(pl.col(AMOUNTS).max())
    bare = there.join(rows, on=_PLACE, how="anti").select(*_PLACE, ts="first")
    rows = pl.concat([rows, bare], how="diagonal").sort(*_PLACE, "ts")
    rows = rows.with_columns(pl.col(AMOUNTS).forward_fill().over(_PLACE))
    begins = pl.int_range(pl.len()).over(_PLACE) == 0
    rows = rows.with_columns(begins=begins).filter(is_new(_PLACE, AMOUNTS))
    created = pods.select("uid", "created").unique("uid", keep="last")
    rows = rows.join(there, on=_PLACE).join(created, on="uid", how="left")
    # A value from before the window has a row in an earlier one.
    written = (
        pl.when("begins")
        .then(pl.col("first") > span.after_ms)
        .otherwise(pl.col("ts") > span.after_ms)
    )
    rows = rows if initial else rows.filter(written)
    valid = pl.when("begins").then(pl.min_horizontal("created", "ts")).otherwise("ts")
    return rows.with_columns(valid_from=valid, kind="written")
