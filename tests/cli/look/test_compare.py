"""`hpabatch compare` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from hpabatch.engine.compare.frames import SCHEMA
from hpabatch.errors import (
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNREADABLE,
    UnreadableError,
    UsageError,
)
from tests.cli.commands import invoke
from tests.cli.histories import MANIFESTS, START, edit, small

ETL = ("--where", "hpa = 'etl'")


run = partial(invoke, "compare")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return forty minutes of the namespace `batch`, all of whose HPAs every version takes.

    In them `etl` is at a ratio of exactly 1.1 with 5 replicas, and then grows to 6.
    """
    since = START + timedelta(minutes=100)
    folder = small(tmp_path_factory.mktemp("compare") / "history", minutes=40, since=since)
    edit(folder, "hpas", spec=pl.col("spec").str.replace('"minReplicas":0', '"minReplicas":1'))
    return str(folder)


def proposed(folder: Path, old: str, new: str) -> str:
    """Write the demo's manifests of `batch` with a text replaced; return the file."""
    text = (MANIFESTS / "batch.yaml").read_text()
    assert old in text
    path = folder / "proposed.yaml"
    path.write_text(text.replace(old, new))
    return str(path)


def test_versions_that_differ(history: str) -> None:
    result = run(history, "--k8s", "1.32..1.37", *ETL)
    assert result.exit_code == EXIT_OK
    asked = run(history, "--k8s", "1.32..1.37", *ETL, "--exit-code")
    assert (asked.exit_code, asked.stdout) == (EXIT_REFUSED, result.stdout)
    assert "1 of 1 HPA decides differently (1.32 -> 1.37)" in result.stdout
    assert "tolerance_by_bounds off -> on" in result.stdout
    assert "batch/etl" in result.stdout
    assert "2026-10-07T01:52:00Z" in result.stdout


def test_the_recorded_version_is_a_side(history: str) -> None:
    found = json.loads(run(history, "--k8s", "..1.32", *ETL, "-o", "json").stdout)
    assert (found["from"], found["to"]) == ("recorded 1.38", "1.32")
    (row,) = found["differences"]
    assert row["cause"] == "tolerance_by_bounds"
    assert row["rule"].startswith("tolerance_by_bounds on -> off")


def test_manifests_against_the_recorded_hpas(history: str, tmp_path: Path) -> None:
    path = proposed(tmp_path, "maxReplicas: 6", "maxReplicas: 5")
    result = run(history, "--hpas", path, *ETL, "-o", "csv")
    assert result.exit_code == EXIT_OK
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert list(row) == list(SCHEMA)
    assert (row["rule"], row["how"]) == ("maxReplicas 6 -> 5", "alone")


def test_manifests_of_one_hpa_leave_nothing_out(history: str, tmp_path: Path) -> None:
    documents = (MANIFESTS / "batch.yaml").read_text().split("\n---\n")
    (etl,) = [text for text in documents if "name: etl\n  namespace" in text]
    path = tmp_path / "etl.yaml"
    path.write_text(etl.replace("maxReplicas: 6", "maxReplicas: 5"))
    result = run(history, "--hpas", str(path))
    assert (result.exit_code, result.stderr) == (EXIT_OK, "")
    assert "1 of 1 HPA decides differently" in result.stdout


def test_two_sets_of_manifests(history: str, tmp_path: Path) -> None:
    today = str(MANIFESTS / "batch.yaml")
    path = proposed(tmp_path, "maxReplicas: 6", "maxReplicas: 5")
    result = run(history, "--hpas", today, "--hpas", path, *ETL, "-o", "markdown", "--k8s", "1.36")
    assert result.exit_code == EXIT_REFUSED
    assert "| batch/etl |" in result.stdout
    assert "| maxReplicas 6 -> 5 |" in result.stdout


def test_what_is_left_out_is_told_and_counts(history: str, tmp_path: Path) -> None:
    path = proposed(tmp_path, "name: etl\n  namespace", "name: other\n  namespace")
    result = run(history, "--hpas", path, "--where", "hpa = 'etl' OR hpa = 'other'")
    assert result.exit_code == EXIT_REFUSED
    assert "left out (recorded): demo/batch/etl: " in result.stderr
    assert "has no such HPA" in result.stderr
    assert "LEFT OUT" in result.stdout


def test_what_cannot_be_read_wins(history: str, tmp_path: Path) -> None:
    folder = tmp_path / "proposed"
    folder.mkdir()
    proposed(folder, "maxReplicas: 6", "maxReplicas: 5")
    (folder / "broken.yaml").write_text("a: [")
    result = run(history, "--hpas", str(folder), *ETL)
    assert result.exit_code == EXIT_UNREADABLE
    assert "1 of 1 HPA decides differently" in result.stdout
    assert "broken.yaml" in result.stderr
    with pytest.raises(UnreadableError, match="nowhere"):
        run(history, "--hpas", str(tmp_path / "nowhere.yaml"))


def test_another_reason_counts_only_if_strict(tmp_path: Path) -> None:
    # It stays at minReplicas 2 with either target, though one of them asks for less.
    history = str(small(tmp_path / "morning", minutes=10, since=START + timedelta(hours=6)))
    path = proposed(tmp_path, "averageValue: 450m", "averageValue: 700m")
    arguments = (history, "--hpas", path, "--where", "hpa = 'render'")
    result = run(*arguments, "--exit-code")
    assert result.exit_code == EXIT_OK
    assert "0 of 1 HPA decides differently" in result.stdout
    assert "1 only for another reason" in result.stdout
    assert "batch/render" not in result.stdout
    strict = run(*arguments, "--strict", "--exit-code")
    assert strict.exit_code == EXIT_REFUSED
    assert "batch/render" in strict.stdout
    assert "averageValue 450m -> 700m" in strict.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to compare"),
        (("--k8s", "1.37"), "two versions are compared, such as 1.32..1.37"),
        (("--k8s", ".."), "names no version"),
        (("--k8s", "1.32..x"), "not a Kubernetes version"),
        (("--k8s", "1.2..1.37"), "older than"),
        (("--k8s", "1.32..1.37", "--hpas", "a"), "at once"),
        (("--feature-gates-to", "HPAScaleToZero=true", "--hpas", "a"), "at once"),
        (("--hpas", "a", "--hpas", "b", "--hpas", "c"), "3 times"),
        (("--feature-gates-to", "Nothing=true"), "a gate that HPAs have .*HPAScaleToZero"),
    ],
)
def test_bad_arguments_are_sentences(history: str, arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(history, *arguments)
