"""Tables as they come: separators, marks, broken files, faulty rows; each told and counted."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hpabatch.errors import HistoryError, HpabatchError, RefusedError, UsageError
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import find_files, open_file, read_chunks
from hpabatch.importers.table.propose.run import propose_map
from hpabatch.importers.table.rows import FRACTION
from tests.importers.tables import (
    BEGIN_S,
    POD_MAP,
    WORKLOAD_MAP,
    import_table,
    merged,
    read_tables,
    run_import,
    write_csv,
    write_map,
)

HEAD = "ts,app,pod,cpu,mem\n"
ROW = f"{BEGIN_S},cart,cart-1,0.25,1000\n"
INFLUX = "#group,false,false\n#datatype,string,long\n#default,mean,\n"


def usage(tables: dict[str, pl.DataFrame]) -> list[tuple[int, int]]:
    return tables["pod_metrics"].select("cpu_milli", "memory_bytes").rows()


@pytest.mark.parametrize(
    "data",
    [
        HEAD + ROW,
        "\ufeff" + HEAD + ROW,
        (HEAD + ROW).replace(",", ";"),
        (HEAD + ROW).replace(",", "\t"),
        (HEAD + ROW).replace(",", "|"),
        (HEAD + ROW).replace("\n", "\r\n"),
        HEAD + ROW.replace("cart-1", '" cart-1 "'),
        "x,ts,app,pod,cpu,mem\n" + "1," + ROW,
        "sep=,\n" + HEAD + ROW,
        "\ufeffsep=;\r\n" + (HEAD + ROW).replace(",", ";").replace("\n", "\r\n"),
        '"sep=|"\n' + (HEAD + ROW).replace(",", "|"),
        HEAD + ROW.strip(),
        INFLUX + HEAD + ROW,
        INFLUX + f",table,{HEAD},0,{ROW}",
        INFLUX + f",table,{HEAD},0,{ROW}\n{INFLUX},table,{HEAD}",
    ],
)
def test_a_csv_is_read_however_it_is_written(tmp_path: Path, data: str) -> None:
    result, tables = run_import(tmp_path, POD_MAP, data)
    assert usage(tables) == [(250, 1000)]
    assert tables["pods"]["pod"].to_list() == ["cart-1"]
    assert (result.rows_read, result.dropped) == (1, {})


def test_tables_of_an_annotated_csv_have_the_same_columns(tmp_path: Path) -> None:
    data = INFLUX + f",table,{HEAD},0,{ROW}\n{INFLUX},table,{HEAD.replace('cpu,mem', 'mem,cpu')}"
    with pytest.raises(HistoryError, match="each table to its own file"):
        run_import(tmp_path, POD_MAP, data)


def test_decimal_commas_are_refused_or_mapped(tmp_path: Path) -> None:
    data = HEAD.replace(",", ";") + ROW.replace(",", ";").replace("0.25", "0,25")
    with pytest.raises(HistoryError, match=r"decimal commas \('0,25'\): say `decimal: comma`"):
        run_import(tmp_path, POD_MAP, data)
    _, tables = run_import(tmp_path, merged(POD_MAP, {"format": {"decimal": "comma"}}), data)
    assert usage(tables) == [(250, 1000)]


def test_gzip_and_several_files_and_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.csv.gz").write_bytes(gzip.compress((HEAD + ROW).encode()))
    write_csv(tmp_path / "in" / "deep", HEAD + ROW.replace("cart-1", "cart-2"), "b.tsv")
    write_csv(tmp_path / "in", "not a table", ".hidden.csv")
    write_csv(tmp_path / "in", "not a table", "readme.md")
    path = write_map(tmp_path, POD_MAP)
    for k, inputs in enumerate((["in"], ["in/*.gz", "in/**/*.tsv"], ["in", "in/a.csv.gz"])):
        places = [str(tmp_path / text) for text in inputs]
        result = import_table(places, path, tmp_path / f"out{k}")
        assert result.written["pods"] == 2
        assert len(result.files) == 2


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (HEAD + 2 * ROW + ROW.replace("\n", ",7\n"), r"more fields than the header.* \(line 4\)"),
        (HEAD + ROW + '1,"a,b\n', r"cannot be read: a quote is not closed \(line 3\)"),
        (HEAD.encode() + b"1,\xe4,b,1,1\n", r"cannot be read: it is not UTF-8.* \(line 2\)"),
    ],
)
def test_a_broken_csv_is_told_with_its_line(tmp_path: Path, data: str | bytes, told: str) -> None:
    with pytest.raises(HistoryError, match=told):
        run_import(tmp_path, POD_MAP, data)


def test_inputs_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.xlsx").write_text("")
    for text, told in (
        ("none.csv", "no such file"),
        ("folder", "no such file, folder or pattern"),
        ("*.csv", "no such file"),
        ("x.xlsx", "neither Parquet nor CSV"),
    ):
        with pytest.raises(UsageError, match=told):
            find_files([str(tmp_path / text)])


FAULTS: list[tuple[str, str]] = [
    ("ts", ""),
    ("ts", "yesterday"),
    ("ts", "5"),
    ("ts", "9999999999999"),
    ("app", ""),
    ("pod", "NA"),
    ("cpu", "a lot"),
    ("cpu", "-0.1"),
    ("cpu", "inf"),
    ("cpu", "1e300"),
    ("mem", "1e16"),
    ("mem", "-5"),
]
REASONS = [
    "no time",
    "no such time",
    "time before 2000 or after 2100",
    "time before 2000 or after 2100",
    "no workload",
    "no pod",
    "cpu is not a number",
    "cpu is negative",
    "cpu is not a number",
    "cpu is impossibly large",
    "memory is impossibly large",
    "memory is negative",
]


def faulty(column: str, value: str) -> str:
    cells = dict(zip(HEAD.strip().split(","), ROW.strip().split(","), strict=True))
    return ",".join((cells | {column: value}).values()) + "\n"


@pytest.mark.parametrize(("fault", "reason"), list(zip(FAULTS, REASONS, strict=True)))
def test_a_faulty_row_is_left_out_and_counted(
    tmp_path: Path, fault: tuple[str, str], reason: str
) -> None:
    data = HEAD + ROW + faulty(*fault)
    result, tables = run_import(tmp_path, POD_MAP, data)
    assert result.dropped == {reason: 1}
    assert usage(tables) == [(250, 1000)]


def test_cells_without_a_value_are_null_and_rows_without_any_are_left_out(tmp_path: Path) -> None:
    rows = [faulty("cpu", "NaN"), faulty("mem", ""), faulty("cpu", "NaN").replace(",1000", ",")]
    data = HEAD + "".join(row.replace(str(BEGIN_S), str(BEGIN_S + k)) for k, row in enumerate(rows))
    result, tables = run_import(tmp_path, POD_MAP, data)
    assert usage(tables) == [(None, 1000), (250, None)]
    assert result.dropped == {"no value": 1}


def test_duplicates_in_any_order_the_last_one_counts(tmp_path: Path) -> None:
    other = ROW.replace("0.25", "0.5")
    later = ROW.replace(str(BEGIN_S), str(BEGIN_S + 60))
    result, tables = run_import(tmp_path, POD_MAP, HEAD + later + ROW + later + other)
    assert usage(tables) == [(500, 1000), (250, 1000)]
    assert result.duplicates == 2
    assert any("2 rows with the key of a later row" in text for text in result.warnings)


def test_no_row_left_is_refused_and_names_the_reason(tmp_path: Path) -> None:
    for content, data, told in (
        (POD_MAP, HEAD, "the input has no rows"),
        (POD_MAP, HEAD + faulty("ts", "1"), "none of 1 row is left: 1 row: time before 2000"),
        (merged(POD_MAP, {"where": "app = 'x'"}), HEAD + ROW, "no row fulfils `where`"),
    ):
        with pytest.raises(RefusedError, match=told):
            run_import(tmp_path, content, data)


def test_sql_of_a_csv_sees_texts_and_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"where 'mem > 5': .*write CAST\(x AS DOUBLE\)"):
        run_import(tmp_path, merged(POD_MAP, {"where": "mem > 5"}), HEAD + ROW)
    said = {"where": "CAST(mem AS DOUBLE) > 5 AND _time_ms > 0"}
    result, _ = run_import(tmp_path, merged(POD_MAP, said), HEAD + ROW + faulty("mem", "1"))
    assert (result.rows_excluded, result.dropped) == (1, {})


TYPES: list[tuple[str, Any, str | None]] = [
    ("cpu", pl.Series([True]), "no number"),
    ("cpu", pl.Series([[1.0]]), "no number"),
    ("cpu", pl.Series(["0.25"]), None),
    ("cpu", pl.Series([0.25], dtype=pl.Float32), None),
    ("cpu", pl.Series(["0.25"]).cast(pl.Decimal(10, 3)), None),
    ("pod", pl.Series([7]), None),
    ("pod", pl.Series(["cart-1"], dtype=pl.Categorical), None),
    ("pod", pl.Series([["a"]]), "no text"),
    ("ts", pl.Series([datetime.fromtimestamp(BEGIN_S, UTC)]), "drop columns.time.unit"),
]


@pytest.mark.parametrize(("column", "values", "told"), TYPES)
def test_parquet_of_any_type_is_read_or_refused(
    tmp_path: Path, column: str, values: pl.Series, told: str | None
) -> None:
    row = {"ts": [BEGIN_S], "app": ["cart"], "pod": ["cart-1"], "cpu": [0.25], "mem": [1000]}
    frame = pl.DataFrame(row).with_columns(values.alias(column))
    if told is None:
        assert usage(run_import(tmp_path, POD_MAP, frame)[1]) == [(250, 1000)]
    else:
        with pytest.raises(HistoryError, match=told):
            run_import(tmp_path, POD_MAP, frame)


@pytest.mark.parametrize("zone", ["+05:30", "UTC+2"])
def test_parquets_own_times_are_utc_in_any_zone(tmp_path: Path, zone: str) -> None:
    row = {"app": ["cart"], "pod": ["cart-1"], "cpu": [0.25], "mem": [1000]}
    ts = pa.array([BEGIN_S * 1000], pa.timestamp("ms", tz=zone))
    source = tmp_path / "usage.parquet"
    pq.write_table(pa.table({"ts": ts, **row}), source)
    assert propose_map([str(source)]).text
    content = {**POD_MAP, "columns": {**POD_MAP["columns"], "time": "ts"}}
    import_table([str(source)], write_map(tmp_path, content), tmp_path / "h")
    (found,) = read_tables(tmp_path / "h")["pod_metrics"]["ts"]
    assert found == datetime.fromtimestamp(BEGIN_S, UTC)


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [
        ("2.5", FRACTION),
        ("-1", "replicas below 0 or above 100000"),
        ("1000000", "replicas below 0 or above 100000"),
        ("many", "replicas is not a number"),
    ],
)
def test_sizes_that_cannot_be_are_left_out(tmp_path: Path, replicas: str, reason: str) -> None:
    head = "ts,app,size,cpu\n"
    data = f"{head}{BEGIN_S},cart,2,100\n{BEGIN_S + 60},cart,{replicas},100\n"
    result, tables = run_import(tmp_path, WORKLOAD_MAP, data)
    assert result.dropped == {reason: 1}
    assert tables["pods"].height == 2


@pytest.mark.parametrize(("rounding", "size"), [("nearest", 3), ("up", 3), ("down", 2)])
def test_sizes_that_are_means_are_rounded_if_the_map_says_so(
    tmp_path: Path, rounding: str, size: int
) -> None:
    said = merged(WORKLOAD_MAP, {"rounding": {"replicas": rounding}})
    values = ("2.6", "1", "inf", "1e300", "nan", "many", "-1.5")
    lines = [f"{BEGIN_S + 60 * k},cart,{value},100" for k, value in enumerate(values)]
    data = "\n".join(["ts,app,size,cpu", *lines, ""])
    result, tables = run_import(tmp_path, said, data)
    assert sum(result.dropped.values()) == 4
    assert not any("whole" in reason for reason in result.dropped)
    assert tables["scales"]["spec_replicas"].to_list() == [size, 1]


def test_quantities_and_all_units(tmp_path: Path) -> None:
    for cpu, unit, memory, size, found in (
        ("250m", "quantity", "2Ki", "quantity", 2048),
        ("250000000", "nanocores", "2", "TiB", 2 << 40),
        ("250000", "microcores", "2", "GB", 2 * 10**9),
    ):
        said = {"columns": {"cpu": {"unit": unit}, "memory": {"unit": size}}}
        (tmp_path / unit).mkdir()
        data = HEAD + faulty("cpu", cpu).replace(",1000\n", f",{memory}\n")
        tables = run_import(tmp_path / unit, merged(POD_MAP, said), data)[1]
        assert usage(tables) == [(250, found)]


@pytest.mark.parametrize(
    ("cpu", "milli"),
    [("0.07", 70), ("0.0701", 71)],  # 70.00000000000001 in binary
)
def test_fractions_are_rounded_up(tmp_path: Path, cpu: str, milli: int) -> None:
    assert usage(run_import(tmp_path, POD_MAP, HEAD + faulty("cpu", cpu))[1]) == [(milli, 1000)]


def test_usage_that_no_container_has_is_doubted(tmp_path: Path) -> None:
    data = HEAD + faulty("cpu", "5000000")
    result, _ = run_import(tmp_path, POD_MAP, data)
    assert "one sample uses 5,000,000 cores: is columns.cpu.unit right?" in result.warnings


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"columns": {"cpu": {"unit": "millicores"}, "memory": {"unit": "MiB"}}},
            "no sample uses more than 1m of cpu: is columns.cpu.unit right? (Values such as 0.25 "
            "are cores)",
        ),
        (
            {},
            "no sample uses more than 1,000 bytes of memory: is columns.memory.unit right?",
        ),
        (
            {"requests": {"cpu": "500m", "memory": "1Gi"}, "columns": {"memory": {"unit": "MiB"}}},
            "",
        ),
        (
            {"limits": {"cpu": "20m"}, "columns": {"memory": {"unit": "MiB"}}},
            "half of the pods use 250m of cpu or more, 12 times their limit: is columns.cpu.unit "
            "right?",
        ),
        (
            {
                "limits": None,
                "requests": {"memory": "1Mi"},
                "columns": {"memory": {"unit": "MiB"}},
            },
            "half of the pods use 1,000 MiB of memory or more, 1,000 times their request: is "
            "columns.memory.unit right?",
        ),
    ],
)
def test_units_that_cannot_be_meant_are_doubted(
    tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    result, _ = run_import(tmp_path, merged(POD_MAP, said), HEAD + ROW)
    assert result.warnings == ((told,) if told else ())


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_is_a_sentence_or_a_count(tmp_path: Path, seed: int) -> None:
    import random

    draw = random.Random(seed)
    data = bytearray((HEAD + ROW * 20).encode())
    for _ in range(draw.randrange(1, 8)):
        data[draw.randrange(len(data))] = draw.choice(b'",;\n\r\0\xff\xe4x-.9 ')
    code = 0
    try:
        run_import(tmp_path, POD_MAP, bytes(data))
    except HpabatchError as error:
        code = error.exit_code
    assert code in (0, 2, 3)


def test_a_packed_file_that_is_damaged_or_cut_off_is_a_sentence(tmp_path: Path) -> None:
    whole = gzip.compress((HEAD + ROW * 200).encode(), mtime=0)
    told: list[str] = []
    for k in range(10, len(whole), 4):
        damaged = bytearray(whole)
        damaged[k] ^= 0xFF
        for data in (whole[:k], bytes(damaged)):
            path = write_csv(tmp_path, data, "x.csv.gz")
            try:
                opened = open_file(Path(path), 0, read_map(write_map(tmp_path, POD_MAP)))
                list(read_chunks(opened, read_map(tmp_path / "map.yaml")))
            except HistoryError as error:
                told.append(str(error))
    assert len(told) > len(whole) // 8
    assert all("x.csv.gz" in text for text in told)


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "x" * 5000, "a\0b", "x/" * 3000 + "*.csv"])
def test_a_name_that_cannot_be_is_a_sentence(name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read|no such file"):
        find_files([name])


def test_parquet_with_another_beginning_or_end_is_refused(tmp_path: Path) -> None:
    said = read_map(write_map(tmp_path, POD_MAP))
    path = tmp_path / "x.parquet"
    row = {"ts": [BEGIN_S], "app": ["cart"], "pod": ["cart-1"], "cpu": [0.25], "mem": [1000]}
    pl.DataFrame(row).write_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(b"XXXX" + whole[4:])
    with pytest.raises(HistoryError, match="cannot be read: expected Parquet"):
        open_file(path, 0, said)
    for cut in (whole[:-3], whole[:-8] + b"\xff\xff\xff\x7fPAR1", b"PAR1"):
        path.write_bytes(cut)
        with pytest.raises(HistoryError, match="was cut short"):
            open_file(path, 0, said)


def test_parquet_of_very_many_row_groups_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    row = {name: range(6000) for name in ("ts", "app", "pod", "cpu", "mem")}
    pl.DataFrame(row).write_parquet(path, row_group_size=1)
    with pytest.raises(HistoryError, match=r"cut into 6,000 row groups of 1 rows on average"):
        open_file(path, 0, read_map(write_map(tmp_path, POD_MAP)))
