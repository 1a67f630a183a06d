"""`hpabatch live --apply` scales workloads of a real API server without an HPA controller."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hpabatch.live.apply.selection import is_canary
from tests.real.api_writes import Writer
from tests.real.applying import OURS, TAKEOVER_S, Applying, Ground, queue_metric
from tests.real.cluster import missing, running_cluster

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Start = Callable[..., Applying]
SPACES = ("shop", "held", "busy", "odd", "poor", "storm", "share", "vanish")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    flags = ["--stub", "--fake-kubelet", "--controllers", "deployment,replicaset"]
    with running_cluster(tmp_path_factory.mktemp("apply"), flags=flags) as cluster:
        found = Ground(Writer(cluster))
        found.prepare(*SPACES)
        yield found


@pytest.fixture
def start(ground: Ground, tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts an instance; it is ended with the test."""
    started: list[Applying] = []

    def begin(*more: str, user: str = "kubeconfig", **settings: Any) -> Applying:
        folder = tmp_path / f"instance{len(started)}"
        one = Applying(folder, ground.writer.folder / user, *more, **settings)
        started.append(one)
        return one

    yield begin
    for one in started:
        one.kill()
    ground.switch("false")


def _conditions(ground: Ground, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    hpa = ground.writer.send("GET", f"{ground.hpas(namespace)}/{name}")
    found = hpa.get("status", {}).get("conditions") or []
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def _see_passes(one: Applying, count: int) -> None:
    """Wait for so many further passes."""
    until = len(one.logged("pass")) + count
    one.until(lambda: len(one.logged("pass")) > until)


def test_hpas_of_the_cluster_are_taken_over(ground: Ground, start: Start) -> None:
    """Sizes, statuses and events are those that upstream's controller would write."""
    ground.app("shop", "web")
    ground.levels(cpu_total_m={"shop/web": 300})
    one = start("--take-over", "-n", "shop")
    one.until(lambda: ground.size("shop", "web") == 6)
    one.until(lambda: ground.desired().get("shop/web") == 6)
    one.until(lambda: one.sizes("web") == [(2, 4), (4, 6)])  # the log follows the size
    one.until(
        lambda: (
            _conditions(ground, "shop", "web").get("ScalingActive") == ("True", "ValidMetricFound")
        )
    )
    why = "cpu resource utilization (percentage of request) above target"
    one.until(
        lambda: ("SuccessfulRescale", f"New size: 4; reason: {why}") in ground.events("shop", "web")
    )
    ground.levels(cpu_total_m={"shop/web": 100})
    one.until(lambda: ground.size("shop", "web") == 2)
    one.until(lambda: one.sizes("web")[-1][1] == 2)
    code, seconds = one.end()
    assert (code, seconds < 30) == (0, True)
    lease = ground.writer.send(
        "GET", f"/apis/coordination.k8s.io/v1/namespaces/{OURS}/leases/hpabatch-apply"
    )
    assert lease["spec"].get("holderIdentity", "") == "", "it is released"
    will = one.logged("will")
    assert all(line["why"] and line["cluster"] and line["identity"] for line in will)


def test_nothing_is_written_before_the_probe_was_silent(ground: Ground, start: Start) -> None:
    ground.app("shop", "quiet")
    ground.levels(cpu_total_m={"shop/quiet": 300})
    one = start("--take-over", "-n", "shop", silence=60)
    one.until_problem("apply rivals", "must stay without status for 60 s")
    one.until(lambda: one.desired().get("shop/quiet") == 4)
    assert ground.size("shop", "quiet") == 2
    assert one.logged("will") == []


def test_own_documents_are_acted_on_but_for_targets_that_the_cluster_names(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    for name in ("mine", "theirs"):
        ground.deployment("odd", name)
    ground.hpa("odd", "theirs")
    ground.levels(cpu_total_m={"odd/mine": 300, "odd/theirs": 300})
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "odd", "mine", "theirs")))
    one.until(lambda: ground.size("odd", "mine") == 6)
    words = "Deployment/theirs is also the target of HPA odd/theirs of the cluster"
    assert words in one.problems()["apply odd/theirs"]
    assert ground.size("odd", "theirs") == 2
    one.until(lambda: '"desiredReplicas":6' in ground.report("odd", "mine"))
    ground.remove_hpa("odd", "theirs")
    one.until(lambda: ground.size("odd", "theirs") == 6)
    ground.remove_deployment("odd", "mine")
    one.until(lambda: "not found" in ground.report("odd", "mine"))


