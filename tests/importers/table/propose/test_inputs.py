"""Inputs of --init: malformed, empty, headerless, packed, large, several; and odd names."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError, HpabatchError, RefusedError, UsageError
from hpabatch.importers.table.propose.run import propose, propose_map
from hpabatch.importers.table.propose.sample import read_sample
from tests.importers.table.propose.makes import MAKES, per_pod
from tests.importers.tables import import_table, read_tables

HEAD = "time,pod,cpu\n"
ROW = "2026-10-07T10:00:00Z,cart-7d4b9c6f5-x2x9k,0.2\n"

BAD: dict[str, tuple[bytes, type[HpabatchError], str]] = {
    "no_rows.csv": (HEAD.encode(), HistoryError, "has column names, but no rows"),
    "no_header.csv": (ROW.encode() * 3, HistoryError, "got the value '2026-10-07T10:00:00Z'"),
    "unnamed.csv": (b"time,,cpu\n" + ROW.encode(), HistoryError, "a column without a name"),
    "no_time.csv": (b"pod,cpu\na,1\nb,2\n", UsageError, "expected a column of times"),
    "days.csv": (
        b"date,pod,cpu\n2026-10-07,a,1\n2026-10-08,a,2\n",
        UsageError,
        "in a known notation, found none among date, pod, cpu",
    ),
    "relative.csv": (b"second,pod,cpu\n0,a,1\n30,a,2\n", UsageError, "--start 2026-10-07T12"),
    "old.csv": (b"time,pod,cpu\n1,a,1\n2,a,2\n", UsageError, "expected a column of times"),
    "no_usage.csv": (b"time,pod\n2026-10-07 10:00,a\n", UsageError, "expected a column of usage"),
    "zone.csv": (  # its name alone does not say which one
        b"Zeitpunkt,pod,cpu\n2026-07-01 10:00:00 CET,a,1\n2026-07-01 10:01:00 CET,a,2\n",
        UsageError,
        "found none among Zeitpunkt, pod, cpu; export ISO 8601",
    ),
    "odd.csv": (
        b"time,pod,cpu\n3rd of May 10h00,a,1\n3rd of May 10h01,a,2\n",
        UsageError,
        "columns.time: {column: NAME, format: '%d.%m.%Y %H:%M:%S', zone: Europe/Berlin}",
    ),
    "notes.txt.csv": (b"hello\nworld\n", UsageError, "expected a column of times"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_inputs_are_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    data, kind, told = BAD[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(kind) as caught:
        propose_map([str(tmp_path / name)])
    assert told in str(caught.value)
    assert name in str(caught.value)


def test_rows_of_a_long_table_that_make_a_sample_together_are_all_usable(tmp_path: Path) -> None:
    rows = [
        f"2026-10-07T10:{minute:02}:00Z,web,{name},{value}"
        for minute in range(2)
        for name, value in (("cpu", 0.4), ("replicas", 2))
    ]
    (tmp_path / "long.csv").write_text("\n".join(["time,service,metric,value", *rows, ""]))
    (note,) = propose_map([str(tmp_path / "long.csv")]).notes
    assert note.endswith(": 4 of 4 checked rows usable, which make 2 samples")


def test_a_counter_of_whole_workloads_is_refused_plainly(tmp_path: Path) -> None:
    rows = [f"{1_790_000_000 + 60 * k},web,2,{k * 13}" for k in range(40)]
    source = tmp_path / "sum.csv"
    source.write_text("\n".join(["ts,service,replicas,cpu_seconds_total", *rows]))
    with pytest.raises(UsageError, match="a counter of all pods together"):
        propose_map([str(source)])


def test_packed_and_parquet_give_the_same_map(tmp_path: Path) -> None:
    text = per_pod().text
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    pl.read_csv(tmp_path / "a.csv", try_parse_dates=True).write_parquet(tmp_path / "a.parquet")
    plain, packed, parquet = (
        [line for line in propose_map([str(tmp_path / f"a.{end}")]).text.splitlines()
         if not line.strip().startswith("#")]
        for end in ("csv", "csv.gz", "parquet")
    )  # fmt: skip
    assert plain == packed == parquet


def test_several_files_and_a_folder(tmp_path: Path) -> None:
    text = per_pod().text.splitlines(keepends=True)
    for number in range(10):
        part = text[1 + 15 * number : 16 + 15 * number]
        (tmp_path / f"day-{number}.csv").write_text(text[0] + "".join(part))
    found = propose_map([str(tmp_path)])
    assert "day-0.csv and 9 more files" in found.text
    place = tmp_path / "map.yaml"
    place.write_text(found.text)
    assert import_table([str(tmp_path)], place, None).written["pod_metrics"] == 150


def test_of_a_large_file_the_beginning_is_read(tmp_path: Path) -> None:
    source, begin = tmp_path / "large.csv", 1_790_000_000
    lines = (f"{begin + k},web-{k % 3},0.5,{'x' * 60}\n" for k in range(250_000))
    source.write_text("ts,pod,cpu,note\n" + "".join(lines))
    sample = read_sample([source])
    assert not sample.whole
    assert sample.frame.height < 230_000
    assert abs(sample.rows - 250_000) < 10_000
    parquet = tmp_path / "large.parquet"
    pl.concat([pl.read_csv(source)] * 5).write_parquet(parquet, row_group_size=1 << 16)
    sample = read_sample([parquet])
    assert (sample.whole, sample.rows) == (False, 1_250_000)
    assert sample.frame.height < 300_000


@pytest.mark.parametrize(
    "column", ["it's, odd: #1", "on", 'say "hi"', "zwölf", "two\nlines", "{a: b}", "null", "7"]
)
def test_odd_names_of_columns_are_quoted(tmp_path: Path, column: str) -> None:
    times = [f"2026-10-07T10:{minute:02}:00Z" for minute in range(4)]
    frame = pl.DataFrame({"time": times, column: list("abab"), "cpu": [0.1, 0.2, 0.3, 0.4]})
    frame = frame.with_columns(replicas=2)
    frame.write_parquet(tmp_path / "a.parquet")
    found = propose_map([str(tmp_path / "a.parquet")])
    (tmp_path / "map.yaml").write_text(found.text)
    result = import_table([str(tmp_path / "a.parquet")], tmp_path / "map.yaml", None)
    assert result.workloads["target"].to_list() == ["a", "b"]


def test_a_percentage_says_what_must_be_stated(tmp_path: Path) -> None:
    rows = [f"2026-10-07T10:{m:02}:00Z,web-0,{10 + m}.5" for m in range(20)]
    (tmp_path / "pct.csv").write_text("\n".join(["time,pod,cpu_percent_of_request", *rows]))
    text = propose_map([str(tmp_path / "pct.csv")]).text.replace("\n  #   ", " ")
    assert "a percentage of a request of 1; write the right number of cores" in text
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(tmp_path / "pct.csv")], tmp_path / "map.yaml", tmp_path / "h")
    assert result.written["pod_metrics"] == 20
    tables = read_tables(tmp_path / "h")
    assert tables["pod_metrics"].sort("ts")["cpu_milli"][0] == 105
    assert tables["pod_requests"]["cpu_milli"].to_list() == [1000]


def test_a_table_without_cpu_or_memory_has_a_pods_metric(tmp_path: Path) -> None:
    rows = [f"2026-10-07T10:{m:02}:00Z,web,{2 + m % 2},{100 + m}" for m in range(20)]
    (tmp_path / "rps.csv").write_text("\n".join(["time,service,replicas,requests_per_s", *rows]))
    text = propose_map([str(tmp_path / "rps.csv")]).text
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(tmp_path / "rps.csv")], tmp_path / "map.yaml", None)
    assert result.written["pod_custom_metrics"] > 0
    assert result.workloads["hpa"].to_list() == ["web"]


def test_no_row_that_can_be_imported_is_refused(tmp_path: Path) -> None:
    rows = [f"2026-10-07T10:{m:02}:00Z,web-0,-5" for m in range(20)]
    (tmp_path / "bad.csv").write_text("\n".join(["time,pod,cpu", *rows]))
    with pytest.raises(RefusedError, match="20 rows: cpu is negative"):
        propose_map([str(tmp_path / "bad.csv")])


def test_a_map_is_never_replaced(tmp_path: Path) -> None:
    source, place = tmp_path / "usage.csv", tmp_path / "new" / "map.yaml"
    source.write_text(MAKES[0].text)
    found = propose([str(source)], str(place))
    assert place.read_text() == found.text
    place.write_text("mine")
    with pytest.raises(UsageError, match="replaces no map: name a new file"):
        propose([str(source)], str(place))
    assert place.read_text() == "mine"
    assert [item.name for item in place.parent.iterdir()] == ["map.yaml"]


def test_columns_that_only_look_like_names_and_kinds(tmp_path: Path) -> None:
    """A `kind` without kinds, pods whose names no object has, a cluster, a uid."""
    rows = [
        f"2026-10-07T10:{m:02}:00Z,eu,A/{pod},uid-{pod},3.5,0.25"
        for m in range(20)
        for pod in range(2)
    ]
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["time,cluster,pod,uid,kind,cpu", *rows]))
    text = propose_map([str(source)]).text
    assert "not used: kind" in text
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(source)], tmp_path / "map.yaml", None)
    assert result.workloads["target"].to_list() == ["a-0", "a-1"]
    assert result.workloads["cluster"].unique().to_list() == ["eu"]


def test_statefulsets_of_a_column_and_pods_that_are_ready(tmp_path: Path) -> None:
    rows = [f"2026-10-07T10:{m:02}:00Z,db,db-{m % 2},true,0.25" for m in range(20)]
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["time,statefulset,pod,ready,cpu", *rows]))
    text = propose_map([str(source)]).text
    assert "kind: {value: StatefulSet}" in text
    assert "ready: ready" in text


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (["07/10/2026 10:00", "08/10/2026 10:00"], "the day stands before the month; else format"),
        (
            [f"2026-10-07 10:0{m}:00 +0000 UTC" for m in range(2)],
            "format: '%Y-%m-%d %H:%M:%S %z UTC'",
        ),
        (["20261007T100000Z", "20261007T100100Z"], "zone: UTC, format: '%Y%m%dT%H%M%SZ'"),
        (["1790000000.5", "1790000060.5"], "unit: s}"),
        (["1790000000000000", "1790000060000000"], "unit: us}"),
    ],
)
def test_notations_of_times(tmp_path: Path, times: list[str], told: str) -> None:
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["time,pod,cpu", *(f"{text},web-0,0.5" for text in times)]))
    text = propose_map([str(source)]).text
    for part in told.split("|"):
        assert part in text.replace("\n  #   ", " ")
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(source)], tmp_path / "map.yaml", None)
    assert (result.rows_read, result.dropped) == (2, {})


def test_a_time_by_its_type_alone(tmp_path: Path) -> None:
    times = pl.datetime_range(
        pl.datetime(2026, 10, 7), pl.datetime(2026, 10, 7, 1), "1m", eager=True
    )
    frame = pl.DataFrame({"when it was": times, "pod": "web-0", "cpu": 0.5})
    frame.write_parquet(tmp_path / "a.parquet")
    text = propose_map([str(tmp_path / "a.parquet")]).text
    assert "time: {column: 'when it was', zone: UTC}" in text


def test_files_whose_times_differ_in_notation_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + ROW * 5)
    (tmp_path / "b.csv").write_text(HEAD + "1791367200,cart-7d4b9c6f5-x2x9k,0.2\n" * 5)
    with pytest.raises(UsageError, match="found none among time, pod, cpu"):
        propose_map([str(tmp_path)])


def test_a_faulty_time_does_not_make_the_zone_of_the_others_an_assumption(tmp_path: Path) -> None:
    rows = "".join(ROW.replace("10:00", f"10:{k:02}") for k in range(30))
    (tmp_path / "a.csv").write_text(HEAD + "yesterday,cart-7d4b9c6f5-x2x9k,0.2\n" + rows)
    found = propose_map([str(tmp_path)])
    assert "# ISO 8601 with an offset\n  time: time\n" in found.text
    (left,) = [note for note in found.notes if note.startswith("left out: ")]
    assert left == "left out: 1 row: no such time (the first is row 1 of a.csv: 'yesterday')"
