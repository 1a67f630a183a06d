"""Measured parts of docs/scale.md: speed of jobs by workers, the scale model, cores for a job.

    python -m benchmarks.scale_speed [--hpas 256] [--times 4]  # some twenty minutes: speed.json
    python -m benchmarks.scale_speed --page                    # writes both parts of the page

A worker has one core of its own (`taskset`), as in the manifests. All kinds take turns, so that a
machine whose speed changes slows none alone: the median counts, and what is compared is compared
within a round. Dask's own profiler is off, as in the image.

The model: work grows with rows and decisions; what the command alone does (planning, putting
together) and what every worker does once (planning) does not get faster with more workers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.readme import replace_part
from tests.jobs.dask_cluster import Cluster

RESULT = Path(__file__).parents[1] / "build" / "scale" / "speed.json"
HPABATCH = str(Path(sys.executable).with_name("hpabatch"))
STEP = ("--step", "1m", "--seed", "7")
GRID = ("--grid", "target=40:89:1", "--grid", "scaleDown.window=60,300,900,1800")
SETTINGS = 201
"""All combinations, and today's."""

ONE = {"NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
PROFILER_OFF = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}
MOST_OVERHEAD = 0.05
MOST_SHARE = 0.6
"""Bounds: overhead of one worker, and the time of two of one's."""


def environment(place: Path) -> dict[str, str]:
    """Return the variables of a process that finds its bytecode, as an installed package has it."""
    own = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / "bytecode")}
    return {**os.environ, **own}


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def timed(line: Sequence[str], cores: str, env: dict[str, str]) -> float:
    """Return the seconds that a command takes on some cores."""
    began = time.monotonic()
    subprocess.run(["taskset", "-c", cores, *line], check=True, capture_output=True, env=env)
    return time.monotonic() - began


def curve(place: Path, history: Path) -> dict[str, float]:
    """Return the seconds of a sweep by this process and by workers; all give the same bytes."""
    place.mkdir()
    expected, env = place / "sweep-here", environment(place.parent)

    def sweep(name: str, cores: str, *more: str, own: dict[str, str] | None = None) -> float:
        out = place / name
        line = [HPABATCH, "sweep", str(history), "--out", str(out), "--no-fidelity", *GRID]
        seconds = timed([*line, *more], cores, {**env, **(own or {})})
        assert contents(expected) == contents(out), name
        print(f"{name}: {seconds:.1f} s", flush=True)
        return seconds

    found = {
        "local": sweep("sweep-here", "0", own=ONE),
        "workers_1": sweep("one", "0", "--workers", "1"),
        "workers_2": sweep("two", "0,1", "--workers", "2"),
        "workers_4_on_2": sweep("four", "0,1", "--workers", "4"),
    }
    (place / "dask").mkdir()
    cluster = Cluster(place / "dask", 1, env={**env, **PROFILER_OFF})
    try:
        pin(cluster, "0")
        at = ("--scheduler", cluster.address)
        found["dask_1"] = sweep("dask-one", "0", *at)
        cluster.add_worker()
        cluster.wait_for(2)
        pin(cluster, "0,1")
        found["dask_2"] = sweep("dask-two", "0,1", *at)
    finally:
        cluster.close()
    shutil.rmtree(place)
    return found


def pin(cluster: Cluster, cores: str) -> None:
    """Keep a cluster's processes, and what they start, on some cores."""
    wanted = {int(core) for core in cores.split(",")}
    for process in (cluster.scheduler, *cluster.workers):
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), wanted)