def test_what_is_off_is_not_scaled(ground: Ground, start: Start, tmp_path: Path) -> None:
    """The kill switch, the annotation of an HPA, and that of a target of an own document."""
    for name in ("web", "own"):
        ground.deployment("held", name)
    ground.hpa("held", "web", annotations={"hpabatch/apply": "off"})
    ground.levels(cpu_total_m={"held/web": 300, "held/own": 300})
    ground.switch("maintenance")
    one = start("--take-over", "-n", "held")
    one.until_problem("apply switch", "the kill switch is on: stop of ConfigMap")
    one.until(lambda: one.desired().get("held/web") == 4)
    ground.switch("false")
    one.until(one.leads)
    assert ground.size("held", "web") == 2
    ground.annotate(f"{ground.hpas('held')}/web", None)
    one.until(lambda: ground.size("held", "web") == 6)
    assert one.end()[0] == 0
    ground.annotate("/apis/apps/v1/namespaces/held/deployments/own", "off")
    two = start("--manifests", str(ground.document(tmp_path / "hpas", "held", "own")))
    two.until(two.leads)
    _see_passes(two, 4)
    (leaves,) = two.logged("leaves")
    assert leaves["text"] == 'the target\'s annotation hpabatch/apply is "off"'
    assert two.desired()["held/own"] == 4, "it is decided"
    assert (two.logged("will", "failed"), ground.report("held", "own")) == ([], "")
    ground.annotate("/apis/apps/v1/namespaces/held/deployments/own", None)
    two.until(lambda: ground.size("held", "own") == 6)
    assert len(two.logged("resumes")) == 1


