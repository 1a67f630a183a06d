"""`hpabatch history quality`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from hpabatch.cli.app import app
from hpabatch.cli.look_after import history  # noqa: F401  (registers the command)
from hpabatch.engine.quality.run import COLUMNS
from tests.cli.histories import DEMO, last_day


def run(*arguments: str) -> tuple[int, bytes, str]:
    done = CliRunner().invoke(app, ["history", "quality", *arguments])
    return done.exit_code, done.stdout_bytes, done.stderr


def test_the_demos_faults_are_told() -> None:
    code, stdout, stderr = run(str(DEMO))
    assert code == 0
    assert stdout.decode().startswith("NAMESPACE")
    assert "payments/settlement: 100 % of its pods have a container without cpu request" in stderr
    assert len(stdout.decode().splitlines()) == 33


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_forms_hold_every_column_of_every_hpa(form: str) -> None:
    code, stdout, _ = run(str(last_day()), "--output", form)
    read = {
        "json": lambda: pl.DataFrame(json.loads(stdout), infer_schema_length=None),
        "csv": lambda: pl.read_csv(io.BytesIO(stdout)),
        "parquet": lambda: pl.read_parquet(io.BytesIO(stdout)),
    }[form]()
    assert code == 0
    assert read.height == 31
    assert set(read.columns) == set(COLUMNS)


def test_findings_of_the_chosen_hpas_end_with_3_where_that_is_asked() -> None:
    code, stdout, stderr = run(str(last_day()), "-n", "payments", "--exit-code", "-o", "csv")
    assert code == 3
    assert set(pl.read_csv(io.BytesIO(stdout))["namespace"]) == {"payments"}
    assert "payments/settlement" in stderr
    assert "shop/" not in stderr


def test_no_history_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["history", "quality", str(tmp_path / "none")])
    assert "there is no such folder" in str(done.exception)


def test_an_unknown_version_is_refused() -> None:
    done = CliRunner().invoke(app, ["history", "quality", str(DEMO), "--k8s", "0.9"])
    assert done.exit_code != 0
