"""`hpabatch live --apply` while targets, rights, logins and the API server's storage change."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.real.api_writes import Json
from tests.real.applying import Ground, Start
from tests.real.cluster import missing
from tests.real.live_place import Live
from tests.real.silent_relay import SilentRelay

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPACES = ("rolled", "silent", "narrow", "lacking", "short")
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def ground(scaled: Ground) -> Ground:
    scaled.namespaces(*SPACES)
    return scaled


def _deployment(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def _pods(ground: Ground, namespace: str, app: str) -> list[Json]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
    found: list[Json] = ground.writer.send("GET", path)["items"]
    return found


def _roll_out(ground: Ground, namespace: str, name: str) -> None:
    template = {"metadata": {"annotations": {"rolled": str(time.time_ns())}}}
    path = _deployment(namespace, name)
    ground.writer.send("PATCH", path, {"spec": {"template": template}})


def test_a_rollout_changes_no_size(ground: Ground, start: Start, tmp_path: Path) -> None:
    """Old and new pods share the load: what they use together asks for what it asked for."""
    ground.deployment("rolled", "web", 6)
    ground.levels(cpu_total_m={"rolled/web": 300})
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "rolled", "web")))
    one.until(one.leads)
    one.until(lambda: one.desired().get("rolled/web") == 6)
    for _ in range(2):
        old = {pod["metadata"]["uid"] for pod in _pods(ground, "rolled", "web")}
        _roll_out(ground, "rolled", "web")
        one.until(lambda old=old: not old & {  # type: ignore[misc]
            pod["metadata"]["uid"] for pod in _pods(ground, "rolled", "web")
        })  # fmt: skip
    time.sleep(2)
    assert one.sizes("web") == []


def test_pods_that_a_quota_refuses_are_asked_for_once(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """As in the controller: the size is what is asked for; pods that are not there use nothing."""
    _quota(ground, "narrow", 4)
    ground.deployment("narrow", "web", 2)
    ground.levels(cpu_total_m={"narrow/web": 300})
    one = start("--manifests", str(ground.document(tmp_path / "hpas", "narrow", "web")))
    one.until(lambda: ground.size("narrow", "web") == 6)
    time.sleep(2)
    assert len(_pods(ground, "narrow", "web")) == 4, "the quota allows no more"
    assert ground.size("narrow", "web") == 6
    assert one.sizes("web") == [(2, 4), (4, 6)]
    status = json.loads(ground.report("narrow", "web"))
    assert (status["currentReplicas"], status["desiredReplicas"]) == (6, 6)
    ground.levels(cpu_total_m={"narrow/web": 100})
    one.until(lambda: ground.size("narrow", "web") == 2)


def _quota(ground: Ground, namespace: str, pods: int) -> None:
    """Allow so many pods, as the controller of quotas would have it."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"pods": str(pods)}
    ground.writer.send("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": hard}})
    status = {"status": {"hard": hard, "used": {"pods": "0"}}}
    ground.writer.send("PATCH", f"{path}/few/status", status)


# ---- a server that says nothing


@pytest.mark.parametrize("writes", [True, False])
def test_a_stop_ends_connecting(
    ground: Ground, start: Start, tmp_path: Path, *, writes: bool
) -> None:
    """Connections hang in their handshake, which has a limit of ten seconds.

    A loop that writes waits for the limit of the writing request that has begun.
    """
    relay = SilentRelay(ground.writer.cluster)
    login = relay.kubeconfig(tmp_path / "kubeconfig")
    ground.levels(cpu_total_m={"silent/web": 100})
    if writes:
        documents = str(ground.document(tmp_path / "hpas", "silent", "web"))
        one: Live = start("--manifests", documents, kubeconfig=login)
    else:
        one = Live(tmp_path / "shadow", login)
    try:
        one.until(lambda: bool(one.lines))
        one.until(lambda: bool(one.metrics().get("hpabatch_passes_total")))
        relay.fall_silent()
        one.until(lambda: relay.taken >= 2)
        code, seconds = one.end()
        assert code == 0
        assert seconds < (12 if writes else 5), seconds
    finally:
        one.kill()
        relay.close()


# ---- rights and logins


def test_what_the_role_lacks_is_told_and_tried_again(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """A size that may not be written is a failed write of the controller."""
    _allow(ground, "scaler", "autoscaler", [
        (["", "apps", "autoscaling", "metrics.k8s.io"], ["*"], ["get", "list", "watch"]),
        (["coordination.k8s.io"], ["leases"], ["get", "create", "update"]),
        ([""], ["configmaps"], ["get", "create", "update"]),
    ])  # fmt: skip
    ground.deployment("lacking", "web")
    ground.levels(cpu_total_m={"lacking/web": 300})
    documents = str(ground.document(tmp_path / "hpas", "lacking", "web"))
    one = start("--manifests", documents, kubeconfig=ground.writer.folder / "scaler.kubeconfig")
    one.until(lambda: len(one.logged("failed")) >= 2)
    words = 'cannot update resource "deployments/scale" in API group "apps"'
    assert words in one.logged("failed")[0]["error"]
    assert ground.size("lacking", "web") == 2
    one.until(lambda: "FailedUpdateScale" in ground.report("lacking", "web"))
    conditions = json.loads(ground.report("lacking", "web"))["conditions"]
    assert words in conditions[0]["message"]
    _allow(ground, "scaler", "sizes", [(["apps"], ["deployments/scale"], ["update"])])
    one.until(lambda: ground.size("lacking", "web") == 6)
    one.until(lambda: "FailedUpdateScale" not in ground.report("lacking", "web"))


def _allow(
    ground: Ground, user: str, name: str, rules: list[tuple[list[str], list[str], list[str]]]
) -> None:
    listed = [{"apiGroups": g, "resources": r, "verbs": v} for g, r, v in rules]
    ground.writer.send(
        "POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": listed}
    )
    group = "rbac.authorization.k8s.io"
    bound = {
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
    }
    ground.writer.send("POST", f"{RBAC}/clusterrolebindings", bound)


def test_a_token_that_expires_stops_writes_until_there_is_another(
    ground: Ground, start: Start, tmp_path: Path
) -> None:
    """The server forgets the token; a new one comes in its file, as in a pod."""
    tokens = ground.writer.folder / "pki" / "tokens.csv"
    known, token = tokens.read_text(), tmp_path / "token"
    _allow(ground, "scaler", "everything", [(["*"], ["*"], ["*"])])
    token.write_text("scaler-token")
    ground.deployment("short", "web")
    ground.levels(cpu_total_m={"short/web": 100})
    documents = str(ground.document(tmp_path / "hpas", "short", "web"))
    one = start("--manifests", documents, kubeconfig=_with_token_file(ground, tmp_path, token))
    one.until(one.leads)
    tokens.write_text(known.replace("scaler-token", "second-token"))
    ground.writer.restart()
    one.until_problem("apply lease", "Unauthorized")
    one.until_problem("apply switch", "Unauthorized")
    one.until(lambda: not one.leads())
    ground.levels(cpu_total_m={"short/web": 300})
    time.sleep(3)
    assert one.logged("will") == []
    token.write_text("second-token")
    one.until(lambda: ground.size("short", "web") == 6)
    assert "scaler-token" not in (one.folder / "out").read_text()
    tokens.write_text(known)


def _with_token_file(ground: Ground, folder: Path, token: Path) -> Path:
    text = (ground.writer.folder / "kubeconfig").read_text()
    assert "{token: admin-token}" in text
    path = folder / "kubeconfig"
    path.write_text(text.replace("{token: admin-token}", f"{{tokenFile: {token}}}"))
    return path
