"""The front picture: all settings of a unit by objective and harm, and those that none beats."""

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
from hpabatch.report.pictures.scale import View, set_scale, view_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

MOST_LABELS: Final = 8
RASTER_FROM: Final = 500
"""From so many points on the cloud is pixels, even in an SVG: 10,000 paths would be 2 MB."""

_PLOT_SIZE: Final = (800, 330)  # pixels, about: labelled points are _APART in it
_APART: Final = 15
_AXIS_HEIGHT: Final = 56
_ROW_HEIGHT: Final = 19
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
            above_100_minutes, unserved, waiting, short_pod_hours and rescales that is known.
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
    from matplotlib.cbook import pts_to_poststep

    front = compared.front()
    special = [k for k in (_TODAY, place) if k is not None]
    views = [_view(axis, compared.known, front, special) for axis in (compared.x, compared.y)]
    order = np.flatnonzero(front)[np.argsort(compared.x.values[front], kind="stable")]
    points = np.stack([compared.x.values, compared.y.values], axis=1)
    labelled = spread(_pixels(points, views), order.tolist(), special, MOST_LABELS, _APART)
    rows = list(_rows(compared, place, marked, labelled))
    heights = [_PLOT_SIZE[1] + _AXIS_HEIGHT, 26 + _ROW_HEIGHT * len(rows)]
    facts, signs = [*_facts(compared, views), *compared.facts()], list(_signs(compared, front))
    figure = look.new_figure(_title(compared), facts, signs, sum(heights), left=76)
    axes, key = figure.subplots(2, height_ratios=heights)
    key.set_axis_off()
    key.set_ylim(len(rows) - 0.2, -1)
    for is_x, view in zip((True, False), views, strict=True):
        set_scale(axes, view, is_x=is_x)
    axes.set_xlabel(compared.x.title + views[0].note)
    axes.set_ylabel(compared.y.title + views[1].note)
    look.freeze_layout(figure)
    key.set_xlim(0, look.WIDTH)
    key.set_position((0, key.get_position().y0, 1, key.get_position().height))
    _draw_cloud(axes, compared, front)
    covered = _draw_limits(axes, compared)
    # Right of and above the front every setting is beaten by one on it.
    steps = np.array(pts_to_poststep(*points[order].T)).T if order.size else points[:0]
    axes.plot(*steps.T, color=look.BLUE, linewidth=1.5, zorder=4)
    axes.scatter(*points[order].T, s=20, c=look.BLUE, linewidths=0, zorder=4.5)
    known = [row for row in rows if np.isfinite(points[row.place]).all()]
    for row in reversed(known):
        _draw_sign(axes, row, *points[row.place])
    for row in known:
        if row.label:
            others = [points[other.place] for other in known if other is not row]
            covered.append(_draw_label(axes, row, points, others, steps, covered))
    _draw_key(key, compared, rows)
    return figure


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


def _signs(compared: Compared, front: Mask) -> Iterator[Artist]:
    """Yield the signs of the legend."""
    from matplotlib.lines import Line2D

    rest, usable, held = compared.known & ~front, compared.usable, compared.holds
    entries = [("o", look.BLUE, "on the front: nothing beats it", front)]
    if held is None:
        entries.append(("o", look.PALE, "beaten by another", rest & usable))
    else:
        entries.append(("o", look.SKY, "beaten, holds the SLO", rest & usable & held))
        entries.append(("o", look.PALE, "beaten, breaks it", rest & usable & ~held))
    entries.append(("x", look.GREY, "run not to be relied on", rest & ~usable))
    for marker, color, label, some in entries:
        if some.any():
            yield Line2D([], [], marker=marker, color=color, markersize=5, linestyle="none",
                         label=label)  # fmt: skip


def _view(axis: Axis, known: Mask, front: Mask, special: Sequence[int]) -> View:
    core = [*axis.values[front & known], *axis.values[special]]
    core = [value for value in core if np.isfinite(value)]
    limits = [] if axis.limit is None else [axis.limit]
    return view_of(axis.values[known], core, limits)


