"""Kubeconfigs and pods' service accounts: which server, as who, and how both are made sure of."""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
from pathlib import Path

import pytest

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import Connection, connect
from hpabatch.cluster.connection.errors import ApiError, Refused, Unreachable
from hpabatch.errors import UsageError
from tests.cluster.fake_api import Got, Json, Wire, connected, kubeconfig, serving
from tests.importers.prometheus.certificates import Authority, Pair, key_bytes

PODS = "/api/v1/pods"
SECRET = "very-secret-token"


def said(folder: Path, user: Json | None = None, cluster: Json | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        connected(folder, "https://127.0.0.1:1", user, cluster)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def who(got: Got, wire: Wire) -> None:
    """Reply with what says who asks."""
    wanted = ("authorization", "impersonate-user", "impersonate-group", "host")
    found = {key: value for key, value in got.headers.items() if key in wanted}
    wire.reply(200, {**found, "client": wire.client})


def asked_as(connection: Connection) -> dict[str, str]:
    with ApiClient(connection, attempts=1) as client:
        found: dict[str, str] = json.loads(client.get(PODS))
        return found


def tls_of(pair: Pair, ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_tokens_and_passwords(tmp_path: Path) -> None:
    with serving(who) as server:
        token = connected(tmp_path, server.url, {"token": SECRET})
        assert (token.context, token.cluster, token.namespace) == ("here", "c", "default")
        assert token.server == server.url
        assert SECRET not in repr(token)
        assert asked_as(token)["authorization"] == f"Bearer {SECRET}"
        basic = connected(tmp_path, server.url + "/", {"username": "me", "password": "x"})
        expected = base64.b64encode(b"me:x").decode()
        assert asked_as(basic)["authorization"] == f"Basic {expected}"
        assert asked_as(connected(tmp_path, server.url)).keys() == {"client", "host"}


def test_acting_for_another_is_refused(tmp_path: Path) -> None:
    assert "log in as that one" in said(tmp_path, {"token": SECRET, "as": "someone"})


def test_a_token_file_that_is_replaced(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    good = "Bearer old"

    def script(got: Got, wire: Wire) -> None:
        wire.reply(200 if got.headers["authorization"] == good else 401)

    user = {"tokenFile": "token"}  # relative to the file that names it
    with serving(script) as server, ApiClient(connected(tmp_path, server.url, user)) as client:
        client.get(PODS)
        good = "Bearer new"
        with pytest.raises(Refused):
            client.get(PODS)
        token.write_text("new\n")
        client.get(PODS)
        with client.watch(PODS, "1"):
            pass
        token.unlink()
        good = "Bearer other"
        with pytest.raises(Unreachable, match="getting credentials"):
            client.get(PODS, attempts=1)


def test_files_are_merged_and_the_first_counts(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two" / "config"
    two.parent.mkdir()
    (two.parent / "tok").write_text("second")
    one.write_text("current-context: b\nusers: [{name: u, user: {token: first}}]\nclusters: null")
    two.write_text(
        "current-context: a\n"
        "clusters: [{name: c, cluster: {server: http://127.0.0.1:7}}]\n"
        "users: [{name: u, user: {token: other}}, {name: f, user: {tokenFile: tok}}]\n"
        "contexts: [{name: a, context: {cluster: c, user: u}},\n"
        "           {name: b, context: {cluster: c, user: f, namespace: shop}}]\n"
    )
    environ = {"KUBECONFIG": f"{one}{os.pathsep}{tmp_path / 'absent'}{os.pathsep}{two}"}
    found = connect(None, None, False, environ)
    assert (found.context, found.namespace) == ("b", "shop")
    other = connect(None, "a", False, environ)
    assert (other.context, other.namespace) == ("a", "default")
    for one_of in (found, other):
        one_of.close()
    with pytest.raises(UsageError, match="no context 'x'; there are: a, b"):
        connect(None, "x", False, environ)
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    shutil.copy(two, home / ".kube" / "config")
    connect(None, None, False, {"HOME": str(home)}).close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", r"expected YAML, got a syntax error \(line "),
        ("[]", "expected a kubeconfig, got no mapping"),
        ("{}", "no current context: name one"),
        ("current-context: x", "no context 'x'; there are: none"),
        ("{current-context: x, contexts: [{context: {}}]}", "an entry of contexts has no name"),
        ("{current-context: x, contexts: [{name: x, context: {user: u}}]}", "names no cluster"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "no cluster 'c'"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}],"
         " clusters: [{name: c, cluster: {}}]}", "has no server"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}],"
         " clusters: [{name: c, cluster: {server: 'ftp://x'}}]}", "expected a server such as"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}],"
         " clusters: [{name: c, cluster: {server: 'https://a:b@x'}}]}", "holds a user"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
         " clusters: [{name: c, cluster: {server: 'https://x'}}],"
         " users: [{name: u, user: {token: [1]}}]}", "cannot be used"),
        ("{current-context: x, contexts: 5}", "expected a list of contexts"),
    ],
)  # fmt: skip
def test_broken_files(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError, match=told) as caught:
        connect(path, None, False, {})
    assert str(path) in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no kubeconfig: .*config is not there.*--in-cluster"):
        connect(None, None, False, {"HOME": str(tmp_path)})
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        connect(tmp_path / "none", None, False, {})


