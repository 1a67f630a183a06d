"""Histories in Python: tables, replays, simulations and more, as Polars frames.

Errors are those of `hpabatch.errors`; each is one sentence: what is wrong, where, and what to do.
`recording.pyi` beside this is generated (`python -m hpabatch.api.documentation`): the methods take
the options of requests as keyword arguments.
"""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path

import polars as pl

from hpabatch.api.analysis import StaticAnalysis, analyze, quality
from hpabatch.api.comparisons import Compared, compare
from hpabatch.api.fits import FidelityScores, Fits, fidelity, fit
from hpabatch.api.keywords import takes
from hpabatch.api.plans import Plan, plan
from hpabatch.api.replays import Replay, observations, replay, replay_to
from hpabatch.api.simulations import Simulation, simulate
from hpabatch.api.statuses import Descriptions, Explained, HpaStatuses, describe, explain, get
from hpabatch.api.sweeps import Advice, Sweep, recommend, sweep
from hpabatch.engine.advise.request import SweptAdviceRequest
from hpabatch.engine.analyze.request import AnalyzeRecordedRequest
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.engine.explain.request import DescribeRequest, ExplainRequest, GetRequest
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fleet.candidates import Candidate, candidate_frame
from hpabatch.engine.fleet.lives import candidates_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.history.base import History
from hpabatch.history.info import HistoryInfo, describe_history
from hpabatch.history.reader import open_history, scan_table
from hpabatch.jobs.replay import ReplayDone


def open(path: Path | str) -> Recording:
    """Open a history: a folder of Parquet tables, or a store (a folder, s3://, gs:// or abfs://).

    Raises:
        HistoryError: there is no history.
    """
    return Recording(open_history(path))


