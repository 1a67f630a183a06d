"""Simulations in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.api.manifests import read_hpas
from hpabatch.api.result import Result
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fit.workload import facts_frame
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.read import read_work
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.engine.simulate.result import LoopResult, run_loop
from hpabatch.engine.simulate.run import Loop, LoopOptions, Progress, prepare_loop, silent
from hpabatch.history.base import History
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import counted


@dataclass(frozen=True, repr=False)
class Simulation(Result):
    """A simulation of the recorded settings, and of proposed ones where manifests were given."""

    result: LoopResult

    @property
    def verdict(self) -> str:
        """The number of HPAs and runs, and of those left out."""
        hpas = self.measures.select("cluster", "namespace", "hpa").n_unique()
        told = f"{counted(hpas, 'HPA')} simulated in {counted(self.measures.height, 'run')}"
        skipped = self.loop.skipped
        return told + (f", {len(skipped)} left out" if skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The measures."""
        return self.measures

    @property
    def measures(self) -> pl.DataFrame:
        """One row per HPA and setting, "recorded" or "proposed"."""
        return self.result.measures

    @property
    def points(self) -> pl.DataFrame | None:
        """One row per tick of every run; None unless trajectories were asked for."""
        return self.result.points

    @property
    def facts(self) -> pl.DataFrame:
        """One row per HPA and fact of its workload: value, interval, source."""
        return facts_frame(self.loop.facts)

    @property
    def loop(self) -> Loop:
        """The runs' cases, with what was left out and why."""
        return self.result.loop


def prepare(
    history: History,
    request: SimulateRequest,
    manifests: Sequence[HPA] | None = None,
    trajectories: bool = False,
    progress: Progress = silent,
) -> tuple[Loop, LoopOptions]:
    """Read the files that a request names, and fit the workloads.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to simulate.
    """
    options = read_work(request, manifests, trajectories)
    parameters = replay_parameters(request, events="decided")
    select, see = selection_of(request), seen_through(request.lens, progress)
    return prepare_loop(history, parameters, options, select, progress, see), options


def simulate(history: History, request: SimulateRequest, trajectories: bool = False) -> Simulation:
    """Run a simulation; raises as `prepare` does (RefusedError: a manifest is not valid)."""
    history.require("replay")
    manifests = read_hpas(history, request.hpas, request.k8s, request.feature_gates)
    loop, options = prepare(history, request, manifests, trajectories)
    return Simulation(run_loop(loop, options))
