"""Selection of HPAs by a part of a file: globs of names, a condition, or both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Selector:
    """All HPAs that match one of the globs (none: every HPA) and the condition (None: every HPA).

    A glob is `namespace/hpa` or `cluster/namespace/hpa`. `where` is a condition on the columns of
    the fleet's HPAs. `place` is its position in a file, for messages.
    """

    hpas: tuple[str, ...] = ()
    where: str | None = None
    place: str = field(default="", compare=False)

    def takes_name(self, cluster: str, namespace: str, hpa: str) -> bool:
        """Whether the globs match an HPA, whatever the condition says."""
        short, full = f"{namespace}/{hpa}", f"{cluster}/{namespace}/{hpa}"
        return not self.hpas or any(
            matches(glob, full if glob.count("/") == 2 else short) for glob in self.hpas
        )


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
