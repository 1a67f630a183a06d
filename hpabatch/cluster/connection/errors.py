"""Kubernetes API client: request errors.

::

    ApiError              UnreadableError
    ├── Unreachable       there was no response, or it was cut off
    ├── Withheld          a writing request that was not sent
    ├── Refused           401, 403
    ├── NotFound          404
    ├── Expired           410: a resource version or a continue token is too old
    ├── Busy              429, 5xx
    └── InvalidResponse   any other status, or a response that is not what was requested
        └── TooLarge      a response, or a line of it, above the size limit

`text` is the message as the cluster's own controller would get it from its client: conditions and
events quote it. It is the message of a Status in the response, else it follows from the status
code (apimachinery pkg/api/errors, NewGenericServerResponse).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from hpabatch.cluster.objects.objects import UNREADABLE
from hpabatch.errors import UnreadableError

_MOST_TEXT: Final = 2048
_TOO_LARGE_VERSION: Final = "Too large resource version"

_WORDS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}
_SAID_BY_SERVER: Final = (403, 406, 415)


class ApiError(UnreadableError):
    """A failed request to an API server.

    Attributes:
        text: the message as the cluster's own controller would get it.
        status: of the response, 0: there was none.
        reason: of its Status, e.g. "Forbidden"; "" if there was none.
    """

    def __init__(self, text: str, status: int = 0, reason: str = "", where: str = "") -> None:
        """Take the message; `where` is the server's address, for the user."""
        super().__init__(f"{where}: {text}" if where and where not in text else text)
        self.text = text
        self.status = status
        self.reason = reason


class Unreachable(ApiError):  # noqa: N818 - named for what happened
    """There was no response, or it was cut off.

    Attributes:
        of_tls: TLS failed; other certificates may help.
    """

    of_tls = False


class Withheld(ApiError):  # noqa: N818
    """A writing request was not sent: its time had passed, or it may not begin any more."""


class Refused(ApiError):  # noqa: N818
    """The server does not accept the credentials (401), or forbids the request (403)."""


class NotFound(ApiError):  # noqa: N818
    """There is no such object or resource (404)."""


class Expired(ApiError):  # noqa: N818
    """The resource version or continue token of a request is too old (410), or too new."""


class Busy(ApiError):  # noqa: N818
    """The server cannot respond now (429, 5xx).

    Attributes:
        retry_after: seconds to wait as the server states, None: not stated.
    """

    retry_after: float | None = None


class InvalidResponse(ApiError):  # noqa: N818
    """A response with an unexpected status or contents."""


class TooLarge(InvalidResponse):
    """A response, or a line of it, is above the size limit."""


class RequestedResource(NamedTuple):
    """The parts of a request's path: resource with its group, and name, "" if there is none."""

    group: str
    resource: str
    name: str
    subresource: str = ""

    @property
    def label(self) -> str:
        """The resource as it is written in messages and rules, e.g. `deployments.apps/scale`."""
        label = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{label}/{self.subresource}" if self.subresource else label


def requested_resource(path: str) -> RequestedResource:
    """Return the parts of a path such as `/apis/apps/v1/namespaces/shop/deployments/web/scale`.

    A path without a resource, such as `/version`, has the resource "".
    """
    parts = path.split("?", 1)[0].strip("/").split("/")
    if len(parts) > 2 and parts[0] == "api":
        group, rest = "", parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, rest = parts[1], parts[3:]
    else:
        return RequestedResource("", "", "")
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return RequestedResource(
        group, rest[0], rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    )


class _Status(msgspec.Struct, gc=False):
    kind: str | None = None
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


def error_of_reply(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    path: str,
    where: str = "",
    hide: Callable[[str], str] = str,
) -> ApiError:
    """Return the error that a response with a status other than 200 is.

    Args:
        headers: of the response; names in lower case, or a case-insensitive mapping.
        body: of the response, or its beginning.
        where: the server's address.
        hide: removes secrets from the server's message.
    """
    said = _read_status(body)
    if said is not None and said.message:
        text, reason = hide(said.message), _short(said.reason, hide)
    else:
        text, reason = _worded(status, hide(_plain(headers, body)), path), ""
    error = _classed(status, text, reason, where)
    if isinstance(error, Busy):
        retry_after = headers.get("retry-after")  # API servers never send a date
        digits = (retry_after or "").strip()
        error.retry_after = float(digits) if digits.isascii() and digits.isdecimal() else None
    return error


def error_of_event(
    status_object: bytes | msgspec.Raw, where: str = "", hide: Callable[[str], str] = str
) -> ApiError:
    """Return the error in the Status of a watch's ERROR event; `hide`: see `error_of_reply`."""
    said = _read_status(status_object)
    if said is None:
        return InvalidResponse("the watch ended with an error that is no Status", where=where)
    text = hide(said.message or "unknown")
    return _classed(said.code or 0, text, _short(said.reason, hide), where)


def _classed(status: int, text: str, reason: str, where: str) -> ApiError:
    kind: type[ApiError] = InvalidResponse
    if status == 410 or reason in ("Expired", "Gone") or _TOO_LARGE_VERSION in text:
        kind = Expired
    elif status in (401, 403):
        kind = Refused
    elif status == 404:
        kind = NotFound
    elif status == 429 or status >= 500:
        kind = Busy
    return kind(text, status, reason, where)


def _short(reason: str | None, hide: Callable[[str], str]) -> str:
    """Return a reason, "" if it is not a single word as reasons are."""
    if not reason or len(reason) > 64 or not reason.isalpha():
        return ""
    return reason if hide(reason) == reason else ""


def _read_status(body: bytes | msgspec.Raw) -> _Status | None:
    """Return the Status of a failure, None: it is something else."""
    try:
        said = _STATUS.decode(body)
    except UNREADABLE:
        return None
    failed = said.status == "Failure" and said.kind in (None, "", "Status")
    return said if failed else None


def _plain(headers: Mapping[str, str], body: bytes) -> str:
    media = headers.get("content-type", "")
    if media and not media.startswith("text/"):
        return "unknown"
    return body[:_MOST_TEXT].decode("utf-8", "replace").strip()


def _worded(status: int, said: str, path: str) -> str:
    if status in _SAID_BY_SERVER:
        text = said
    elif status in _WORDS:
        text = _WORDS[status]
    elif status >= 500:
        quoted = json.dumps(said, ensure_ascii=False)
        text = f"an error on the server ({quoted}) has prevented the request from succeeding"
    else:
        text = (
            f"the server responded with the status code {status} but did not return more "
            "information"
        )
    requested = requested_resource(path)
    if not requested.resource:
        return text
    # The controller's client for scales knows no group.
    group = "" if requested.subresource == "scale" else requested.group
    label = requested._replace(group=group, subresource="").label
    return f"{text} (get {label} {requested.name})" if requested.name else f"{text} (get {label})"
