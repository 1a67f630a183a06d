"""Options of workers: processes of this machine or a Dask scheduler, its address, its certificates.

All are checked before anything is read. Standard library only, as all that a request's check needs.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpabatch.errors import UsageError
from hpabatch.model.options import Request, option

if TYPE_CHECKING:
    from ssl import SSLContext

TLS_FILES: Final = ("ca.crt", "tls.crt", "tls.key")
"""Files of a folder of certificates, named as in a TLS secret of Kubernetes."""

_MOST_PORT: Final = 65535


@dataclass(frozen=True, kw_only=True)
class Spread(Request):
    """Options of the processes that do a job's tasks; none of them changes a result."""

    workers: int | None = option(
        "number",
        "Number of processes that do the tasks of the job (docs/scale.md).",
        metavar="N",
        minimum=1,
        maximum=1024,
        unset="this process, with all cores",
    )
    scheduler: str | None = option(
        "text",
        "Dask scheduler whose workers do the tasks, tls://HOST:PORT or tcp://HOST:PORT "
        "(docs/scale.md).",
        metavar="ADDRESS",
    )
    scheduler_tls: str | None = option(
        "path",
        "Folder with the certificates for a tls:// scheduler: ca.crt, tls.crt and tls.key.",
        metavar="FOLDER",
    )
    scheduler_plain: bool = option(
        "flag",
        "Accept a tcp:// scheduler beyond this machine: whoever reaches it can run any code on its "
        "workers and in this command.",
        False,
    )
    parts: str | None = option(
        "path",
        "Folder or object storage (s3://BUCKET/NAME) that all workers reach, for the parts that "
        "finished tasks leave.",
        metavar="PLACE",
        unset="beside the output",
    )

    @property
    def is_spread(self) -> bool:
        """Whether others than this process compute."""
        return self.workers is not None or self.scheduler is not None

    def check(self) -> None:
        """Refuse options without the one that they are about, and a bad scheduler (UsageError)."""
        super().check()
        if self.workers is not None and self.scheduler is not None:
            raise UsageError("--workers and --scheduler: expected one of them; leave one out")
        if self.scheduler is None:
            alone = [("--scheduler-tls", self.scheduler_tls), ("--parts", self.parts)]
            for name, value in [*alone, ("--scheduler-plain", self.scheduler_plain or None)]:
                if value is not None:
                    raise UsageError(f"{name} without --scheduler: expected --scheduler ADDRESS")
        self.check_scheduler()

    def check_scheduler(self) -> None:
        """Refuse a scheduler that cannot be used, before anything is read (UsageError)."""
        if self.scheduler is not None:
            check_scheduler(self.scheduler, self.scheduler_tls, self.scheduler_plain)


def split_address(address: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address; the port is 0 where there is none."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    known = port.isascii() and port.isdigit() and int(port[:6]) <= _MOST_PORT
    return scheme, host.removeprefix("[").removesuffix("]"), int(port[:6]) if known else 0


def check_scheduler(address: str, folder: str | None, plain: bool) -> None:
    """Refuse an address that cannot be used, or that anybody could listen at.

    Args:
        folder: where the certificates are; None: no folder is named.
        plain: whether an address without TLS may be of another machine.

    Raises:
        UsageError: another form is expected, certificates are missing or broken, or the package
            for it is.
    """
    scheme, host, port = split_address(address)
    if "@" in address:
        raise UsageError(
            "--scheduler: expected tls://HOST:PORT without user and password, got one with an @; "
            "workers and commands are known by their certificates (--scheduler-tls)"
        )
    if scheme not in ("tcp", "tls") or not host or not port or "/" in host:
        raise UsageError(
            f"--scheduler {address}: expected tls://HOST:PORT, or tcp://HOST:PORT on this machine"
        )
    if scheme == "tls":
        if folder is None:
            names = ", ".join(TLS_FILES)
            raise UsageError(f"--scheduler {address}: expected --scheduler-tls FOLDER with {names}")
        client_context(folder)
    elif folder is not None:
        raise UsageError(f"--scheduler-tls with {address}: expected a tls:// address")
    elif not (_is_loopback(host) or plain):
        raise UsageError(
            f"--scheduler {address}: without TLS whoever reaches the scheduler can run any code on "
            "its workers and in this command; use tls:// with --scheduler-tls, or give "
            "--scheduler-plain where the network lets nobody else in"
        )
    if find_spec("distributed") is None:
        raise UsageError(
            "--scheduler: expected the package distributed, got none; install hpabatch[dask], or "
            "use --workers"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_context(folder: str) -> SSLContext:
    """Return what a command shows to a scheduler, and by what it knows one, from a folder.

    The names in a certificate are not compared, because Dask does not do that either: the authority
    is what counts.

    Raises:
        UsageError: a file is missing, cannot be read, or is not what its name says.
    """
    import ssl

    authority, certificate, key = (Path(folder) / name for name in TLS_FILES)
    for file in (authority, certificate, key):
        try:
            if not file.is_file():
                raise UsageError(f"--scheduler-tls {file.parent}: there is no file {file.name}")
            file.open("rb").close()
        except OSError as error:
            told = f"--scheduler-tls: cannot read {file}: {error.strerror}"
            raise UsageError(told) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    for file in (certificate, authority):
        known = context if file is authority else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            known.load_verify_locations(file)
        except ssl.SSLError as error:
            raise UsageError(
                f"--scheduler-tls: expected a certificate in PEM form in {file} ({_reason(error)})"
            ) from error
    try:
        context.load_cert_chain(certificate, key, password=lambda: _refuse_password(key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            told = f"{key} is not the key of {certificate}; copy both from the same place"
        else:
            told = f"expected a private key in PEM form in {key} ({_reason(error)})"
        raise UsageError(f"--scheduler-tls: {told}") from error
    return context


def _refuse_password(key: Path) -> str:
    raise UsageError(f"--scheduler-tls: expected a key without a password, got {key} with one")


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error).replace("_", " ").lower()