_REPLAY = """
import json, sys, time, resource
from pathlib import Path
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.history.reader import open_history
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.replay import ReplayJob, plan_of, replay_to_disk
out = Path(sys.argv[2])
times = []
def job():
    request = ReplayToRequest()
    return ReplayJob(plan_of(open_history(sys.argv[1], "replay"), request, None), Destination(out))
replay_to_disk(job()); out.unlink()  # (kernels and the disk's cache are warm)
t0 = time.monotonic(); ready = job()
t1 = time.monotonic(); replay_to_disk(ready, lambda status: times.append(time.monotonic()))
t2 = time.monotonic()
print(json.dumps({
    "hpas": len(ready.plan.chosen), "plan_s": t1 - t0, "work_s": times[-1] - t1,
    "finish_s": t2 - times[-1], "bytes": out.stat().st_size,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


_SWEEP = """
import json, sys, time
from pathlib import Path
from hpabatch.engine.sweep.run import plan_request
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.history.reader import open_history
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk
times = []
request = SweepRequest(grid=("target=40:89:1", "scaleDown.window=60,300,900,1800"), fidelity=False)
plan = plan_request(open_history(sys.argv[1], "replay"), request)
job = SweepJob(request, plan, Destination(Path(sys.argv[2]), True), spread=Spread(workers=2))
result = sweep_to_disk(job, lambda status: times.append(time.monotonic()))
print(json.dumps({"finish_s": time.monotonic() - times[-1], "hpas": len(plan.plan.chosen)}))
"""


def steps(place: Path, history: Path, script: str = _REPLAY) -> dict[str, float]:
    """Return the times of a job's steps, of a replay on one core: plan, work, put together."""
    cores = "0" if script is _REPLAY else "0,1"
    out = place / f"result-{history.name}"
    line = [sys.executable, "-c", script, str(history), str(out)]
    done = subprocess.run(
        ["taskset", "-c", cores, *line],
        check=True,
        stdout=subprocess.PIPE,
        env={**environment(place), **ONE},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def rows_and_bytes(history: Path) -> tuple[int, int]:
    """Return the rows of usage of a history, and the bytes of all of its files."""
    from hpabatch.history.reader import open_history

    rows = int(open_history(history).sizes("pod_metrics")["rows"].sum())
    return rows, sum(path.stat().st_size for path in history.rglob("*") if path.is_file())


def ratios(found: dict[str, Any], name: str, base: str) -> list[float]:
    """Return the ratio of two times in each round, the least first."""
    return sorted(one[name] / one[base] for one in found["rounds"])


def median_ratio(found: dict[str, Any], name: str, base: str) -> float:
    """Return the median of the ratios of two times within a round."""
    return statistics.median(ratios(found, name, base))


def measure(hpas: int, times: int) -> dict[str, Any]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fleet, one_pod, wide = (place / f"history-{name}" for name in ("fleet", "long", "wide"))
        for history, more in (
            (fleet, ("--hpas", str(hpas), "--pods", "5", "--days", "1")),
            (one_pod, ("--hpas", "100", "--pods", "1", "--days", "10")),
            (wide, ("--hpas", "4000", "--pods", "1", "--days", "1")),
        ):
            line = [sys.executable, "-m", "benchmarks.fleet", str(history), *STEP, *more]
            subprocess.run(line, check=True, capture_output=True)
        rows, size = rows_and_bytes(one_pod)
        # (first, so that everything is compiled)
        replay = steps(place, one_pod)
        swept = steps(place, fleet, _SWEEP)
        rounds = [curve(place / f"round-{k}", fleet) for k in range(times)]
        return {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, "
            f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}",
            "sweep": {"hpas": hpas, "days": 1, "settings": SETTINGS},
            "seconds": {name: statistics.median(one[name] for one in rounds) for name in rounds[0]},
            "rounds": rounds,
            "replay": {**replay, "days": 10, "rows": rows, "bytes_in": size},
            "wide": steps(place, wide),
            "swept": swept,
        }


# ---- the page -----------------------------------------------------------------------------------

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
HPAS, DAYS = 100_000, 365
ROWS = HPAS * DAYS * 1440
DECISIONS = HPAS * DAYS * 5760
CORES = (16, 64, 256)
CORE_HOUR = 0.04
"""Price of a core-hour in dollars: an assumption, of the order of a small machine on demand."""


def work_hours(found: dict[str, Any]) -> dict[str, float]:
    """Return the core-hours of the parts of a replay, and of a sweep of as many settings."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    per_day = seconds["local"] / (sweep["hpas"] * sweep["days"])
    return {
        "replay": replay["work_s"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS / 3600,
        "sweep": per_day * HPAS * DAYS / 3600,
    }


def alone_hours(found: dict[str, Any]) -> dict[str, float]:
    """Return the hours that the command works alone: planning twice, and putting together."""
    wide, replay, swept = found["wide"], found["replay"], found["swept"]
    plan = 2 * wide["plan_s"] / wide["hpas"] * HPAS / 3600
    join = replay["finish_s"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS / 3600
    tables = swept["finish_s"] / swept["hpas"] * HPAS / 3600  # (with one block a setting)
    return {"replay": plan + join, "sweep": plan + tables}


def efficiency(found: dict[str, Any]) -> float:
    """Return the share of a second worker that counts."""
    return min(1 / (2 * median_ratio(found, "dask_2", "dask_1")), 1.0)


def longer(found: dict[str, Any], kind: str) -> str:
    """Return how much longer one worker takes than this process: median and range."""
    low, *_, high = ratios(found, f"{kind}_1", "local")
    middle = median_ratio(found, f"{kind}_1", "local")
    return f"{middle - 1:+.0%} ({low - 1:+.0%} to {high - 1:+.0%})"


def halved(found: dict[str, Any], kind: str) -> str:
    """Return which share of one worker's time two take: median and range."""
    low, *_, high = ratios(found, f"{kind}_2", f"{kind}_1")
    return f"{median_ratio(found, f'{kind}_2', f'{kind}_1'):.2f} ({low:.2f} to {high:.2f})"