def _pixels(points: Array, views: Sequence[View]) -> Array:
    """Return where points (S, 2) stand in axes of about the size of the picture's."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    for is_x, view in zip((True, False), views, strict=True):
        set_scale(axes, view, is_x=is_x)
    shares: Array = (axes.transScale + axes.transLimits).transform(points)
    return shares * _PLOT_SIZE


def spread(
    at: Array, order: Sequence[int], taken: Sequence[int], most: int, apart: float
) -> list[int]:
    """Return the points to name: both ends of `order`, then those farthest apart.

    Points at (N, 2) places; all chosen are `apart` from each other and from those taken.
    """

    def far(place: int) -> float:
        others = [k for k in (*taken, *chosen) if known[k]]
        return float(min((np.hypot(*(at[k] - at[place])) for k in others), default=np.inf))

    known: Mask = np.isfinite(at.sum(axis=1))
    left = [k for k in order if k not in taken and known[k]]
    chosen: list[int] = []
    for k in dict.fromkeys([*left[:1], *left[-1:]]):
        if far(k) >= apart:
            chosen.append(k)
    while len(chosen) < most:
        best = max((k for k in left if k not in chosen), key=far, default=None)
        if best is None or far(best) < apart:
            break
        chosen.append(best)
    return sorted(chosen, key=left.index)


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


def _draw_limits(axes: Axes, compared: Compared) -> list[Bbox]:
    """Draw the SLOs of what is on the axes; return what their texts cover."""
    members = len(compared.unit.members)
    style: Any = {"color": look.GREY, "linestyle": (0, (5, 3)), "linewidth": 1, "zorder": 3}
    boxes: list[Bbox] = []
    for axis, upright in ((compared.x, True), (compared.y, False)):
        if axis.limit is None or axis.slo is None:
            continue
        (axes.axvline if upright else axes.axhline)(axis.limit, **style)
        share = axes.transAxes.inverted().transform(axes.transData.transform([axis.limit] * 2))
        text = f"SLO {axis.slo.text}" + (f" × {members} HPAs" if members > 1 else "")
        if upright:
            at, before = (float(share[0]), 1.0), share[0] > 0.5
            place: Any = {"ha": "right" if before else "left", "va": "top"}
            offset = (-5 if before else 5, -2)
        else:
            at, below = (1.0, float(share[1])), share[1] > 0.93
            place = {"ha": "right", "va": "top" if below else "bottom"}
            offset = (-4, -3 if below else 3)
        note = axes.annotate(
            text, at, offset, xycoords="axes fraction", textcoords="offset points", fontsize=8,
            color=look.GREY, zorder=7, path_effects=look.halo(), **place,
        )  # fmt: skip
        boxes.append(note.get_window_extent().padded(3))
    return boxes


def _draw_sign(axes: Axes, row: _Row, x: float, y: float) -> None:
    """Draw the sign of a row: on the front's axes, or in the key."""
    size = {"D": 80, "*": 230, "o": 150}[row.sign]
    axes.scatter(
        [x], [y], s=size, marker=row.sign, c=row.color, edgecolors="white", linewidths=1.1,
        zorder=6 if row.text else 6.5, clip_on=False,
    )  # fmt: skip
    if row.text:
        axes.text(x, y, row.text, ha="center", va="center_baseline", fontsize=7.5,
                  fontweight="bold", color="white", zorder=6.1)  # fmt: skip


_SPOTS: Final = tuple(
    spot
    for gap in (8, 14, 22)
    for spot in (
        ((gap, 0), "left", "center"), ((-gap, 0), "right", "center"),
        ((0, gap), "center", "bottom"), ((0, -gap), "center", "top"),
        ((gap, gap), "left", "bottom"), ((gap, -gap), "left", "top"),
        ((-gap, gap), "right", "bottom"), ((-gap, -gap), "right", "top"),
    )
)  # fmt: skip
"""Places of a label beside its sign (points), the preferred one first."""


