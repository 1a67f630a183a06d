"""A stretch of time under today's setting and under another one: replicas, demand, saturation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.advise.unit import Array, Mask
from hpabatch.errors import RefusedError, UsageError
from hpabatch.layout.records import I64
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import day_text, length_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_PANEL_HEIGHT: Final = 190
_LEFT: Final = 58
_WIDTH: Final = look.WIDTH - _LEFT - 30
_PANEL_TITLE: Final = 26
_GAP: Final = 14
_BELOW: Final = 64
_LEGEND_HEIGHT: Final = 24
_NEAR_MAX: Final = 1.35  # maxReplicas is drawn up to so many times of what was reached
_DEMAND: Final = "#dfe5ea"


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting of a timeline: its name, what it is ("today", "recommended"), and its maximum.

    `max_replicas` None: not known, or not to be drawn.
    """

    setting: str
    word: str
    max_replicas: int | None = None


def busiest_day(points: pl.DataFrame) -> tuple[int, int]:
    """Return start and end, in ms, of the UTC day with the most demand; of equal ones the first.

    Where no demand is known, the one with the most replicas. `points` are a trajectory's; the
    stretch is cut to where it has any.
    """
    first = points["setting"][0]
    ticks = points.filter(pl.col("setting") == first).sort("ts")
    measure = "demand" if ticks["demand"].max() else "replicas"
    days = (
        ticks.group_by(pl.col("ts").dt.truncate("1d"))
        .agg(pl.col(measure).sum())
        .sort([measure, "ts"], descending=[True, False])
    )
    start = int(days["ts"].dt.timestamp("ms")[0])
    low, high = _ends(points)
    return max(start, low), min(start + DAY_MS, high)


def _ends(points: pl.DataFrame) -> tuple[int, int]:
    """Return start and end of trajectories in ms, the last step included."""
    ts = points["ts"].dt.timestamp("ms").unique().sort().to_numpy()
    step = int(ts[-1] - ts[-2]) if ts.size > 1 else 0
    return int(ts[0]), int(ts[-1]) + step


def timeline_figure(
    points: pl.DataFrame,
    name: str,
    shown: Sequence[Shown],
    *,
    profile: str,
    from_ms: int | None = None,
    length_ms: int | None = None,
) -> Figure:
    """Draw an HPA's replicas and demand under each of some settings, one panel each.

    Args:
        points: trajectories of one HPA (`jobs.sweep.trajectories`).
        name: what the HPA is called.
        shown: the settings in order: today's first, then the other one.
        profile: the rules that they were simulated by.
        from_ms: start, in ms since 1970; None: of the busiest UTC day.
        length_ms: how long; None: a day.

    Raises:
        UsageError: there is nothing of that time, or of a setting; matplotlib is not installed.
    """
    if points.is_empty():
        raise RefusedError(f"{name}: there is nothing to draw: it could not be simulated")
    low, high = _ends(points)
    if from_ms is None and length_ms is None:
        begin, end = busiest_day(points)
        whole = end - begin > 0.9 * DAY_MS and high - low > 1.9 * DAY_MS
        why = f", the busiest day of {(high - low) / DAY_MS:.0f}" if whole else ""
    else:
        begin = busiest_day(points)[0] if from_ms is None else from_ms
        begin, end, why = max(begin, low), min(begin + (length_ms or DAY_MS), high), ""
    ts = pl.col("ts").dt.timestamp("ms")
    some = points.filter((ts >= begin) & (ts < end)).sort("ts")
    if some.is_empty():
        raise UsageError(
            f"{name}: nothing was simulated in that time; it was from {_instant(low)} to "
            f"{_instant(high)} (--from, --for)"
        )
    lines = [_Line.of(some, each, end) for each in shown]
    with look.picture_style():
        return _draw(name, lines, profile, (begin, end), why)


