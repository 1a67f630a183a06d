"""Answers on disk: one file for each finished question, so that nobody is asked twice.

The files of a window lie there until the window is in the store. They are what an interrupted
import goes on from: a question whose file is there is answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pyarrow as pa

from hpabatch.history.atomic import atomic_path
from hpabatch.importers.prometheus.client.samples import POINTS, Samples
from hpabatch.importers.table.spill import disk_errors

_SERIES = b"hpabatch.series"
_COUNT = b"hpabatch.count"


@dataclass(slots=True)
class Pieces:
    """The finished pieces of an import, in a folder; None: they are kept in memory only.

    Attributes:
        folder: their place.
        reused: how many were found from an earlier run.
    """

    folder: Path | None
    reused: int = 0
    _known: dict[str, Samples] = field(default_factory=dict)

    def read(self, key: str) -> Samples | None:
        """Return a finished piece, None where there is none (or its file is damaged)."""
        if self.folder is None:
            return self._known.get(key)
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return _read(path)
        except (OSError, ValueError, KeyError, pa.ArrowException, pl.exceptions.PolarsError):
            return None

    def keep(self, key: str, samples: Samples) -> None:
        """Keep a piece, whole or not at all."""
        if self.folder is None:
            self._known[key] = samples
            return
        with disk_errors(self.folder), atomic_path(self._path(key)) as temporary:
            _write(samples, temporary)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove pieces that are not needed any more."""
        for key in keys:
            if self.folder is None:
                self._known.pop(key, None)
            else:
                self._path(key).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all pieces."""
        self._known.clear()
        if self.folder is not None:
            for path in self.folder.glob("*.arrow"):
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}.arrow"


def _write(samples: Samples, path: Path) -> None:
    labels = json.dumps(samples.series.drop("series").to_dict(as_series=False))
    table = samples.points.to_arrow()
    count = str(samples.series.height).encode()
    schema = table.schema.with_metadata({_SERIES: labels.encode(), _COUNT: count})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as stream, pa.ipc.new_file(stream, schema, options=options) as writer:
        writer.write_table(table.cast(schema))


def _read(path: Path) -> Samples:
    with path.open("rb") as stream:
        reader = pa.ipc.open_file(stream)
        table = reader.read_all()
        labels = json.loads(reader.schema.metadata[_SERIES])
        # A series without labels leaves no column to count in.
        count = int(reader.schema.metadata[_COUNT])
    columns = [pl.Series(name, values, pl.String) for name, values in labels.items()]
    numbers = pl.Series("series", range(count), dtype=pl.UInt32)
    points = pl.from_arrow(table)
    assert isinstance(points, pl.DataFrame)
    return Samples(pl.DataFrame([numbers, *columns]), points.cast(POINTS))
