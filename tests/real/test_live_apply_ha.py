"""Several instances of `hpabatch live --apply`, and other controllers, on one real API server."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.real.api_writes import Json
from tests.real.applying import TAKEOVER_S, Applying, Ground, Start, queue_metric
from tests.real.cluster import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PERIOD_S = 20
PODS_A_PERIOD = 4


@pytest.fixture(scope="module")
def ground(controlled: Ground) -> Ground:
    controlled.namespaces("killed", "taken")
    return controlled


def test_hpas_on_which_another_controller_acts_are_refused(ground: Ground, start: Start) -> None:
    """Upstream's controller runs, and writes the status of the probe."""
    ground.app("taken", "web")
    ground.levels(cpu_total_m={"taken/web": 100})
    one = start("--take-over", "-n", "taken")
    one.until_problem("apply rivals", "the probe HPA ours/hpabatch-probe has got a status")
    time.sleep(3)
    assert one.logged("leads", "will") == []
    ground.remove_hpa("taken", "web")


def test_conflicts_delay_a_size_and_repeat_none(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """Another writes the target all the time; after a conflict the size is sent again."""
    ground.deployment("killed", "stormy", 2)
    metrics = [queue_metric("10")]
    folder = ground.document(tmp_path / "hpas", "killed", "stormy", metrics=metrics, maxReplicas=20)
    ground.levels(external={"queue": 20})
    one = start("--manifests", str(folder))
    one.until(one.leads)
    with modified_often(ground, "killed", "stormy"):
        for size in (4, 8):
            ground.levels(external={"queue": 10 * size})
            one.until(lambda size=size: ground.size("killed", "stormy") == size)  # type: ignore[misc]
        one.until(lambda: one.sizes("stormy") == [(2, 4), (4, 8)])
    assert 409 in audited_codes(ground, "killed", "stormy")
    assert len(audited_times(ground, "killed", "stormy")) == 2


@contextmanager
def modified_often(ground: Ground, namespace: str, name: str) -> Iterator[None]:
    """Modify an annotation of a Deployment without a pause, which changes its resourceVersion."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    over = threading.Event()

    def modify() -> None:
        while not over.is_set():
            document = {"metadata": {"annotations": {"time": str(time.time_ns())}}}
            ground.writer.send("PATCH", path, document)

    thread = threading.Thread(target=modify)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_after_kills_of_the_leader_policies_hold(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """Over all leaders the change in any period is within the policy; nothing is scaled twice."""
    policy = {"type": "Pods", "value": PODS_A_PERIOD, "periodSeconds": PERIOD_S}
    rules = {"policies": [policy], "stabilizationWindowSeconds": 0}
    behavior = {"scaleUp": rules, "scaleDown": rules}
    ground.deployment("killed", "web", 2)
    folder = ground.document(tmp_path / "hpas", "killed", "web", maxReplicas=60, behavior=behavior)
    draw = random.Random(7)
    pair = [start("--manifests", str(folder)) for _ in range(2)]
    instances = list(pair)
    with watched_sizes(ground, "killed", "web") as seen:
        for level_m in (3000, 100):
            ground.levels(cpu_total_m={"killed/web": level_m})
            killed = kill_leader(pair, "killed/web", draw, at_write=level_m == 100)
            assert killed.seconds < TAKEOVER_S
            pair = [killed.other, start("--manifests", str(folder))]
            instances.append(pair[1])
        time.sleep(PERIOD_S / 2)
    changes = written_changes(ground, "killed", "web", instances)
    assert [one.replicas for one in changes] == seen, "none is written twice"
    assert min(seen) < 0 < max(seen), "there are changes in both directions"
    assert max(most_within(changes, PERIOD_S)) <= PODS_A_PERIOD, changes


class Change(NamedTuple):
    """A change of a size: when it was decided and written (s since 1970), and by how much."""

    decided: float
    written: float
    replicas: int


def written_changes(
    ground: Ground, namespace: str, name: str, instances: Sequence[Applying]
) -> list[Change]:
    """Return the writes of the API server's audit log, with what the instances' logs say of them.

    API server 1.20 audits no object of a scale. A write is that of the last line `will` before it.
    """
    wills = sorted(
        (datetime.fromisoformat(line["ts"]).timestamp(), line["id"], line["to"] - line["from"])
        for one in instances
        for line in one.logged("will")
        if (line["namespace"], line["hpa"]) == (namespace, name)
    )
    found = []
    for at in audited_times(ground, namespace, name):
        _, number, replicas = max(will for will in wills if will[0] <= at)
        found.append(Change(int(number.partition("-")[0]) / 1000, at, replicas))
    return found


def most_within(changes: Sequence[Change], period_s: float) -> tuple[int, int]:
    """Return the most replicas that were added, and removed, within a period of a policy.

    An event counts from its decision at the earliest: a period ends so long after that.
    """
    ups, downs = [0], [0]
    for first in changes:
        until = first.decided + period_s
        inside = [one.replicas for one in changes if first.written <= one.written < until]
        ups.append(sum(by for by in inside if by > 0))
        downs.append(-sum(by for by in inside if by < 0))
    return max(ups), max(downs)


class Killed(NamedTuple):
    """The instance that is left, seconds until it led, and whether a size was being written."""

    other: Applying
    seconds: float
    at_write: bool


def kill_leader(
    pair: list[Applying], hpa: str, draw: random.Random, *, at_write: bool = False
) -> Killed:
    """Kill the leader within three seconds, while the other is hot.

    Args:
        pair: the instances.
        hpa: what the other has to have decided by then.
        draw: the moment.
        at_write: a few ms after it has logged that it will write a size, if it does in a while.
    """
    pair[0].until(lambda: any(one.leads() for one in pair))
    other, leader = sorted(pair, key=Applying.leads)
    other.until(lambda: hpa in other.desired())
    until, known = time.monotonic() + 12, len(leader.logged("will"))
    if not at_write:
        time.sleep(draw.uniform(0, 3))
    while at_write and len(leader.logged("will")) == known and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.02))
    leader.kill_now()
    begun, wrote = time.monotonic(), len(leader.logged("will")) > known
    other.until(other.leads)
    return Killed(other, time.monotonic() - begun, at_write and wrote)


@contextmanager
def watched_sizes(ground: Ground, namespace: str, name: str) -> Iterator[list[int]]:
    """Yield a growing list of the changes of a size, as they are seen."""
    found: list[int] = []
    over = threading.Event()

    def look() -> None:
        last = ground.size(namespace, name)
        while not over.wait(0.03):
            size = ground.size(namespace, name)
            if size != last:
                found.append(size - last)
            last = size

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def audited_times(ground: Ground, namespace: str, name: str) -> list[float]:
    """Return the times (s since 1970) of the writes of a scale that were made, in order."""
    return sorted(at for at, code in _audited(ground, namespace, name) if code == 200)


def audited_codes(ground: Ground, namespace: str, name: str) -> set[int]:
    """Return the codes of the responses to writes of a scale."""
    return {code for _, code in _audited(ground, namespace, name)}


def _audited(ground: Ground, namespace: str, name: str) -> Iterator[tuple[float, int]]:
    """Yield the time and the response's code of each write of a scale, from the audit log."""
    for line in (ground.writer.folder / "log" / "audit.log").read_text().splitlines():
        one: Json = json.loads(line)
        of = one.get("objectRef", {})
        at = (of.get("namespace"), of.get("name"), of.get("subresource"))
        code = one.get("responseStatus", {}).get("code")
        if at == (namespace, name, "scale") and one["verb"] == "update" and code is not None:
            yield datetime.fromisoformat(one["stageTimestamp"]).timestamp(), code