@dataclass(frozen=True, slots=True)
class _Line:
    """A setting's ticks: `at` (T + 1,) their instants and the end; values hold until the next."""

    shown: Shown
    at: I64
    replicas: NDArray[np.int64]
    demand: Array
    saturated: Mask
    pods: Array
    rescales: int

    @classmethod
    def of(cls, points: pl.DataFrame, shown: Shown, end: int) -> _Line:
        """Return a setting's line (UsageError: there is none of it)."""
        rows = points.filter(pl.col("setting") == shown.setting)
        if rows.is_empty():
            raise UsageError(f"there is no trajectory of setting {shown.setting}")
        at = np.append(rows["ts"].dt.timestamp("ms").to_numpy(), end)
        demand = rows["demand"].cast(pl.Float64).to_numpy().copy()
        demand[demand <= 0] = np.nan
        return cls(
            shown,
            at,
            rows["replicas"].cast(pl.Int64).to_numpy(),
            demand,
            rows["saturated"].cast(pl.Boolean).fill_null(False).to_numpy(),
            rows["pods"].cast(pl.Float64).to_numpy(),
            int((rows["desired"] != rows["replicas"]).sum()),
        )

    def facts(self) -> str:
        """Return what it came to in the time that is shown."""
        hours = np.diff(self.at) / _HOUR_MS
        saturated = float(hours[self.saturated].sum() * 60)
        pods = look.amount(float((hours * self.pods).sum()))
        rescales = f"{self.rescales:,} rescale{'s' * (self.rescales != 1)}"
        return f"{pods} pod-hours · {look.amount(saturated)} saturated minutes · {rescales}"


def _draw(
    name: str, lines: Sequence[_Line], profile: str, ends: tuple[int, int], why: str
) -> Figure:
    facts = look.header_lines(
        [
            f"{length_text((ends[1] - ends[0]) / _HOUR_MS)} from {_instant(ends[0])}{why}",
            f"rules of Kubernetes {profile}",
            "simulated",
        ]
    )
    top = look.header_height(facts) + _LEGEND_HEIGHT
    step = _PANEL_TITLE + _PANEL_HEIGHT + _GAP
    canvas = look.Canvas(top + step * len(lines) - _GAP + _BELOW)
    words = " and ".join(dict.fromkeys(_word(line) for line in lines))
    look.draw_header(canvas, f"{look.drawable(name)}: replicas under {words}", facts)
    highest = _highest(lines)
    _draw_legend(canvas, lines, highest, top - 14)
    for k, line in enumerate(lines):
        y = top + step * k + _PANEL_TITLE
        _draw_titles(canvas, line, y - 8)
        axes = canvas.axes(_LEFT, y, _WIDTH, _PANEL_HEIGHT)
        _draw_panel(axes, line, lines[0], ends, highest)
        _set_time(axes, ends, labels=k == len(lines) - 1)
    return canvas.figure


def _word(line: _Line) -> str:
    if line.shown.word == AS_TODAY:
        return "today's setting"
    return f"the {line.shown.word} one"


def _highest(lines: Sequence[_Line]) -> float:
    """Return the upper end of the axes: all of replicas and demand, and a maximum near them."""
    known = [float(np.nanmax(v.demand)) for v in lines if np.isfinite(v.demand).any()]
    reached = max([*known, *(float(v.replicas.max()) for v in lines), 1.0])
    limits = [v.shown.max_replicas for v in lines if v.shown.max_replicas is not None]
    return max([reached, *(m for m in limits if m <= reached * _NEAR_MAX)]) * 1.08


def _draw_titles(canvas: look.Canvas, line: _Line, baseline: float) -> None:
    """Write above a panel what it is of, and what it came to."""
    facts = line.facts()
    word = line.shown.word
    canvas.text(_LEFT, baseline, word, 9.5, bold=True, color=_color(line))
    left = _LEFT + look.text_width(word, 9.5, bold=True) + 8
    room = _LEFT + _WIDTH - left - look.text_width(facts, 8.5) - 16
    if line.shown.setting != word:
        text = look.shortened(look.drawable(line.shown.setting), room, 8.5)
        canvas.text(left, baseline, text, 8.5)
    canvas.text(_LEFT + _WIDTH, baseline, facts, 8.5, color=look.GREY, align="right")


def _color(line: _Line) -> str:
    return look.VERMILION if line.shown.word == AS_TODAY else look.BLUE


def _draw_panel(
    axes: Axes, line: _Line, first: _Line, ends: tuple[int, int], highest: float
) -> None:
    from matplotlib.ticker import MaxNLocator

    pixel = (ends[1] - ends[0]) / _WIDTH
    for begin, end in _stretches(line, pixel):
        axes.axvspan(begin, end, color="#f2c14e", alpha=0.5, linewidth=0, zorder=2.05)
    at, demand = _thinned(line, pixel)
    axes.fill_between(at, demand, step="post", color=_DEMAND, linewidth=0, zorder=2)
    axes.step(at, demand, where="post", color="#8c959f", linewidth=0.7, zorder=2.1)
    if line is not first:
        axes.step(*_changes(first), where="post", color=_color(first), linewidth=0.9,
                  alpha=0.55, zorder=3)  # fmt: skip
    axes.step(*_changes(line), where="post", color=_color(line), linewidth=1.7, zorder=4)
    limit = line.shown.max_replicas
    if limit is not None and limit <= highest:
        axes.axhline(limit, color=look.INK, linestyle=(0, (4, 3)), linewidth=0.9, zorder=3.5)
    axes.set_ylim(0, highest)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel("pods")
    axes.yaxis.set_label_coords(-40 / _WIDTH, 0.5)


