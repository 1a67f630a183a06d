"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 200
"""Names of more letters get no suggestion: comparing takes quadratic time."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that looks most alike, "" where none does."""
    if len(name) > _LONGEST:
        return ""
    lower = {item.lower(): item for item in known if len(item) <= _LONGEST}
    close = get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return lower[close[0]] if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?`, or "" where nothing known looks alike."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""


def near_paths(path: str, known: Iterable[str], most: int) -> list[str]:
    """Return at most `most` paths whose ends of as many parts are like `path`, best first."""
    if len(path) > _LONGEST:
        return []
    depth = path.count("/") + 1
    ends: dict[str, list[str]] = {}
    for item in known:
        ends.setdefault("/".join(item.split("/")[-depth:]), []).append(item)
    close = get_close_matches(path, ends, most, cutoff=0.5)
    return [item for end in close for item in ends[end]][:most]


def near_path(path: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` of paths with as many parts as namespace/name, "" if none is near.

    The same name elsewhere is nearer than another name.
    """
    depth = path.count("/")
    same = [item for item in known if item.count("/") == depth]
    name = path.rpartition("/")[2]
    elsewhere = [item for item in same if depth and item.rpartition("/")[2] == name]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else did_you_mean(path, same)
