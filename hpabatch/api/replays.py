"""Replays in Python."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hpabatch.api.manifests import read_hpas
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.replay.run import replay_plan
from hpabatch.engine.shards.observe import observe
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.jobs.publish import Destination, is_result_folder
from hpabatch.jobs.replay import ReplayDone, ReplayJob, plan_of, replay_to_disk
from hpabatch.model.objects.hpa import HPA
from hpabatch.report.findings import Findings, findings_in
from hpabatch.report.page.request import ReportRequest
from hpabatch.report.page.result import FleetReport, report_of
from hpabatch.report.replay import Replay


def planned(history: History, request: ReplayRequest) -> tuple[ReplayPlan, list[HPA] | None]:
    """Return the plan, and the HPAs of manifests (RefusedError: one of them is not valid)."""
    if not request.hpas:
        history.require("replay")
    manifests = read_hpas(history, request.hpas, request.k8s, request.feature_gates)
    return plan_of(history, request, manifests), manifests


def replay(history: History, request: ReplayRequest) -> Replay:
    """Replay HPAs in memory: what the rules decide at every sync, given what was recorded.

    Raises:
        HistoryError: a table is broken, or there is nothing to replay.
        UsageError: an option is not possible.
        RefusedError: a manifest is not valid.
    """
    plan, _ = planned(history, request)
    return Replay(replay_plan(plan), plan)


def replay_to(history: History, request: ReplayToRequest, out: Path | str) -> ReplayDone:
    """Replay to a Parquet file, or to a folder of them if `out` ends with a slash.

    For results larger than memory: all but the decisions is returned. An interrupted call goes on
    where it was when it is made again; `restart` begins anew.

    Raises:
        HistoryError, UsageError: as `replay`, and where `out` cannot be written.
        RefusedError: no HPA could be replayed.
    """
    if "://" in str(out):
        raise UsageError(f"out: expected a local file or folder, got {str(out)!r}")
    plan, manifests = planned(history, request)
    if Path(out).resolve().is_relative_to(history.path.resolve()):
        raise UsageError(f"{out} is inside the history that is replayed; name another place")
    is_folder = str(out).endswith("/") or (Path(out).is_dir() and is_result_folder(Path(out)))
    return replay_to_disk(ReplayJob(plan, Destination(Path(out), is_folder), manifests, request))


def report(history: History, request: ReportRequest) -> FleetReport:
    """Return the page on HPAs: `html`, `document()`, `write(path)`.

    Raises:
        HistoryError, UsageError: as `replay`, and where the advice or the plan cannot be read.
        RefusedError: no HPA could be replayed.
    """
    plan, _ = planned(history, request)
    return report_of(plan, request, str(history.location))


def findings(history: History, request: ReplayRequest) -> Findings:
    """Return what is wrong with HPAs, a row of `frame` per HPA and finding, the worst first.

    Raises:
        HistoryError, UsageError, RefusedError: as `replay`.
    """
    return findings_in(planned(history, request)[0])


def observations(history: History, request: ReplayRequest) -> pl.DataFrame:
    """Return what the rules saw of one HPA: a row per tick, metric and pod.

    Raises:
        UsageError: not exactly one HPA is meant.
    """
    plan, _ = planned(history, request)
    if len(plan.chosen) + len(plan.skipped) != 1:
        count = len(plan.chosen) + len(plan.skipped)
        raise UsageError(f"expected one HPA, got {count}; name one as cluster/namespace/name")
    if not plan.chosen:
        raise UsageError(f"{request.names[0]}: {plan.skipped[0].reason}")
    return observe(plan, plan.chosen[0])
