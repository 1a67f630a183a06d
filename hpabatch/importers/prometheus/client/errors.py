"""Prometheus client: request errors, and which of them an HTTP reply is.

The status decides: servers with Prometheus' API word their messages differently. 422 is what
Prometheus sends for a query that it cannot finish, VictoriaMetrics for nearly every refusal, and
Thanos where one of its stores is away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

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
        wait_s: the wait that the server asks for (Retry-After); 0: none.
    """

    def __init__(self, message: str, failure: Failure, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.failure = failure
        self.wait_s = wait_s


_TOO_LARGE: Final = frozenset((413, 414, 431))
_FAILURES: Final[Mapping[int, Failure]] = {
    408: "passing", 422: "refused", 425: "passing", 429: "busy", 503: "busy", 504: "large",
}  # fmt: skip
"""By status; other ones from 500 on, and those below 300, may pass."""
_TAGS: Final = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_MOST_TEXT: Final = 400


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that came in full."""

    status: int
    headers: Mapping[str, str]
    body: bytearray


class _Error(msgspec.Struct):
    error: object = None
    errorType: object = None  # noqa: N815 - spelled as in the response
    message: object = None


_ERROR = msgspec.json.Decoder(_Error)


def check_reply(reply: Reply, where: str, hide: Callable[[str], str] = str) -> None:
    """Return if a reply may be a valid response.

    Args:
        where: the address that was asked, for messages.
        hide: removes secrets from the message.

    Raises:
        TooMuchError: the request is too large.
        RetryableError, InvalidResponseError: a retry may succeed.
        CredentialsError: the server refuses the credentials.
        RefusedQueryError: it refuses the query.
        UsageError: there is no such server at that address.
    """
    if reply.status == 200:
        if "html" in reply.headers.get("content-type", "").lower() or reply.body[:1] == b"<":
            raise InvalidResponseError(
                f"expected JSON, got a page ({error_text(reply, hide)[0][:80]}): a proxy's error, "
                "a page to log in, or not the address of a Prometheus API"
            )
        return
    text, kind = error_text(reply, hide)
    told = f"{where} responds with status {reply.status}{': ' if text else ''}{text}"
    if reply.status in _TOO_LARGE:
        raise TooMuchError(told)
    _check_address(reply, where, told, hide)
    # (Servers of metrics say seconds; after a date the client waits as usual.)
    after = reply.headers.get("retry-after", "").strip()
    wait_s = float(after) if after.isascii() and after.isdigit() else 0.0
    if kind == "timeout":
        raise RetryableError(told, "large", wait_s)
    if reply.status in _FAILURES or reply.status >= 500 or reply.status < 300:
        raise RetryableError(told, _FAILURES.get(reply.status, "passing"), wait_s)
    raise RefusedQueryError(told)


def error_text(reply: Reply, hide: Callable[[str], str] = str) -> tuple[str, str]:
    """Return an error message on one line, and its kind where Prometheus names one."""
    try:
        found = _ERROR.decode(reply.body)
        text = found.error or found.message or ""
        kind = found.errorType if isinstance(found.errorType, str) else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        start = bytes(reply.body[: 16 * _MOST_TEXT]).decode("utf-8", "replace")
        text, kind = _TAGS.sub(" ", start), ""
    # Secrets are hidden before the cut, which might leave the start of one.
    line = " ".join(hide(str(text)[: 16 * _MOST_TEXT]).split())
    return (line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]} …"), kind


def _check_address(reply: Reply, where: str, told: str, hide: Callable[[str], str]) -> None:
    """Raise the errors that a retry with the same address and login cannot change."""
    if reply.status == 401:
        raise CredentialsError(
            f"{told}. The token or the user and password are missing, wrong or outdated"
        )
    if reply.status in (403, 407):
        raise CredentialsError(f"{told}. Not allowed: use another token, user or tenant")
    if 300 <= reply.status < 400:
        to = hide(reply.headers.get("location", "").partition("?")[0])[:_MOST_TEXT]
        raise UsageError(
            f"{where} redirects to {to or 'another address'}: use that as --url if it is the "
            "server; if it is a login page, use a token"
        )
    if reply.status in (404, 405, 410):
        raise UsageError(
            f"{told}. No Prometheus API is there: does --url lack a path, such as /prometheus "
            "(Mimir, Cortex) or /select/0/prometheus (VictoriaMetrics in a cluster)?"
        )
    if reply.status == 400 and "HTTP request" in told and "HTTPS server" in told:
        raise UsageError(f"{where} speaks HTTPS: begin --url with https://")
