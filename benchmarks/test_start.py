"""Start-up: `--help`, a first run that compiles everything, and later runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def _run(arguments: list[str], cache: Path | None = None) -> None:
    environment = dict(os.environ)
    if cache is not None:
        environment["HPABATCH_CACHE_DIR"] = str(cache)
    subprocess.run(arguments, check=True, env=environment, cwd=ROOT, capture_output=True)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from hpabatch.cli import main; main()", *arguments]


def _replay(out: Path) -> list[str]:
    return _command("replay", "data/demo", "--out", str(out / "decisions.parquet"))


def test_bare_interpreter(benchmark: Any) -> None:
    benchmark.group = "start"
    benchmark.pedantic(lambda: _run([sys.executable, "-c", "pass"]), rounds=10)


def test_help(benchmark: Any) -> None:
    benchmark.group = "start"
    benchmark.pedantic(lambda: _run(_command("--help")), rounds=10, warmup_rounds=1)


def test_demo_cold(benchmark: Any, tmp_path: Path) -> None:
    benchmark.group = "start"
    benchmark.pedantic(lambda: _run(_replay(tmp_path), tmp_path / "cache"), rounds=1)


def test_demo_warm(benchmark: Any, tmp_path: Path) -> None:
    benchmark.group = "start"
    cache = tmp_path / "cache"
    _run(_replay(tmp_path), cache)
    benchmark.pedantic(lambda: _run(_replay(tmp_path), cache), rounds=3)
