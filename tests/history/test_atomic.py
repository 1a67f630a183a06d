from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.history.files import atomic_folder, atomic_path, lock_file


def test_the_file_appears_at_the_end_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.parent == path.parent
        assert temporary.name.startswith(".")
    assert path.read_text() == "whole"
    assert os.listdir(path.parent) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(type(error)), atomic_path(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_empty_block_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nothing was written"), atomic_path(tmp_path / "out"):
        pass


def test_a_folder_in_the_way_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file"), atomic_path(tmp_path):
        pytest.fail("the block must not run")


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(UsageError, match="No space left on device; choose another place"),
        atomic_path(tmp_path / "out") as temporary,
    ):
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os.listdir(tmp_path) == []


def test_a_device_or_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = pytest.raises(UsageError, match="it is not a regular file; name another")
    with refused, atomic_path(pipe) as temporary:
        temporary.write_text("new")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_pipe_in_the_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(OSError, match="No such device or address"):
        lock_file(tmp_path / "lock")


# ---- folders


def entries(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir()}


def test_an_empty_folder_is_replaced_and_another_only_if_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("1")
    with pytest.raises(UsageError, match="files of others"), atomic_folder(path):
        pass
    assert entries(path) == {"a.txt": "1"}
    with atomic_folder(path, lambda old: entries(old) == {"a.txt": "1"}) as temporary:
        (temporary / "b.txt").write_text("2")
    assert entries(path) == {"b.txt": "2"}
    assert os.listdir(tmp_path) == ["out"]


def test_everything_in_a_folder_is_flushed_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("hpabatch.history.files.flush", lambda path: told.append(path.name))
    with atomic_folder(tmp_path / "out") as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "a.txt").write_text("a")
    assert set(told[:-2]) == {"deep", "a.txt"}
    assert told[-2:] == [temporary.name, tmp_path.name]


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "old").write_text("old")
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(target) == path and (Path(source) / "new").exists():
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr("hpabatch.history.files.os.replace", replace)
    with pytest.raises(UsageError, match="No space left"):  # noqa: SIM117
        with atomic_folder(path, lambda old: True) as temporary:
            (temporary / "new").write_text("new")
    assert entries(path) == {"old": "old"}
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_another_process_replaces_is_looked_at_again(tmp_path: Path) -> None:
    path, seen = tmp_path / "out", []
    path.mkdir()

    def may_replace(old: Path) -> bool:
        seen.append(old)
        if len(seen) == 1:  # between the names in it and its index
            old.rename(tmp_path / "former")
            path.mkdir()
        return len(seen) > 1

    with atomic_folder(path, may_replace) as temporary:
        (temporary / "a.txt").write_text("a")
    assert (entries(path), seen) == ({"a.txt": "a"}, [path, path])
