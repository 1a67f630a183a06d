"""Speed and memory of an import from a real Prometheus, beside the server's own work.

    HPABATCH_CLUSTER_SCRIPTS=... python -m benchmarks.prometheus_import --hpas 20 --pods 20 --days 2

The blocks of a fleet of the generator are backfilled, and one process imports all of them.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from benchmarks.fleet.draw import FleetRequest
from tests.real.imports import bring, content, serve
from tests.real.openmetrics_site import Site, synthetic
from tests.real.prometheus import missing, running_prometheus

ROOT: Final = Path(__file__).resolve().parents[1]


def import_all(url: str, out: str, start_ms: int, end_ms: int) -> None:
    """Import what a server has, and print samples and memory."""
    result = bring(url, Site(start_ms=start_ms, end_ms=end_ms), Path(out), cluster="a")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"taken             {result.samples:,} samples")
    print(f"peak memory       {peak / 1024:,.0f} MiB")


def server_cpu_s(url: str) -> float:
    """Return the processor time that the server says it has used."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    return float(re.findall(r"^process_cpu_seconds_total (\S+)", text, re.MULTILINE)[0])


def children_cpu_s() -> float:
    """Return the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(request: FleetRequest) -> None:
    """Serve a fleet, import it in a process of its own, and print what that took."""
    tables = synthetic(request)
    site = Site(offset_ms=7_000).placed(tables)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_prometheus(folder, serve(tables, site, folder)) as url:
            span = [str(site.start_ms), str(site.end_ms)]
            child = [sys.executable, "-m", "benchmarks.prometheus_import", "--child", url]
            server, own, begun = server_cpu_s(url), children_cpu_s(), time.perf_counter()
            subprocess.run([*child, f"{folder}/history", *span], check=True, cwd=ROOT)
            print(f"wall              {time.perf_counter() - begun:.1f} s")
            print(f"processor         {children_cpu_s() - own:.1f} s")
            print(f"server's own      {server_cpu_s(url) - server:.1f} s")
        rows = content(folder / "history")["pod_metrics"].height
        print(f"rows of usage     {rows:,} of {tables['pod_metrics'].height:,}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hpas", type=int, default=20)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        url, out, start, end = asked.child
        return import_all(url, out, int(start), int(end))
    if missing():
        raise SystemExit(missing())
    measure(FleetRequest(hpas=asked.hpas, pods=asked.pods, days=asked.days, step_ms=60_000))
    return None


if __name__ == "__main__":
    main()
