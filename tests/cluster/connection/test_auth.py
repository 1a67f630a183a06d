"""Programs that give credentials: what they are told, how long it counts, and how they fail."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpabatch.cluster.connection.auth import VERSIONS, ExecAuth, ExecSpec
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import Refused, Unreachable
from hpabatch.errors import UsageError
from tests.cluster.connection.test_connect import PODS, tls_of
from tests.cluster.fake_api import Got, Json, Wire, connected, serving
from tests.importers.prometheus.certificates import Authority

V1, V1BETA1 = VERSIONS
PROGRAM = """#!{python}
import json, os, pathlib
folder = pathlib.Path({folder!r})
runs = folder / "runs"
count = len(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text("x" * count)
(folder / "told").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(folder / "environment").write_text(json.dumps(dict(os.environ)))
text = (folder / "answer").read_text()
print(text.replace("COUNT", str(count)))
"""


class Plugin:
    """A program in a folder that prints what the file `answer` holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "plugin"
        self.program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(0o755)

    @property
    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text()) if path.exists() else 0

    @property
    def told(self) -> Json:
        found: Json = json.loads((self.folder / "told").read_text())
        return found

    def answers(self, version: str = V1, **status: object) -> None:
        self.answers_text(
            json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})
        )

    def answers_text(self, text: str) -> None:
        (self.folder / "answer").write_text(text)

    def spec(self, version: str = V1) -> ExecSpec:
        return ExecSpec(version, (str(self.program),), where="config")

    def user(self, version: str = V1, **more: object) -> Json:
        return {"exec": {"apiVersion": version, "command": "./plugin", **more}}


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_tokens(tmp_path: Path, plugin: Plugin, version: str) -> None:
    plugin.answers(version, token="t-COUNT")
    good = "Bearer t-1"

    def script(got: Got, wire: Wire) -> None:
        wire.reply(200 if got.headers["authorization"] == good else 401)

    user = plugin.user(
        version, env=[{"name": "REGION", "value": "here"}], args=None,
        provideClusterInfo=True, interactiveMode="IfAvailable",
    )  # fmt: skip
    cluster = {"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}]}
    with (
        serving(script) as server,
        ApiClient(connected(tmp_path, server.url, user, cluster), attempts=1) as client,
    ):
        client.get(PODS)
        client.get(PODS)
        assert plugin.runs == 1
        assert plugin.told == {
            "kind": "ExecCredential", "apiVersion": version,
            "spec": {
                "interactive": False, "cluster": {"server": server.url, "config": {"a": 1}}
            },
        }  # fmt: skip
        environment = json.loads((tmp_path / "environment").read_text())
        assert environment["REGION"] == "here"
        good = "Bearer t-2"  # refused before it expired
        client.get(PODS)
        assert plugin.runs == 2
        good = "Bearer t-9"
        with pytest.raises(Refused):
            client.get(PODS)
        assert plugin.runs == 3


def test_the_program_runs_once_for_all_threads(plugin: Plugin) -> None:
    plugin.answers(token="t-COUNT")
    auth = ExecAuth(plugin.spec(), dict(os.environ))
    ready = threading.Barrier(8)

    def ask(_: int) -> str | None:
        ready.wait()
        return auth.current().token

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"t-1"}
        old = auth.current()
        fresh = list(pool.map(lambda _: auth.renew(old).token, range(8)))
    assert set(fresh) == {"t-2"}


def test_a_plugin_whose_credentials_are_refused_backs_off(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a program that opens a browser, or counts against a limit of logins."""
    now = 1000.0
    monkeypatch.setattr("hpabatch.cluster.connection.auth.time.monotonic", lambda: now)
    plugin.answers(token="t-COUNT")
    auth = ExecAuth(plugin.spec(), dict(os.environ))
    current = auth.current()
    runs = []
    for second in range(200):
        now = 1000.0 + second
        fresh = auth.renew(current)
        if fresh != current:
            runs.append(second)
        current = fresh
    assert runs == [0, 5, 15, 35, 75, 155]
    auth._accept()
    now += 1
    assert auth.renew(current) != current


def test_certificates(tmp_path: Path, plugin: Plugin) -> None:
    authority = Authority(tmp_path)
    wanted = "first"

    def script(got: Got, wire: Wire) -> None:
        wire.reply(200 if wire.client == wanted else 401)

    def give(name: str) -> None:
        pair = authority.pair(name)
        plugin.answers(
            clientCertificateData=pair.cert.read_text(), clientKeyData=pair.key.read_text()
        )

    give("first")
    cluster = {"certificate-authority": str(authority.ca)}
    with (
        serving(script, tls_of(authority.pair("server"), authority.ca)) as server,
        ApiClient(connected(tmp_path, server.url, plugin.user(), cluster), attempts=1) as client,
    ):
        client.get(PODS)
        client.get(PODS)
        assert plugin.runs == 1
        give("second")
        wanted = "second"
        client.get(PODS)
        assert plugin.runs == 2
        with client.watch(PODS, "1"):
            pass
        assert plugin.runs == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense very-secret", "decoding stdout of .*plugin: no JSON"),
        ("{}", "returned version of nothing"),
        ('{"a": ' + "[" * 100_000, "decoding stdout of .*plugin: no JSON"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}), "didn't return a status"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1BETA1, "status": {"token": "x"}}),
         "configured to use API version .*/v1, plugin returned version .*/v1beta1"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": ""}}),
         "didn't return a token or cert/key pair"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1,
                     "status": {"clientKeyData": "very-secret"}}), "only one of"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": 5}}),
         "decoding stdout of .*token"),
    ],
)  # fmt: skip
def test_answers_that_are_none(
    plugin: Plugin, text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpabatch.cluster.connection.auth._AGAIN_S", 3600.0)
    plugin.answers_text(text)
    auth = ExecAuth(plugin.spec(), dict(os.environ))
    with pytest.raises(Unreachable, match=told) as caught:
        auth.current()
    assert "very-secret" not in str(caught.value)
    with pytest.raises(Unreachable, match=told):
        auth.current()
    assert plugin.runs == 1  # a program that fails is not run for every request


def test_programs_that_fail(tmp_path: Path) -> None:
    def said(*command: str, hint: str = "") -> str:
        spec = ExecSpec(V1, command, hint=hint, where="config")
        with pytest.raises(Unreachable) as caught:
            ExecAuth(spec, dict(os.environ)).current()
        return str(caught.value)

    assert "failed with exit code 3: sorry" in said("sh", "-c", "echo sorry >&2; exit 3")
    missing = said("no-such-plugin", hint="Get it there.")
    assert missing.endswith("executable no-such-plugin not found (config). Get it there.")
    assert "Permission denied" in said(str(tmp_path))


@pytest.mark.parametrize(
    ("plugin_of", "told"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}, "v1alpha1"),
        ({"apiVersion": V1, "command": "x", "env": [5]}, "args and env"),
        ({"apiVersion": V1, "command": "x", "env": {"a": "b"}}, "args and env"),
        ({"apiVersion": V1, "command": "x", "env": [{"name": "a", "value": None}]}, "args and env"),
        ({"apiVersion": V1, "command": "x", "args": "get-token"}, "args and env"),
        ({"apiVersion": V1, "command": "x", "args": ["get", 5]}, "args and env"),
        ({"apiVersion": V1, "command": 5}, "has no command"),
        (5, "has no command"),
    ],
)
def test_what_a_kubeconfig_may_not_say(tmp_path: Path, plugin_of: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        connected(tmp_path, "https://127.0.0.1:1", {"exec": plugin_of})
