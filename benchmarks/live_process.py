"""A running `hpabatch live` seen from outside: what /proc and its metrics endpoint say of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.readme import ROOT, replace_part

PAGE: Final = ROOT / "docs" / "live-apply.md"
PROGRAM: Final = Path(sys.executable).with_name("hpabatch")
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_READY_S: Final = 300
PASSES: Final = "hpabatch_passes_total"
REQUESTS: Final = "hpabatch_api_requests_total"


def circumstances() -> str:
    """Return one phrase about date and machine, for the head of a table."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    load = os.getloadavg()[0]
    return f"Measured {day} on {os.cpu_count()} cores, load before the run {load:.1f}"


def write_part(name: str, lines: Sequence[str]) -> None:
    """Write a part of docs/live-apply.md."""
    PAGE.write_text(replace_part(PAGE.read_text(), name, list(lines)))


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, all of its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def status_of(pid: int, name: str) -> int:
    """Return a number of /proc/PID/status, such as VmRSS (kB) or Threads."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def rss_mib(pid: int) -> float:
    return status_of(pid, "VmRSS") / 1024


def files_of(pid: int) -> int:
    """Return how many files, sockets included, a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def pids(folder: Path) -> dict[str, int]:
    """Return what up.sh started, by name."""
    lines = (folder / "pids").read_text().splitlines()
    return {name: int(pid) for name, pid in (line.split() for line in lines)}


@dataclass(frozen=True, slots=True)
class Live:
    """The process and the port of its metrics."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def metrics(self) -> dict[str, float]:
        """Return its metrics: by name, samples of other labels added up, and by name and labels."""
        found: dict[str, float] = {}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("#"):
                    continue
                series, value = line.rsplit(" ", 1)
                name = series.split("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
                if series != name:
                    found[series] = float(value)
        return found

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10):
                return True
        except (OSError, urllib.error.URLError):
            return False


@contextmanager
def running(folder: Path, kubeconfig: str, arguments: Sequence[str]) -> Iterator[Live]:
    """Run `hpabatch live` until the end of the block; what it says goes to files of the folder."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    command = [
        str(PROGRAM), "live", "--kubeconfig", kubeconfig, "--metrics-addr", f"127.0.0.1:{port}",
        "--stateless", "--log-format", "json", *arguments,
    ]  # fmt: skip
    with (folder / "live.jsonl").open("w") as out, (folder / "live.err").open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        live = Live(process, port)
        try:
            end = time.monotonic() + _READY_S
            while not live.is_ready():
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the loop did not begin: {(folder / 'live.err').read_text()}")
                time.sleep(0.2)
            yield live
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)
