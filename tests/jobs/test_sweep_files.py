"""A sweep's folder: what is written is read again, and anything else is refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError
from hpabatch.jobs.sweep_files import (
    FORMAT,
    TABLES,
    is_sweep_folder,
    read_sweep,
    write_about,
    write_table,
)
from tests.sweeps import SweepMaker, weeks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a sweep of two HPAs as `hpabatch sweep` does."""
    found = made()
    place = tmp_path / "sweep"
    place.mkdir()
    for name in TABLES:
        write_table(getattr(found, name), found.evidence, place, name)
    write_about(place, found.evidence, found.parameters)
    return place


def made() -> Any:
    maker = SweepMaker([{"target": "70"}])
    for name in ("api", "web"):
        maker.add(name, {0: weeks([100, 90]), 1: weeks([80, 70])})
    return maker.result()


def test_what_is_written_is_read_again(folder: Path) -> None:
    found, given = read_sweep(folder), made()
    for name in TABLES:
        other = getattr(given, name)
        frame = getattr(found, name)
        assert frame.columns == other.columns
        assert_frame_equal(frame, other, check_dtypes=False)
    assert (found.evidence, found.parameters) == (given.evidence, given.parameters)
    assert read_sweep(str(folder)).results.height == 4


def test_a_table_of_another_sweep_is_refused(folder: Path) -> None:
    found = read_sweep(folder)
    write_table(found.results.reverse(), found.evidence, folder, "results")
    with pytest.raises(HistoryError, match=r"its tables are not those that sweep\.json names"):
        read_sweep(folder)


def about(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    """Return what changes sweep.json."""

    def edit(folder: Path) -> None:
        path = folder / "sweep.json"
        found = json.loads(path.read_text())
        found = change(found) or found
        path.write_text(json.dumps(found))

    return edit


def truncate(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another folder": (
        lambda f: list(map(Path.unlink, f.iterdir())),
        "it holds no sweep.json",
    ),
    "no sweep.json": (lambda f: (f / "sweep.json").unlink(), "it holds no sweep.json"),
    "no JSON": (
        lambda f: (f / "sweep.json").write_text("{"),
        "sweep.json: Input data was truncated",
    ),
    "binary": (
        lambda f: (f / "sweep.json").write_bytes(b"\xff\xfe"),
        "sweep.json: expected JSON in UTF-8, got other bytes",
    ),
    "a list": (
        lambda f: (f / "sweep.json").write_text("[]"),
        "sweep.json: Expected `object`, got `array`",
    ),
    "no format": (
        about(lambda a: a.pop("format") and None),
        "sweep.json: Object missing required field `format`",
    ),
    "no evidence": (
        about(lambda a: a.update(evidence=None)),
        "sweep.json: Expected `object`, got `null` - at `$.evidence`",
    ),
    "no parameters": (
        about(lambda a: a.update(parameters=7)),
        "sweep.json: Expected `object`, got `int` - at `$.parameters`",
    ),
    "no results": (lambda f: (f / "results.parquet").unlink(), "it holds no results.parquet"),
    "half a table": (
        lambda f: truncate(f / "results.parquet", 0.5),
        "results.parquet is damaged",
    ),
    "a table without its end": (
        lambda f: truncate(f / "blocks.parquet", 0.99),
        "blocks.parquet is damaged",
    ),
    "an empty table": (lambda f: truncate(f / "hpas.parquet", 0), "hpas.parquet is damaged"),
    "another table": (
        lambda f: pl.DataFrame({"x": [1]}).write_parquet(f / "hpas.parquet"),
        "hpas.parquet has no column cluster",
    ),
    "a sweep of an older version": (
        lambda f: (
            pl.read_parquet(f / "hpas.parquet").drop("ceiling").write_parquet(f / "hpas.parquet")
        ),
        "hpas.parquet has no column ceiling",
    ),
    "a folder in place of a table": (
        lambda f: replace_by_folder(f / "settings.parquet"),
        "settings.parquet cannot be read: Is a directory",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_sweep_is_told(folder: Path, what: str) -> None:
    breaks, told = BROKEN[what]
    breaks(folder)
    with pytest.raises(HistoryError) as caught:
        read_sweep(folder)
    text = str(caught.value)
    assert text == (
        f"{folder} is not the folder of a sweep ({told}): name the one that `hpabatch sweep "
        "HISTORY --out` wrote, or sweep again"
    )


def test_a_sweep_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"nowhere is not the folder of a sweep \(there is none"):
        read_sweep(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match=r"file is not the folder of a sweep \(it is no folder"):
        read_sweep(tmp_path / "file")


@pytest.mark.parametrize("number", [1, 2, 4, "new"])
def test_another_format_is_told(folder: Path, number: object) -> None:
    about(lambda a: a.update(format=number))(folder)
    (folder / "results.parquet").unlink()  # (another format may have other files)
    told = f"is a sweep of format {number}, and this version reads {FORMAT}: sweep again"
    with pytest.raises(HistoryError, match=told):
        read_sweep(folder)


def test_what_a_sweep_may_replace(folder: Path, tmp_path: Path) -> None:
    assert is_sweep_folder(folder)
    (folder / "notes.txt").write_text("mine")
    assert not is_sweep_folder(folder)
    (folder / "notes.txt").unlink()
    (folder / "sweep.json").unlink()
    assert not is_sweep_folder(folder)  # (tables of somebody)
    (tmp_path / "empty").mkdir()
    assert is_sweep_folder(tmp_path / "empty")
