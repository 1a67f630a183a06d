"""A store in an object storage: the same code path, against a server that speaks S3's protocol."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.info import describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.store import objects
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.objects import ObjectStorage
from hpabatch.history.store.storage import as_url, open_storage
from hpabatch.history.store.upkeep import check_history
from tests.buckets import open_bucket
from tests.cluster.fake_api import serving
from tests.history.frames import ROWS, frame


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Yield the URL of an empty bucket on loopback; the environment names its server."""
    with open_bucket() as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "MAX_RETRIES", 0)
        yield url


@pytest.fixture
def url(bucket: str, request: pytest.FixtureRequest) -> str:
    """Return a URL below the bucket that no other test uses."""
    return f"{bucket}/{request.node.name}/history"


def fill(url: str) -> str:
    writer = open_writer(url)
    for name in ("one", "two"):
        with writer.part(name) as part:
            for table in ROWS:
                part.add(table, frame(table))
    return url


def test_a_store_is_the_same_there_and_here(url: str, tmp_path: Path) -> None:
    fill(url)
    local, remote = open_history(fill(str(tmp_path))), open_history(url, "replay")
    assert remote.tables == local.tables
    assert remote.digests() == local.digests()
    assert remote.location == url
    for table in ROWS:
        assert_frame_equal(remote.read(table), local.read(table))
        assert_frame_equal(remote.sizes(table), local.sizes(table))
    selected = remote.select("pod_metrics", "demo", [("shop", "cart")], columns=["uid", "ts"])
    assert_frame_equal(selected, local.read("pod_metrics", ["uid", "ts"]))
    assert check_history(remote).is_empty()
    assert describe_history(remote).problems == ()


def test_a_path_that_lost_a_slash_is_the_url(url: str) -> None:
    fill(url)
    path = Path(url)
    assert as_url(path) == url
    assert open_history(path).location == url
    # So commands may ask for `History.path` and `.files` without harm.
    assert not open_history(path).path.exists()
    assert as_url(Path("s3")) is None
    assert as_url("history") is None


def test_a_damaged_object_is_refused(url: str) -> None:
    fill(url)
    storage = ObjectStorage(url)
    (name,) = (item.name for item in storage.names("pods"))
    content = storage.read(name) or b""
    for changed in (content[:-1], content[:-20] + b"x" * 12 + content[-8:]):
        obstore.put(storage._store, name, changed)
        with pytest.raises(HistoryError, match=r"was cut short or changed|was changed after"):
            open_history(url).read("pods")
    storage.delete([name])
    with pytest.raises(HistoryError, match="is missing, though the log names it"):
        open_history(url).read("pods")
    assert check_history(open_history(url))["table"].to_list() == ["pods"]
    assert "restore it" in describe_history(open_history(url)).problems[0]


def test_a_service_that_is_overloaded_is_told_from_a_wrong_name(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url)
    before = [(item.name, item.size) for item in open_storage(url).names("")]
    with serving(lambda got, wire: wire.reply(503)) as server, monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        advice = "the server answered 503 Service Unavailable; repeat the command later"
        with pytest.raises(HistoryError, match=advice):
            open_history(url)
        with pytest.raises(UsageError, match=advice):
            open_storage(url).create("x", b"x")
    assert [(item.name, item.size) for item in open_storage(url).names("")] == before
    assert check_history(open_history(url)).is_empty()


def test_reading_errors_are_sentences(url: str) -> None:
    with pytest.raises(HistoryError, match="holds no store"):
        open_history(url)
    with pytest.raises(HistoryError, match="the server answered 404 Not Found; check the name"):
        open_history("s3://no-such-bucket/history")
    with pytest.raises(HistoryError, match="404 Not Found"):
        open_writer("s3://no-such-bucket/history")
    with pytest.raises(HistoryError, match="cannot be used as a store"):
        open_history("s3://")
    with pytest.raises(UsageError, match="cannot write s3://no-such-bucket/x/a"):
        open_storage("s3://no-such-bucket/x").create("a", b"")


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] == "obstore":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **more)

    monkeypatch.delitem(sys.modules, "hpabatch.history.store.objects")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HistoryError, match=r"needs the package obstore; install hpabatch\[s3\]"):
        open_history("s3://bucket/history")


def test_other_schemes_are_refused() -> None:
    with pytest.raises(HistoryError, match="a local folder, or a store at one of s3://, gs://"):
        open_history("ftp://host/history")


@pytest.mark.parametrize("scheme", ["gs", "abfs"])
def test_the_other_services_have_their_own_stores(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    storage = open_storage(f"{scheme}://container/history/")
    assert storage.url("_log/x") == f"{scheme}://container/history/_log/x"


def test_the_end_of_an_object(url: str) -> None:
    """The size is asked for first: Azure refuses to give "the last bytes"."""
    storage = open_storage(url)
    storage.create("x", b"0123456789")
    storage.create("nothing", b"")
    assert storage.tail("x", 3) == (10, b"789")
    assert storage.tail("x", 30) == (10, b"0123456789")
    assert storage.tail("x", 0) == (10, b"")
    assert storage.tail("nothing", 3) == (0, b"")
    assert storage.tail("absent", 3) is None
