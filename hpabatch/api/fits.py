"""Fits of workloads, and scores of how far the model can be trusted, in Python."""

from __future__ import annotations

from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.history.base import History
from hpabatch.jobs.fidelity import fidelity as score
from hpabatch.jobs.fit import fit_fleet
from hpabatch.model.progress import Progress, silent
from hpabatch.report.fidelity import FidelityScores
from hpabatch.report.fit import Fits


def fit(history: History, request: FitRequest, progress: Progress = silent) -> Fits:
    """Return what can be known about each workload: facts with intervals and sources.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to fit.
    """
    history.require("replay")
    return Fits(fit_fleet(history, request, progress))


def fidelity(
    history: History, request: FidelityRequest, progress: Progress = silent
) -> FidelityScores:
    """Score how far each HPA's rules and plant can be trusted.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to score.
    """
    history.require("replay")
    return FidelityScores.of(score(history, request, progress))
