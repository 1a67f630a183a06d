"""Time from a metric's change to the last of many scales, beside upstream's controller.

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_rescale

Half of the Deployments are targets of HPAs of the cluster, which upstream's controller 1.20.2
serves; the other half of equal documents, which `hpabatch live --apply --manifests` serves. All
have the same External metric, and no pods. It changes once, and every size with it; both work on
one API server at the same time. First with the rate limits of both, then without any.

It takes about a quarter of an hour, prints the figures, and writes the part `rescale` of
docs/live-apply.md, unless --hpas is another number.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.live_process import circumstances, cpu_s, pids, write_part
from tests.real.api_writes import Writer
from tests.real.applying import Applying, Ground, hpa_document, queue_metric
from tests.real.cluster import missing, running_cluster

_HPAS: Final = 1000
_PERIOD: Final = "15s"
_UNCAPPED: Final = "--kube-api-qps=10000 --kube-api-burst=10000"
_LONGEST_S: Final = 400.0
_SIDES: Final = {"mine": "hpabatch", "theirs": "upstream's controller 1.20.2"}


class Side(NamedTuple):
    """Figures of one side: seconds until the first and the last size, and its processor time."""

    first_s: float
    last_s: float
    cpu_s: float


def main() -> None:
    """Run, print the times, and write the page's part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hpas", type=int, default=_HPAS)
    options = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    under = circumstances()
    runs = {uncapped: _run(options.hpas, uncapped=uncapped) for uncapped in (False, True)}
    lines = [
        f"{under}: `python -m benchmarks.live_rescale`, {options.hpas:,} HPAs each. Seconds from "
        "the metric's change to the first and the last size, and processor time until then:",
        "",
        f"| | {' | '.join(_SIDES.values())} |",
        "|---|---:|---:|",
        f"| default rates (hpabatch: no limit of a pass) | {_cells(runs[False])} |",
        f"| without rate limits | {_cells(runs[True])} |",
    ]
    print("\n".join(lines))
    if options.hpas == _HPAS:
        write_part("rescale", lines)


def _cells(run: dict[str, Side]) -> str:
    shown = [f"{run[k].first_s:.1f} to {run[k].last_s:.1f} ({run[k].cpu_s:.1f})" for k in _SIDES]
    return " | ".join(shown)


def _run(hpas: int, *, uncapped: bool) -> dict[str, Side]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "cluster").mkdir()
        flags = ["--stub", "--controllers", "horizontalpodautoscaling"]
        more = {"KCM_ARGS": _UNCAPPED if uncapped else ""}
        cluster = stack.enter_context(running_cluster(folder / "cluster", "", flags, more))
        ground = Ground(Writer(cluster))
        ground.prepare(*_SIDES)
        ground.levels(external={"queue": 20})
        documents = _prepare(ground, folder / "hpas", [f"w{k:04}" for k in range(hpas)])
        rate = ["--write-rate", "10000"] if uncapped else []
        one = Applying(
            folder / "one", ground.writer.folder / "kubeconfig", "--manifests", str(documents),
            "--most-targets", str(hpas), "--most-replicas", "1000000", *rate, every=_PERIOD,
        )  # fmt: skip
        stack.callback(one.kill)
        _wait(lambda: one.leads() and _written(ground) == hpas)
        processes = {"mine": one.process.pid, "theirs": pids(folder / "cluster")[_CONTROLLER]}
        found = _change(ground, hpas, processes)
        print(f"{'without' if uncapped else 'default'} rate limits: {found}", flush=True)
        return found


_CONTROLLER: Final = "kube-controller-manager"


def _prepare(ground: Ground, folder: Path, names: Iterable[str]) -> Path:
    folder.mkdir()
    metric = queue_metric("10")

    def make(name: str) -> None:
        for space in _SIDES:
            ground.deployment(space, name, 2)
        ground.hpa("theirs", name, metric)
        document = hpa_document("mine", name, metrics=[metric])
        (folder / f"{name}.json").write_text(json.dumps(document))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(make, names))
    return folder


def _written(ground: Ground) -> int:
    return sum(desired == 2 for desired in ground.desired().values())


def _wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("it does not come to rest")
        time.sleep(1)


def _change(ground: Ground, count: int, processes: dict[str, int]) -> dict[str, Side]:
    """Change the metric, and return the figures of both sides."""
    used_s = {space: cpu_s(pid) for space, pid in processes.items()}
    ground.levels(external={"queue": 40})
    begun = time.monotonic()
    first: dict[str, float] = {}
    found: dict[str, Side] = {}
    while len(found) < len(_SIDES):
        passed_s = time.monotonic() - begun
        if passed_s > _LONGEST_S:
            raise SystemExit(f"not all sizes are written within {_LONGEST_S:.0f} s: {found}")
        for space in _SIDES.keys() - found.keys():
            path = f"/apis/apps/v1/namespaces/{space}/deployments"
            sizes = [one["spec"]["replicas"] for one in ground.writer.send("GET", path)["items"]]
            if 4 in sizes:
                first.setdefault(space, passed_s)
            if sizes.count(4) == count:
                now_s = time.monotonic() - begun
                found[space] = Side(first[space], now_s, cpu_s(processes[space]) - used_s[space])
        time.sleep(0.3)
    return found


if __name__ == "__main__":
    main()
