"""Credentials of requests: token files, and exec plugins.

The protocol of exec plugins is client.authentication.k8s.io, v1 and v1beta1: the cluster is passed
in the variable KUBERNETES_EXEC_INFO, and the plugin prints an ExecCredential with a token, a
client certificate, or both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import httpx2
import msgspec

from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.cluster.connection.plugin import TIMEOUT_S, ExecSpec, run_program
from hpabatch.cluster.objects.objects import UNREADABLE
from hpabatch.history.files import read_small
from hpabatch.web.secrets import Secrets

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
        token: a bearer token.
        certificate: a client certificate and its key, PEM.
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
            spec: the plugin.
            environ: the base of its environment.
            secrets: hidden in messages; None: there are none.
            clock: UTC s.
            timeout_s: time limit of the plugin.
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
        """Run the plugin; the lock is held."""
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
        """Prepare; the file is read with the first request."""
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
