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
    first.release()
    assert files(tmp_path) == []
    first.release()
    lease(tmp_path).release()


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
