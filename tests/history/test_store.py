"""Writing a store: whole or not at all, once or twice, alone or with others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history import store
from hpabatch.history.catalog import LogEntry, entry_name, load_snapshot
from hpabatch.history.compact import compact
from hpabatch.history.datafiles import Limits, quote
from hpabatch.history.info import describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.storage import LocalStorage
from hpabatch.history.store import open_writer
from tests.history.frames import ROWS, frame, minute, write_all


def fill(folder: Path) -> Path:
    """Write a store with every table and return its folder."""
    with open_writer(folder).part("all") as part:
        for table in ROWS:
            part.add(table, frame(table))
    return folder


def data_files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet"))


def test_a_store_reads_like_the_flat_history(tmp_path: Path) -> None:
    flat = open_history(write_all(tmp_path / "flat"))
    made = open_history(fill(tmp_path / "store"), "replay")
    assert made.tables == flat.tables == tuple(TABLES)
    for table in TABLES:
        # A store knows the target of a pod's rows.
        columns = [n for n in TABLES[table].names if table in ("pods", "scales") or n != "target"]
        assert_frame_equal(made.read(table, columns), flat.read(table, columns))
        assert_frame_equal(made.span(table), flat.span(table))
    assert made.warnings == []
    assert set(made.digests()) == set(TABLES)
    assert made.location == str(made.path) == str(tmp_path / "store")
    assert [p.exists() for paths in made.files.values() for p in paths] == [True] * 12


def test_files_lie_by_cluster_and_day(tmp_path: Path) -> None:
    late = frame("scales").with_columns(pl.col("ts") + timedelta(days=1))
    with open_writer(tmp_path).part() as part:
        part.add("scales", pl.concat([frame("scales"), late.with_columns(cluster=pl.lit("a/b*"))]))
        part.add("pods", frame("pods"))
    folders = [name.rpartition("/")[0] for name in data_files(tmp_path)]
    assert folders == [
        "pods/cluster=demo",
        "scales/cluster=a~2fb~2a/day=2026-10-08",
        "scales/cluster=demo/day=2026-10-07",
    ]
    assert open_history(tmp_path).read("scales")["cluster"].to_list() == ["a/b*", "demo"]


def test_any_cluster_name_makes_a_short_path() -> None:
    names = ["", "..", "x" * 5000, "y" + "x" * 5000, "ü" * 300, "~2f", "/", "%2F"]
    quoted = [quote(name) for name in names]
    assert len(set(quoted)) == len(names)
    assert max(map(len, quoted)) <= 120
    assert not set("/%") & set("".join(quoted))


# -- parts


def test_nothing_is_visible_before_the_end_of_a_part(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with writer.part("one") as part:
        part.add("pods", frame("pods"))
        assert open_history(tmp_path).tables == ()
    assert open_history(tmp_path).tables == ("pods",)
    assert not (tmp_path / "_work").exists()


def test_a_part_that_fails_leaves_nothing_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUFFER_ROWS", 1)
    writer = open_writer(tmp_path)
    with pytest.raises(KeyboardInterrupt), writer.part("one") as part:  # noqa: PT012
        part.add("pods", frame("pods"))
        raise KeyboardInterrupt
    assert not writer.has_part("one")
    assert open_history(tmp_path).tables == ()
    assert data_files(tmp_path) != []
    problems = describe_history(open_history(tmp_path)).problems
    assert len(problems) == 1
    assert "1 unnamed file" in problems[0]


def test_a_part_with_wrong_rows_is_refused_as_a_whole(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    wrong = frame("scales").with_columns(spec_replicas=pl.lit(-1, dtype=pl.Int64()))
    with (  # noqa: PT012
        pytest.raises(HistoryError, match=r"table scales for .*spec_replicas: a number below 0"),
        writer.part() as part,
    ):
        part.add("pods", frame("pods"))
        part.add("scales", wrong)
    assert open_history(tmp_path).tables == ()


def test_a_named_part_is_added_once(tmp_path: Path) -> None:
    for _ in range(2):
        writer = open_writer(tmp_path)
        with writer.part("one") as part:
            part.add("pods", frame("pods"))
        with writer.part("empty"):
            pass
    assert writer.has_part("one")
    assert writer.has_part("empty")
    assert not writer.has_part("two")
    assert load_snapshot(LocalStorage(tmp_path)).number == 3


def test_the_same_rows_twice_are_the_same_rows(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    before: dict[str, pl.DataFrame] = {}
    for _ in range(2):
        with writer.part() as part:
            for table in ROWS:
                part.add(table, frame(table))
        history = open_history(tmp_path)
        read = {table: history.read(table) for table in ROWS}
        for table, rows in before.items():
            assert_frame_equal(read[table], rows)
        before = read
    assert len(data_files(tmp_path)) == 12


def test_of_rows_with_one_key_the_last_committed_counts(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    values = [1, 2, 1]
    for value in values:
        with writer.part() as part:
            part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(value)))
        read = open_history(tmp_path).read("scales")
        assert read["spec_replicas"].to_list() == [value]
    assert len(data_files(tmp_path)) == 2


def test_rows_dropped_within_a_part_are_counted(tmp_path: Path) -> None:
    with open_writer(tmp_path).part() as part:
        part.add("pods", frame("pods"))
        part.add("pods", frame("pods"))
    assert part.dropped == 2
    assert open_history(tmp_path).sizes("pods")["rows"].to_list() == [2]


def test_targets_come_from_pods_of_the_part_or_the_store(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    states = frame("pod_states")
    with writer.part() as part:
        part.add("pod_states", states)  # Its pod comes later in the part.
        part.add("pods", frame("pods"))
    with writer.part() as part:
        strange = frame("pod_requests").with_columns(uid=pl.lit("stranger"))
        named = frame("pod_requests").with_columns(target=pl.lit("own"), uid=pl.lit("uid-1"))
        part.add("pod_requests", pl.concat([frame("pod_requests"), strange, named], how="diagonal"))
    history = open_history(tmp_path)
    assert history.read("pod_states")["target"].to_list() == ["cart"]
    requests = history.read("pod_requests").select("uid", "target").rows()
    assert requests == [("stranger", ""), ("uid-0", "cart"), ("uid-1", "own")]


def test_many_rows_are_written_while_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUFFER_ROWS", 4)
    with open_writer(tmp_path).part() as part:
        for number in range(10):
            rows = frame("scales").with_columns(
                ts=pl.lit(minute(number)).cast(TABLES["scales"].schema["ts"])
            )
            part.add("scales", rows)
            part.add("pod_states", frame("pod_states"))
        assert len(list(tmp_path.rglob("*.parquet"))) > 1
    assert open_history(tmp_path).read("scales").height == 10
    assert open_history(tmp_path).read("pod_states").height == 1


def test_row_groups_hold_whole_places_and_files_few_rows(tmp_path: Path) -> None:
    base = frame("scales")
    rows = pl.concat(
        base.with_columns(
            target=pl.lit(f"t{target}"), ts=(pl.col("ts") + timedelta(seconds=second))
        )
        for target, count in enumerate([3, 3, 9, 1])
        for second in range(count)
    )
    with open_writer(tmp_path, limits=Limits(4, 6, 8)).part() as part:
        part.add("scales", rows)
    files = load_snapshot(LocalStorage(tmp_path)).files
    assert [[rows for rows, _, _ in file.groups] for file in files] == [[6], [6], [3, 1]]
    assert [list(file.spans) for file in files] == [
        [("shop", "t0"), ("shop", "t1")],
        [("shop", "t2")],
        [("shop", "t2"), ("shop", "t3")],
    ]
    assert_frame_equal(open_history(tmp_path).read("scales"), rows)


# -- the folder


def test_a_flat_history_is_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a flat history \(.*make one in a new folder with"):
        open_writer(write_all(tmp_path))


def test_a_foreign_folder_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").write_text("")
    with pytest.raises(UsageError, match=r"holds other files \(thesis.odt\); name a new or an emp"):
        open_writer(tmp_path)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write .*file"):
        open_writer(tmp_path / "file")


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with (
        pytest.raises(UsageError, match="No space left on device; choose another place"),
        writer.part() as part,
    ):
        part.add("pods", frame("pods"))
    assert open_history(tmp_path).tables == ()


# -- others at the same time

KILLED = """
import sys, time
from hpabatch.history import store
from tests.history.frames import frame
store.BUFFER_ROWS = 1
with store.open_writer(sys.argv[1]).part("one") as part:
    part.add("pods", frame("pods"))
    part.add("scales", frame("scales"))
    print("written", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_nothing_visible_and_can_start_again(tmp_path: Path) -> None:
    fill(tmp_path)
    before = open_history(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        os.kill(process.pid, signal.SIGKILL)
    assert list((tmp_path / "_work").iterdir()) != []
    after = open_history(tmp_path)
    assert after.digests() == before.digests()
    assert not open_writer(tmp_path).has_part("one")
    compact(tmp_path, grace_s=0)
    assert not (tmp_path / "_work").exists()
    assert describe_history(open_history(tmp_path)).problems == ()
    assert open_history(tmp_path).digests() == before.digests()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    open_writer(tmp_path)
    start = threading.Barrier(4)

    def write(number: int) -> None:
        writer = open_writer(tmp_path)
        start.wait()
        for turn in range(5):
            with writer.part(f"{number}/{turn}") as part:
                at = minute(number * 10 + turn)
                ts = pl.Series("ts", [at], dtype=TABLES["scales"].schema["ts"])
                part.add("scales", frame("scales").with_columns(ts))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_history(tmp_path).read("scales").height == 20
    snapshot = load_snapshot(LocalStorage(tmp_path))
    assert snapshot.number == 21
    assert len(snapshot.parts) == 20


def test_of_two_writers_of_one_part_one_counts(tmp_path: Path) -> None:
    one, two = open_writer(tmp_path), open_writer(tmp_path)
    for value, writer in ((1, one), (2, two)):
        with writer.part("same") as part:
            part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(value)))
    assert open_history(tmp_path).read("scales")["spec_replicas"].to_list() == [1]
    assert two.has_part("same")


