"""A Dask scheduler and its workers, as processes on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

# Dask leaves a connection whose other end died, or never answered, to the garbage collector
# (conftest.py calls it while that is still ignored).
LEAVES_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
QUIET = [LEAVES_SOCKETS, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
START_S = 60.0


class Cluster:
    """A scheduler and workers of one thread each; `close` ends them all."""

    def __init__(
        self,
        folder: Path,
        workers: int = 2,
        *,
        options: Sequence[str] = (),
        protocol: str = "tcp",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.options, self.env = folder, options, env or {}
        self.protocol = protocol
        self.workers: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.scheduler = self._scheduler()
        for _ in range(workers):
            self.add_worker()
        self.wait_for(workers)

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments, *self.options],
                cwd=self.folder,
                env={**os.environ, **self.env},
                stdout=log,
                stderr=log,
            )

    def _scheduler(self) -> subprocess.Popen[bytes]:
        self.file.unlink(missing_ok=True)
        process = self._start(
            "distributed.cli.dask_scheduler",
            *("--host", f"{self.protocol}://127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.file)),
        )
        until = time.monotonic() + START_S
        while not (found := self._written()):
            assert process.poll() is None, (self.folder / "dask.log").read_text()
            assert time.monotonic() < until, "no scheduler began"
            time.sleep(0.05)
        self.address = found
        return process

    def _written(self) -> str:
        """Return the address in the scheduler's file, which may not be there, or half written."""
        with suppress(OSError, ValueError):
            return str(json.loads(self.file.read_text())["address"])
        return ""

    def add_worker(self) -> None:
        """Start one more worker, without a nanny."""
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny")
        place = ("--host", f"{self.protocol}://127.0.0.1", "--local-directory", str(self.folder))
        self.workers.append(
            self._start("distributed.cli.dask_worker", self.address, *options, *place)
        )

    def wait_for(self, count: int) -> None:
        """Wait until so many workers have registered."""
        text = "Registered to:"
        until = time.monotonic() + START_S
        while (self.folder / "dask.log").read_text().count(text) < count:
            assert time.monotonic() < until, (self.folder / "dask.log").read_text()
            time.sleep(0.05)

    def kill_worker(self, k: int = 0) -> None:
        """End a worker as a crash of its machine does, and start another."""
        self.workers[k].send_signal(signal.SIGKILL)
        self.workers.pop(k).wait()
        self.add_worker()

    def kill_scheduler(self) -> None:
        """End the scheduler as a crash does; its workers end too, and all are started again."""
        count = len(self.workers)
        self.close()
        (self.folder / "dask.log").unlink()
        self.scheduler = self._scheduler()
        for _ in range(count):
            self.add_worker()
        self.wait_for(count)

    def close(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
        for process in (self.scheduler, *self.workers):
            process.wait()
        self.workers.clear()