def _stretches(line: _Line, pixel: float) -> list[tuple[float, float]]:
    """Return the saturated stretches; such a pixel apart are one, and each is 1.5 pixels wide."""
    found: list[tuple[float, float]] = []
    for k in np.flatnonzero(line.saturated).tolist():
        begin, end = float(line.at[k]), float(line.at[k + 1])
        if found and begin - found[-1][1] <= pixel:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return [(b, max(e, b + 1.5 * pixel)) for b, e in found]


def _thinned(line: _Line, pixel: float) -> tuple[Array, Array]:
    """Return the demand, of each pixel the highest."""
    bins = ((line.at[:-1] - line.at[0]) // max(pixel, 1.0)).astype(np.int64)
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    filled = np.maximum.reduceat(np.nan_to_num(line.demand, nan=-1.0), starts)
    filled[filled < 0] = np.nan
    at = np.append(line.at[starts], line.at[-1]).astype(np.float64)
    return at, np.append(filled, filled[-1])


def _changes(line: _Line) -> tuple[Array, Array]:
    """Return the replicas at the ticks at which they change, and at the end."""
    values = line.replicas.astype(np.float64)
    kept = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    at = np.append(line.at[kept], line.at[-1]).astype(np.float64)
    return at, np.append(values[kept], values[-1])


def _draw_legend(
    canvas: look.Canvas, lines: Sequence[_Line], highest: float, middle: float
) -> None:
    """Say above the panels what lines and areas are."""
    entries: list[tuple[str, str, str]] = [("line", _color(lines[-1]), "replicas")]
    if len(lines) > 1:
        entries = [("line", _color(line), f"replicas, {line.shown.word}") for line in lines]
    if any(np.isfinite(line.demand).any() for line in lines):
        entries.append(("area", _DEMAND, "demand: pods that the work asks for"))
    if any(line.saturated.any() for line in lines):
        entries.append(("area", "#f7d995", "saturated"))
    limits = [line.shown.max_replicas for line in lines]
    if any(limit is not None and limit <= highest for limit in limits):
        entries.append(("dash", look.INK, "maxReplicas"))
    left = float(_LEFT)
    for kind, color, text in entries:
        _draw_sign(canvas, kind, color, left, middle)
        canvas.text(left + 26, middle + 3.5, text, 8, color=look.GREY)
        left += 26 + look.text_width(text, 8) + 20


def _draw_sign(canvas: look.Canvas, kind: str, color: str, left: float, middle: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    x, y = left / canvas.width, 1 - middle / canvas.height
    if kind == "area":
        size = (20 / canvas.width, 10 / canvas.height)
        canvas.figure.add_artist(Rectangle((x, y - size[1] / 2), *size, color=color, linewidth=0))
        return
    more: dict[str, Any] = {"linestyle": (0, (4, 3))} if kind == "dash" else {}
    ends = [x, x + 20 / canvas.width]
    width = 1.0 if kind == "dash" else 2.0
    canvas.figure.add_artist(Line2D(ends, [y, y], color=color, linewidth=width, **more))


# ---- time ---------------------------------------------------------------------------------------

_STEPS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)
)


def _set_time(axes: Axes, ends: tuple[int, int], *, labels: bool) -> None:
    """Give an axis of milliseconds its ticks, at round UTC times."""
    begin, end = ends
    axes.set_xlim(begin, end)
    room = (end - begin) / 9
    days = max(round(room / DAY_MS), 1)
    step = next((s for s in _STEPS_MS if s >= room), days * DAY_MS)
    ticks = list(range(-(-begin // step) * step, end + 1, step))
    texts = [_tick_text(tick, step) for tick in ticks] if labels else [""] * len(ticks)
    axes.set_xticks(ticks, texts)
    if labels:
        axes.set_xlabel("time (UTC)")
    else:
        axes.tick_params(axis="x", length=0)


def _tick_text(at_ms: int, step_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    if step_ms >= DAY_MS:
        return f"{at:%b %d}"
    return f"{at:%H:%M}\n{at:%b %d}" if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"


def _instant(at_ms: int) -> str:
    return day_text(datetime.fromtimestamp(at_ms / 1000, UTC))
