"""Histories and sides to compare, and frames of ticks told in few words."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.compare.run import (
    Comparison,
)
from hpabatch.engine.compare.sides import Side
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.errors import UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from tests.engine.made import PERIOD, START, decisions
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    SHOP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    request_row,
    resource,
    scale_row,
    state_row,
    usage_row,
    write_history,
    write_pieces,
)

SYNC = 15_000
CPU_60 = resource("Resource", "cpu", {"type": "Utilization", "averageUtilization": 60})


def workload(name: str, usage: list[int], *metrics: Row, **more: Any) -> Tables:
    """Return the tables of one pod that requests 100m and uses so much from tick to tick."""
    tables, pod = empty_tables(), f"{name}-0"
    tables["pods"] = [pod_row(pod)]
    tables["pod_requests"] = [request_row(pod)]
    tables["pod_states"] = [state_row(pod)]
    tables["pod_metrics"] = [usage_row(pod, T0 + k * SYNC, u) for k, u in enumerate(usage)]
    tables["scales"] = [scale_row(name, T0 - 1000, 1)]
    tables["hpas"] = [hpa_row(name, name, list(metrics) or [CPU_60], **more)]
    return tables


def together(*parts: Tables) -> Tables:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def side(k8s: str, gates: str = "", **more: Any) -> Side:
    return Side(f"{k8s}{gates}", ReplayParameters(k8s, gates, **more))


def manifest(name: str, **spec: Any) -> HPA:
    row = hpa_row(name, spec.pop("workload", name), [CPU_60], spec=spec)
    metadata = {"name": name, "namespace": "shop"}
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": row["spec"],
    }
    return default_hpa(decode_hpa(document)[0])


def set_of(name: str, *hpas: HPA) -> Side:
    return Side(name, ReplayParameters("1.38"), hpas)


def tick_frame(numbers: Iterable[int], **columns: list[Any]) -> pl.DataFrame:
    """Return the ticks of one HPA with these numbers; columns as in `TICK` but for some."""
    rows = [
        {"ts": START + number * PERIOD} | {name: values[k] for name, values in columns.items()}
        for k, number in enumerate(numbers)
    ]
    found = decisions(rows)
    return found.cast({name: TICK_SCHEMA[name] for name in ("binding", "error")})


def nonempty(frame: pl.DataFrame) -> pl.DataFrame:
    if frame.is_empty():
        raise UsageError("none")
    return frame


def opened(tables: Tables, folder: Path) -> History:
    folder.mkdir(exist_ok=True)
    return open_history(write_history(tables, folder))


@contextmanager
def drawn(tables: Tables, seed: int | None = None) -> Iterator[History]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if seed is None:
            write_history(tables, folder)
        else:
            write_pieces(tables, folder, seed)
        yield open_history(folder)


def only(comparison: Comparison) -> dict[str, Any]:
    assert comparison.differences.height == 1
    return comparison.differences.row(0, named=True)


def seconds(row: dict[str, Any], name: str = "first_ts") -> float:
    return float(row[name].timestamp() - T0 / 1000)


def eventful(seed: int, hpas: int = 6, ticks: int = 14) -> Tables:
    """Return HPAs for which most switches matter now and then: pods that lack samples or are done,
    ratios at the edge of the tolerance, side-cars, windows and policies.
    """
    rng = random.Random(seed)
    tables = empty_tables()
    for name in (f"w{k}" for k in range(hpas)):
        policies = [{"type": "Pods", "value": 1, "periodSeconds": rng.choice([15, 60])}]
        behavior = {
            "scaleUp": {"stabilizationWindowSeconds": rng.choice([0, 60]), "policies": policies},
            "scaleDown": {"stabilizationWindowSeconds": rng.choice([0, 30])},
        }
        spec = {"behavior": behavior} if rng.random() < 0.6 else {}
        metrics = rng.sample(METRICS, rng.randint(1, 3))
        tables["hpas"].append(hpa_row(name, name, metrics, spec=spec, max_replicas=8))
        for pod in (f"{name}-{k}" for k in range(rng.randint(1, 4))):
            add_pod(tables, rng, pod, ticks)
        sizes = [(T0 - 1000, rng.randint(1, 4))]
        sizes += [(T0 + k * SYNC + 1000, rng.randint(1, 6)) for k in range(0, ticks, 4)]
        tables["scales"] += [scale_row(name, ts, size) for ts, size in sizes]
    for k in range(ticks):
        series = SHOP | {"ts": T0 + k * SYNC, "selector": "", "fetched_at": None}
        named = {"kind": "Ingress", "name": "front", "metric": "hits"}
        hits = {"value_milli": rng.choice([100, 110, 90, 500, 20])}
        tables["object_metrics"].append(series | named | hits)
        lag = {"metric": "lag", "series": "", "value_milli": rng.choice([70, 77, 63, 1 << 62])}
        tables["external_metrics"].append(series | lag)
    return tables


def add_pod(tables: Tables, rng: random.Random, pod: str, ticks: int) -> None:
    tables["pods"].append(pod_row(pod))
    tables["pod_requests"] += [request_row(pod), request_row(pod, "proxy", index=1)]
    if rng.random() < 0.5:
        tables["pod_requests"].append(request_row(pod, "mesh", kind="sidecar"))
    if rng.random() < 0.3:
        tables["pod_requests"].append(request_row(pod, "", kind="pod", cpu_milli=300))
    phase = rng.choice(["Running", "Running", "Running", "Succeeded"])
    tables["pod_states"].append(state_row(pod, phase=phase))
    for at in range(T0, T0 + ticks * SYNC, SYNC):
        for container in ("app", "proxy"):
            if rng.random() < 0.8:
                used = rng.choice([10, 45, 50, 55, 60, 66, 100, 110])
                tables["pod_metrics"].append(usage_row(pod, at, used, container))
        rps = {"metric": "rps", "selector": "", "value_milli": rng.choice([4500, 5500, 9000])}
        tables["pod_custom_metrics"].append(usage_row(pod, at, None) | rps)
