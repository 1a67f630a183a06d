"""The picture of a unit's settings: what each one costs and what harm it does, and the front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hpabatch.engine.advise.objective import Goal
from hpabatch.engine.advise.unit import Array, Mask
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import (
    Axis,
    Compared,
    Marked,
    NothingToDrawError,
    compare_settings,
    place_of,
)
from hpabatch.report.pictures.labels import Box, along, free_spot, spread
from hpabatch.report.pictures.scale import View, set_scale, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS: Final = 8
RASTER_FROM: Final = 500
"""From so many points on the cloud is pixels, even in an SVG: 10,000 paths would be 2 MB."""

_PLOT_HEIGHT: Final = 330
_LEFT: Final = 76
_PLOT_WIDTH: Final = look.WIDTH - _LEFT - 24
_PLOT_SIZE: Final = (_PLOT_WIDTH, _PLOT_HEIGHT)
_AXIS_HEIGHT: Final = 48
_LEGEND_HEIGHT: Final = 24
_ROW_HEIGHT: Final = 19
_BADGE: Final = 15.0  # pixels; labelled points are at least so far apart
_TODAY: Final = 0


def front_figure(
    result: SweepResult,
    unit: str,
    *,
    measures: tuple[str, str] | None = None,
    goal: Goal | None = None,
    marked: Marked | None = None,
) -> Figure:
    """Draw all settings of a unit by objective and harm, and name those on the front.

    Args:
        result: the sweep.
        unit: name of a unit, or NAMESPACE/NAME of an HPA that is one by itself.
        measures: what is on the axes (of `engine.advise.objective.MEASURES`); None: what the goal
            minimizes and its first limit is about, without one the first of saturated_minutes,
            unserved, waiting, short_pod_hours and rescales that is known.
        goal: what is wanted: its SLOs are drawn, and say which settings hold.
        marked: the setting that is recommended or chosen.

    Raises:
        UsageError: no such unit, measure or setting; matplotlib is not installed.
        NothingToDrawError: one setting only, or a measure is not known of any.
    """
    compared = compare_settings(result, unit, measures, goal)
    place = place_of(compared, marked)
    if not compared.known.any():
        raise NothingToDrawError(
            f"{compared.name}: no setting has both {compared.x.measure} and {compared.y.measure}; "
            "name others with --measure"
        )
    with look.picture_style():
        return _draw(compared, place, marked)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the key: a sign, a setting, and what it comes to."""

    place: int
    sign: str
    color: str
    text: str = ""  # in the sign
    label: str = ""  # beside it
    word: str = ""  # before the setting's name


def _draw(compared: Compared, place: int | None, marked: Marked | None) -> Figure:
    front = compared.front()
    special = [k for k in (_TODAY, place) if k is not None]
    views = [_view(axis, compared.known, front, special) for axis in (compared.x, compared.y)]
    order = np.flatnonzero(front)[np.argsort(compared.x.values[front], kind="stable")].tolist()
    labelled = spread(_pixels(compared, views), order, special, MOST_LABELS, _BADGE)
    rows = list(_rows(compared, place, marked, labelled))
    facts = look.header_lines([*_facts(compared, views), *compared.facts()])
    top = look.header_height(facts) + _LEGEND_HEIGHT
    below = top + _PLOT_HEIGHT + _AXIS_HEIGHT
    canvas = look.Canvas(below + 34 + _ROW_HEIGHT * len(rows) + 8)
    look.draw_header(canvas, _title(compared), facts)
    axes = canvas.axes(_LEFT, top, _PLOT_WIDTH, _PLOT_HEIGHT)
    for is_x, view in zip((True, False), views, strict=True):
        set_scale(axes, view, is_x=is_x)
    axes.set_xlabel(compared.x.title + views[0].note)
    axes.set_ylabel(compared.y.title + views[1].note)
    axes.yaxis.set_label_coords((look.MARGIN + 6 - _LEFT) / _PLOT_WIDTH, 0.5)
    _draw_cloud(axes, compared, front)
    covered = _draw_limits(axes, compared, views)
    _draw_front(axes, compared, front)
    _draw_marks(axes, compared, rows)
    _draw_labels(axes, _pixels(compared, views), rows, front, covered)
    _draw_legend(canvas, compared, front, top)
    _draw_key(canvas, compared, rows, below + 14)
    return canvas.figure


def _title(compared: Compared) -> str:
    harm = compared.y.title.split(" per ")[0].split(" (")[0]
    cost = compared.x.title.split(" per ")[0].split(" (")[0]
    return f"{look.drawable(compared.name)}: {cost} against {harm}"


def _facts(compared: Compared, views: Sequence[View]) -> list[str]:
    """Return what is special about this picture."""
    count = int(compared.known.sum())
    parts = [f"{count:,} settings"]
    outside = compared.known & ~(views[0].shows(compared.x.values))
    outside |= compared.known & ~(views[1].shows(compared.y.values))
    if outside.any():
        parts.append(f"{int(outside.sum()):,} of them beyond the edges")
    refused = int((compared.known & ~compared.usable).sum())
    if refused == count:
        parts.append("none of the runs can be relied on")
    elif refused:
        parts.append(f"{refused:,} runs cannot be relied on")
    return parts


