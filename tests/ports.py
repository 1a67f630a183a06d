"""Ports of 127.0.0.1 that nobody else is given."""

from __future__ import annotations

import socket


def hold_port() -> socket.socket:
    """Return a socket with a port of its own, on which it does not listen: who connects is refused.

    A server that asks for the port by number gets it if it sets SO_REUSEADDR, too; else it is told
    EADDRINUSE. All that are started on such ports set it: Go's listeners, http.server and ours.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    return int(held.getsockname()[1])
