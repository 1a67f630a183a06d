from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hpabatch.errors import EXIT_UNREADABLE, HistoryError
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store.writer import write_table
from tests.history.frames import frame, minute, replace, write_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def refusal(folder: Path, table: str) -> str:
    """Return the message with which a table is refused."""
    with pytest.raises(HistoryError) as caught:
        open_history(folder).read(table)
    assert caught.value.exit_code == EXIT_UNREADABLE
    return str(caught.value)


# -- the folder


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="nowhere: there is no such folder; name one with"):
        open_history(tmp_path / "nowhere")


def test_a_file_in_place_of_the_folder(folder: Path) -> None:
    with pytest.raises(HistoryError, match=r"pods\.parquet is a file; a history is a folder"):
        open_history(folder / "pods.parquet")


@pytest.mark.parametrize("result", ["sweep", "advice"])
def test_a_folder_of_a_result_or_around_a_history(tmp_path: Path, result: str) -> None:
    around = tmp_path / "around"
    (around / "history").mkdir(parents=True)
    write_all(around / "history")
    with pytest.raises(HistoryError, match=r"no history table.*; did you mean .*around/history\?"):
        open_history(around)
    (around / f"{result}.json").touch()
    with pytest.raises(HistoryError, match=rf"{result}, not a history: .* did you mean .*/history"):
        open_history(around)


def test_missing_tables_are_all_named_with_the_command(folder: Path) -> None:
    for table in ("pods", "scales", "external_metrics"):
        (folder / f"{table}.parquet").unlink()
    with pytest.raises(HistoryError) as caught:
        open_history(folder, "replay")
    text = str(caught.value)
    assert "the tables pods (a pod's life), scales" in text
    assert "replay needs them" in text
    assert "external" not in text


def test_a_missing_required_table_is_refused_when_read(folder: Path) -> None:
    (folder / "hpas.parquet").unlink()
    (folder / "hpas.json").write_text("[]")
    text = refusal(folder, "hpas")
    assert "the table hpas (an HPA's spec and when it was in force) is missing" in text
    assert "add hpas.parquet" in text
    assert "hpas.json is not Parquet" in text
    assert open_history(folder).read("hpas", optional=True).is_empty()


def test_usage_may_be_missing_where_no_hpa_reads_it(folder: Path) -> None:
    """Of custom metrics alone nobody has a table of usage."""
    (folder / "pod_metrics.parquet").unlink()
    for metrics, needed in (
        ([{"type": "Pods"}, {"type": "External"}], False),
        ([{"type": "Pods"}, {"type": "Resource"}], True),
        ([{"type": "ContainerResource"}], True),
        ([], True),  # the API server's default is cpu
    ):
        spec = pl.lit(json.dumps({"maxReplicas": 3, "metrics": metrics}))
        replace(folder, "hpas", frame("hpas").with_columns(spec=spec))
        history = open_history(folder)
        assert history.lacks(TABLES["pod_metrics"]) == needed, metrics
        assert ("no usage was recorded" in " ".join(history.warnings)) != needed
        if needed:
            with pytest.raises(HistoryError, match="the table pod_metrics"):
                history.require("replay")
        else:
            history.require("replay")
            assert history.read("pod_metrics").is_empty()
            replace(folder, "pod_metrics", frame("pod_metrics").clear())
            assert open_history(folder).read("pod_metrics").is_empty()
            (folder / "pod_metrics.parquet").unlink()
    for table in ("pod_custom_metrics", "object_metrics", "external_metrics"):
        (folder / f"{table}.parquet").unlink()
    replace(
        folder, "hpas", frame("hpas").with_columns(spec=pl.lit('{"metrics":[{"type":"Pods"}]}'))
    )
    assert open_history(folder).lacks(TABLES["pod_metrics"])


def test_an_unknown_table_or_column_is_refused(folder: Path) -> None:
    with pytest.raises(HistoryError, match="no history table 'podz'"):
        open_history(folder).read("podz")
    with pytest.raises(HistoryError, match="pods has no column colour; it has cluster, namespace"):
        open_history(folder).read("pods", ["uid", "colour"])


