"""Capacity plans in Python."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hpabatch.api.result import Result
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.run import CapacityOptions, CapacityPlan, growths_of
from hpabatch.engine.simulate.read import read_work
from hpabatch.engine.simulate.run import Progress, silent
from hpabatch.history.base import History
from hpabatch.inputs.quotas import file_of, read_quotas
from hpabatch.jobs.capacity import plan_capacity
from hpabatch.model.printable import counted


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """What HPAs ask for without maxReplicas."""

    result: CapacityPlan
    quota_notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The number of HPAs and growths that were planned, and of HPAs left out."""
        hpas = self.hpas.select("cluster", "namespace", "hpa").n_unique()
        growths = self.hpas["growth"].n_unique()
        told = f"{counted(hpas, 'HPA')} planned under {counted(growths, 'growth')}"
        return told + (f", {len(self.result.skipped)} left out" if self.result.skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The plan of the HPAs."""
        return self.hpas

    @property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA and growth."""
        return self.result.hpas

    @property
    def totals(self) -> pl.DataFrame:
        """One row per growth, scope, bounds, covers and resource: sums, quotas and money."""
        return self.result.totals

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is not judged, or cannot be relied on."""
        return (*self.quota_notes, *self.result.notes)

    @property
    def evidence(self) -> dict[str, str]:
        """The versions, parameters and digests that the plan rests on."""
        return self.result.evidence


def plan(history: History, request: PlanRequest, progress: Progress = silent) -> Plan:
    """Plan the capacity of the HPAs of a history.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to plan.
        RefusedError: no HPA could be simulated.
    """
    history.require("replay")
    growths = growths_of(request.growth)
    clusters = history.distinct("scales", ["cluster"])["cluster"].to_list()
    quotas = read_quotas(request.quota, clusters)
    files = [str(file_of(text, clusters)[1]) for text in request.quota]
    options = CapacityOptions(growths, quotas.quotas, read_work(request, files=files))
    return Plan(plan_capacity(history, request, options, progress), quotas.notes)
