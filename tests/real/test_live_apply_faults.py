"""`hpabatch live --apply` while targets, rights, logins and the API server's storage change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real.applying import Ground, Start
from tests.real.cluster import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPACES = ("rolled", "silent", "narrow", "lacking", "short")
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def ground(scaled: Ground) -> Ground:
    scaled.namespaces(*SPACES)
    return scaled


# ---- a server that says nothing


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
    sizes = one.since(0, "size")
    assert any(line["outcome"] == "failed" and words in line["text"] for line in sizes)
    _allow(ground, "scaler", "sizes", [(["apps"], ["deployments/scale"], ["update"])])
    one.until(lambda: ground.size("lacking", "web") == 6)


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