def test_stray_files_are_warned_of(folder: Path) -> None:
    frame("pods").write_parquet(folder / "pod_metric.parquet")
    (folder / "notes").mkdir()
    (folder / "README.md").write_text("hello")
    (folder / ".hidden.parquet").write_text("")
    warnings = open_history(folder).warnings
    assert len(warnings) == 2
    assert warnings[0].endswith("notes is not a history table and is ignored")
    assert warnings[1].endswith("was pod_metrics meant?")


def test_a_table_may_be_a_folder(folder: Path) -> None:
    rows = frame("pod_metrics")
    (folder / "pod_metrics.parquet").unlink()
    parts = folder / "pod_metrics"
    write_table(rows[3:], parts / "a.parquet", "pod_metrics")
    write_table(rows[:3].drop("window_ms"), parts / "b.parquet", "pod_metrics")
    (parts / ".half.parquet").write_text("unfinished")
    read = open_history(folder).read("pod_metrics")
    assert read["pod"].to_list() == rows["pod"].to_list()
    assert read["window_ms"].to_list() == [None] * 3 + [15_000] * 3


def test_a_table_folder_without_files(folder: Path) -> None:
    (folder / "pods.parquet").unlink()
    (folder / "pods").mkdir()
    (folder / "pods" / "part.csv").write_text("")
    with pytest.raises(HistoryError, match="pods holds no Parquet file; put the table's files"):
        open_history(folder)


def test_a_table_that_is_there_twice(folder: Path) -> None:
    (folder / "pods").mkdir()
    with pytest.raises(HistoryError, match="are both there; keep one of them"):
        open_history(folder)


# -- the file


def test_every_single_damaged_byte_is_an_error_of_ours_or_none(folder: Path) -> None:
    path = folder / "scales.parquet"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            open_history(folder).read("scales")
        except HistoryError as error:
            assert "scales" in str(error)  # noqa: PT017


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(folder: Path) -> None:
    (folder / "pods.parquet").chmod(0)
    assert "cannot be read: Permission denied" in refusal(folder, "pods")


def test_a_dangling_link_cannot_be_read(folder: Path) -> None:
    path = folder / "pods.parquet"
    path.unlink()
    path.symlink_to(folder / "nowhere")
    assert "pods.parquet cannot be read: No such file" in refusal(folder, "pods")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hpabatch.schema", "6", "schema version 6; this hpabatch reads up to 5: use a newer"),
        ("hpabatch.schema", "one", "expected a number as schema version, got 'one'"),
        ("hpabatch.schema", "0", "expected a number as schema version"),
        ("hpabatch.table", "scales", "written as the table scales, not pods; name it scales.par"),
    ],
)
def test_metadata_of_another_schema(folder: Path, key: str, value: str, message: str) -> None:
    table = pq.read_table(folder / "pods.parquet")
    pq.write_table(table.replace_schema_metadata({key: value}), folder / "pods.parquet")
    assert message in refusal(folder, "pods")


# -- columns


def test_missing_columns_are_named_with_what_looks_like_them(folder: Path) -> None:
    rows = frame("pod_metrics").rename({"cpu_milli": "cpu_millis"}).drop("uid")
    replace(folder, "pod_metrics", rows)
    text = refusal(folder, "pod_metrics")
    assert "columns uid, cpu_milli are missing (to rename? cpu_millis -> cpu_milli)" in text
    assert "pod_metrics needs: cluster, namespace, target, uid" in text


def test_extra_columns_are_a_warning(folder: Path) -> None:
    replace(folder, "pods", frame("pods").with_columns(colour=pl.lit("red")))
    history = open_history(folder)
    assert history.read("pods").columns == list(TABLES["pods"].names)
    history.read("pods")
    assert len(history.warnings) == 1
    assert "column colour is not registered for pods and ignored" in history.warnings[0]


def test_optional_columns_are_filled(folder: Path) -> None:
    replace(folder, "external_metrics", frame("external_metrics").drop("selector"))
    row = open_history(folder).read("external_metrics").row(0, named=True)
    assert (row["selector"], row["series"], row["fetched_at"]) == ("", "", None)


# -- types