def _view(axis: Axis, known: Mask, front: Mask, special: Sequence[int]) -> View:
    core = [*axis.values[front & known], *axis.values[special]]
    core = [value for value in core if np.isfinite(value)]
    limits = [] if axis.limit is None else [axis.limit]
    return view_of(axis.values[known], core, limits)


def _pixels(compared: Compared, views: Sequence[View]) -> Array:
    """Return where settings are within the axes, in pixels from the lower left corner (S, 2)."""
    shares = [v.position(a.values) for v, a in zip(views, (compared.x, compared.y), strict=True)]
    return np.stack(shares, axis=1) * _PLOT_SIZE


def _rows(
    compared: Compared, place: int | None, marked: Marked | None, labelled: Sequence[int]
) -> Iterator[_Row]:
    """Yield the lines of the key: today's setting, the marked one, and those on the front."""
    if place == _TODAY and marked is not None:
        yield _Row(_TODAY, "D", look.VERMILION, word=marked.word, label="today, kept")
    else:
        yield _Row(_TODAY, "D", look.VERMILION, label="today")
        if place is not None and marked is not None:
            yield _Row(place, "*", look.GREEN, word=marked.word, label=marked.word)
    for number, k in enumerate(labelled, 1):
        yield _Row(k, "o", look.BLUE, text=str(number))


# ---- within the axes ----------------------------------------------------------------------------


def _draw_cloud(axes: Axes, compared: Compared, front: Mask) -> None:
    """Draw the settings that others beat, pale; those that hold the SLO are of another colour."""
    many = int(compared.known.sum()) >= RASTER_FROM
    held = np.zeros(front.size, dtype=bool) if compared.holds is None else compared.holds
    rest = compared.known & ~front
    for mask, color, order in ((rest & ~held, look.PALE, 2), (rest & held, look.SKY, 2.1)):
        for usable in (True, False):
            some = mask & (compared.usable == usable)
            if some.any():
                axes.scatter(
                    compared.x.values[some],
                    compared.y.values[some],
                    s=7 if many else 22,
                    marker="o" if usable else "x",
                    c=color,
                    linewidths=0 if usable else 0.9,
                    alpha=0.75 if many else 1.0,
                    zorder=order,
                    rasterized=many,
                )


def _draw_limits(axes: Axes, compared: Compared, views: Sequence[View]) -> list[Box]:
    """Draw the SLOs of what is on the axes; return what their texts cover."""
    members = len(compared.unit.members)
    style: Any = {"color": look.GREY, "linestyle": (0, (5, 3)), "linewidth": 1, "zorder": 3}
    boxes: list[Box] = []
    for axis, view, horizontal in ((compared.x, views[0], False), (compared.y, views[1], True)):
        if axis.limit is None or axis.slo is None:
            continue
        (axes.axhline if horizontal else axes.axvline)(axis.limit, **style)
        text = f"SLO {axis.slo.text}" + (f" × {members} HPAs" if members > 1 else "")
        width = look.text_width(text, 8)
        share = float(view.position(np.array([axis.limit]))[0])
        if horizontal:
            left = _PLOT_WIDTH - 6 - width
            base = share * _PLOT_HEIGHT + (-14 if share > 0.93 else 6)
        else:
            left = share * _PLOT_WIDTH + (-width - 7 if share > 0.5 else 7)
            base = _PLOT_HEIGHT - 14.0
        axes.annotate(
            text,
            (left / _PLOT_WIDTH, base / _PLOT_HEIGHT),
            xycoords="axes fraction",
            fontsize=8,
            color=look.GREY,
            zorder=7,
            path_effects=look.halo(),
        )
        boxes.append((left - 3, base - 4, left + width + 3, base + 12))
    return boxes


def _draw_front(axes: Axes, compared: Compared, front: Mask) -> None:
    """Draw the front as steps: right of and above them every setting is beaten by one on it."""
    order = np.flatnonzero(front)[np.argsort(compared.x.values[front], kind="stable")]
    x, y = compared.x.values[order], compared.y.values[order]
    axes.plot(x, y, drawstyle="steps-post", color=look.BLUE, linewidth=1.5, zorder=4)
    axes.scatter(x, y, s=20, c=look.BLUE, linewidths=0, zorder=4.5)


def _draw_marks(axes: Axes, compared: Compared, rows: Sequence[_Row]) -> None:
    for row in reversed(rows):
        x, y = compared.x.values[row.place], compared.y.values[row.place]
        if not np.isfinite([x, y]).all():
            continue
        size = {"D": 80, "*": 230, "o": 150}[row.sign]
        axes.scatter(
            [x],
            [y],
            s=size,
            marker=row.sign,
            c=row.color,
            edgecolors="white",
            linewidths=1.1,
            zorder=6 if row.text else 6.5,
            clip_on=False,
        )
        if row.text:
            axes.annotate(
                row.text,
                (x, y),
                ha="center",
                va="center_baseline",
                fontsize=7.5,
                fontweight="bold",
                color="white",
                zorder=6.1,
            )


