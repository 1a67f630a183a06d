"""The front chart: all settings of a unit by objective and harm, and those that none beats."""

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
from hpabatch.report.pictures.scale import View, view_of

if TYPE_CHECKING:
    import altair as alt

MOST_LABELS: Final = 8
_HEIGHT: Final = 330
_APART: Final = 15  # pixels between labelled points
_GRAIN: Final = 5  # pixels: of points that are nearer one is drawn
_ROW_HEIGHT: Final = 19
_TODAY: Final = 0
_STAR: Final = "M0,-1L.24,-.31L.95,-.31L.38,.12L.59,.81L0,.4L-.59,.81L-.38,.12L-.95,-.31L-.24,-.31Z"
_SIGNS: Final = {"diamond": 160, _STAR: 260, "circle": 240}


def front_chart(
    result: SweepResult,
    unit: str,
    *,
    measures: tuple[str, str] | None = None,
    goal: Goal | None = None,
    marked: Marked | None = None,
) -> alt.VConcatChart:
    """Chart all settings of a unit by objective and harm, and name those on the front.

    Args:
        result: the sweep.
        unit: name of a unit, or NAMESPACE/NAME of an HPA that is one by itself.
        measures: what is on the axes (of `engine.advise.objective.MEASURES`); None: what the goal
            minimizes and its first limit is about, without one the first of saturated_minutes,
            above_100_minutes, unserved, waiting, short_pod_hours and rescales that is known.
        goal: what is wanted: its SLOs are drawn, and say which settings hold.
        marked: the setting that is recommended or chosen.

    Raises:
        UsageError: no such unit, measure or setting; altair is not installed.
        NothingToDrawError: one setting only, or a measure is not known of any.
    """
    look.require_altair()
    import altair as alt

    compared = compare_settings(result, unit, measures, goal)
    place = place_of(compared, marked)
    if not compared.known.any():
        raise NothingToDrawError(
            f"{compared.name}: no setting has both {compared.x.measure} and {compared.y.measure}; "
            "name others with --measure"
        )
    front = compared.front()
    special = [k for k in (_TODAY, place) if k is not None]
    views = tuple(_view(axis, compared.known, front, special) for axis in (compared.x, compared.y))
    order = np.flatnonzero(front)[np.argsort(compared.x.values[front], kind="stable")]
    pixels = _pixels(compared, views)
    labelled = spread(pixels, order.tolist(), special, MOST_LABELS, _APART)
    named = list(_named(compared, place, marked, labelled))
    channels = {
        "x": views[0].axis(alt.X, compared.x.title),
        "y": views[1].axis(alt.Y, compared.y.title),
    }
    line = look.rows(_point(compared, k) for k in order.tolist())
    layers = [
        _cloud(compared, front, pixels).encode(**channels),
        *_limits(compared),
        alt.Chart(line).mark_line(interpolate="step-after", color=look.BLUE, clip=True)
        .encode(**channels, order="x:Q"),
        *(layer.encode(**channels) for layer in _signs(compared, named, pixels)),
    ]  # fmt: skip
    plot = alt.layer(*layers).properties(width=look.WIDTH, height=_HEIGHT)
    chart = alt.vconcat(plot, _key(compared, named), spacing=12)
    harm, cost = (axis.title.split(" per ")[0].split(" (")[0] for axis in (compared.y, compared.x))
    facts = [*_facts(compared, views), *compared.facts()]
    return look.titled(chart, f"{compared.name}: {cost} against {harm}", facts)


@dataclass(frozen=True, slots=True)
class _Named:
    """A setting in the key: its sign, what stands in that and beside it, and a word before."""

    place: int
    sign: str
    color: str
    number: str = ""
    label: str = ""
    word: str = ""


def _named(
    compared: Compared, place: int | None, marked: Marked | None, labelled: Sequence[int]
) -> Iterator[_Named]:
    """Yield today's setting, the marked one, and those on the front."""
    if place == _TODAY and marked is not None:
        yield _Named(_TODAY, "diamond", look.VERMILION, label="today, kept", word=marked.word)
    else:
        yield _Named(_TODAY, "diamond", look.VERMILION, label="today")
        if place is not None and marked is not None:
            yield _Named(place, _STAR, look.GREEN, label=marked.word, word=marked.word)
    for number, k in enumerate(labelled, 1):
        yield _Named(k, "circle", look.BLUE, number=str(number))


