"""Leaders of `hpabatch live --apply` killed at random moments: does the policy hold over all?

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_kills [--kills 50] [--seed 7]

Two instances run; the one that leads is killed (SIGKILL), another is started, and so on. The sizes
that were seen are as many as the API server's audit log has writes, whose times are compared with
the policy.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.real.api_writes import Writer
from tests.real.applying import Applying, Ground
from tests.real.cluster import missing, running_cluster
from tests.real.test_live_apply_ha import (
    PODS_A_PERIOD,
    SLACK_S,
    audited_times,
    kill_leader,
    watched_sizes,
)

_LEVELS_M = (3000, 200, 6000, 1000)
_PERIOD_S = 15


def main() -> None:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = ["--stub", "--fake-kubelet", "--audit", "--controllers", "deployment,replicaset"]
        audit = "--audit-log-mode=blocking"
        (folder / "cluster").mkdir()
        cluster = stack.enter_context(running_cluster(folder / "cluster", audit, flags))
        ground = Ground(Writer(cluster))
        ground.prepare("killed")
        took = _kill(ground, folder, options.kills, random.Random(options.seed), stack)
    took.sort()
    print(
        f"{len(took)} kills; the other led after {took[0]:.1f} to {took[-1]:.1f} s, "
        f"median {took[len(took) // 2]:.1f} s"
    )


def _kill(
    ground: Ground, folder: Path, kills: int, draw: random.Random, stack: ExitStack
) -> list[float]:
    policy = {"type": "Pods", "value": PODS_A_PERIOD, "periodSeconds": _PERIOD_S}
    rules = {"policies": [policy], "stabilizationWindowSeconds": 0}
    behavior = {"scaleUp": rules, "scaleDown": rules}
    ground.deployment("killed", "web", 2)
    documents = ground.document(folder / "hpas", "killed", "web", maxReplicas=60, behavior=behavior)

    def start(number: int) -> Applying:
        place = ground.writer.folder / "kubeconfig"
        one = Applying(folder / f"i{number}", place, "--manifests", str(documents))
        stack.callback(one.kill)
        return one

    pair, took = [start(0), start(1)], []
    with watched_sizes(ground, "killed", "web") as changes:
        for number in range(kills):
            ground.levels(cpu_total_m={"killed/web": _LEVELS_M[number // 5 % len(_LEVELS_M)]})
            other, seconds = kill_leader(pair, "killed/web", draw)
            took.append(seconds)
            pair = [other, start(number + 2)]
        time.sleep(_PERIOD_S)
    at_s = audited_times(ground, "killed", "web")
    if len(at_s) != len(changes):
        raise SystemExit(f"{len(changes)} changes of the size, {len(at_s)} writes in the audit log")
    # API server 1.20 audits no object of a scale: the sizes are those that were seen, in order.
    moved = [(at, change) for at, (_, change) in zip(at_s, changes, strict=True)]
    within_s = _PERIOD_S - SLACK_S
    worst = max(
        abs(sum(change for then, change in moved if at <= then < at + within_s)) for at, _ in moved
    )
    print(
        f"{len(changes)} changes of the size, {len(at_s)} writes in the audit log, by which "
        f"at most {worst} pods changed in {within_s:g} s, {PODS_A_PERIOD} allowed in {_PERIOD_S} s"
    )
    return took


if __name__ == "__main__":
    main()
