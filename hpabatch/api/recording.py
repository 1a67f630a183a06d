"""Histories in Python: tables, replays, simulations and more, as Polars frames.

Errors are those of `hpabatch.errors`; each is one sentence: what is wrong, where, and what to do.
`recording.pyi` beside this is generated (`python -m benchmarks.documentation`): the methods take
the options of requests as keyword arguments.
"""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path

import polars as pl

from hpabatch.api import analysis, comparisons, fits, replays, simulations, statuses, sweeps
from hpabatch.api.keywords import of_history
from hpabatch.engine.advise.request import SweptAdviceRequest
from hpabatch.engine.analyze.request import AnalyzeRecordedRequest
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.engine.explain.request import DescribeRequest, ExplainRequest, GetRequest
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fleet.candidates import candidate_frame, candidates_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.history.base import History
from hpabatch.history.info import HistoryInfo, describe_history
from hpabatch.history.reader import open_history, scan_table
from hpabatch.report.page.request import ReportRequest


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
        versions = versions_of(self.history.read("controller"), None)
        return candidate_frame(candidates_of(self.history, versions.of)[0])

    def info(self) -> HistoryInfo:
        """Return what the history holds: layout, clusters, per table rows, bytes and times."""
        return describe_history(self.history)

    quality = of_history(analysis.quality, QualityRequest, "names")
    replay = of_history(replays.replay, ReplayRequest, "names")
    replay_to = of_history(replays.replay_to, ReplayToRequest, "names")
    report = of_history(replays.report, ReportRequest, "names")
    findings = of_history(replays.findings, ReplayRequest, "names")
    observations = of_history(replays.observations, ReplayRequest, "names")
    explain = of_history(statuses.explain, ExplainRequest, "name")
    get = of_history(statuses.get, GetRequest, "names")
    describe = of_history(statuses.describe, DescribeRequest, "names")
    compare = of_history(comparisons.compare, CompareRequest, "names")
    simulate = of_history(simulations.simulate, SimulateRequest, "names")
    fit = of_history(fits.fit, FitRequest, "names")
    fidelity = of_history(fits.fidelity, FidelityRequest, "names")
    sweep = of_history(sweeps.sweep, SweepToRequest, "grid")
    recommend = of_history(sweeps.recommend_swept, SweptAdviceRequest, "grid")
    plan = of_history(simulations.plan, PlanRequest, "names")
    analyze = of_history(analysis.analyze, AnalyzeRecordedRequest, "names")
