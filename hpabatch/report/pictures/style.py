"""Style of charts: one configuration of Vega-Lite, texts, and how files are written.

A chart is an Altair chart, that is a Vega-Lite specification; a notebook and a page draw it
themselves, and vl-convert draws it as SVG or PNG without a browser. The same chart has the same
bytes at every run of one version of vl-convert.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpabatch.errors import UsageError
from hpabatch.history.files import atomic_path
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    import altair as alt

WIDTH: Final = 800
"""Pixels of the plot itself; with its axes a picture is what a README shows without scaling."""

_LINE: Final = 138  # characters of a line of facts
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

FORMATS: Final = ("svg", "png")


def require_altair() -> None:
    """Raise a UsageError if the packages that draw are not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"pictures need altair and vl-convert-python, which are not installed ({error}): "
            "pip install 'hpabatch[plot]'"
        ) from error


def rows(values: Iterable[Mapping[str, Any]]) -> alt.InlineData:
    """Return data of a chart, whatever their number; strings cannot end the renderer."""
    import altair as alt

    return alt.InlineData(
        values=[
            {k: printable(v) if isinstance(v, str) else v for k, v in row.items()} for row in values
        ]
    )


def titled(chart: Any, title: str, facts: Sequence[str]) -> Any:
    """Return a chart with the title, the facts below it, and the style of all charts."""
    import altair as alt

    parts = [p for fact in facts for p in textwrap.wrap(printable(fact), _LINE)]
    lines = textwrap.wrap(" · ".join(part.replace(" ", "\0") for part in parts), _LINE)
    lines = [line.replace("\0", " ").removesuffix(" ·") for line in lines]
    text = alt.TitleParams(
        printable(title), subtitle=lines, anchor="start", fontSize=16, subtitleFontSize=11,
        subtitleColor=GREY, color=INK, limit=WIDTH, offset=10,
    )  # fmt: skip
    gray: dict[str, Any] = {"labelColor": GREY, "titleColor": INK, "titleFontWeight": "normal"}
    return (
        chart.properties(title=text, background="white", padding=12)
        .configure_view(strokeWidth=0)
        .configure_axis(gridColor=LINE, domainColor="#8c959f", tickColor="#8c959f", **gray)
        .configure_legend(
            orient="top", title=None, labelColor=GREY, labelLimit=400, offset=4, symbolOpacity=1
        )
    )


def save_chart(chart: Any, path: Path | str) -> None:
    """Write a chart to a file that ends with .svg or .png: whole or not at all.

    Raises:
        UsageError: another ending, a package is missing, or it cannot be written there.
    """
    require_altair()
    import vl_convert

    final = Path(path)
    form = final.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise UsageError(f"{final}: a picture's name ends with .svg or .png")
    known = chart.to_dict()
    asked = ".".join(str(known["$schema"]).rpartition("/v")[2].split(".")[:2])
    versions = vl_convert.get_vegalite_versions()
    version = asked if asked in versions else versions[-1]
    with atomic_path(final) as temporary:
        if form == "svg":
            svg = vl_convert.vegalite_to_svg(known, vl_version=version)
            temporary.write_bytes(_numbered(svg).encode())
        else:
            temporary.write_bytes(vl_convert.vegalite_to_png(known, vl_version=version, scale=1))


def _numbered(svg: str) -> str:
    """Return an SVG whose ids count from 0; the renderer counts on over a process."""
    ids: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return found[1] + ids.setdefault(found[2], f"clip{len(ids)}")

    return re.sub(r'(<[^<>]*?(?:id="|url\(#))(clip\d+)', number, svg)


# ---- texts --------------------------------------------------------------------------------------


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
