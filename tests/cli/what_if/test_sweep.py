"""`hpabatch sweep` at the command line: data on stdout, talk on stderr, exit codes, a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from hpabatch.jobs.sweep_files import read_sweep
from hpabatch.model.settings.fields import FIELDS
from hpabatch.model.settings.policy_sets import SHIPPED
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


def results(folder: str = "sweep") -> pl.DataFrame:
    return read_sweep(folder).results


# ---- what is shown


@compiled
def test_the_table_tells_what_was_swept_and_how_to_go_on(run: Run, history: Path) -> None:
    done = run(history, "--grid", "target=60,80", *ONE, "--for", "30m", "--out", "sweep")
    assert done.code == 0, done.stderr
    assert done.lines[0].startswith("1 HPA under 3 settings; ")
    assert "rules of Kubernetes 1.38 (proved against upstream's code)" in done.lines
    assert "swept: 1 unit, setting 0 is today's, judged by the day" in done.stdout
    assert "docs/simulation.md" in done.stdout
    head = next(line for line in done.lines if line.startswith("HPA "))
    assert head.split() == ["HPA", "SETTINGS", "DAYS", "POD-HOURS", "SATURATED", "UNSERVED",
                            "RESCALES", "MISSING", "SAVES", "CHEAPEST"]  # fmt: skip
    assert "hpabatch recommend sweep --slo 'saturated_minutes<10/week'" in done.stdout
    found = read_sweep("sweep")
    assert sorted(p.name for p in Path("sweep").iterdir()) == [
        "blocks.parquet", "hpas.parquet", "results.parquet", "settings.parquet", "sweep.json",
    ]  # fmt: skip
    assert found.hpas["advice"].null_count() == 0
    assert found.hpas["controller_answer"].null_count() == 0


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
@pytest.mark.parametrize(
    ("groups", "units"),
    [
        (["label:tier=web"], {"cart": "label:tier=web", "catalog": "label:tier=web"}),
        (["file:given/groups.yaml"], {"cart": "first", "checkout": "second"}),
        (["label:tier=web", "pattern:shop/rec*"],
         {"cart": "label:tier=web", "catalog": "label:tier=web",
          "recommendations": "pattern:shop/rec*"}),
    ],
)  # fmt: skip
def test_groups(run: Run, history: Path, groups: list[str], units: dict[str, str]) -> None:
    given = Path("given")
    given.mkdir()
    (given / "groups.yaml").write_text("first: shop/cart\nsecond: [shop/check*]\n")
    options = [word for group in groups for word in ("--group", group)]
    done = run(history, "--grid", "max=+1", *SHOP, *QUICK, *options, "--out", "sweep")
    assert done.code == 0, done.stderr
    found = read_sweep("sweep").hpas.select("hpa", "unit").rows()
    assert dict(found) == units
    left = 4 - len(units)
    assert ("in no group" in done.stderr or "in none of the groups" in done.stderr) == bool(left)
    assert f"swept: {len(set(units.values()))} unit" in done.stdout


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
        "file:none.yaml": "none.yaml",
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


@compiled
def test_another_run_replaces_the_sweep(run: Run, history: Path) -> None:
    given = (history, *ONE, *QUICK, "--out", "sweep")
    assert run(*given, "--grid", "max=+1").code == 0
    before = read_sweep("sweep").settings
    refused = run(*given, "--grid", "min=+1,+2")
    assert refused.code == 3
    assert "or replace it with --replace" in refused.stderr
    assert read_sweep("sweep").settings.equals(before)
    assert run(*given, "--grid", "min=+1,+2", "--replace").code == 0
    assert (before.height, read_sweep("sweep").settings.height) == (2, 3)
    assert [p.name for p in Path.cwd().iterdir()] == ["sweep"]
    assert run(*given, "--grid", "min=+1,+2").stderr == ""


# ---- options that act


@compiled
def test_a_sample_of_a_grid(run: Run, history: Path) -> None:
    pytest.importorskip("scipy")
    grids = ("--grid", "target=40:90", "--grid", "max=x1:x3", "--sample", "6")
    assert run(history, *grids, *ONE, *QUICK, "--out", "sweep").code == 0
    first = read_sweep("sweep").settings
    assert first.height == 7
    run(history, *grids, *ONE, *QUICK, "--out", "sweep", "--seed", "1", "--replace")
    assert not read_sweep("sweep").settings.equals(first)


@compiled
def test_recommend_needs_no_policy_file(
    run: Run,
    history: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Path("given")
    given.mkdir()
    own = {"careful": {"scaleDown": {"policies": [
        {"type": "Pods", "value": 1, "periodSeconds": 90}]}}}  # fmt: skip
    (given / "sets.yaml").write_text(yaml.safe_dump(own))
    sets = ("--policy-sets", given / "sets.yaml")
    done = run(history, "--grid", "policies=careful", *sets, *ONE, *QUICK, "--out", "sweep")
    assert done.code == 0, done.stderr
    (given / "sets.yaml").unlink()
    recommend = runner("recommend", capsysbinary, monkeypatch)
    told = recommend("sweep", "--slo", "saturated_minutes<10/week", "--patches", "patches")
    assert told.code in (0, 3), told.stderr
    assert "shop/checkout" in told.stdout


@compiled
def test_a_lens_is_told_with_the_sweep(run: Run, history: Path, tmp_path: Path) -> None:
    lens = tmp_path / "given"
    lens.mkdir()
    (lens / "lens.yaml").write_text("- {signal: resource/cpu, lag: 30s, scale: 1.5}\n")
    given = ("--grid", "max=+1", *QUICK, *ONE, "--lens", lens / "lens.yaml", "--out", "sweep")
    done = run(history, *given)
    assert done.code == 0, done.stderr
    assert "lens: resource/cpu lag 30s, scale 1.5" in done.stdout
    assert read_sweep("sweep").evidence["lens"] == "resource/cpu lag 30s, scale 1.5"
