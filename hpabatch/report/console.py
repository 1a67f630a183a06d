"""Reports for people as text: the one place that says how rich draws them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hpabatch.model.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_WIDTH: Final = 100_000
"""Characters; off a terminal nothing is cut or wrapped."""


def drawn(
    parts: Iterable[RenderableType], width: int | None = None, *, styled: bool = False
) -> str:
    """Return printable parts one below the other, no line with blanks at its end.

    Args:
        parts: texts and tables.
        width: of the terminal, in characters; None: no terminal, so nothing is cut or wrapped.
        styled: with ANSI styles.
    """
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(
        file=io.StringIO(),
        width=width or PLAIN_WIDTH,
        force_terminal=styled,
        no_color=not styled,
        color_system="standard" if styled else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for part in parts:
            # Cells are printable already. Here the styles are still apart from the text.
            console.print(
                Segments(
                    Segment(printable_lines(piece.text), piece.style)
                    for piece in console.render(part)
                )
            )
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