def speed_lines(found: dict[str, Any]) -> list[str]:
    """Return the tables of speed and of the model."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    work, alone = work_hours(found), alone_hours(found)
    share = efficiency(found)
    size = replay["bytes_in"] / replay["rows"] * ROWS
    out = replay["bytes"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS
    text = [
        f"Measured on {found['machine']} (`python -m benchmarks.scale_speed`): a sweep of "
        f"{sweep['hpas']} HPAs x {sweep['days']} day x {sweep['settings']} settings, one core a "
        "worker.",
        "",
        "| computed by | cores | seconds |",
        "|---|---:|---:|",
        f"| this process | 1 | {seconds['local']:.1f} |",
        f"| `--workers 1` | 1 | {seconds['workers_1']:.1f} |",
        f"| `--workers 2` | 2 | {seconds['workers_2']:.1f} |",
        f"| `--workers 4` | 2 | {seconds['workers_4_on_2']:.1f} |",
        f"| Dask, 1 worker | 1 | {seconds['dask_1']:.1f} |",
        f"| Dask, 2 workers | 2 | {seconds['dask_2']:.1f} |",
        "",
        f"Times are medians of {len(found['rounds'])} rounds, in each of which all took turns. "
        "Ratios within a round, median and range: one worker against this process "
        f"{longer(found, 'workers')}, one of Dask {longer(found, 'dask')}; two against one "
        f"{halved(found, 'workers')}, of Dask {halved(found, 'dask')}.",
        "",
        f"{HPAS:,} HPAs with one pod each, a year at one row a minute and a sync of 15 s: "
        f"{ROWS / 1e9:.0f} G rows, {DECISIONS / 1e9:.0f} G decisions. The history takes "
        f"{size / 1e9:,.0f} GB ({replay['bytes_in'] / replay['rows']:.1f} B a row), the decisions "
        f"of a replay {out / 1e9:,.0f} GB.",
        "",
        f"| | core-hours | at ${CORE_HOUR} | alone | {' | '.join(f'{n} cores' for n in CORES)} |",
        f"|---|---:|---:|---:|{'---:|' * len(CORES)}",
    ]
    for name, label in (("replay", "replay"), ("sweep", f"sweep, {sweep['settings']} settings")):
        walls = [alone[name] + work[name] / (n * share) for n in CORES]
        text.append(
            f"| {label} | {work[name]:,.0f} | ${work[name] * CORE_HOUR:,.0f} | {alone[name]:.2f} h "
            f"| {' | '.join(f'{wall:,.1f} h' for wall in walls)} |"
        )
    limit = work["replay"] / share / alone["replay"]
    text += [
        "",
        "`alone` is what one process does while no other can help: planning (by the command, then "
        "by every worker for itself) and putting the parts together (of the sweep with one block a "
        "setting; a year of weeks makes `blocks` longer). Wall time is that, and the "
        f"core-hours over cores, of which {share:.0%} counts, as with two workers on this machine.",
        "",
        "**The first thing that stops scaling** is that one process: a replay takes as long for it "
        f"as for its parts at {limit:,.0f} cores. It writes all decisions once more into its "
        "result; without `--out` only summaries come back. Then the history's storage: a core "
        f"reads {replay['bytes_in'] / replay['work_s'] / 1e6:.1f} MB/s of it.",
    ]
    return text


def sizing_lines(found: dict[str, Any]) -> list[str]:
    """Return the rule for the number of cores."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    samples = f"{round(replay['rows'] / replay['work_s'], -4):,.0f}"
    swept = sweep["hpas"] * sweep["days"] * sweep["settings"]
    days = f"{round(swept / seconds['local'], -1):,.0f}"
    return [
        "| | a core and second | cores for T seconds |",
        "|---|---:|---|",
        f"| replay, HPAs with one pod | {samples} samples | samples / {samples} / T |",
        f"| sweep, HPAs with five pods | {days} days of an HPA under a setting "
        f"| HPAs x days x settings / {days} / T |",
        "",
        f"Divide by {efficiency(found):.2f} with more than one worker: that share of it counts.",
    ]


def write_page() -> None:
    """Write both parts of the page from the kept figures."""
    found = json.loads(RESULT.read_text())
    for name, lines in (("speed", speed_lines), ("sizing", sizing_lines)):
        PAGE.write_text(replace_part(PAGE.read_text(), name, lines(found)))


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hpas", type=int, default=256, help="of the sweep's history")
    parser.add_argument("--times", type=int, default=4, help="rounds, in which all take turns")
    parser.add_argument("--page", action="store_true", help="write docs/scale.md, measure nothing")
    asked = parser.parse_args()
    if asked.page:
        write_page()
        return
    found = measure(asked.hpas, asked.times)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    for kind in ("workers", "dask"):
        overhead = median_ratio(found, f"{kind}_1", "local") - 1
        print(f"overhead of one, {kind}: {overhead:.1%} ({MOST_OVERHEAD:.0%} at most)")
        share = median_ratio(found, f"{kind}_2", f"{kind}_1")
        print(f"two {kind} take {share:.2f} of one's time ({MOST_SHARE} at most)")


if __name__ == "__main__":
    main()
