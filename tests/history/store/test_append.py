"""Writing a store: whole or not at all, once or twice, alone or with others."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.columns import TIME
from hpabatch.history.info import describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store import append as store
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.catalog import LogEntry, entry_name, load_snapshot, quote
from hpabatch.history.store.storage import LocalStorage, is_folder
from hpabatch.history.store.upkeep import check_history, compact
from hpabatch.history.store.writer import Limits
from tests.history.frames import ROWS, frame, limited, minute, write_all


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
        assert_frame_equal(made.read(table), flat.read(table))
        assert_frame_equal(made.span(table), flat.span(table))
    assert made.warnings == []
    assert set(made.digests()) == set(TABLES)
    assert made.location == str(made.path) == str(tmp_path / "store")
    assert [p.exists() for paths in made.files.values() for p in paths] == [True] * len(TABLES)


def test_a_recording_lacks_no_table(tmp_path: Path) -> None:
    """Of what a live loop found nothing it writes no table; others may have forgotten one."""
    for name, tables in (("recorded", ("passes",)), ("other", ("controller",))):
        with open_writer(tmp_path / name).part() as part:
            for table in tables:
                part.add(table, frame(table))
    recorded, other = open_history(tmp_path / "recorded"), open_history(tmp_path / "other")
    recorded.require("replay")
    assert recorded.read("pods").is_empty()
    assert check_history(recorded).is_empty()
    for refused in (lambda: other.require("replay"), lambda: other.read("pods")):
        with pytest.raises(HistoryError, match=r"pods .* missing and replay needs"):
            refused()


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


def test_a_store_is_begun_before_its_first_file(tmp_path: Path) -> None:
    """Else what a kill leaves would be taken for a flat history, or for somebody's files."""
    writer = open_writer(tmp_path / "store", begin=False)
    assert not (tmp_path / "store").exists()
    with writer.part("one") as part:
        part.add("pods", frame("pods"))
        part._flush()
        assert data_files(tmp_path / "store")
        assert open_writer(tmp_path / "store").snapshot.number == 1
    assert open_history(tmp_path / "store").tables == ("pods",)


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
    for number, writer in enumerate([open_writer(tmp_path), open_writer(tmp_path)]):
        with writer.part("one") as part:
            part.add("pods", frame("pods").with_columns(node=pl.lit(f"{number}")))
        with writer.part("empty"):
            pass
    assert open_history(tmp_path).read("pods")["node"].unique().to_list() == ["0"]
    assert writer.has_part("one")
    assert writer.has_part("empty")
    assert not writer.has_part("two")
    assert load_snapshot(LocalStorage(tmp_path)).number == 3


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


def test_new_folders_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr("hpabatch.history.store.storage.flush", flushed.append)
    LocalStorage(tmp_path / "a" / "b").create("c/d/x.json", b"{}")
    assert {tmp_path / name for name in ("", "a", "a/b", "a/b/c", "a/b/c/d")} <= set(flushed)


# -- others at the same time

KILLED = """
import sys, time
from hpabatch.history.store import append
from tests.history.frames import frame
append.BUFFER_ROWS = 1
with append.open_writer(sys.argv[1]).part("one") as part:
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
    assert not [path for path in (tmp_path / "_work").rglob("*") if path.is_file()]
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


def one_start(at: int) -> pl.DataFrame:
    ts = pl.Series("ts", [minute(at)], dtype=TABLES["controller"].schema["ts"])
    return frame("controller").with_columns(ts)


def test_a_writer_that_slept_through_a_compaction_is_not_lost(tmp_path: Path) -> None:
    one, two = open_writer(tmp_path), open_writer(tmp_path)
    with two.part("two") as part:
        part.add("controller", one_start(2))
    compact(tmp_path, grace_s=-1)
    assert not (tmp_path / entry_name(2)).exists()
    with one.part("one") as part:
        part.add("controller", one_start(1))
    history = open_history(tmp_path)
    assert history.read("controller").height == 2
    assert describe_history(history).parts == 2


def test_a_part_whose_files_were_removed_as_nobodys_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUFFER_ROWS", 1)
    writer = open_writer(tmp_path)
    with (  # noqa: PT012
        pytest.raises(
            UsageError, match=r"was removed by a compaction before its part was complete"
        ),
        writer.part("slow") as part,
    ):
        part.add("controller", one_start(1))
        compact(tmp_path, grace_s=-1)
    history = open_history(tmp_path)
    assert history.tables == ()
    assert describe_history(history).parts == 0
    with writer.part("slow") as part:
        part.add("controller", one_start(1))
    assert open_history(tmp_path).read("controller").height == 1


def test_a_folder_that_somebody_removes_between_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, replace_file = LocalStorage(tmp_path), os.replace

    def late(source: Path, final: Path) -> None:
        monkeypatch.setattr(os, "replace", replace_file)
        final.parent.rmdir()
        replace_file(source, final)

    with place.workspace() as folder:
        (folder / "x").write_text("x")
        monkeypatch.setattr(os, "replace", late)
        place.put(folder / "x", "pods/cluster=demo/x.parquet")
    assert place.read("pods/cluster=demo/x.parquet") == b"x"


def test_a_name_that_cannot_be_one_is_a_sentence() -> None:
    for name in ("x" * 300, "y" * 5000, "a\0b"):
        assert not is_folder(name)
    for name in ("x" * 300, "y" * 5000):
        with pytest.raises(HistoryError, match="cannot be read: File name too long"):
            open_history(name)


# -- what is not there


def test_a_log_that_does_not_list_what_exists_is_an_error(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    (tmp_path / entry_name(2)).mkdir()
    with pytest.raises(UsageError, match="exists but is not listed"):
        writer.commit(LogEntry())


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


def test_clusters_and_columns_that_are_not_there(tmp_path: Path) -> None:
    history = open_history(fill(tmp_path))
    assert history.select("scales", "x", [("shop", "cart")]).schema == TABLES["scales"].schema
    with pytest.raises(HistoryError, match="scales has no column colour"):
        history.select("scales", "demo", [("shop", "cart")], columns=["colour"])


def test_values_are_checked_where_bytes_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    path = tmp_path / entry_name(2)
    text = path.read_text().replace('"day":"2026-10-07"', '"day":"2026-10-08"')
    document = json.loads(text.replace("/day=2026-10-07", "/day=2026-10-08"))
    del document["digest"]
    path.write_text(json.dumps(document))
    for day in tmp_path.rglob("day=2026-10-07"):
        day.rename(day.with_name("day=2026-10-08"))
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


def test_more_files_than_may_be_open_are_read_and_compacted(tmp_path: Path) -> None:
    rows = frame("pod_metrics").select(pl.exclude("ts")).head(1)
    many = rows.join(pl.DataFrame({"ts": [minute(number) for number in range(160)]}), how="cross")
    with limited(Limits(1, 1, 1)), open_writer(tmp_path).part() as part:
        part.add("pod_metrics", many.with_columns(pl.col("ts").cast(TIME)))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, opened + 100), hard))
    try:
        history = open_history(tmp_path)
        assert len(history.files["pod_metrics"]) == 160
        assert history.read("pod_metrics", optional=True).height == 160
        with open_writer(tmp_path).part() as part:
            part.add("pod_metrics", frame("pod_metrics"))
        assert compact(tmp_path).files_after == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
