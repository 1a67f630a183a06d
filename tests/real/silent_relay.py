"""A relay before a real API server that can fall silent: it takes connections and says nothing."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

from tests.real.cluster import Cluster


class SilentRelay:
    """Hands bytes on; once it is silent it takes connections, reads nothing and says nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._to = ("127.0.0.1", int(cluster.environment["P_API"]))
        self._run = Path(cluster.environment["RUN"])
        self._server = socket.create_server(("127.0.0.1", 0))
        self._is_silent = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.taken = 0
        """Connections since it fell silent."""
        threading.Thread(target=self._accept, daemon=True).start()

    def kubeconfig(self, path: Path) -> Path:
        text = (self._run / "kubeconfig").read_text()
        port = self._server.getsockname()[1]
        path.write_text(text.replace(f"127.0.0.1:{self._to[1]}", f"127.0.0.1:{port}"))
        return path

    def fall_silent(self) -> None:
        """Break all connections off; later ones are taken, and hang in their TLS handshake."""
        self._is_silent = True
        for pair in self._pairs:
            for one in pair:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.fall_silent()
        self._server.close()

    def _accept(self) -> None:
        held = []
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self._is_silent:
                    held.append(near)
                    self.taken += 1
                    continue
                pair = near, socket.create_connection(self._to)
                self._pairs.append(pair)
                for source, target in (pair, pair[::-1]):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(2**16):
            target.sendall(piece)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
