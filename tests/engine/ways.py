"""Ways to store, cut and decide a history, none of which may change a result."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

from hpabatch import _jit
from hpabatch.engine.fleet import plan
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay.run import ReplayResult
from hpabatch.engine.shards import pack
from hpabatch.history.reader import History, open_history
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.writer import Limits
from tests.effort import MOST_THREADS
from tests.engine import naive_align as naive
from tests.engine.made import replay_history
from tests.engine.small_history import to_frame, write_pieces
from tests.history.frames import limited


@dataclass(frozen=True)
class Way:
    """How a history is stored and replayed; nothing of it may matter.

    `seed` decides which rows are written together; `shards` are the limits of a shard: decisions,
    and rows a day; `step` is that of the days that are read at once: rows.
    """

    layout: str
    seed: int
    shards: tuple[int, int]
    block: int
    threads: int
    step: int


ways = st.builds(
    Way,
    layout=st.sampled_from(["flat", "flat", "store"]),
    seed=st.integers(0, 999),
    shards=st.sampled_from([(1, 1), (15, 1 << 20), (1 << 20, 3), (1 << 20, 1 << 20)]),
    block=st.sampled_from([1, 2, 3, 7, 64, 8192]),
    threads=st.sampled_from([1, 2]),
    step=st.sampled_from([0, 8, 1 << 18]),
)


def write_store(tables: naive.Tables, folder: Path, seed: int) -> Path:
    """Write the same tables in several parts, some rows again and again, in files of any size."""
    rng = random.Random(seed)
    size = rng.choice([1, 2, 1000])
    store = open_writer(folder)
    with limited(Limits(size, rng.choice([size, 1000]), rng.choice([1, 1000]))):
        for share in (*[0.5] * rng.randint(1, 3), 1):
            with store.part() as part:
                for name in tables:
                    rows = [row for row in tables[name] if rng.random() < share]
                    part.add(name, to_frame(name, rows))
    return folder


@contextmanager
def written(tables: naive.Tables, way: Way) -> Iterator[History]:
    """Yield the history as it was written in some way."""
    write = write_store if way.layout == "store" else write_pieces
    with tempfile.TemporaryDirectory() as folder:
        yield open_history(write(tables, Path(folder), way.seed))


@contextmanager
def cut(way: Way) -> Iterator[None]:
    """Cut and decide a history in some way."""
    with (
        mock.patch.object(plan, "SHARD_DECISIONS", way.shards[0]),
        mock.patch.object(plan, "SHARD_DAY_ROWS", way.shards[1]),
        mock.patch.object(plan, "STEP_ROWS", way.step),
        mock.patch.object(pack, "ROWS_PER_BLOCK", way.block),
        mock.patch.object(_jit, "THREADS", min(way.threads, MOST_THREADS)),
    ):
        yield


def replayed(
    history: History, parameters: ReplayParameters, way: Way, *, why: bool = False
) -> ReplayResult:
    """Replay a history in some way."""
    with cut(way):
        return replay_history(history, parameters, why=why)
