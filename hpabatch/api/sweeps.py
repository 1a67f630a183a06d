"""Sweeps in Python, and advice from them.

::

    sweep = hpabatch.open("history/").sweep(grid={"target": "50:85:5"}, out="sweep/")
    advice = sweep.recommend("saturated_minutes<10/week", minimize="pod_hours")
    advice.table
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from hpabatch.api.keywords import takes
from hpabatch.engine.advise.objective import options_of
from hpabatch.engine.advise.request import RecommendRequest, SweptAdviceRequest
from hpabatch.engine.advise.run import edits_since, with_objects, withhold_edited
from hpabatch.engine.advise.run import recommend as advise
from hpabatch.engine.advise.specs import profile_of, settings_of
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.engine.sweep.run import plan_request
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.advise import INDEX, AdviceFolder
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk, trajectories
from hpabatch.jobs.sweep_files import digest_sweep, read_sweep
from hpabatch.report.recommend import Advice
from hpabatch.report.sweep import SweepScreen


class Sweep(SweepScreen):
    """A sweep."""

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
        return trajectories(self, found[0], settings)


def open_sweep(path: Path | str) -> Sweep:
    """Return a sweep from its folder, or from one of advice (HistoryError: it is none)."""
    folder = AdviceFolder(Path(path))
    path = folder.sweep if os.path.isfile(folder.path / INDEX) else path
    return Sweep.of(read_sweep(path), digest=digest_sweep(path))


def sweep(
    history: History, request: SweepToRequest, out: Path | str | None = None, replace: bool = False
) -> Sweep:
    """Simulate every HPA under every setting of a grid; `out` becomes a folder of tables.

    An interrupted call with `out` goes on where it was when it is made again; `replace` replaces
    another sweep that is there, or what it left. Without `out` the sweep is kept in memory only.

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
    return Sweep.of(result, digest=digest_sweep(out))


def recommend(sweep: Sweep, request: RecommendRequest) -> Advice:
    """Return the advice that a sweep gives.

    Raises:
        UsageError: a measure that there is not, a limit that is none, or objects that cannot be
            read.
    """
    options = options_of(request, sweep, sweep.digest)
    if not request.objects:
        return Advice(advise(sweep, options, settings_of(sweep)))
    objects = read_objects(request.objects)
    result, options = with_objects(sweep, objects), replace(options, objects=objects.digest)
    found = advise(result, options, settings_of(result))
    return Advice(withhold_edited(found, edits_since(found, objects, profile_of(result))))


def recommend_swept(history: History, request: SweptAdviceRequest) -> Advice:
    """Sweep a grid, keep nothing of it, and recommend settings; raises as `sweep` does.

    `Sweep.recommend` takes a sweep that is there.
    """
    return recommend(sweep(history, SweepToRequest.from_json(request.to_json())), request)
