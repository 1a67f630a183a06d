"""Export of a simulated run as a history, whose replay decides the same again.

Every pod is its own here. What the rules saw at each tick is noted while it runs
(`kernels.trace`), as many ticks at once as the logs have room for; samples that no tick saw (a
scrape between two others) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.export_tables import (
    LOG_ROWS,
    Trace,
    Tracer,
    source_of,
    streams_of,
    tables_of,
)
from hpabatch.errors import UsageError
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout.plant import LANE_FULL
from hpabatch.model.plant import Pipeline
from hpabatch.model.versions import GATES, PROFILES, Profile
from hpabatch.packing.simulation import pack_simulation

_FIRST_COHORTS: Final = 64
_MILLI_PER_BYTE: Final = 1000

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The tables of a history, and the arguments with which a replay decides the same again."""

    tables: dict[str, pl.DataFrame]
    arguments: tuple[str, ...]


def export_run(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int = 0,
    progress: Progress | None = None,
) -> ExportedRun:
    """Run cases and return the run as the tables of a history.

    All cases must share start, sync period and flags, and each HPA may come once; the history's
    clusters and names are those of the workloads.

    Raises:
        UsageError: the cases do not fit one history.
        ValueError: a metric has no signal in its workload's plant.
    """
    max_age_ms = check_cases(cases)
    trace, cohorts = None, _FIRST_COHORTS
    while trace is None:
        trace = _run(cases, profile, seed, cohorts, progress)
        cohorts *= 4
    first, plain = cases[0], PROFILES[profile.name]
    gates = ",".join(
        f"{name}={str(getattr(profile, gate.field)).lower()}"
        for name, gate in GATES.items()
        if getattr(profile, gate.field) != getattr(plain, gate.field)
    )
    arguments = {
        "--k8s": profile.name,
        "--feature-gates": gates,
        "--events": "decided",
        "--phase": f"{first.start_ms % first.period_ms}ms",
        "--sync-period": f"{first.period_ms}ms",
        "--max-age": f"{max_age_ms}ms",
    }
    words = tuple(word for pair in arguments.items() if pair[1] for word in pair)
    return ExportedRun(tables_of(trace, cases, profile), words)


def _run(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int,
    cohorts: int,
    progress: Progress | None,
) -> Trace | None:
    """Run all ticks and return what was seen; None: a lane's pods did not fit."""
    lanes = [case.lane(individual=True) for case in cases]
    f = pack_simulation(lanes, cases[0].flags, profile, seed, cohorts, trace_rows=LOG_ROWS)
    tracer, steps = Tracer(f), cases[0].steps
    ticks = tracer.ticks_at_once()
    for t in range(0, steps, ticks):
        if progress is not None:
            progress(t / steps)
        simulate_fleet(f.simulation, f.fleet, f.memory, t + ticks, f.results)
        if (f.simulation.states.status == LANE_FULL).any():
            return None
        tracer.take()
    return tracer.trace()


# ---- what one history can hold


def check_cases(cases: Sequence[SimulationCase]) -> int:
    """Refuse cases that one history cannot hold; return the one max_age of their samples."""
    if not cases:
        raise UsageError("there is no simulated HPA to export")
    for name in ("start_ms", "period_ms", "steps", "flags"):
        if len({getattr(case, name) for case in cases}) > 1:
            raise UsageError(
                f"the simulated HPAs differ in {name}, which one history cannot hold; export those "
                "that agree, one by one with --where"
            )
    keys = [(c.workload.cluster, c.workload.namespace, c.workload.hpa) for c in cases]
    if len(set(keys)) < len(keys):
        raise UsageError("an HPA is simulated under several settings; export one of them")
    _check_targets(cases)
    _check_series(cases)
    for case in cases:
        _check_resources(case)
    return _max_age_ms(cases)


def _max_age_ms(cases: Sequence[SimulationCase]) -> int:
    """Return the max_age of every API that is asked; a replay knows one."""
    plants = [case.workload.plant for case in cases]
    used = {p.pipelines.get(s.api, Pipeline()) for p in plants for s in p.signals.values()}
    ages = {pipeline.max_age_ms for pipeline in used}
    if len(ages) > 1:
        raise UsageError(
            "the pipelines differ in max_age, of which a replay knows one; give one in the plant "
            "file"
        )
    return ages.pop() if ages else Pipeline().max_age_ms


def _check_targets(cases: Sequence[SimulationCase]) -> None:
    """Refuse pods that belong to two HPAs, and an HPA whose target is another one later."""
    seen: set[tuple[str, str, str, str]] = set()
    for case in cases:
        w = case.workload
        refs = {(p.spec.scale_target_ref.kind, p.spec.scale_target_ref.name) for p in case.periods}
        if len(refs) > 1:
            raise UsageError(
                f"{w.namespace}/{w.hpa}: its specs scale different targets, but one workload is "
                "simulated; export the others with --where"
            )
        kind, name = refs.pop()
        if (w.cluster, w.namespace, kind, name) in seen:
            raise UsageError(
                f"several of the HPAs scale {kind} {w.namespace}/{name}, whose pods one history "
                "holds once; export one of them with --where"
            )
        seen.add((w.cluster, w.namespace, kind, name))


def _check_series(cases: Sequence[SimulationCase]) -> None:
    """Refuse an Object or External metric of two HPAs: each was simulated with its own values."""
    seen: set[tuple[str, ...]] = set()
    for case in cases:
        w = case.workload
        sources = {source_of(stream.metric, w.namespace) for stream in streams_of(case)}
        for source in sorted(s for s in sources if s is not None):
            table, name = source[0].removesuffix("_metrics"), source[-2]
            if (w.cluster, w.namespace, *source) in seen:
                raise UsageError(
                    f"several of the HPAs of namespace {w.namespace} have the {table} metric "
                    f"{name}, which is simulated of each apart and stands once in a history; "
                    "export one of them with --where"
                )
        seen |= {(w.cluster, w.namespace, *s) for s in sources if s is not None}


def _check_resources(case: SimulationCase) -> None:
    """Refuse usage that rows of containers cannot say."""
    place, signals = f"{case.workload.namespace}/{case.workload.hpa}", case.workload.plant.signals
    names = [(name.split("/"), signal) for name, signal in signals.items()]
    usage = [(p, signal) for p, signal in names if p[0] in ("resource", "container")]
    whole = {parts[1] for parts, _ in usage if parts[0] == "resource"}
    for parts, signal in usage:
        resource = parts[-1]
        if resource not in ("cpu", "memory"):
            raise UsageError(
                f"{place}: {resource} is simulated, but samples of a history hold cpu and memory; "
                "export the others with --where"
            )
        if resource == "memory" and signal.unit_milli % _MILLI_PER_BYTE:
            raise UsageError(
                f"{place}: memory is sampled in steps of {signal.unit_milli} milli-bytes, but "
                "samples of a history are whole bytes; give memory a unit of 1000 in the plant file"
            )
        if parts[0] == "container" and resource in whole:
            raise UsageError(
                f"{place}: {resource} is simulated of the pod and of container {parts[1]} apart, "
                "which samples cannot tell; export the others with --where"
            )
