"""The whole import: any grouping, order and interruption gives the same history."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.store.upkeep import compact
from hpabatch.importers.common.work import Sink, work_folder
from hpabatch.importers.table import files as table_files
from hpabatch.importers.table import rows as table_rows
from hpabatch.importers.table import run as table
from hpabatch.importers.table import spill as table_spill
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import open_parts
from hpabatch.importers.table.run import ImportResult
from tests.effort import effort
from tests.importers.tables import (
    BEGIN_S,
    POD_MAP,
    WORKLOAD_MAP,
    import_table,
    merged,
    read_tables,
    run_import,
    seconds,
    write_map,
)

HPAS = {"hpas": {"template": {"min": 1, "max": 9, "cpu": "50%"}}}
SIZED = merged(POD_MAP, {**HPAS, "columns": {"replicas": "size"}, "scales": {"from": "replicas"}})


def pod_frame(seed: int, count: int = 400) -> pl.DataFrame:
    """Return random rows with duplicates, out of order."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        app = draw.choice("abc")
        pod = f"{app}-{draw.randrange(4)}"
        size = draw.randrange(4)
        rows.append((BEGIN_S + draw.randrange(50) * 3600, app, pod, draw.random(), 1.0, size))
    names = ["ts", "app", "pod", "cpu", "mem", "size"]
    return pl.DataFrame(rows, schema=names, orient="row")


def assert_same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert sorted(one) == sorted(other)
    for name, frame in one.items():
        assert frame.equals(other[name]), name


