"""A store in an object storage whose network fails in the middle of a request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store import objects
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import open_storage
from hpabatch.history.store.upkeep import check_history, compact, migrate
from hpabatch.history.store.writer import write_table
from hpabatch.live.record.segments import ObjectLease
from tests.history.frames import frame
from tests.history.store.faulty import CUT, EXPIRED, LOST, Faults, faulty
from tests.history.store.test_objects import bucket, url

__all__ = ["bucket", "url"]


@contextmanager
def failing(faults: Faults, retries: int = 1) -> Iterator[Faults]:
    """Let requests meet faults; each must have met one at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "MAX_RETRIES", retries)
        patch.setattr(objects, "_PAUSE_S", 0.0)
        with faulty(os.environ["AWS_ENDPOINT_URL"], faults) as endpoint:
            patch.setenv("AWS_ENDPOINT_URL", endpoint)
            yield faults
    assert faults.met


def fill(url: str) -> None:
    with open_writer(url).part("one") as part:
        for table in ("pods", "scales"):
            part.add(table, frame(table))


def names(url: str) -> list[tuple[str, int]]:
    return [(item.name, item.size) for item in open_storage(url).names("")]


def test_a_commit_whose_response_was_lost_is_recognised(url: str) -> None:
    for number in range(3):
        with failing(Faults(LOST, "PUT", f"_log/{number + 1:020d}")):
            writer = open_writer(url)
            if number:
                with writer.part(f"{number}") as part:
                    part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(number)))
    assert open_history(url).read("scales")["spec_replicas"].to_list() == [2]
    assert [name for name, _ in names(url) if "_log" in name] == [
        f"_log/{number:020d}.json" for number in (1, 2, 3)
    ]
    assert not open_storage(url).create(f"_log/{3:020d}.json", b"of another writer")


def test_a_lease_whose_response_was_lost_is_taken(url: str) -> None:
    now_s = [0.0]
    with failing(Faults(LOST, "PUT", "_work/", count=2), retries=2):
        storage = open_storage(url)
        lease = ObjectLease(storage, "demo", lambda: now_s[0])
        now_s[0] = 60.0
        lease.renew()
        with pytest.raises(UsageError, match="records cluster demo there"):
            ObjectLease(storage, "demo", lambda: now_s[0])


def test_a_list_that_was_cut_is_asked_for_again(url: str) -> None:
    fill(url)
    with failing(Faults(CUT, "GET", "list-type")):
        assert open_history(url).read("pods").height
    with (
        failing(Faults(CUT, "GET", "list-type", count=99)) as faults,
        pytest.raises(HistoryError, match="body error; repeat the command later"),
    ):
        open_history(url)
    assert len(faults.met) == 2


@pytest.mark.parametrize(("kind", "method"), [(EXPIRED, "PUT"), (LOST, "PUT"), (CUT, "GET")])
def test_what_broke_off_is_finished_by_the_same_call(
    url: str, tmp_path: Path, kind: str, method: str
) -> None:
    old = tmp_path
    for table in ("pods", "scales"):
        write_table(frame(table), old / f"{table}.parquet", table)
    migrate(old, f"{url}/whole")
    faults = Faults(kind, method, "_log/0000", count=99)
    open_writer(f"{url}/broken")
    with failing(faults, retries=0), pytest.raises((HistoryError, UsageError)):
        migrate(old, f"{url}/broken")
    assert set(check_history(open_history(f"{url}/broken"))["file"]) <= {""}
    migrate(old, f"{url}/broken")
    assert names(f"{url}/broken") == names(f"{url}/whole")
    assert set(check_history(open_history(f"{url}/broken"))["file"]) <= {""}


@pytest.mark.parametrize(("method", "part_of_path"), [("PUT", "_log/"), ("POST", "delete")])
def test_a_compaction_that_broke_off_is_finished_by_the_next(
    url: str, method: str, part_of_path: str
) -> None:
    for place in ("whole", "broken"):
        fill(f"{url}/{place}")
        with open_writer(f"{url}/{place}").part() as part:
            part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(5)))
    compact(f"{url}/whole", grace_s=-1)
    with (
        failing(Faults(LOST, method, part_of_path, count=99), retries=0),
        pytest.raises(UsageError, match="cannot write"),
    ):
        compact(f"{url}/broken", grace_s=-1)
    assert open_history(f"{url}/broken").read("scales")["spec_replicas"].to_list() == [5]
    compact(f"{url}/broken", grace_s=-1)
    assert names(f"{url}/broken") == names(f"{url}/whole")


@pytest.mark.parametrize(
    ("kind", "retries", "advice"),
    [
        (EXPIRED, 2, "answered 403 Forbidden; check the name, the credentials and the endpoint"),
        (CUT, 3, "response body error; repeat the command later"),
    ],
    ids=["expired", "cut"],
)
def test_data_that_cannot_be_fetched_are_not_called_broken(
    url: str, kind: str, retries: int, advice: str
) -> None:
    fill(url)
    history = open_history(url)
    assert isinstance(history, StoreHistory)
    for file in history.snapshot.files:
        history.data_files.verify(file)
    # Polars keeps a connection for each number of retries: another one looks for the endpoint.
    with (
        failing(Faults(kind, "GET", "/pods/", count=99), retries),
        pytest.raises(HistoryError) as raised,
    ):
        history.read("pods")
    text = str(raised.value)
    assert "cannot be read: " in text
    assert text.endswith(advice)
    assert "127.0.0.1" not in text


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a/../b", "./a"])
def test_a_url_that_would_be_taken_for_another_is_refused(bucket: str, name: str) -> None:
    with pytest.raises(HistoryError, match=r"expected a URL .* got s3://"):
        open_storage(f"{bucket}/{name}")
    with pytest.raises(HistoryError, match="name another place"):
        open_writer(f"{bucket}/{name}/history")
