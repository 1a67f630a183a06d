"""Logins at a real API server: tokens, certificates, programs, and a pod's service account."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import connect
from hpabatch.cluster.connection.errors import NotFound, Refused, Unreachable
from tests.real.cluster import Cluster, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Json = dict[str, Any]
PODS = "/api/v1/pods"
ADMIN = "/O=system:masters/CN=admin"
PAUSE_S = 0.2  # between two runs of a program whose tokens are refused


@pytest.fixture
def pki(api_server: Cluster) -> Path:
    return Path(api_server.environment["RUN"]) / "pki"


def asking(
    cluster: Cluster, folder: Path, user: Json, server: Json | None = None, attempts: int = 4
) -> ApiClient:
    """Return a client of a kubeconfig with this user, and with changes of the cluster's entry."""
    entry = {
        "server": f"https://127.0.0.1:{cluster.environment['P_API']}",
        "certificate-authority": f"{cluster.environment['RUN']}/pki/ca.crt", **(server or {}),
    }  # fmt: skip
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": entry}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return ApiClient(connect(path, None, False, {"PATH": "/usr/bin:/bin"}), attempts=attempts)


def signed(pki: Path, folder: Path, subject: str, name: str) -> tuple[Path, Path]:
    """Return a client certificate and its key, signed by the cluster's authority."""
    cert, key, request = (folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
    for arguments in (
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", str(key), "-out", str(request), "-subj", subject],
        ["x509", "-req", "-in", str(request), "-CA", str(pki / "ca.crt"), "-CAkey",
         str(pki / "ca.key"), "-CAcreateserial", "-days", "2", "-out", str(cert)],
    ):  # fmt: skip
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    return cert, key


def plugin(folder: Path, name: str = "plugin") -> Path:
    """Return a program that prints what the file `answer` holds, and counts its runs."""
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\nimport pathlib\nfolder = pathlib.Path({str(folder)!r})\n"
        "with (folder / 'runs').open('a') as runs:\n    runs.write('x')\n"
        "print((folder / 'answer').read_text())\n"
    )
    program.chmod(0o755)
    return program


def answer(folder: Path, version: str, **status: str) -> None:
    document = {"kind": "ExecCredential", "apiVersion": version, "status": status}
    (folder / "answer").write_text(json.dumps(document))


def test_a_user_without_rights(api_server: Cluster) -> None:
    path = Path(api_server.environment["RUN"]) / "scaler.kubeconfig"
    with ApiClient(connect(path, None, False, {})) as client:
        assert client.get("/version")
        with pytest.raises(Refused) as caught:
            next(client.list_pages(PODS))
        assert caught.value.status == 403
        assert caught.value.text == (
            'pods is forbidden: User "scaler" cannot list resource "pods" in API group "" at the '
            "cluster scope"
        )
        with (
            pytest.raises(Refused, match='"scaler" cannot watch resource "pods"'),
            client.watch(PODS, "0"),
        ):
            pass
        with pytest.raises(Refused) as caught:
            client.get("/apis/apps/v1/namespaces/shop/deployments/web/scale")
        assert caught.value.text == (
            'deployments.apps "web" is forbidden: User "scaler" cannot get resource '
            '"deployments/scale" in API group "apps" in the namespace "shop"'
        )


def test_nobody_in_particular(api_server: Cluster, tmp_path: Path) -> None:
    with (
        asking(api_server, tmp_path, {}) as client,
        pytest.raises(Refused, match='User "system:anonymous" cannot list resource "pods"'),
    ):
        next(client.list_pages(PODS))