def _point(compared: Compared, place: int) -> dict[str, Any]:
    x, y = (float(axis.values[place]) for axis in (compared.x, compared.y))
    return {"x": x, "y": y, "setting": compared.names[place]}


def _view(axis: Axis, known: Mask, front: Mask, special: Sequence[int]) -> View:
    core = [*axis.values[front & known], *axis.values[special]]
    core = [value for value in core if np.isfinite(value)]
    limits = [] if axis.limit is None else [axis.limit]
    return view_of(axis.values[known], core, limits)


def _pixels(compared: Compared, views: Sequence[View]) -> Array:
    """Return where settings (S, 2) stand in the plot."""
    shares = [v.share(a.values) for v, a in zip(views, (compared.x, compared.y), strict=True)]
    return np.stack([shares[0] * look.WIDTH, shares[1] * _HEIGHT], axis=1)


def _facts(compared: Compared, views: Sequence[View]) -> list[str]:
    count = int(compared.known.sum())
    parts = [f"{count:,} settings"]
    inside = views[0].shows(compared.x.values) & views[1].shows(compared.y.values)
    if outside := int((compared.known & ~inside).sum()):
        parts.append(f"{outside:,} of them beyond the edges")
    refused = int((compared.known & ~compared.usable).sum())
    if refused == count:
        parts.append("none of the runs can be relied on")
    elif refused:
        parts.append(f"{refused:,} runs cannot be relied on")
    return parts


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


def _cloud(compared: Compared, front: Mask, pixels: Array) -> alt.Chart:
    """Chart a point of each kind in each grain, the front in blue."""
    import altair as alt

    usable, held = compared.usable | front, compared.holds
    kinds = {"on the front: nothing beats it": ("circle", look.BLUE, front)}
    if held is None:
        kinds["beaten by another"] = ("circle", look.PALE, ~front & usable)
    else:
        kinds["beaten, holds the SLO"] = ("circle", look.SKY, ~front & usable & held)
        kinds["beaten, breaks it"] = ("circle", look.PALE, ~front & usable & ~held)
    kinds["run not to be relied on"] = ("cross", look.GREY, ~usable)
    shown = {name: kind for name, kind in kinds.items() if (kind[2] & compared.known).any()}
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, (_, _, mask) in reversed(shown.items()):
        for k in np.flatnonzero(mask & compared.known).tolist():
            grain = (name, *(pixels[k] // _GRAIN).tolist())
            points.setdefault(grain, _point(compared, k) | {"kind": name})
    names, (signs, colors, _) = list(shown), zip(*shown.values(), strict=True)
    return (
        alt.Chart(look.rows(points.values()))
        .mark_point(filled=True, opacity=1, size=30, clip=True)
        .encode(
            color=alt.Color("kind:N", scale=alt.Scale(domain=names, range=list(colors))),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=names, range=list(signs))),
            tooltip=["setting:N", "x:Q", "y:Q"],
        )
    )


def _limits(compared: Compared) -> Iterator[alt.LayerChart]:
    """Yield the SLOs of what is on the axes."""
    import altair as alt

    members = len(compared.unit.members)
    for axis, channel in ((compared.x, "x"), (compared.y, "y")):
        if axis.limit is None or axis.slo is None:
            continue
        base = alt.Chart(look.rows([{channel: axis.limit}])).encode(**{channel: f"{channel}:Q"})
        text = f"SLO {axis.slo.text}" + (f" × {members} HPAs" if members > 1 else "")
        place: dict[str, Any] = {"y": alt.value(8), "x": "x:Q"}
        if channel == "y":
            place = {"x": alt.value(look.WIDTH - 4), "y": "y:Q"}
        align = {"align": "right", "dx": -5, "dy": -6 if channel == "y" else 0}
        rule = base.mark_rule(strokeDash=[5, 3], color=look.GREY)
        yield rule + base.mark_text(text=text, color=look.GREY, **align).encode(**place)