@pytest.mark.parametrize(
    ("table", "cast"),
    [
        ("pod_metrics", {"cpu_milli": pl.Int32(), "memory_bytes": pl.UInt64()}),
        ("pod_metrics", {"pod": pl.Categorical(), "container": pl.Enum(["app"])}),
        ("pod_metrics", {"ts": pl.Datetime("us", "UTC")}),
        ("pod_metrics", {"ts": pl.Datetime("ns", "UTC")}),
        ("pods", {"started": pl.Null(), "owner": pl.Null()}),
    ],
)
def test_lossless_types_are_accepted(
    folder: Path, table: str, cast: dict[str, pl.DataType]
) -> None:
    before = open_history(folder).read(table)
    replace(folder, table, frame(table).cast(cast))  # type: ignore[arg-type]
    after = open_history(folder).read(table)
    assert after.equals(before)
    assert after.schema == TABLES[table].schema


def test_another_time_zone_is_the_same_instant(folder: Path) -> None:
    before = open_history(folder).read("pod_metrics")
    # polars writes UTC to Parquet but keeps the zone in its own metadata.
    local = frame("pod_metrics").with_columns(pl.col("ts").dt.convert_time_zone("Asia/Tokyo"))
    replace(folder, "pod_metrics", local)
    assert open_history(folder).read("pod_metrics").equals(before)
    for zone in ("+05:30", "UTC+2", "nowhere"):  # as pyarrow and Spark may write it
        rows = frame("pod_metrics").to_arrow()
        place = rows.schema.get_field_index("ts")
        ts = rows["ts"].cast(pa.timestamp("ms", tz=zone))
        pq.write_table(rows.set_column(place, "ts", ts), folder / "pod_metrics.parquet")
        assert open_history(folder).read("pod_metrics").equals(before)


@pytest.mark.parametrize(
    ("table", "change", "messages"),
    [
        (
            "pod_metrics",
            pl.col("cpu_milli") / 1000,
            ["column cpu_milli: expected whole numbers (Int64) as milli, got Float64", "cast"],
        ),
        (
            "pod_metrics",
            pl.lit(2**63, dtype=pl.UInt64()).alias("memory_bytes"),
            ["got UInt64 with 9223372036854775808 in row 0", "check the unit"],
        ),
        (
            "pod_metrics",
            pl.lit(2**62).alias("memory_bytes"),
            ["column memory_bytes: a number above 9223372036854775", "check the factor"],
        ),
        (
            "scales",
            pl.lit(2**31).alias("spec_replicas"),
            ["column spec_replicas: a number above 2147483647"],
        ),
        (
            "pod_metrics",
            pl.col("ts").dt.replace_time_zone(None),
            ['column ts: expected Datetime("ms", "UTC"), got Datetime', "dt.replace_time_zone"],
        ),
        (
            "pod_metrics",
            pl.col("ts").dt.cast_time_unit("us") + pl.duration(microseconds=1),
            ["got Datetime(time_unit='us', time_zone='UTC') with 2026-10-07", "or round it"],
        ),
        ("pod_metrics", pl.col("ts").dt.epoch("ms"), ["got Int64", "or pl.from_epoch"]),
        ("pods", pl.lit(1).alias("pod"), ["column pod: expected text, got Int32"]),
        (
            "passes",
            pl.lit(1).alias("start"),
            ["column start: expected true or false, got Int32", "cast(pl.Boolean)"],
        ),
        (
            "pods",
            pl.struct(app=pl.lit("cart")).alias("labels"),
            ["column labels: expected text, got Struct"],
        ),
    ],
)
def test_other_types_are_refused_with_the_conversion(
    folder: Path, table: str, change: pl.Expr, messages: list[str]
) -> None:
    path = replace(folder, table, frame(table).with_columns(change))
    text = refusal(folder, table)
    assert text.startswith(str(path))
    for message in messages:
        assert message in text


# -- values


