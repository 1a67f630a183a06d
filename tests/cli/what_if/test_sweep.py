"""`hpabatch sweep` at the command line: data on stdout, talk on stderr, exit codes, a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from hpabatch.jobs.sweep_files import read_sweep
from hpabatch.model.settings.fields import FIELDS, SHIPPED
from tests.cli.commands import Done, Run, runner
from tests.engine.swept import cut

compiled = pytest.mark.compiled
NAMES = ("ingest/enricher", "media/transcoder", "payments/api", "shop/cart", "shop/catalog",
         "shop/checkout", "shop/recommendations")  # fmt: skip
QUICK = ("--for", "30m", "--no-fidelity")
SHOP = ("--where", "namespace = 'shop'")
ONE = ("--where", "hpa = 'checkout'")
LABELS = {"cart": "web", "catalog": "web", "checkout": "pay", "api": "pay"}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of some HPAs with labels; no sample of the first one's pods is known."""
    folder = cut(tmp_path_factory.mktemp("cli") / "history", *NAMES)
    path = folder / "hpas.parquet"
    rows = pl.read_parquet(path)
    labels = [
        json.dumps({"app": name} | ({"tier": LABELS[name]} if name in LABELS else {}))
        for name in rows["name"]
    ]
    rows.with_columns(labels=pl.Series(labels)).write_parquet(path)
    return folder


@pytest.fixture
def run(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner("sweep", capsysbinary, monkeypatch)


def refused(done: Done) -> str:
    """Hold that a command refused something before it did anything; return what it says."""
    assert (done.code, done.data) == (2, b""), done.stderr
    assert done.stderr.startswith("error: ")
    assert [place.name for place in Path.cwd().iterdir() if place.name != "given"] == []
    return done.stderr


# ---- what is shown


def test_help_names_every_field_and_set_and_gives_examples(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    for name in [field.name for field in FIELDS] + list(SHIPPED):
        assert re.search(rf"\b{re.escape(name)}\b", done.stdout), name
    assert "Examples:" in done.stdout
    assert "hpabatch sweep history/ --grid target=50:85:5" in done.stdout


# ---- who and what is left out


@compiled
def test_nobody_to_sweep(run: Run, history: Path) -> None:
    where = ("--where", "hpa = 'enricher'")
    done = run(history, "--grid", "max=+1", *where, *QUICK, "--out", "sweep")
    assert (done.code, done.data) == (3, b"")
    assert "skipped: demo/ingest/enricher" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == f"error: {history}: no HPA could be simulated, so nothing is written"
    assert list(Path.cwd().iterdir()) == []


@compiled
def test_groups(run: Run, history: Path) -> None:
    groups = ("--group", "label:tier=web", "--group", "pattern:shop/rec*")
    done = run(history, "--grid", "max=+1", *SHOP, *QUICK, *groups, "--out", "sweep")
    assert done.code == 0, done.stderr
    assert dict(read_sweep("sweep").hpas.select("hpa", "unit").rows()) == {
        "cart": "label:tier=web", "catalog": "label:tier=web",
        "recommendations": "pattern:shop/rec*",
    }  # fmt: skip
    assert "in no group" in done.stderr
    assert "swept: 2 units" in done.stdout


# ---- all mistakes in one message


def test_all_mistakes_of_grids_and_groups_at_once(run: Run, history: Path) -> None:
    wrong = {
        "targt=60": "did you mean target",
        "scaleDown.window=60,4000": "4000",
        "scaleUp.window=9:5:1": "scaleUp.window",
        "policies=gentle,furious": "furious",
        "min=30,40": "above",
        "max=20": "",
        "tolerance=0.05,much": "much",
        "target.memory=80": "target.memory",
    }
    groups = {
        "label:tier=nobody": "it is for none of",
        "patern:shop/*": "pattern",
    }
    options = [word for text in wrong for word in ("--grid", text)]
    options += [word for text in groups for word in ("--group", text)]
    told = refused(run(history, *options, *ONE, *QUICK, "--out", "sweep"))
    count = int(re.findall(r"there are (\d+) mistakes; correct all of them:", told)[0])
    mistakes = re.findall(r"^  - (.*)$", told, re.MULTILINE)
    assert len(mistakes) == count >= 9
    for words in [*wrong.values(), *groups.values()]:
        assert words in told


# ---- where it goes


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("given", "--out given is there and is no sweep; name a new folder"),
        ("given/file", "--out given/file is there and is no sweep"),
        ("given/file/sweep", "expected a folder"),
        ("nowhere/sweep", "/nowhere, got none; make it first"),
        ("s3://bucket/sweep", "expected a new folder for the sweep, got 's3://bucket/sweep'"),
        ("-", "expected a new folder for the sweep"),
        ("", "expected a new folder for the sweep"),
        (".", "expected a new folder for the sweep"),
        ("/proc/sweep", "cannot write /proc/.sweep.job"),
        ("x" * 300, "cannot be used"),
    ],
)
def test_places_that_cannot_be(run: Run, history: Path, out: str, told: str) -> None:
    Path("given").mkdir()
    Path("given/file").write_text("mine")
    assert told in refused(run(history, "--grid", "max=+1", *ONE, *QUICK, "--out", out))
    assert [p.name for p in Path("given").iterdir()] == ["file"]


def test_the_history_is_no_place_for_it(run: Run, history: Path) -> None:
    """A folder of that name would be taken for a table."""
    out = history / "object_metrics"
    told = refused(run(history, "--grid", "max=+1", *ONE, *QUICK, "--out", out))
    assert "would be a table of the history" in told
    assert not out.exists()
