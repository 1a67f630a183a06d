"""Connection to an API server: address, TLS and credentials.

Tokens, certificates and trusted authorities may be replaced while a process runs: files are read
again, and plugins run again, when the server refuses the earlier ones.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import httpx2

from hpabatch import __version__
from hpabatch.cluster.connection.auth import ExecAuth, TokenFileAuth, bearer
from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.cluster.connection.kubeconfig import SERVICE_ACCOUNT, Target, User, in_pod, of_files
from hpabatch.errors import UsageError
from hpabatch.history.files import read_small
from hpabatch.web.network import Network, SocketOption, Transport, proxy_of
from hpabatch.web.secrets import Secrets, bare_url, secrets_of_options, secrets_of_url

_KEPT: Final = httpx2.Limits(
    max_connections=None, max_keepalive_connections=32, keepalive_expiry=60
)
_ALIVE_S: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A vanished peer is detected within half a minute, also by a quiet watch."""


def connect(
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Return a connection; nothing is sent yet.

    Args:
        kubeconfig: a file; None: those of the variable KUBECONFIG, or ~/.kube/config.
        context: None: the current one.
        in_cluster: use the service account of the pod that this process runs in instead.
        environ: variables, also those that name proxies.
        service_account: the folder of the pod's service account.

    Raises:
        UsageError: a file is missing, broken, or has unsupported settings.
    """
    if in_cluster and (kubeconfig is not None or context is not None):
        raise UsageError("--in-cluster excludes --kubeconfig and --context: give one of them")
    if in_cluster:
        return Connection(in_pod(environ, service_account), environ)
    return Connection(of_files(kubeconfig, context, environ), environ)


class Connection:
    """Address, TLS and credentials of a server. Several threads may use it at once.

    Attributes:
        server: its address, without a slash at the end.
        context: the kubeconfig's context, "in-cluster" inside a pod.
        namespace: of the context, "default" if it names none.
        network: opens its connections, and has the time limit of each thread's requests.
    """

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        """Prepare; nothing is sent yet.

        Raises:
            UsageError: a certificate cannot be used, or the address is none.
        """
        self._target = target
        self.server = target.server.server.rstrip("/")
        self.context = target.name
        self.cluster = target.context.cluster
        self.namespace = target.context.namespace or "default"
        parts = _parts(self.server, target.where)
        name = target.server.tls_server_name
        self.extensions = {"sni_hostname": name} if name else {}
        self._proxy = target.server.proxy_url or proxy_of(
            parts.scheme, parts.hostname or "", environ
        )
        self.secrets = Secrets(_secrets(target) | secrets_of_url(self._proxy))
        self.network = Network(_alive())
        self._plugin = ExecAuth(target.plugin, environ, self.secrets) if target.plugin else None
        self._auth = self._plugin or _auth(target.user)
        self._lock = threading.Lock()
        self._current: _Current | None = None
        self._former: httpx2.Client | None = None  # requests may still use it
        self._closed = False
        if self._plugin is None:
            self._current = self._make()  # reports problems of files before anything else

    def __repr__(self) -> str:
        return f"Connection({self.server!r}, context={self.context!r})"

    def close(self) -> None:
        """Close all connections."""
        if self._plugin is not None:
            self._plugin.close()
        with self._lock:
            self._closed = True
            for http in (self._former, self._current and self._current.http):
                if http is not None:
                    http.close()
            self._former = self._current = None

    def client(self) -> httpx2.Client:
        """Return the HTTP client of the current certificates.

        It stays open until its certificates have been replaced twice.

        Raises:
            Unreachable: it was closed, or there are no usable credentials.
        """
        wanted = self._plugin.current().certificate if self._plugin else None
        with self._lock:
            if self._closed:
                raise Unreachable("the client was closed", where=self.server)
            current = self._current
            if current is None or current.certificate != wanted:
                current = self._replace(wanted)
            return current.http

    def renew(self, used: httpx2.Client) -> bool:
        """Return whether there are other certificates than those of a refused client.

        Tokens are renewed by the client itself.

        Raises:
            Unreachable: there are no usable credentials.
        """
        with self._lock:
            current = self._current
            if current is None or self._closed:
                return False
            if used is not current.http:
                return True  # another thread was first
            if self._plugin is None:
                if current.files == self._signature():
                    return False
                self._replace(None)
                return True
        if current.certificate is None:
            return False
        credential = self._plugin.current()
        if credential.certificate == current.certificate:
            credential = self._plugin.renew(credential)
        return credential.certificate != current.certificate

    def _replace(self, certificate: tuple[str, str] | None) -> _Current:
        """Make a client for other certificates; the lock is held."""
        try:
            made = self._make(certificate)
        except UsageError as error:  # one of two files was replaced, the other not yet
            raise Unreachable(f"getting credentials: {error}", where=self.server) from error
        if self._former is not None:
            self._former.close()
        self._former = self._current and self._current.http
        self._current = made
        return made

    def _make(self, certificate: tuple[str, str] | None = None) -> _Current:
        target, files = self._target, self._signature()
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls = _tls(target, certificate) if self.server.startswith("https:") else bare
        try:
            transport = Transport(self.network, tls, _KEPT, self._proxy)
        except (ImportError, ValueError, httpx2.InvalidURL):
            # Their messages may quote a part of a password as a port.
            raise UsageError(
                f"{target.where}: the proxy {bare_url(self._proxy or '')} cannot be used: give one "
                "such as http://proxy:3128"
            ) from None
        headers = [
            ("Accept", "application/json"), ("Accept-Encoding", "identity"),
            ("User-Agent", f"hpabatch/{__version__}"),
        ]  # fmt: skip
        http = httpx2.Client(transport=transport, auth=self._auth, headers=headers)
        return _Current(http, certificate, files)

    def _signature(self) -> tuple[object, ...]:
        """Return a signature of the certificate files, to detect their replacement."""
        server, user = self._target.server, self._target.user
        found: list[object] = []
        for name in (server.certificate_authority, user.client_certificate, user.client_key):
            try:
                seen = os.stat(name) if name else None
            except OSError:
                seen = None
            found.append(seen and (seen.st_ino, seen.st_size, seen.st_mtime_ns))
        return tuple(found)


class _Current(NamedTuple):
    """The HTTP client of one set of certificates: a plugin's, or those in files."""

    http: httpx2.Client
    certificate: tuple[str, str] | None
    files: tuple[object, ...]


def _auth(user: User) -> httpx2.Auth | None:
    """Return the authentication of requests without a plugin; None: by a certificate alone."""
    if user.token_file:
        return TokenFileAuth(Path(user.token_file))
    if user.token:
        return bearer(user.token)
    return httpx2.BasicAuth(user.username, user.password or "") if user.username else None


def _secrets(target: Target) -> set[str]:
    """Return the secrets of a kubeconfig's user; those of files and programs come later."""
    found = {one for one in (target.user.token, target.user.password) if one}
    if target.plugin is not None:
        found |= secrets_of_options(target.plugin.command[1:], dict(target.plugin.variables))
    return found


def _tls(target: Target, certificate: tuple[str, str] | None) -> ssl.SSLContext:
    """Return the TLS context of a server at https://, with a client certificate if there is one.

    Raises:
        UsageError: a file holds no certificate or no key, or they are of different pairs.
    """
    server, user = target.server, target.user
    pair: tuple[str | None, str | None] | None = certificate
    try:
        authority = _pem(server.certificate_authority, server.certificate_authority_data)
        if pair is None:
            pair = (
                _pem(user.client_certificate, user.client_certificate_data),
                _pem(user.client_key, user.client_key_data),
            )
        if "ENCRYPTED" in (pair[1] or ""):
            # OpenSSL would ask for its password at the terminal.
            raise ValueError(f"{user.client_key or 'the key'} is encrypted: give one that is not")
        if authority is None:
            context = httpx2.create_ssl_context(verify=not server.insecure_skip_tls_verify)
        else:
            context = ssl.create_default_context(cadata=authority or "nothing")
        if pair[0] is not None and pair[1] is not None:
            _show(context, (pair[0], pair[1]))
    except (OSError, ValueError) as error:  # those of TLS are such too
        raise UsageError(
            f"{target.where}: the certificates of context {target.name!r} cannot be used: {error}"
        ) from None
    return context


def _pem(path: str | None, data: str | None) -> str | None:
    """Return a certificate or key; base64 data count before a file, as for kubectl."""
    if data is None and path is None:
        return None
    content = read_small(path or "") if data is None else base64.b64decode(data)
    return content.decode("ascii", "ignore")  # comments may be in any language


def _show(context: ssl.SSLContext, certificate: tuple[str, str]) -> None:
    """Load a client certificate, which Python takes only from a file.

    Where the system supports it, the file is in memory: there may be no writable folder.
    """
    content = "\n".join(certificate).encode("ascii", "replace")
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate"), "wb") as stream:
            stream.write(content)
            stream.flush()
            context.load_cert_chain(f"/proc/self/fd/{stream.fileno()}", password="")
        return
    with tempfile.NamedTemporaryFile() as stream:  # readable by this user alone
        stream.write(content)
        stream.flush()
        context.load_cert_chain(stream.name, password="")


def _parts(server: str, where: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        UsageError: it is not an address.
    """
    if "@" in server:  # a password may stand before it, however the parser splits it
        raise UsageError(f"{where}: the server's address holds a user: give it as the user's entry")
    with suppress(ValueError):
        parts = urlsplit(server)
        _ = parts.port  # raises for a port that is not a number
        if parts.scheme in ("http", "https") and parts.hostname and not parts.query:
            return parts
    raise UsageError(f"{where}: expected a server such as https://10.0.0.1:6443, got {server!r}")


def _alive() -> list[SocketOption]:
    found: list[SocketOption] = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ]  # fmt: skip
    for name, value in _ALIVE_S:
        if hasattr(socket, name):
            found.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return found