def test_a_token_file_that_is_replaced(api_server: Cluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("wrong")
    with asking(api_server, tmp_path, {"tokenFile": "token"}) as client:
        with pytest.raises(Refused) as caught:
            client.get(PODS)
        assert (caught.value.status, caught.value.text) == (401, "Unauthorized")
        (tmp_path / "token").write_text("admin-token\n")
        client.get(PODS)
        with client.watch(PODS, "0"):
            pass


def test_client_certificates(api_server: Cluster, pki: Path, tmp_path: Path) -> None:
    cert, key = signed(pki, tmp_path, ADMIN, "admin")
    files = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    with asking(api_server, tmp_path, files) as client:
        client.get(PODS)
    data = {
        "client-certificate-data": base64.b64encode(cert.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    with asking(api_server, tmp_path, data) as client:
        client.get(PODS)
    signed(pki, tmp_path, "/CN=someone", "someone")
    someone = {"client-certificate": "someone.crt", "client-key": "someone.key"}
    with (
        asking(api_server, tmp_path, someone) as client,
        pytest.raises(Refused, match='User "someone" cannot list'),
    ):
        client.get(PODS)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_programs_that_give_tokens(
    api_server: Cluster, tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = f"client.authentication.k8s.io/{version}"
    plugin(tmp_path)
    user = {"exec": {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never"}}
    later = datetime.now(UTC) + timedelta(hours=1)
    answer(tmp_path, version, token="admin-token", expirationTimestamp=later.isoformat())
    with asking(api_server, tmp_path, user) as client:
        client.get(PODS)
        client.get(PODS)
        assert (tmp_path / "runs").read_text() == "x"
    past = datetime(2020, 1, 1, tzinfo=UTC)
    answer(tmp_path, version, token="admin-token", expirationTimestamp=past.isoformat())
    with asking(api_server, tmp_path, user) as client:
        for _ in range(2):
            with pytest.raises(Unreachable, match="credentials that have expired"):
                client.get(PODS)
    answer(tmp_path, version, token="wrong")
    monkeypatch.setattr("hpabatch.cluster.connection.auth._AGAIN_S", PAUSE_S)
    with asking(api_server, tmp_path, user) as client:
        with pytest.raises(Refused):
            client.get(PODS)
        answer(tmp_path, version, token="admin-token")
        time.sleep(2 * PAUSE_S)
        client.get(PODS)  # refused, and asked for again
    (tmp_path / "answer").unlink()
    with (
        asking(api_server, tmp_path, user, attempts=1) as client,
        pytest.raises(Unreachable, match=r"failed with exit code 1: .*FileNotFoundError"),
    ):
        client.get(PODS)


def test_programs_that_give_certificates(api_server: Cluster, pki: Path, tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    plugin(tmp_path)

    def give(subject: str, name: str) -> None:
        cert, key = signed(pki, tmp_path, subject, name)
        answer(
            tmp_path, version, clientCertificateData=cert.read_text(), clientKeyData=key.read_text()
        )

    give(ADMIN, "admin")
    user = {"exec": {"apiVersion": version, "command": "./plugin"}}
    with asking(api_server, tmp_path, user) as client:
        client.get(PODS)
        with client.watch(PODS, "0"):
            pass
        assert (tmp_path / "runs").read_text() == "x"


def test_inside_a_pod(api_server: Cluster, pki: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes((pki / "ca.crt").read_bytes())
    (tmp_path / "token").write_text("admin-token")
    (tmp_path / "namespace").write_text("shop")
    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": api_server.environment["P_API"],
    }
    connection = connect(None, None, True, environ, tmp_path)
    assert (connection.namespace, connection.context) == ("shop", "in-cluster")
    with ApiClient(connection) as client:
        client.get(PODS)
        (tmp_path / "token").write_text("scaler-token")
        client.get(PODS)  # the one that is known is still good


def test_the_servers_certificate(api_server: Cluster, tmp_path: Path) -> None:
    admin = {"token": "admin-token"}
    name = {"tls-server-name": "kubernetes.default.svc"}
    with asking(api_server, tmp_path, admin, name) as client:
        client.get(PODS)
    other = {"tls-server-name": "elsewhere.example"}
    with (
        asking(api_server, tmp_path, admin, other, attempts=1) as client,
        pytest.raises(Unreachable, match=r"failed to verify certificate: x509: .*mismatch"),
    ):
        client.get(PODS)


def test_no_such_resource(api_server: Cluster, tmp_path: Path) -> None:
    with (
        asking(api_server, tmp_path, {"token": "admin-token"}) as client,
        pytest.raises(NotFound) as caught,
    ):
        client.get("/apis/metrics.k8s.io/v1beta1/pods")
    assert caught.value.text == (
        "the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
