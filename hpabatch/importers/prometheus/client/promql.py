"""Matchers added to every selector of a PromQL expression.

A server of several clusters has each series once per cluster, and a query that was written for one
cluster does not name it. PromQL is parsed only as far as series names can be told from functions,
operators, labels and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<number>(?:[0-9]|\.[0-9])[0-9A-Za-z_.]*)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_GROUPING: Final = ("by", "without", "on", "ignoring", "group_left", "group_right")
_WORDS: Final = ("offset", "bool", "and", "or", "unless", "atan2", "inf", "nan")

_Token = tuple[str, str]


def with_matchers(promql: str, matchers: str) -> str:
    """Return an expression with these matchers in each of its selectors.

    Args:
        matchers: as PromQL writes them, e.g. `cluster="a"`; "": nothing changes.
    """
    if not matchers:
        return promql
    tokens = [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(promql)]
    return "".join(_written(tokens, matchers))


def _written(tokens: list[_Token], matchers: str) -> Iterator[str]:
    place = 0
    while place < len(tokens):
        kind, text = tokens[place]
        place += 1
        yield text
        if text == "{" and kind == "other":
            yield matchers
            place, inner = _until(tokens, place, "{", "}")
            blank = all(kind == "blank" or text == "}" for kind, text in inner)
            yield ("" if blank else ",") + "".join(part for _, part in inner)
        elif text == "[" and kind == "other":
            place, inner = _until(tokens, place, "[", "]")
            yield "".join(part for _, part in inner)
        elif kind == "name":
            follower = _next(tokens, place)
            if text.lower() in _GROUPING and follower == "(":
                place, inner = _until(tokens, place, "(", ")")
                yield "".join(part for _, part in inner)
            elif _is_series(text, follower):
                yield f"{{{matchers}}}"


def _is_series(name: str, follower: str) -> bool:
    """Whether a name that is followed by this is a series without braces of its own."""
    if name.lower() in (*_GROUPING, *_WORDS):
        return False
    # Functions and aggregations have their arguments, or what they group by, behind them.
    return follower not in ("(", "{") and follower.lower() not in ("by", "without")


def _next(tokens: list[_Token], place: int) -> str:
    return next((text for kind, text in tokens[place:] if kind != "blank"), "")


def _until(
    tokens: list[_Token], place: int, opening: str, closing: str
) -> tuple[int, list[_Token]]:
    """Return where the bracket that is open at a place ends, and what is up to there."""
    start, depth = place, 0
    if _next(tokens, place) == opening:  # of a list of labels the bracket itself comes first
        depth = -1
    while place < len(tokens):
        kind, text = tokens[place]
        place += 1
        if kind == "other" and text == opening:
            depth += 1
        elif kind == "other" and text == closing:
            if depth <= 0:
                break
            depth -= 1
    return place, tokens[start:place]
