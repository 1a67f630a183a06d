"""Kills of workers, schedulers and commands at random moments: is the result the same bytes?

    python -m benchmarks.scale_chaos --kills 10 --seed 1

Each round starts `hpabatch replay` (or every third time `sweep`) on a Dask cluster of two workers
on loopback, kills -9 one process, and gives the command again until it ends well. The result is
compared with that of one process, byte by byte.
"""

from __future__ import annotations

import argparse
import filecmp
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.jobs.dask_cluster import Cluster

HPAS = ("--hpas", "96", "--pods", "3", "--days", "1", "--step", "1m")
COMMANDS = {
    "replay": ("replay",),
    "sweep": ("sweep", "--grid", "max=+1,+2", "--no-fidelity"),
}
KINDS = ("worker", "scheduler", "command")
TRIES = 5


def command(name: str, history: Path, out: Path, more: Sequence[str] = ()) -> list[str]:
    """Return a command line whose output is a folder."""
    verb, *rest = COMMANDS[name]
    hpabatch = str(Path(sys.executable).with_name("hpabatch"))
    return [hpabatch, verb, str(history), "--out", f"{out}/", *rest, *more]


def start(line: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command; what it says is left out."""
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files with the same bytes."""
    names = sorted(path.name for path in one.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        return False
    return not any(filecmp.cmpfiles(one, other, names, shallow=False)[1:])


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


def rounds(kills: int, seed: int, place: Path) -> int:
    """Run all rounds; return how many results differed."""
    draw, history, wrong = random.Random(seed), place / "history", 0
    subprocess.run([*command("replay", history, place)[:1], "synth", str(history), *HPAS],
                   check=True, capture_output=True)  # fmt: skip
    (place / "dask").mkdir()
    cluster, expected, seconds = Cluster(place / "dask"), {}, {}
    for name in COMMANDS:
        expected[name] = place / f"{name}-here"
        subprocess.run(command(name, history, expected[name]), check=True, capture_output=True)
        for k in range(2):  # (the first one takes longer)
            began, out = time.monotonic(), place / f"{name}-there-{k}"
            there = command(name, history, out, at(cluster))
            subprocess.run(there, check=True, capture_output=True)
            seconds[name] = time.monotonic() - began
            assert same(expected[name], out), name
    for kind in KINDS:
        k = 0
        while k < kills:
            name = "sweep" if k % 3 == 2 else "replay"
            out = place / f"{kind}-{k}"
            shutil.rmtree(out, ignore_errors=True)
            when = draw.uniform(0.5, seconds[name])
            running = start(command(name, history, out, at(cluster)))
            time.sleep(when)
            if running.poll() is not None:
                continue  # (it had ended already)
            kill(kind, cluster, running, k)
            k += 1
            code, tries = running.wait(), 1
            while code and tries < TRIES:
                code, tries = start(command(name, history, out, at(cluster))).wait(), tries + 1
            fine = not code and same(expected[name], out)
            wrong += not fine
            verdict = "same bytes" if fine else "DIFFERS"
            told = f"{kind} killed after {when:.1f} s of {name}: {tries} runs, {verdict}"
            print(told, flush=True)
    cluster.close()
    return wrong


def at(cluster: Cluster) -> tuple[str, str]:
    return "--scheduler", cluster.address


def main() -> None:
    """Run it and exit with 1 if a result differed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        wrong = rounds(asked.kills, asked.seed, Path(place))
    print(f"{3 * asked.kills} kills with seed {asked.seed}: {wrong} results differed")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
