"""Secrets of a client, and their removal from messages of servers and programs.

A server, a gateway or a program may repeat a secret as it was sent, percent-encoded, escaped as in
JSON or HTML, in base64, or cut off. Each piece of these forms is replaced.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote

HIDDEN: Final = "***"
_PIECE: Final = 12
"""Consecutive characters of a secret that are hidden; a shorter secret is hidden as a whole."""
_CUT: Final = 6
"""This many characters at the end of a message may be the beginning of a cut-off secret."""
_KEPT: Final = 8
"""Requests whose credentials are kept: a response may come after a token was replaced."""
_GO_JSON: Final = {ord(char): f"\\u{ord(char):04x}" for char in "&<>"}
_ESCAPED_BYTE: Final = re.compile("%[0-9A-F]{2}")
_SECRET_NAME: Final = re.compile(
    r"secret|token|passw|pwd|credential|api[-_]?key|access[-_]?key", re.IGNORECASE
)
_Span = tuple[int, int]


class _Pieces(NamedTuple):
    """Hidden pieces: `anywhere` by length, `at_end` only at the end of a message."""

    anywhere: Mapping[int, frozenset[str]]
    at_end: frozenset[str]


class Secrets:
    """The secrets of one client. Several threads may use it at once; `repr` shows none."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        """Begin with the configured secrets; empty ones are ignored."""
        self._configured = frozenset(one for one in secrets if one)
        self._carried: dict[str, None] = {}
        self._lock = threading.Lock()
        self._pieces: _Pieces | None = None

    def note(self, authorization: str | None) -> None:
        """Add the credentials of a request: "SCHEME CREDENTIALS"."""
        if not authorization or authorization in self._carried:
            return
        with self._lock:
            self._carried[authorization] = None
            while len(self._carried) > _KEPT:
                del self._carried[next(iter(self._carried))]
            self._pieces = None

    def hide(self, text: str) -> str:
        """Return a message with its secrets replaced."""
        pieces = self._all_pieces()
        if not pieces.anywhere:
            return text
        return _replaced(text, _places(text, pieces))

    def _all_pieces(self) -> _Pieces:
        with self._lock:
            if self._pieces is None:
                known = set(self._configured)
                for authorization in self._carried:
                    known.update(_credentials(authorization))
                self._pieces = _pieces(known)
            return self._pieces


def secrets_of_url(url: str | None) -> set[str]:
    """Return the password of a URL with a user, and its form in a request.

    A long user without a password counts as a token.
    """
    user, _, password = (url or "").rpartition("@")[0].rpartition("://")[2].partition(":")
    if not password and len(user) < _PIECE:
        return set()
    return {password or user, *basic(unquote(user), unquote(password))} - {""}


def bare_url(url: str) -> str:
    """Return a URL without its user and password, however a parser splits it."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def basic(user: str, password: str) -> set[str]:
    """Return the secrets of basic authentication."""
    return {password, base64.b64encode(f"{user}:{password}".encode()).decode("ascii")}


def secrets_of_options(words: Iterable[str], variables: Mapping[str, str]) -> set[str]:
    """Return the values of a program's arguments and variables with secret names."""
    found = {value for name, value in variables.items() if _SECRET_NAME.search(name)}
    named = False
    for word in words:
        name, equals, value = word.partition("=")
        if named:
            found.add(word)
        named = word.startswith("-") and not equals and bool(_SECRET_NAME.search(word))
        if equals and _SECRET_NAME.search(name):
            found.add(value)
    return {one for one in found if len(one) >= _CUT}


def _credentials(authorization: str) -> set[str]:
    """Return the secrets in the header Authorization."""
    scheme, _, given = authorization.partition(" ")
    given = given.strip() or scheme
    found = {given}
    if scheme.lower() == "basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            found.add(base64.b64decode(given).decode("utf-8").partition(":")[2])
    return found - {""}


def _pieces(secrets: Iterable[str]) -> _Pieces:
    found: dict[int, set[str]] = {}
    at_end: set[str] = set()
    for form in {form for secret in secrets for form in _forms(secret)}:
        size = min(len(form), _PIECE)
        places = range(len(form) - size + 1)
        found.setdefault(size, set()).update(form[k : k + size] for k in places)
        at_end.update(form[:k] for k in range(_CUT, size))
    return _Pieces({size: frozenset(all_) for size, all_ in found.items()}, frozenset(at_end))


def _forms(secret: str) -> set[str]:
    data = secret.encode("utf-8", "surrogateescape")
    percent = {quote(data), quote(data, safe=""), quote_plus(data), quote(data, safe="$&+,;=")}
    percent.add("".join(f"%{byte:02X}" for byte in data))
    found = {secret, html.escape(secret), *percent}
    found.update(_ESCAPED_BYTE.sub(lambda escape: escape[0].lower(), form) for form in percent)
    found.update(json.dumps(secret, ensure_ascii=plain)[1:-1] for plain in (False, True))
    # As Go's encoders escape them.
    found.add(json.dumps(secret, ensure_ascii=False)[1:-1].translate(_GO_JSON))
    found.add(html.escape(secret).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"))
    if len(data) >= _CUT:
        for before in range(3):  # it begins anywhere in a group of three bytes
            coded = base64.b64encode(bytes(before) + data).decode("ascii").rstrip("=")
            whole = (before + len(data)) // 3 * 4
            form = coded[-(-before * 8 // 6) : whole]
            found |= {form, form.replace("+", "-").replace("/", "_")}
    return found - {""}


def _places(text: str, pieces: _Pieces) -> list[_Span]:
    """Return where the string has pieces of secrets, in order; the places may overlap."""
    found = [
        (start, start + size)
        for size, texts in pieces.anywhere.items()
        for start in range(len(text) - size + 1)
        if text[start : start + size] in texts
    ]
    found += [
        (len(text) - left, len(text))
        for left in range(_CUT, min(_PIECE, len(text) + 1))
        if text[-left:] in pieces.at_end
    ]
    return sorted(found)


def _replaced(text: str, places: Iterable[_Span]) -> str:
    parts: list[str] = []
    at = -1
    for start, end in places:
        if start > at:
            parts += [text[max(at, 0) : start], HIDDEN]
        at = max(at, end)
    return "".join([*parts, text[max(at, 0) :]])
