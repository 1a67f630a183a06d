"""Fits of workloads, and scores of how far the model can be trusted, in Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from hpabatch.api.result import Result
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fidelity.request import FidelityParameters, FidelityRequest
from hpabatch.engine.fidelity.run import Fidelity
from hpabatch.engine.fidelity.run import fidelity as score
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fit.run import FleetFit, fit_fleet
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.run import Progress, silent
from hpabatch.history.base import History
from hpabatch.jobs.fidelity import fidelity_by_workers
from hpabatch.jobs.fit import fit_by_workers
from hpabatch.model.printable import counted
from hpabatch.report.fidelity import FidelityReport
from hpabatch.report.fit import fit_report


@dataclass(frozen=True, repr=False)
class Fits(Result):
    """What is known of each workload."""

    result: FleetFit

    @property
    def verdict(self) -> str:
        """The number of HPAs that can be simulated, and of the others."""
        hpas = self.result.hpas
        known = sum(item.has_plant for item in hpas)
        told = f"{counted(len(hpas), 'HPA')}: {known} with a plant, {len(hpas) - known} without"
        return told + (f", {len(self.result.skipped)} left out" if self.result.skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The facts."""
        return self.facts

    @cached_property
    def facts(self) -> pl.DataFrame:
        """One row per HPA and fact of its workload: value, interval, source, note."""
        return fit_report(self.result).frame()

    @cached_property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA: whether it has a plant, and what is in the way."""
        return pl.DataFrame(
            [
                (item.cluster, item.namespace, item.hpa, item.has_plant, list(item.problems))
                for item in self.result.hpas
            ],
            schema={
                "cluster": pl.String,
                "namespace": pl.String,
                "hpa": pl.String,
                "plant": pl.Boolean,
                "problems": pl.List(pl.String),
            },
            orient="row",
        )

    @property
    def evidence(self) -> dict[str, str]:
        """The versions, parameters and digests that the fits rest on."""
        return self.result.evidence


def fit(history: History, request: FitRequest, progress: Progress = silent) -> Fits:
    """Fit the workloads of a history.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to fit.
    """
    history.require("replay")
    if request.is_spread:
        return Fits(fit_by_workers(history, request, progress))
    plants = read_plants(request)
    parameters = replay_parameters(request)
    select, see = selection_of(request), seen_through(request.lens, progress)
    return Fits(fit_fleet(history, parameters, plants, select, progress, see))


@dataclass(frozen=True, repr=False)
class FidelityScores(Result):
    """How far the rules and the plant of each HPA can be trusted."""

    result: Fidelity

    @property
    def verdict(self) -> str:
        """How sure advice can be, on how many HPAs."""
        told = FidelityReport(self.result).verdict()
        return told + (f", {len(self.result.skipped)} left out" if self.result.skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The scores of the HPAs."""
        return self.hpas

    @property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA: the controller score, that of its worst signal, and the advice."""
        return self.result.hpas

    @property
    def signals(self) -> pl.DataFrame:
        """One row per HPA and signal: the plant score."""
        return self.result.signals

    @property
    def changes(self) -> pl.DataFrame:
        """One row per judged change of the number of pods."""
        return self.result.changes

    @property
    def evidence(self) -> dict[str, str]:
        """The versions, parameters and digests that the scores rest on."""
        return self.result.evidence


def fidelity(
    history: History, request: FidelityRequest, progress: Progress = silent
) -> FidelityScores:
    """Score the rules and the plants of a history.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to score.
    """
    history.require("replay")
    if request.is_spread:
        return FidelityScores(fidelity_by_workers(history, request, progress))
    plants, parameters = read_plants(request), replay_parameters(request)
    choices = FidelityParameters(split_share=request.split, horizon_ms=request.horizon_ms)
    select = selection_of(request)
    return FidelityScores(
        score(history, parameters, choices, select, plants, progress, request.lens)
    )
