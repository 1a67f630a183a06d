"""The timeline: replicas, demand and saturation under today's setting and under another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.advise.unit import Array, Mask
from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import day_text, length_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Times = NDArray[np.datetime64]

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_PANEL_HEIGHT: Final = 235
_COLUMNS: Final = 800  # of pixels; areas are drawn of each one
_NEAR_MAX: Final = 1.35  # maxReplicas is drawn up to so many times of what was reached
_DEMAND: Final = "#dfe5ea"
_SATURATED: Final = "#f2c14e"


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
        points: trajectories of one HPA (`jobs.sweep`).
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
    """A setting's ticks: `at` (T + 1,) their times and the end; values hold until the next.

    `replicas` (T + 1,) are at these times. `demand`, of each column of pixels the highest (NaN:
    unknown), and `saturated` (C + 1,) are at the times `at_columns`. The last value stands twice.
    """

    shown: Shown
    at: Times
    replicas: NDArray[np.int64]
    at_columns: Times
    demand: Array
    saturated: Mask
    facts: str

    @classmethod
    def of(cls, points: pl.DataFrame, shown: Shown, end: int) -> _Line:
        """Return a setting's line (UsageError: there is none of it)."""
        rows = points.filter(pl.col("setting") == shown.setting)
        if rows.is_empty():
            raise UsageError(f"there is no trajectory of setting {shown.setting}")
        at = np.append(rows["ts"].dt.timestamp("ms").to_numpy(), end)
        replicas = rows["replicas"].cast(pl.Int64).to_numpy()
        demand = rows["demand"].cast(pl.Float64).fill_null(0).to_numpy()
        saturated = rows["saturated"].cast(pl.Boolean).fill_null(False).to_numpy()
        column = max((end - at[0]) / _COLUMNS, 1.0)
        first = np.flatnonzero(np.diff((at[:-1] - at[0]) // column, prepend=-1))
        hours = np.diff(at) / _HOUR_MS
        pod_hours = float((hours * rows["pods"].cast(pl.Float64).to_numpy()).sum())
        rescales = int((rows["desired"] != rows["replicas"]).sum())
        facts = [
            f"{look.amount(pod_hours)} pod-hours",
            "ceiling open"
            if rows["saturated"].null_count() == rows.height
            else f"{look.amount(float(hours[saturated].sum() * 60))} saturated minutes",
            f"{rescales:,} rescale{'s' * (rescales != 1)}",
        ]
        highest = np.maximum.reduceat(demand, first)
        demand = np.where(highest > 0, highest, np.nan)
        saturated = np.maximum.reduceat(saturated, first)
        times = at.astype("datetime64[ms]")
        return cls(
            shown,
            times,
            np.append(replicas, replicas[-1]),
            times[np.append(first, -1)],
            np.append(demand, demand[-1]),
            np.append(saturated, saturated[-1]),
            " · ".join(facts),
        )

    @property
    def color(self) -> str:
        return look.VERMILION if self.shown.word == AS_TODAY else look.BLUE


def _draw(
    name: str, lines: Sequence[_Line], profile: str, ends: tuple[int, int], why: str
) -> Figure:
    facts = [
        f"{length_text((ends[1] - ends[0]) / _HOUR_MS)} from {_instant(ends[0])}{why}",
        f"rules of Kubernetes {profile}",
        "simulated",
    ]
    highest = _highest(lines)
    words = " and ".join(dict.fromkeys(_word(line) for line in lines))
    title = f"{look.drawable(name)}: replicas under {words}"
    height = _PANEL_HEIGHT * len(lines) + 40
    signs = list(_signs(lines, highest))
    figure = look.new_figure(title, facts, signs, height, left=58)
    panels: Any = figure.subplots(len(lines), sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, line in zip(panels, lines, strict=True):
        _draw_panel(axes, line, lines[0], highest)
    panels[0].set_xlim(lines[0].at[0], lines[0].at[-1])
    panels[-1].set_xlabel("time (UTC)")
    return figure


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


def _draw_panel(axes: Axes, line: _Line, first: _Line, highest: float) -> None:
    """Draw a setting's replicas over demand and saturation, and today's replicas thinly."""
    from matplotlib import dates
    from matplotlib.ticker import MaxNLocator

    over: Any = axes.get_xaxis_transform()  # from the lower end to the upper one
    axes.fill_between(line.at_columns, line.saturated.astype(float), step="post", linewidth=0,
                      color=_SATURATED, alpha=0.5, zorder=2.05, transform=over)  # fmt: skip
    axes.fill_between(line.at_columns, line.demand, step="post", color=_DEMAND, linewidth=0,
                      zorder=2)  # fmt: skip
    axes.step(line.at_columns, line.demand, where="post", color="#8c959f", linewidth=0.7,
              zorder=2.1)  # fmt: skip
    if line is not first:
        axes.step(first.at, first.replicas, where="post", color=first.color, linewidth=0.9,
                  alpha=0.55, zorder=3)  # fmt: skip
    axes.step(line.at, line.replicas, where="post", color=line.color, linewidth=1.7, zorder=4)
    limit = line.shown.max_replicas
    if limit is not None and limit <= highest:
        axes.axhline(limit, **_LIMIT, zorder=3.5)
    axes.set_ylim(0, highest)
    axes.set_ylabel("pods")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    locator: Any = dates.AutoDateLocator(minticks=5, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    word = line.shown.word
    title = axes.set_title(word, fontsize=9.5, color=line.color)
    axes.set_title(line.facts, loc="right", fontsize=8.5, color=look.GREY, fontweight="normal")
    if line.shown.setting != word:
        room = look.WIDTH - 110 - look.text_width(word, 9.5, bold=True)
        room -= look.text_width(line.facts, 8.5)
        text = look.shortened(look.drawable(line.shown.setting), room, 8.5)
        axes.annotate(text, (1, 0), (6, 0), xycoords=title, textcoords="offset points",
                      va="bottom", fontsize=8.5)  # fmt: skip


_LIMIT: Final[dict[str, Any]] = {"color": look.INK, "linestyle": (0, (4, 3)), "linewidth": 0.9}


def _signs(lines: Sequence[_Line], highest: float) -> Iterator[Artist]:
    """Yield the signs of the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    for line in lines:
        label = f"replicas, {line.shown.word}" if len(lines) > 1 else "replicas"
        yield Line2D([], [], color=line.color, linewidth=2, label=label)
    if any(np.isfinite(line.demand).any() for line in lines):
        yield Patch(color=_DEMAND, linewidth=0, label="demand: pods that the work asks for")
    if any(line.saturated.any() for line in lines):
        yield Patch(color=_SATURATED, alpha=0.5, linewidth=0, label="saturated")
    limits = [line.shown.max_replicas for line in lines]
    if any(limit is not None and limit <= highest for limit in limits):
        yield Line2D([], [], **_LIMIT, label="maxReplicas")


def _instant(at_ms: int) -> str:
    return day_text(datetime.fromtimestamp(at_ms / 1000, UTC))
