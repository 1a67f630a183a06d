"""Style of pictures: fonts, colors, headers, numbers and texts, and how files are written.

Only `matplotlib.figure.Figure` is used, never pyplot, so nothing global changes and no display is
needed. A picture has the same bytes at every run of one matplotlib version: its own style instead
of the user's, the font that comes with matplotlib, no date, a fixed salt of ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpabatch.errors import UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

WIDTH: Final = 900
"""Pixels: what a README shows without scaling."""

DPI: Final = 100
_CLOUD_DPI: Final = 200  # of what is pixels inside of an SVG
_FONT: Final = "DejaVu Sans"
_LONGEST_STEM: Final = 150  # characters of a file's name; file systems allow 255 bytes

# Okabe and Ito's palette, which color-blind people can tell apart; shapes differ, too.
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
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "legend.fontsize": 8,
    "legend.labelcolor": GREY,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.8,
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
    """Return a text with `?` for characters that the font lacks."""
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


# ---- figures ------------------------------------------------------------------------------------

MARGIN: Final = 16
_LINE_HEIGHT: Final = 16


def new_figure(
    title: str, facts: Sequence[str], signs: Sequence[Artist], height: float, left: float = MARGIN
) -> Figure:
    """Return a figure with a title, facts and a legend of signs; `height` pixels below are free.

    Its layout is constrained to what is free; `left` is where the legend begins. Must be called
    within `picture_style`.
    """
    from matplotlib.figure import Figure

    room = WIDTH - 2 * MARGIN
    lines = wrapped(facts, room, 8.5)
    above = 40 + _LINE_HEIGHT * len(lines) + 22 * bool(signs)
    pixels = above + height
    figure = Figure(figsize=(WIDTH / DPI, round(pixels) / DPI), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - above / pixels), w_pad=0.1, h_pad=0.06)
    x = MARGIN / WIDTH
    figure.text(x, 1 - 26 / pixels, shortened(title, room, 12.5, bold=True), fontsize=12.5,
                fontweight="bold")  # fmt: skip
    for k, line in enumerate(lines):
        y = 1 - (46 + _LINE_HEIGHT * k) / pixels
        figure.text(x, y, line, fontsize=8.5, color=GREY)
    if signs:
        place = (left / WIDTH, 1 - (above - 19) / pixels)
        figure.legend(handles=signs, loc="upper left", bbox_to_anchor=place, ncols=len(signs))
    return figure


def freeze_layout(figure: Figure) -> None:
    """Lay a figure out; what is drawn later moves nothing."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def file_stem(kind: str, parts: Sequence[str], taken: set[str]) -> str:
    """Return the name of a picture's file without its ending, and add it to those taken.

    Characters other than letters, digits, dots, `=`, `_` and `-` become `_`, a `/` a dot.
    """
    text = "-".join([kind, *parts]).replace("/", ".")
    stem = name = re.sub(r"[^A-Za-z0-9._=-]", "_", text)[:_LONGEST_STEM]
    number = 1
    while name.lower() in taken:  # some file systems do not distinguish a from A
        number += 1
        name = f"{stem}-{number}"
    taken.add(name.lower())
    return name
