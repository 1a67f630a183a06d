"""Globs of names: `*` is any letters, `?` is one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def matches(glob: str, name: str) -> bool:
    """Whether a glob matches a whole name: `*` is any letters, `?` is one.

    A `/` counts as a letter; in a name of as many parts as its glob no `*` can reach across one.
    """
    return _pattern(glob).fullmatch(name) is not None


def matches_any(globs: Iterable[str], name: str) -> bool:
    """Whether one of the globs matches."""
    return any(matches(glob, name) for glob in globs)


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(letter) or re.escape(letter) for letter in glob), re.DOTALL)
