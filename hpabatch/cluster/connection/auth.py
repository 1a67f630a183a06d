"""Credentials of requests: token files, and exec plugins, their configuration, environment, output.

The protocol of exec plugins is client.authentication.k8s.io, v1 and v1beta1: the cluster is passed
in the variable KUBERNETES_EXEC_INFO, and the plugin prints an ExecCredential with a token, a
client certificate, or both.

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
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.cluster.objects.objects import UNREADABLE
from hpabatch.errors import UsageError
from hpabatch.history.files import read_small
from hpabatch.web.secrets import Secrets

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
        hide: removes secrets from its stderr.
        stopped: ends it soon.

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
        how = f"was killed by signal {-code}"
    else:
        how = f"failed with exit code {code}"
    raise _failed(f"executable {name} {how}{': ' + quoted if quoted else ''}")


def _failed(text: str) -> Unreachable:
    return Unreachable(f"getting credentials: exec: {text}")


_MOST_VERSION: Final = 64
_AGAIN_S: Final = 5.0
"""A failed plugin is not run again before this, however many requests wait."""
_LONGEST_PAUSE_S: Final = 300.0
"""Between two runs of a plugin whose credentials the server refuses."""
_LONG_AGO_S: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials from a plugin. `repr` shows no secret.

    Attributes:
        expires_s: UTC s, None: not stated.
    """

    token: str | None = field(default=None, repr=False)
    certificate: tuple[str, str] | None = field(default=None, repr=False)
    expires_s: float | None = None


