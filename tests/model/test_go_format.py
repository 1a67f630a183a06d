"""Texts that old controllers print as formats: every expected text was printed by Go 1.19."""

from __future__ import annotations

import pytest

from hpabatch.model.go_format import go_format


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("nothing to see", "nothing to see"),
        (
            "x %2F 100% y %d %% end %",
            "x %!F(MISSING) 100%!y(MISSING) %!d(MISSING) % end %!(NOVERB)",
        ),
        ("%+-# 05.3d|", "%!d(MISSING)|"),
        ("100%é", "100%!é(MISSING)"),
        ("%!", "%!!(MISSING)"),
        # a width or precision from an argument
        ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
        ("%.*d", "%!(BADPREC)%!d(MISSING)"),
        ("%*.*f%%", "%!(BADWIDTH)%!(BADPREC)%!f(MISSING)%"),
        ("%*%", "%!(BADWIDTH)%"),
        ("%*", "%!(BADWIDTH)%!(NOVERB)"),
        # precisions
        ("%.", "%!.(MISSING)"),
        ("%.d", "%!d(MISSING)"),
        ("%..d", "%!.(MISSING)d"),
        # indexes of arguments
        ("%[1]d", "%!d(BADINDEX)"),
        ("%[x]d", "%!d(BADINDEX)"),
        ("%[]d", "%!d(BADINDEX)"),
        ("%[", "%!(NOVERB)"),
        ("%[1", "%!(NOVERB)"),
        ("%[1 d", "%! (BADINDEX)d"),
        ("%[2]*[1]d", "%!(BADWIDTH)%!d(BADINDEX)"),
        ("%[1]2.3[2]d", "%!d(BADINDEX)"),
        ("%[1][2]d", "%![(BADINDEX)2]d"),
        ("%[x][2]d", "%!d(BADINDEX)"),
        ("%2[", "%!(NOVERB)"),
        # numbers that are too large for Go swallow the rest
        ("%1000000d end", "%!d(MISSING) end"),
        ("%12345678d end", "%!(NOVERB)"),
        ("%.12345678d end", "%!(NOVERB)"),
        ("%[12345678]d end", "%!d(BADINDEX) end"),
    ],
)
def test_go_prints(text: str, printed: str) -> None:
    assert go_format(text) == printed
