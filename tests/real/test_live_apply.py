"""`hpabatch live --apply` scales workloads of a real API server without an HPA controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.applying import OURS, Ground, Start
from tests.real.cluster import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPACES = ("shop", "held", "busy", "odd", "poor", "storm")


@pytest.fixture(scope="module")
def ground(scaled: Ground) -> Ground:
    scaled.namespaces(*SPACES)
    return scaled


def _conditions(ground: Ground, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    hpa = ground.writer.send("GET", f"{ground.hpas(namespace)}/{name}")
    found = hpa.get("status", {}).get("conditions") or []
    return {one["type"]: (one["status"], one["reason"]) for one in found}


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
    one.until(lambda: one.desired().get("odd/mine") == 6)
    ground.remove_hpa("odd", "theirs")
    one.until(lambda: ground.size("odd", "theirs") == 6)
    ground.remove_deployment("odd", "mine")
    one.until(lambda: any("not found" in line["why"] for line in one.since(0, "fails")))


def test_what_is_off_is_not_scaled(ground: Ground, start: Start) -> None:
    """The kill switch, and the annotation of an HPA."""
    ground.deployment("held", "web")
    ground.hpa("held", "web", annotations={"hpabatch/apply": "off"})
    ground.levels(cpu_total_m={"held/web": 300})
    ground.switch("maintenance")
    one = start("--take-over", "-n", "held")
    one.until_problem("apply switch", "the kill switch is on: stop of ConfigMap")
    one.until(lambda: one.desired().get("held/web") == 4)
    ground.switch("false")
    one.until(one.leads)
    assert ground.size("held", "web") == 2
    ground.annotate(f"{ground.hpas('held')}/web", None)
    one.until(lambda: ground.size("held", "web") == 6)


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
    assert ground.own_config_maps() == before, "no ledger"
    assert ground.events("odd", "dry") == []


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
    one = start("--manifests", str(folder), kubeconfig=ground.writer.folder / "scaler.kubeconfig")
    assert one.process.wait(60) == 2
    said = (one.folder / "err").read_text()
    assert "the lease ours/hpabatch-apply cannot be read" in said
    assert "forbidden" in said


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
