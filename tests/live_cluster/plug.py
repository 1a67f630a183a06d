"""The command under test: how it is started, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tests.live_cluster.ground import Ground
from tests.live_cluster.recording import FAILED
from tests.live_cluster.sequences import At, changes
from tests.live_cluster.truth import Hpa
from tests.ports import hold_port, port_of

PROGRAM: Final = Path(sys.executable).with_name("hpabatch")
READY_S: Final = 120  # the kernels may have to be compiled first
STOP_S: Final = 30
DECIDED: Final = ("decision", "works", "fails")
LAST_PASS: Final = "hpabatch_last_pass_timestamp_seconds "


def live_command(
    ground: Ground, record: Path, every_ms: int, port: int, namespace: str
) -> list[str]:
    """Return the command line of the loop under test.

    In a cluster that is given it looks at the tests' namespace alone, under whatever rules and
    flags it finds.
    """
    command = [
        str(PROGRAM), "live", "--kubeconfig", str(ground.kubeconfig), "--every", f"{every_ms}ms",
        "--record", str(record), "--segment", "20s", "--log-format", "json",
        "--metrics-addr", f"127.0.0.1:{port}", "--stateless",
    ]  # fmt: skip
    if ground.k8s is None:
        return [*command, "--namespace", namespace]
    for name, value in ground.flags.named().items():
        command += ["--flag", f"{name}={value}"]
    return [*command, "--k8s", ground.k8s, "--feature-gates", ground.gates]


class LiveError(AssertionError):
    """The loop did not begin, or did not end as it should."""


@dataclass(frozen=True)
class Live:
    """The running loop."""

    port: int
    every_ms: int

    def to_next_pass_s(self, ahead_ms: int) -> float:
        """Return in how many seconds its next pass comes, so much ahead of it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        last = [float(line.split()[1]) for line in lines if line.startswith(LAST_PASS)]
        if not last:
            return 0.0
        return (last[0] * 1000 - ahead_ms - time.time() * 1000) % self.every_ms / 1000


@contextmanager
def running_live(ground: Ground, folder: Path, every_ms: int, namespace: str) -> Iterator[Live]:
    """Run the loop; what it says goes to live.jsonl and live.err of the folder.

    Raises:
        LiveError: it is not ready in time, dies, or does not end well when told to.
    """
    with (
        hold_port() as held,
        (folder / "live.jsonl").open("w") as out,
        (folder / "live.err").open("w") as err,
    ):
        port = port_of(held)
        command = live_command(ground, folder / "history", every_ms, port, namespace)
        process = subprocess.Popen(command, stdout=out, stderr=err, env=_environment())
        try:
            _wait_ready(process, port, folder)
            yield Live(port, every_ms)
            if process.poll() is not None:
                raise LiveError(f"it died with code {process.returncode}: {_tail(folder)}")
        finally:
            _stop(process, folder)


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}


def _wait_ready(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise LiveError(f"it ended with code {process.returncode}: {_tail(folder)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise LiveError(f"it is not ready after {READY_S} s: {_tail(folder)}")


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    """End the loop as a cluster does."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise LiveError(f"it does not end within {STOP_S} s of SIGTERM: {_tail(folder)}") from None
    if code not in (0, 130, 143) and sys.exc_info()[0] is None:
        raise LiveError(f"it ended with code {code}: {_tail(folder)}")


def _tail(folder: Path) -> str:
    return (folder / "live.err").read_text()[-2000:]


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def told_sizes(folder: Path) -> dict[Hpa, list[At]]:
    """Return by HPA the sizes that the loop said it decided, repetitions left out."""
    rows: dict[Hpa, list[tuple[int, int | None]]] = {}
    with (folder / "live.jsonl").open() as lines:
        for line in lines:
            said = json.loads(line)
            if said.get("event") not in DECIDED:
                continue
            size = said["current"] if said["action"] == "none" else said["desired"]
            if said.get("binding") in FAILED:  # the line shows the status, which keeps its number
                size = None
            hpa = Hpa(said["namespace"], said["hpa"])
            rows.setdefault(hpa, []).append((_ms(said["ts"]), size))
    return {hpa: changes(sizes) for hpa, sizes in rows.items()}
