"""Sweeps in Python, and advice from them.

::

    sweep = hpabatch.open("history/").sweep(grid={"target": "50:85:5"}, out="sweep/")
    advice = sweep.recommend("saturated_minutes<10/week", minimize="pod_hours")
    advice.table
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from hpabatch.api.keywords import takes
from hpabatch.api.result import Result
from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.frames import advice_frame, candidates_frame, folds_frame
from hpabatch.engine.advise.objective import options_of
from hpabatch.engine.advise.request import RecommendRequest
from hpabatch.engine.advise.run import Recommendations, edits_since, with_objects, withhold_edited
from hpabatch.engine.advise.run import recommend as advise
from hpabatch.engine.advise.specs import profile_of, settings_of
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.engine.sweep.result import SweepResult, summarize_sweep
from hpabatch.engine.sweep.run import plan_request
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.advise import INDEX, AdviceFolder
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk, trajectories
from hpabatch.jobs.sweep_files import digest_sweep, read_sweep
from hpabatch.model.printable import counted
from hpabatch.report.recommend_files import recommendation_files


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """A sweep; `digest` is that of its files."""

    result: SweepResult
    digest: str = ""

    @property
    def verdict(self) -> str:
        """The number of HPAs and settings, and of HPAs left out."""
        told = f"{counted(self.hpas.height, 'HPA')} swept in "
        told += counted(self.settings.height, "setting")
        skipped = self.result.parameters.get("skipped")
        return told + (f", {len(skipped)} left out" if skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The summary."""
        return self.summary

    @property
    def settings(self) -> pl.DataFrame:
        """One row per setting; 0 is today's."""
        return self.result.settings

    @property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA."""
        return self.result.hpas

    @property
    def results(self) -> pl.DataFrame:
        """One row per HPA and setting, with all measures (docs/output.md)."""
        return self.result.results

    @property
    def blocks(self) -> pl.DataFrame:
        """One row per HPA, setting and week (of a short history day)."""
        return self.result.blocks

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per HPA: today's measures, and the cheapest setting that harms no more."""
        return summarize_sweep(self.result)

    @takes(RecommendRequest, "slo")
    def recommend(self, request: RecommendRequest) -> Advice:
        """Choose on the first blocks, judge on the last; see docs/recommend.md.

        Raises:
            UsageError: a measure that there is not, or a limit that is none.
        """
        return recommend(self, request)

    def trajectories(self, hpa: str, settings: Sequence[int] = (0,)) -> pl.DataFrame:
        """Return every tick of some settings of an HPA (`cluster/namespace/name`), run again.

        Raises:
            UsageError: there is no such HPA or setting.
            HistoryError: the history is not what it was.
        """
        parts = hpa.split("/")
        names = ["cluster", "namespace", "hpa"][-len(parts) :]
        same = [pl.col(name) == part for name, part in zip(names, parts, strict=False)]
        found = self.hpas.filter(same).select("cluster", "namespace", "hpa").rows()
        if len(parts) > 3 or len(found) != 1:
            raise UsageError(f"hpa {hpa!r}: {len(found)} of the sweep match; give one by its name")
        return trajectories(self.result, found[0], settings)


@dataclass(frozen=True, repr=False)
class Advice(Result):
    """Changes that a sweep recommends; every answer has its reasons."""

    found: Recommendations

    @property
    def verdict(self) -> str:
        """The number of answers of each kind."""
        answers = [item.answer for item in self.found.items]
        told = ", ".join(f"{answers.count(kind)} {kind}" for kind in (CHANGE, KEEP, NONE))
        return f"{counted(len(answers), 'HPA')}: {told}"

    @property
    def frame(self) -> pl.DataFrame:
        """The table."""
        return self.table

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per HPA: answer, setting, measures before and after, reasons."""
        return advice_frame(self.found)

    @cached_property
    def candidates(self) -> pl.DataFrame:
        """One row per unit and setting: how it stands, and whether it is on the front."""
        return candidates_frame(self.found)

    @cached_property
    def folds(self) -> pl.DataFrame:
        """One row per unit and fold: chosen on the blocks before, judged on one."""
        return folds_frame(self.found)

    @cached_property
    def patches(self) -> dict[str, str]:
        """By `namespace.hpa.yaml` (and `.json`) the patches and certificates as strings."""
        return recommendation_files(self.found)[0]


def open_sweep(path: Path | str) -> Sweep:
    """Return a sweep from its folder, or from one of advice (HistoryError: it is none)."""
    folder = AdviceFolder(Path(path))
    path = folder.sweep if os.path.isfile(folder.path / INDEX) else path
    return Sweep(read_sweep(path), digest_sweep(path))


def sweep(
    history: History, request: SweepToRequest, out: Path | str | None = None, replace: bool = False
) -> Sweep:
    """Simulate every HPA under every setting of a grid; `out` becomes a folder of tables.

    An interrupted call continues where it was when it is made again; `replace` replaces another
    sweep that is there, or what it left when interrupted. Without `out` nothing is kept on disk.

    Raises:
        UsageError: all that is wrong with grid and groups, in one message.
        HistoryError: a table is broken, or there is nothing to simulate.
        RefusedError: no HPA could be simulated, or another sweep is there.
    """
    history.require("replay")
    if out is None:
        with TemporaryDirectory(prefix="hpabatch-") as folder:
            return sweep(history, request, Path(folder) / "sweep")
    if "://" in str(out):
        raise UsageError(f"out: expected a local folder, got {str(out)!r}")
    destination = Destination(Path(out), is_folder=True)
    plan = plan_request(history, request)
    job = SweepJob(request, plan, destination, replace, Spread.part_of(request))
    result = sweep_to_disk(job)
    return Sweep(result, digest_sweep(out))


def recommend(sweep: Sweep, request: RecommendRequest) -> Advice:
    """Return the advice that a sweep gives.

    Raises:
        UsageError: a measure that there is not, a limit that is none, or objects that cannot be
            read.
    """
    options = options_of(request, sweep.result, sweep.digest)
    if not request.objects:
        return Advice(advise(sweep.result, options, settings_of(sweep.result)))
    objects = read_objects(request.objects)
    result, options = with_objects(sweep.result, objects), replace(options, objects=objects.digest)
    found = advise(result, options, settings_of(result))
    return Advice(withhold_edited(found, edits_since(found, objects, profile_of(result))))
