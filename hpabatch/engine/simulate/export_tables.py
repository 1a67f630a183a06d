"""Tables of a history from what was seen of a simulated run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import polars as pl

import hpabatch
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.export_samples import (
    conform,
    containers_of,
    pod_samples,
    total_samples,
)
from hpabatch.engine.simulate.export_trace import Trace
from hpabatch.history.provenance import RUN
from hpabatch.history.schema_hpas import SIMULATED
from hpabatch.layout.plant import NEVER_MS
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.versions import ControllerFlags, Profile

_INT: Final = pl.Int64()
_TEXT: Final = pl.String()


def tables_of(
    trace: Trace, cases: Sequence[SimulationCase], profile: Profile
) -> dict[str, pl.DataFrame]:
    """Return the tables of a run, with the columns of `history.schema`."""
    names = _names(cases)
    pods = _identified(trace.pods, names)
    lives = _lives(pods, trace.vanished)
    found = {
        "pods": lives,
        "pod_states": _states(pods),
        "pod_requests": _requests(lives, cases),
        **pod_samples(trace.samples, cases, lives),
    }
    found |= {
        "scales": _scales(trace.scales, names, cases),
        "hpas": pl.concat([_hpas(case) for case in cases]),
        "controller": _controller(cases, profile),
        "provenance": _provenance(cases),
        **total_samples(trace.totals, cases, names),
    }
    return {name: conform(name, frame) for name, frame in found.items()}


def _names(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return what rows are named by, one row per lane."""
    rows = []
    for h, case in enumerate(cases):
        w, target = case.workload, case.periods[-1].spec.scale_target_ref
        rows.append((h, w.cluster, w.namespace, target.name, target.kind, f"workload-{h}"))
    names = ("cluster", "namespace", "target", "target_kind", "app")
    return pl.DataFrame(rows, schema={"lane": _INT, **dict.fromkeys(names, _TEXT)}, orient="row")


