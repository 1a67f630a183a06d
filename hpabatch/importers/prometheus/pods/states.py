"""Phases and readiness of pods, as rows of the table pod_states.

kube-state-metrics says which phase and which Ready condition a pod has at each scrape, and, since
version 2.8, when a pod that is Ready became it (kube_pod_status_ready_time; some builds tell the
condition's last transition whatever its status). A pod has no Ready condition until the kubelet
gives it one: then there is no series, and `ready` is null.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.importers.common.continued import is_new, ms_schema
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
        span: the window.
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
