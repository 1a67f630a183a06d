"""Row expressions: tokens and errors."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 10_000_000

_SHOWN = 40
_TOKEN = re.compile(
    r"""
    (?P<blank>[\ \t\r\n\f]+|--[^\n]*|/\*.*?\*/)
    |(?P<string>'[^']*(?:''[^']*)*')
    |(?P<quoted>"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<symbol><=>|!~\*|::|\|\||!~|~\*|<>|<=|>=|==|!=|/(?!\*)|[-+*%=<>(),~])
    """,
    re.VERBOSE | re.DOTALL,
)
# A lone half of a surrogate pair: an argument that is not UTF-8 has them, and Polars takes none.
_HALF = re.compile("[\ud800-\udfff]")
_UNCLOSED = {"'": "string", '"': "quoted name", "`": "quoted name", "/": "comment"}


class ExpressionError(ValueError):
    """A source that is not a row expression, or not one on these columns.

    `at` is the position of the first wrong character, counted from 1.
    """

    def __init__(self, problem: str, at: int, remedy: str = "") -> None:
        """Take the problem, its position, and what follows it (`; did you mean x?`)."""
        super().__init__(f"{problem} at character {at}{remedy}")
        self.at = at


class Token(NamedTuple):
    """A token: its kind is a group of the pattern above, or "end".

    `word`: the text of words and symbols in capitals.
    """

    kind: str
    text: str
    word: str
    at: int

    def show(self) -> str:
        """Return it for a message, shortened."""
        return "the end" if self.kind == "end" else shown(self.text)

    def unquoted(self) -> str:
        """Return the value of a string or a quoted name."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)


def shown(text: str) -> str:
    """Return a string for a message, quoted and shortened."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, the last of them the end.

    Raises:
        ExpressionError: a character that begins no token, or something that is not closed.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"expected at most {MAX_CHARACTERS:,} characters, got {len(text):,}", MAX_CHARACTERS + 1
        )
    if (half := _HALF.search(text)) is not None:
        raise ExpressionError(f"expected UTF-8, got {half[0]!r}", half.start() + 1)
    begin, number_end = 0, -1
    while begin < len(text):
        match = _TOKEN.match(text, begin)
        if match is None:
            raise _no_token(text, begin)
        kind, part = str(match.lastgroup), match[0]
        if begin == number_end and kind in ("word", "number"):
            raise ExpressionError(
                f"expected an operator after the number, got {shown(part)}", begin + 1
            )
        if kind != "blank":
            # Other alphabets have letters whose capitals are ASCII: they are no keywords.
            word = part.upper() if part.isascii() and kind in ("word", "symbol") else ""
            yield Token(kind, part, word, begin + 1)
        begin = match.end()
        number_end = begin if kind == "number" else -1
    yield Token("end", "", "", len(text) + 1)


def _no_token(text: str, begin: int) -> ExpressionError:
    letter = text[begin]
    what = _UNCLOSED.get(letter)
    if what is not None and (letter != "/" or text.startswith("/*", begin)):
        return ExpressionError(f"expected the end of the {what} that begins", begin + 1)
    if letter == ";":
        return ExpressionError("expected one expression, got ';'", begin + 1, "; remove it")
    name = "" if letter.isascii() else f" ({unicodedata.name(letter, 'without a name')})"
    return ExpressionError(f"unexpected character {letter!r}{name}", begin + 1)
