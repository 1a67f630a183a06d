"""Prometheus client: request errors."""

from __future__ import annotations

from typing import Literal

from hpabatch.errors import UnreadableError, UsageError

Failure = Literal["busy", "large", "refused", "silent", "invalid", "unreached", "passing"]
"""busy: the server is overloaded, whatever the request; large: it cannot answer this request in
time or within its limits; refused: status 422, of a request that is too large, wrong, or not to be
answered while a store is away; silent: no reply in time; invalid: the response does not match the
request; unreached: no connection; passing: anything else that may pass."""


class TooMuchError(UsageError):
    """A request is too large: the server refuses it, or its response exceeds the limits.

    A smaller request may succeed.
    """


class RefusedQueryError(UsageError):
    """The server refuses the query; a retry cannot succeed."""


class CredentialsError(UsageError):
    """The server refuses the credentials."""


class GaveUpError(UnreadableError):
    """No valid response after all attempts."""


class StoppedError(GaveUpError):
    """The client was stopped before the response."""


class InvalidResponseError(UnreadableError):
    """A response that does not match the request."""


class RetryableError(Exception):
    """One attempt failed; the next one may succeed.

    Attributes:
        failure: its kind.
        wait_s: the wait that the server asks for (Retry-After); 0: none.
        begun_s: when the attempt began, by the client's clock, where the server is busy.
    """

    def __init__(
        self, message: str, failure: Failure, wait_s: float = 0.0, begun_s: float = 0.0
    ) -> None:
        """Keep the failure and its kind."""
        super().__init__(message)
        self.failure = failure
        self.wait_s = wait_s
        self.begun_s = begun_s
