"""Leaders of `hpabatch live --apply` killed at random moments: does the policy hold over all?

    HPABATCH_CLUSTER_SCRIPTS=… python -m benchmarks.live_kills

Two instances run; the one that leads is killed (SIGKILL), another is started, and so on. Every
other kill comes right after a line `will` of the log of writes, so while a size is written; the
others at any time. Compared are the sizes that were seen, the writes in the API server's audit log,
and the policy. It takes about a quarter of an hour, prints the figures, and writes the part `kills`
of docs/live-apply.md, unless --kills is another number.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.live_process import circumstances, write_part
from tests.real.api_writes import Writer
from tests.real.applying import LEASE_S, Applying, Ground
from tests.real.cluster import missing, running_cluster
from tests.real.test_live_apply_ha import (
    PODS_A_PERIOD,
    kill_leader,
    most_within,
    watched_sizes,
    written_changes,
)

_LEVELS_M: Final = (3000, 200, 6000, 1000)
_PERIOD_S: Final = 15
_KILLS: Final = 50


class Found(NamedTuple):
    """Figures of a run.

    Attributes:
        seed: of the moments.
        took_s: from each kill until the other leads, ascending.
        at_write: kills right after a line `will`.
        changes: of the size, as they were seen.
        writes: of the scale in the audit log, with the changes that the instances logged.
        most: pods that were added, and removed, within a period.
    """

    seed: int
    took_s: list[float]
    at_write: int
    changes: list[int]
    writes: list[int]
    most: tuple[int, int]


def main() -> None:
    """Run, print what was found, and write the page's part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=_KILLS)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    under = circumstances()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = ["--stub", "--fake-kubelet", "--audit", "--controllers", "deployment,replicaset"]
        audit = "--audit-log-mode=blocking"
        (folder / "cluster").mkdir()
        cluster = stack.enter_context(running_cluster(folder / "cluster", audit, flags))
        ground = Ground(Writer(cluster))
        ground.prepare("killed")
        found = _kill(ground, folder, options.kills, options.seed, stack)
    lines = [f"{under}: `python -m benchmarks.live_kills`", "", *_table(found)]
    print("\n".join(lines))
    wrong = found.changes != found.writes or max(found.most) > PODS_A_PERIOD
    if options.kills == _KILLS and not wrong:
        write_part("kills", lines)
    if wrong:
        raise SystemExit("a size was written twice, or more changed than the policy allows")


def _kill(ground: Ground, folder: Path, kills: int, seed: int, stack: ExitStack) -> Found:
    draw = random.Random(seed)
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

    pair, took, at_write = [start(0), start(1)], [], 0
    instances = list(pair)
    with watched_sizes(ground, "killed", "web") as seen:
        for number in range(kills):
            ground.levels(cpu_total_m={"killed/web": _LEVELS_M[number // 5 % len(_LEVELS_M)]})
            killed = kill_leader(pair, "killed/web", draw, at_write=number % 2 == 1)
            took.append(killed.seconds)
            at_write += killed.at_write
            pair = [killed.other, start(number + 2)]
            instances.append(pair[1])
            if number % 10 == 9:
                print(f"{number + 1} kills", flush=True)
        time.sleep(_PERIOD_S)
    changes = written_changes(ground, "killed", "web", instances)
    most = most_within(changes, _PERIOD_S)
    return Found(seed, sorted(took), at_write, seen, [one.replicas for one in changes], most)


def _table(found: Found) -> list[str]:
    took = found.took_s
    times = f"{took[0]:.1f} to {took[-1]:.1f} s, median {took[len(took) // 2]:.1f} s"
    rows = {
        f"kills of the leader, lease {LEASE_S} s, seed {found.seed}": str(len(took)),
        "of them while a size was written": str(found.at_write),
        "until the other leads": times,
        "changes of the size": str(len(found.changes)),
        "writes in the audit log": str(len(found.writes)),
        f"pods added within {_PERIOD_S} s of a decision, at most": str(found.most[0]),
        f"pods removed within {_PERIOD_S} s of a decision, at most": str(found.most[1]),
        f"allowed by the policy within {_PERIOD_S} s": str(PODS_A_PERIOD),
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


if __name__ == "__main__":
    main()
