"""Charts of the page as Vega-Lite specifications; the page puts their data in.

Datasets are named: `lines` (at, low, high, line), `rules` (at, until, rule), `fleet` (at, size) and
`mark` (at). Colors are those of `hpabatch plot`.
"""

from __future__ import annotations

from typing import Any, Final

from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.recorded import LINES, OTHER, RULES
from hpabatch.report.pictures.timeline import TICK

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
_TIME: Final = {"field": "at", "type": "temporal", "scale": {"type": "utc"}}
_AXIS: Final = {"title": "time (UTC)", "labelOverlap": True, "labelExpr": TICK}
_SIZE: Final = {"title": "replicas", "tickMinStep": 1, "format": "d", "minExtent": 34}


def all_charts(rules: list[str]) -> dict[str, Any]:
    """Return the charts, and the colors in them that the page replaces by its own."""
    return {
        "timeline": timeline(rules),
        "fleet": fleet(),
        "ink": look.INK,
        "quiet": look.GREY,
    }


def timeline(rules: list[str]) -> dict[str, Any]:
    """Return the chart of an HPA: its sizes, and a strip of the rules that made them."""
    names = [line[0] for line in LINES.values()]
    color = {
        "field": "line",
        "type": "nominal",
        "scale": {"domain": names, "range": [line[1] for line in LINES.values()]},
        "legend": {
            "orient": "top",
            "title": None,
            "columns": 5,
            "symbolType": "stroke",
            "symbolOpacity": 1,
            "symbolStrokeWidth": 2.5,
        },
    }
    x = _TIME | {"axis": {"title": None, "labels": False, "ticks": False}}
    y = {"field": "high", "type": "quantitative", "axis": _SIZE}
    layers: list[dict[str, Any]] = [
        {
            "data": {"name": "lines"},
            "transform": [{"filter": f"datum.line == '{name}'"}],
            "mark": {"type": "line", "interpolate": "step-after", "clip": True,
                     "strokeWidth": width, "strokeDash": dash},
            "encoding": {"x": x, "y": y, "color": color},
        }
        for name, _, width, dash in LINES.values()
    ]  # fmt: skip
    band = {
        "data": {"name": "bands"},
        "mark": {"type": "area", "interpolate": "step-after", "clip": True, "opacity": 0.35},
        "encoding": {"x": x, "y": y, "y2": {"field": "low"}, "color": color},
    }
    mark = {
        "data": {"name": "mark"},
        "mark": {"type": "rule", "color": look.VERMILION, "strokeWidth": 1.5, "clip": True},
        "encoding": {"x": x},
    }
    strip = {
        "data": {"name": "rules"},
        "height": 14,
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": _TIME | {"axis": _AXIS},
            "x2": {"field": "until"},
            "color": {
                "field": "rule",
                "type": "nominal",
                "scale": {"domain": rules, "range": [RULES.get(rule, OTHER) for rule in rules]},
                "legend": {
                    "orient": "bottom",
                    "title": "rule that made the decision",
                    "columns": 4,
                },
            },
            "tooltip": [{"field": "rule"}],
        },
    }
    return {
        "$schema": _SCHEMA,
        "vconcat": [{"height": 240, "layer": [band, *layers, mark]}, strip],
        "spacing": 8,
        "resolve": {"scale": {"color": "independent"}},
    }


def fleet() -> dict[str, Any]:
    """Return the chart of the recorded replicas of the whole fleet."""
    return {
        "$schema": _SCHEMA,
        "data": {"name": "fleet"},
        "height": 120,
        "mark": {"type": "area", "interpolate": "step-after", "line": {"color": look.BLUE},
                 "color": look.SKY, "opacity": 0.5},
        "encoding": {
            "x": _TIME | {"axis": _AXIS},
            "y": {"field": "size", "type": "quantitative", "axis": _SIZE},
        },
    }  # fmt: skip
