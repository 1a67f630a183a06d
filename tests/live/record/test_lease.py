"""The right to record into a local store: one holder, whatever is removed from under it."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.history.store.storage import LocalStorage
from hpabatch.live.record.segments import FileLease


def lease(folder: Path) -> FileLease:
    return FileLease(LocalStorage(folder), "east")


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.lock")]


def test_one_at_a_time(tmp_path: Path) -> None:
    first = lease(tmp_path)
    with pytest.raises(UsageError, match=f"process {os.getpid()} records cluster east"):
        lease(tmp_path)
    first.renew()
    first.release()
    assert files(tmp_path) == []
    first.release()
    lease(tmp_path).release()


def test_one_that_was_removed_is_taken_again(tmp_path: Path) -> None:
    first = lease(tmp_path)
    next(tmp_path.rglob("*.lock")).unlink()
    first.renew()
    with pytest.raises(UsageError, match="records cluster east"):
        lease(tmp_path)
    first.release()


def test_a_full_disk_takes_the_lock_without_its_holder(tmp_path: Path) -> None:
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))  # files cannot grow
    try:
        first = lease(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(UsageError, match="process unknown records cluster east"):
        lease(tmp_path)
    first.release()


def test_who_lost_it_knows_and_leaves_the_others_alone(tmp_path: Path) -> None:
    first = lease(tmp_path)
    next(tmp_path.rglob("*.lock")).unlink()
    second = lease(tmp_path)
    for _ in range(2):
        with pytest.raises(UsageError, match="records cluster east"):
            first.renew()
    descriptor = os.open(tmp_path, os.O_RDONLY)  # may get the number that was given back
    first.release()
    os.close(descriptor)
    assert len(files(tmp_path)) == 1
    with pytest.raises(UsageError, match="records cluster east"):
        lease(tmp_path)
    second.release()
