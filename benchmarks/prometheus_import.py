"""Speed and needs of an import from Prometheus, beside those of the server itself.

    python -m benchmarks.prometheus_import [--days 30] [--pods 1000]
    python -m benchmarks.prometheus_import --real [--pods 200]

The first imports from a stand-in that answers faster than a real server (prometheus_standin.py), as
a process of its own; prints samples, seconds, memory, the largest answer. The second asks a real
Prometheus, and the stand-in, for a day of raw samples of the same formulas, and prints both times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.prometheus_standin import figures_of, running_standin
from benchmarks.prometheus_standin_answer import NEVER
from benchmarks.prometheus_standin_fleet import MINUTE_MS, Fleet
from benchmarks.prometheus_standin_series import CPU, MEMORY
from hpabatch.history.reader import open_history

ROOT: Final = Path(__file__).resolve().parents[1]
BEFORE_MS: Final = 600_000
"""The import begins so much later than the server's samples, as elsewhere."""
Figures = dict[str, Any]


def import_all(url: str, out: str, start_ms: int, end_ms: int) -> Figures:
    """Import everything from a server; the one place that knows the importer."""
    from hpabatch.importers.prometheus.client.login import Login
    from hpabatch.importers.prometheus.request import PrometheusRequest
    from hpabatch.importers.prometheus.run import import_prometheus
    from hpabatch.model.times import show_instant

    request = PrometheusRequest(
        url=url, out=out, start=show_instant(start_ms), end=show_instant(end_ms),
        cluster_label="cluster", compress=True,
    )  # fmt: skip
    result = import_prometheus(request, Login())
    return {
        "samples": result.samples,
        "rows": dict(result.written),
        "figures": result.figures,
        "findings": {" ".join(key): n for key, n in result.findings.counts.items()},
    }


