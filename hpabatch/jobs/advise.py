"""Advice in a folder: the sweep that it rests on, and the sizes that it compares.

::

    advice/
      history/              what was imported, if a table was given
      sweep/                the sweep (`jobs.sweep`), which an interrupted run goes on with
      trajectories.parquet  sizes of today's and the recommended settings over time
      patches/              patches and certificates
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from hpabatch.engine.advise.run import Recommendations
from hpabatch.engine.simulate.run import Progress, silent
from hpabatch.engine.sweep.run import SweepPlan, prepare_part, trajectory_points
from hpabatch.history.atomic import atomic_path
from hpabatch.jobs.parquet import write_parquet

HISTORY: Final = "history"
SWEEP: Final = "sweep"
PATCHES: Final = "patches"
TRAJECTORIES: Final = "trajectories.parquet"
OURS: Final = frozenset({HISTORY, SWEEP, PATCHES, TRAJECTORIES})

_SIZES: Final = ("replicas", "desired", "serving", "pods", "demand", "saturated")
_KEY: Final = ("cluster", "namespace", "hpa", "setting")


def write_trajectories(
    sweep: SweepPlan, found: Recommendations, path: Path, progress: Progress = silent
) -> None:
    """Write the sizes under today's and the recommended settings: a row for each change of them.

    Raises:
        HistoryError: the history is not what it was.
        UsageError: the file cannot be written.
    """
    wanted = {item.key: item.setting_id or 0 for item in found.items}
    frames = list(_sizes(sweep, wanted, progress))
    rows = pl.concat(frames) if frames else pl.DataFrame()
    with atomic_path(path) as temporary:
        write_parquet(rows, found.result.evidence, temporary)


def _sizes(
    sweep: SweepPlan, wanted: dict[tuple[str, str, str], int], progress: Progress
) -> Iterator[pl.DataFrame]:
    """Yield the changes of sizes of one HPA after the other."""
    for number in range(len(sweep.parts)):
        progress("simulating what is recommended", number / len(sweep.parts))
        part = prepare_part(sweep, number)
        for case in part.cases:
            settings = dict.fromkeys((0, wanted.get(case.case.key[:3], 0)))
            points = trajectory_points(part.alone(case), sweep, list(settings))
            yield _changes(points)


def _changes(points: pl.DataFrame) -> pl.DataFrame:
    """Return the ticks in which something is not as in the tick before."""
    columns = [name for name in _SIZES if name in points.columns]
    changed = [pl.col(name).ne_missing(pl.col(name).shift()) for name in ("setting", *columns)]
    return points.filter(pl.any_horizontal(changed)).select(*_KEY, "ts", *columns)
