"""Credentials that a program gives (exec plugins of kubeconfig), until they expire.

The protocol is client.authentication.k8s.io, v1 and v1beta1: the program is told about the cluster
in the variable KUBERNETES_EXEC_INFO, and prints an ExecCredential with a token, a client
certificate, or both.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final

import httpx2
import msgspec

from hpabatch.cluster.errors import Unreachable
from hpabatch.errors import UsageError
from hpabatch.history.files import read_regular

_GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_INFO: Final = "KUBERNETES_EXEC_INFO"
_EXTENSION: Final = "client.authentication.k8s.io/exec"
_PATIENCE_S: Final = 60.0
_MOST_TEXT: Final = 300
_AGAIN_S: Final = 5.0
"""A program that failed is run again after this, however many requests wait."""
_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """A program that gives credentials, as a kubeconfig names it.

    Attributes:
        version: of the protocol, group and version.
        command: a program and its arguments.
        variables: of its environment, beside ours.
        cluster: what it is told about the cluster, None: nothing.
        hint: how it is installed, "": not said.
        where: of which file, for messages.
    """

    version: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cluster: _Json | None = field(default=None, repr=False)
    hint: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a program gave. `repr` shows no secret.

    Attributes:
        token: a bearer token.
        certificate: a client certificate and its key, PEM.
        expires_s: UTC s, None: not said.
    """

    token: str | None = field(default=None, repr=False)
    certificate: tuple[str, str] | None = field(default=None, repr=False)
    expires_s: float | None = None


def exec_spec(plugin: object, cluster: Mapping[str, Any], where: str) -> ExecSpec:
    """Return the program of a kubeconfig's user.

    Args:
        plugin: the user's `exec`.
        cluster: the cluster's entry.
        where: of which file, for messages.

    Raises:
        UsageError: it is incomplete, or of a version that is not spoken.
    """
    if not isinstance(plugin, dict) or not isinstance(plugin.get("command"), str):
        raise UsageError(f"{where}: the user's exec has no command")
    version = plugin.get("apiVersion")
    if version not in VERSIONS:
        raise UsageError(
            f"{where}: the user's exec is of apiVersion {version!r}: let it be one of "
            f"{' and '.join(VERSIONS)}"
        )
    if plugin.get("interactiveMode") == "Always":
        raise UsageError(
            f"{where}: the user's exec wants to ask at a terminal (interactiveMode: Always), which "
            "cannot be done while requests go on: use a kubeconfig that does not"
        )
    args, env = plugin.get("args") or [], plugin.get("env") or []
    try:
        variables = tuple((one["name"], one["value"]) for one in env)
    except (TypeError, KeyError):
        variables = ((None, None),)
    texts = [*(args if isinstance(args, list) else [None]), *chain.from_iterable(variables)]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"{where}: the user's exec has args or env that are no texts: let args be a list of "
            "texts, and env one of name and value (numbers in quotes)"
        )
    command = (plugin["command"], *args)
    told = _told(cluster) if plugin.get("provideClusterInfo") else None
    return ExecSpec(
        version, command, variables, told, str(plugin.get("installHint") or "").strip(), where
    )


def _told(cluster: Mapping[str, Any]) -> _Json:
    """Return what a program is told about the cluster."""
    keys = (
        "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data",
        "proxy-url", "disable-compression",
    )  # fmt: skip
    found = {key: cluster[key] for key in keys if key in cluster}
    if "certificate-authority" in cluster:
        try:
            authority = read_regular(cluster["certificate-authority"])
        except OSError as error:
            raise UsageError(
                f"{cluster['certificate-authority']} cannot be read: {error.strerror}"
            ) from None
        found["certificate-authority-data"] = base64.b64encode(authority).decode("ascii")
    for one in cluster.get("extensions") or ():
        if isinstance(one, dict) and one.get("name") == _EXTENSION:
            found["config"] = one.get("extension")
    return found


