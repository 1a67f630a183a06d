"""Memory and time of giving out tasks of nothing, kept in build/scale/tasks.json.

    nice python -m benchmarks.scale_tasks [--tasks 100000]     # an hour on a busy machine

1,000, 10,000 and 100,000 tasks go to two processes and to two Dask workers. What grows with their
number grows in the command, or in the scheduler. `benchmarks.scale_model` makes the table of
docs/scale.md of the figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scale_speed import KEPT, environment, keep
from tests.jobs.dask_cluster import Cluster

RESULT = KEPT / "tasks.json"

_COMMAND = """
import json, resource, sys, time
from pathlib import Path
from hpabatch.inputs.workers import Spread
from tests.jobs.squares import records
began = time.monotonic()
spread = Spread(**json.loads(sys.argv[3]))
for _ in records(Path(sys.argv[1]), {"count": int(sys.argv[2])}, spread): pass
print(json.dumps({"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                  "seconds": time.monotonic() - began}))
"""


def command(place: Path, count: int, spread: dict[str, Any]) -> dict[str, float]:
    """Return memory and time of a command that gives out so many tasks of nothing."""
    folder = place / f"tasks-{count}"
    out = subprocess.run(
        [sys.executable, "-c", _COMMAND, str(folder), str(count), json.dumps(spread)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        env=environment(place),
    )
    shutil.rmtree(folder)
    found: dict[str, float] = json.loads(out.stdout)
    return found


def by_dask(place: Path, count: int) -> dict[str, float]:
    """Return the same over Dask, and the most memory of the scheduler, which is a new one."""
    folder = place / f"dask-{count}"
    folder.mkdir()
    cluster = Cluster(folder, env=environment(place))
    try:
        found = command(place, count, {"scheduler": cluster.address})
        status = Path(f"/proc/{cluster.scheduler.pid}/status").read_text()
        peak_kb = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
        return {**found, "scheduler_mb": int(peak_kb) / 1024}
    finally:
        cluster.close()


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000, help="the most of them")
    most = parser.parse_args().tasks
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for count in (most // 100, most // 10, most):
            found[str(count)] = {
                "workers": command(place, count, {"workers": 2}),
                "dask": by_dask(place, count),
            }
            print(count, json.dumps(found[str(count)]), flush=True)
    keep(RESULT, found)


if __name__ == "__main__":
    main()