@pytest.mark.parametrize(
    ("table", "change", "messages"),
    [
        (
            "pod_metrics",
            pl.when(pl.int_range(pl.len()) == 4).then(-7).otherwise("cpu_milli").alias("cpu_milli"),
            [
                "column cpu_milli: a number below 0 (the lowest is -7) in 1 row",
                "first row 4 (counting from 0): namespace=shop, target=cart, pod=cart-1",
                "ts=2026-10-07T00:01:00",
                "write null where nothing was measured",
            ],
        ),
        ("pod_metrics", pl.lit(-1).alias("memory_bytes"), ["in 6 rows, first row 0"]),
        ("pod_requests", pl.lit(-1).alias("cpu_milli"), ["cpu_milli: a number below 0"]),
        ("scales", pl.lit(-1).alias("spec_replicas"), ["a number below 0", "fault of its source"]),
        (
            "pod_metrics",
            pl.when(pl.int_range(pl.len()) > 3).then(None).otherwise("uid").alias("uid"),
            ["column uid: null in 2 rows, first row 4", "it must hold a value (uid of the pod"],
        ),
        ("scales", pl.lit(None).alias("ts"), ["column ts: null in 1 row"]),
        ("passes", pl.lit(None).alias("start"), ["column start: null in 2 rows"]),
        (
            "pod_states",
            pl.lit("running").alias("phase"),
            ["column phase: an unknown text in 1 row", "allowed are 'Pending', 'Running'"],
        ),
        ("pod_states", pl.lit("true").alias("ready"), ["allowed are 'True', 'False', 'Unknown'"]),
        (
            "hpas",
            pl.lit("maxReplicas: 3").alias("spec"),
            ["column spec: a text that is not a JSON object", "name=cart", "autoscaling/v2 JSON"],
        ),
        ("pods", pl.lit("[]").alias("labels"), ["not a JSON object"]),
        ("pods", pl.lit("[" * 100_000).alias("labels"), ["not a JSON object"]),
        ("hpa_status", pl.lit("{}").alias("current_metrics"), ["not a JSON array"]),
        ("hpas", pl.lit(minute(-60)).alias("valid_to"), ["valid_to is not after valid_from"]),
    ],
)
def test_values_that_cannot_be_are_refused(
    folder: Path, table: str, change: pl.Expr, messages: list[str]
) -> None:
    times = {c.name: c.dtype for c in TABLES[table].columns if c.unit == "time"}
    broken = frame(table).with_columns(change)
    replace(folder, table, broken.cast({n: t for n, t in times.items() if n in broken.columns}))
    text = refusal(folder, table)
    for message in messages:
        assert message in text


@pytest.mark.parametrize("epoch", [1_791_331_200, 1_791_331_200_000_000, 0, -(2**62)])
def test_absurd_times_are_refused(folder: Path, epoch: int) -> None:
    ts = pl.Series("ts", [epoch]).cast(pl.Datetime("ms", "UTC"))
    replace(folder, "scales", frame("scales").with_columns(ts))
    text = refusal(folder, "scales")
    assert f"a time before 2000 or after 2100 ({epoch} ms since 1970) in 1 row" in text
    assert f"target=cart, ts={epoch} ms" in text
    assert "check the unit: milliseconds since 1970 are wanted" in text


def test_two_specs_at_once_are_refused(folder: Path) -> None:
    later = frame("hpas").with_columns(valid_from=pl.lit(minute(0)).cast(pl.Datetime("ms", "UTC")))
    replace(folder, "hpas", pl.concat([frame("hpas"), later]))
    text = refusal(folder, "hpas")
    assert "the next spec of the same HPA begins before this one ends" in text
    assert "set valid_to to the next valid_from" in text
    ended = frame("hpas").with_columns(valid_to=pl.lit(minute(0)).cast(pl.Datetime("ms", "UTC")))
    replace(folder, "hpas", pl.concat([later, ended]))
    assert open_history(folder).read("hpas", ["name"]).height == 2


# -- order and duplicates


def test_of_rows_with_one_key_the_last_is_kept(folder: Path) -> None:
    rows = frame("pod_metrics")
    again = rows[1:3].with_columns(cpu_milli=pl.Series([777, 778]))
    replace(folder, "pod_metrics", pl.concat([rows, again]))
    history = open_history(folder)
    read = history.read("pod_metrics")
    assert read["cpu_milli"].to_list() == [100, 777, 778, 100, 101, 102]
    assert len(history.warnings) == 1
    assert "2 rows with the key of a later row (cluster, namespace" in history.warnings[0]
