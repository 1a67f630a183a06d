"""A made-up site's scrapes of its clusters, and histories as tables of whole milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import fleet_tables
from hpabatch.history.reader import open_history
from hpabatch.history.schema import table_named
from hpabatch.history.store.writer import write_table

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Tables = dict[str, pl.DataFrame]
"""The tables of a history by name; their times are Int64 ms here (see `read_tables`)."""

FOREVER: Final = 1 << 60
SPANNING: Final = {
    "pod_metrics": "ts",
    "pod_states": "ts",
    "scales": "ts",
    "hpa_status": "ts",
    "object_metrics": "ts",
    "external_metrics": "ts",
    "pod_custom_metrics": "ts",
}


@dataclass(frozen=True, slots=True)
class Site:
    """What a server of this site holds of a history.

    Attributes:
        scrape_ms: between two scrapes of kube-state-metrics and the API server, and between the
            samples of `up`. Containers are sampled when the source says.
        offset_ms: the scrapes are at whole multiples of `scrape_ms` plus this.
        start_ms: first instant of a sample, None: when the source begins (a counter's first
            sample lies a window earlier).
        end_ms: last instant of a sample, None: when the source ends.
    """

    scrape_ms: int = 60_000
    offset_ms: int = 0
    start_ms: int | None = None
    end_ms: int | None = None

    def placed(self, tables: Tables) -> Site:
        """Return the same with start and end, by the times of the tables where none are given."""
        first, last = span_of(tables)
        return replace(
            self,
            start_ms=first if self.start_ms is None else self.start_ms,
            end_ms=last if self.end_ms is None else self.end_ms,
        )

    def instants(self) -> Ints:
        """Return all instants of scrapes (ms)."""
        assert self.start_ms is not None
        assert self.end_ms is not None
        first = -(-(self.start_ms - self.offset_ms) // self.scrape_ms)
        last = (self.end_ms - self.offset_ms) // self.scrape_ms
        return np.arange(first, last + 1, dtype=np.int64) * self.scrape_ms + self.offset_ms


def span_of(tables: Tables) -> tuple[int, int]:
    """Return the first and the last time of anything that was seen."""
    frames = [(tables[n], column) for n, column in SPANNING.items() if n in tables]
    times = pl.concat([frame.get_column(column) for frame, column in frames]).to_numpy()
    return int(times.min()), int(times.max())


def synthetic(request: FleetRequest) -> Tables:
    """Return the tables of a drawn fleet."""
    return {name: conformed(name, frame) for name, frame in fleet_tables(request).items()}


def conformed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with all columns of the registry, in its order, and times as Int64 ms."""
    spec = table_named(name)
    absent = [c for c in spec.columns if c.name not in frame.columns]
    whole = frame.with_columns(pl.lit(c.fill, dtype=c.dtype).alias(c.name) for c in absent)
    return in_ms(whole.select(c.name for c in spec.columns))


def read_tables(folder: str) -> Tables:
    """Return all tables of a history, with times as Int64 ms."""
    history = open_history(folder)
    return {name: in_ms(history.read(name, optional=True)) for name in history.tables}


def in_ms(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with times as Int64 ms."""
    times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    return frame.with_columns(pl.col(times).dt.timestamp("ms"))


def in_time(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the types of the registry."""
    spec = table_named(name)
    return frame.with_columns(pl.col(c.name).cast(c.dtype) for c in spec.columns if c.name in frame)


def write_tables(tables: Tables, folder: str) -> None:
    """Write a flat history."""
    for name, frame in tables.items():
        write_table(in_time(name, frame), f"{folder}/{name}.parquet", name)
