"""`hpabatch synth` at the command line: what is told, refused, interrupted and continued."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from hpabatch.cli.app import app
from hpabatch.cli.get_in import synth
from hpabatch.cli.look import replay  # noqa: F401  (registers the command)
from hpabatch.errors import EXIT_INTERRUPTED, UsageError

TINY = ("--hpas", "3", "--pods", "3", "--step", "5m", "--days", "2")

# As `hpabatch` starts, whether or not the command is registered by `main` itself.
PROGRAM = "import sys, hpabatch.cli.get_in.synth; from hpabatch.cli import main; sys.exit(main())"


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["synth", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def files_of(folder: Path) -> dict[str, bytes]:
    """Return what counts in a store: its log, and the data files that the log names."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.suffix in (".json", ".parquet")
    }


def test_it_writes_a_store_and_tells_how_much(tmp_path: Path) -> None:
    result = run(tmp_path / "out", *TINY)
    assert result.exit_code == 0
    assert result.stdout == ""
    estimate, summary = result.stderr.splitlines()
    assert re.fullmatch(r".*/out: about 5,1\d\d samples, [\d.]+ kB of Parquet", estimate)
    assert re.fullmatch(
        r".*/out: [\d,]+ rows, [\d.]+ kB; [\d,]+ samples written in [\d.]+ s \([\d,]+ per second\)",
        summary,
    )
    tables = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"_log", "pod_metrics", "pods", "hpas", "scales", "controller"} <= tables


def test_the_same_command_does_nothing_more(tmp_path: Path) -> None:
    run(tmp_path, *TINY)
    before = files_of(tmp_path)
    result = run(tmp_path, *TINY)
    assert result.exit_code == 0
    assert "already complete" in result.stderr
    assert files_of(tmp_path) == before


def test_every_option_has_an_effect(tmp_path: Path) -> None:
    def data(name: str, *options: str) -> dict[str, bytes]:
        run(tmp_path / name, *TINY, *options)
        return {k: v for k, v in files_of(tmp_path / name).items() if k.endswith(".parquet")}

    plain = data("plain")
    assert data("again") == plain
    for number, options in enumerate(
        (
            ("--seed", "8"),
            ("--start", "2026-11-01"),
            ("--metrics", "mix"),
            ("--containers", "2"),
            ("--gaps", "0.1"),
            ("--late", "0.1"),
            ("--jitter", "7s"),
            ("--cluster", "other"),
            ("--clusters", "2"),
        )
    ):
        assert data(f"other-{number}", *options) != plain, options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--step", "15"), "--step: expected a duration"),
        (("--step", "7s"), "--step 7s: expected a time"),
        (("--step", "10ms"), "--step: expected a duration of at least 1s, got 10ms"),
        (("--start", "yesterday"), "--start: expected a day such as 2026-10-05, got 'yesterday'"),
        (("--start", "2026-02-30"), "--start: expected a day such as 2026-10-05"),
        (("--jitter", "half"), "--jitter: expected a duration"),
        (("--jitter", "20m"), "--jitter 20m: expected less than --step"),
        (("--hpas", "0"), "--hpas: expected a whole number of at least 1"),
        (("--hpas", "99999999999999999999"), "--hpas: expected a whole number of at most 100000"),
        (("--gaps", "nan"), "--gaps: expected a finite number"),
        (("--late", "7"), "--late: expected a number of at most 1"),
        (("--cluster", "a b"), "--cluster 'a b': expected lower-case"),
        (("--hpas", "100000", "--pods", "1000", "--days", "100", "--step", "1s"), "samples, more"),
    ],
)
def test_impossible_options_are_one_sentence(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run(tmp_path / "out", *TINY, *options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_options_that_are_no_numbers() -> None:
    for options in (("--hpas", "many"), ("--metrics", "all")):
        result = run("out", *options)
        assert result.exit_code == 2
        assert options[0] in result.stderr


def test_a_full_disk_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        UsageError, match=r"needs about 6\d\d\.\d MB more and only 1\.0 MB are free"
    ):
        run(tmp_path / "out", "--hpas", "1000", "--step", "30s", "--days", "1", "--pods", "100")
    assert not (tmp_path / "out").exists()


def test_other_options_and_other_folders_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "out", *TINY)
    before = files_of(tmp_path / "out")
    with pytest.raises(UsageError, match="made in another way or with other options"):
        run(tmp_path / "out", *TINY, "--seed", "9")
    assert files_of(tmp_path / "out") == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="holds other files"):
        run(tmp_path / "mine", *TINY)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    with pytest.raises(UsageError):
        run(tmp_path / "mine" / "letter.txt", *TINY)


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hpabatch.importers.synth.scale.run.write_fleet", interrupt)
        result = run(tmp_path, *TINY)
    assert result.exit_code == EXIT_INTERRUPTED
    assert "what is done is kept; repeat the command for the rest" in result.stderr
    assert run(tmp_path, *TINY).exit_code == 0


@pytest.mark.compiled
def test_a_replay_agrees_with_the_recorded_sizes_about(tmp_path: Path) -> None:
    run(tmp_path / "history", "--hpas", 12, "--pods", 8, "--step", "1m", "--metrics", "mix")
    out = tmp_path / "decisions.parquet"
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "history"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    decisions = pl.read_parquet(out, columns=["hpa", "replicas", "desired", "error"])
    assert decisions["hpa"].n_unique() == 12
    assert decisions["error"].null_count() > 0.99 * decisions.height
    # The recorded sizes are a stand-in: near what the rules decide, not the same.
    sizes = decisions.group_by("hpa").agg(pl.col("replicas", "desired").mean())
    assert (sizes["desired"] / sizes["replicas"]).is_between(0.8, 1.25).all()
    assert (decisions["desired"] == decisions["replicas"]).mean() > 0.7  # type: ignore[operator]


def test_progress_has_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with synth._progress() as report:
        assert report is not None
        report(0.5, 2_000_000)
    assert "M samples/s" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "x\0y"])
def test_a_place_that_cannot_be_is_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be used: .*name another place"):
        run(tmp_path / name, *TINY)


def test_what_is_refused_gets_no_estimate(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = CliRunner().invoke(app, ["synth", str(tmp_path / "file"), *TINY])
    assert isinstance(result.exception, UsageError)
    assert "samples" not in result.stderr
