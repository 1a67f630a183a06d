"""``fmt.Sprintf(text)`` without arguments: what becomes of a text that is taken for a format.

Releases before kubernetes#127422 did that with some finished texts.
"""

from __future__ import annotations


def format_without_arguments(text: str) -> str:
    """Expand the verbs of a format string that has no arguments, like Go's package fmt."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "%":
            parts.append(text[position])
            position += 1
            continue
        shown, position = _verb(text, position + 1)
        parts.append(shown)
    return "".join(parts)


def _verb(text: str, position: int) -> tuple[str, int]:
    """Read one verb after its percent sign: what is printed for it, and where it ends."""
    complaint = ""
    indexed = False
    while position < len(text) and text[position] in "+-# 0":
        position += 1
    for leading in ("", "."):  # the width, then the precision
        if not text.startswith(leading, position):
            break
        if leading and position + 1 == len(text):
            break  # a point at the very end is taken for the verb
        position += len(leading)
        position, has_index = _index(text, position)
        indexed = indexed or has_index
        if text.startswith("*", position):
            complaint += "%!(BADPREC)" if leading else "%!(BADWIDTH)"
            position += 1
            continue
        while position < len(text) and text[position].isdigit():
            position += 1
    position, has_index = _index(text, position)
    indexed = indexed or has_index
    if position >= len(text):
        return f"{complaint}%!(NOVERB)", position
    verb = text[position]
    if verb == "%":
        return f"{complaint}%", position + 1
    return f"{complaint}%!{verb}({'BADINDEX' if indexed else 'MISSING'})", position + 1


def _index(text: str, position: int) -> tuple[int, bool]:
    """Step over an argument index such as ``[1]``, if there is one."""
    if not text.startswith("[", position):
        return position, False
    end = text.find("]", position)
    return (position + 1, True) if end < 0 else (end + 1, True)
