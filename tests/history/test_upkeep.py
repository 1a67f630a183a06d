"""Information, check and migration of both layouts."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history import flat
from hpabatch.history.info import describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.catalog import entry_name
from hpabatch.history.store.upkeep import check_history, compact, migrate
from tests.history.frames import ROWS, frame, minute, replace, write_all


def store(folder: Path) -> Path:
    with open_writer(folder).part("all") as part:
        for table in ROWS:
            part.add(table, frame(table))
    return folder


# -- info


def test_info_of_both_layouts_agrees(tmp_path: Path) -> None:
    flat_info = describe_history(open_history(write_all(tmp_path / "flat")))
    store_info = describe_history(open_history(store(tmp_path / "store")))
    columns = ["table", "rows", "files", "first", "last"]
    assert_frame_equal(flat_info.tables.select(columns), store_info.tables.select(columns))
    assert (flat_info.layout, store_info.layout) == ("flat", "store")
    assert flat_info.schema == store_info.schema == "5"
    assert flat_info.clusters == store_info.clusters == ("demo",)
    assert (flat_info.parts, store_info.parts) == (0, 1)
    assert flat_info.problems == store_info.problems == ()
    row = store_info.tables.row(0, named=True)
    assert (row["table"], row["rows"], row["files"]) == ("pod_metrics", 6, 1)
    assert (row["first"], row["last"]) == (minute(0), minute(2))


def test_info_names_what_is_missing_unnamed_or_strange(tmp_path: Path) -> None:
    folder = store(tmp_path)
    (folder / "README").write_text("hello")
    (folder / "pods.parquet").write_text("")
    lost = next((folder / "scales").rglob("*.parquet"))
    lost.rename(lost.with_name("lost.parquet"))
    problems = describe_history(open_history(folder)).problems
    assert len(problems) == 4
    assert "pods.parquet is not part of the store" in problems[0]
    assert "is missing, though the log names it" in problems[1]
    assert "1 unnamed file (" in problems[2]
    assert "scales/cluster=demo/day=2026-10-07/lost.parquet" in problems[2]
    assert "README is not part of the store" in problems[3]


# -- check


def test_sound_histories_have_no_findings(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    for history in (write_all(tmp_path / "flat"), store(tmp_path / "store")):
        assert check_history(open_history(history), lambda *step: told.append(step)).is_empty()
        assert [share for _, share in told] == sorted(share for _, share in told)
        told.clear()
    with open_writer(tmp_path / "store").part() as part:
        part.add("scales", frame("scales"))  # Rows that replace others are no fault.
    assert check_history(open_history(tmp_path / "store")).is_empty()


def test_every_fault_of_a_flat_history_is_listed(tmp_path: Path) -> None:
    folder = write_all(tmp_path)
    replace(folder, "scales", pl.concat([frame("scales")] * 2))
    replace(folder, "pods", frame("pods").with_columns(colour=pl.lit("red")))
    replace(
        folder,
        "hpas",
        pl.concat([frame("hpas")] * 2).with_columns(
            valid_from=pl.Series([minute(0), minute(1)], dtype=TABLES["hpas"].schema["valid_from"])
        ),
    )
    (folder / "pod_states.parquet").write_bytes(b"PAR1")
    replace(folder, "object_metrics", frame("object_metrics").drop("metric"))
    found = check_history(open_history(folder))
    assert found.select("table", "problem").rows()[0][0] == "object_metrics"
    texts = dict(found.select("table", "problem").rows())
    assert "column metric is missing" in texts["object_metrics"]
    assert "colour is not registered" in texts["pods"]
    assert "cut short (4 bytes)" in texts["pod_states"]
    assert "1 row with the key of a later row" in texts["scales"]
    assert "the next spec of the same HPA begins" in texts["hpas"]
    assert found.height == 5


def test_check_finds_a_file_that_is_not_the_one_of_the_log(tmp_path: Path) -> None:
    folder = store(tmp_path)
    path = folder / entry_name(2)
    whole = json.loads(path.read_bytes())
    (number,) = (i for i, f in enumerate(whole["add"]) if f["table"] == "pod_metrics")
    whole["add"][number]["sha256"] = "0" * 64
    del whole["digest"]
    path.write_text(json.dumps(whole))
    found = check_history(open_history(folder))
    assert found["table"].to_list() == ["pod_metrics"]
    assert "sha256 is not the one" in found["problem"][0]


def test_check_finds_specs_that_overlap_across_parts(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for at in (0, 1):
        with writer.part() as part:
            part.add(
                "hpas",
                frame("hpas").with_columns(
                    valid_from=pl.Series([minute(at)], dtype=TABLES["hpas"].schema["valid_from"])
                ),
            )
    found = check_history(open_history(tmp_path))
    assert found["table"][0] == "hpas"
    assert "begins before this one ends" in found["problem"][0]
    with pytest.raises(HistoryError, match="begins before this one ends"):
        open_history(tmp_path).read("hpas")


# -- migration


LATER: dict[int, dict[str, list[str]]] = {
    2: {"metric_fetches": [], "pods": ["origin"], "pod_requests": ["target"]}
    | {"pod_states": ["target"]},
    3: {"provenance": []},
    4: {"passes": [], "scales": ["error"]},
    5: {"hpa_context": []},
}
"""What came with a version: tables (no columns named), and columns of older ones."""


def of_version(version: int, folder: Path) -> Path:
    """Write a flat history as an older version of this package did."""
    later = {
        table: names for v, added in LATER.items() if v > version for table, names in added.items()
    }
    for table in ROWS:
        if later.get(table) == []:
            continue
        rows = frame(table)
        rows = rows.drop(n for n in later.get(table, []) if n in rows.columns)
        if "value_milli" in rows.columns:
            rows = rows.drop_nulls("value_milli")
        metadata = {"hpabatch.schema": str(version), "hpabatch.table": table}
        folder.mkdir(exist_ok=True)
        arrow = rows.to_arrow().replace_schema_metadata(metadata)
        pq.write_table(arrow, folder / f"{table}.parquet")
    return folder


@pytest.mark.parametrize("keep", [0, 1 << 28])
def test_a_first_version_becomes_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    monkeypatch.setattr(flat, "KEEP_BYTES", keep)
    old = of_version(1, tmp_path / "old")
    done = migrate(old, tmp_path / "new")
    assert done.parts == 11
    before, after = open_history(old), open_history(tmp_path / "new", "replay")
    assert after.tables == before.tables
    for table in before.tables:
        columns = TABLES[table].names
        assert_frame_equal(after.read(table, columns), before.read(table, columns))
    assert after.read("pods")["origin"].to_list() == ["recorded"] * 2
    assert describe_history(before).schema == "1"
    assert check_history(after).is_empty()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_older_versions_are_read_and_migrated(tmp_path: Path, version: int) -> None:
    old = of_version(version, tmp_path / "old")
    migrate(old, tmp_path / "new")
    for path in (old, tmp_path / "new"):
        history = open_history(path, "replay")
        assert history.read("passes").is_empty() == (version < 4)
        assert history.read("hpa_context").is_empty()
        assert history.read("scales")["error"].to_list() == [None]
        assert history.read("external_metrics")["value_milli"].to_list() == [7]
        assert history.read("provenance").is_empty() == (version < 3)
        assert check_history(history).is_empty()
    assert describe_history(open_history(old)).schema == str(version)


def test_a_migration_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_all(tmp_path / "old")
    commit, count = StoreWriter.commit, iter(range(100))

    def fail(self: StoreWriter, entry: object, *more: object) -> None:
        if next(count) == 4:
            raise KeyboardInterrupt
        commit(self, entry, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(StoreWriter, "commit", fail)
        with pytest.raises(KeyboardInterrupt):
            migrate(old, tmp_path / "new")
    done = migrate(old, tmp_path / "new")
    assert (done.parts, done.skipped) == (11, 4)
    again = migrate(old, tmp_path / "new")
    assert (again.parts, again.skipped, again.rows) == (0, 15, 0)
    migrate(old, tmp_path / "direct")
    for folder in ("new", "direct"):
        compact(tmp_path / folder, grace_s=0)
    one, two = (open_history(tmp_path / folder) for folder in ("new", "direct"))
    assert one.digests() == two.digests()


def test_a_migration_into_something_else_is_refused(tmp_path: Path) -> None:
    old = write_all(tmp_path / "old")
    migrate(old, tmp_path / "new")
    replace(old, "scales", frame("scales").with_columns(spec_replicas=pl.lit(9, dtype=pl.Int64())))
    with pytest.raises(UsageError, match=r"holds something else .*\(the part migrate/.*name an ab"):
        migrate(old, tmp_path / "new")
    assert open_history(tmp_path / "new").read("scales")["spec_replicas"].to_list() == [2]
    with pytest.raises(UsageError, match=r"holds something else .*\(the part all\)"):
        migrate(old, store(tmp_path / "store"))
    with open_writer(tmp_path / "nameless").part() as part:
        part.add("scales", frame("scales"))
    with pytest.raises(UsageError, match=r"holds something else .*\(rows of nameless parts\)"):
        migrate(old, tmp_path / "nameless")
    open_writer(tmp_path / "empty")
    assert migrate(old, tmp_path / "empty").parts == 15


def test_an_absent_table_that_is_needed_is_a_finding(tmp_path: Path) -> None:
    made = (write_all(tmp_path / "flat"), store(tmp_path / "store"))
    (made[0] / "pods.parquet").unlink()
    (made[0] / "controller.parquet").unlink()  # Not needed by any command.
    (found,) = check_history(open_history(made[0])).rows()
    assert found[:2] == ("pods", "")
    assert "the table is missing; replay needs" in found[2]
    open_writer(tmp_path / "empty")
    assert set(check_history(open_history(tmp_path / "empty"))["table"]) == {
        name for name, spec in TABLES.items() if spec.required
    }


def test_what_is_not_migrated(tmp_path: Path) -> None:
    old = write_all(tmp_path / "old")
    with pytest.raises(UsageError, match="cannot be migrated into itself"):
        migrate(old, f"{tmp_path}/x/../old/")
    with pytest.raises(UsageError, match="is a flat history"):
        migrate(old, write_all(tmp_path / "other"))
    table = pq.read_table(old / "pods.parquet").replace_schema_metadata({"hpabatch.schema": "6"})
    pq.write_table(table, old / "pods.parquet")
    with pytest.raises(HistoryError, match="has schema version 6; this hpabatch reads up to 5"):
        migrate(old, tmp_path / "new")
