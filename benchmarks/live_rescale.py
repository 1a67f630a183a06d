"""Time from a metric's change to the last of many scales, beside upstream's controller.

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_rescale [--hpas 1000] [--uncapped]

Half of the Deployments are targets of HPAs of the cluster, which upstream's controller 1.20.2
serves; the other half of equal documents, which `hpabatch live --apply --manifests` serves. All
have the same External metric, and no pods. It changes once, and every size with it.
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
from typing import Final

from tests.real.api_writes import Writer
from tests.real.applying import Applying, Ground, hpa_document, queue_metric
from tests.real.cluster import missing, running_cluster

_PERIOD: Final = "15s"
_UNCAPPED: Final = "--kube-api-qps=10000 --kube-api-burst=10000"
_LONGEST_S: Final = 400.0


def main() -> None:
    """Run, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hpas", type=int, default=1000)
    parser.add_argument("--uncapped", action="store_true", help="without rate limits on both sides")
    options = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "cluster").mkdir()
        flags = ["--stub", "--controllers", "horizontalpodautoscaling"]
        more = {"KCM_ARGS": _UNCAPPED if options.uncapped else ""}
        cluster = stack.enter_context(running_cluster(folder / "cluster", "", flags, more))
        ground = Ground(Writer(cluster))
        ground.prepare("mine", "theirs")
        ground.levels(external={"queue": 20})
        names = [f"w{k:04}" for k in range(options.hpas)]
        documents = _prepare(ground, folder / "hpas", names)
        rate = ["--write-rate", "10000"] if options.uncapped else []
        one = Applying(
            folder / "one", ground.writer.folder / "kubeconfig", "--manifests", str(documents),
            "--most-targets", str(options.hpas), "--most-replicas", "1000000", *rate, every=_PERIOD,
        )  # fmt: skip
        stack.callback(one.kill)
        _wait(lambda: one.leads() and _written(ground) == options.hpas)
        ground.levels(external={"queue": 40})
        _report(ground, options.hpas, time.monotonic())


def _prepare(ground: Ground, folder: Path, names: Iterable[str]) -> Path:
    folder.mkdir()
    metric = queue_metric("10")

    def make(name: str) -> None:
        for space in ("mine", "theirs"):
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


def _report(ground: Ground, count: int, begun: float) -> None:
    """Print when the last size of each side was written."""
    open_ones = {"mine": "hpabatch", "theirs": "upstream's controller"}
    while open_ones and time.monotonic() < begun + _LONGEST_S:
        for space in list(open_ones):
            path = f"/apis/apps/v1/namespaces/{space}/deployments"
            sizes = [one["spec"]["replicas"] for one in ground.writer.send("GET", path)["items"]]
            if sizes.count(4) == count:
                print(f"{open_ones.pop(space)}: {time.monotonic() - begun:.1f} s")
        time.sleep(0.3)
    for who in open_ones.values():
        print(f"{who}: not all within {_LONGEST_S:.0f} s")


if __name__ == "__main__":
    main()
