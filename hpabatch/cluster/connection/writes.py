"""Kubernetes API client that writes: one attempt a request, on a connection of its own.

`live.apply` is the only importer (an import-linter contract). Everything else reads with
`client.ApiClient`, whose wire refuses to send anything but GET.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpabatch._json import decode_json
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import ApiError, Busy, InvalidResponse, Unreachable
from hpabatch.cluster.connection.wire import Body, Fence
from hpabatch.web.network import read_body

Json = dict[str, Any]

_VERBS: Final = {"PUT": "update", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
_MERGE: Final = "application/merge-patch+json"
_BYTES: Final = 8 * 2**20
_MANAGER: Final = "hpabatch"
_MARGIN_S: Final = 1.0


class WriteClient(ApiClient):
    """Client of an API server that may write. Several threads may use it at once.

    Each request is sent once; only a refused login is followed by a second attempt. The server
    gets the time limit, too: it gives up a request that its client has given up.
    """

    def __init__(
        self, connection: Connection, *, dry_run: bool = False, fence: Fence | None = None
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            connection: from `connect.connect`, for this client alone; it is closed with it.
            dry_run: the server checks writing requests and stores nothing (dryRun=All).
            fence: returns why a writing request of at most that many seconds may not be sent now,
                "" if it may; it is checked right before each sending.
        """
        super().__init__(connection, attempts=1)
        self.allow_writes(fence)
        self.dry_run = dry_run

    def read(self, path: str, timeout: float) -> Json:
        """Return an object (ApiError: see `errors`)."""
        return self._sent("get", path, {}, timeout, None)

    def write(
        self, method: str, path: str, document: Mapping[str, Any] | None, timeout: float
    ) -> Json:
        """Send a writing request once, and return the object in the response.

        Args:
            method: PUT, POST, PATCH (a JSON merge patch) or DELETE.
            path: after the server's address.
            document: the body; None: an empty one.
            timeout: seconds until the response is there. The server gets one second less, so that
                it has ended the request when this returns.

        Raises:
            ApiError: see `errors`. After Unreachable, Busy and InvalidResponse the object may or
                may not have been written (`is_uncertain`), after Withheld it was not.
        """
        params = {"timeout": f"{max(timeout - _MARGIN_S, 0.5):g}s"}
        if method != "DELETE":
            params["fieldManager"] = _MANAGER
        if self.dry_run:
            params["dryRun"] = "All"
        media = _MERGE if method == "PATCH" else "application/json"
        content = b"" if document is None else json.dumps(document).encode()
        return self._sent(_VERBS[method], path, params, timeout, Body(method, content, media))

    def _sent(
        self, verb: str, path: str, params: Mapping[str, str], timeout: float, body: Body | None
    ) -> Json:
        until = time.monotonic() + timeout
        with self.replied(verb, path, params, timeout, body=body) as response:
            if response.status_code not in (200, 201, 202):
                raise self.refusal(response, path)
            content, complete = read_body(response, _BYTES, until)
        try:
            return decode_json(content if complete else b"", Json)
        except ValueError as error:
            raise InvalidResponse(f"{path}: {error}", 200) from error


def is_uncertain(error: ApiError) -> bool:
    """Return whether a failed write may have been made nevertheless."""
    if isinstance(error, Busy):
        return error.status >= 500
    return isinstance(error, Unreachable) or error.status == 200


class Budget:
    """Rate budget of requests, a token bucket. Several threads may use it at once."""

    def __init__(
        self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with a full bucket.

        Args:
            clock: monotonic seconds.
        """
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._lock = threading.Lock()
        self._left, self._at = burst, clock()

    def take(self) -> float:
        """Take a request, and return the seconds to wait before it is sent."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * self._per_s, self._burst)
            self._at = now
            self._left -= 1
            return max(-self._left / self._per_s, 0.0)

    def try_take(self) -> bool:
        """Take a request if one is left."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * self._per_s, self._burst)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
