"""Go's Sprintf without arguments: old controllers take some finished messages for a format.

Follows doPrintf of Go's package fmt.
"""

from __future__ import annotations

_FLAGS = "+-# 0"
_LARGEST = 1_000_000  # a number that goes on after this ends the text


def go_format(text: str) -> str:
    """Return Sprintf(text) without arguments.

    Example: `100% y` gives `100%!y(MISSING)`.
    """
    parts, position = [], 0
    while (percent := text.find("%", position)) >= 0:
        parts.append(text[position:percent])
        shown, position = _Verb(text, percent + 1).read()
        parts.append(shown)
    return "".join(parts) + text[position:]


class _Verb:
    """One verb, read after its percent sign."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.complaint = ""
        self.good_index = True

    def read(self) -> tuple[str, int]:
        """Return what is printed for the verb and where it ends."""
        while self._next() and self._next() in _FLAGS:
            self.position += 1
        indexed = self._index()
        indexed = self._number("%!(BADWIDTH)", indexed)
        if self._next() == "." and self.position + 1 < len(self.text):
            self.position += 1
            self.good_index = self.good_index and not indexed
            indexed = self._number("%!(BADPREC)", self._index())
        if not indexed:
            self._index()
        verb = self._next()
        self.position += 1
        if not verb:
            return f"{self.complaint}%!(NOVERB)", len(self.text)
        if verb == "%":
            return f"{self.complaint}%", self.position
        why = "MISSING" if self.good_index else "BADINDEX"
        return f"{self.complaint}%!{verb}({why})", self.position

    def _next(self) -> str:
        return self.text[self.position : self.position + 1]

    def _number(self, complaint: str, indexed: bool) -> bool:
        """Skip a width or precision; return whether an index precedes what follows."""
        if self._next() == "*":
            self.position += 1
            self.complaint += complaint
            return False
        self.position, _ = _digits(self.text, self.position, len(self.text))
        return indexed

    def _index(self) -> bool:
        """Skip an argument's index such as `[1]`; return whether it is well formed.

        Without arguments no index is valid.
        """
        if self._next() != "[":
            return False
        self.good_index = False
        start, end = self.position + 1, self.text.find("]", self.position)
        if end < 0 or len(self.text) - self.position < 3:
            self.position = start
            return False
        self.position = end + 1
        stop, is_number = _digits(self.text, start, end)
        return is_number and stop == end


def _digits(text: str, start: int, end: int) -> tuple[int, bool]:
    """Return the end of the digits from `start` on, and whether they are a number.

    A number that is too large ends at `end`, and counts as none.
    """
    number, position = 0, start
    while position < end and text[position] in "0123456789":
        if number > _LARGEST:
            return end, False
        number = number * 10 + int(text[position])
        position += 1
    return position, position > start