def naive_samples(frame: pl.DataFrame) -> list[tuple[str, float, int]]:
    """Return (pod, s, milli) as plain Python would: the last row of a key counts."""
    found: dict[tuple[str, float], float] = {}
    for row in frame.to_dicts():
        found[row["pod"], float(row["ts"] - BEGIN_S)] = row["cpu"]
    milli = {key: -int(-(cpu * 1000) // 1) for key, cpu in found.items()}
    return sorted((pod, ts, value) for (pod, ts), value in milli.items())


@settings(max_examples=effort(6))
@given(
    seed=st.integers(0, 10_000), group_rows=st.integers(1, 500), chunk=st.integers(1, 500),
    packed=st.booleans(),
)  # fmt: skip
def test_any_grouping_and_chunks_give_what_plain_python_gives(
    tmp_path_factory: pytest.TempPathFactory, seed: int, group_rows: int, chunk: int, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("import")
    frame = pod_frame(seed, 120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "CHUNK_ROWS", chunk)
        patch.setattr(table_spill, "RUN_BYTES", chunk * 80)
        if not packed:  # no number stands for a key and its time, and ranks are made dense
            patch.setattr(table_spill, "_LARGEST", 1)
            patch.setattr(table_rows, "_RANKS", 100)
        result, tables = run_import(folder, SIZED, frame, group_rows=group_rows)
    samples = tables["pod_metrics"]
    found = zip(samples["pod"], seconds(samples, "ts"), samples["cpu_milli"], strict=True)
    assert sorted(found) == naive_samples(frame)
    assert result.duplicates == frame.height - samples.height
    (folder / "one").mkdir()
    assert_same(tables, run_import(folder / "one", SIZED, frame)[1])


class KilledError(BaseException):
    """Stands for a kill: nothing cleans up after it."""


@pytest.fixture(scope="module", params=["pod", "workload"])
def job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Path]:
    """Return input files and a map, for groups of a few rows."""
    folder = tmp_path_factory.mktemp("job")
    draw = random.Random(3)
    if request.param == "pod":
        frame, content = pod_frame(3, 200), merged(POD_MAP, HPAS)
    else:
        rows = [
            (BEGIN_S + 60 * k, app, draw.randrange(5), draw.random() * 100)
            for app in "abcd"
            for k in range(50)
        ]
        frame = pl.DataFrame(rows, schema=["ts", "app", "size", "cpu"], orient="row")
        content = merged(WORKLOAD_MAP, HPAS)
    files = []
    for k, part in enumerate(frame.iter_slices(75)):
        files.append(str(folder / f"in-{k}.parquet"))
        part.write_parquet(files[-1])
    return files, write_map(folder, content)


class Whole(NamedTuple):
    """An import that nothing interrupted: what it told, its rows, and its files once compacted."""

    told: ImportResult
    tables: dict[str, pl.DataFrame]
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def whole(job: tuple[list[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Whole:
    out = tmp_path_factory.mktemp("whole") / "out"
    told = import_table(*job, out, group_rows=60)
    return Whole(told, read_tables(out), bytes_of(out))


def bytes_of(out: Path) -> dict[str, bytes]:
    compact(out, grace_s=-1)
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }


# Where an import is killed, whether groups were written, and whether its work folder is lost.
STOPS: list[tuple[object, str, int, bool, bool]] = [
    (table_spill, "_sorted_run", 2, False, False),
    (table_spill, "_read_part", 2, False, True),
    (Sink, "add", 1, False, False),
    (Sink, "add", 14, True, False),
    (Sink, "add", 14, True, True),
    (table, "import_group", 2, True, False),
    (table, "scales_table", 1, True, True),
]


@pytest.mark.parametrize(("place", "name", "call", "resumed", "lost"), STOPS)
def test_a_killed_import_resumes_to_the_same_bytes(
    tmp_path: Path,
    job: tuple[list[str], Path],
    whole: Whole,
    place: object,
    name: str,
    call: int,
    resumed: bool,
    lost: bool,
) -> None:
    files, path = job
    original, calls = getattr(place, name), 0

    def kill(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KilledError
        return original(*given, **named)

    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(KilledError):
            import_table(files, path, out, group_rows=60)
    (kept,) = tmp_path.glob(".out.import-*")
    if lost:
        shutil.rmtree(kept)
    again = import_table(files, path, out, group_rows=60)
    assert not list(tmp_path.glob(".out.import-*"))
    assert_same(whole.tables, read_tables(out))
    assert whole.files == bytes_of(out)
    assert again.written == whole.told.written
    assert (again.rows_read, again.duplicates) == (whole.told.rows_read, whole.told.duplicates)
    assert again.workloads.equals(whole.told.workloads)
    assert (again.resumed > 0) == resumed


def test_a_dry_run_writes_nothing_and_tells_the_same(
    tmp_path: Path, job: tuple[list[str], Path]
) -> None:
    files, path = job
    names = {str(file) for file in path.parent.rglob("*")}
    dry = import_table(files, path, None)
    assert {str(file) for file in path.parent.rglob("*")} == names
    assert not list(tmp_path.iterdir())
    wet = import_table(files, path, tmp_path / "out")
    assert (dry.written, dry.rows_read, dry.assumed) == (wet.written, wet.rows_read, wet.assumed)
    assert dry.workloads.equals(wet.workloads)
    assert dry.first["pod_metrics"].height == 5
    assert wet.first == {}


def test_files_are_one_table_whatever_their_order_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pod_frame(5).unique(["ts", "pod"], maintain_order=True)
    path = write_map(tmp_path, POD_MAP)
    frame.write_parquet(tmp_path / "one.parquet")
    frame.write_csv(tmp_path / "one.csv")
    frame.sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / "shuffled.csv")
    frame[:100].write_parquet(tmp_path / "x2.parquet")
    frame[100:].write_csv(tmp_path / "x1.csv")
    frame.write_parquet(tmp_path / "cut.parquet", row_group_size=50)
    monkeypatch.setattr(table_files, "PART_ROWS", 100)
    cut = open_parts([tmp_path / "cut.parquet"], read_map(path))
    assert [(part.number, part.first, part.rows) for part in cut[:2]] == [
        (0, 0, 100),
        (1, 100, 100),
    ]
    found = []
    inputs = (["one.parquet"], ["one.csv"], ["shuffled.csv"], ["x*"], ["cut.parquet"])
    for k, names in enumerate(inputs):
        import_table([str(tmp_path / name) for name in names], path, tmp_path / f"out{k}")
        found.append(read_tables(tmp_path / f"out{k}"))
        # (the name of the import, which is of its files' bytes)
        found[-1]["provenance"] = found[-1]["provenance"].drop("detail")
    for other in found[1:]:
        assert_same(found[0], other)


def test_clusters_and_namespaces_are_kept_apart(tmp_path: Path) -> None:
    columns = {"cluster": "c", "namespace": "ns", "kind": "k"}
    said = merged(POD_MAP, HPAS | {"columns": columns, "lives": {"edge": "60s"}})
    frame = pl.DataFrame(
        {
            "ts": [BEGIN_S, BEGIN_S, BEGIN_S + 9000],
            "app": ["a", "a", "a"],
            "pod": ["a-1", "a-1", "a-1"],
            "cpu": [0.1, 0.2, 0.3],
            "mem": [1.0, 1.0, 1.0],
            "c": ["east", "west", "east"],
            "ns": ["shop", "shop", "bank"],
            "k": ["Deployment", "StatefulSet", "Deployment"],
        }
    )
    _, tables = run_import(tmp_path, said, frame)
    assert tables["pods"]["uid"].n_unique() == 3
    assert tables["scales"].select("cluster", "namespace", "target_kind").rows() == [
        ("east", "bank", "Deployment"),
        ("east", "shop", "Deployment"),
        ("west", "shop", "StatefulSet"),
    ]
    # west's only pod stays: its cluster's table ends there.
    gone = dict(tables["pods"].select("cluster", pl.col("gone").is_null()).rows())
    assert gone["west"] is True


def test_a_place_that_is_no_store_is_refused_before_reading(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        run_import(tmp_path, POD_MAP, pod_frame(1))
    with pytest.raises(HistoryError, match="has no column"):
        run_import(tmp_path, POD_MAP, pod_frame(1).drop("cpu"))
    assert (tmp_path / "history" / "notes.txt").read_text() == "mine"


def test_intermediate_files_lie_beside_the_store_or_where_asked(tmp_path: Path) -> None:
    assert work_folder(tmp_path / "h", "0123456789abcdef0") == (
        tmp_path / ".h.import-0123456789abcdef"
    )
    seen: list[list[str]] = []

    def look(message: str, share: float) -> None:
        seen.append([path.name for path in (tmp_path / "work").glob("import-*/*")])

    run_import(tmp_path, POD_MAP, pod_frame(1), work=tmp_path / "work", progress=look)
    assert any("read-00000" in names for names in seen)
    assert list((tmp_path / "work").glob("*")) == []