class ExecAuth(httpx2.Auth):
    """Asks a program for credentials, and again when they expire or are refused.

    Several threads may send requests at once; the program runs once for all of them.
    """

    def __init__(
        self,
        spec: ExecSpec,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; the program runs when the first request is sent.

        Args:
            spec: which program.
            environ: what its environment is made of.
            clock: UTC s.
        """
        self._spec = spec
        self._environ = environ
        self._clock = clock
        self._lock = threading.Lock()
        self._current: Credential | None = None
        self._failed: tuple[float, Unreachable] | None = None

    def current(self) -> Credential:
        """Return credentials that have not expired.

        Raises:
            Unreachable: the program gave none.
        """
        with self._lock:
            found = self._current
            if found is None or self._is_over(found):
                found = self._run()
            return found

    def renew(self, refused: Credential) -> Credential:
        """Return others than those that a server refused, if the program has any.

        Raises:
            Unreachable: the program gave none.
        """
        with self._lock:
            if self._current is None or self._current == refused:
                return self._run()
            return self._current

    def sync_auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token, and send a second request with a new one if the server refused it."""
        credential = self.current()
        _add(request, credential)
        response = yield request
        # A new certificate needs a new connection: see `Connection.renew`.
        if response.status_code == 401 and credential.certificate is None:
            fresh = self.renew(credential)
            if fresh.token != credential.token and fresh.certificate is None:
                _add(request, fresh)
                yield request

    def _is_over(self, credential: Credential) -> bool:
        return credential.expires_s is not None and credential.expires_s <= self._clock()

    def _run(self) -> Credential:
        """Run the program; the lock is held."""
        now = time.monotonic()
        if self._failed is not None and now < self._failed[0] + _AGAIN_S:
            raise self._failed[1]
        try:
            found = read_credential(run_program(self._spec, self._environ), self._spec)
        except Unreachable as error:
            self._failed = now, error
            raise
        self._current, self._failed = found, None
        return found


def _add(request: httpx2.Request, credential: Credential) -> None:
    if credential.token is not None:
        request.headers["Authorization"] = f"Bearer {credential.token}"


def run_program(spec: ExecSpec, environ: Mapping[str, str]) -> bytes:
    """Return what a program prints.

    Raises:
        Unreachable: it is not there, failed, or took too long.
    """
    told: _Json = {"interactive": False}
    if spec.cluster is not None:
        told["cluster"] = spec.cluster
    info = {"apiVersion": spec.version, "kind": "ExecCredential", "spec": told}
    environment = {**environ, **dict(spec.variables), _INFO: json.dumps(info)}
    name = spec.command[0]
    try:
        done = subprocess.run(  # noqa: S603 - the kubeconfig names it, as for kubectl
            spec.command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        hint = f" {spec.hint}" if spec.hint else ""
        raise Unreachable(
            f"getting credentials: exec: executable {name} not found ({spec.where}).{hint}"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unreachable(
            f"getting credentials: exec: {name} was not done after {_PATIENCE_S:.0f} s"
        ) from None
    except OSError as error:
        raise Unreachable(f"getting credentials: exec: {name}: {error.strerror}") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-_MOST_TEXT:]
        raise Unreachable(
            f"getting credentials: exec: executable {name} failed with exit code "
            f"{done.returncode}{': ' + said if said else ''}"
        )
    return done.stdout


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
    """Return the credentials that a program printed.

    Raises:
        Unreachable: there are none; the message shows nothing of what was printed.
    """
    name = spec.command[0]
    try:
        found = msgspec.json.decode(printed, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        where = str(error) if isinstance(error, msgspec.ValidationError) else "no JSON"
        raise Unreachable(f"getting credentials: decoding stdout of {name}: {where}") from None
    if found.kind != "ExecCredential" or found.apiVersion != spec.version:
        raise Unreachable(
            f"getting credentials: exec plugin is configured to use API version {spec.version}, "
            f"plugin returned version {found.apiVersion or 'of nothing'}"
        )
    status = found.status
    if status is None:
        raise Unreachable(f"getting credentials: exec plugin {name} didn't return a status field")
    pair = status.clientCertificateData or "", status.clientKeyData or ""
    if bool(pair[0]) != bool(pair[1]):
        raise Unreachable(
            f"getting credentials: exec plugin {name} returned only one of certificate and key"
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