class ExecAuth(httpx2.Auth):
    """Credentials from an exec plugin, renewed when they expire or are refused.

    Several threads may send requests at once; the plugin runs once for all of them.
    """

    def __init__(
        self,
        spec: ExecSpec,
        environ: Mapping[str, str],
        secrets: Secrets | None = None,
        clock: Callable[[], float] = time.time,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Prepare; the plugin runs when the first request is sent.

        Args:
            secrets: hidden in messages; None: there are none.
            clock: UTC s.
        """
        self._spec = spec
        self._environ = environ
        self._secrets = secrets or Secrets()
        self._clock = clock
        self._timeout_s = timeout_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._current: Credential | None = None
        self._failed: tuple[float, Unreachable] | None = None
        self._renewed_s, self._pause_s = _LONG_AGO_S, _AGAIN_S  # monotonic

    def close(self) -> None:
        """End the plugin if it runs."""
        self._stopped.set()

    def current(self) -> Credential:
        """Return credentials that have not expired.

        Raises:
            Unreachable: the plugin gave none.
        """
        with self._lock:
            found = self._current
            if found is None or self._is_over(found):
                found = self._run()
            return found

    def renew(self, refused: Credential) -> Credential:
        """Return other credentials than the refused ones, if the plugin has any.

        A plugin whose credentials are refused again and again runs after increasing pauses; until
        then the refused ones are returned.

        Raises:
            Unreachable: the plugin gave none.
        """
        with self._lock:
            if self._current is None:
                return self._run()
            if self._current != refused:
                return self._current
            lasted_s = time.monotonic() - self._renewed_s
            if lasted_s < self._pause_s:
                return self._current
            if self._renewed_s != _LONG_AGO_S:
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            found = self._run()
            self._renewed_s = time.monotonic()
            return found

    def sync_auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token, and send a second request with a new one if the server refused it."""
        credential = self.current()
        _add(request, credential)
        response = yield request
        if response.status_code != 401:
            self._accept()
        # A new certificate needs a new connection: see `Connection.renew`.
        if response.status_code == 401 and credential.certificate is None:
            fresh = self.renew(credential)
            if fresh.token != credential.token and fresh.certificate is None:
                _add(request, fresh)
                response = yield request
                if response.status_code != 401:
                    self._accept()

    def _accept(self) -> None:
        """Note that the credentials are good: the next refusal is followed by a run at once."""
        if self._renewed_s != _LONG_AGO_S:
            with self._lock:
                self._renewed_s, self._pause_s = _LONG_AGO_S, _AGAIN_S

    def _is_over(self, credential: Credential) -> bool:
        return credential.expires_s is not None and credential.expires_s <= self._clock()

    def _run(self) -> Credential:
        if self._failed is not None and time.monotonic() < self._failed[0] + _AGAIN_S:
            raise self._failed[1]
        try:
            printed = run_program(
                self._spec, self._environ, self._secrets.hide, self._stopped, self._timeout_s
            )
            found = read_credential(printed, self._spec)
            if self._is_over(found):
                raise Unreachable(
                    f"getting credentials: exec plugin {self._spec.command[0]} returned "
                    "credentials that have expired: log in with it again, or correct the clock"
                )
        except Unreachable as error:
            # The time of its end: otherwise threads that waited would run it at once.
            self._failed = time.monotonic(), error
            raise
        self._current, self._failed = found, None
        return found


class TokenFileAuth(httpx2.Auth):
    """Token from a file, which is read again when a server refuses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = None

    def sync_auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token; after a refusal, send a second request with the file's new contents."""
        token = self._token
        if token is None:
            token = self._read()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = f"Bearer {self._read()}"
            yield request

    def _read(self) -> str:
        try:
            self._token = read_small(self._path).decode("ascii").strip()
        except UnicodeDecodeError:
            raise Unreachable(f"getting credentials: {self._path} holds no token") from None
        except OSError as error:
            raise Unreachable(
                f"getting credentials: {self._path} cannot be read: {error.strerror}"
            ) from None
        return self._token


def bearer(token: str) -> httpx2.Auth:
    """Return the authentication by a token that does not change."""

    def add(request: httpx2.Request) -> httpx2.Request:
        _add(request, Credential(token))
        return request

    return httpx2.FunctionAuth(add)


def _add(request: httpx2.Request, credential: Credential) -> None:
    if credential.token is not None:
        request.headers["Authorization"] = f"Bearer {credential.token}"


class _Status(msgspec.Struct, gc=False):
    token: str | None = None
    clientCertificateData: str | None = None  # noqa: N815
    clientKeyData: str | None = None  # noqa: N815
    expirationTimestamp: datetime | None = None  # noqa: N815


class _ExecCredential(msgspec.Struct, gc=False):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815
    status: _Status | None = None


def read_credential(printed: bytes, spec: ExecSpec) -> Credential:
    """Return the credentials that a plugin printed.

    Raises:
        Unreachable: there are none; the message shows nothing of the output.
    """
    name = spec.command[0]
    try:
        found = msgspec.json.decode(printed, type=_ExecCredential)
    except UNREADABLE as error:
        where = str(error) if isinstance(error, msgspec.ValidationError) else "no JSON"
        raise Unreachable(f"getting credentials: decoding stdout of {name}: {where}") from None
    if found.kind != "ExecCredential" or found.apiVersion != spec.version:
        raise Unreachable(
            f"getting credentials: exec plugin is configured to use API version {spec.version}, "
            f"plugin returned version {(found.apiVersion or 'of nothing')[:_MOST_VERSION]}"
        )
    status = found.status
    if status is None:
        raise Unreachable(f"getting credentials: exec plugin {name} didn't return a status field")
    pair = status.clientCertificateData or "", status.clientKeyData or ""
    if bool(pair[0]) != bool(pair[1]):
        raise Unreachable(
            f"getting credentials: exec plugin {name} returned only one of certificate and key"
        )
    if status.token and not (status.token.isascii() and status.token.isprintable()):
        raise Unreachable(
            f"getting credentials: exec plugin {name} returned a token with more than one line, or "
            "with what no header may have"
        )
    if not status.token and not pair[0]:
        raise Unreachable(
            f"getting credentials: exec plugin {name} didn't return a token or cert/key pair"
        )
    expires = status.expirationTimestamp
    return Credential(
        status.token or None,
        pair if pair[0] else None,
        None if expires is None else expires.timestamp(),
    )
