"""Capacity plans in Python."""

from __future__ import annotations

from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.history.base import History
from hpabatch.inputs.quotas import file_of, read_quotas
from hpabatch.jobs.capacity import plan_capacity
from hpabatch.model.progress import Progress, silent
from hpabatch.report.capacity import Plan


def plan(history: History, request: PlanRequest, progress: Progress = silent) -> Plan:
    """Return what the HPAs would ask for without maxReplicas, under each growth of the work.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to plan.
        RefusedError: no HPA could be simulated.
    """
    history.require("replay")
    clusters = history.distinct("scales", ["cluster"])["cluster"].to_list()
    quotas = read_quotas(request.quota, clusters)
    files = [str(file_of(text, clusters)[1]) for text in request.quota]
    found = plan_capacity(history, request, quotas.quotas, files, progress)
    notes = (*quotas.notes, *found.notes)
    return Plan.of(found, notes=notes, quota_notes=quotas.notes)
