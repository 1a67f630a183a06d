"""The page as HTML: a template with autoescape, style, script, charts and data in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hpabatch.model.printable import printable_json
from hpabatch.report.numbers import amount, number
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.recorded import LINES, RULES
from hpabatch.report.pictures.timeline import TICK

VEGA_SHA256: Final = "a41ac86468b106921c0a5b0d49b330c3036dafff7fba9d4018a49e712d89c468"
"""Checksum of vega.js, as `python -m benchmarks.vega` makes it."""
_ASSETS: Final = files("hpabatch.report.page") / "assets"
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
    "script-src 'unsafe-inline' 'unsafe-eval'"
)
"""No request to anywhere. Vega compiles the expressions of a chart (`unsafe-eval`)."""
_LOOKS: Final = {
    "lines": LINES,
    "rules": RULES,
    "simulated": {
        "applied": LINES["applied"],
        "today": ("today, simulated", look.INK, 1.5, [1, 0]),
        "recommended": ("recommended, simulated", look.BLUE, 2, [1, 0]),
    },
    "ink": look.INK,
    "quiet": look.GREY,
    "blue": look.BLUE,
    "sky": look.SKY,
    "tick": TICK,
}
"""Colors and words that the page's charts share with `hpabatch plot`."""
_APART: Final = ("timelines", "moments")
"""Parts of the document with an element for each HPA, which is parsed when it is looked at."""


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of a document; equal documents give equal bytes."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "amount": amount}
    template = environment.from_string(_read("page.html"))
    whole = {name: value for name, value in document.items() if name not in _APART}
    return template.render(
        told=document,
        style=Markup(_read("page.css")),  # noqa: S704 (our own files)
        script=Markup(_read("page.js")),  # noqa: S704
        vega=Markup(_read("vega.js")),  # noqa: S704
        policy=_POLICY,
        charts=json_element(_LOOKS),
        data=json_element(whole),
        parts={name: [json_element(part) for part in document[name]] for name in _APART},
    )


def json_element(value: object) -> Markup:
    """Return compact JSON that is safe inside of a script element: no `<` can end it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    escaped = printable_json(text).replace("<", "\\u003c")
    return Markup(escaped.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704


def _read(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
