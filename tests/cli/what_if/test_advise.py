"""`hpabatch advise` at the command line: one command, one folder, what it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest
import yaml

from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import write_fleet
from hpabatch.cli import recommend_files
from hpabatch.engine.advise.frames import COLUMNS
from hpabatch.engine.advise.request import DEFAULT_SLO
from hpabatch.errors import UnfinishedError
from hpabatch.history.store.append import open_writer
from hpabatch.jobs import advise as jobs
from tests.cli.commands import Run, runner

compiled = pytest.mark.compiled
PLANT = "- {hpa: '*/*', signals: {resource/cpu: {ceiling: 4000m}}}\n"
GRID = ("--grid", "target=x0.8,x1.2", "--grid", "scaleDown.window=60")
SEEN = ("--lens", "none")
"""Where the estimate of a lens, four fifths of an advice's time here, is not what is tested."""
TABLE = "time,namespace,workload,pod,cpu_cores,cpu_request_cores\n"
MAP = """\
level: pod
columns:
  time: time
  namespace: namespace
  workload: workload
  pod: pod
  cpu: {column: cpu_cores, unit: cores}
requests: {cpu: 500m}
hpas: {template: {min: 1, max: 8, cpu: 60%}}
"""


@pytest.fixture
def run(
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner("advise", capsysbinary, monkeypatch)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two HPAs over two days, a sample a minute."""
    place = tmp_path_factory.mktemp("advise") / "history"
    request = FleetRequest(hpas=2, pods=3, days=2, step_ms=60_000, seed=5)
    write_fleet(request, open_writer(str(place)))
    return place


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "advice"


@pytest.fixture
def given(run: Run, history: Path, kept: Path) -> tuple[str | Path, ...]:
    """Return a command that has been run: its folder is here. It runs once for all tests."""
    command = (history, *SEEN, *GRID, "--accept", "low", "--out", "advice")
    if kept.exists():
        copytree(kept, "advice")
    else:
        done = run(*command)
        assert done.code == 0, done.stderr
        copytree("advice", kept)
    return command


@compiled
def test_one_command_leaves_everything_that_its_answers_rest_on(run: Run, history: Path) -> None:
    Path("plant.yaml").write_text(PLANT)
    given = (history, *SEEN, *GRID, "--plant", "plant.yaml", "--accept", "low", "--out", "advice")
    done = run(*given)
    assert done.code == 0, done.stderr
    assert " of 2 HPAs should change: saves " in done.lines[0]
    assert "; written to advice/patches: patches " in done.lines[0]
    assert any(line.startswith("asked for: least pod_hours with") for line in done.lines)
    assert any(line.startswith("next: hpabatch recommend advice/sweep") for line in done.lines)
    assert {p.name for p in Path("advice").iterdir()} == {
        "advice.json",
        "sweep",
        "patches",
        "review",
        "trajectories.parquet",
    }
    sizes = pl.read_parquet("advice/trajectories.parquet")
    assert sizes["setting"].to_list().count("today") > 0
    assert sizes.select("cluster", "namespace", "hpa").unique().height == 2
    told = json.loads(run(*given, "-o", "json").stdout)
    changes = [hpa for hpa in told["hpas"] if hpa["answer"] == "change"]
    patches = sorted(Path("advice/patches").glob("*.yaml"))
    assert len(patches) == len(changes)
    for hpa, path in zip(changes, patches, strict=True):
        assert yaml.safe_load(path.read_text())["spec"] == json.loads(hpa["patch"])
        assert hpa["setting"] in set(sizes["setting"])
    assert told["parameters"]["slos"] == list(DEFAULT_SLO)


@compiled
def test_the_same_command_gives_the_same_and_another_one_is_refused(
    run: Run, history: Path
) -> None:
    same = (history, *SEEN, *GRID, "--out", "advice")
    first = run(*same, "-o", "csv")
    assert first.code == 0, first.stderr
    assert first.stdout.splitlines()[0] == ",".join(COLUMNS)
    assert run(*same, "-o", "csv").data == first.data
    # Another SLO asks the same sweep; another grid is another sweep.
    assert run(*same, "--slo", "under_minutes<1/week").code == 0
    other = run(history, *SEEN, "--grid", "max=+1", "--out", "advice")
    assert other.code == 3
    assert "holds another sweep (" in other.stderr


def test_a_table_needs_its_map(run: Run) -> None:
    Path("usage.csv").write_text(TABLE)
    done = run("usage.csv", "--out", "advice")
    assert (done.code, done.data) == (2, b"")
    assert "`hpabatch import table usage.csv --init --map map.yaml` proposes it" in done.stderr


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("-", "--out: expected a new folder for the advice, got '-'; name one"),
        ("s3://b/a", "--out: expected a new folder for the advice, got 's3://b/a'; name one"),
        ("usage.csv", "--out usage.csv is a file; name a new folder"),
        ("mine", "--out mine is no folder of earlier advice (it holds notes.txt"),
    ],
)
def test_a_place_that_is_no_folder_of_advice_is_refused(run: Run, out: str, told: str) -> None:
    Path("usage.csv").write_text(TABLE)
    Path("mine").mkdir()
    (Path("mine") / "notes.txt").write_text("mine")
    done = run("usage.csv", "--map", "map.yaml", "--out", out)
    assert (done.code, done.data) == (2, b"")
    assert done.stderr.startswith(f"error: {told}")
    assert [p.name for p in Path("mine").iterdir()] == ["notes.txt"]


@compiled
def test_a_table_is_imported_into_the_folder_first(run: Run) -> None:
    rows = ["time,namespace,workload,pod,cpu_cores"]
    for minute in range(3 * 1440):
        begin = datetime(2026, 10, 5, tzinfo=UTC) + timedelta(minutes=minute)
        wave = 0.3 + 0.15 * math.sin(minute / 229)
        rows += [f"{begin:%Y-%m-%dT%H:%M:%SZ},shop,api,api-{k},{wave + k / 50:.3f}" for k in (0, 1)]
    Path("usage.csv").write_text("\n".join(rows) + "\n")
    Path("map.yaml").write_text(MAP)
    given = ("usage.csv", "--map", "map.yaml", *GRID, "--out", "advice")
    done = run(*given)
    assert done.code == 0, done.stderr
    assert Path("advice/history").is_dir()
    assert "of 1 HPA should change" in done.stdout
    again = run(*given)
    assert (again.code, again.data) == (0, done.data), again.stderr
    first = rows[1].replace("0.300", "0.900")
    Path("usage.csv").write_text("\n".join([rows[0], first, *rows[2:]]) + "\n")
    assert run(*given).code == 3
    assert run(*given, "--replace").code == 0


@compiled
def test_what_a_user_put_beside_the_patches_is_not_removed(
    run: Run, given: tuple[str | Path, ...]
) -> None:
    mine = Path("advice/patches/kustomization.yaml")
    mine.write_text("mine")
    done = run(*given)
    assert (done.code, done.data) == (2, b"")
    assert "holds kustomization.yaml" in done.stderr
    assert mine.read_text() == "mine"


@compiled
def test_parts_of_another_sweep_go_before_new_ones_are_made(
    run: Run, history: Path, given: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    former = Path("advice/trajectories.parquet").read_bytes()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hpabatch.jobs.advise.write_trajectories", stop)
        done = run(history, *SEEN, "--grid", "max=+1", "--replace", "--out", "advice")
    assert done.code == 130
    assert {p.name for p in Path("advice").iterdir()} == {"advice.json", "sweep"}
    assert run(*given, "--replace").code == 0
    assert Path("advice/trajectories.parquet").read_bytes() == former


def test_an_interrupt_before_anything_was_done_says_so(
    run: Run, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hpabatch.cli.advise._advice", stop)
    done = run(history, "--out", "advice")
    assert (done.code, Path("advice").exists()) == (130, False)
    assert done.stderr.splitlines()[-1].startswith("interrupted: nothing was done that can be kept")


@compiled
def test_trajectories_of_an_answer_that_was_interrupted_are_not_those_of_another(
    run: Run, given: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectories = Path("advice/trajectories.parquet")
    first = trajectories.read_bytes()

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hpabatch.cli.recommend_files.write_files", stop)
        assert run(*given, "--bound", "target=same", "--bound", "min=same").code == 130
    assert run(*given).code == 0
    assert trajectories.read_bytes() == first


@compiled
def test_a_folder_is_of_one_run_and_what_was_changed_in_it_is_made_again(
    run: Run, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[Any, str]] = [
        (jobs, "write_trajectories"),
        (recommend_files, "write_files"),
        (jobs.AdviceFolder, "finish"),
    ]
    refused: list[str] = []
    for owner, name in steps:
        monkeypatch.setattr(owner, name, with_another(getattr(owner, name), refused))
    given = (history, *SEEN, *GRID, "--accept", "low", "--out", "advice")
    first = run(*given)
    assert first.code == 0, first.stderr
    assert len(refused) == len(steps)
    before = contents(Path("advice"))
    assert "lock" not in before
    for name in ("trajectories.parquet", "sweep/results.parquet"):
        pl.read_parquet(f"advice/{name}").reverse().write_parquet(f"advice/{name}")
        assert run(*given).data == first.data
        assert contents(Path("advice")) == before


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def with_another(step: Callable[..., object], refused: list[str]) -> Callable[..., object]:
    """Return a step of a run, before which another run begins; `refused` gets what it is told."""

    def both(*given: object, **named: object) -> object:
        told = "another hpabatch is working on the same output"
        another = jobs.AdviceFolder(Path("advice"))
        with pytest.raises(UnfinishedError, match=told) as caught, another.opened():
            pass
        refused.append(str(caught.value))
        return step(*given, **named)

    return both


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ('{"kind": "hpabatch advice", "format": 99}', "written by another version of hpabatch"),
        ('{"kind": "hpabatch adv', "its advice.json is damaged"),
    ],
)
def test_a_folder_of_another_version_or_a_damaged_one_is_refused(
    run: Run, index: str, told: str
) -> None:
    Path("advice").mkdir()
    Path("advice/advice.json").write_text(index)
    done = run("history", "--out", "advice")
    assert (done.code, done.data) == (2, b"")
    assert told in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("history", "--slo", "saturated<1/week"), "saturated is no measure of a block"),
        (("history", "--bound", "size=3"), "no such field"),
        (("history", "--objects", "missing.yaml"), "missing.yaml"),
        (("history", "--minimize", "joy"), "joy"),
        (("history", "--minimize", "cost"), "with --prices FILE"),
        (("missing.csv", "--map", "missing.yaml"), "missing.csv: there is no such file"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_done(
    run: Run, tmp_path: Path, given: tuple[str, ...], told: str
) -> None:
    done = run(*given, "--out", "advice")
    assert (done.code, done.data) == (2, b"")
    assert told in done.stderr
    assert not (tmp_path / "advice").exists()
