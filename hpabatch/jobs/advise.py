"""Advice in a folder: all that it rests on.

::

    advice/
      advice.json           whose folder this is, and what the parts below were made from
      lock                  held (flock) while a process works here
      history/              what was imported, if a table was given
      sweep/                the sweep (`jobs.sweep`), which an interrupted run goes on with
      trajectories.parquet  sizes under today's and the recommended settings
      patches/              patches and certificates
      review/               patches of medium confidence, with their doubts

Trajectories and patches of another sweep are removed before new ones are made, so a run that is
ended in the middle leaves none that do not belong to the sweep.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch._json import decode_json
from hpabatch.engine.advise.run import Recommendations
from hpabatch.engine.sweep.run import SweepPlan, prepare_part, trajectory_points
from hpabatch.errors import UsageError
from hpabatch.history.files import atomic_path, read_small
from hpabatch.importers.table.files import digest_file
from hpabatch.jobs.folder import LOCK, claim
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.progress import Progress, silent

INDEX: Final = "advice.json"
KIND: Final = "hpabatch advice"
FORMAT: Final = 1

_SIZES: Final = ("replicas", "desired")
_KEY: Final = ("cluster", "namespace", "hpa", "setting")
_SCHEMA: Final = {
    **dict.fromkeys(_KEY, pl.String()),
    "ts": pl.Datetime("ms", "UTC"),
    **dict.fromkeys(_SIZES, pl.Int64()),
}


class AdviceFolder:
    """A folder of advice, and the places of its parts."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is read yet."""
        self.path = path
        self.history, self.sweep = path / "history", path / "sweep"
        self.patches, self.review = path / "patches", path / "review"
        self.trajectories = path / "trajectories.parquet"

    def check(self) -> None:
        """Refuse a place that is no new folder, and none of earlier advice (UsageError)."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"--out {self.path} is a file; name a new folder")
            there = sorted(self._names()) if self.path.exists() else []
            kind = self._index().get("kind") if there else KIND
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"--out {self.path} cannot be used: {reason}; name another place"
            ) from None
        if kind == KIND and there and self._index().get("format") != FORMAT:
            raise UsageError(
                f"--out {self.path} was written by another version of hpabatch: name a new folder"
            )
        if kind != KIND:
            raise UsageError(
                f"--out {self.path} is no folder of earlier advice ("
                + (f"its {INDEX} is damaged" if INDEX in there else f"it holds {there[0]}")
                + "): name a new folder"
            )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep the folder to this process in the block; it is made, and goes if it stays empty.

        Raises:
            UsageError: it cannot be made.
            UnfinishedError: another process works in it.
        """
        try:
            self.path.mkdir(exist_ok=True)
            lock = claim(self.path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"--out {self.path} cannot be made: {reason}; name another place"
            ) from None
        with lock:
            try:
                if not (self.path / INDEX).exists():
                    self._write({})
                yield
            finally:
                if self._names() <= {INDEX}:
                    shutil.rmtree(self.path)
                (self.path / LOCK).unlink(missing_ok=True)

    def belongs(self, sweep: str) -> None:
        """Remove what was made from another sweep than that of a digest."""
        if self._index().get("sweep") != sweep:
            self.forget()

    def forget(self) -> None:
        """Remove trajectories and patches."""
        self._write({})
        self.trajectories.unlink(missing_ok=True)
        for folder in (self.patches, self.review):
            shutil.rmtree(folder, ignore_errors=True)

    def begin(self, sweep: str) -> None:
        """Note that trajectories of some answer are to come: until it is whole there are none."""
        self._write({"sweep": sweep})

    def finish(self, sweep: str, found: Recommendations) -> None:
        """Note that all parts are there, and of which sweep."""
        digest = digest_file(self.trajectories)
        self._write({"sweep": sweep, "settings": _settings(found), "trajectories": digest})

    def has_trajectories(self, sweep: str, found: Recommendations) -> bool:
        """Say whether the trajectories are those of these answers already, and unchanged."""
        index = self._index()
        same = (index.get("sweep"), index.get("settings")) == (sweep, _settings(found))
        is_there = same and self.trajectories.is_file()
        return is_there and index.get("trajectories") == digest_file(self.trajectories)

    def _names(self) -> set[str]:
        return {entry.name for entry in self.path.iterdir()} - {LOCK}

    def _index(self) -> Mapping[str, Any]:
        path = self.path / INDEX
        try:
            return decode_json(read_small(path), dict[str, Any]) if path.is_file() else {}
        except ValueError:
            return {}

    def _write(self, facts: Mapping[str, Any]) -> None:
        with atomic_path(self.path / INDEX) as temporary:
            text = json.dumps({"kind": KIND, "format": FORMAT, **facts}, indent=2)
            temporary.write_text(f"{text}\n")


def _settings(found: Recommendations) -> dict[str, str]:
    """Return the recommended settings by HPA; those that keep today's are left out."""
    return {
        "/".join(item.key): found.specs.names[item.setting_id]
        for item in found.items
        if item.setting_id
    }


def write_trajectories(
    sweep: SweepPlan, found: Recommendations, path: Path, progress: Progress = silent
) -> None:
    """Write the sizes under today's and the recommended settings: a row for each change of them.

    Raises:
        HistoryError: the history is not what it was.
        UsageError: the file cannot be written.
    """
    wanted = {item.key: item.setting_id or 0 for item in found.items}
    frames = [pl.DataFrame(schema=_SCHEMA), *_sizes(sweep, wanted, progress)]
    with atomic_path(path) as temporary:
        write_parquet(pl.concat(frames), found.result.evidence, temporary)


def _sizes(
    sweep: SweepPlan, wanted: dict[tuple[str, str, str], int], progress: Progress
) -> Iterator[pl.DataFrame]:
    """Yield the changes of sizes of one HPA after the other."""
    for number in range(len(sweep.parts)):
        progress("simulating what is recommended", number / len(sweep.parts))
        part = prepare_part(sweep, number)
        for case in part.cases:
            settings = dict.fromkeys((0, wanted.get(case.case.key[:3], 0)))
            yield changes_of(trajectory_points(part.alone(case), sweep, list(settings)))


def changes_of(points: pl.DataFrame) -> pl.DataFrame:
    """Return the ticks of trajectories in which a size is not as in the tick before."""
    changed = [pl.col(name).ne_missing(pl.col(name).shift()) for name in ("setting", *_SIZES)]
    return points.filter(pl.any_horizontal(changed)).select(*_SCHEMA)
