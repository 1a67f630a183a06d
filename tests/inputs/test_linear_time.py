"""Inputs of eight times the length take about eight times as long, not 64 times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import open_file
from hpabatch.importers.table.map import Unpivot
from hpabatch.inputs.grid import Axis
from hpabatch.inputs.manifest_documents import parse_json
from tests.importers.tables import POD_MAP, write_csv, write_map

Input = tuple[int, Callable[[Path, int], Callable[[], object]]]


def json_stream(folder: Path, n: int) -> Callable[[], object]:
    text = "\n".join([json.dumps({"kind": "Pod", "more": "x" * 1000})] * n)
    return lambda: parse_json(text)


def grid_values(folder: Path, n: int) -> Callable[[], object]:
    axis = Axis("target", tuple((str(k),) for k in range(n)))
    return lambda: list(axis)


def header(folder: Path, n: int) -> Callable[[], object]:
    table = read_map(write_map(folder, POD_MAP))
    names = ",".join(f"x{k}" for k in range(n))
    path = Path(write_csv(folder, f"ts,app,pod,cpu,mem,{names}\n"))
    return lambda: open_file(path, 0, table)


def wide_table(folder: Path, n: int) -> Callable[[], object]:
    frame = pl.DataFrame({"ts": ["1"], **{f"x{k}": ["2"] for k in range(n)}})
    return lambda: Unpivot(("ts",), "name", "value").apply(frame)


INPUTS: dict[str, Input] = {
    "JSON stream": (1000, json_stream),
    "grid values": (1000, grid_values),
    "CSV header": (2000, header),
    "wide table": (200, wide_table),
}


@pytest.mark.parametrize("name", INPUTS)
def test_time_grows_with_the_length_of_an_input(tmp_path: Path, name: str) -> None:
    n, made = INPUTS[name]

    def cpu_s(work: Callable[[], object]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    short = made(tmp_path, n)
    short()  # (what is done once)
    few = min(cpu_s(short) for _ in range(3))
    long = made(tmp_path, 8 * n)
    assert min(cpu_s(long), cpu_s(long)) < 20 * max(few, 1e-3)
