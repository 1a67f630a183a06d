"""`hpabatch live` and `record` at the command line: what is refused before any cluster is asked."""

from __future__ import annotations

import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, runner
from tests.ports import hold_port, port_of

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[str]:
    """Return a kubeconfig of a server that is not there."""
    path = tmp_path / "kubeconfig"
    with hold_port() as held:
        path.write_text(KUBECONFIG.format(port=port_of(held)))
        yield str(path)


@pytest.fixture(params=["live", "record"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(
    command: str,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    if command == "record":
        plain = runner("record", capsysbinary, monkeypatch)
        out = str(tmp_path / "history")
        return lambda *words: plain("--out", out, *words)
    return runner("live", capsysbinary, monkeypatch)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--every", "often"), "--every: expected a duration"),
        (("--every", "1ms"), "--every: expected a duration of at least 100ms"),
        (("--segment", "0s"), "--segment: expected a duration of at least 1s"),
        (("--log-format", "xml"), "is not one of 'text', 'json'"),
        (("--kubeconfig", "/nowhere/at/all"), "/nowhere/at/all"),
        (("--in-cluster", "--context", "x"), "excludes"),
        (("--in-cluster",), "expected a pod of a cluster"),
    ],
)
def test_nonsense_is_refused(
    run: Run, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = run(*words)
    assert done.code == 2
    assert said in done.stderr
    assert done.data == b""
    assert "Value error" not in done.stderr, "words of Pydantic"


def test_a_server_that_is_not_there(run: Run, nobody: str) -> None:
    done = run("--kubeconfig", nobody)
    assert done.code == 2
    assert "does not respond" in done.stderr
    assert "--context" in done.stderr


def test_a_context_that_is_not_there(run: Run, nobody: str) -> None:
    done = run("--kubeconfig", nobody, "--context", "prod")
    assert done.code == 2
    assert "'prod'" in done.stderr
    assert "x" in done.stderr


@pytest.mark.parametrize("command", ["live"], indirect=True)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--output", "csv"), "--once"),
        (("--once", "--output", "yaml"), "is not one of"),
        (("--stateless", "--state", "x"), "excludes"),
    ],
)
def test_options_that_do_not_go_together(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.code == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["live"], indirect=True)
@pytest.mark.parametrize("option", [("--record", "somewhere"), ("--metrics-addr", ":9099")])
def test_one_pass_is_only_printed(run: Run, option: tuple[str, str]) -> None:
    done = run("--once", *option)
    assert done.code == 2
    assert "--once excludes" in done.stderr


def test_what_a_cluster_needs_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("hpabatch.cli.live.find_spec", lambda name: None)
    done = run()
    assert done.code == 2
    assert "hpabatch[live]" in done.stderr


def test_a_login_that_is_refused_is_no_server_away(run: Run, nobody: str) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    text = Path(nobody).read_text()
    port = re.search(r"127.0.0.1:([0-9]+)", text)
    assert port is not None
    Path(nobody).write_text(text.replace(port[1], str(server.server_port)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        done = run("--kubeconfig", nobody)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert done.code == 2
    assert "refuses this login" in done.stderr


GONE = """
import sys
from hpabatch.cli import main
from hpabatch.cli import live_run

class Endless:
    def __init__(self, *_):
        pass

    def until_stopped(self):
        while True:
            print("a line", flush=True)

live_run._Run = Endless
sys.argv = ["hpabatch", "live"]
main()
"""


def test_a_reader_that_goes_away_ends_the_loop() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", GONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "a line\n"
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (0, "")
    process.stderr.close()