def test_a_writer_goes_on_after_somebody_compacted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    values = (1, 2)
    for value in values:
        with writer.part() as part:
            part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(value)))
    compact(tmp_path)
    assert len(data_files(tmp_path)) == 1
    # The same bytes as a file that the compaction removed, perhaps only now: it gets another name.
    with writer.part() as part:
        part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(1)))
    assert open_history(tmp_path).read("scales")["spec_replicas"].to_list() == [1]
    assert any(name.endswith("-5.parquet") for name in data_files(tmp_path))
    compact(tmp_path)
    assert open_history(tmp_path).read("scales")["spec_replicas"].to_list() == [1]


def test_an_open_history_does_not_change(tmp_path: Path) -> None:
    history = open_history(fill(tmp_path))
    with open_writer(tmp_path).part() as part:
        part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(9)))
    assert history.read("scales")["spec_replicas"].to_list() == [2]


def test_a_log_that_does_not_list_what_exists_is_an_error(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    (tmp_path / entry_name(2)).mkdir()
    with pytest.raises(UsageError, match="exists but is not listed"):
        writer.commit(LogEntry())


# -- what is not there


def test_absent_tables_are_empty_or_asked_for(tmp_path: Path) -> None:
    open_writer(tmp_path)
    history = open_history(tmp_path)
    assert history.tables == ()
    assert history.select("scales", "demo", [("shop", "cart")]).is_empty()
    assert history.partition_rows("scales", "demo", None).is_empty()
    assert history.distinct("scales", ["target"]).is_empty()
    assert history.sizes("scales").is_empty()
    assert history.span("scales").is_empty()
    assert history.read("external_metrics").is_empty()
    with pytest.raises(HistoryError, match=r"scales \(.*is missing.*record or import it"):
        history.read("scales")
    with pytest.raises(HistoryError, match="are missing and replay needs them: record or import"):
        open_history(tmp_path, "replay")


def test_places_that_are_not_there_have_no_rows(tmp_path: Path) -> None:
    history = open_history(fill(tmp_path))
    schema = TABLES["scales"].schema
    for cluster, places in (("demo", []), ("demo", [("shop", "x")]), ("x", [("shop", "cart")])):
        rows = history.select("scales", cluster, places)
        assert rows.is_empty()
        assert rows.schema == schema
    late = minute(5000).date()
    assert history.select("scales", "demo", [("shop", "cart")], day=late).is_empty()
    assert history.read("scales", namespaces=["x"]).is_empty()
    assert history.read("scales", namespaces=["shop"]).height == 1
    assert history.read("hpas", namespaces=["x"]).is_empty()
    assert history.read("controller", namespaces=["x"]).height == 1
    with pytest.raises(HistoryError, match="scales has no column colour"):
        history.select("scales", "demo", [("shop", "cart")], columns=["colour"])


def test_values_are_checked_where_bytes_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    path = tmp_path / entry_name(2)
    document = path.read_text().replace('"day":"2026-10-07"', '"day":"2026-10-08"')
    path.write_text(document)
    assert open_history(tmp_path).read("scales", ["ts"]).height == 1
    monkeypatch.setattr(LocalStorage, "checksums", False)
    with pytest.raises(HistoryError, match="a day other than 2026-10-08 in 1 row"):
        open_history(tmp_path).read("scales", ["ts"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "_log").chmod(0)
    with pytest.raises(HistoryError, match="cannot be read: Permission denied"):
        open_history(tmp_path)


def test_reading_errors_of_the_disk_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(fill(tmp_path))
    (tmp_path / "folder").mkdir()
    for read in (
        lambda: storage.read("folder"),
        lambda: storage.tail("folder", 3),
        lambda: list(storage.chunks("folder")),
        lambda: storage.checksum("folder", 0, 3),
    ):
        with pytest.raises(HistoryError, match="cannot be read: Is a directory; restore it"):
            read()
    assert storage.tail("nothing", 3) is None

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UsageError, match="must know hard links and renames: choose another"):
        storage.create("x", b"")
