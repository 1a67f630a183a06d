"""One contract of all commands: forms, places, terminals, interruptions and what cannot be read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest

from hpabatch.report import forms
from tests.cli.commands import Done, Run, runner
from tests.cli.histories import MANIFESTS, edit_spec, small
from tests.sweeps import SweepMaker, weeks

compiled = pytest.mark.compiled
READERS: dict[str, tuple[str, ...]] = {
    "replay": ("replay", "HISTORY"),
    "get": ("get", "HISTORY"),
    "findings": ("findings", "HISTORY"),
    "describe": ("describe", "HISTORY"),
    "explain": ("explain", "HISTORY", "batch/etl"),
    "compare": ("compare", "HISTORY", "--k8s", "1.37..1.38"),
    "fit": ("fit", "HISTORY"),
    "fidelity": ("fidelity", "HISTORY"),
    "simulate": ("simulate", "HISTORY", "--for", "5m"),
    "plan": ("plan", "HISTORY", "--for", "5m"),
    "sweep": ("sweep", "HISTORY", "--grid", "max=+1", "--for", "5m", "--no-fidelity", "--out", "s"),
    "history info": ("history", "info", "HISTORY"),
    "history check": ("history", "check", "HISTORY"),
    "history quality": ("history", "quality", "HISTORY"),
}
"""Commands that read a history."""
OTHERS: dict[str, tuple[str, ...]] = {
    "recommend": ("recommend", "sweep", "--slo", "saturated_minutes<10/week"),
    "analyze": ("analyze", str(MANIFESTS / "batch.yaml")),
    "lint": ("lint", str(MANIFESTS / "batch.yaml")),
    "gate": ("gate", "--base", str(MANIFESTS / "batch.yaml"), "--head", str(MANIFESTS)),
    "validate": ("validate", str(MANIFESTS / "batch.yaml")),
}
COMPILED = {"fit", "fidelity", "simulate", "plan", "sweep"}
RENAMED = {"hpas", "differences", "tables", "steps"}
"""Keys under which documents of several parts have the rows of the frame."""


def cases(*names: str) -> list[object]:
    return [pytest.param(n, marks=compiled if n in COMPILED else ()) for n in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a history, one of an HPA that is refused, and a sweep."""
    folder = tmp_path_factory.mktemp("contract")
    small(folder / "history")
    edit_spec(small(folder / "refused"), "etl", maxReplicas=0)
    maker = SweepMaker([{"target": "70"}])
    maker.add("api", {k: weeks([pods] * 6) for k, pods in enumerate((100.0, 80.0))})
    maker.write(folder / "sweep")
    (folder / "file").touch()
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def run(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.chdir(folder)

    def call(*words: str, history: str = "history") -> Done:
        command, *others = (word.replace("HISTORY", history) for word in words)
        return runner(command, capsysbinary, monkeypatch)(*others)

    return call


@pytest.mark.parametrize("name", cases(*READERS, *OTHERS))
def test_forms_hold_the_same(run: Run, name: str) -> None:
    words = (READERS | OTHERS)[name]
    told = {form: run(*words, "-o", form) for form in ("csv", "json", "parquet")}
    codes = {done.code for done in told.values()}
    assert len(codes) == 1
    frame = pl.read_parquet(io.BytesIO(told["parquet"].data))
    rows = list(csv.DictReader(io.StringIO(told["csv"].stdout)))
    assert len(rows) == frame.height
    assert not rows or list(rows[0]) == frame.columns
    document = json.loads(told["json"].stdout)
    if isinstance(document, dict):
        (key,) = RENAMED & document.keys() or {""}
        document = document.get(key)
    if document and name not in ("fit", "analyze"):
        assert list(document[0]) == frame.columns
        assert len(document) == frame.height


@pytest.mark.parametrize("name", cases(*READERS))
def test_what_is_no_history_is_a_sentence(run: Run, name: str) -> None:
    for place in ("nowhere", "file", "empty"):
        done = run(*READERS[name], history=place)
        assert (done.code, done.data) == (2, b"")
        assert re.fullmatch(rf"error: [^\n]*{place}[^\n]*\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    "name", cases("get", "describe", "replay", "fit", "fidelity", "history quality")
)
def test_an_hpa_that_is_refused_is_told_and_the_others_are_shown(run: Run, name: str) -> None:
    done = run(*READERS[name], "-o", "csv", history="refused")
    assert done.code == 3
    assert re.search(r"^skipped: (demo/)?batch/etl: .*Invalid value: 0", done.stderr, re.MULTILINE)
    assert "reports" in done.stdout


@pytest.mark.parametrize("name", cases(*READERS, *OTHERS))
def test_binary_data_goes_to_no_terminal_and_no_form_is_made_up(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (READERS | OTHERS)[name]
    assert run(*words, "-o", "xml").code == 2
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    done = run(*words, "-o", "parquet")
    assert (done.code, done.data) == (2, b"")
    assert "--output parquet is binary: redirect stdout" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("replay", "HISTORY", "--out", "d.parquet"), "d.parquet is written"),
        (("replay", "HISTORY"), "nothing was written"),
        pytest.param(READERS["sweep"], "s is written", marks=compiled),
    ],
)
def test_an_interruption_says_what_is_left(
    run: Run, words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(forms, "report_bytes", interrupted)
    done = run(*words)
    assert done.code == 130
    assert done.stderr.splitlines()[-1] == f"interrupted: {told}"


@pytest.mark.parametrize(
    "words",
    [
        (*READERS["simulate"], "--trajectories"),
        (*READERS["fidelity"], "--changes"),
        (*READERS["plan"], "--totals"),
        (*READERS["fit"], "--init-plant"),
    ],
    ids=lambda words: " ".join(words[::3]),
)
def test_places_for_files_are_refused_before_anything_is_computed(
    run: Run, words: tuple[str, ...]
) -> None:
    option = words[-1]
    for place in ("sweep", "file/x.csv", "x" * 300):
        done = run(*words, place)
        assert (done.code, done.data) == (2, b"")
        assert done.stderr.startswith(f"error: {option} {place} "), done.stderr
    if option == "--totals":
        done = run(*words, "sums.txt")
        assert "a name that ends with .csv or .parquet is wanted" in done.stderr


def test_places_for_folders_are_refused_before_anything_is_computed(run: Run) -> None:
    before = sorted(os.listdir())
    for place in ("sweep", "file", ".", "file/x"):
        done = run(*READERS["plan"], "--out", place)
        assert (done.code, done.data) == (2, b"")
        assert done.stderr.startswith(f"error: --out {place}"), done.stderr
    assert sorted(os.listdir()) == before
