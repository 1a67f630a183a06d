"""The heat map: objective and harm over two fields of a sweep's grid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hpabatch.engine.advise.objective import Goal
from hpabatch.engine.advise.unit import Array, Mask
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.model.printable import printable
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import (
    Compared,
    Marked,
    NothingToDrawError,
    compare_settings,
    place_of,
)
from hpabatch.report.pictures.grid import Side, grid_fields, parse_fields, sides_of
from hpabatch.report.pictures.scale import view_of

if TYPE_CHECKING:
    import altair as alt

_CELL_HEIGHT: Final = 32
_LABELS: Final = 190  # pixels of a row's name, at most
_BESIDE: Final = 9  # columns up to which both panels stand side by side
_DARK: Final = 0.5  # from here on a cell's text is white


@dataclass(frozen=True, slots=True)
class _Cells:
    """What cells show: arrays (rows, columns), NaN without any setting.

    `how` says what a cell's value is; `broken`: no setting of it holds the SLO.
    """

    x: Array
    y: Array
    broken: Mask
    how: str


def heatmap_chart(
    result: SweepResult,
    unit: str,
    fields: tuple[str, str],
    *,
    measures: tuple[str, str] | None = None,
    goal: Goal | None = None,
    marked: Marked | None = None,
) -> alt.ConcatChart:
    """Chart objective and harm of a unit over two fields of the grid, in two panels.

    A cell is one setting where these are the only fields. Of several, it is the best one that holds
    the goal's SLOs, in both panels (where none does: the one that breaks them least, struck
    through); without SLOs the mean of all of them. The chart says which.

    Args:
        result: the sweep.
        unit: name of a unit, or NAMESPACE/NAME of an HPA that is one by itself.
        fields: columns and rows.
        measures, goal, marked: as in `front_chart`.

    Raises:
        UsageError: no such unit, measure, setting or field; altair is not installed.
        NothingToDrawError: one setting only, or a measure is not known of any.
    """
    look.require_altair()
    import altair as alt

    fields = parse_fields(result, ",".join(fields))
    compared = compare_settings(result, unit, measures, goal)
    place = place_of(compared, marked)
    columns, rows = sides_of(result, compared.unit, fields)
    inside = (columns.cells >= 0) & (rows.cells >= 0) & compared.known
    if not inside.any():
        raise NothingToDrawError(
            f"{compared.name}: no setting has values of both {fields[0]} and {fields[1]} and of "
            "both measures"
        )
    others = [name for name in grid_fields(result) if name not in fields]
    cells = _cells(compared, columns, rows, inside, goal, others)
    frames = list(_frames(columns, rows, place, marked))
    stacked = len(columns.names) > _BESIDE
    panels = [
        _panel(columns, rows, axis.title, values, cells.broken, frames, colors).properties(
            width=look.WIDTH - 60 if stacked else look.WIDTH / 2 - 50,
            height=max(_CELL_HEIGHT * len(rows.names), 120),
        )
        for axis, values, colors in (
            (compared.x, cells.x, ("#f3f8fd", "#08519c")),
            (compared.y, cells.y, ("#f7f5fa", "#54278f")),
        )
    ]
    chart = alt.concat(*panels, columns=1 if stacked else 2, spacing=24)
    chart = chart.resolve_scale(color="independent")
    facts = list(_facts(compared, columns, rows, cells))
    return look.titled(chart, f"{compared.name}: what {fields[0]} and {fields[1]} change", facts)


def _cells(
    compared: Compared,
    columns: Side,
    rows: Side,
    inside: Mask,
    goal: Goal | None,
    others: list[str],
) -> _Cells:
    shape = (len(rows.names), len(columns.names))
    x, y, broken = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    most = 0
    for r, c in np.ndindex(shape):
        places = np.flatnonzero(inside & (rows.cells == r) & (columns.cells == c))
        most = max(most, places.size)
        if not places.size:
            continue
        if compared.holds is not None and compared.pressure is not None:
            held = places[compared.holds[places]]
            broken[r, c] = not held.size
            order = compared.x.values if held.size else compared.pressure
            places = held if held.size else places
            places = places[[int(np.argmin(order[places]))]]
        x[r, c] = compared.x.values[places].mean()
        y[r, c] = compared.y.values[places].mean()
    return _Cells(x, y, broken, _how(compared, goal, others, most))


def _how(compared: Compared, goal: Goal | None, others: list[str], most: int) -> str:
    if most <= 1:
        return "each cell is one setting"
    rest = " and ".join(others) if others else "all settings of it"
    if compared.holds is not None and goal is not None:
        slos = " and ".join(slo.text for slo in goal.slos)
        return f"each cell: of its settings with {slos} the one of least {compared.x.measure}"
    return f"each cell: mean over {rest} (up to {most:,} settings)"


def _facts(compared: Compared, columns: Side, rows: Side, cells: _Cells) -> Iterator[str]:
    yield cells.how
    yield from compared.facts()
    known = (
        f"{look.amount(v) if np.isfinite(v) else 'unknown'} {axis.title}"
        for axis in (compared.x, compared.y)
        for v in [float(axis.values[0])]
    )
    yield f"today: {', '.join(known)}"
    if columns.today is None or rows.today is None:
        yield "today's values are not in the grid"
    yield "paler is less"
    if cells.broken.any():
        yield "struck through: none of the settings there holds the SLO"
    if np.isnan(cells.x).any():
        yield "–: no setting"


def _frames(
    columns: Side, rows: Side, place: int | None, marked: Marked | None
) -> Iterator[dict[str, Any]]:
    if rows.today is not None and columns.today is not None:
        yield {"row": rows.today, "column": columns.today, "kind": "today's values"}
    if place is not None and marked is not None:
        r, c = int(rows.cells[place]), int(columns.cells[place])
        if r >= 0 and c >= 0:
            yield {"row": r, "column": c, "kind": printable(f"{marked.word} setting")}


def _panel(
    columns: Side,
    rows: Side,
    title: str,
    values: Array,
    broken: Mask,
    frames: list[dict[str, Any]],
    colors: tuple[str, str],
) -> Any:
    """Chart cells with their numbers, and the values of the fields beside them."""
    import altair as alt

    known = values[np.isfinite(values)]
    view, ends = view_of(known, known.tolist()), [float(known.min()), float(known.max())]
    scale: dict[str, Any] = {"type": "symlog", "constant": view.linear} if view.linear else {}
    shade = view.share(np.array([*ends, *values.ravel()]))
    dark = shade[2:] > shade[0] + _DARK * (shade[1] - shade[0])
    data = look.rows(
        {
            "row": r, "column": c, "value": float(v) if np.isfinite(v) else None,
            "text": look.short_amount(float(v)) if np.isfinite(v) else "–",
            "dark": bool(dark[r * values.shape[1] + c]), "broken": bool(broken[r, c]),
        }
        for (r, c), v in np.ndenumerate(values)
    )  # fmt: skip
    names = (columns.names, rows.names)
    axes = [
        alt.Axis(
            title=printable(_side_title(side)), labelAngle=0, ticks=False, domain=False, grid=False,
            labelExpr=f"{json.dumps([*map(printable, own)])}[datum.value]", labelLimit=limit,
        )
        for side, own, limit in zip((columns, rows), names, (0, _LABELS), strict=True)
    ]  # fmt: skip
    place: dict[str, Any] = {
        "x": alt.X("column:O", axis=axes[0], scale=alt.Scale(domain=list(range(len(names[0]))))),
        "y": alt.Y("row:O", axis=axes[1],
                   scale=alt.Scale(domain=list(reversed(range(len(names[1])))))),
    }  # fmt: skip
    base = alt.Chart(data).encode(**place)
    fill = alt.Color(
        "value:Q", legend=None, scale=alt.Scale(domain=ends, range=list(colors), **scale)
    )
    kinds = [frame["kind"] for frame in frames]
    layers: list[Any] = [
        base.mark_rect(stroke="white").encode(color=fill, tooltip=["value:Q"]),
        base.transform_filter("datum.broken").mark_rule(color=look.GREY, strokeWidth=0.8).encode(
            x=alt.X("column:O", bandPosition=0), x2=alt.X2("column", bandPosition=1),
            y=alt.Y("row:O", bandPosition=1), y2=alt.Y2("row", bandPosition=0),
        ),
        base.mark_text(fontSize=11 if len(names[0]) <= _BESIDE else 10).encode(
            text="text:N",
            color=alt.condition("datum.dark", alt.value("white"), alt.value(look.INK)),
        ),
    ]  # fmt: skip
    if frames:
        stroke = alt.Scale(
            domain=kinds,
            range=[look.VERMILION if k == "today's values" else look.GREEN for k in kinds],
        )
        layers.append(
            alt.Chart(look.rows(frames)).mark_rect(filled=False, strokeWidth=2.5)
            .encode(**place, stroke=alt.Stroke("kind:N", scale=stroke))
        )  # fmt: skip
    return alt.layer(*layers, title=alt.TitleParams(title, fontSize=12, anchor="start"))


def _side_title(side: Side) -> str:
    """Return a field with the unit of its values."""
    values = [name for name in side.names if name != AS_TODAY]
    if all(name[:1] in ("x", "+", "-", "±") for name in values):
        return f"{side.field} (against today's)"
    if side.field.endswith(".window"):
        return f"{side.field} (s)"
    plain = all(name.replace("–", "").replace(".", "").isdigit() for name in values)
    return f"{side.field} (%)" if side.field == "target" and plain else side.field
