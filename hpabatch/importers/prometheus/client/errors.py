"""Prometheus client: request errors."""

from __future__ import annotations

from typing import Literal

from hpabatch.errors import UnreadableError, UsageError

Reason = Literal["samples", "bytes", "query", "time"]


class TooMuchError(UsageError):
    """A request is too large: the server refuses it, or its response exceeds the limits.

    A smaller request may succeed.

    Attributes:
        reason: too many samples, series or chunks; too many bytes; too long a query; or too much
            time.
    """

    def __init__(self, message: str, reason: Reason) -> None:
        """Keep the sentence and the reason."""
        super().__init__(message)
        self.reason = reason


class RefusedQueryError(UsageError):
    """The server refuses the query; a retry cannot succeed."""


class CredentialsError(UsageError):
    """The server refuses the credentials."""


class GaveUpError(UnreadableError):
    """No valid response after all attempts."""


class StoppedError(GaveUpError):
    """The client was stopped before the response."""


class RetryableError(Exception):
    """One attempt failed; the next one may succeed.

    Attributes:
        wait_s: the wait that the server asks for (Retry-After); None: none.
        busy: the server is overloaded, whatever the request.
        slow: the server ran out of time with this request.
        silent: there was no reply in time.
        invalid: the response does not match the request.
        unreached: there was no connection.
        begun_s: when the attempt began, by the client's clock, where `busy`.
    """

    def __init__(
        self,
        message: str,
        *,
        wait_s: float | None = None,
        busy: bool = False,
        slow: bool = False,
        silent: bool = False,
        invalid: bool = False,
        unreached: bool = False,
        begun_s: float = 0.0,
    ) -> None:
        """Keep the failure and its kind."""
        super().__init__(message)
        self.wait_s = wait_s
        self.busy = busy
        self.slow = slow
        self.silent = silent
        self.invalid = invalid
        self.unreached = unreached
        self.begun_s = begun_s