class Recording:
    """A history, opened for reading. It does not change while it is open."""

    def __init__(self, history: History) -> None:
        """Use `hpabatch.open`."""
        self.history = history

    def __repr__(self) -> str:
        """Return where it is and what it holds."""
        return f"<history {self.history.location}: {', '.join(self.tables)}>"

    def _repr_html_(self) -> str:
        """Return the place and the recorded HPAs, for notebooks."""
        return f"<p>history {escape(str(self.history.location))}</p>\n{self.hpas._repr_html_()}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are there."""
        return self.history.tables

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table as a lazy frame: checked, without equal keys, read day by day.

        Collect it with `engine="streaming"` where it is larger than memory. A table that is not
        there has no rows.

        Raises:
            HistoryError: there is no such table in any history; reading: the table is broken.
        """
        return scan_table(self.history, name)

    @cached_property
    def hpas(self) -> pl.DataFrame:
        """The recorded HPAs that can be replayed, one row each: the columns that `where` knows."""
        return candidate_frame(self._candidates())

    def info(self) -> HistoryInfo:
        """Return what the history holds: layout, clusters, per table rows, bytes and times."""
        return describe_history(self.history)

    @takes(QualityRequest, "names")
    def quality(self, request: QualityRequest) -> pl.DataFrame:
        """Return the quality of each HPA's recording: coverage, gaps, intervals and more."""
        return quality(self.history, request)

    def _candidates(self) -> list[Candidate]:
        versions = versions_of(self.history.read("controller"), None)
        return candidates_of(self.history, versions.of)[0]

    @takes(ReplayRequest, "names")
    def replay(self, request: ReplayRequest) -> Replay:
        """Replay HPAs in memory: what the rules decide at every sync, given what was recorded.

        Raises:
            HistoryError: a table is broken, or there is nothing to replay.
            UsageError: an option is not possible.
            RefusedError: a manifest is not valid.
        """
        return replay(self.history, request)

    @takes(ReplayToRequest, "names")
    def replay_to(self, request: ReplayToRequest, out: Path | str) -> ReplayDone:
        """Replay to a Parquet file, or to a folder of them if `out` ends with a slash.

        For results larger than memory: all but the decisions is returned. An interrupted call goes
        on where it was when it is made again; `restart` begins anew.

        Raises:
            HistoryError, UsageError: as `replay`, and where `out` cannot be written.
            RefusedError: no HPA could be replayed.
        """
        return replay_to(self.history, request, out)

    @takes(ReplayRequest, "names")
    def observations(self, request: ReplayRequest) -> pl.DataFrame:
        """Return what the rules saw of one HPA: a row per tick, metric and pod.

        Raises:
            UsageError: not exactly one HPA is meant.
        """
        return observations(self.history, request)

    @takes(ExplainRequest, "name")
    def explain(self, request: ExplainRequest) -> Explained:
        """Explain one decision of an HPA: every rule's arithmetic, in order.

        Raises:
            UsageError: there is no such HPA, there are several, or it has no sync by then.
            RefusedError: the HPA cannot be replayed; the reason.
        """
        return explain(self.history, request)

    @takes(GetRequest, "names")
    def get(self, request: GetRequest) -> HpaStatuses:
        """Return HPAs with their statuses at a time, as `kubectl get hpa` would show them.

        Raises:
            UsageError: an option is not possible, or there is no HPA of that name.
            RefusedError: none of the HPAs can be replayed.
        """
        return get(self.history, request)

    @takes(DescribeRequest, "names")
    def describe(self, request: DescribeRequest) -> Descriptions:
        """Describe HPAs at a time as `kubectl describe hpa` would; raises as `get` does."""
        return describe(self.history, request)

    @takes(CompareRequest, "names")
    def compare(self, request: CompareRequest) -> Compared:
        """Compare what HPAs decide under two versions, or with two sets of manifests.

        Raises:
            HistoryError, UsageError: as `replay`; nothing to compare is stated.
        """
        return compare(self.history, request)

    @takes(SimulateRequest, "names")
    def simulate(self, request: SimulateRequest, trajectories: bool = False) -> Simulation:
        """Simulate HPAs in a closed loop with fitted workloads.

        With `trajectories` the result's `points` has a row per tick of every run.

        Raises:
            HistoryError, UsageError: as `replay`; a file that is wrong.
        """
        return simulate(self.history, request, trajectories)

    @takes(FitRequest, "names")
    def fit(self, request: FitRequest) -> Fits:
        """Return what can be known about each workload: facts with intervals and sources.

        Raises:
            HistoryError, UsageError: as `replay`; a plant file that is wrong.
        """
        return fit(self.history, request)

    @takes(FidelityRequest, "names")
    def fidelity(self, request: FidelityRequest) -> FidelityScores:
        """Score how far each HPA's rules and plant can be trusted.

        Raises:
            HistoryError, UsageError: as `replay`; a plant file that is wrong.
        """
        return fidelity(self.history, request)

    @takes(SweepToRequest, "grid")
    def sweep(
        self, request: SweepToRequest, *, out: Path | str | None = None, replace: bool = False
    ) -> Sweep:
        """Simulate every HPA under every setting of a grid; `out` becomes a folder of tables.

        An interrupted call with `out` goes on where it was when it is made again; `replace`
        replaces another sweep that is there, or what it left. Without `out` the sweep is kept in
        memory only.

        Raises:
            UsageError: all that is wrong with grid and groups, in one message.
            HistoryError: a table is broken, or there is nothing to simulate.
            RefusedError: no HPA could be simulated, or another sweep is there.
        """
        return sweep(self.history, request, out, replace)

    @takes(SweptAdviceRequest, "grid")
    def recommend(self, request: SweptAdviceRequest) -> Advice:
        """Sweep a grid, keep nothing of it, and recommend settings; raises as `sweep` does.

        `Sweep.recommend` takes a sweep that is there.
        """
        swept = sweep(self.history, SweepToRequest.from_json(request.to_json()))
        return recommend(swept, request)

    @takes(PlanRequest, "names")
    def plan(self, request: PlanRequest) -> Plan:
        """Return what the HPAs would ask for without maxReplicas, under each growth of the work.

        Raises:
            HistoryError, UsageError: as `replay`; a file that is wrong.
            RefusedError: no HPA could be simulated.
        """
        return plan(self.history, request)

    @takes(AnalyzeRecordedRequest, "names")
    def analyze(self, request: AnalyzeRecordedRequest) -> StaticAnalysis:
        """Return dead bands, resting points, cycles and ramps of the recorded HPAs' specs.

        Raises:
            HistoryError, UsageError: as `replay`.
        """
        return analyze(self.history, request)