def test_what_cannot_be_honoured_is_refused(tmp_path: Path) -> None:
    assert "no client-key" in said(tmp_path, {"client-certificate": "x"})
    assert "no client-certificate" in said(tmp_path, {"client-key-data": "eA=="})
    assert "at `$.tls-server-name`" in said(tmp_path, cluster={"tls-server-name": 5})
    assert "certificates of context 'here'" in said(
        tmp_path, cluster={"certificate-authority": "absent"}
    )
    assert "proxy gopher://x cannot be used" in said(
        tmp_path, cluster={"proxy-url": "gopher://me:pw@x"}
    )
    secret = {"proxy-url": "http://me:sword/fish@x:1"}
    assert "sword" not in said(tmp_path, cluster=secret)
    assert "exec has no command" in said(tmp_path, {"exec": {"apiVersion": "x"}})


@pytest.mark.parametrize("what", ["certificate-authority", "client-certificate", "client-key"])
@pytest.mark.parametrize("kind", ["pipe", "device", "large", "NUL"])
def test_certificates_that_have_no_end_are_not_read(tmp_path: Path, what: str, kind: str) -> None:
    path, good = tmp_path / "file", Authority(tmp_path).pair("client")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        with path.open("wb") as stream:
            stream.truncate(2**34)
    name = {"device": "/dev/zero", "NUL": "a\0b"}.get(kind, str(path))
    pair = {"client-certificate": str(good.cert), "client-key": str(good.key)}
    of_user = what in pair
    user = {**pair, what: name} if of_user else None
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", user, None if of_user else {what: name})
    with pytest.raises(UsageError, match=r"cannot be (used|read): .*expected|holds a NUL"):
        connect(config, None, False, {})


def test_servers_are_known_by_their_authority(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "theirs")
    pair = ours.pair("server")
    told = "# Főtanúsítvány\n".encode() + ours.ca.read_bytes()
    (tmp_path / "told.pem").write_bytes(told)
    for nothing in ({"certificate-authority": "none.pem"}, {"certificate-authority-data": "IA=="}):
        (tmp_path / "none.pem").write_bytes(b"")
        assert "certificates of context 'here'" in said(tmp_path, cluster=nothing)
    with serving(who, tls_of(pair)) as server:
        for cluster in (
            {"certificate-authority": ours.ca.name},
            {"certificate-authority": "told.pem"},
            {"certificate-authority-data": encoded(ours.ca)},
            {"insecure-skip-tls-verify": True},
        ):
            assert asked_as(connected(tmp_path, server.url, cluster=cluster))["client"] == ""
        with pytest.raises(Unreachable, match="tls: failed to verify certificate: x509: "):
            asked_as(
                connected(tmp_path, server.url, cluster={"certificate-authority": "theirs.pem"})
            )
        # The file is replaced by that of the right authority while the client runs.
        roots = tmp_path / "roots.pem"
        shutil.copy(theirs.ca, roots)
        late = connected(tmp_path, server.url, cluster={"certificate-authority": "roots.pem"})
        with ApiClient(late, attempts=1) as client:
            with pytest.raises(Unreachable):
                client.get(PODS)
            shutil.copy(ours.ca, roots)
            client.get(PODS)


