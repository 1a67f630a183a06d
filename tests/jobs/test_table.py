"""Imports of tables by workers: the same bytes in the store, whatever was read by whom."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.table import files
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.run import ImportResult
from hpabatch.jobs import executor
from tests.importers.table.test_run import HPAS, bytes_of, pod_frame
from tests.importers.tables import BEGIN_S, POD_MAP, import_table, merged, write_map
from tests.jobs.dask_cluster import QUIET
from tests.jobs.small import plan_small_jobs

pytestmark = QUIET
CUT = 4
"""Parts of the Parquet file, whose row groups are smaller than those."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_jobs(monkeypatch)


@pytest.fixture
def source(tmp_path: Path) -> tuple[list[str], Path]:
    """Return two CSVs and a Parquet file, with equal keys in all of them, and their map."""
    folder = tmp_path / "source"
    folder.mkdir()
    for k in range(2):
        pod_frame(k).write_csv(folder / f"{k}.csv")
    pod_frame(2).write_parquet(folder / "2.parquet", row_group_size=50)
    return [str(folder)], write_map(folder, merged(POD_MAP, HPAS))


def imported(source: tuple[list[str], Path], out: Path | str | None, **more: Any) -> ImportResult:
    return import_table(*source, out, group_rows=60, **more)


def test_workers_read_what_this_process_would(
    source: tuple[list[str], Path], tmp_path: Path
) -> None:
    here = imported(source, tmp_path / "here")
    there = imported(source, tmp_path / "there", workers=2)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")
    assert here.workloads.equals(there.workloads)
    none = pl.DataFrame()
    assert repr(replace(here, workloads=none)) == repr(replace(there, workloads=none))
    assert not list(tmp_path.glob(".*"))
    dry, by_workers = imported(source, None), imported(source, None, workers=2)
    assert (dry.written, dry.workloads.rows()) == (by_workers.written, by_workers.workloads.rows())


def test_a_cut_file_is_read_as_a_whole_one(
    source: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = files.open_parts(map(Path, files.find_files(source[0])), read_map(source[1]))
    assert [part.path.name for part in parts] == ["0.csv", "1.csv", *["2.parquet"] * CUT]
    assert [part.number for part in parts] == list(range(CUT + 2))
    assert [(part.first, part.rows) for part in parts[2:]] == [(k * 100, 100) for k in range(CUT)]
    result = imported(source, tmp_path / "cut")
    assert [Path(name).name for name in result.files] == ["0.csv", "1.csv", "2.parquet"]
    monkeypatch.setattr(files, "PART_ROWS", 1 << 20)
    imported(source, tmp_path / "whole")
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


def test_a_wide_file_is_cut_by_its_columns(tmp_path: Path) -> None:
    times = [BEGIN_S + 60 * k for k in range(200)]
    wide = pl.DataFrame({"ts": times} | {f"web-{k}": [0.1 + k] * 200 for k in range(9)})
    wide.write_parquet(tmp_path / "wide.parquet", row_group_size=10)
    said: dict[str, Any] = {"memory": None, "cpu": {"column": "v", "unit": "cores"}, "pod": "pod"}
    columns = said | {"workload": {"value": "web"}}
    unpivot = {"name": "pod", "value": "v", "keep": ["ts"]}
    content = merged(POD_MAP, {"columns": columns, "unpivot": unpivot})
    path = write_map(tmp_path, content)
    found = files.open_parts([tmp_path / "wide.parquet"], read_map(path))
    assert [part.rows for part in found] == [10] * 20
    here = import_table([str(tmp_path / "wide.parquet")], path, tmp_path / "here")
    assert here.written["pod_metrics"] == 1800
    import_table([str(tmp_path / "wide.parquet")], path, tmp_path / "there", workers=2)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


_COMMAND = """
import sys
from pathlib import Path
import pytest
from tests.importers.tables import import_table
from tests.jobs.small import plan_small_jobs
plan_small_jobs(pytest.MonkeyPatch())
def tell(message, share):
    print(message.partition(":")[0], flush=True)
import_table([sys.argv[1]], Path(sys.argv[2]), sys.argv[3], group_rows=60, workers=2, progress=tell)
"""


@pytest.mark.parametrize("until", [("reading", 3), ("writing", 2)])
def test_the_command_may_die(
    source: tuple[list[str], Path], tmp_path: Path, until: tuple[str, int]
) -> None:
    line = [sys.executable, "-c", _COMMAND, source[0][0], str(source[1]), str(tmp_path / "there")]
    root = Path(__file__).parents[2]
    command = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=root)
    assert command.stdout is not None
    left = until[1]
    for told in command.stdout:
        left -= told.strip() == until[0]
        if not left:
            break
    command.kill()
    command.communicate()
    (work,) = tmp_path.glob(".there.import-*")
    kept = [path for path in (work / "read" / "tasks").iterdir() if path.name[0] != "."]
    assert len(kept) >= (until[1] - 1 if until[0] == "reading" else CUT + 2)
    times = {path: (path / "record.json").stat().st_mtime_ns for path in kept}

    def look(message: str, share: float) -> None:
        if message.startswith("writing"):
            now = {path: (path / "record.json").stat().st_mtime_ns for path in kept}
            assert now == times, "what was read is not read again"

    imported(source, tmp_path / "there", workers=2, progress=look)
    imported(source, tmp_path / "here")
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def test_a_file_that_is_another_one_for_workers_is_refused(
    source: tuple[list[str], Path], tmp_path: Path
) -> None:
    file = source[1].parent / "0.csv"
    before = file.read_text()

    def change(message: str, share: float) -> None:
        """Change a digit when the command has digested the file; its size stays."""
        text = file.read_text()
        if text == before:
            file.write_text(text.replace(",0.", ",1.", 1))

    with pytest.raises(UsageError, match=r"a worker has read another .*0\.csv than this command"):
        imported(source, tmp_path / "h", workers=2, progress=change)
    assert imported(source, tmp_path / "h", workers=2).rows_read == 1200


def test_one_part_is_read_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_open_pool", None)
    pod_frame(1).write_csv(tmp_path / "one.csv")
    source = [str(tmp_path / "one.csv")], write_map(tmp_path, merged(POD_MAP, HPAS))
    imported(source, tmp_path / "h", workers=2)
    (told,) = caplog.messages
    assert told.startswith("the input is one part, which this process reads: a CSV is one part")


def test_a_proposal_takes_no_workers() -> None:
    with pytest.raises(UsageError, match=r"--init with options of workers: expected one of th"):
        TableRequest(inputs=("a.csv",), init=True, workers=2).check()
    with pytest.raises(UsageError, match=r"--parts without --scheduler"):
        TableRequest(inputs=("a.csv",), map="a.yaml", dry_run=True, parts="x").check()
