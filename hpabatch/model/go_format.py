"""Go's Sprintf without arguments: old controllers take some finished messages for a format.

Follows doPrintf of Go's package fmt.
"""

from __future__ import annotations

import re
from typing import Final

_INDEX: Final = r"((?:\[[^\]]+\]|\[\](?=.)|\[)?)"  # of an argument; without any, none is valid
_NUMBER: Final = r"(\*|[0-9]*)"
_VERB: Final = re.compile(rf"%[+\-# 0]*{_INDEX}{_NUMBER}(?:\.(?=.){_INDEX}{_NUMBER})?", re.DOTALL)
_THIRD: Final = re.compile(_INDEX, re.DOTALL)
_LARGEST: Final = 1_000_000  # a number that goes on after this ends the text


def go_format(text: str) -> str:
    """Return Sprintf(text) without arguments.

    Example: `100% y` gives `100%!y(MISSING)`.
    """
    parts, position = [], 0
    while found := _VERB.search(text, position):
        parts.append(text[position : found.start()])
        first, width, second, precision = found.groups()
        parts.append("%!(BADWIDTH)" * (width == "*") + "%!(BADPREC)" * (precision == "*"))
        position, bad = found.end(), bool(first or second)
        index, number = (first, width) if precision is None else (second, precision)
        if number == "*" or not re.fullmatch(r"\[[0-9]+\]", index):  # else one is there
            third = _THIRD.match(text, position)
            assert third is not None
            position, bad = third.end(), bad or third.end() > position
        if any((n or "").isdigit() and int(n[:-1] or 0) > _LARGEST for n in (width, precision)):
            position = len(text)
        verb = text[position : position + 1]
        position += 1
        if verb == "%":
            parts.append("%")
        else:
            why = "BADINDEX" if bad else "MISSING"
            parts.append(f"%!{verb}({why})" if verb else "%!(NOVERB)")
    return "".join(parts) + text[position:]
