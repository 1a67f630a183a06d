"""A long run of the loop over a real cluster that never rests: do memory and handles stay flat?

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_soak [--minutes 60]

Upstream's controller scales the cases of tests/live_cluster under random load; pods, HPAs and
Deployments come and go; every few minutes the metrics server is away, the API server is killed and
started, or etcd forgets the past. Memory, files and threads of the loop are those of /proc.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import httpx2

from benchmarks.live_faults import (
    Processes,
    compact,
    server_starts_anew,
    stub_goes_and_comes,
)
from benchmarks.live_process import PASSES, Live, cpu_s, files_of, rss_mib, running, status_of
from tests.live_cluster.cases import APPS, CORE, all_cases, cpu, hpa_of, in_version, workload
from tests.live_cluster.ground import FEATURE_GATES, Flags, Ground, own_cluster, why_none
from tests.live_cluster.plug import told_sizes
from tests.live_cluster.recording import open_recording
from tests.live_cluster.scene import Scene, scene
from tests.live_cluster.script import idle, random_script
from tests.live_cluster.sequences import compare_told
from tests.live_cluster.server import ServerError, open_server

FLAGS: Final = Flags(5.0, 30.0, 10.0, 5.0)
SAMPLE_S: Final = 10.0
FAULT_S: Final = 150.0
JITTER: Final = 0.08  # the whole width, so 4 % up and down
MOST_GROWTH_MIB: Final = 16.0
MOST_MORE_HANDLES: Final = 8
HPAS: Final = "/apis/autoscaling/v2/namespaces"
Act = Callable[[Scene, random.Random], None]


class Sample(NamedTuple):
    """The process at a time, in seconds since it was ready."""

    at_s: float
    rss_mib: float
    files: int
    threads: int
    cpu_s: float
    passes: float
    problems: float


def main() -> int:
    """Run, print what was seen, and say whether it was flat."""
    options = _options()
    if why_none():
        raise SystemExit(why_none())
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    with (
        own_cluster(options.folder.resolve() / "cluster", FLAGS) as ground,
        open_server(ground.kubeconfig) as server,
        scene(server, all_cases(), ground.stub, own=True) as stage,
    ):
        idle(stage)
        assert stage.stub is not None
        stage.stub.put({"jitter": JITTER})
        stage.make()
        with running(options.folder, str(ground.kubeconfig), _arguments(ground, options)) as live:
            samples = _soak(ground, stage, live, options)
    return _judge(samples, options.folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every-s", type=float, default=2.0, help="between two passes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("build/live-soak"))
    return parser.parse_args()


def _arguments(ground: Ground, options: argparse.Namespace) -> list[str]:
    arguments = ["--every", f"{options.every_s * 1000:.0f}ms", "--k8s", "1.20"]
    arguments += ["--feature-gates", ground.gates]
    for name, value in FLAGS.named().items():
        arguments += ["--flag", f"{name}={value}"]
    if options.no_record:
        return arguments
    return [*arguments, "--record", str(options.folder / "history"), "--segment", "60s"]


def _soak(ground: Ground, stage: Scene, live: Live, options: argparse.Namespace) -> list[Sample]:
    """Let everything happen for some minutes; return what was sampled meanwhile."""
    begun, samples, over = time.monotonic(), list[Sample](), threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            samples.append(_sample(live, time.monotonic() - begun))
            with (options.folder / "samples.jsonl").open("a") as out:
                out.write(json.dumps(samples[-1]) + "\n")

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        _churn(ground, stage, live, options, begun + options.minutes * 60)
    finally:
        over.set()
        watcher.join(30)
    return samples


def _sample(live: Live, at_s: float) -> Sample:
    with suppress(OSError):
        metrics = live.metrics()
        return Sample(
            at_s, rss_mib(live.pid), files_of(live.pid), status_of(live.pid, "Threads"),
            cpu_s(live.pid), metrics[PASSES], metrics.get("hpabatch_undecidable_hpas", 0),
        )  # fmt: skip
    return Sample(at_s, 0, 0, 0, 0, 0, 0)


def _churn(
    ground: Ground, stage: Scene, live: Live, options: argparse.Namespace, end: float
) -> None:
    rng, processes = random.Random(options.seed), Processes(ground)
    faults = [
        lambda: stub_goes_and_comes(processes, stage),
        lambda: server_starts_anew(processes, stage),
        lambda: compact(processes, stage),
    ]
    next_fault, number = time.monotonic() + FAULT_S, count()
    steps = random_script(options.seed, options.minutes * 60, FLAGS.sync_s)
    while time.monotonic() < end:
        assert live.process.poll() is None, f"the loop ended: {live.process.returncode}"
        acts = [next(steps, None), rng.choice(ACTS), rng.choice(ACTS)]
        for act in acts:
            # What is acted on may be away just now; the cluster goes on.
            with suppress(ServerError, AssertionError, IndexError, KeyError, httpx2.HTTPError):
                if callable(act):
                    act(stage, rng)
                elif act is not None:
                    act.act(stage)
        if time.monotonic() > next_fault:
            fault = next(number) % len(faults)
            print(f"{_clock(end, options)} fault {fault}", flush=True)
            faults[fault]()
            next_fault = time.monotonic() + FAULT_S
        time.sleep(rng.uniform(1, 6))


def _clock(end: float, options: argparse.Namespace) -> str:
    return f"{options.minutes - (end - time.monotonic()) / 60:6.1f} min"


# -- what comes and goes


def _delete_pods(stage: Scene, rng: random.Random) -> None:
    pods = stage.pods()
    for pod in rng.sample(pods, min(3, len(pods))):
        stage.server.delete(f"{CORE}/namespaces/{stage.namespace}/pods/{pod['metadata']['name']}")


def _remake_hpa(stage: Scene, rng: random.Random) -> None:
    case = rng.choice(stage.cases)
    collection = f"{HPAS}/{stage.namespace}/horizontalpodautoscalers"
    stage.server.delete(f"{collection}/{case.name}")
    time.sleep(rng.uniform(0, 3))
    stage.server.create(collection, in_version(case.hpa, "v2"))


def _make_workload(stage: Scene, rng: random.Random) -> None:
    name = f"churn-{rng.randrange(10)}"
    stage.server.create(
        f"{APPS}/namespaces/{stage.namespace}/deployments", workload(name, replicas=3)
    )
    collection = f"{HPAS}/{stage.namespace}/horizontalpodautoscalers"
    stage.server.create(collection, in_version(hpa_of(name, [cpu()]), "v2"))


def _unmake_workload(stage: Scene, rng: random.Random) -> None:
    name = f"churn-{rng.randrange(10)}"
    stage.server.delete(f"{HPAS}/{stage.namespace}/horizontalpodautoscalers/{name}")
    stage.remove(name)


ACTS: Final[list[Act]] = [_delete_pods, _remake_hpa, _make_workload, _unmake_workload]


# -- the verdict


def _judge(samples: list[Sample], folder: Path) -> int:
    """Print quarters of the run; return 1 if memory or handles grew, or the recording is wrong."""
    alive = [one for one in samples if one.passes]
    size = len(alive) // 4
    if not size:
        raise SystemExit("the run was too short to be judged")
    quarters = [alive[k * size : (k + 1) * size] for k in range(4)]
    print(f"{'minutes':>12} {'RSS MiB':>15} {'files':>11} {'threads':>9} {'CPU s/pass':>11}")
    for part in quarters:
        passes = max(part[-1].passes - part[0].passes, 1)
        print(
            f"{part[0].at_s / 60:5.1f}-{part[-1].at_s / 60:5.1f} "
            f"{_range([one.rss_mib for one in part]):>16} "
            f"{_range([one.files for one in part]):>11} "
            f"{_range([one.threads for one in part]):>9} "
            f"{(part[-1].cpu_s - part[0].cpu_s) / passes:11.4f}"
        )
    second, last = quarters[1], quarters[3]
    grown = _middle([one.rss_mib for one in last]) - _middle([one.rss_mib for one in second])
    more = max(one.files for one in last) - max(one.files for one in second)
    threads = max(one.threads for one in last) - max(one.threads for one in second)
    print(f"from second to last quarter: {grown:+.1f} MiB, {more:+} files, {threads:+} threads")
    history = folder / "history"
    if history.exists():
        size_mb = sum(file.stat().st_size for file in history.rglob("*")) / 1e6
        print(f"recorded: {size_mb:.1f} MB, {sum(1 for _ in history.rglob('*.parquet'))} files")
        differing = _replayed_otherwise(folder)
        print(f"HPAs of which the recording's replay says something else: {differing or 'none'}")
    else:
        differing = []
    flat = grown <= MOST_GROWTH_MIB and max(more, threads) <= MOST_MORE_HANDLES
    print("flat" if flat else "NOT FLAT")
    return 0 if flat and not differing else 1


def _replayed_otherwise(folder: Path) -> list[str]:
    """Return the HPAs whose recording comes to other decisions than the loop said."""
    told, recording = told_sizes(folder), open_recording(folder / "history", "1.20", FEATURE_GATES)
    again = recording.at_passes()
    return [
        hpa.name for hpa in sorted({*told, *again}) if compare_told(hpa, told.get(hpa, []), again)
    ]


def _range(values: list[float] | list[int]) -> str:
    return f"{min(values):.0f}-{max(values):.0f}"


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    raise SystemExit(main())
