"""Login at a Prometheus server: token, password, authority, tenant; secrets are never shown.

Secrets come from files or from the environment, never from the command line, which every user of
the machine can read. A token file is read again when the server refuses the token: tokens of
service accounts are replaced about every hour.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular
from hpabatch.importers.prometheus.request import PASSWORD_VARIABLE, TOKEN_VARIABLE, LoginOptions
from hpabatch.web.secrets import basic

_MOST_BYTES: Final = 4 * 2**20  # bundles of certificate authorities have some 200 KiB


@dataclass(frozen=True, slots=True)
class Login:
    """Credentials for a server, and the authority that it is verified with.

    `repr` shows no secret.

    Attributes:
        token_file: where it is read again.
        user: for basic authentication, with `password`.
        ca: certificates (PEM) of which one has signed the server's; None: the usual ones.
        tenant: the owner of the data, in Mimir, Cortex and Thanos.
        insecure: the server's certificate is not checked.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    tenant: str | None = None
    insecure: bool = False

    def request_headers(self) -> dict[str, str]:
        """Return the headers of every request, secrets among them."""
        found: dict[str, str] = {}
        if self.tenant is not None:
            found["X-Scope-OrgID"] = self.tenant
        if self.token is not None:
            found["Authorization"] = f"Bearer {self.token}"
        elif self.user is not None:
            coded = base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
            found["Authorization"] = f"Basic {coded}"
        return found

    def reread(self) -> Login:
        """Return the same with what the token file holds now.

        Raises:
            UsageError: it holds no token any more.
        """
        if self.token_file is None:
            return self
        return replace(self, token=_read_token(self.token_file))

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of a server at https://.

        Raises:
            UsageError: the file holds no certificate.
        """
        if self.ca is None:
            import httpx2  # knows where systems keep the usual authorities

            return httpx2.create_ssl_context(verify=not self.insecure)
        try:
            return ssl.create_default_context(cafile=str(self.ca))
        except (ssl.SSLError, OSError) as error:
            raise UsageError(f"{self.ca} holds no certificates in PEM: {error}") from None

    def secrets(self) -> set[str]:
        """Return the strings that no message may show."""
        found = {self.token or ""}
        if self.password is not None:
            found |= basic(self.user or "", self.password)
        return found - {""}


def read_login(environ: Mapping[str, str], options: LoginOptions) -> Login:
    """Return a login of options and the environment.

    TOKEN_VARIABLE and PASSWORD_VARIABLE of `environ` may hold secrets; an option for the same goes
    before.

    Raises:
        UsageError: a file is absent, unreadable or empty, or two options exclude each other.
    """
    token_file, password_file, ca = (
        None if name is None else Path(name)
        for name in (options.token_file, options.password_file, options.ca)
    )
    user, tenant = options.user, options.tenant
    token = (
        _read_token(token_file) if token_file is not None else environ.get(TOKEN_VARIABLE) or None
    )
    password = environ.get(PASSWORD_VARIABLE) or None
    if password_file is not None:
        password = _read_secret(password_file, "password")
    _check_who(token, token_file, user, password, password_file)
    if token is not None and token_file is None:
        token = _clean_token(token, TOKEN_VARIABLE)
    if ca is not None and options.insecure:
        raise UsageError(
            "--ca and --insecure exclude each other: one checks the server's certificate, the "
            "other does not"
        )
    if tenant is not None and not (tenant and tenant.isascii() and tenant.isprintable()):
        raise UsageError("--tenant: the value is empty, or has characters that no header has")
    password = password if user is not None else None
    login = Login(token, token_file, user, password, ca, tenant, options.insecure)
    if ca is not None:  # a wrong file is reported before the first request
        _read(ca, "--ca")
        login.tls()
    return login


def server_url(given: str) -> str:
    """Return the address of a server's API as far as /api/v1, which is left out.

    Raises:
        UsageError: it is no address of a server, or holds a user, a password or a query.
    """
    example = "such as http://prometheus:9090 or https://mimir/prometheus"
    # Whatever comes before an @ may be a password, wherever the parser sees it.
    if "@" in given:
        raise UsageError(
            "--url holds a user or a password, which every user of the machine can read: leave "
            "them out, and name files that hold them with --user and --password-file, or with "
            "--token-file"
        )
    try:
        parts = urlsplit(given.strip())
        _ = parts.port
    except ValueError:
        raise UsageError(f"--url is no address of a server, {example}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {given!r} is no address of a server, {example}")
    if parts.query or parts.fragment or "?" in given:
        raise UsageError(f"--url ends before the question mark, {example}")
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    if "/api/v1/" in f"{path}/" or not path.isascii() or not path.isprintable() or " " in path:
        raise UsageError(f"--url {given!r}: give what comes before /api/v1, {example}")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _check_who(
    token: str | None,
    token_file: Path | None,
    user: str | None,
    password: str | None,
    password_file: Path | None,
) -> None:
    """Refuse two logins, or half of one (UsageError)."""
    from_file = f"--password-file {password_file}" if password_file else PASSWORD_VARIABLE
    if user is None:
        if password is not None and (token is None or password_file is not None):
            raise UsageError(f"{from_file} holds a password without a user; add --user")
        return
    if token is not None:
        told = f"--token-file {token_file}" if token_file else f"the variable {TOKEN_VARIABLE}"
        raise UsageError(f"{told} and --user {user} exclude each other: keep one of them")
    if password is None:
        raise UsageError(
            f"--user {user} has no password: name a file that holds it with --password-file, or "
            f"set {PASSWORD_VARIABLE}"
        )
    if ":" in user or not user or not user.isprintable():
        raise UsageError(f"--user {user!r}: a user's name is not empty and has no colon")


def _read_token(path: Path) -> str:
    return _clean_token(_read_secret(path, "token"), str(path))


def _clean_token(text: str, where: str) -> str:
    token = text.strip()
    if not token:
        raise UsageError(f"{where} is empty: it should hold a token")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{where} holds no token: it has blanks or characters that no token has")
    return token


def _read_secret(path: Path, what: str) -> str:
    try:
        text = _read(path, f"the {what} file").decode("utf-8").strip()
    except UnicodeDecodeError:
        raise UsageError(f"{path} holds no {what}: it is no text") from None
    if not text:
        raise UsageError(f"{path} is empty: it should hold a {what}")
    if any(not char.isprintable() for char in text):
        raise UsageError(f"{path} holds more than a {what}: it should be on one line")
    return text


def _read(path: Path, what: str) -> bytes:
    try:
        with open_regular(path) as stream:
            found = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{what}: {path} does not exist") from None
    except PermissionError:
        raise UsageError(f"{what}: {path} may not be read by this user") from None
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be read: {error.strerror}") from None
    if len(found) > _MOST_BYTES:
        raise UsageError(f"{what}: {path} is larger than {_MOST_BYTES // 2**20} MiB: another file?")
    return found