def _draw_labels(
    axes: Axes, at: Array, rows: Sequence[_Row], front: Mask, covered: Sequence[Box]
) -> None:
    """Write beside today's setting and the marked one what they are, where least is in the way."""
    crowd = np.where(front, 20.0, 1.0)
    crowd[[row.place for row in rows]] = 100.0
    known = np.isfinite(at.sum(axis=1))
    steps = along(at[front & known])
    points = np.concatenate([at[known], steps])
    crowd = np.append(crowd[known], [20.0] * len(steps))
    taken = list(covered)
    for row in rows:
        if not row.label or not known[row.place]:
            continue
        width = look.text_width(row.label, 8.5, bold=True)
        spot, box = free_spot(at[row.place], width, (points, crowd), taken, _PLOT_SIZE)
        taken.append(box)
        axes.annotate(
            row.label,
            (spot[0] / _PLOT_WIDTH, spot[1] / _PLOT_HEIGHT),
            xycoords="axes fraction",
            fontsize=8.5,
            fontweight="bold",
            color=row.color,
            zorder=7,
            path_effects=look.halo(),
        )


# ---- around them --------------------------------------------------------------------------------


def _draw_legend(canvas: look.Canvas, compared: Compared, front: Mask, top: int) -> None:
    """Say above the axes what the signs are."""
    rest, usable, held = compared.known & ~front, compared.usable, compared.holds
    entries = [("o", look.BLUE, "on the front: nothing beats it")]
    if held is None:
        entries += [("o", look.PALE, "beaten by another")] * bool((rest & usable).any())
    else:
        entries += [("o", look.SKY, "beaten, holds the SLO")] * bool((rest & usable & held).any())
        entries += [("o", look.PALE, "beaten, breaks it")] * bool((rest & usable & ~held).any())
    if (rest & ~usable).any():
        entries.append(("x", look.GREY, "run not to be relied on"))
    left, middle = float(_LEFT), top - 14
    for sign, color, text in entries:
        canvas.marker(left + 4, middle, sign, color, 5)
        canvas.text(left + 14, middle + 3.5, text, 8, color=look.GREY)
        left += 14 + look.text_width(text, 8) + 20


def _draw_key(canvas: look.Canvas, compared: Compared, rows: Sequence[_Row], top: float) -> None:
    """Write the labelled settings below the picture, with their numbers."""
    today = (compared.x.values[_TODAY], compared.y.values[_TODAY])
    right = canvas.width - 20
    columns = (right - 236, right - 56)  # of values; 56 pixels further their change
    heads = [look.shortened(a.title, 172, 8) for a in (compared.x, compared.y)]
    canvas.text(look.MARGIN + 26, top, "setting", 8, color=look.GREY)
    for column, text in zip(columns, heads, strict=True):
        canvas.text(column + 56, top, text, 8, color=look.GREY, align="right")
    for k, row in enumerate(rows):
        base = top + 20 + _ROW_HEIGHT * k
        canvas.marker(
            look.MARGIN + 10,
            base - 4,
            row.sign,
            row.color,
            {"D": 7.5, "*": 13, "o": 11.5}[row.sign],
        )
        if row.text:
            canvas.text(
                look.MARGIN + 10, base - 1, row.text, 7.5, color="white", bold=True, align="center"
            )
        left = look.MARGIN + 26
        if row.word:
            canvas.text(left, base, row.word, 8.5, bold=True)
            left += int(look.text_width(row.word, 8.5, bold=True)) + 8
        _draw_name(canvas, compared, row, (left, base), columns[0] - 70)
        for axis, column, now in zip((compared.x, compared.y), columns, today, strict=True):
            value = float(axis.values[row.place])
            shown = look.amount(value) if np.isfinite(value) else "unknown"
            canvas.text(column, base, shown, 8.5, align="right")
            if row.place != _TODAY:
                text = _change(value, float(now))
                canvas.text(column + 56, base, text, 8.5, color=look.GREY, align="right")


def _draw_name(
    canvas: look.Canvas, compared: Compared, row: _Row, at: tuple[float, float], right: float
) -> None:
    """Write a setting's name, and how many others came to just the same."""
    x, y = compared.x.values, compared.y.values
    others = int(((x == x[row.place]) & (y == y[row.place])).sum()) - 1
    alike = f"and {others:,} alike" if others > 0 else ""
    room = right - at[0] - (look.text_width(alike, 8) + 8 if alike else 0)
    name = look.shortened(look.drawable(compared.names[row.place]), room, 8.5)
    canvas.text(*at, name, 8.5)
    left = at[0] + look.text_width(name, 8.5) + 8
    canvas.text(left, at[1], alike, 8, color=look.GREY)


def _change(value: float, today: float) -> str:
    """Return how a value compares with today's, in percent; "": that says nothing."""
    if not np.isfinite([value, today]).all() or today <= 0:
        return ""
    change = 100 * (value / today - 1)
    if change > 399.5:
        return f"×{value / today:,.0f}"
    return "0%" if abs(change) < 0.5 else f"{change:+.0f}%".replace("-", "−")
