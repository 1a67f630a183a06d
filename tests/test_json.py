"""JSON from outside: the decoder's bounds, and every place that reads what others may write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpabatch._json import MAX_DEPTH, decode_json
from hpabatch.cli.recommend_files import check_folder
from hpabatch.errors import HistoryError, HpabatchError
from hpabatch.history.checks import decode_cell
from hpabatch.history.store.storage import LocalStorage
from hpabatch.jobs.advise import INDEX as ADVICE_INDEX
from hpabatch.jobs.advise import AdviceFolder
from hpabatch.jobs.folder import RECORD, Identity, open_job, read_record
from hpabatch.jobs.parts_place import PartsPlace, job_name
from hpabatch.jobs.publish import EVIDENCE_FILE, is_result_folder
from hpabatch.jobs.sweep_files import ABOUT, read_sweep, sweep_origin
from hpabatch.live.apply import ledger
from hpabatch.live.record.segments import ObjectLease
from hpabatch.report.recommend_files import INDEX as PATCHES_INDEX

DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = {
    "nothing": "",
    "cut short": '{"a": ',
    "no JSON": "NaN",
    "null": "null",
    "a list": "[]",
    "lists": "[[], null, 7]",
    "deep": DEEP,
    "deep inside": f'{{"a": {DEEP}, "format": {DEEP}, "parts": {DEEP}, "files": {DEEP}}}',
    "just too deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "huge integer": "1" * 100_000,
    "huge fields": json.dumps(dict.fromkeys(("format", "job", "kind", "files", "until"), 10**400)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_no_code_expects_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A.{3,200}\Z"):
        decode_json(text, dict[str, Any] if text in ("null", "[]") else dict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"a\uDC00b"', "a\ufffdb"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\n\\\ud800"', "\n\\\ufffd"),
    ],
)
def test_half_surrogate_pairs_are_replaced_as_go_does(text: str, value: str) -> None:
    assert decode_json(text, str) == decode_json(text.encode(), str) == value


def test_documents_up_to_the_bounds_are_decoded() -> None:
    document = {"a": [2**63 - 1, -(2**63), 1e300, "é", None, True], "b": {}}
    assert decode_json(json.dumps(document), dict) == document
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert decode_json(deepest, list) is not None
    with pytest.raises(ValueError, match="expected at most 9 bytes of JSON, got 10"):
        decode_json('{"a": 1}  ', dict, 9)
    with pytest.raises(ValueError, match="expected integers of 64 bits, got a larger one"):
        decode_json(f'{{"a": [{2**63}]}}', dict)
    with pytest.raises(ValueError, match=f"expected at most {MAX_DEPTH} levels of nesting"):
        decode_json(f"[{deepest}]", list)


# ---- the places --------------------------------------------------------------------------------

IDENTITY = Identity("f" * 64, {"count": "1"})


def of_sweep(folder: Path, text: str) -> None:
    (folder / ABOUT).write_text(text)
    assert sweep_origin(folder) is None
    with pytest.raises(HistoryError, match="is not the folder of a sweep"):
        read_sweep(folder)


def of_advice(folder: Path, text: str) -> None:
    (folder / ADVICE_INDEX).write_text(text)
    with pytest.raises(HpabatchError, match="name a new folder"):
        AdviceFolder(folder).check()


def of_patches(folder: Path, text: str) -> None:
    (folder / PATCHES_INDEX).write_text(text)
    (folder / "web.yaml").write_text("")
    with pytest.raises(HpabatchError, match="which is no earlier recommendation"):
        check_folder(folder)


def of_results(folder: Path, text: str) -> None:
    (folder / EVIDENCE_FILE).write_text(text)
    assert not is_result_folder(folder)


def of_job(folder: Path, text: str) -> None:
    with open_job(folder / "job", IDENTITY) as job, job.task("000000"):
        pass
    (folder / "job" / "job.json").write_text(text)
    with open_job(folder / "job", IDENTITY, replace=True) as job:
        (job.tasks / "000001").mkdir()
        (job.tasks / "000001" / RECORD).write_text(text)
        assert read_record(job.tasks / "000001", IDENTITY.fingerprint) is None


def of_parts(folder: Path, text: str) -> None:
    with open_job(folder / "job", IDENTITY) as job:
        part = folder / "parts" / job_name(job) / "000001"
        part.mkdir(parents=True)
        (part / RECORD).write_text(text)
        assert not PartsPlace(str(folder / "parts"), job_name(job)).fetch("000001", job)


def of_recorder(folder: Path, text: str) -> None:
    storage = LocalStorage(folder)
    lease = ObjectLease(storage, "east")
    name = storage.names(lease._folder)[-1].name
    (folder / name).write_text(text)
    ObjectLease(storage, "east", clock_s=lambda: 2.0**40, owner="another").release()


def of_config_maps(folder: Path, text: str) -> None:
    assert ledger._decoded(text) == []


def of_cells(folder: Path, text: str) -> None:
    with pytest.raises(HistoryError, match=r"pods\.labels: "):
        decode_cell(text, dict[str, str], "pods.labels")


READERS: tuple[Callable[[Path, str], None], ...] = (
    of_sweep, of_advice, of_patches, of_results, of_job, of_parts, of_recorder, of_config_maps,
    of_cells,
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_survives_it(
    reader: Callable[[Path, str], None], text: str, tmp_path: Path
) -> None:
    reader(tmp_path, text)


@pytest.mark.parametrize("name", ["../escaped", "..", "", "a/b"])
def test_a_part_names_only_files_of_its_own_folder(name: str, tmp_path: Path) -> None:
    of_parts(tmp_path, json.dumps({"job": "f" * 64, "files": {name: 0}, "record": {}}))
