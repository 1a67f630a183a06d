"""CSV and Parquet that no exporter writes: accepted or a sentence, in bounded memory."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError, HpabatchError
from hpabatch.importers.table import files
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import open_file, read_chunks
from hpabatch.importers.table.propose.run import propose_map
from hpabatch.importers.table.propose.sample import read_sample
from hpabatch.importers.table.spill import number_rows
from tests.importers.tables import POD_MAP, import_table, write_csv, write_map

HEAD = "ts,app,pod,cpu,mem\n"
ROW = "1790000000,cart,cart-1,0.25,1000\n"
TEXT = HEAD + ROW * 3


def imported(path: str, folder: Path) -> None:
    import_table([path], write_map(folder, POD_MAP), None)


def proposed(path: str, folder: Path) -> None:
    propose_map([path])


READERS: dict[str, Callable[[str, Path], None]] = {"import": imported, "--init": proposed}
# A pattern of the sentence; with "" it may also be read.
ODD: dict[str, tuple[bytes, str]] = {
    "CR": (TEXT.replace("\n", "\r").encode(), "got a CR in it: convert the line ends"),
    "CR in a name": (TEXT.replace("mem", "m\rem").encode(), "got a CR in it"),
    "CR in a quoted name": (TEXT.replace("mem", '"m\rem"').encode(), "got a CR in it"),
    "CR LF and LF": ((HEAD.replace("\n", "\r\n") + ROW).encode(), ""),
    "a long name": ((("x" * 140_000) + "," + HEAD + "1," + ROW).encode(), "more than 128 KiB"),
    "a long cell": (("x," + HEAD + "y" * 140_000 + "," + ROW).encode(), ""),
    "a long header": (
        ("".join(f"x{k:020000}," for k in range(60)) + HEAD + "1," * 60 + ROW).encode(), ""
    ),
    "a lone quote": (HEAD.replace("app", 'a"pp').encode() + ROW.encode(), "app|name|cannot"),
    "an open quote": (('"' + TEXT).encode(), "cannot|column|name"),
    "NUL": (TEXT.replace("cart-1", "a\0b").encode(), "UTF-16 or binary"),
    "UTF-8 mark": (b"\xef\xbb\xbf" + TEXT.encode(), ""),
    "UTF-16": (TEXT.encode("utf-16"), "UTF-16 or binary"),
    "UTF-16 without a mark": (TEXT.encode("utf-16-le"), "UTF-16 or binary"),
    "empty": (b"", r"is empty \(0 bytes\)"),
    "one name": (b"ts", ""),
    "twice": (HEAD.replace("mem", "cpu").encode() + ROW.encode(), "two columns 'cpu'"),
    "an empty line": (("\n" + ROW).encode(), "expected column names in the first line"),
    "Latin-1 names": (b"\xe4,b\n1,2\n", "not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ODD)
def test_an_odd_csv_is_read_or_a_sentence(tmp_path: Path, name: str, reader: str) -> None:
    data, told = ODD[name]
    code, said = 0, ""
    try:
        READERS[reader](write_csv(tmp_path, data), tmp_path)
    except HpabatchError as error:
        code, said = error.exit_code, str(error)
    assert code in ((2,) if told else (0, 2, 3))
    assert re.search(told, said)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("x.csv.gz", gzip.compress(TEXT.encode() * 99)[:40], "cut off or damaged"),
        ("x.csv.gz", TEXT.encode(), "cannot be read"),
        ("x.parquet", TEXT.encode(), "expected Parquet"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(
    tmp_path: Path, name: str, data: bytes, told: str, reader: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        READERS[reader](write_csv(tmp_path, data, name), tmp_path)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
@pytest.mark.parametrize("data", ["x" * 5000, HEAD + ROW + "x" * 5000 + "\n" + ROW])
def test_a_line_that_no_table_has_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, name: str
) -> None:
    monkeypatch.setattr(files, "LINE_BYTES", 4096)
    monkeypatch.setattr(files, "_SAMPLE_BYTES", 512)
    packed = gzip.compress(data.encode()) if name.endswith(".gz") else data.encode()
    path = write_csv(tmp_path, packed, name)
    with pytest.raises(HistoryError, match="got a longer one: this is no table"):
        imported(path, tmp_path)
    if data.startswith("x"):
        with pytest.raises(HistoryError, match="got a longer one: this is no table"):
            proposed(path, tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_a_row_group_of_very_many_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(files, "_GROUP_VALUES", 100)
    path = str(tmp_path / "x.parquet")
    pl.DataFrame({name: range(60) for name in HEAD.strip().split(",")}).write_parquet(path)
    with pytest.raises(HistoryError, match="values in a row group, got 60 rows of 5 columns"):
        READERS[reader](path, tmp_path)


def test_init_refuses_more_columns_than_it_can_profile(tmp_path: Path) -> None:
    names = ",".join(f"x{k}" for k in range(10_001))
    with pytest.raises(HistoryError, match="expected at most 10,000 columns, got 10,001"):
        read_sample([Path(write_csv(tmp_path, f"{names}\n"))])


@pytest.mark.parametrize("kind", [pl.String(), pl.Categorical()])
def test_long_names_that_recur_are_read_in_smaller_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pl.DataType
) -> None:
    monkeypatch.setattr(files, "_CHUNK_BYTES", 1000)
    table = read_map(write_map(tmp_path, POD_MAP))
    row = {"ts": 1, "app": "a" * 100, "pod": "b", "cpu": 1.0, "mem": 1.0}
    frame = pl.DataFrame([row] * 40).with_columns(pl.col("app").cast(kind))
    frame.write_parquet(tmp_path / "x.parquet")
    pieces = list(read_chunks(open_file(tmp_path / "x.parquet", 0, table), table))
    assert max(rows.height for _, rows in pieces) <= 10
    assert [first for first, _ in pieces] == list(range(0, 40, pieces[0][1].height))
    assert sum(rows.height for _, rows in pieces) == 40


def test_keys_hold_no_strings_but_their_own() -> None:
    names = pl.DataFrame({"target": ["a" * 100] * 1000}).select(pl.all().str.strip_chars())
    keys, _ = number_rows(names)
    array = keys["target"].to_arrow(compat_level=pl.CompatLevel.newest())
    assert sum(part.size for part in array.buffers() if part is not None) < 1000
