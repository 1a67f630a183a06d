"""`hpabatch history quality`."""

from __future__ import annotations

import io

import polars as pl

from tests.cli.commands import invoke
from tests.cli.histories import last_day


def run(*arguments: str) -> tuple[int, bytes, str]:
    done = invoke("history", "quality", *arguments)
    return done.exit_code, done.stdout_bytes, done.stderr


def test_the_demos_faults_are_told() -> None:
    code, stdout, stderr = run(str(last_day()))
    assert code == 0
    assert stdout.decode().startswith("NAMESPACE")
    assert "payments/settlement: 100 % of its pods have a container without cpu request" in stderr
    assert len(stdout.decode().splitlines()) == 33


def test_findings_of_the_chosen_hpas_end_with_3_where_that_is_asked() -> None:
    code, stdout, stderr = run(str(last_day()), "-n", "payments", "--exit-code", "-o", "csv")
    assert code == 3
    assert set(pl.read_csv(io.BytesIO(stdout))["namespace"]) == {"payments"}
    assert "payments/settlement" in stderr
    assert "shop/" not in stderr
