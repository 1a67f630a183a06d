"""What can become of a question to a Prometheus server, beside an answer."""

from __future__ import annotations

from typing import Literal

from hpabatch.errors import UnreadableError, UsageError

Reason = Literal["samples", "bytes", "query", "time"]


class TooMuchError(UsageError):
    """A question is too large: the server refuses it, or its answer is more than we take.

    A smaller question may be answered.

    Attributes:
        reason: too many samples, series or chunks; too many bytes; too long a text of a query; or
            too much time.
    """

    def __init__(self, message: str, reason: Reason) -> None:
        """Say what is too large."""
        super().__init__(message)
        self.reason = reason


class RefusedQueryError(UsageError):
    """The server understands no such query, and will not next time."""


class CredentialsError(UsageError):
    """The server does not know who asks, or does not let them."""


class GaveUpError(UnreadableError):
    """No right answer came, however often the server was asked."""


class StoppedError(GaveUpError):
    """This side asked for the end before an answer was there."""


class AgainError(Exception):
    """One attempt failed, in a way that the next one may not.

    Attributes:
        wait_s: how long the server asks to wait (Retry-After), None: it does not say.
        busy: the server has too much to do, with whatever it is asked.
        slow: the server did not get done with this question.
        silent: it did not even say so.
        lied: the answer was not what was asked for.
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
        lied: bool = False,
        unreached: bool = False,
        begun_s: float = 0.0,
    ) -> None:
        """Say what failed."""
        super().__init__(message)
        self.wait_s = wait_s
        self.busy = busy
        self.slow = slow
        self.silent = silent
        self.lied = lied
        self.unreached = unreached
        self.begun_s = begun_s
