"""Cost of a pass over a real cluster, beside upstream's own controller in the same run.

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_scale [--hpas 1000] [--pods 10]

A real API server 1.20.2 is filled with that many HPAs on cpu, ten namespaces, and pods whose usage
moves by 4 % up and down. The loop runs as a user runs it; its processor time and memory are those
of /proc, its requests those of the API server's audit log.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.live_process import (
    PASSES,
    REQUESTS,
    Live,
    cpu_s,
    files_of,
    pids,
    rss_mib,
    running,
    status_of,
)
from tests.real.cluster import VARIABLE, Cluster, missing, running_cluster

JITTER: Final = 0.08
"""The stub's: the whole width of what is added, so 4 % up and down."""
UNCAPPED: Final = (
    "--kube-api-qps=10000", "--kube-api-burst=10000",
    "--horizontal-pod-autoscaler-sync-period=100ms",
)  # fmt: skip
Figures = dict[str, Any]


def main() -> None:
    """Measure, print, and write the figures to build/live-scale-N.json."""
    options = _options()
    if missing():
        raise SystemExit(missing())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_cluster(folder, flags=["--audit", "--stub"]) as cluster:
            figures = measured(cluster, folder, options)
    out = Path("build") / f"live-scale-{options.hpas}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(figures, indent=1))
    print("\n".join(report(figures)))
    print(f"written to {out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hpas", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--every-s", type=float, default=15.0, help="between two passes")
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--no-upstream", action="store_true", help="the loop alone")
    parser.add_argument("--default-limits", action="store_true", help="upstream's too: 50 ms a HPA")
    return parser.parse_args()


def measured(cluster: Cluster, folder: Path, options: argparse.Namespace) -> Figures:
    figures: Figures = {"hpas": options.hpas, "pods": options.pods, "every_s": options.every_s}
    begun = time.monotonic()
    print(_script(cluster, "load.py", str(options.hpas), str(options.pods)), flush=True)
    figures["loading_s"] = time.monotonic() - begun
    figures["server_rss_mib"] = {name: rss_mib(pid) for name, pid in pids(folder).items()}
    _jitter(cluster, folder)
    for name, more in (("live", []), ("recording", ["--record", str(folder / "history")])):
        figures[name] = measured_live(cluster, folder, options, more)
        print(f"{name}: {figures[name]}", flush=True)
    if not options.no_upstream:
        figures["upstream"] = measured_upstream(cluster, options)
    return figures


def _script(cluster: Cluster, *command: str) -> str:
    """Run one of the cluster's scripts; return what it prints."""
    path = Path(os.environ[VARIABLE], command[0])
    done = subprocess.run(
        [sys.executable, str(path), *command[1:]], env=cluster.environment, text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def _jitter(cluster: Cluster, folder: Path) -> None:
    url = f"https://127.0.0.1:{cluster.environment['P_STUB']}/control"
    context = ssl.create_default_context(cafile=str(folder / "pki/ca.crt"))
    body = json.dumps({"jitter": JITTER}).encode()
    request = urllib.request.Request(url, body, method="PUT")
    with urllib.request.urlopen(request, context=context) as answer:
        answer.read()


# -- ours


def measured_live(
    cluster: Cluster, folder: Path, options: argparse.Namespace, more: list[str]
) -> Figures:
    """Return what the loop needs a pass, over some passes of a steady cluster."""
    arguments = ["--every", f"{options.every_s * 1000:.0f}ms", *more]
    with running(folder, cluster.environment["KUBECONFIG"], arguments) as live:
        begun = time.monotonic()
        _wait_passes(live, 3)
        warm_s = time.monotonic() - begun
        log = folder / "log/audit.log"
        size, first, cpu = _flushed(log), live.metrics(), cpu_s(live.pid)
        server = {name: cpu_s(pid) for name, pid in pids(folder).items()}
        _wait_passes(live, int(first[PASSES]) + options.passes)
        spent, last = cpu_s(live.pid) - cpu, live.metrics()
        passes = last[PASSES] - first[PASSES]
        requests = _requests(log, size, _flushed(log))
        return {
            "passes": passes, "three_passes_s": warm_s, "cpu_s": spent / passes,
            "requests": sum(requests.values()) / passes,
            "requests_counted": (last[REQUESTS] - first[REQUESTS]) / passes,
            "by_kind": {kind: count / passes for kind, count in requests.most_common(6)},
            "pass_s": _mean(first, last, "hpabatch_pass_duration_seconds"),
            "phases_s": _phases(first, last),
            "server_cpu_s": {
                name: (cpu_s(pid) - server[name]) / passes for name, pid in pids(folder).items()
            },
            "rss_mib": rss_mib(live.pid), "peak_mib": status_of(live.pid, "VmHWM") / 1024,
            "files": files_of(live.pid), "threads": status_of(live.pid, "Threads"),
        }  # fmt: skip


def _wait_passes(live: Live, passes: int) -> None:
    while live.metrics().get(PASSES, 0) < passes:
        if live.process.poll() is not None:
            raise SystemExit(f"the loop ended with code {live.process.returncode}")
        time.sleep(0.5)


def _mean(first: dict[str, float], last: dict[str, float], name: str) -> float:
    count = last[f"{name}_count"] - first.get(f"{name}_count", 0)
    return (last[f"{name}_sum"] - first.get(f"{name}_sum", 0)) / max(count, 1)


def _phases(first: dict[str, float], last: dict[str, float]) -> dict[str, float]:
    pattern = re.compile(r'hpabatch_pass_phase_duration_seconds_sum\{phase="(\w+)"\}')
    found = {}
    for series, value in last.items():
        if match := pattern.fullmatch(series):
            count = series.replace("_sum{", "_count{")
            done = last[count] - first.get(count, 0)
            found[match[1]] = (value - first.get(series, 0)) / max(done, 1)
    return found


def _flushed(log: Path) -> int:
    """Return the audit log's size, once what is waiting in the server has been written."""
    time.sleep(2)
    return log.stat().st_size


def _requests(log: Path, begin: int, end: int) -> Counter[str]:
    """Return the requests of a part of the log that are ours, by verb and resource."""
    found: Counter[str] = Counter()
    with log.open("rb") as stream:
        stream.seek(begin)
        for line in stream.read(end - begin).splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if not event.get("userAgent", "").startswith("hpabatch/"):
                    continue
                if event["stage"] == "ResponseComplete":
                    resource = (event.get("objectRef") or {}).get("resource", "discovery")
                    found[f"{event['verb']} {resource}"] += 1
    return found


# -- upstream's


def measured_upstream(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    """Return what the cluster's own script prints of upstream's controller."""
    seconds = max(20, options.hpas // 60)  # a few passes, uncapped
    found = [_script(cluster, "measure.py", "uncapped", str(seconds), str(seconds * 2), *UNCAPPED)]
    if options.default_limits:
        longest = max(60, options.hpas * 6 // 100)
        text = _script(cluster, "measure.py", "default", str(longest), str(longest * 2))
        found.append(text)
    return found


def report(figures: Figures) -> list[str]:
    """Return what is printed."""
    lines = [
        f"{figures['hpas']:,} HPAs x {figures['pods']} pods, metrics ±4 %, a pass every "
        f"{figures['every_s']:g} s; loaded in {figures['loading_s']:.0f} s",
        f"{'':12} {'requests':>9} {'CPU s':>7} {'wall s':>7} {'RSS MiB':>8} {'files':>6} threads",
    ]
    for name in ("live", "recording"):
        one = figures[name]
        lines.append(
            f"{name:12} {one['requests']:9.1f} {one['cpu_s']:7.3f} {one['pass_s']:7.3f} "
            f"{one['rss_mib']:8.0f} {one['files']:6} {one['threads']:7}"
        )
        phases = ", ".join(f"{k} {v * 1000:.0f}" for k, v in one["phases_s"].items())
        lines.append(f"{'':12} ms: {phases}")
    return [*lines, *figures.get("upstream", [])]


if __name__ == "__main__":
    main()
