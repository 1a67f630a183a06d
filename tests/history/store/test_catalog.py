"""The log of a store: what is missing, broken or newer is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError
from hpabatch.history.reader import open_history
from hpabatch.history.store import catalog
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.catalog import (
    LogEntry,
    decode_entry,
    encode_entry,
    entry_name,
    load_snapshot,
)
from hpabatch.history.store.storage import LocalStorage
from hpabatch.history.store.upkeep import compact
from tests.history.frames import frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = open_writer(tmp_path)
    for name in ("one", "two"):
        with writer.part(name) as part:
            part.add("pods", frame("pods").with_columns(node=pl.lit(name)))
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(HistoryError) as caught:
        open_history(folder)
    return str(caught.value)


def edit(folder: Path, number: int, **changes: Any) -> None:
    """Change fields of a commit, or of its first file where the field is one of a file's."""
    path = folder / entry_name(number)
    document = json.loads(path.read_bytes())
    for name, value in changes.items():
        (document if name in document else document["add"][0])[name] = value
    del document["digest"]
    path.write_text(json.dumps(document))


def test_entries_come_back(folder: Path) -> None:
    for number in (1, 2, 3):
        data = (folder / entry_name(number)).read_bytes()
        entry = decode_entry(data, "here")
        assert encode_entry(entry) == data
    checkpoint = LogEntry("", entry.add, ("x",), checkpoint=True, parts=("a", "b"))
    assert decode_entry(encode_entry(checkpoint), "here") == checkpoint
    early = json.loads(encode_entry(checkpoint)) | {"replaces": [[2, "ff"]]}
    del early["digest"]
    assert decode_entry(json.dumps(early).encode(), "here") == checkpoint


def test_a_missing_commit(folder: Path) -> None:
    (folder / entry_name(2)).unlink()
    assert "00000000000000000002.json is missing, though later commits exist" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}"])
def test_something_else_in_place_of_a_commit(folder: Path, content: bytes) -> None:
    (folder / entry_name(3)).write_bytes(content)
    text = refusal(folder)
    assert "00000000000000000003.json is a broken log entry (" in text
    assert "restore it from a copy" in text


def test_a_newer_schema(folder: Path) -> None:
    edit(folder, 3, schema=6)
    text = refusal(folder)
    assert "has schema version 6; this hpabatch reads up to 5: use a newer hpabatch" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "2"},
        {"part": 7},
        {"path": "../s/pods/x.parquet"},
        {"path": "pods/../../s/pods/x.parquet"},
        {"path": "/etc/passwd"},
        {"path": "_log/x"},
        {"table": "podz", "path": "podz/x.parquet"},
        {"table": "pod_states"},
        {"rows": 3},
        {"places": [["shop", ["cart"], [1]]]},
        {"places": [["shop", ["cart", "web"], [2]]]},
        {"cluster": None},
        {"rows": -2},
        {"rows": True},
        {"groups": [[2, 1]]},
        {"places": [["shop", ["cart"]]]},
        {"places": [["shop", [7], [2]]]},
        {"footer": [1]},
        {"first": "x"},
        {"fetched": [1]},
        {"fetched": [1, None]},
        {"remove": 7},
        {"add": {}},
        {"rows": 10**30},
        {"first": 10**18},
        {"first": -1},
        {"unfetched": [0, 10**30]},
    ],
)
def test_wrong_values_in_a_commit(folder: Path, changes: dict[str, Any]) -> None:
    edit(folder, 3, **changes)
    assert "is a broken log entry (" in refusal(folder)


def test_any_other_change_of_a_commit_is_noticed_by_its_digest(folder: Path) -> None:
    path = folder / entry_name(3)
    whole = path.read_bytes()
    for old, new in ((b'"cart"', b'"card"'), (b'"two"', b'"tow"'), (b'"digest"', b'"digesT"')):
        path.write_bytes(whole.replace(old, new))
        assert "is a broken log entry (" in refusal(folder)
    for place in range(0, len(whole) - 1, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(HistoryError):
            open_history(folder)


def test_a_commit_of_an_early_version_has_no_digest(folder: Path) -> None:
    edit(folder, 3)
    assert open_history(folder).read("pods")["node"].to_list() == ["two"] * 2


def test_a_commit_that_goes_away_while_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(folder)
    monkeypatch.setattr(LocalStorage, "read", lambda *_: None)
    with pytest.raises(HistoryError, match="went away while it was read; open it again"):
        load_snapshot(storage)


def test_a_compaction_between_listing_and_reading_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, numbers = LocalStorage(folder), catalog.log_numbers
    calls = []

    def list_then_compact(where: LocalStorage) -> list[int]:
        found = numbers(where)
        calls.append(found)
        if len(calls) == 1:
            monkeypatch.setattr(catalog, "log_numbers", numbers)
            compact(folder, grace_s=-1)
            monkeypatch.setattr(catalog, "log_numbers", list_then_compact)
        return found

    monkeypatch.setattr(catalog, "log_numbers", list_then_compact)
    assert load_snapshot(storage).number == 4
    assert calls == [[1, 2, 3], [4]]
