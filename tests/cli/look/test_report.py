"""`hpabatch report` at the command line: files, forms, places, names that attack who reads them."""

from __future__ import annotations

import contextlib
import json
import shutil
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from hpabatch.report.page.last import WORSE
from tests.cli.commands import Run, runner
from tests.cli.histories import MANIFESTS, edit, edit_spec, small
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
        (("h", "--lens", "lens.json", "--out", "lens.json"), "is an input of --lens"),
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
    Path("report.html").write_text("<title>HPAs of before")

    def interrupted(path: Path, data: bytes) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        run("h")
    assert Path("report.html").read_text() == "<title>HPAs of before"
    assert {path.name for path in tmp_path.iterdir()} == {"h", "report.html"}


def test_an_hpa_that_is_left_out_is_told_on_the_page(run: Run, tmp_path: Path) -> None:
    edit_spec(small(tmp_path / "h"), "etl", maxReplicas=0)
    done = run("h")
    assert done.code == 3
    assert "left out: " in Path("report.html").read_text()


def test_names_stay_names_in_every_form(run: Run, tmp_path: Path) -> None:
    history(tmp_path / "h", lambda name: name + NASTY)
    file = advice(tmp_path / "a", "checkout") / "patches" / "shop.checkout.json"
    told = json.loads(file.read_text()) | {"cluster": f"demo{NASTY}", "withheld": NASTY}
    doubt = {"most": "low", "why": NASTY, "remedy": NASTY, "detail": ""}
    file.write_text(json.dumps(told | {"reasons": [NASTY], "doubts": [doubt]}))
    file.with_suffix(".yaml").write_text(f"# {NASTY}\nspec: {{}}\n")
    run("h", "--format", "json", "--out", "last.json")
    last = json.loads(Path("last.json").read_text())
    findings = [item | {"why": NASTY, "hpa": NASTY, "score": -5} for item in last["findings"]]
    Path("last.json").write_text(json.dumps(last | {"findings": findings}))
    given = ("h", "--advice", "a", "--compare", "last.json")
    assert run(*given).code == 0
    page = Path("report.html").read_text()
    ours = page[page.index("<body>") : page.index("</main>")]
    assert raw_characters(ours) == []
    assert "<b>" not in ours
    labels = [hpa["hpa"] for hpa in embedded(page, "data")["hpas"]]
    assert all("[2J" in label and raw_characters(label) == [] for label in labels)
    markdown = run(*given, "--format", "markdown").stdout
    assert raw_characters(markdown) == []
    assert "<b>" not in markdown
    assert "](y)" not in markdown.replace("\\]", "")
    told = json.loads(run(*given, "--format", "json").stdout)
    assert any(part.endswith(NASTY) for hpa in told["hpas"] for part in hpa["key"])


def test_a_history_of_which_nothing_is_decided_says_so(run: Run, tmp_path: Path) -> None:
    edit(small(tmp_path / "h"), "scales", ts=pl.col("ts") + timedelta(days=30))
    done = run("h", "--format", "json")
    told = json.loads(done.stdout)
    assert done.code == 3
    assert told["verdict"] == f"none of {len(told['hpas'])} HPAs could be judged"
    assert {hpa["hpa"] for hpa in told["hpas"]} == {item["hpa"] for item in told["lists"]["ask"]}


def test_a_page_is_made_again_and_compared(run: Run, tmp_path: Path) -> None:
    small(tmp_path / "h", "shop", minutes=90)
    assert run("h", "--format", "json", "--out", "now.json").code == 0
    assert run("h").code == 0
    assert run("now.json", "--out", "again.html").code == 0
    assert Path("again.html").read_text() == Path("report.html").read_text()
    assert run("h", "--redact", "--format", "json", "--out", "public.json").code == 0
    assert run("public.json", "--out", "public.html").code == 0
    told = json.loads(Path("now.json").read_text())
    new, worse, *others = told["findings"]
    score = (worse["score"] or 0) - WORSE
    gone = told["hpas"][0] | {"hpa": "shop/gone", "key": ["demo", "shop", "gone"]}
    fixed = [new | {"finding": "other", "key": key} for key in (new["key"], gone["key"])]
    last = told | {
        "hpas": [*told["hpas"], gone],
        "findings": [worse | {"score": score}, *others, *fixed],
    }
    Path("last.json").write_text(json.dumps(last))
    for place in ("h", "now.json"):
        done = run(place, "--compare", "last.json", "--format", "json")
        since = json.loads(done.stdout)["since"]
        assert [since["new"], [w["finding"] for w in since["worse"]], since["fixed"]] == [
            [new],
            [worse["finding"]],
            fixed[:1],
        ]
        assert (since["came"], since["gone"]) == ([], ["shop/gone"])
    assert run("now.json", "--compare", "last.json").code == 0
    assert "Since the report to" in Path("report.html").read_text()
    assert (
        "1 new, 1 worse, 1 fixed"
        in run("h", "--compare", "last.json", "--format", "markdown").stdout
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("now.json", "--out", "now.json"), "--out now.json is an input of HISTORY"),
        (("now.json", "--redact"), "has its HPAs and options"),
        (("now.json", "--compare", "secret.json"), "names are replaced"),
        (("now.json", "--compare", "h/hpas.parquet"), "--compare h/hpas.parquet: expected"),
        (("h", "--compare", "now.json", "--out", "now.json"), "is an input of --compare"),
        (("h", "--compare", "now.json", "--redact"), "--compare needs the names"),
        (("h", "--compare", "h/hpas.parquet"), "--compare h/hpas.parquet: expected"),
        (("broken.json",), "damaged"),
        (("nowhere.json",), "No such file"),
    ],
)
def test_documents_that_cannot_be_used_are_a_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    small(tmp_path / "h")
    run("h", "--format", "json", "--out", "now.json")
    run("h", "--format", "json", "--redact", "--out", "secret.json")
    broken = json.loads(Path("now.json").read_text()) | {"hpas": 1}
    Path("broken.json").write_text(json.dumps(broken))
    before = Path("now.json").read_bytes()
    done = run(*words)
    assert (done.code, done.data) == (2, b"")
    assert told in done.stderr
    assert Path("now.json").read_bytes() == before
