"""Parts in an S3 storage (a real server on loopback), whatever becomes of it or of the workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import HistoryError, HpabatchError, UnfinishedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import open_storage
from hpabatch.inputs.workers import Spread
from hpabatch.jobs import executor, processes
from hpabatch.jobs.job import Status
from tests.buckets import Door, open_bucket
from tests.jobs.small import keep_workers, kept_workers
from tests.jobs.squares import expected, plan_job, run

SLOW: dict[str, Any] = {"count": 12, "squares": {"seconds": 0.05}}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with open_bucket() as url:
        yield url


@pytest.fixture(scope="module")
def shared_door(bucket: str) -> Iterator[Door]:
    found = Door(os.environ["AWS_ENDPOINT_URL"])
    yield found
    found.close()


@pytest.fixture(scope="module")
def kept() -> Iterator[list[processes.Child]]:
    with kept_workers() as found:
        yield found


def by_two(bucket: str) -> Spread:
    return Spread(workers=2, parts=f"{bucket}/parts")


def at(done: int, act: Any) -> Any:
    """Return a report that acts once, when so many parts are done."""
    left = [act]

    def report(status: Status) -> None:
        if status.done >= done and left:
            left.pop()()

    return report


def names(bucket: str) -> list[str]:
    return [item.name for item in open_storage(f"{bucket}/parts").names("")]


def test_parts_do_not_gather_there(bucket: str, tmp_path: Path) -> None:
    most: list[int] = []
    spread = by_two(bucket)
    run(tmp_path / "job", SLOW, spread, lambda status: most.append(len(names(bucket))))
    assert 0 < max(most) <= 4 + 2 * 2  # (and one part of each worker)
    assert not names(bucket)


@pytest.mark.parametrize(
    ("mode", "kind", "told", "done"),
    [
        (403, UsageError, "403 Forbidden; check the name, the credentials", 0),
        (503, UnfinishedError, "503 Service Unavailable; repeat the command later", 5),
        ("silent", UnfinishedError, "check the name, the credentials and the endpoint", 5),
    ],
)
def test_a_storage_at_fault_is_told_and_costs_no_part(
    shared_door: Door,
    kept: list[processes.Child],
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str | int,
    kind: type[HpabatchError],
    told: str,
    done: int,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", shared_door.address)
    monkeypatch.setenv("AWS_TIMEOUT", "1s")
    monkeypatch.setattr("hpabatch.history.store.objects.MAX_RETRIES", 0)
    keep_workers(monkeypatch, kept)

    def close() -> None:
        shared_door.mode = mode

    begin = time.monotonic()
    with pytest.raises(kind, match=rf"--parts: .*s3://bucket/parts.* {told}"):
        run(tmp_path / "job", SLOW, by_two(bucket), at(done, close))
    assert time.monotonic() - begin < 90
    shared_door.mode = "open"
    monkeypatch.delenv("AWS_TIMEOUT")
    seen: list[Status] = []
    assert run(tmp_path / "job", SLOW, by_two(bucket), seen.append) == expected(12)
    assert seen[0].resumed >= done


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3://user:secret@bucket/parts", "s3://bucket/parts"),
        ("s3://user:sec/ret@bucket/parts", "s3://bucket/parts"),
        ("s3://secret@bucket/parts", "s3://bucket/parts"),
        ("https://user:secret@host/parts", "https://host/parts"),
        (
            "abfs://user:secret@account.dfs.core.windows.net/x",
            "abfs://account.dfs.core.windows.net/x",
        ),
        ("abfs://container@account.dfs.core.windows.net/x?sig=secret", "abfs://account"),
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_shown(place: str, shown: str) -> None:
    job = plan_job({"count": 1})
    for open_it in (
        open_history,
        lambda url: executor.by_workers(Spread(workers=1, parts=url), job),
    ):
        with pytest.raises((HistoryError, UsageError)) as found:
            open_it(place)
        assert shown in str(found.value)
        assert "sec" not in str(found.value)


def test_a_secret_in_the_address_of_a_scheduler_is_refused() -> None:
    job = plan_job({"count": 1})
    with pytest.raises(UsageError, match="without user and password") as found:
        executor.by_workers(Spread(scheduler="tls://user:secret@host:8786"), job)
    assert "secret" not in str(found.value)
