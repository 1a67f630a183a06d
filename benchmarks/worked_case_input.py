"""Input of docs/worked-case.md: demand, pods, and the history of a default HPA.

The demand is real: requests a minute of the web site of the Football World Cup 1998, two weeks
around its opening match. The pods are not: what one of them needs for a request and how long it
takes to start is stated here and on the page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import yaml

from benchmarks.plants import MINUTE_MS, SYNC_MS
from benchmarks.truth_fleet import CPU
from benchmarks.truth_record import FLAGS, write_history
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.layout.records import I64
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.plant import DIVISIBLE, RESOURCE, Pipeline, Plant, Pods, Signal
from hpabatch.model.versions import Profile
from hpabatch.packing.workloads import Workload

TRACES: Final = "HPABATCH_TRACES"
SERIES: Final = "worldcup98/rpm"
FROM: Final = datetime(1998, 6, 6, tzinfo=UTC)
UNTIL: Final = datetime(1998, 6, 20, tzinfo=UTC)
MOVED: Final = timedelta(weeks=1461)
"""Histories begin in 2000 at the earliest: the same days and weekdays of June 2026."""

NAMESPACE, NAME = "worldcup", "web"


@dataclass(frozen=True, slots=True)
class Stated:
    """What is stated of the pods, as no log of requests says it.

    Pods take about four minutes until they serve, as where a node has to come first. They are meant
    to do 80 % of what they can up to their limit, which is what `hpabatch fit` assumes.
    """

    request_cpu_ms: int = 15
    cpu_request_milli: int = 500
    cpu_limit_milli: int = 600
    idle_milli: int = 20
    startup_s: tuple[int, ...] = (180, 200, 220, 235, 245, 260, 280, 300)
    target_pct: int = 80
    min_replicas: int = 2
    max_replicas: int = 120

    def plant(self) -> Plant:
        """Return the pods."""
        cpu = Signal(
            DIVISIBLE,
            base_milli=self.idle_milli,
            ceiling_milli=self.cpu_limit_milli,
            startup_milli=self.cpu_request_milli // 2,
            request_milli=self.cpu_request_milli,
        )
        pods = Pods(startup_ms=tuple((2_000, seconds * 1000) for seconds in self.startup_s))
        room = self.cpu_limit_milli - self.idle_milli
        return Plant({CPU: cpu}, pods, {RESOURCE: Pipeline()}, room * 8 // 10)


def read_series(folder: str) -> pl.DataFrame:
    """Return minutes and requests (`ts`, `value`); a minute that was not logged had none.

    Raises:
        SystemExit: the folder has no such series.
    """
    path = Path(folder) / "demand.parquet"
    if not path.is_file():
        raise SystemExit(f"{TRACES}={folder} has no demand.parquet")
    chosen = (pl.col("series") == SERIES) & (pl.col("ts") >= FROM) & (pl.col("ts") < UNTIL)
    found = pl.read_parquet(path).filter(chosen).sort("ts").select("ts", "value")
    minutes = int((UNTIL - FROM).total_seconds()) // 60
    if found.height != minutes:
        raise SystemExit(f"{path}: {SERIES} has {found.height} minutes there, not {minutes}")
    return found.with_columns(pl.col("value").fill_null(0))


def case_of(requests: I64, stated: Stated, spec: HPASpec, name: str) -> SimulationCase:
    """Return the workload under a spec; `requests` are those of each minute."""
    start_ms = int((FROM + MOVED).timestamp() * 1000)
    # Requests a minute, each of so many ms of a core: milli-cores.
    work = np.asarray(requests * stated.request_cpu_ms / 60, np.int64)
    workload = Workload(
        cluster="case",
        namespace=NAMESPACE,
        hpa=NAME,
        plant=stated.plant(),
        work={CPU: work},
        work_start_ms=start_ms,
        resolution_ms=MINUTE_MS,
        initial=10,
    )
    return SimulationCase(
        workload=workload,
        periods=(SpecPeriod(start_ms, NEVER_MS, spec),),
        setting=name,
        start_ms=start_ms,
        period_ms=SYNC_MS,
        steps=work.size * MINUTE_MS // SYNC_MS,
        flags=FLAGS,
        requested=Requested(cpu_milli=stated.cpu_request_milli),
    )


# ---- the default HPA and its recording


def manifest(stated: Stated) -> str:
    """Return the default HPA, as `kubectl autoscale --cpu` would make it."""
    return f"""\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {NAME}
  namespace: {NAMESPACE}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {NAME}
  minReplicas: {stated.min_replicas}
  maxReplicas: {stated.max_replicas}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {stated.target_pct}
"""


def default_spec(stated: Stated) -> HPASpec:
    """Return the default HPA's spec as the API server stores it."""
    hpa, problems = hpa_from_json(json.dumps(yaml.safe_load(manifest(stated))["spec"]))
    assert not problems, problems
    return default_hpa(HPA(name=NAME, namespace=NAMESPACE, spec=hpa.spec)).spec


def record_today(folder: Path, series: pl.DataFrame, stated: Stated, profile: Profile) -> None:
    """Write the default HPA's manifest and its run's history."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "web.yaml").write_text(manifest(stated))
    case = case_of(series["value"].to_numpy(), stated, default_spec(stated), "today")
    limits = {(NAMESPACE, NAME): stated.cpu_limit_milli}
    write_history([case], limits, folder / "history", profile, seed=0)
