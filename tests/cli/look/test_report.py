"""`hpabatch report` at the command line: files, forms, places, names that attack who reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Run, runner
from tests.cli.histories import edit_spec, small
from tests.cli.hostile import NASTY, history, raw_characters
from tests.report.page.pages import embedded


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
        (("h", "--advice", "h"), "--advice h: expected a folder that `hpabatch advise --out`"),
        (("h", "--plan", "h"), "--plan h: expected a folder that `hpabatch plan --out`"),
        (("h", "--format", "pdf"), "--format"),
    ],
)
def test_what_cannot_be_read_or_written_is_a_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    small(tmp_path / "h")
    done = run(*words)
    assert (done.code, done.data) == (2, b"")
    assert told in done.stderr
    assert not Path("report.html").exists()


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
