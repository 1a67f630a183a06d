"""Sweeps, fits and scores end to end, from a store to tables on disk, and where the time goes.

The histories are made by `benchmarks.fleet` with samples a minute apart, as most recordings have
them. Everything is as a user would run it, in this process so that its parts can be timed; kernels
use all threads. One metric, constant start-up (stated in a plant file), weeks judged apart.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hpabatch
import hpabatch.engine.simulate.loop as simulation
import hpabatch.jobs.sweep as jobs
from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import write_fleet
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.run import plan_request
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer
from hpabatch.jobs.publish import Destination

DAYS = 30
PLANT = "- pods: {startup: 15s, shares: [1], mtbf: none}\n"
HUNDRED = ("target=45:85:5", "scaleDown.window=0,60,120,180,240,300,600,900,1200,1800,3600")
TEN_THOUSAND = (
    "target=40:89:1",
    "scaleDown.window=0,60,120,180,240,300,420,600,900,1200",
    "scaleUp.window=0:45:15",
    "tolerance=0.05,0.1,0.15,0.2,0.25",
)


class Clock:
    """Adds up the seconds of calls by name, and those of all processors meanwhile."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seconds: dict[str, float] = {}
        self.processors: dict[str, float] = {}
        self.patch = patch

    def time(self, name: str, module: Any, function: str) -> None:
        """Time a module's function from now on."""
        plain: Callable[..., Any] = getattr(module, function)

        def timed(*arguments: Any, **options: Any) -> Any:
            begin, used = time.perf_counter(), time.process_time()
            try:
                return plain(*arguments, **options)
            finally:
                spent, used = time.perf_counter() - begin, time.process_time() - used
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.processors[name] = self.processors.get(name, 0.0) + used

        self.patch.setattr(module, function, timed)


def make_history(place: Path, hpas: int) -> Path:
    """Make a store of HPAs with five pods each, and the plant file."""
    place.mkdir(parents=True)
    (place / "plant.yaml").write_text(PLANT)
    request = FleetRequest(hpas=hpas, pods=5, days=DAYS, step_ms=60_000, seed=11)
    write_fleet(request, open_writer(place / "store"))
    return place


def sweep(place: Path, grids: tuple[str, ...], fidelity: bool) -> tuple[Clock, int, int]:
    """Run a sweep; return the seconds of its parts, and how many HPAs and settings it had.

    "fit" includes the scores, which are made in the same walk over the samples.
    """
    request = SweepRequest(
        grid=grids, plant=(str(place / "plant.yaml"),), k8s="1.37", fidelity=fidelity
    )
    store = open_history(place / "store", "replay")
    out = Destination(place / "sweep", is_folder=True)
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        clock.time("fit", jobs, "prepare_part")
        clock.time("kernel", simulation, "simulate_fleet")
        begin = time.perf_counter()
        result = jobs.sweep_to_disk(
            jobs.SweepJob(request, plan_request(store, request), out, replace=True)
        )
        clock.seconds["all"] = time.perf_counter() - begin
    return clock, result.hpas.height, result.settings.height


@pytest.mark.parametrize(
    ("name", "hpas", "grids", "fidelity"),
    [("fleet", 20, HUNDRED, True), ("one HPA", 1, TEN_THOUSAND, False)],
)
def test_sweep(
    benchmark: Any,
    tmp_path: Path,
    name: str,
    hpas: int,
    grids: tuple[str, ...],
    fidelity: bool,
) -> None:
    sweep(make_history(tmp_path / "first", 1), ("target=60",), fidelity)  # compiles
    place = make_history(tmp_path / "measured", hpas)
    clock, swept, settings = benchmark.pedantic(
        sweep, args=(place, grids, fidelity), rounds=1, iterations=1
    )
    seconds = clock.seconds
    assert swept == hpas
    assert settings >= 100
    rest = seconds["all"] - sum(seconds.get(part, 0.0) for part in ("fit", "kernel"))
    ticks = swept * settings * DAYS * 5760
    benchmark.group = "sweep"
    benchmark.extra_info.update(
        name=name,
        hpas=swept,
        settings=settings,
        days=DAYS,
        seconds=seconds,
        processor_seconds=clock.processors,
        fit_to_kernel=clock.processors["fit"] / clock.processors["kernel"],
        rest_seconds=rest,
        kernel_ns_per_tick=1e9 * seconds["kernel"] / ticks,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


@pytest.mark.parametrize("command", ["fit", "fidelity"])
def test_fit_and_scores(benchmark: Any, tmp_path: Path, command: str) -> None:
    hpas = 100
    first, place = make_history(tmp_path / "first", 1), make_history(tmp_path / "measured", hpas)
    getattr(hpabatch.open(str(first / "store")), command)()  # compiles
    recording = hpabatch.open(str(place / "store"))
    used = time.process_time()
    benchmark.pedantic(getattr(recording, command), rounds=1, iterations=1)
    benchmark.group = "fit"
    benchmark.extra_info.update(
        name=command,
        hpas=hpas,
        days=DAYS,
        processor_seconds=time.process_time() - used,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
