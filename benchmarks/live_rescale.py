"""Time from a metric's change to the last of many scales, beside upstream's controller.

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_rescale

Half of the Deployments are targets of HPAs of the cluster, which upstream's controller 1.20.2
serves; the other half of equal documents, which `hpabatch live --apply --manifests` serves. All
have the same External metric, and no pods. It changes once, and every size with it; both work on
one API server at the same time. First with the rate limits of both, then without any. Of documents
hpabatch writes none, where the controller writes a status and an event of each HPA: a third
run without the controller has `--take-over`, which writes them too.

It takes about twenty minutes, prints the figures, and writes the part `rescale` of
docs/live-apply.md, unless --hpas is another number.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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


class Case(NamedTuple):
    """A run: `uncapped`: without rate limits; `beside`: upstream's controller works, too."""

    words: str
    uncapped: bool
    beside: bool


_CASES: Final = (
    Case("own documents, default rates", uncapped=False, beside=True),
    Case("own documents, without rate limits", uncapped=True, beside=True),
    Case("`--take-over`, default rates", uncapped=False, beside=False),
)


class Side(NamedTuple):
    """Figures of one side: seconds until the first and the last size and the last status.

    `status_s`: None for own documents; `cpu_s`: processor time until then.
    """

    first_s: float
    last_s: float
    status_s: float | None
    cpu_s: float


def main() -> None:
    """Run, print the times, and write the page's part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hpas", type=int, default=_HPAS)
    options = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    under = circumstances()
    rows = [
        f"| {case.words} | {_cells(_run(options.hpas, case), options.hpas)} |" for case in _CASES
    ]
    lines = [
        f"{under}: `python -m benchmarks.live_rescale`, {options.hpas:,} HPAs each. Seconds from "
        "the metric's change to the first and the last size, to the last status, and processor "
        "time until then:",
        "",
        f"| | {' | '.join(_SIDES.values())} |",
        "|---|---:|---:|",
        *rows,
    ]
    print("\n".join(lines))
    if options.hpas == _HPAS:
        write_part("rescale", lines)


def _cells(run: Mapping[str, Side], hpas: int) -> str:
    return " | ".join(_cell(run.get(space), hpas) for space in _SIDES)


def _cell(side: Side | None, hpas: int) -> str:
    if side is None:
        return "off"
    status = "no status" if side.status_s is None else f"{hpas:,} statuses {side.status_s:.1f}"
    return f"{side.first_s:.1f} to {side.last_s:.1f}, {status} ({side.cpu_s:.1f})"


def _run(hpas: int, case: Case) -> dict[str, Side]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "cluster").mkdir()
        controllers = ["--controllers", "horizontalpodautoscaling"] if case.beside else []
        more = {"KCM_ARGS": _UNCAPPED if case.uncapped else ""}
        flags = ["--stub", *controllers]
        cluster = stack.enter_context(running_cluster(folder / "cluster", "", flags, more))
        ground = Ground(Writer(cluster))
        ground.prepare(*_SIDES)
        ground.levels(external={"queue": 20})
        names = [f"w{k:04}" for k in range(hpas)]
        documents = _prepare(ground, folder / "hpas", names, beside=case.beside)
        acts_on = ["--manifests", str(documents)] if case.beside else ["--take-over", "-n", "mine"]
        rate = ["--write-rate", "10000"] if case.uncapped else []
        one = Applying(
            folder / "one", ground.writer.folder / "kubeconfig", *acts_on, *rate,
            "--most-replicas", "1000000", every=_PERIOD,
        )  # fmt: skip
        stack.callback(one.kill)
        processes = {"mine": one.process.pid}
        if case.beside:
            processes["theirs"] = pids(folder / "cluster")[_CONTROLLER]
        served = "theirs" if case.beside else "mine"
        _wait(lambda: one.leads() and _written(ground, served, 2) == hpas)
        found = _change(ground, hpas, processes, served)
        print(f"{case.words}: {found}", flush=True)
        return found


_CONTROLLER: Final = "kube-controller-manager"


def _prepare(ground: Ground, folder: Path, names: Sequence[str], *, beside: bool) -> Path:
    """Make Deployments, and of one namespace HPAs; return the folder of documents of the other."""
    folder.mkdir()
    metric = queue_metric("10")

    def make(name: str) -> None:
        for space in _SIDES:
            ground.deployment(space, name, 2)
        ground.hpa("theirs" if beside else "mine", name, metric)
        document = hpa_document("mine", name, metrics=[metric])
        (folder / f"{name}.json").write_text(json.dumps(document))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(make, names))
    return folder


def _written(ground: Ground, space: str, size: int) -> int:
    """Return the number of HPAs of a namespace whose status wants a size."""
    found = ground.desired().items()
    return sum(name.startswith(f"{space}/") and desired == size for name, desired in found)


def _wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("it does not come to rest")
        time.sleep(1)


def _change(
    ground: Ground, count: int, processes: Mapping[str, int], served: str
) -> dict[str, Side]:
    """Change the metric, and return the figures of each side; `served` has HPAs of the cluster."""
    used_s = {space: cpu_s(pid) for space, pid in processes.items()}
    ground.levels(external={"queue": 40})
    begun = time.monotonic()
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    found: dict[str, Side] = {}
    while len(found) < len(processes):
        if time.monotonic() - begun > _LONGEST_S:
            raise SystemExit(f"not all is written within {_LONGEST_S:.0f} s: {found}")
        for space in processes.keys() - found.keys():
            path = f"/apis/apps/v1/namespaces/{space}/deployments"
            listed = [] if space in last else ground.writer.send("GET", path)["items"]
            sizes = [one["spec"]["replicas"] for one in listed]
            now_s = time.monotonic() - begun
            if 4 in sizes:
                first.setdefault(space, now_s)
            if sizes.count(4) == count:
                last[space] = now_s
            is_served = space == served
            if space in last and (not is_served or _written(ground, space, 4) == count):
                status_s = time.monotonic() - begun if is_served else None
                used = cpu_s(processes[space]) - used_s[space]
                found[space] = Side(first[space], last[space], status_s, used)
        time.sleep(0.3)
    return found


if __name__ == "__main__":
    main()