def test_client_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cluster = {"certificate-authority": str(authority.ca)}
    first, second = authority.pair("first"), authority.pair("second")
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    wanted = "first"

    def script(got: Got, wire: Wire) -> None:
        who(got, wire) if wire.client == wanted else wire.reply(401)

    def show(pair: Pair) -> None:
        shutil.copy(pair.cert, cert)
        shutil.copy(pair.key, key)

    show(first)
    with serving(script, tls_of(authority.pair("server"), authority.ca)) as server:
        data = {
            "client-certificate-data": encoded(first.cert), "client-key-data": encoded(first.key)
        }  # fmt: skip
        assert asked_as(connected(tmp_path, server.url, data, cluster))["client"] == "first"
        files = {"client-certificate": "client.pem", "client-key": "client.key"}
        with ApiClient(connected(tmp_path, server.url, files, cluster)) as client:
            client.get(PODS)
            wanted = "second"
            with pytest.raises(Refused):
                client.get(PODS)
            show(second)  # as cert-manager does
            assert json.loads(client.get(PODS))["client"] == "second"
    shutil.copy(first.key, key)
    assert "cannot be used" in said(tmp_path, files, cluster)
    from cryptography.hazmat.primitives.asymmetric import ec

    key.write_bytes(key_bytes(ec.generate_private_key(ec.SECP256R1()), b"password"))
    assert "is encrypted" in said(tmp_path, files, cluster)


def account(folder: Path, authority: Path) -> Path:
    folder = folder / "serviceaccount"
    folder.mkdir()
    shutil.copy(authority, folder / "ca.crt")
    (folder / "token").write_text("first")
    (folder / "namespace").write_text("monitoring\n")
    return folder


def test_inside_a_pod(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    folder = account(tmp_path, authority.ca)
    good = "first"

    def script(got: Got, wire: Wire) -> None:
        wire.reply(200 if got.headers["authorization"] == f"Bearer {good}" else 401)

    with serving(script, tls_of(authority.pair("server"))) as server:
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port),
            "HTTPS_PROXY": "http://127.0.0.1:1",
        }  # fmt: skip
        found = connect(None, None, True, environ, folder)
        assert (found.context, found.namespace) == ("in-cluster", "monitoring")
        with ApiClient(found, attempts=1) as client:
            client.get(PODS)
            (folder / "token").write_text("second")
            client.get(PODS)
            good = "second"
            client.get(PODS)
    with pytest.raises(UsageError, match="expected a pod of a cluster"):
        connect(None, None, True, {}, folder)
    (folder / "token").unlink()
    with pytest.raises(UsageError, match=r"there is no .*token.*automount"):
        connect(None, None, True, environ, folder)
    with pytest.raises(UsageError, match="excludes"):
        connect(None, "x", True, environ, folder)


@pytest.mark.parametrize(
    ("exempt", "through"),
    [
        ("", True), ("10.0.0.0/8", False), ("192.168.0.0/16", True), ("*", False),
        ("10.1.2.3", False), ("10.1.2.3:6443", False), ("example.org, .internal", True),
    ],
)  # fmt: skip
def test_proxies_of_the_environment(tmp_path: Path, exempt: str, through: bool) -> None:
    def script(got: Got, wire: Wire) -> None:
        wire.reply(403)  # to CONNECT

    with serving(script) as proxy:
        environ = {"HTTPS_PROXY": proxy.url, "NO_PROXY": exempt}
        path = kubeconfig(tmp_path, "https://10.1.2.3:6443")
        with (
            ApiClient(connect(path, None, False, environ), attempts=1) as client,
            pytest.raises(ApiError),
        ):
            client.get(PODS, timeout=30 if through else 0.3)  # nothing is at that address
        assert [got.method for got in proxy.got] == ["CONNECT"] * through


def test_the_proxy_of_a_kubeconfig(tmp_path: Path) -> None:
    with serving(who) as proxy:
        found = asked_as(connected(tmp_path, "http://10.1.2.3:1", cluster={"proxy-url": proxy.url}))
    assert found["host"] == "10.1.2.3:1"
