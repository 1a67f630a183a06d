"""The command without a server: what it prints, and what it says of what cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpabatch.importers.prometheus.client.queries import BUILT_IN
from tests.cli.commands import Run, runner


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("import", capsysbinary, monkeypatch)


TIME = ("--start", "2026-10-01", "--end", "2026-10-08")
NOWHERE = "http://127.0.0.1:9"


def test_the_built_in_names_are_printed(run: Run) -> None:
    assert run("prometheus", "--print-queries").stdout == BUILT_IN.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Missing option '--url'"),
        (("--url", NOWHERE, *TIME), "--out: expected a store that gets the rows, got none"),
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
        (("--url", NOWHERE, *TIME, "--out", "OUT", "--step", "0s"), "--step"),
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
