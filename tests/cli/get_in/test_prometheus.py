"""The command without a server: what it prints, and what it says of what cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from hpabatch.importers.prometheus.client.queries import BUILT_IN, RULES
from tests.cli.commands import Run, runner


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("import", capsysbinary, monkeypatch)


TIME = ("--start", "2026-10-01", "--end", "2026-10-08")
NOWHERE = "http://127.0.0.1:9"


def test_a_dry_run_shows_questions_and_asks_nothing(run: Run) -> None:
    time = ("--start", "2026-10-01", "--end", "2026-10-03", "--expect-pods", "100")
    done = run("prometheus", "--url", NOWHERE, *time, "--dry-run", "-o", "json")
    assert done.code == 0
    found = json.loads(done.stdout)
    assert found["windows"] == 2
    usage = [q for q in found["questions"] if q["asked_for"].startswith("container_cpu_usage")]
    # 100 pods with 2 containers for 2 days, scraped every 30 s, with some overlap.
    assert usage[0]["samples"] == pytest.approx(100 * 2 * 2 * 2880, rel=0.02)
    assert all(q["largest"] <= 500_000 for q in found["questions"])
    assert 'container!=\\"POD\\"' in done.stdout
    assert "nothing is sent" in done.stderr


def test_a_dry_run_grows_with_the_fleet(run: Run) -> None:
    day = ("--start", "2026-10-01", "--end", "2026-10-02")

    def samples(*more: str) -> int:
        done = run("prometheus", "--url", NOWHERE, *day, "--dry-run", "-o", "csv", *more)
        return int(pl.read_csv(done.stdout.encode())["samples"].sum())

    assert samples() > 6 * samples("--expect-pods", "50")


def test_times_are_relative_to_now(run: Run) -> None:
    done = run("prometheus", "--url", NOWHERE, "--start", "-36h", "--end", "-12h", "--dry-run",
               "-o", "json", "--expect-pods", "10")  # fmt: skip
    found = json.loads(done.stdout)
    assert found["end_ms"] - found["start_ms"] == pytest.approx(24 * 3_600_000, abs=1000)


def test_the_built_in_names_and_rules_are_printed(run: Run) -> None:
    assert run("prometheus", "--print-queries").stdout == BUILT_IN.read_text()
    assert run("prometheus", "--print-rules").stdout == RULES.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Missing option '--url'"),
        (("--url", NOWHERE, *TIME), "--out and --dry-run: expected one of them, got neither"),
        (("--url", "ftp://x", *TIME, "--out", "OUT"), "http"),
        (("--url", "http://me:secret@x", *TIME, "--out", "OUT"), "--user"),
        (("--url", NOWHERE, "--out", "OUT"), "expected --start"),
        (("--url", NOWHERE, "--start", "soon", "--out", "OUT"), "expected a time"),
        (("--url", NOWHERE, "--start", "2026-10-02", "--end", "2026-10-01", "--out", "OUT"),
         "there is no time"),
        (("--url", NOWHERE, "--start", "2026-10-02", "--end", "2066-10-01", "--out", "OUT"),
         "too late"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--max-gap", "x"), "expected a duration"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--queries", "absent.yaml"), "cannot be read"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--mapping", "absent.yaml"), "absent.yaml"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--hpas", "absent.yaml"), "absent.yaml"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--hpa-events", "absent.log"), "absent.log"),
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--token-file", "absent"), "absent"),
        (("--url", NOWHERE, "--dry-run"), "--start and --end"),
        (("--url", NOWHERE, *TIME, "--dry-run", "--step", "0s"), "--step"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_without_a_traceback(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    places = [str(tmp_path / "out") if one == "OUT" else one for one in arguments]
    done = run("prometheus", *places)
    assert done.code == 2
    assert told in re.sub(r"\s+", " ", done.stderr)
    assert "secret" not in done.stderr


def test_usage_rules_that_cannot_be_followed_are_refused(run: Run, tmp_path: Path) -> None:
    rule = {
        "containerQuery": "x{<<range .LabelMatchersByName>>}",
        "containerLabel": "container",
        "resources": {"template": "<<.Resource>>"},
    }
    mapping = tmp_path / "adapter.yaml"
    mapping.write_text(json.dumps({"resourceRules": {"cpu": rule, "memory": rule}}))
    done = run("prometheus", "--url", NOWHERE, *TIME, "--dry-run", "--mapping", str(mapping))
    assert done.code == 3
    told = re.sub(r"\s+", " ", done.stderr)
    assert "resourceRules.memory: containerQuery: expected <<.Series>>" in told
