"""Faults of a real cluster on purpose: its metrics server gone, its API server started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.live_cluster.ground import Ground
from tests.live_cluster.scene import Scene
from tests.real.cluster import build_folder

API_SERVER: Final = "kube-apiserver"
STUB: Final = "metrics-stub"
_DOWN_S: Final = 12.0


class Processes:
    """The cluster's processes, which can be ended and started again as they were."""

    def __init__(self, ground: Ground) -> None:
        self.environment = dict(ground.environment)
        self.file = Path(self.environment["RUN"], "pids")
        self.log = self.file.parent / "log"

    def pids(self) -> dict[str, int]:
        lines = self.file.read_text().splitlines()
        return {name: int(pid) for name, pid in (line.split() for line in lines)}

    def end(self, name: str, sign: signal.Signals = signal.SIGTERM) -> list[str]:
        """End a process; return its command line."""
        pid = self.pids()[name]
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        os.kill(pid, sign)
        while _lives(pid):
            time.sleep(0.1)
        return command

    def start(self, name: str, command: list[str]) -> None:
        """Start it as it was; down.sh will end it."""
        with (self.log / f"{name}.again.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        rows = {**self.pids(), name: process.pid}
        self.file.write_text("".join(f"{n} {pid}\n" for n, pid in rows.items()))


def _lives(pid: int) -> bool:
    """Return whether a process runs; one of ours that has ended has to be waited for."""
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return Path(f"/proc/{pid}").exists()
    return done == 0


def stub_goes_and_comes(processes: Processes, scene: Scene) -> None:
    """Let the metrics APIs be registered, but not answer for some seconds."""
    command = processes.end(STUB)
    time.sleep(_DOWN_S)
    processes.start(STUB, command)
    scene.server.until(lambda: _answers(scene), "the metrics server answers again", 120)


def _answers(scene: Scene) -> bool:
    assert scene.stub is not None
    try:
        scene.stub.again()
    except OSError:
        return False
    return True


def server_starts_anew(processes: Processes, scene: Scene) -> None:
    """Kill the API server and start it: what was watched is too old then (410), compacted too."""
    command = processes.end(API_SERVER, signal.SIGKILL)
    time.sleep(_DOWN_S / 4)
    compact(processes, scene)
    processes.start(API_SERVER, command)
    scene.server.until(scene.server.is_ready, "the API server is ready again", 120)


def compact(processes: Processes, scene: Scene) -> None:
    """Forget the past: a watch that has to resume finds that it is too old."""
    program = str(build_folder() / "root/usr/bin/etcdctl")
    endpoint = f"--endpoints=http://127.0.0.1:{processes.environment['P_ETCD']}"
    more = {**processes.environment, "ETCDCTL_API": "3"}
    asked = subprocess.run(
        [program, endpoint, "get", "none", "-w", "json"], env=more, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    revision = asked.stdout.split('"revision":')[1].split(",")[0].rstrip("}")
    subprocess.run(
        [program, endpoint, "compact", revision], env=more, capture_output=True, check=False
    )
