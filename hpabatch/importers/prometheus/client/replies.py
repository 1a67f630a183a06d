"""HTTP replies: a response, a request too large, a retryable error, or a final error.

The patterns are of messages of Prometheus, Thanos, Mimir, Cortex and VictoriaMetrics, which use
different statuses: VictoriaMetrics refuses nearly everything with 422; Thanos sends 422 when one of
its stores is away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.errors import (
    CredentialsError,
    Reason,
    RefusedQueryError,
    RetryableError,
    TooMuchError,
)

_TOO_MUCH: Final = re.compile(
    r"would load too many samples"  # Prometheus and all that run its engine
    r"|exceeded maximum resolution"
    r"|err-mimir-max-[a-z-]*query"
    r"|the query hit the (max|aggregated)"  # Cortex
    r"|query time range exceeds the limit"
    r"|exceeded (series|chunks?|bytes|samples?|postings|data) limit"  # Thanos, Cortex
    r"|limit \d+ violated"
    r"|message larger than max"  # gRPC between parts of Thanos, Mimir and Cortex
    r"|code = ResourceExhausted"
    r"|cannot select more than -search\.max"  # VictoriaMetrics
    r"|-search\.max(Points|Series|Unique|Samples|Memory|Response|Export|QueryLen)"
    r"|number of (matching |unique )+timeseries exceeds"
    r"|too many points for the given"
    r"|not enough memory for processing",
    re.IGNORECASE,
)
_TOO_LONG: Final = re.compile(
    r"expression-size-bytes|maxQueryLen|request body too large|query (is )?too (long|large)",
    re.IGNORECASE,
)
_TOO_SLOW: Final = re.compile(
    r"timed out in (?!query queue)"  # which is a busy server, not a large request
    r"|timeout exceeded|deadline exceeded|-search\.maxQueryDuration|upstream request timeout",
    re.IGNORECASE,
)
_PASSING: Final = re.compile(
    r"rpc error: code = |connection (refused|reset)|no such host|i/o timeout|broken pipe|\bEOF\b"
    r"|unavailable|query queue|cancell?ed|too many outstanding|concurrent requests|rate limit"
    r"|no healthy|unhealthy|live replicas|consistency check|receive series|cannot fetch|vmstorage",
    re.IGNORECASE,
)
_TOO_LARGE_STATUS: Final = {413: "bytes", 414: "query", 431: "query"}
_BUSY_STATUS: Final = frozenset((429, 503))
_PASSING_STATUS: Final = frozenset((408, 425))
_TAGS: Final = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_MOST_TEXT: Final = 400


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that came in full; `begun_s` is when its request began."""

    status: int
    headers: Mapping[str, str]
    body: bytearray
    begun_s: float = 0.0


class _Error(msgspec.Struct):
    error: object = None
    errorType: object = None  # noqa: N815 - spelled as in the response
    message: object = None


_ERROR = msgspec.json.Decoder(_Error)


def check_reply(reply: Reply, where: str, now_s: float, hide: Callable[[str], str] = str) -> None:
    """Return if a reply may be a valid response.

    Args:
        reply: of status 200 or another.
        where: the address that was asked, for messages.
        now_s: seconds since 1970, for a Retry-After with a date.
        hide: removes secrets from the message.

    Raises:
        TooMuchError: the request is too large.
        RetryableError: a retry may succeed.
        CredentialsError: the server refuses the credentials.
        RefusedQueryError: it refuses the query.
        UsageError: there is no such server at that address.
    """
    if reply.status == 200:
        _check_format(reply, where, hide)
        return
    text, kind = error_text(reply, hide)
    told = f"{where} responds with status {reply.status}{': ' if text else ''}{text}"
    check_size(text, told, reply.status)
    _check_address(reply, where, told, hide)
    wait_s = retry_after_s(reply.headers, now_s)
    slow = reply.status == 504 or kind == "timeout" or _TOO_SLOW.search(text) is not None
    if slow and "query queue" not in text:
        raise RetryableError(told, wait_s=wait_s, slow=True)
    if reply.status in _BUSY_STATUS:
        raise RetryableError(told, wait_s=wait_s, busy=True, begun_s=reply.begun_s)
    passing = reply.status >= 500 or reply.status in _PASSING_STATUS or _PASSING.search(text)
    if passing or reply.status < 300:
        raise RetryableError(told, wait_s=wait_s)
    raise RefusedQueryError(told)


def check_size(text: str, told: str, status: int = 200) -> None:
    """Return if an error message is not about a request's size.

    Raises:
        TooMuchError: it is, by the message or the status.
    """
    reason: Reason | None = None
    if _TOO_LONG.search(text) or _TOO_LARGE_STATUS.get(status) == "query":
        reason = "query"
    elif _TOO_MUCH.search(text):
        reason = "samples"
    elif _TOO_LARGE_STATUS.get(status) == "bytes":
        reason = "bytes"
    if reason is not None:
        raise TooMuchError(told, reason)


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


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds of a Retry-After, None if there is no valid one."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    moment = _moment_s(value)
    if moment is None:
        return None
    # By the server's own clock, where the reply has a Date.
    said = _moment_s(headers.get("date", "").strip())
    return max(0.0, moment - (now_s if said is None else said))


def _moment_s(value: str) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _check_format(reply: Reply, where: str, hide: Callable[[str], str]) -> None:
    kind = reply.headers.get("content-type", "").lower()
    if "html" in kind or reply.body[:1] == b"<":
        text, _ = error_text(reply, hide)
        raise RetryableError(
            f"{where} responds with a page where JSON belongs ({text[:80]}): a "
            "proxy's error, a page to log in, or not the address of a Prometheus API",
            invalid=True,
        )


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
    if reply.status in (404, 405, 410) or (reply.status == 400 and "unsupported path" in told):
        raise UsageError(
            f"{told}. No Prometheus API is there: does --url lack a path, such as /prometheus "
            "(Mimir, Cortex) or /select/0/prometheus (VictoriaMetrics in a cluster)?"
        )
    if reply.status == 400 and "HTTP request" in told and "HTTPS server" in told:
        raise UsageError(f"{where} speaks HTTPS: begin --url with https://")


def flavour_of(facts: Mapping[str, str]) -> str:
    """Return the flavour of a server by its build information: prometheus, thanos, mimir, cortex,
    victoriametrics, or unknown.

    Thanos and Prometheus have the same fields; versions of Thanos begin with 0.
    """
    application = facts.get("application", "").lower()
    for name in ("mimir", "cortex"):
        if name in application:
            return name
    if "enterprise metrics" in application:
        return "mimir"
    version = facts.get("version", "").removeprefix("v")
    if version and "goVersion" not in facts:
        return "victoriametrics"  # poses as Prometheus, with a version only
    if version.startswith("0."):
        return "thanos"
    return "prometheus" if version[:1].isdigit() and not application else "unknown"