def _identified(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return rows of pods with their names and uids beside their numbers."""
    joined = frame.join(names, on="lane", how="left", maintain_order="left")
    number = pl.col("pod").cast(_TEXT).str.zfill(5)
    joined = joined.with_columns(number="pod", pod=pl.concat_str("target", number, separator="-"))
    uid = pl.concat_str("namespace", "target_kind", "pod", separator="/")
    return joined.with_columns(uid=uid)


# ---- pods and scales


def _lives(pods: pl.DataFrame, vanished: pl.DataFrame) -> pl.DataFrame:
    """Return the lives of pods, one row each, as they were seen last."""
    last = pods.unique(["lane", "number"], keep="last", maintain_order=True).join(
        vanished.rename({"pod": "number", "ts": "missed"}),
        on=["lane", "number"],
        how="left",
        maintain_order="left",
    )
    # What made an end of a pod between two ticks was never seen: it was gone at the second.
    ends = [
        pl.min_horizontal(_unless_never(column), "missed").alias(name)
        for column, name in (("deletion_ms", "deletion_requested"), ("gone_ms", "gone"))
    ]
    return last.with_columns(
        *ends,
        labels=pl.concat_str(pl.lit('{"app":"'), "app", pl.lit('"}')),
        created="created_ms",
        started=pl.when(pl.col("scheduled") != 0).then("started_ms"),
    )


def _unless_never(column: str) -> pl.Expr:
    return pl.when(pl.col(column) < NEVER_MS).then(column)


def _states(pods: pl.DataFrame) -> pl.DataFrame:
    """Return the changes of readiness: not ready since `unready_ms`, ready since `ready_ms`."""
    pairs = pods.filter(pl.col("scheduled") != 0)
    keys = ["cluster", "namespace", "target", "uid"]
    # Of pods that were always ready both instants are one: then only the later counts.
    before = pairs.filter(pl.col("unready_ms") < pl.col("ready_ms")).select(
        *keys, ts="unready_ms", ready=pl.lit("False"), last_transition="unready_ms"
    )
    after = pairs.select(*keys, ts="ready_ms", ready=pl.lit("True"), last_transition="ready_ms")
    both = pl.concat([before, after]).unique(maintain_order=True)
    return both.with_columns(phase=pl.lit("Running"))


def _requests(lives: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    rows = [
        (h, container, index, *_requested(case, container))
        for h, case in enumerate(cases)
        for index, container in enumerate(containers_of(case))
    ]
    schema = {
        "lane": _INT,
        "container": _TEXT,
        "index": _INT,
        "cpu_milli": _INT,
        "memory_milli": _INT,
    }
    asked = pl.DataFrame(rows, schema=schema, orient="row")
    joined = lives.join(asked, on="lane", how="inner", maintain_order="left")
    return joined.with_columns(kind=pl.lit("app"), valid_from="created")


def _requested(case: SimulationCase, container: str) -> tuple[int | None, int | None]:
    """Return (cpu, memory) requests of a container in milli.

    What is given of the pod as a whole is the first container's, the others ask for 0 of it.
    """
    first = containers_of(case)[0] == container
    found: list[int | None] = []
    for resource in ("cpu", "memory"):
        signals = case.workload.plant.signals
        own = signals.get(f"container/{container}/{resource}")
        whole = signals.get(f"resource/{resource}")
        if own is not None:
            found.append(own.request_milli)
        elif whole is not None:
            found.append(whole.request_milli if first else 0)
        else:
            found.append(None)
    return found[0], found[1]


def _scales(
    scales: pl.DataFrame, names: pl.DataFrame, cases: Sequence[SimulationCase]
) -> pl.DataFrame:
    """Return the changes of sizes; what a tick finds changed happened after the tick before."""
    first_ms, period_ms = cases[0].start_ms, cases[0].period_ms
    since = pl.when(pl.col("ts") > first_ms).then(pl.col("ts") - period_ms + 1).otherwise("ts")
    return (
        scales.with_columns(ts=since)
        .join(names, on="lane", how="left", maintain_order="left")
        .with_columns(selector=pl.concat_str(pl.lit("app="), "app"))
    )


# ---- HPAs and their controller


def _hpas(case: SimulationCase) -> pl.DataFrame:
    """Return an HPA's specs; what was in force at the start is so from then on."""
    w = case.workload
    specs: dict[int, HPASpec] = {case.start_ms: case.periods[0].spec}
    for period in case.periods:
        specs[max(period.from_ms, case.start_ms)] = period.spec
    since = sorted(specs)
    texts = [spec_to_json(HPA(name=w.hpa, namespace=w.namespace, spec=specs[s])) for s in since]
    return pl.DataFrame(
        {
            "cluster": w.cluster,
            "namespace": w.namespace,
            "name": w.hpa,
            "uid": f"{w.namespace}/{w.hpa}",
            "valid_from": since,
            "valid_to": pl.Series([*since[1:], None], dtype=_INT),
            "spec": texts,
        }
    )


def _controller(cases: Sequence[SimulationCase], profile: Profile) -> pl.DataFrame:
    clusters = sorted({c.workload.cluster for c in cases})
    return pl.DataFrame(
        {
            "cluster": clusters,
            "ts": cases[0].start_ms,
            "event": "observed",
            "version": profile.name,
            "flags": json.dumps(_flag_words(cases[0].flags, cases[0].period_ms)),
        }
    )


def _flag_words(flags: ControllerFlags, period_ms: int) -> dict[str, str]:
    prefix = "horizontal-pod-autoscaler-"
    return {
        f"{prefix}sync-period": f"{period_ms}ms",
        f"{prefix}cpu-initialization-period": f"{flags.cpu_initialization_period_ms}ms",
        f"{prefix}initial-readiness-delay": f"{flags.initial_readiness_delay_ms}ms",
        f"{prefix}downscale-stabilization": f"{flags.downscale_stabilization_ms}ms",
        f"{prefix}tolerance": repr(flags.tolerance),
    }


def _provenance(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return the time that the run covers: a replay decides from its first tick to its last."""
    case = cases[0]
    return pl.DataFrame(
        {
            "cluster": sorted({c.workload.cluster for c in cases}),
            "namespace": "",
            "name": "",
            "subject": RUN,
            "valid_from": case.start_ms,
            "valid_to": case.start_ms + (case.steps - 1) * case.period_ms + 1,
            "method": SIMULATED,
            "detail": f"hpabatch {hpabatch.__version__}",
        }
    )
