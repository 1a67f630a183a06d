"""Kills of workers, schedulers and commands at random moments, kept in build/scale/chaos.json.

    python -m benchmarks.scale_chaos [--kills 10] [--seed 1]     # some fifteen minutes

Each round starts a replay or a sweep on a Dask cluster of two workers on
loopback, kills -9 one process, and gives the command again until it ends well. The result must have
the bytes of that of one process.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scale_speed import HPABATCH, KEPT, contents, environment, keep
from tests.jobs.dask_cluster import Cluster

RESULT = KEPT / "chaos.json"
FLEET = ("--hpas", "128", "--pods", "3", "--days", "4", "--step", "1m")
COMMANDS = ("replay", "sweep")
KINDS = ("worker", "scheduler", "command")
TRIES = 5


@dataclass
class Site:
    """What all rounds use: a history, a cluster, and the results of one process."""

    place: Path
    cluster: Cluster
    expected: dict[str, dict[str, bytes]]

    @property
    def history(self) -> Path:
        return self.place / "history"

    def line(self, name: str, out: Path, *more: str) -> list[str]:
        """Return a command line whose output is a folder."""
        line = [name, str(self.history)]
        line += ["--grid", "max=+1,+2", "--no-fidelity"] if name == "sweep" else []
        return [HPABATCH, *line, "--out", f"{out}/", *more]

    def run(self, name: str, out: Path, *more: str) -> int:
        """Run a command to its end; return its exit code."""
        return self.start(name, out, *more).wait()

    def start(self, name: str, out: Path, *more: str) -> subprocess.Popen[bytes]:
        """Start a command; what it prints is left out."""
        return subprocess.Popen(
            self.line(name, out, *more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(self.place),
        )

    def at(self) -> tuple[str, str]:
        """Return the options that name the scheduler."""
        return "--scheduler", self.cluster.address


def opened(place: Path) -> Site:
    """Return a history, a cluster and the results of one process."""
    line = [sys.executable, "-m", "benchmarks.fleet", str(place / "history"), *FLEET]
    subprocess.run(line, check=True, capture_output=True)
    (place / "dask").mkdir()
    site = Site(place, Cluster(place / "dask", env=environment(place)), {})
    for name in COMMANDS:
        out = place / f"{name}-here"
        assert site.run(name, out) == 0, name
        site.expected[name] = contents(out)
    return site


def kill(kind: str, cluster: Cluster, running: subprocess.Popen[bytes], pick: int) -> None:
    """End a process as a crash does, and start it again unless it is the command."""
    if kind == "worker":
        cluster.kill_worker(pick % len(cluster.workers))
    elif kind == "scheduler":
        cluster.scheduler.send_signal(signal.SIGKILL)
        running.wait()
        cluster.kill_scheduler()
    else:
        running.kill()


def one_round(site: Site, kind: str, k: int, when: float) -> tuple[int, bool] | None:
    """Kill one process; return runs until the command ended well, and whether the bytes are equal.

    None: the command had ended already.
    """
    name = COMMANDS[k % len(COMMANDS)]
    out = site.place / f"{kind}-{k}"
    shutil.rmtree(out, ignore_errors=True)
    running = site.start(name, out, *site.at())
    time.sleep(when)
    if running.poll() is not None:
        return None
    kill(kind, site.cluster, running, k)
    code, runs = running.wait(), 1
    while code and runs < TRIES:
        code, runs = site.run(name, out, *site.at()), runs + 1
    equal = not code and contents(out) == site.expected[name]
    verdict = "same bytes" if equal else f"DIFFERS (exit code {code})"
    print(f"{kind} killed after {when:.1f} s of {name}: {runs} runs, {verdict}", flush=True)
    if equal:
        shutil.rmtree(out)
    return runs, equal


def measure(kills: int, seed: int, place: Path) -> dict[str, Any]:
    """Do all rounds; return the counts by what was killed."""
    site, draw = opened(place), random.Random(seed)
    seconds: dict[str, float] = {}
    for name in COMMANDS:
        for _ in range(2):  # (the first one takes longer)
            began, out = time.monotonic(), place / f"{name}-there"
            shutil.rmtree(out, ignore_errors=True)
            assert site.run(name, out, *site.at()) == 0, name
            seconds[name] = time.monotonic() - began
        assert contents(out) == site.expected[name], name
        print(f"{name}: {seconds[name]:.1f} s over Dask", flush=True)
    found: dict[str, Any] = {}
    for kind in KINDS:
        rounds: list[tuple[int, bool]] = []
        while len(rounds) < kills:
            when = draw.uniform(0.5, seconds[COMMANDS[len(rounds) % len(COMMANDS)]])
            if (done := one_round(site, kind, len(rounds), when)) is not None:
                rounds.append(done)
        found[kind] = {
            "kills": kills,
            "runs": sum(runs for runs, _ in rounds),
            "differing": sum(not equal for _, equal in rounds),
        }
    site.cluster.close()
    return {"seed": seed, "commands": list(COMMANDS), "killed": found}


def main() -> None:
    """Run it, keep the counts, and exit with 1 if a result differed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10, help="of each kind of process")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = measure(asked.kills, asked.seed, Path(place))
    keep(RESULT, found)
    wrong = sum(counts["differing"] for counts in found["killed"].values())
    print(f"{3 * asked.kills} kills with seed {asked.seed}: {wrong} results differed")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
