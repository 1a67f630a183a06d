"""Fits of workloads, and scores of how far the model can be trusted, in Python."""

from __future__ import annotations

from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fidelity.request import FidelityParameters, FidelityRequest
from hpabatch.engine.fidelity.run import fidelity as score
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fit.run import fit_fleet
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.run import Progress, silent
from hpabatch.history.base import History
from hpabatch.jobs.fidelity import fidelity_by_workers
from hpabatch.jobs.fit import fit_by_workers
from hpabatch.report.fidelity import FidelityScores
from hpabatch.report.fit import Fits


def fit(history: History, request: FitRequest, progress: Progress = silent) -> Fits:
    """Return what can be known about each workload: facts with intervals and sources.

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


def fidelity(
    history: History, request: FidelityRequest, progress: Progress = silent
) -> FidelityScores:
    """Score how far each HPA's rules and plant can be trusted.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to score.
    """
    history.require("replay")
    if request.is_spread:
        return FidelityScores.of(fidelity_by_workers(history, request, progress))
    plants, parameters = read_plants(request), replay_parameters(request)
    choices = FidelityParameters(split_share=request.split, horizon_ms=request.horizon_ms)
    select = selection_of(request)
    return FidelityScores.of(
        score(history, parameters, choices, select, plants, progress, request.lens)
    )
