"""Exec plugins of kubeconfig: configuration, environment and output.

A plugin gets no terminal and a session of its own. It is ended, with all processes that it
started, when it finishes, takes too long, or prints more than credentials can be. Its stderr is
quoted without secrets and control characters.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.errors import UsageError
from hpabatch.history.files import read_small

_GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_INFO: Final = "KUBERNETES_EXEC_INFO"
_EXTENSION: Final = "client.authentication.k8s.io/exec"
TIMEOUT_S: Final = 60.0
_MOST_PRINTED: Final = 2**20
_MOST_TEXT: Final = 300
_MOST_STDERR: Final = 2**14
_LOOK_S: Final = 0.1
"""Interval of checks for the end of a program whose children hold its stdout open."""
_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """An exec plugin, as a kubeconfig names it.

    Attributes:
        version: of the protocol, group and version.
        command: program and arguments.
        variables: additional environment variables.
        cluster: cluster information passed to it, None: nothing.
        hint: how it is installed, "": not stated.
        where: the file, for messages.
    """

    version: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cluster: _Json | None = field(default=None, repr=False)
    hint: str = ""
    where: str = ""


def exec_spec(plugin: object, cluster: Mapping[str, Any], where: str) -> ExecSpec:
    """Return the exec plugin of a kubeconfig's user.

    Args:
        plugin: the user's `exec`.
        cluster: the cluster's entry.
        where: the file, for messages.

    Raises:
        UsageError: it is incomplete, or of an unsupported version.
    """
    if not isinstance(plugin, dict) or not isinstance(plugin.get("command"), str):
        raise UsageError(f"{where}: the user's exec has no command")
    version = plugin.get("apiVersion")
    if version not in VERSIONS:
        raise UsageError(
            f"{where}: expected {' or '.join(VERSIONS)} as apiVersion of the user's exec, got "
            f"{version!r}"
        )
    if plugin.get("interactiveMode") == "Always":
        raise UsageError(
            f"{where}: the user's exec needs a terminal (interactiveMode: Always), which is not "
            "supported: use a kubeconfig with another login"
        )
    args, env = plugin.get("args") or [], plugin.get("env") or []
    try:
        variables = tuple((one["name"], one["value"]) for one in env)
    except (TypeError, KeyError):
        variables = ((None, None),)
    texts = [*(args if isinstance(args, list) else [None]), *chain.from_iterable(variables)]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"{where}: expected strings in args and env of the user's exec: write args as a list "
            "of strings, and env as a list of name and value (numbers in quotes)"
        )
    command = (plugin["command"], *args)
    told = _told(cluster) if plugin.get("provideClusterInfo") else None
    return ExecSpec(
        version, command, variables, told, str(plugin.get("installHint") or "").strip(), where
    )


def _told(cluster: Mapping[str, Any]) -> _Json:
    """Return the cluster information passed to a plugin."""
    keys = (
        "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data",
        "proxy-url", "disable-compression",
    )  # fmt: skip
    found = {key: cluster[key] for key in keys if key in cluster}
    if "certificate-authority" in cluster:
        try:
            authority = read_small(cluster["certificate-authority"])
        except OSError as error:
            raise UsageError(
                f"{cluster['certificate-authority']} cannot be read: {error.strerror}"
            ) from None
        found["certificate-authority-data"] = base64.b64encode(authority).decode("ascii")
    for one in cluster.get("extensions") or ():
        if isinstance(one, dict) and one.get("name") == _EXTENSION:
            found["config"] = one.get("extension")
    return found


def run_program(
    spec: ExecSpec,
    environ: Mapping[str, str],
    hide: Callable[[str], str] = str,
    stopped: threading.Event | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """Return the stdout of a plugin, at most 1 MiB.

    Args:
        spec: the plugin.
        environ: the base of its environment.
        hide: removes secrets from its stderr.
        stopped: ends it soon.
        timeout_s: its time limit.

    Raises:
        Unreachable: it is missing, failed, took too long or printed too much.
    """
    told: _Json = {"interactive": False}
    if spec.cluster is not None:
        told["cluster"] = spec.cluster
    info = {"apiVersion": spec.version, "kind": "ExecCredential", "spec": told}
    environment = {**environ, **dict(spec.variables), _INFO: json.dumps(info)}
    name = spec.command[0]
    try:
        process = subprocess.Popen(  # noqa: S603 - the kubeconfig names it, as for kubectl
            spec.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        hint = f" {spec.hint}" if spec.hint else ""
        raise _failed(f"executable {name} not found ({spec.where}).{hint}") from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise _failed(f"{name}: {hide(str(said))}") from None
    with process:
        try:
            printed, complaint = _output(process, name, stopped or threading.Event(), timeout_s)
        finally:
            _end(process)
    _check_end(process.returncode, name, hide(complaint[-_MOST_STDERR:].decode("utf-8", "replace")))
    if not printed.strip():
        raise _failed(f"{name} printed nothing: run it by hand to see why")
    return printed


def _output(
    process: subprocess.Popen[bytes], name: str, stopped: threading.Event, timeout_s: float
) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a program, even if processes that it started hold them open."""
    until = time.monotonic() + timeout_s
    while True:
        has_ended = process.poll() is not None
        if has_ended:
            _end(process)
        try:
            printed, complaint = process.communicate(timeout=_LOOK_S)
            is_complete = True
        except subprocess.TimeoutExpired as waiting:
            printed, complaint = waiting.output or b"", waiting.stderr or b""
            is_complete = has_ended  # (a process in a session of its own holds them open)
        for what, stream in (("", printed), (" on stderr", complaint)):
            if len(stream) > _MOST_PRINTED:
                wanted = f"expected an ExecCredential from {name}"
                raise _failed(f"{wanted}, got more than 1 MiB{what}")
        if is_complete:
            return printed, complaint
        if stopped.is_set():
            raise Unreachable("the client was closed")
        if time.monotonic() > until:
            raise _failed(
                f"{name} was not done after {timeout_s:.3g} s: run it by hand to see what it "
                "waits for"
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all processes of its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _check_end(code: int, name: str, said: str) -> None:
    if code == 0:
        return
    plain = "".join(char if char.isprintable() else " " for char in said)
    quoted = " ".join(plain.split())[-_MOST_TEXT:]
    if code < 0:
        how = f"was killed by {_signal_name(-code)}"
    else:
        how = f"failed with exit code {code}"
    raise _failed(f"executable {name} {how}{': ' + quoted if quoted else ''}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _failed(text: str) -> Unreachable:
    return Unreachable(f"getting credentials: exec: {text}")
