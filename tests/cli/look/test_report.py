"""`hpabatch report` at the command line: files, forms, places, names that attack who reads them."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import Run, runner
from tests.cli.histories import MANIFESTS, edit_spec, small
from tests.cli.hostile import NASTY, history, raw_characters
from tests.report.page.pages import advice, embedded


@pytest.fixture
def run(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner("report", capsysbinary, monkeypatch)


def test_the_page_is_a_file_and_other_forms_go_to_stdout(run: Run, tmp_path: Path) -> None:
    small(tmp_path / "h")
    done = run("h")
    assert (done.code, done.lines[-1]) == (0, "page: report.html")
    page = Path("report.html").read_text()
    assert done.lines[0] in page
    assert "Made by <code>hpabatch report h</code>" in page
    told = json.loads(run("h", "--format", "json").stdout)
    assert [hpa["hpa"] for hpa in told["hpas"]]
    assert run("h", "--format", "markdown").lines[0] == f"**{done.lines[0]}**"
    assert run("h", "--format", "markdown", "--out", "ticket.md").lines[-1] == "page: ticket.md"
    assert Path("ticket.md").read_text().startswith("**")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "nowhere"),
        (("h", "--out", "h"), "--out h is a folder"),
        (("h", "--out", "h/hpas.parquet/x"), "--out h/hpas.parquet/x cannot be written"),
        (("h", "--out", "h/hpas.parquet"), "--out h/hpas.parquet is in the input table hpas"),
        (("h", "--out", "linked/hpas.parquet"), "is in the input table hpas"),
        (("h", "--out", "h/../h/scales.parquet"), "is in the input table scales"),
        (("h", "--plan", "h", "--out", "h/totals.parquet"), "is an input of --plan"),
        (("h", "--advice", "a", "--out", "a/patches/shop.etl.json"), "is an input of --advice"),
        (("h", "--hpas", "m", "--out", "m/batch.yaml"), "is an input of --hpas"),
        (("h", "--why"), "--why"),
        (("h", "--advice", "h"), "--advice h: expected a folder that `hpabatch advise --out`"),
        (("h", "--plan", "h"), "--plan h: expected a folder that `hpabatch plan --out`"),
        (("h", "--format", "pdf"), "--format"),
    ],
)
def test_what_cannot_be_read_or_written_is_a_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    small(tmp_path / "h")
    (tmp_path / "h" / "totals.parquet").touch()
    (tmp_path / "linked").symlink_to("h")
    advice(tmp_path / "a", "etl")
    shutil.copytree(MANIFESTS, tmp_path / "m")
    done = run(*words)
    assert (done.code, done.data) == (2, b"")
    assert told in done.stderr
    assert not Path("report.html").exists()


def test_syncs_may_end_with_the_history(run: Run, tmp_path: Path) -> None:
    small(tmp_path / "h")
    for phase in ("5s", "14s"):
        told = json.loads(run("h", "--format", "json", "--phase", phase).stdout)
        assert min(told["fleet"]["values"]) > 0


def test_an_interrupted_page_leaves_the_one_before(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(tmp_path / "h")
    Path("report.html").write_text("before")

    def interrupted(path: Path, data: bytes) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        run("h")
    assert Path("report.html").read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"h", "report.html"}


def test_an_hpa_that_is_left_out_is_told_on_the_page(run: Run, tmp_path: Path) -> None:
    edit_spec(small(tmp_path / "h"), "etl", maxReplicas=0)
    done = run("h")
    assert done.code == 3
    assert "left out: " in Path("report.html").read_text()


def test_names_stay_names_in_every_form(run: Run, tmp_path: Path) -> None:
    history(tmp_path / "h", lambda name: name + NASTY)
    assert run("h").code == 0
    page = Path("report.html").read_text()
    ours = page[page.index("<body>") : page.index("</main>")]
    assert raw_characters(ours) == []
    assert "<b>" not in ours
    labels = [hpa["hpa"] for hpa in embedded(page, "data")["hpas"]]
    assert all("[2J" in label and raw_characters(label) == [] for label in labels)
    markdown = run("h", "--format", "markdown").stdout
    assert raw_characters(markdown) == []
    assert "<b>" not in markdown
    assert "](y)" not in markdown.replace("\\]", "")
    told = json.loads(run("h", "--format", "json").stdout)
    assert any(part.endswith(NASTY) for hpa in told["hpas"] for part in hpa["key"])
