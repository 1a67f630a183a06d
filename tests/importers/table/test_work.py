"""The work folder of an import: whose it is, what is believed of it, and when it is on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import LocalStorage
from hpabatch.importers.common.work import work_folder
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.run import open_input
from tests.importers.tables import BEGIN_S, POD_MAP, import_table, read_tables, write_csv, write_map

ROWS = "ts,app,pod,cpu,mem\n" + "".join(
    f"{BEGIN_S + 60 * k},web,web-1,0.1,1000\n" for k in range(3)
)


PART = "read-00000"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, which everybody can write, as /tmp."""
    found = tmp_path / "temporary"
    found.mkdir()
    found.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(found))
    return found


def test_of_an_object_store_the_folder_is_this_users_alone(temporary: Path) -> None:
    found = work_folder("s3://bucket/h", "0123456789abcdef0")
    assert found == temporary / f"hpabatch-{os.geteuid()}" / "import-0123456789abcdef"
    assert found.parent.stat().st_mode & 0o777 == 0o700
    assert work_folder("s3://bucket/h", "0123456789abcdef0") == found


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


def foreign(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    folder.mkdir(0o700)
    os.chown(folder, 4711, 4711)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (open_to_all, "can be written by everybody"),
        (link, "is a link"),
        (foreign, "belongs to user 4711"),
    ],
)
def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, temporary: Path, make: Callable[[Path], None], reason: str
) -> None:
    place = temporary / f"hpabatch-{os.geteuid()}"
    make(place)
    with pytest.raises(UsageError, match=f"got {place}: {place} {reason}; .*another with --work"):
        work_folder("s3://bucket/h", "0" * 64)
    source, path = write_csv(tmp_path, ROWS), write_map(tmp_path, POD_MAP)
    found = open_input(TableRequest(inputs=(source,), map=str(path)))
    beside = work_folder(tmp_path / "h", found.digest)
    if make is not link:  # (it has been made above)
        make(beside)
        with pytest.raises(UsageError, match=f"{reason}; remove it or name another with --work"):
            import_table([source], path, tmp_path / "h")
    import_table([source], path, tmp_path / "h", work=tmp_path / "work")
    assert read_tables(tmp_path / "h")["pod_metrics"].height == 3


def interrupted(tmp_path: Path) -> tuple[str, Path, Path]:
    """Return input, map and the work folder of an import that stopped when all was read."""
    source, path = write_csv(tmp_path, ROWS), write_map(tmp_path, POD_MAP)

    def stop(message: str, share: float) -> None:
        if message.startswith("writing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_table([source], path, tmp_path / "h", progress=stop)
    (work,) = tmp_path.glob(".h.import-*")
    return source, path, work


def test_a_history_whose_import_was_interrupted_says_how_to_go_on(tmp_path: Path) -> None:
    source, path, _ = interrupted(tmp_path)
    for lost in ("scales", "hpas"):  # (ROWS come without HPAs)
        told = f"{lost} .* missing .*repeat the command of an import that was interrupted"
        with pytest.raises(HistoryError, match=told):
            open_history(tmp_path / "h", "replay")
        import_table([source], path, tmp_path / "h")


def test_runs_are_on_disk_before_what_says_that_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        flushed.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    _, _, work = interrupted(tmp_path)
    sizes = json.loads((work / PART / "record.json").read_text())["files"]
    assert {"run-00000.parquet", "run-00000.keys.parquet"} == set(sizes)
    # The work folder comes last: with the part's final name.
    named = flushed.index(work.name)
    assert {*sizes, "record.json"} <= set(flushed[:named])
    assert any(name.startswith(f".{PART}.") for name in flushed[:named])


def test_what_killed_runs_were_reading_is_removed(tmp_path: Path) -> None:
    source, path, work = interrupted(tmp_path)
    for name in (f".{PART}.1-aa.tmp", f".{PART}.2-bb.tmp"):
        (work / name).mkdir()
        (work / name / "run-00000.parquet").touch()
    assert interrupted(tmp_path) == (source, path, work)
    assert not list(work.glob(".*"))


def test_a_fault_in_cleaning_is_no_fault_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise pl.exceptions.ComputeError("made")

    monkeypatch.setattr("hpabatch.importers.table.spill.clean_rows", fail)
    with pytest.raises(pl.exceptions.ComputeError, match="made"):
        interrupted(tmp_path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (f"{PART}/record.json", lambda path: path.write_text("")),
        (f"{PART}/record.json", lambda path: path.write_text("[]")),
        (f"{PART}/record.json", lambda path: path.write_text('{"files": {"a": 1}}')),
        (f"{PART}/run-00000.parquet", Path.unlink),
        (f"{PART}/run-00000.parquet", lambda path: path.write_bytes(b"PAR1")),
        (f"{PART}/run-00000.keys.parquet", lambda path: path.write_bytes(b"")),
    ],
)
def test_damaged_intermediate_files_are_made_again(
    tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    source, path, work = interrupted(tmp_path)
    damage(work / name)
    import_table([source], path, tmp_path / "h")
    other = tmp_path / "other"
    import_table([source], path, other)
    storages = (LocalStorage(tmp_path / "h"), LocalStorage(other))
    names = [[item.name for item in storage.names("")] for storage in storages]
    assert names[0] == names[1]
    assert read_tables(tmp_path / "h")["pod_metrics"].equals(read_tables(other)["pod_metrics"])
    assert not work.exists()


def test_a_folder_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    """Whoever can write above it can rename it during an import, unless that folder is sticky."""
    source, path = write_csv(tmp_path, ROWS), write_map(tmp_path, POD_MAP)
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    (tmp_path / "link").symlink_to(shared)
    for work in (shared / "mine", shared, tmp_path / "link" / "mine"):
        shared.chmod(0o777)
        with pytest.raises(UsageError, match=f"got {work}: {shared} can be written by everybody"):
            import_table([source], path, tmp_path / "store" / "h", work=work)
        assert not (tmp_path / "store").exists()
        assert os.listdir(shared) == ["mine"]
    # Beside a store in the same folder they could replace the store as well.
    import_table([source], path, shared / "h", work=shared / "mine")
    shared.chmod(0o1777)
    import_table([source], path, tmp_path / "store" / "h", work=shared)
    assert read_tables(tmp_path / "store" / "h")["pod_metrics"].height == 3
