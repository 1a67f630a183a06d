"""Simulations of today's settings where the controller saw usage through a known lens.

    python -m benchmarks.lens_loop --seed 101 --sources 10 --work build/lens_loop

The fleets are those of `benchmarks.lens_truth`, with a lens as the world has them: what pods use is
recorded in its own units, at its own time or (negative lag) late; the controller has a pipeline of
its own, which is later, gives longer means and another multiple. Nothing of a simulated lens is
used to make them. Today's settings are simulated as recorded, through the estimated lens, and
through the true one; simulated sizes are compared with recorded ones, bases and ceilings with the
true ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.answers_truth import K8S, SYNC_MS
from benchmarks.lens_truth import DAYS, HPAS, MAX_AGE_MS, NEVER, Tables, drawn, recorded, run, write
from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.run import Loop, LoopOptions, prepare_loop
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.inputs.lenses import Lens
from hpabatch.model.plant import CUSTOM, RESOURCE, Pipeline, Signal, signal_name
from hpabatch.model.versions import profile_for

KEY: Final = ["cluster", "namespace", "hpa"]
BASE: Final = f"signals.{CPU}.base"


def seen_through_world(truth: Truth, lens: Lens) -> Truth:
    """Return a truth whose controller reads other values, later and longer than pods are recorded.

    What is recorded are samples of a second metric, with the values that the plant has.
    """
    workload, name = truth.workload, signal_name(NEVER)
    signal, later_ms = workload.plant.signals[CPU], max(lens.lag_ms, 0)
    pipelines = {
        RESOURCE: Pipeline(
            window_ms=lens.smoothing_ms or SYNC_MS,
            lag_ms=later_ms,
            max_age_ms=MAX_AGE_MS + later_ms,
        ),
        CUSTOM: Pipeline(window_ms=SYNC_MS, max_age_ms=MAX_AGE_MS + later_ms),
    }
    signals = {CPU: _scaled(signal, lens.scale), name: replace(signal, api=CUSTOM)}
    work = workload.work[CPU]
    seen = np.rint(work * lens.scale).astype(np.int64)
    plant = replace(workload.plant, signals=signals, pipelines=pipelines)
    spec = replace(truth.spec, metrics=(*truth.spec.metrics, NEVER))
    own = replace(workload, plant=plant, work={CPU: seen, name: work})
    return replace(truth, spec=spec, workload=own)


def _scaled(signal: Signal, scale: float) -> Signal:
    """Return what the controller is told of a signal's usage; the request is the pod's own."""
    assert signal.ceiling_milli is not None
    return replace(
        signal,
        base_milli=round(signal.base_milli * scale),
        ceiling_milli=round(signal.ceiling_milli * scale),
        startup_milli=round(signal.startup_milli * scale),
    )


def history_of(
    fleet: Sequence[Truth], lens: Lens, seed: int, place: Path, days: int = DAYS
) -> Path:
    """Write the recording of a fleet whose controller sees through a lens."""
    tables = run([seen_through_world(t, lens) for t in fleet], seed, days)
    # (values are the pods' own already, and a controller's lag is none of the recording)
    return write(with_limits(recorded(tables, lens.of_recording), fleet), place)


def with_limits(tables: Tables, fleet: Sequence[Truth]) -> Tables:
    """Return the tables with the pods' cpu limits."""
    limits = {
        t.spec.scale_target_ref.name: t.workload.plant.signals[CPU].ceiling_milli for t in fleet
    }
    limit = pl.col("target").replace_strict(limits, return_dtype=pl.Int64)
    return tables | {"pod_requests": tables["pod_requests"].with_columns(cpu_limit_milli=limit)}


def simulated(history: History, lens: str) -> tuple[Loop, pl.DataFrame]:
    """Return today's settings simulated through a lens, tick by tick."""
    parameters = ReplayParameters(K8S, events="decided")
    options = LoopOptions(keep_points=True)
    loop = prepare_loop(history, parameters, options, see=seen_through(lens))
    points = simulate(loop.cases, profile_for(K8S), keep_points=True).points
    assert points is not None
    return loop, points


def reproduced(history: History, points: pl.DataFrame) -> dict[str, float]:
    """Return how simulated sizes are like recorded ones, over all ticks and HPAs.

    The share of equal ones, of those within one replica, the mean error in replicas, and simulated
    replica-hours relative to recorded ones.
    """
    names = ["cluster", "namespace", "target"]
    sizes = history.read("scales").select(*names, "ts", "spec_replicas").sort("ts")
    ticks = points.select(*KEY, "ts", "replicas").with_columns(target="hpa").sort("ts")
    both = ticks.join_asof(sizes, on="ts", by=names, check_sortedness=False)
    off = (pl.col("replicas") - pl.col("spec_replicas")).abs()
    return both.select(
        same=(off == 0).mean(),
        within_1=(off <= 1).mean(),
        error=off.mean(),
        hours=pl.col("replicas").sum() / pl.col("spec_replicas").sum(),
    ).row(0, named=True)


def bases_held(loop: Loop, fleet: Sequence[Truth]) -> tuple[int, int]:
    """Return how many fitted bases hold the true one within their interval, and of how many."""
    held = known = 0
    for truth in fleet:
        fact = next(f for f in loop.facts[truth.key] if f.name == BASE)
        if fact.source == "fitted" and fact.low is not None and fact.high is not None:
            true = truth.workload.plant.signals[CPU].base_milli / 1000
            known, held = known + 1, held + (fact.low <= true <= fact.high)
    return held, known


def rows_of(seed: int, count: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each source and way to see it."""
    for k in range(count):
        lens = drawn(seed, k)
        options = FleetOptions(hpas=HPAS, weeks=1, seed=seed * 1000 + k, sample_ms=SYNC_MS)
        fleet, place = make_fleet(options), work / f"lens-{k}"
        history = open_history(history_of(fleet, lens, seed, place))
        truth = place.parent / f"lens-{k}.yaml"
        lag, smoothing = f"{lens.lag_ms}ms", f"{lens.smoothing_ms}ms"
        entry = f"lag: {lag}, smoothing: {smoothing}, scale: {lens.scale}"
        truth.write_text(f"- {{signal: {CPU}, {entry}}}\n")
        for name, way in (("none", "none"), ("auto", "auto"), ("true", str(truth))):
            loop, points = simulated(history, way)
            held, known = bases_held(loop, fleet)
            row: dict[str, Any] = {"source": k, "lens": name}
            row |= reproduced(history, points) | {"held": held, "bases": known}
            yield row | {"hpas": len(loop.cases), "seen": loop.evidence.get("lens", "as recorded")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; print each row, and the means by lens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=int, default=10)
    parser.add_argument("--work", type=Path, default=Path("build/lens_loop"))
    given = parser.parse_args(arguments)
    rows = []
    for row in rows_of(given.seed, given.sources, given.work / str(given.seed)):
        rows.append(row)
        print(row, flush=True)
    means = [pl.col("same", "within_1", "error", "hours").mean(), pl.col("held", "bases").sum()]
    print(pl.DataFrame(rows).group_by("lens", maintain_order=True).agg(*means))
    return 0


if __name__ == "__main__":
    sys.exit(main())
