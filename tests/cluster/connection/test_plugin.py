"""Exec plugins that hang, print what is none, or start others: each ends in a sentence."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from hpabatch.cluster.connection.auth import VERSIONS, Credential, ExecAuth, ExecSpec, run_program
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.web.secrets import Secrets
from tests.cluster.fake_api import connected

SPEC = {"kind": "ExecCredential", "apiVersion": VERSIONS[0]}


def shell(command: str, **variables: str) -> ExecSpec:
    return ExecSpec(VERSIONS[0], ("sh", "-c", command), tuple(variables.items()), where="config")


def said(spec: ExecSpec, timeout_s: float = 60.0, secrets: Secrets | None = None) -> str:
    """Return the sentence that a program ends in."""
    with pytest.raises(Unreachable) as caught:
        ExecAuth(spec, dict(os.environ), secrets, timeout_s=timeout_s).current()
    assert caught.value.text.startswith("getting credentials: ")
    assert caught.value.text.isprintable()
    return caught.value.text


def gives(**status: object) -> str:
    return f"cat <<'END'\n{json.dumps({**SPEC, 'status': status})}\nEND\n"


def is_gone(pid: int) -> bool:
    """Say whether a process has ended; one that nobody waits for is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until_gone(path: Path) -> None:
    pid, end = int(path.read_text()), time.monotonic() + 60
    while not is_gone(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    told = said(shell(f"sleep 1000 & echo $! > {child}; wait"), timeout_s=1.0)
    assert "sh was not done after 1 s: run it by hand" in told
    until_gone(child)


def test_a_child_that_holds_stdout_open_is_not_waited_for(tmp_path: Path) -> None:
    child = tmp_path / "child"
    spec = shell(f"sleep 1000 & echo $! > {child}\n{gives(token='t')}")
    assert ExecAuth(spec, dict(os.environ)).current() == Credential("t")
    until_gone(child)
    spec = shell(f"setsid sleep 9 &\n{gives(token='t')}")  # which nobody may end
    assert ExecAuth(spec, dict(os.environ)).current() == Credential("t")


@pytest.mark.parametrize(
    ("where", "timeout_s", "why"),
    [("", 60.0, "got more than 1 MiB"), (" >&2", 60.0, "got more than 1 MiB on stderr")],
)
def test_a_program_that_never_stops_printing(where: str, timeout_s: float, why: str) -> None:
    told = said(shell(f"yes very-long-and-secret{where}"), timeout_s=timeout_s)
    assert why in told
    assert "very-long" not in told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("true", "sh printed nothing: run it by hand"),
        ("echo", "sh printed nothing"),
        (r"printf '\0\0'", "decoding stdout of sh: no JSON"),
        (r"printf '\377\376{}'", "decoding stdout of sh: no JSON"),
        (r"printf '\377'; head -c 1000 /dev/urandom", "decoding stdout of sh: no JSON"),
        ("kill -9 $$", "executable sh was killed by signal 9"),
        ("echo on its way >&2; kill -15 $$", "executable sh was killed by signal 15: on its way"),
        (r"printf '\033[31mred\033]0;title\007\r\nline\302\205two' >&2; exit 1",
         "failed with exit code 1: [31mred ]0;title line two"),
        ("read answer < /dev/tty && echo $answer", "failed with exit code"),
        ("read answer; echo got $answer >&2; exit 4", "failed with exit code 4: got"),
        (gives(token="one\ntwo"), "returned a token with more than one line"),
        (gives(token="one\r\nX-Injected: two"), "returned a token with more than one line"),
        (gives(token="nul\0"), "returned a token with more than one line"),
        (gives(token="tokén"), "returned a token with more than one line"),
        (gives(token="t", expirationTimestamp="2020-01-01T00:00:00Z"),
         "credentials that have expired: log in with it again, or correct the clock"),
        (gives(token="t", expirationTimestamp="tomorrow"), "expirationTimestamp"),
    ],
)  # fmt: skip
def test_programs_end_in_a_sentence(command: str, told: str) -> None:
    assert told in said(shell(command))


def test_credentials_that_expired_are_not_asked_for_with_every_request(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    old = gives(token="t", expirationTimestamp="2020-01-01T00:00:00Z")
    auth = ExecAuth(shell(f"echo >> {runs}\n{old}"), dict(os.environ))
    for _ in range(3):
        with pytest.raises(Unreachable, match="expired"):
            auth.current()
    assert len(runs.read_text()) == 1


def test_what_a_program_was_given_is_not_quoted(tmp_path: Path) -> None:
    user = {
        "exec": {
            "apiVersion": VERSIONS[0], "command": "sh",
            "args": ["-c", 'echo usage: "$@" $CLIENT_SECRET $REGION >&2; exit 2', "x",
                     "--client-secret", "swordfish-1", "--token=swordfish-2", "--verbose"],
            "env": [{"name": "CLIENT_SECRET", "value": "swordfish-3"},
                    {"name": "REGION", "value": "europe-west"}],
        }
    }  # fmt: skip
    with (
        ApiClient(connected(tmp_path, "http://127.0.0.1:9", user), attempts=1) as client,
        pytest.raises(Unreachable) as caught,
    ):
        client.get("/version")
    assert "swordfish" not in caught.value.text
    assert "usage: --client-secret *** --token=*** --verbose *** europe-west" in caught.value.text


def test_a_program_ends_with_its_client(tmp_path: Path) -> None:
    child = tmp_path / "child"
    os.mkfifo(child)
    spec = shell(f"echo $$ > {child}; sleep 1000")
    auth, pids = ExecAuth(spec, dict(os.environ)), list[str]()

    def end() -> None:
        pids.append(child.read_text())  # as soon as it runs
        auth.close()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(Unreachable, match="the client was closed"):
        auth.current()
    thread.join(60)
    assert is_gone(int(pids[0]))


@pytest.mark.parametrize("words", [("a\0b",), ("sh", "a\0b"), ("/",)])
def test_what_cannot_be_run(words: tuple[str, ...]) -> None:
    with pytest.raises(Unreachable, match="getting credentials: exec: "):
        run_program(ExecSpec(VERSIONS[0], words), dict(os.environ))
