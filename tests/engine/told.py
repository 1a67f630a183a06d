"""Statuses, events and errors of a small history's HPAs, tick by tick, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpabatch.engine.explain import moment as explaining
from hpabatch.engine.explain.moment import Key, Moment
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import History, open_history
from hpabatch.model.objects.encode import encode_status
from hpabatch.model.objects.hpa import HPA
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    SHOP,
    STEP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    request_row,
    scale_row,
    state_row,
    usage_row,
    write_history,
)

CPU, CONTAINER, PER_POD, HITS, LAG = METRICS[0], METRICS[3], METRICS[5], METRICS[7], METRICS[9]
# 100m hits for each replica.
PER_REPLICA: Row = {
    "type": "Object",
    "object": HITS["object"] | {"target": {"type": "AverageValue", "averageValue": "100m"}},
}
TICKS = 7
START = "2026-10-06T23:59:00Z"  # of the first tick; the next one is 10 s later
CPU_WORDS = "cpu resource utilization (percentage of request)"

READ = ("AbleToScale", "True", "SucceededGetScale",
        "the HPA controller was able to get the target's current scale")  # fmt: skip
FITS = ("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
WITHIN = ("ScalingLimited", "False", "DesiredWithinRange",
          "the desired count is within the acceptable range")  # fmt: skip
NOT_ZERO = ("ScaledToZero", "False", "NotScaledToZero",
            "the HPA controller did not scale the workload to zero")  # fmt: skip


def at(tick: int) -> str:
    return f"2026-10-06T23:59:{tick * 10:02}Z" if tick < 6 else "2026-10-07T00:00:00Z"


def written(size: int) -> tuple[str, str, str, str]:
    text = f"the HPA controller was able to update the target scale to {size}"
    return "AbleToScale", "True", "SucceededRescale", text


def valid(name: str = CPU_WORDS) -> tuple[str, str, str, str]:
    text = f"the HPA was able to successfully calculate a replica count from {name}"
    return "ScalingActive", "True", "ValidMetricFound", text


def inactive(reason: str, error: str) -> tuple[str, str, str, str]:
    text = f"the HPA was unable to compute the replica count: {error}"
    return "ScalingActive", "False", reason, text


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of an HPA after one sync: events as (type, reason, message)."""

    status: Row
    events: list[tuple[str, str, str]]
    error: str | None
    error_label: str

    def conditions(self) -> list[tuple[str, str, str, str]]:
        """Return (type, status, reason, message) of each."""
        names = ("type", "status", "reason", "message")
        return [tuple(c[name] for name in names) for c in self.status["conditions"]]

    def since(self) -> dict[str, str]:
        """Return when each condition turned."""
        return {c["type"]: c["lastTransitionTime"] for c in self.status.get("conditions", ())}


def told(moment: Moment, t: int) -> Told:
    """Return what is told of a moment's HPA after tick t."""
    status: Any = encode_status(moment.reader.status(moment.words, t))
    events = moment.reader.events(moment.words, t)
    now_ms = int(moment.shard.fleet.ticks[t].now_ms)
    assert {(e.first_ms, e.last_ms, e.count) for e in events} <= {(now_ms, now_ms, 1)}
    return Told(
        status,
        [(e.type, e.reason, e.message) for e in events],
        moment.reader.error(moment.words, t),
        moment.reader.error_label(t),
    )


def moments(
    history: History, parameters: ReplayParameters, manifests: Sequence[HPA] | None = None
) -> Iterator[Moment]:
    return explaining.moments(plan_replay(history, parameters, manifests, whole=True))


def told_of_all(
    history: History,
    parameters: ReplayParameters,
    manifests: Sequence[HPA] | None = None,
) -> dict[Key, dict[int, Told]]:
    """Return by HPA and time (ms) what is told after each sync of one replay."""
    found: dict[Key, dict[int, Told]] = {}
    for moment in moments(history, parameters, manifests):
        c, fleet = moment.candidate, moment.shard.fleet
        ticks = range(int(fleet.lanes[moment.h].first_tick), moment.t + 1)
        found[c.cluster, c.namespace, c.name] = {
            int(fleet.ticks[t].now_ms): told(moment, t) for t in ticks
        }
    return found


# ---- a small history ---------------------------------------------------------------------------


def web(*metrics: Row, cpu_milli: int = 50, **extra: list[Row]) -> Tables:
    """Return the tables of an HPA `one` on two pods of `web`, seen at TICKS ticks.

    Each pod uses `cpu_milli` of a request of 100, and HPA's usual target is 50 %; `extra` replaces
    whole tables.
    """
    tables = empty_tables()
    pods = ("web-0", "web-1")
    tables["pods"] = [pod_row(pod) for pod in pods]
    tables["pod_requests"] = [request_row(pod) for pod in pods]
    tables["pod_states"] = [state_row(pod) for pod in pods]
    times = [T0 + k * STEP for k in range(TICKS)]
    tables["pod_metrics"] = [usage_row(pod, ms, cpu_milli) for pod in pods for ms in times]
    tables["scales"] = [scale_row("web", T0 - STEP, 2)]
    tables["hpas"] = [hpa_row("one", "web", list(metrics) or [CPU])]
    return tables | extra


def hits(*values: int | None) -> list[Row]:
    """Return a sample (milli) of the Ingress' metric at each tick; None: none is new."""
    row = SHOP | {"kind": "Ingress", "name": "front", "metric": "hits", "selector": ""}
    return [
        row | {"ts": T0 + k * STEP, "value_milli": value, "fetched_at": None}
        for k, value in enumerate(values)
        if value is not None
    ]


def tell(tables: Tables, folder: Path, k8s: str = "1.38", **more: Any) -> dict[str, list[Told]]:
    """Return by name what is told of each HPA of cluster c1, tick after tick."""
    given = {"sync_period_ms": STEP, "phase_ms": 0, "max_age_ms": 60_000} | more
    folder.mkdir(exist_ok=True)
    history = open_history(write_history(tables, folder))
    found = told_of_all(history, ReplayParameters(k8s, **given))
    return {key[2]: list(ticks.values()) for key, ticks in found.items() if key[0] == "c1"}


def one(tables: Tables, folder: Path, k8s: str = "1.38", **more: Any) -> list[Told]:
    return tell(tables, folder, k8s, **more)["one"]
