"""hpabatch as a Python package."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import hpabatch
from hpabatch.engine.replay import summary
from hpabatch.engine.shards.observe import SCHEMA as OBSERVED
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import open_writer
from tests.cli.histories import MANIFESTS, small, table
from tests.cli.test_startup import HEAVY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("api") / "history")


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same history as a store."""
    path = tmp_path_factory.mktemp("api") / "store"
    history = open_history(folder)
    with open_writer(path).part("all") as part:
        for name in history.tables:
            part.add(name, history.read(name))
    return path


@pytest.fixture(scope="module", params=["folder", "store"])
def history(request: pytest.FixtureRequest) -> hpabatch.Recording:
    return hpabatch.open(request.getfixturevalue(request.param))


@pytest.fixture
def recording(folder: Path) -> hpabatch.Recording:
    return hpabatch.open(folder)


def test_importing_it_imports_nothing_heavy() -> None:
    code = f"import sys, hpabatch; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
    assert {"open", "Recording", "import_table", "validate", "__version__"} <= set(dir(hpabatch))
    name = "nothing"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(hpabatch, name)


# ---- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_lazy_table_is_the_table(history: hpabatch.Recording, name: str) -> None:
    whole = history.history.read(name, optional=True)
    lazy = history.table(name)
    assert lazy.collect_schema() == whole.schema
    for engine in ("in-memory", "streaming"):
        found: Any = lazy.collect(engine=engine)
        assert_frame_equal(found, whole, check_row_order=False)


def test_what_it_holds(history: hpabatch.Recording) -> None:
    assert history.hpas["hpa"].to_list() == ["etl", "render", "reports", "thumbnails", "worker"]
    assert history.info().clusters == ("demo",)
    assert history.quality()["hpa"].to_list() == history.hpas["hpa"].to_list()
    assert "pod_metrics" in repr(history)


# ---- replay -------------------------------------------------------------------------------------


def test_replay(history: hpabatch.Recording, tmp_path: Path) -> None:
    replay = history.replay()
    assert repr(replay).startswith("<Replay: 5 HPAs, 395 decisions: ")
    assert replay.summary.columns == list(summary.COLUMNS)
    assert replay.totals.hpas == len(replay.hpas) == 5
    assert replay.attention(top=1).height == 1
    assert replay.evidence["k8s"] == "1.38"
    assert replay.skipped.is_empty()
    assert replay.score.hpas.height == 5
    assert not replay.warnings
    replay.write(tmp_path / "d.parquet")
    whole = pl.read_parquet(tmp_path / "d.parquet")
    text = replay.decisions.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    assert_frame_equal(whole, text)


def test_a_replay_to_disk_is_the_same(history: hpabatch.Recording, tmp_path: Path) -> None:
    replay = history.replay(where="hpa <> 'etl'", max_age="3m")
    done = history.replay_to(tmp_path / "d.parquet", where="hpa <> 'etl'", max_age="3m")
    assert_frame_equal(done.summary, replay.summary)
    text = replay.decisions.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    assert_frame_equal(pl.read_parquet(tmp_path / "d.parquet"), text)
    history.replay_to(f"{tmp_path}/parts/", where="hpa <> 'etl'", max_age="3m")
    history.replay_to(tmp_path / "parts", where="hpa <> 'etl'", max_age="3m")
    assert_frame_equal(pl.read_parquet(tmp_path / "parts" / "*.parquet"), text)


def test_manifests(folder: Path, tmp_path: Path) -> None:
    history = hpabatch.open(folder)
    replay = history.replay(hpas=[MANIFESTS / "batch.yaml"], where="hpa = 'etl'")
    assert replay.totals.hpas == 1
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(RefusedError, match=r"bad.yaml:"):
        history.replay(hpas=[tmp_path / "bad.yaml"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"k8s": 1.36}, "k8s: expected a string, got float 1.36"),
        (
            {"feature_gates": {"HPAScaleToZero": True}},
            "feature_gates: expected a string, got dict {'HPAScaleToZero': True}",
        ),
        ({"speed": 2}, "unknown option speed: known: names, why, namespace, where, hpas, "),
        ({"events": "all"}, "events: expected one of recorded, decided, got 'all'"),
        ({"instants": "all"}, "instants: expected one of grid, recorded, passes, got 'all'"),
        ({"delay": "soon"}, "delay: expected a duration (whole numbers"),
        ({"max_age": timedelta(0)}, "max_age: expected a duration of at least 1ms, got 0s"),
        ({"phase": timedelta(seconds=-1)}, "phase: expected a duration of at least 0s, got -1s"),
    ],
)
def test_options_that_are_not_possible(folder: Path, options: Any, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        hpabatch.open(folder).replay(**options)
    assert told in str(refused.value)


# ---- observations -------------------------------------------------------------------------------


def test_observations(history: hpabatch.Recording) -> None:
    seen = history.observations("worker")
    assert seen.schema == OBSERVED
    assert seen["ts"].n_unique() == 79
    uids = history.table("pods").filter(pl.col("target") == "worker").collect()["uid"]
    assert set(seen["uid"].drop_nulls()) <= set(uids)
    for name in ("batch/worker", "demo/batch/worker"):
        assert_frame_equal(history.observations(name), seen)
    late = history.observations("worker", delay="30s").filter(pl.col("sample_ts").is_not_null())
    assert late.select((pl.col("ts") - pl.col("sample_ts")).min()).item() >= timedelta(seconds=30)


@pytest.mark.compiled
def test_stated_requests_count_as_if_they_were_recorded(tmp_path: Path) -> None:
    stated = small(tmp_path / "stated")
    rows = table(stated, "pod_requests")
    is_app = (pl.col("target") == "worker") & (pl.col("kind") == "app")
    halved = pl.when(is_app).then(pl.lit(50)).otherwise(pl.col("cpu_milli")).cast(pl.Int64)
    told: Any = {"requests": ["worker=50m"]}
    asked = hpabatch.open(stated)
    replayed = asked.replay("worker", **told).decisions
    simulated = asked.simulate("worker", length="10m", **told).measures
    assert not replayed.equals(asked.replay("worker").decisions)
    recorded = small(tmp_path / "recorded")
    rows.with_columns(cpu_milli=halved).write_parquet(recorded / "pod_requests.parquet")
    truth = hpabatch.open(recorded)
    assert_frame_equal(replayed, truth.replay("worker").decisions)
    assert_frame_equal(simulated, truth.simulate("worker", length="10m").measures)


def test_arguments_by_position_and_by_keyword(
    recording: hpabatch.Recording, tmp_path: Path
) -> None:
    done = recording.replay_to("etl", out=tmp_path / "d.parquet")  # type: ignore[misc]
    assert done.summary["hpa"].to_list() == ["etl"]
    assert recording.replay(["etl", "render"]).summary.height == 2
    with pytest.raises(UsageError, match="names: expected once, got by position and by keyword"):
        recording.replay("etl", names=["render"])  # type: ignore[call-arg]
