"""Pictures of a sweep, as matplotlib figures: front, heat map, timeline (docs/plot.md).

They need the extra `plot`; every function here says so where matplotlib is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpabatch.report.pictures.data import (
    Marked,
    NothingToDrawError,
    hpa_key,
    parse_measures,
    shown_unit,
    unit_name,
)
from hpabatch.report.pictures.front import front_figure
from hpabatch.report.pictures.grid import parse_fields
from hpabatch.report.pictures.heatmap import heatmap_figure
from hpabatch.report.pictures.style import FORMATS, require_matplotlib, save_figure
from hpabatch.report.pictures.timeline import Shown, timeline_figure

_LONGEST: Final = 150  # characters of a name; file systems allow 255 bytes

__all__ = [
    "FORMATS",
    "Marked",
    "NothingToDrawError",
    "Shown",
    "file_stem",
    "front_figure",
    "heatmap_figure",
    "hpa_key",
    "parse_fields",
    "parse_measures",
    "require_matplotlib",
    "save_figure",
    "shown_unit",
    "timeline_figure",
    "unit_name",
]


def file_stem(kind: str, parts: Sequence[str], taken: set[str]) -> str:
    """Return the name of a picture's file without its ending, and add it to those taken.

    What is no letter, digit, dot, `=`, `_` or `-` becomes `_`, a `/` a dot.
    """
    text = "-".join([kind, *parts]).replace("/", ".")
    stem = name = re.sub(r"[^A-Za-z0-9._=-]", "_", text)[:_LONGEST]
    number = 1
    while name.lower() in taken:  # (some file systems take a and A for one)
        number += 1
        name = f"{stem}-{number}"
    taken.add(name.lower())
    return name