def _draw_label(
    axes: Axes,
    row: _Row,
    points: Array,
    signs: Sequence[Array],
    steps: Array,
    covered: Sequence[Bbox],
) -> Bbox:
    """Write beside a sign what it is, where least is in the way; return what the text covers."""
    from matplotlib.path import Path

    note = axes.annotate(
        row.label, tuple(points[row.place]), (0, 0), textcoords="offset points", fontsize=8.5,
        fontweight="bold", color=row.color, zorder=7, path_effects=look.halo(),
    )  # fmt: skip
    known = points[np.isfinite(points).all(axis=1)]
    crowd, marks = (axes.transData.transform(np.reshape(p, (-1, 2))) for p in (known, signs))
    line = Path(axes.transData.transform(steps)) if len(steps) else None

    def move(spot: tuple[tuple[int, int], str, str]) -> Bbox:
        note.set_position(spot[0])
        note.set(ha=spot[1], va=spot[2])
        return note.get_window_extent().padded(4)

    def cost(spot: tuple[tuple[int, int], str, str]) -> float:
        box = move(spot)
        if not all(axes.bbox.contains(*corner) for corner in (box.min, box.max)):
            return 1e9
        found = 1e6 * box.count_overlaps(covered) + 100 * box.padded(6).count_contains(marks)
        found += 20 * (line is not None and line.intersects_bbox(box, filled=False))
        return float(found + box.count_contains(crowd) + 0.5 * _SPOTS.index(spot))

    return move(min(_SPOTS, key=cost))


def _draw_key(axes: Axes, compared: Compared, rows: Sequence[_Row]) -> None:
    """Write the labelled settings below the picture, with their numbers; x is in pixels."""
    right = look.WIDTH - 20
    measures = [(compared.x, right - 180), (compared.y, right)]
    small: Any = {"va": "center_baseline", "fontsize": 8, "color": look.GREY}
    normal: Any = {"va": "center_baseline", "fontsize": 8.5}
    axes.text(look.MARGIN + 26, -1, "setting", **small)
    for axis, end in measures:
        axes.text(end, -1, look.shortened(axis.title, 172, 8), ha="right", **small)
    for k, row in enumerate(rows):
        _draw_sign(axes, row, look.MARGIN + 10, k)
        left = look.MARGIN + 26.0
        others = _alike(compared, row.place)
        alike = f"and {others:,} alike" if others else ""
        room = measures[0][1] - 126 - left - look.text_width(alike, 8)
        room -= look.text_width(row.word, 8.5, bold=True)
        name = look.shortened(look.drawable(compared.names[row.place]), room, 8.5)
        for text, style in ((row.word, normal | {"fontweight": "bold"}), (name, normal),
                            (alike, small)):  # fmt: skip
            if text:
                axes.text(left, k, text, **style)
                left += 8 + look.text_width(text, style["fontsize"], "fontweight" in style)
        for axis, end in measures:
            value = float(axis.values[row.place])
            shown = look.amount(value) if np.isfinite(value) else "unknown"
            axes.text(end - 56, k, shown, ha="right", **normal)
            if row.place != _TODAY:
                change = _change(value, float(axis.values[_TODAY]))
                axes.text(end, k, change, ha="right", **normal | {"color": look.GREY})


def _alike(compared: Compared, place: int) -> int:
    """Return how many other settings came to just the same."""
    x, y = compared.x.values, compared.y.values
    return max(int(((x == x[place]) & (y == y[place])).sum()) - 1, 0)


def _change(value: float, today: float) -> str:
    """Return how a value compares with today's, in percent; "": that says nothing."""
    if not np.isfinite([value, today]).all() or today <= 0:
        return ""
    change = 100 * (value / today - 1)
    if change > 399.5:
        return f"×{value / today:,.0f}"
    return "0%" if abs(change) < 0.5 else f"{change:+.0f}%".replace("-", "−")
