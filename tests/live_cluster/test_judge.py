"""The judge of `make test-cluster` itself: what it reads from a log, and that it can find fault."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.live_cluster.__main__ import OK, SKIPPED, main
from tests.live_cluster.recording import Decision, Span, moved
from tests.live_cluster.sequences import At, changes, compare_sequences, compare_statuses, passed
from tests.live_cluster.server import Json
from tests.live_cluster.truth import Hpa, Target, read_truth

WEB = Hpa("shop", "web")
AGENT = "kube-controller-manager/v1.20.2 (linux/amd64) kubernetes/x/horizontal-pod-autoscaler"


def event(second: float, verb: str, ref: Json, code: int = 200, **more: object) -> str:
    at = f"2026-11-22T10:00:{second:09.6f}Z"
    end = f"2026-11-22T10:00:{second + 0.004:09.6f}Z"
    return json.dumps({
        "stage": "ResponseComplete", "userAgent": AGENT, "verb": verb, "objectRef": ref,
        "responseStatus": {"code": code}, "requestReceivedTimestamp": at, "stageTimestamp": end,
        **more,
    })  # fmt: skip


def scale(name: str = "front") -> Json:
    return {"resource": "deployments", "namespace": "shop", "name": name, "subresource": "scale"}


def of_size(replicas: int) -> Json:
    return {"responseObject": {"spec": {"replicas": replicas}}}


def status(desired: int) -> Json:
    conditions = json.dumps([{"type": "AbleToScale", "reason": "SucceededRescale"}])
    name = {"autoscaling.alpha.kubernetes.io/conditions": conditions}
    said = {"currentReplicas": 2, "desiredReplicas": desired}
    return {"requestObject": {"metadata": {"annotations": name}, "status": said}}


METRICS: Json = {"apiGroup": "metrics.k8s.io", "resource": "pods", "namespace": "shop"}
STATUS: Json = {
    "resource": "horizontalpodautoscalers", "namespace": "shop", "name": "web",
    "subresource": "status",
}  # fmt: skip


def test_a_log_tells_syncs(tmp_path: Path) -> None:
    lines = [
        event(1, "get", scale(), **of_size(2)),
        event(1.01, "list", METRICS),
        event(1.02, "update", scale(), **of_size(4)),
        event(1.03, "update", STATUS, **status(4)),
        event(1.5, "get", scale("other"), **of_size(9)),  # nobody's
        event(1.51, "list", METRICS),
        event(2, "get", scale(), **of_size(4)),
        event(3, "get", scale(), 404),
        event(4, "get", scale(), **of_size(4)),
        event(4.01, "update", scale(), 409),
    ]
    log = tmp_path / "audit.log"
    log.write_text("\n".join(reversed(lines)))  # requests overlap: the order is not that of time
    truth = read_truth(log, {Target("deployments", "shop", "front"): WEB})
    first, second, gone, refused = truth.syncs[WEB]
    assert (first.replicas, first.desired, first.status) == (2, 4, truth.statuses[WEB][0])
    assert first.metrics_us == first.at_us + 10_000
    assert first.end_us == first.at_us + 34_000
    assert truth.statuses[WEB][0].reasons == {"AbleToScale": "SucceededRescale"}
    assert (second.replicas, second.desired, second.metrics_us) == (4, 4, None)
    assert (gone.replicas, gone.desired) == (None, None)
    assert refused.refused
    assert refused.desired is None
    assert truth.sizes(WEB) == [4]
    assert len(truth.until(second.at_ms + 100).syncs[WEB]) == 2


def decision(replicas: int, desired: int, proposal: int | None = None) -> Decision:
    proposal = desired if proposal is None else proposal
    return Decision(replicas, desired, proposal, failed=False, why="", reasons={})


def differ(ours: dict[int, Decision], theirs: list[int], their_ms: list[int]) -> list[str]:
    """Return sizes that stand alone; an exclamation mark: unexplained."""
    said = changes(list(zip(their_ms, theirs, strict=False)))
    found = compare_sequences(WEB, ours, said, their_ms, 8000, 1000)
    return [
        ("ours " if one.ours.startswith("passes") else "theirs ")
        + f"{one.ours}{one.theirs}".split("passes ")[1].split("does")[0] + "!" * (not one.why)
        for one in found
    ]  # fmt: skip


EVERY = [k * 1000 for k in range(20)]


def test_equal_sequences_may_have_other_instants() -> None:
    ours = {k: decision(2 if k < 2300 else 4, 2 if k < 2000 else 4) for k in range(0, 9000, 250)}
    assert differ(ours, [2, 2, 4], EVERY[:10]) == []


def test_a_size_that_was_there_before_we_looked_is_in_our_sequence() -> None:
    """The controller went to 4; when we look it is 4, and we want 8, as it does then."""
    ours = {0: decision(2, 2), 250: decision(4, 8), 500: decision(4, 8), 1250: decision(8, 8)}
    assert [one.size for one in passed((t, d.replicas, d.desired) for t, d in ours.items())] == [
        2, 4, 8,
    ]  # fmt: skip
    assert differ(ours, [2, 4, 8], [-100, 200, 1200]) == []


def test_a_size_of_ours_that_lasted_is_a_fault() -> None:
    ours = {k: decision(2, 5 if 2000 <= k < 6000 else 2) for k in range(0, 9000, 250)}
    assert differ(ours, [2], EVERY[:9]) == ["ours 5!", "ours 2"]  # back again


def test_a_size_of_ours_that_the_controller_could_not_come_to_is_none() -> None:
    ours = {k: decision(2, 5 if 2250 <= k < 2750 else 2) for k in range(0, 9000, 250)}
    assert differ(ours, [2], EVERY[:9]) == ["ours 5", "ours 2"]


def test_a_size_of_theirs_that_we_never_came_to_is_a_fault() -> None:
    ours = {k: decision(2, 2) for k in range(0, 9000, 250)}
    assert differ(ours, [2, 3], EVERY[:2]) == ["theirs 3!"]


def test_another_size_is_a_fault_of_both() -> None:
    ours = {k: decision(2 if k < 2500 else 4, 2 if k < 2000 else 5) for k in range(0, 9000, 250)}
    assert differ(ours, [2, 2, 4], EVERY[:10]) == ["ours 5!", "ours 5!"]  # before and after 4
    found = compare_statuses(WEB, [At(0, 2), At(9, 5)], [At(0, 2), At(9, 4)])
    assert len(found) == 2
    assert not any(one.why for one in found)


@pytest.mark.parametrize(
    ("more", "share"),
    [(None, 250), (0, 500), (1, 333), (2, 250), (3, 250)],
    ids=["as it is", "those before", "one more", "all of them", "no more"],
)
def test_a_load_may_be_shared_by_so_many_pods(more: int | None, share: int) -> None:
    """Two pods had 100 each; at our next pass four share 1000, and one may have come before it."""
    pods = [("a", 100, 100), ("b", 100, 100), *((uid, 250, 400) for uid in "abcd")]
    rows = pl.DataFrame(
        {
            "uid": [uid for uid, _, _ in pods],
            "cpu_milli": [value for _, value, _ in pods],
            "fetched_at": pl.Series([at for _, _, at in pods], dtype=pl.Datetime("ms", "UTC")),
        }
    )
    span = Span(200, 600, more)
    found = moved(rows, rows, span, "fetched_at")
    known = found.filter(pl.col("uid").is_in(["a", "b"])).sort("fetched_at")
    assert known["cpu_milli"].to_list() == [100, 100, share, share]
    assert known["fetched_at"].to_physical().to_list() == [100, 100, 200, 200]


@pytest.mark.parametrize(("expected", "code"), [("", SKIPPED), ("cluster,stub", OK)])
def test_what_is_left_out_must_be_expected(
    expected: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HPABATCH_CLUSTER_SCRIPTS", "")
    assert main(["--expected-skips", expected]) == code
    assert "HPABATCH_CLUSTER_SCRIPTS" in capsys.readouterr().out