def _signs(compared: Compared, named: Sequence[_Named], pixels: Array) -> Iterator[alt.Chart]:
    """Yield the signs of the named settings, what is in them and beside them."""
    import altair as alt

    shown = [each for each in named if np.isfinite(pixels[each.place]).all()]
    for sign, size in _SIGNS.items():
        some = [e for e in shown if e.sign == sign]
        if not some:
            continue
        data = look.rows(
            _point(compared, e.place) | {"number": e.number, "label": e.label} for e in some
        )
        kept = some[0]
        base = alt.Chart(data)
        yield base.mark_point(
            filled=True, opacity=1, shape=sign, size=size, color=kept.color, stroke="white",
            strokeWidth=1,
        ).encode(tooltip=["setting:N", "x:Q", "y:Q"])  # fmt: skip
        if kept.number:
            yield base.mark_text(fontSize=10, fontWeight="bold", color="white").encode(
                text="number:N"
            )
            continue
        right = pixels[kept.place, 0] < 0.85 * look.WIDTH
        place: Any = {"align": "left" if right else "right", "dx": 8 if right else -8, "dy": -11}
        for halo in ({"stroke": "white", "strokeWidth": 3}, {"color": kept.color}):
            yield base.mark_text(fontWeight="bold", **place, **halo).encode(text="label:N")


_COLUMNS: Final = (545, 605, 745, 800)
"""Right ends of a measure and its change, for both measures, in pixels."""


def _key(compared: Compared, named: Sequence[_Named]) -> alt.LayerChart:
    """Chart the named settings as a table, with what they come to."""
    import altair as alt

    table = [
        {"row": 0, "name": "setting", "color": look.GREY, "sign": "", "number": ""}
        | {"c0": compared.x.title, "c1": "", "c2": compared.y.title, "c3": ""}
    ]
    for row, each in enumerate(named, 1):
        name = compared.changes(each.place)
        others = _alike(compared, each.place)
        word = f"{each.word}: " if each.word else ""
        cells = {
            "row": row, "number": each.number, "sign": each.sign, "color": look.INK,
            "name": f"{word}{name}" + (f" (and {others:,} alike)" if others else ""),
        }  # fmt: skip
        for k, axis in ((0, compared.x), (2, compared.y)):
            value, today = float(axis.values[each.place]), float(axis.values[_TODAY])
            cells[f"c{k}"] = look.amount(value) if np.isfinite(value) else "unknown"
            cells[f"c{k + 1}"] = _change(value, today) if each.place != _TODAY else ""
        table.append(cells)
    y = alt.Y("row:O", axis=None)
    base, some = alt.Chart(look.rows(table)).encode(y=y), [r for r in table if r["row"]]
    layers: list[Any] = []
    for sign, size in _SIGNS.items():
        colors = [e.color for e in named if e.sign == sign]
        if colors:
            own = alt.Chart(look.rows(r for r in some if r["sign"] == sign)).encode(y=y)
            own = own.encode(x=alt.value(10))
            layers.append(
                own.mark_point(filled=True, opacity=1, shape=sign, size=size * 0.7, color=colors[0])
            )
            layers.append(own.mark_text(color="white", fontSize=9.5, fontWeight="bold").encode(
                text="number:N"))  # fmt: skip
    color = alt.Color("color:N", scale=None)
    text: dict[str, Any] = {"fontSize": 11.5, "baseline": "middle"}
    layers.append(base.mark_text(align="left", limit=450, **text).encode(
        x=alt.value(28), text="name:N", color=color))  # fmt: skip
    for k, end in enumerate(_COLUMNS):
        grey = {"color": look.GREY} if k % 2 else {}
        layers.append(
            base.mark_text(align="right", limit=195, **text, **grey).encode(
                x=alt.value(end), text=f"c{k}:N", **({} if grey else {"color": color})
            )
        )
    return alt.layer(*layers).properties(width=look.WIDTH, height=_ROW_HEIGHT * len(table))


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
