"""How pictures look, and how they get into files: fonts, colours, places in pixels.

Only `matplotlib.figure.Figure` is used, never pyplot, so nothing global changes and no display is
needed. A picture has the same bytes at every run of one matplotlib version: its own style instead
of the user's, the font that comes with matplotlib, no date, a fixed salt of ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hpabatch.errors import UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

WIDTH: Final = 900
"""Pixels: what a README shows without scaling."""

DPI: Final = 100
_CLOUD_DPI: Final = 200  # of what is pixels inside of an SVG
_FONT: Final = "DejaVu Sans"

# Okabe and Ito's palette, which the colour-blind can tell apart; shapes differ, too.
BLUE: Final = "#0072b2"
SKY: Final = "#8cc4e8"
VERMILION: Final = "#d55e00"
GREEN: Final = "#007a5a"
INK: Final = "#1f2328"
GREY: Final = "#59636e"
PALE: Final = "#c3c9d0"
LINE: Final = "#e3e6ea"

_STYLE: Final[dict[str, Any]] = {
    "font.family": [_FONT],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": "#8c959f",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": None,
    "svg.fonttype": "path",
    "svg.hashsalt": "hpabatch",
    "path.simplify": True,
}

FORMATS: Final = ("svg", "png")


def require_matplotlib() -> None:
    """Raise a UsageError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"pictures need matplotlib, which is not installed ({error}): "
            "pip install 'hpabatch[plot]'"
        ) from error


@contextmanager
def picture_style() -> Iterator[None]:
    """Draw in this style, whatever the user's own settings of matplotlib are."""
    require_matplotlib()
    from matplotlib import style

    with style.context(["default", _STYLE]):
        yield


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a figure to a file that ends with .svg or .png: whole or not at all.

    Raises:
        UsageError: another ending, or it cannot be written there.
    """
    final = Path(path)
    form = final.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise UsageError(f"{final}: a picture's name ends with .svg or .png")
    nothing: dict[str, Any] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    with atomic_path(final) as temporary, picture_style():
        figure.savefig(
            temporary,
            format=form,
            metadata=nothing[form],
            dpi=DPI if form == "png" else _CLOUD_DPI,
        )


# ---- texts --------------------------------------------------------------------------------------


def drawable(text: str) -> str:
    """Return a text with `?` for what the font has no sign for."""
    signs = _signs()
    return "".join(c if ord(c) in signs else "?" for c in printable(text))


@lru_cache(maxsize=1)
def _signs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(_FONT)).get_charmap())


def amount(value: float) -> str:
    """Return a number for people: three digits that count, or all before the point."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.3g}" if size >= 0.0005 or value == 0 else f"{value:.1e}"


def short_amount(value: float) -> str:
    """Return a number for a cell: at most six characters up to 999 billion."""
    size = abs(value)
    if size < 9_999.5:
        return amount(value)
    for sign, factor in (("k", 1e3), ("M", 1e6)):
        if size < 999.5 * factor:
            return f"{value / factor:.3g}{sign}"
    return f"{value / 1e9:.3g}G"


def halo() -> list[Any]:
    """Return what makes a text readable on top of points."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground="white")]


# ---- the canvas ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Canvas:
    """A figure whose places are pixels from its upper left corner."""

    height: int
    width: int = WIDTH
    figure: Figure = field(init=False)

    def __post_init__(self) -> None:
        """Make the figure; must be called within `picture_style`."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI)
        FigureCanvasAgg(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return new axes at a place."""
        return self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )

    def text(
        self,
        left: float,
        baseline: float,
        text: str,
        size: float = 9,
        *,
        color: str = INK,
        bold: bool = False,
        align: Literal["left", "center", "right"] = "left",
    ) -> Text:
        """Write a line."""
        return self.figure.text(
            left / self.width,
            1 - baseline / self.height,
            text,
            fontsize=size,
            color=color,
            fontweight="bold" if bold else "normal",
            ha=align,
            va="baseline",
        )

    def marker(self, left: float, middle: float, marker: str, color: str, size: float = 7) -> None:
        """Draw a sign of a legend."""
        from matplotlib.lines import Line2D

        self.figure.add_artist(
            Line2D(
                [left / self.width],
                [1 - middle / self.height],
                marker=marker,
                color=color,
                markersize=size,
                markeredgecolor=color if marker in "ox" else "white",
                markeredgewidth=0.9 if marker == "x" else 0.6,
                linestyle="none",
            )
        )


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = 9, bold: bool = False) -> float:
    """Return the width of a line in pixels."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family=[_FONT], size=size, weight="bold" if bold else "normal")
    renderer: Any = RendererAgg
    return float(renderer(16, 16, DPI).get_text_width_height_descent(text, font, False)[0])


def shortened(text: str, width: float, size: float = 9, bold: bool = False) -> str:
    """Return a text that is at most that wide, its middle left out where it is not."""
    if text_width(text, size, bold) <= width:
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters that fit
        kept = (low + high + 1) // 2
        if text_width(_without_middle(text, kept), size, bold) <= width:
            low = kept
        else:
            high = kept - 1
    return _without_middle(text, low)


def _without_middle(text: str, kept: int) -> str:
    tail = kept // 3
    return f"{text[: kept - tail]}…{text[len(text) - tail :] if tail else ''}"


def wrapped(parts: Sequence[str], width: float, size: float = 9) -> list[str]:
    """Return parts joined by a middle dot, broken into lines that are at most that wide."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines.append(shortened(part, width, size))
    return lines


TITLE_SIZE: Final = 12.5
SUBTITLE_SIZE: Final = 8.5
_LINE_HEIGHT: Final = 16
MARGIN: Final = 16


def header_lines(parts: Sequence[str]) -> list[str]:
    """Return the lines under a title."""
    return wrapped(parts, WIDTH - 2 * MARGIN, SUBTITLE_SIZE)


def header_height(lines: Sequence[str]) -> int:
    """Return how much a title with these lines takes, in pixels."""
    return 36 + _LINE_HEIGHT * len(lines)


def draw_header(canvas: Canvas, title: str, lines: Sequence[str]) -> None:
    """Write a title and the lines under it."""
    width = canvas.width - 2 * MARGIN
    shown = shortened(title, width, TITLE_SIZE, bold=True)
    canvas.text(MARGIN, 26, shown, TITLE_SIZE, bold=True)
    for k, line in enumerate(lines):
        canvas.text(MARGIN, 46 + _LINE_HEIGHT * k, line, SUBTITLE_SIZE, color=GREY)