def measured_import(fleet: Fleet, url: str) -> Figures:
    """Run an import as a process of its own; return what it did and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "benchmarks.prometheus_import", "--child", url,
            f"{folder}/history", str(fleet.start_ms + BEFORE_MS), str(fleet.end_ms),
        ]  # fmt: skip
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # not of the stand-in, another child
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begun
        if process.returncode:
            raise SystemExit(f"the import failed with exit code {process.returncode}")
        rows = checked(fleet, f"{folder}/history")
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
    told: Figures = json.loads(said)
    return told | {
        "wall_s": wall,
        "checked": rows,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "store_bytes": size,
    }


def checked(fleet: Fleet, history: str) -> int:
    """Return the number of usage rows, after a comparison of each with the formulas."""
    pods = {pod.name: pod for pod in fleet.lives}
    opened = open_history(history)
    count = 0
    for day in range(fleet.days):
        date = datetime.fromtimestamp(fleet.start_ms / 1000 + 86_400 * day, UTC).date()
        rows = opened.partition_rows("pod_metrics", fleet.cluster, date)
        chosen = [pods[name] for name in rows["pod"]]
        number = np.array([pod.number for pod in chosen])
        first = np.array([pod.first for pod in chosen])
        begun = np.array([NEVER if pod.restarted is None else pod.restarted for pod in chosen])
        ts = rows["ts"].dt.timestamp("ms").to_numpy()
        minute = (ts - fleet.start_ms - number * 6007 % 55_000) // MINUTE_MS
        assert (fleet.sample_ms(number, minute) == ts).all(), f"{date}: times"
        assert (fleet.memory_bytes(number, minute) == rows["memory_bytes"].to_numpy()).all(), date
        before = fleet.sample_ms(number, minute - 1)
        used = fleet.usage_us(number, minute, begun) - fleet.usage_us(number, minute - 1, begun)
        alone = (minute == first) | (minute == begun)
        milli = pl.Series(-(-used // (ts - before))).set(pl.Series(alone), None)
        assert milli.equals(rows["cpu_milli"], null_equal=True), f"{date}: cpu"
        count += rows.height
    return count


def report(fleet: Fleet, done: Figures, server: Figures) -> list[str]:
    """Return what is printed of an import."""
    samples, wall = server["samples"], done["wall_s"]
    requests = sum(server["requests"].values())
    most = sorted(server["raw"].items(), key=lambda pair: -pair[1])[:8]
    raw = ", ".join(f"{name} {count:,}" for name, count in most)
    rows = ", ".join(f"{name} {count:,}" for name, count in sorted(done["rows"].items()))
    lines = [
        f"fleet             {fleet.pods:,} pods, {fleet.deployments:,} HPAs, {fleet.days} days at "
        f"1 min, {len(fleet.lives):,} pods in all",
        f"samples           {samples:,} that the server gave, {done['samples']:,} that were taken",
        f"raw               {raw}",
        f"wall              {wall:.1f} s, {samples / wall:,.0f} samples/s; "
        f"processor {done['cpu_s']:.1f} s",
        f"server's own      {server['making_s']:.1f} s making answers, {server['sending_s']:.1f} s "
        f"until they were taken; processor {server['cpu_s']:.1f} s",
        f"largest answer    {server['largest_bytes'] / 1e6:.1f} MB, "
        f"{server['largest_samples']:,} samples; all {server['bytes'] / 1e9:.2f} GB",
        f"peak memory       {done['peak_bytes'] / 2**20:,.0f} MiB",
        f"requests          {requests:,}, {server['errors']:,} refused",
        f"rows              {done['checked']:,} of usage, each as the formulas say",
        f"store             {done['store_bytes'] / 1e6:.1f} MB: {rows}",
    ]
    return lines + [f"noticed           {key}: {n:,}" for key, n in done["findings"].items()]


# ---- a real server and the stand-in, the same questions


def questions(fleet: Fleet) -> dict[str, str]:
    """Return what is asked of both, about the last day, by what it is called."""
    names = "|".join(pod.name for pod in fleet.lives if pod.last > fleet.minutes - 1440)
    pods = f'pod=~"{names}",container!="",container!="POD"'
    return {
        "raw cpu": f"{CPU}{{{pods}}}[86400000ms]",
        "raw memory": f"{MEMORY}{{{pods}}}[86400000ms]",
        "smallest phase": f'min_over_time(kube_pod_status_phase{{pod=~"{names}"}}[86400000ms])',
        "raw phase": f'kube_pod_status_phase{{pod=~"{names}"}}[86400000ms]',
        "owners": f'last_over_time(kube_pod_owner{{pod=~"{names}"}}[86400000ms])',
    }


def asked(url: str, query: str, at_ms: int, encoding: str = "identity") -> tuple[float, int]:
    """Return the seconds from a question to the last byte of its answer, and the bytes sent.

    The fastest of three.
    """
    body = urllib.parse.urlencode({"query": query, "time": at_ms / 1000}).encode()
    request = urllib.request.Request(f"{url}/api/v1/query", body, {"Accept-Encoding": encoding})
    found = []
    for _ in range(3):
        begun, size = time.perf_counter(), 0
        with urllib.request.urlopen(request) as answer:
            while chunk := answer.read(1 << 20):
                size += len(chunk)
        found.append((time.perf_counter() - begun, size))
    return min(found)


def compared(pods: int) -> list[str]:
    """Return a table: each question to a real Prometheus and to the stand-in."""
    from tests.real.openmetrics_text import write_openmetrics
    from tests.real.prometheus import backfill, missing, running_prometheus
    from tests.real.standin_families import families

    if missing():
        raise SystemExit(missing())
    fleet = Fleet(pods=pods, days=1)
    wanted = {CPU, MEMORY, "kube_pod_status_phase", "kube_pod_owner"}
    lines = [f"{'':16} {'real':>8} {'gzip':>8} {'stand-in':>8}  size (gzip)"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = families(fleet, wanted)
        backfill(write_openmetrics(made, folder / "text"), folder / "data")
        counts = {family.name: len(family.ts) for family in made}
        with (
            running_prometheus(folder, folder / "data") as real,
            running_standin("--pods", str(pods), "--days", "1") as standin,
        ):
            for title, query in questions(fleet).items():
                plain = asked(real, query, fleet.end_ms)
                zipped = asked(real, query, fleet.end_ms, "gzip")
                made_up = asked(standin, query, fleet.end_ms)
                lines.append(
                    f"{title:16} {plain[0]:7.3f}s {zipped[0]:7.3f}s {made_up[0]:7.3f}s  "
                    f"{plain[1] / 1e6:.1f} MB ({zipped[1] / 1e6:.1f})"
                )
    lines.append(f"samples of the metrics: {counts}")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--gzip", type=int, default=0, metavar="LEVEL", help="of the stand-in")
    parser.add_argument("--real", action="store_true", help="ask a real server instead")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    said = parser.parse_args(arguments)
    if said.child:
        url, out, start, end = said.child
        print(json.dumps(import_all(url, out, int(start), int(end))))
        return
    if said.real:
        print("\n".join(compared(said.pods or 200)))
        return
    fleet = Fleet(pods=said.pods or 1000, days=said.days)
    options = ["--pods", str(fleet.pods), "--days", str(fleet.days), "--gzip", str(said.gzip)]
    with running_standin(*options) as url:
        done = measured_import(fleet, url)
        print("\n".join(report(fleet, done, figures_of(url))))


if __name__ == "__main__":
    main()
