"""First contact with a Dask scheduler: whether one is there, in a bounded time, and why not.

Dask's own client tries again and again whatever it meets, and lets nobody end that in the middle.
"""

from __future__ import annotations

import asyncio
import queue
import re
import socket
import ssl
import threading
from typing import Any, Final

from hpabatch.errors import HpabatchError, UnfinishedError, UsageError
from hpabatch.inputs.workers import client_context, split_address

_LOOK_S: Final = 2.0
_CONNECTION: Final = re.compile(r"in <.*?>: (?=\S)")
_START: Final = "start it, or check the address and the network"


def greet(address: str, folder: str | None, security: Any, timeout_s: float) -> None:
    """Make sure that a scheduler is at an address; until the time is up it may still be starting.

    Raises:
        UsageError: something else is there, or the address is wrong.
        UnfinishedError: nothing answers, which may pass.
    """
    # In a thread: the caller may have a running loop, and a signal must get through.
    heard: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            heard.put(asyncio.run(_identity(address, security, timeout_s)))
        except BaseException as error:  # noqa: BLE001  (the caller raises it)
            heard.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = heard.get(timeout=timeout_s + _LOOK_S)
    except queue.Empty:
        found = TimeoutError()
    if isinstance(found, TimeoutError):
        found = TimeoutError(f"no answer in {timeout_s:.0f} s")
    if isinstance(found, BaseException):
        raise _fault(address, folder, found) from found
    if found.get("type") != "Scheduler":
        raise UsageError(
            f"--scheduler {address}: expected a Dask scheduler, got a Dask "
            f"{str(found.get('type', 'process')).lower()}; its scheduler is at "
            f"{found.get('scheduler', 'another address')}"
        )


async def _identity(address: str, security: Any, timeout_s: float) -> dict[str, Any]:
    """Return what a Dask process says of itself."""
    from distributed.comm.core import connect
    from distributed.core import send_recv

    arguments = {} if security is None else security.get_connection_args("client")

    async def ask() -> dict[str, Any]:
        comm = await connect(  # type: ignore[no-untyped-call]
            address, timeout=timeout_s, **arguments
        )
        try:
            return dict(await send_recv(comm, op="identity"))
        finally:
            comm.abort()

    return await asyncio.wait_for(ask(), timeout_s)


def _fault(address: str, folder: str | None, error: BaseException) -> HpabatchError:
    """Return the error for an address that no scheduler answered at: what is wrong, what to do."""
    scheme, host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout=_LOOK_S) as connection:
            if scheme == "tls" and folder is not None:
                found = _fault_of_tls(connection, host, client_context(folder))
            else:
                found = _fault_of_plain(connection, host)
    except OSError as refused:
        kind: type[HpabatchError] = UsageError if _is_no_name(refused) else UnfinishedError
        return kind(f"--scheduler {address} does not answer ({_words(refused)}): {_START}")
    if found:
        return UsageError(f"--scheduler {address} {found}")
    return UsageError(
        f"--scheduler {address} is no Dask scheduler ({brief(error)}): expected its "
        "own port, usually 8786 (8787 is its dashboard)"
    )


def _is_no_name(error: OSError) -> bool:
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME


def _fault_of_plain(connection: socket.socket, host: str) -> str:
    """Return the sentence for a port that speaks TLS; "" where it does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return ""
    except TimeoutError:  # (a scheduler that is busy or stopped is as silent)
        raise
    except OSError:
        return ""
    return "speaks TLS: expected a tls:// address, with --scheduler-tls"


def _fault_of_tls(connection: socket.socket, host: str, context: ssl.SSLContext) -> str:
    """Return the sentence for a port that speaks no TLS or other certificates; "": neither."""
    shaken = False
    try:
        with context.wrap_socket(connection, server_hostname=host) as wrapped:
            shaken = True
            wrapped.recv(1)  # (a server of TLS 1.3 refuses a certificate after the handshake)
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not one of ca.crt's authority ({error.verify_message})"
        return f"is not to be trusted: {why}"
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return f"refuses the certificate tls.crt ({_words(error)}): expected one that it trusts"
        return "" if shaken else _NO_TLS
    except TimeoutError:
        raise
    except OSError:
        return "" if shaken else _NO_TLS
    return ""


_NO_TLS: Final = (
    "speaks no TLS: start the scheduler with certificates, or give its tcp:// address where that "
    "is safe (docs/scale.md)"
)


def _words(error: OSError) -> str:
    """Return what is wrong with a connection, for people."""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or str(error) or type(error).__name__).replace("_", " ").lower()


def brief(error: BaseException) -> str:
    """Return an error's first line as part of a sentence, without Dask's name of a connection."""
    lines = _CONNECTION.sub("", str(error)).strip().splitlines()
    return lines[0][:200].rstrip(". ") if lines else type(error).__name__
