"""Places to write to, and options that many commands have, as the command line checks them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer.main

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_out
from hpabatch.errors import UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.jobs.parquet import EVIDENCE_KEY
from tests.cli.commands import runner
from tests.cli.histories import small


@pytest.fixture
def history(tmp_path: Path) -> History:
    folder = small(tmp_path / "pods", minutes=1)  # the folder's name is a table's on purpose
    parts = folder / "scales"
    parts.mkdir()
    (folder / "scales.parquet").rename(parts / "0.parquet")
    return open_history(folder)


def test_a_file_or_a_folder(history: History, tmp_path: Path) -> None:
    assert not check_out(tmp_path / "d.parquet", history, ()).is_folder
    assert not check_out("d", history, ()).is_folder
    assert check_out(f"{tmp_path}/d/", history, ()).is_folder
    (tmp_path / "empty").mkdir()
    assert check_out(f"{tmp_path}/empty/", history, ()).is_folder
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "part-00000.parquet").touch()
    names = {EVIDENCE_KEY: {}, "parts": ["part-00000.parquet"]}
    (ours / "evidence.json").write_text(json.dumps(names))
    for out in (ours, f"{ours}/"):
        found = check_out(out, history, ())
        assert (found.is_folder, found.path, found.job_path) == (
            True,
            ours,
            tmp_path / ".ours.job",
        )
    (ours / "notes.txt").touch()
    for out in (ours, f"{ours}/", tmp_path / "empty", f"{tmp_path}/pods/"):
        with pytest.raises(UsageError, match="is a folder; name a file in it, or a new folder"):
            check_out(out, history, ())
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file/ is a file; name it without / at its end"):
        check_out(f"{tmp_path}/file/", history, ())


def test_a_link_is_replaced_not_followed(history: History, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link.parquet").symlink_to("far/d.parquet")
    (tmp_path / "far" / "here").symlink_to("..")
    found = check_out(tmp_path / "link.parquet", history, ())
    assert found.job_path == tmp_path / ".link.parquet.job"
    found = check_out(tmp_path / "far" / "here" / "d.parquet", history, ())
    assert found.job_path == tmp_path / ".d.parquet.job"


def test_places_to_write_to(history: History, tmp_path: Path) -> None:
    (tmp_path / "old.parquet").touch()
    (tmp_path / "link.parquet").symlink_to("old.parquet")
    (tmp_path / "loop").symlink_to("loop")
    for name in (
        "loop",
        "new.parquet",
        "old.parquet",
        "link.parquet",
        "a/b/c.parquet",
        "pods/d.parquet",
    ):
        check_out(tmp_path / name, history, ())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "is a folder; name a file in it"),
        ("pods/scales/", "is a folder; name a file in it"),
        ("pods/scales/x/", "is in the input table scales"),
        ("pods/hpa_status/x/y.parquet", "would be a table of the history"),
        ("pods/_log/x.parquet", "would be a table of the history"),
        ("pods/hpas.parquet", "is in the input table hpas"),
        ("link", "is in the input table hpas"),
        ("pods/scales/0.parquet", "is in the input table scales"),
        ("pods/scales/1.parquet", "is in the input table scales"),
        ("pods/hpa_status.parquet", "would be a table of the history"),
        ("pods/hpa_status", "would be a table of the history"),
        ("file/x.parquet", "cannot be written: Not a directory"),
        ("x" * 300, "cannot be written: File name too long"),
        ("x" * 250, "cannot be written: File name too long"),
        ("manifest.yaml", "is an input of --hpas"),
        ("/dev/null", "is not a regular file"),
        ("/proc/x.parquet", "cannot be written"),
    ],
)
def test_places_not_to_write_to(history: History, tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("pods/hpas.parquet")
    with pytest.raises(UsageError) as refused:
        check_out(os.path.join(tmp_path, name), history, [str(tmp_path / "manifest.yaml")])
    assert str(refused.value).startswith(f"--out {os.path.join(tmp_path, name)} ")
    assert why in str(refused.value)


def test_the_decisions_do_not_go_to_stdout(history: History) -> None:
    with pytest.raises(UsageError, match="--out -: the decisions go to a file"):
        check_out(Path("-"), history, ())
    with pytest.raises(
        UsageError, match="--out: expected a local file or folder for the decisions, got s3://a/b"
    ):
        check_out("s3://a/b", history, ())


COMMANDS = {
    "advise": ("--out", "out"),
    "compare": ("--feature-gates-to", "HPAScaleToZero=false"),
    "describe": (),
    "explain": ("batch/etl",),
    "fidelity": (),
    "fit": (),
    "get": (),
    "plan": (),
    "replay": (),
    "simulate": (),
    "sweep": ("--grid", "max=+1", "--out", "out"),
}
"""Commands that read a history, and what else they need."""
WRONG = {
    "--k8s": ("1.2", "--k8s 1.2: older than 1.20"),
    "--feature-gates": ("Up=true", "--feature-gates Up=true: expected a gate"),
    "--where": ("nope = 1", "--where 'nope = 1': "),
    "--delay": ("soon", "--delay: expected a duration (whole"),
    "--sync-period": ("1ms", "--sync-period: expected a duration of at least 1s, got 1ms"),
    "--phase": ("soon", "--phase: expected a duration (whole"),
    "--max-age": ("0s", "--max-age: expected a duration of at least 1ms"),
    "--for": ("soon", "--for: expected a duration (whole"),
    "--growth": ("much", "--growth"),
    "--scenario": ("/nowhere.yaml", "/nowhere.yaml"),
    "--plant": ("/nowhere.yaml", "/nowhere.yaml"),
    "--prices": ("/nowhere.yaml", "/nowhere.yaml"),
    "--lens": ("/nowhere.yaml", "/nowhere.yaml"),
    "--instants": ("recorded", "no decision instants were recorded"),
}
OTHERWISE = {
    "compare": {"--k8s", "--plant"},
    "simulate": {"--instants"},
}
"""Options that are checked together with others first."""


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_values_of_common_options_are_sentences(
    command: str,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    small(Path("history"), minutes=1)
    run = runner(command, capsysbinary, monkeypatch)
    missing = run("nowhere", *COMMANDS[command])
    assert (missing.code, missing.data) == (2, b"")
    assert "nowhere" in missing.stderr
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    options = {name for parameter in parameters for name in parameter.opts} & WRONG.keys()
    assert options >= {"--k8s", "--sync-period"}
    for option in sorted(options - OTHERWISE.get(command, set())):
        value, told = WRONG[option]
        done = run("history", *COMMANDS[command], option, value)
        assert (done.code, done.data) == (2, b""), (option, done.stderr)
        assert done.stderr.startswith("error: ")
        assert told in done.stderr, (option, done.stderr)
    assert [path.name for path in Path().iterdir()] == ["history"]


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "--out", "mine.csv"),
        ("report", "--out", "mine.csv"),
        ("plan", "--totals", "mine.csv"),
        ("simulate", "--trajectories", "mine.csv"),
        ("fidelity", "--changes", "mine.csv"),
    ],
    ids=lambda command: command[0],
)
def test_a_table_of_a_user_is_not_replaced(
    command: tuple[str, str, str],
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small(tmp_path / "h", minutes=1)
    (tmp_path / "mine.csv").write_text("time,pod,cpu\n")
    monkeypatch.chdir(tmp_path)
    name, *place = command
    done = runner(name, capsysbinary, monkeypatch)("h", *place)
    assert (done.code, done.stdout) == (2, "")
    assert "mine.csv is there already and is no " in done.stderr
    assert (tmp_path / "mine.csv").read_text() == "time,pod,cpu\n"