def test_a_dry_run_is_checked_and_stores_nothing(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    ground.deployment("odd", "dry")
    ground.levels(cpu_total_m={"odd/dry": 300})
    before = ground.own_config_maps()
    one = start("--dry-run", "--manifests", str(ground.document(tmp_path / "hpas", "odd", "dry")))
    one.until(lambda: len(one.logged("done")) >= 2)
    assert {(line["from"], line["to"], line["dry_run"]) for line in one.logged("will")} == {
        (2, 4, True)
    }
    assert ground.size("odd", "dry") == 2
    assert ground.own_config_maps() == before, "neither ledger nor report"
    assert ground.events("odd", "dry") == []


def test_limits_of_a_pass_delay_and_do_not_forget(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """At most two targets change in a pass, and five replicas: a larger step comes in parts.

    HPAs beyond the canary share are decided and left alone.
    """
    share, others = _split_by_canary("busy", [f"w{k}" for k in range(30)], 50)
    steps = dict.fromkeys(share[:2], (3, 6)) | dict.fromkeys(share[2:5], (2, 4))
    left_alone = others[:2]
    for name in (*steps, *left_alone):
        ground.deployment("busy", name, steps.get(name, (2, 4))[0])
    levels = {name: 50 * steps.get(name, (2, 4))[1] for name in (*steps, *left_alone)}
    ground.levels(cpu_total_m={f"busy/{name}": level for name, level in levels.items()})
    folder = str(ground.document(tmp_path / "hpas", "busy", *levels))
    limits = "--most-targets", "2", "--most-replicas", "5", "--canary", "50"
    one = start(*limits, "--manifests", folder)
    one.until(lambda: all(ground.size("busy", name) == to for name, (_, to) in steps.items()))
    passes: dict[str, list[int]] = {}
    for line in one.logged("will"):
        passes.setdefault(line["id"].partition("-")[0], []).append(line["to"] - line["from"])
    assert max(map(len, passes.values())) <= 2, passes
    assert max(map(sum, passes.values())) <= 5, passes

    def whole(name: str) -> tuple[int, int]:
        made = one.sizes(name)
        assert all(a[1] == b[0] for a, b in pairwise(made))
        return made[0][0], made[-1][1]

    one.until(lambda: all(one.sizes(name) and whole(name) == steps[name] for name in steps))
    _see_passes(one, 2)
    assert one.logged("share")[-1]["hpas"] == sorted(f"busy/{name}" for name in steps)
    assert [ground.size("busy", name) for name in left_alone] == [2, 2]
    assert [one.desired()[f"busy/{name}"] for name in left_alone] == [4, 4]


def _split_by_canary(
    namespace: str, names: Sequence[str], share_pct: int
) -> tuple[list[str], list[str]]:
    """Return the HPAs of a canary share, and the others."""
    share = [name for name in names if is_canary((namespace, name), share_pct)]
    return share, [name for name in names if name not in share]


def test_no_size_changes_while_most_metrics_have_vanished(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """Those of External that worked fail together when their adapter is gone."""
    folder = tmp_path / "hpas"
    for name in ("cpu", "queue-a", "queue-b"):
        ground.deployment("vanish", name)
    ground.document(folder, "vanish", "cpu")
    ground.document(folder, "vanish", "queue-a", "queue-b", metrics=[queue_metric("10")])
    ground.levels(cpu_total_m={"vanish/cpu": 100}, external={"queue": 20})
    one = start("--manifests", str(folder))
    one.until(one.leads)
    _see_passes(one, 2)
    with _without_external_metrics(ground):
        one.until(lambda: any("queue-b" in line["hpa"] for line in one.since(0, "fails")))
        ground.levels(cpu_total_m={"vanish/cpu": 300})
        told = "2 of 3 metrics that worked within five minutes fail now, more than --most-vanished"
        one.until_problem("apply metrics", told)
        one.until(lambda: one.desired()["vanish/cpu"] == 4)
        _see_passes(one, 4)
        assert ground.size("vanish", "cpu") == 2
    one.until(lambda: ground.size("vanish", "cpu") == 6)
    assert [ground.size("vanish", name) for name in ("queue-a", "queue-b")] == [2, 2]


@contextmanager
def _without_external_metrics(ground: Ground) -> Iterator[None]:
    """Take the adapter of External metrics away, in the block."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    name = "v1beta1.external.metrics.k8s.io"
    kept = ground.writer.send("GET", f"{path}/{name}")
    ground.writer.send("DELETE", f"{path}/{name}")
    try:
        yield
    finally:
        ground.writer.send("POST", path, {"metadata": {"name": name}, "spec": kept["spec"]})


def test_while_its_log_cannot_be_written_nothing_else_is(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """The system allows its files no more bytes than the log has, as a full disk does."""
    ground.deployment("odd", "full")
    ground.levels(cpu_total_m={"odd/full": 100})
    log = tmp_path / "instance0" / "log.jsonl"
    log.parent.mkdir()
    # (larger than what it prints, which goes into files as well)
    log.write_text(json.dumps({"event": "before", "text": "x" * 5_000_000}) + "\n")
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "odd", "full")))
    one.until(one.leads)
    _, most = resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, most))
    one.until_problem("apply log", "no size or status is written: ")
    assert "log.jsonl cannot be written: File too large" in one.problems()["apply log"]
    ground.levels(cpu_total_m={"odd/full": 300})
    one.until(lambda: one.desired()["odd/full"] == 4)
    time.sleep(3)
    assert ground.size("odd", "full") == 2
    assert '"desiredReplicas":4' not in ground.report("odd", "full")
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (most, most))
    one.until(lambda: ground.size("odd", "full") == 6)
    one.until(lambda: one.sizes("full") == [(2, 4), (4, 6)])
    one.until(lambda: "apply log" not in one.problems())


def test_a_pass_that_has_begun_is_written_before_the_end(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    names = [f"late{k}" for k in range(6)]
    for name in names:
        ground.deployment("busy", name)
    ground.levels(cpu_total_m={f"busy/{name}": 200 for name in names})
    folder = ground.document(tmp_path / "hpas", "busy", *names)
    one = start("--write-rate", "2", "--manifests", str(folder))
    one.until(lambda: len(one.logged("will")) == 6)
    assert one.logged("done") == [], "six requests, two a second"
    code, _ = one.end()
    assert code == 0
    assert len(one.logged("done")) == 6
    assert {ground.size("busy", name) for name in names} == {4}
    assert one.logged("stop")


def test_sizes_of_others_are_noted_and_decided_on(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """Manual scaling, also to zero, which pauses an HPA; a target that vanishes and comes back."""
    ground.deployment("odd", "hand")
    ground.levels(cpu_total_m={"odd/hand": 100})
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "odd", "hand")))
    one.until(one.leads)
    ground.resize("odd", "hand", 5)
    one.until(lambda: one.sizes("hand") == [(5, 2)])
    assert any(
        "odd/hand: another changed the size, 2 -> 5" in x["text"] for x in one.since(0, "note")
    )
    ground.resize("odd", "hand", 0)
    one.until(lambda: "ScalingDisabled" in ground.report("odd", "hand"))
    _see_passes(one, 4)
    assert ground.size("odd", "hand") == 0
    assert one.sizes("hand") == [(5, 2)]
    ground.resize("odd", "hand", 14)
    one.until(lambda: (14, 10) in one.sizes("hand"))
    ground.remove_deployment("odd", "hand")
    one.until(lambda: any("not found" in x.get("why", "") for x in one.since(0, "fails")))
    ground.deployment("odd", "hand", 1)
    one.until(lambda: ground.size("odd", "hand") == 2)


def test_a_target_at_zero_comes_back_by_the_next_instance(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """Only the report says that hpabatch scaled it to zero, and nobody by hand."""
    ground.deployment("odd", "naps")
    spec = {"minReplicas": 0, "metrics": [queue_metric("10")]}
    folder = str(ground.document(tmp_path / "hpas", "odd", "naps", **spec))
    ground.levels(external={"queue": 0})
    one = start("--manifests", folder, "--k8s", "1.37")
    one.until(lambda: "ScaledToZero" in ground.report("odd", "naps"))
    one.kill_now()
    assert ground.size("odd", "naps") == 0
    ground.levels(external={"queue": 40})
    two = start("--manifests", folder, "--k8s", "1.37")
    two.until(lambda: ground.size("odd", "naps") == 4)


def test_a_standby_that_has_seen_the_probe_silent_leads_within_the_lease(
    ground: Ground, start: Start
) -> None:
    """Restarts of other instances cost it nothing of the time for which it has looked."""
    silence = 20.0
    ground.app("shop", "hot")
    ground.levels(cpu_total_m={"shop/hot": 100})
    pair = [start("--take-over", "-n", "shop", silence=silence)]
    for kills in (False, True):
        pair[0].until(pair[0].leads)
        pair.append(start("--take-over", "-n", "shop", silence=silence))
        pair[1].until(lambda: "shop/hot" in pair[1].desired())
        time.sleep(silence + 1)
        pair[0].kill_now() if kills else pair[0].end()
        pair.pop(0)
        pair[0].until(pair[0].leads, seconds=TAKEOVER_S)
    ground.levels(cpu_total_m={"shop/hot": 200})
    pair[0].until(lambda: ground.size("shop", "hot") == 4)


def test_two_instances_without_one_election_find_each_other(ground: Ground, start: Start) -> None:
    """Their leases are in different namespaces; the second probe gets a status of the first."""
    ground.own_namespace("others")
    one = start("--take-over")
    one.until(one.leads)
    two = start("--take-over", "--own-namespace", "others")
    two.until_problem("apply rivals", "the probe HPA others/hpabatch-probe has got a status")
    assert two.logged("leads", "will") == []
    assert one.leads()
    probe = {"hpa": "hpabatch-probe", "namespace": OURS}
    assert not [line for line in one.lines if probe.items() <= line.items()], "it is not the user's"
    assert not [name for name in one.metrics() if "hpabatch-probe" in name and OURS in name]


def test_a_login_without_rights_is_refused_with_a_sentence(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    folder = ground.document(tmp_path / "hpas", "poor", "web")
    one = start("--manifests", str(folder), user="scaler.kubeconfig")
    assert one.process.wait(60) == 2
    said = (one.folder / "err").read_text()
    assert "the lease ours/hpabatch-apply cannot be read" in said
    assert "forbidden" in said
    assert "Traceback" not in said


def test_an_api_server_that_dies_and_comes_back_is_survived(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """By an instance of own documents, and by one that takes the HPAs of a namespace over."""
    ground.own_namespace("takers")
    ground.deployment("odd", "storm")
    ground.app("storm", "taken")
    ground.levels(cpu_total_m={"odd/storm": 100, "storm/taken": 100})
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "odd", "storm")))
    two = start("--take-over", "-n", "storm", "--own-namespace", "takers")
    for each in (one, two):
        each.until(each.leads)
    ground.writer.kill()
    for each in (one, two):
        each.until_problem("apply switch", "cannot be read")
    ground.writer.start()
    ground.levels(cpu_total_m={"odd/storm": 300, "storm/taken": 300})
    one.until(lambda: one.sizes("storm") == [(2, 4), (4, 6)])
    two.until(lambda: two.sizes("taken") == [(2, 4), (4, 6)])
    assert (ground.size("odd", "storm"), ground.size("storm", "taken")) == (6, 6)
    two.until(lambda: ground.desired().get("storm/taken") == 6)
