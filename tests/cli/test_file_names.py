"""Names as file names: whatever clusters, namespaces and HPAs are called, files stay apart."""

from __future__ import annotations

import json
import shlex
from itertools import product
from pathlib import Path

import polars as pl
import pytest
import yaml

from hpabatch.history.store.catalog import folder_of
from hpabatch.live.loop.setup import state_file
from tests.cli.commands import Run, runner
from tests.cli.hostile import NASTY, PLAIN, history, raw_characters
from tests.cli.what_if.test_recommend import GRID, SLO
from tests.sweeps import SweepMaker, weeks

CALM = [5.0] * 4
KEYS = [
    *product(("east",), ("shop",), (
        "web", "../../x", "/abs", ".", "..", "con", "CON", "Con", "x" * 300, "x" * 301, "é" * 300,
        "-dash", "new\nline", "new_line", "trail", "trail ", "a/b", "a\\b", "a_b", "nul\x00", NASTY,
    )),
    *product(("west", "West", "../west", "x=1/y%2F"), ("shop", "con", "-n"), ("web",)),
    ("prod", "eu", "web.x"),
    ("prod.eu", "web", "x"),
    ("a/b", "c", "web"),
    ("a", "b/c", "web"),
    ("a", "", "b"),
]  # fmt: skip


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("recommend", capsysbinary, monkeypatch)


def sweep_of(folder: Path, keys: list[tuple[str, str, str]]) -> Path:
    """Write a sweep in which each of these HPAs is given a change."""
    maker = SweepMaker(GRID[:1])
    came = {0: weeks([100] * 4, saturated_minutes=CALM), 1: weeks([80] * 4, saturated_minutes=CALM)}
    for number, (cluster, namespace, hpa) in enumerate(keys):
        start = len(maker.results), len(maker.blocks)
        maker.add(hpa, came, cluster=cluster, unit=f"unit {number}", namespace=namespace)
        for row in (*maker.results[start[0] :], *maker.blocks[start[1] :]):
            row["namespace"] = namespace
    return maker.write(folder / "sweep")


def test_no_file_leaves_the_folder_and_none_is_of_two(run: Run, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, KEYS)
    before = set(tmp_path.rglob("*"))
    done = run(sweep, *SLO, "--patches", tmp_path / "out")
    assert done.code == 0, done.stderr
    assert raw_characters(done.stdout + done.stderr) == []
    assert all(p.is_relative_to(tmp_path / "out") for p in set(tmp_path.rglob("*")) - before)
    assert f"patches {len(KEYS)}, certificates {len(KEYS)}" in done.stdout
    files = sorted((tmp_path / "out").glob("*.yaml"))
    assert len({file.name.casefold() for file in files}) == len(KEYS)
    assert all(file.name.isascii() and file.name[0] not in "-." for file in files)
    assert all(len(file.name) < 230 for file in files)
    assert not any(file.name.casefold().startswith("con.") for file in files)
    found = set()
    for file in files:
        text = file.read_text()
        told = json.loads(file.with_suffix(".json").read_text())
        (document,) = yaml.safe_load_all(text)
        metadata = document["metadata"]
        assert (metadata.get("namespace", ""), metadata["name"]) == (told["namespace"], told["hpa"])
        found.add((told["cluster"], told["namespace"], told["hpa"]))
        assert raw_characters(text) == []
    assert found == set(KEYS)


def test_the_command_in_a_patch_is_one_command(run: Run, tmp_path: Path) -> None:
    name = "web; touch x"
    done = run(sweep_of(tmp_path, [("east", "$(id)", name)]), *SLO, "--patches", tmp_path / "out")
    assert done.code == 0, done.stderr
    (file,) = (tmp_path / "out").glob("*.yaml")
    lines = file.read_text().splitlines()
    (command,) = [line for line in lines if line.startswith("# apply: ")]
    words = shlex.split(command.removeprefix("# apply: "))
    assert words[:2] == ["kubectl", "patch"]
    assert words[3:6] == [name, "-n", "$(id)"]
    assert words[-1] == file.name


@pytest.mark.parametrize("place", [".", "..", "x/.."])
def test_patches_take_no_folder_that_is_in_use(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "empty" / "x").mkdir(parents=True)
    sweep = sweep_of(tmp_path, KEYS[:1])
    monkeypatch.chdir(tmp_path / "empty")
    done = run(sweep, *SLO, "--patches", place)
    assert done.code == 2
    assert done.stderr.startswith(f"error: --patches {place}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "sweep"]


def test_patches_below_a_folder_that_is_not_there_yet(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(tmp_path, KEYS[:1])
    monkeypatch.chdir(tmp_path)
    done = run(sweep, *SLO, "--patches", "new/../out")
    assert done.code == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "new") == ["out", "sweep"]


def test_the_memory_of_two_clusters_is_two_files() -> None:
    names = ("prod", "prod/eu", "prod_eu", "prod:eu", "../prod", "..", "a\x00", "é", "x" * 300,
             "x" * 301, "x\ud800", NASTY)  # fmt: skip
    paths = [state_file({"HOME": "/home/me"}, name, "https://a") for name in names]
    assert len(set(paths)) == len(names)
    assert {path.parent for path in paths} == {Path("/home/me/.local/state/hpabatch")}
    assert paths[0].name.startswith("live-prod-")
    assert all(len(path.name.encode()) < 200 and path.name.isascii() for path in paths)


def test_partitions_of_a_store_are_below_it() -> None:
    names = ("prod", "a/b", "a%2Fb", "a=b", "a~2fb", "..", ".", "", "x" * 300, "x" * 301, "\n")
    folders = [folder_of("pods", name, None) for name in names]
    assert len(set(folders)) == len(names)
    assert all(f.startswith("pods/cluster=") and f.count("/") == 1 for f in folders)


def test_a_store_gives_back_clusters_as_they_are_called(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = "/../%2F=~\x1b\n" + PLAIN
    folder = history(tmp_path / "history", lambda name: name + end)
    run = runner("history", capsysbinary, monkeypatch)
    done = run("migrate", folder, tmp_path / "store")
    assert done.code == 0, done.stderr
    done = run("info", tmp_path / "store", "-o", "json")
    assert json.loads(done.stdout)["clusters"] == sorted(name + end for name in ("demo", "other"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["history", "store"]
    assert pl.read_parquet(folder / "scales.parquet").height > 0
