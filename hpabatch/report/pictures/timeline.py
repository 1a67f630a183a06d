"""The timeline: replicas, demand and saturation under today's setting and under another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.printable import printable
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import NothingToDrawError, day_text, length_text

if TYPE_CHECKING:
    import altair as alt

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_PANEL_HEIGHT: Final = 200
NEAR_MAX: Final = 1.35  # maxReplicas is drawn up to so many times of what was reached
_DEMAND: Final = ("demand: pods that the work asks for", "#dfe5ea")
_SATURATED: Final = ("saturated", "#f2c14e")
_LIMIT: Final = "maxReplicas"
TICK: Final = (
    "utchours(datum.value) || utcminutes(datum.value) "
    "? utcFormat(datum.value, '%H:%M') : utcFormat(datum.value, '%b %d')"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting of a timeline: its name, what it is ("today", "recommended"), and its maximum.

    `max_replicas` None: not known, or not to be drawn; `changes`: what it changes, in words.
    """

    setting: str
    word: str
    max_replicas: int | None = None
    changes: str = ""


class Stretch(NamedTuple):
    """The time that a chart shows: start and end in ms since 1970, and why it is that one."""

    from_ms: int
    to_ms: int
    why: str = ""

    @property
    def words(self) -> str:
        """Its length and its start."""
        length = length_text((self.to_ms - self.from_ms) / _HOUR_MS)
        return f"{length} from {_instant(self.from_ms)}{self.why}"

    def axis(self, **more: Any) -> alt.X:
        """Return the time axis of rows with `ts` in ms; `more` as in `alt.Axis`."""
        import altair as alt

        ends, told = [self.from_ms, self.to_ms], {"title": "time (UTC)", "labelExpr": TICK}
        scale = alt.Scale(type="utc", domain=ends, nice=False)
        return alt.X("ts:T", scale=scale, axis=alt.Axis(**told | more))


def stretch_of(
    ticks: pl.DataFrame, measure: str, name: str, from_ms: int | None, length_ms: int | None
) -> Stretch:
    """Return the time to show of ticks (columns ts and a measure), cut to where there are any.

    Without a start and a length it is the UTC day with the most of the measure, of equal ones the
    first.

    Raises:
        NothingToDrawError: there is nothing of that time.
    """
    ts = pl.col("ts").dt.timestamp("ms")
    known = ticks.select(ts, pl.col(measure).fill_null(0)).sort("ts")
    step = int(known["ts"][-1] - known["ts"][-2]) if known.height > 1 else 1000
    low, high = int(known["ts"][0]), int(known["ts"][-1]) + step
    days = known.group_by(pl.col("ts") // DAY_MS * DAY_MS).agg(pl.col(measure).sum())
    busiest = int(days.sort([measure, "ts"], descending=[True, False])["ts"][0])
    begin = busiest if from_ms is None else from_ms
    begin, end = max(begin, low), min(begin + (length_ms or DAY_MS), high)
    if known.filter(pl.col("ts").is_between(begin, end, closed="left")).is_empty():
        raise NothingToDrawError(
            f"{name}: there is nothing of that time; it is from {_instant(low)} to "
            f"{_instant(high)} (--from, --for)"
        )
    is_day = (from_ms, length_ms) == (None, None) and end - begin > 0.9 * DAY_MS
    whole = is_day and high - low > 1.9 * DAY_MS
    return Stretch(begin, end, f", the busiest day of {(high - low) / DAY_MS:.0f}" if whole else "")


def timeline_chart(
    points: pl.DataFrame,
    name: str,
    shown: Sequence[Shown],
    *,
    profile: str,
    from_ms: int | None = None,
    length_ms: int | None = None,
) -> alt.VConcatChart:
    """Chart an HPA's replicas and demand under each of some settings, one panel each.

    Args:
        points: trajectories of one HPA (`jobs.sweep`).
        name: what the HPA is called.
        shown: the settings in order: today's first, then the other one.
        profile: the rules that they were simulated by.
        from_ms: start, in ms since 1970; None: of the busiest UTC day.
        length_ms: how long; None: a day.

    Raises:
        UsageError: there is nothing of a setting; altair is not installed.
        NothingToDrawError: there is nothing of that time.
    """
    look.require_altair()
    if points.is_empty():
        raise RefusedError(f"{name}: there is nothing to draw: it could not be simulated")
    first = points.filter(pl.col("setting") == points["setting"][0])
    measure = "demand" if first["demand"].max() else "replicas"
    stretch = stretch_of(first, measure, name, from_ms, length_ms)
    ts = pl.col("ts").dt.timestamp("ms")
    some = points.filter(ts.is_between(stretch.from_ms, stretch.to_ms, closed="left")).sort("ts")
    lines = [_Line.of(some, each, stretch.to_ms) for each in shown]
    return _chart(name, lines, profile, stretch)


@dataclass(frozen=True, slots=True)
class _Line:
    """A setting's ticks between `begin` and `end`, as rows of a chart.

    `replicas` are the changes of size and the last one; `demand` of each column of pixels the
    highest, null: unknown; `saturated` the stretches in which a pod was at its ceiling.
    """

    shown: Shown
    replicas: list[dict[str, Any]]
    demand: list[dict[str, Any]]
    saturated: list[dict[str, Any]]
    facts: str

    @classmethod
    def of(cls, points: pl.DataFrame, shown: Shown, end: int) -> _Line:
        """Return a setting's line (UsageError: there is none of it)."""
        ticks = points.filter(pl.col("setting") == shown.setting).select(
            pl.col("ts").dt.timestamp("ms"),
            pl.col("replicas", "desired").cast(pl.Int64),
            pl.col("pods").cast(pl.Float64),
            pl.col("demand").cast(pl.Float64),
            pl.col("saturated").cast(pl.Boolean),
        )
        if ticks.is_empty():
            raise UsageError(f"there is no trajectory of setting {shown.setting}")
        until = pl.col("ts").shift(-1, fill_value=end)
        ticks = ticks.with_columns(until=until, hours=(until - pl.col("ts")) / _HOUR_MS)
        hours = pl.col("hours")
        pod_hours, minutes = ticks.select(
            (hours * pl.col("pods")).sum(), minutes=hours.filter("saturated").sum() * 60
        ).row(0)
        rescales = int((ticks["desired"] != ticks["replicas"]).sum())
        is_open = ticks["saturated"].null_count() == ticks.height
        facts = [
            f"{look.amount(pod_hours)} pod-hours",
            "ceiling open" if is_open else f"{look.amount(minutes)} saturated minutes",
            f"{rescales:,} rescale{'s' * (rescales != 1)}",
        ]
        first = int(ticks["ts"][0])
        column = max((end - first) / look.WIDTH, 1.0)
        by_column = ticks.group_by(at=(pl.col("ts") - first) // column, maintain_order=True)
        highest = pl.col("demand").max()
        demand = by_column.agg(pl.col("ts").first(), highest).select(
            "ts", pl.when(pl.col("demand") > 0).then("demand")
        )
        demand = pl.concat([demand, demand.tail(1).with_columns(ts=pl.lit(end))])
        spans = ticks.with_columns(span=pl.col("saturated").fill_null(False).rle_id())
        saturated = spans.filter("saturated").group_by("span", maintain_order=True).agg(
            pl.col("ts").first(), pl.col("until").last()
        )  # fmt: skip
        moved = pl.col("replicas").ne_missing(pl.col("replicas").shift())
        sizes = ticks.filter(moved).select("ts", "replicas")
        last = pl.DataFrame({"ts": [end], "replicas": [ticks["replicas"][-1]]})
        return cls(
            shown,
            pl.concat([sizes, last]).to_dicts(),
            demand.to_dicts() if demand["demand"].count() else [],
            saturated.select("ts", "until").to_dicts(),
            " · ".join(facts),
        )

    @property
    def color(self) -> str:
        """The color of its replicas."""
        return look.VERMILION if self.shown.word == AS_TODAY else look.BLUE

    @property
    def title(self) -> str:
        """What the replicas of it are called."""
        return printable(f"replicas, {self.shown.word}")


def _chart(name: str, lines: Sequence[_Line], profile: str, stretch: Stretch) -> alt.VConcatChart:
    import altair as alt

    facts = [stretch.words, f"rules of Kubernetes {profile}", "simulated"]
    words = " and ".join(dict.fromkeys(_word(line) for line in lines))
    colors = {line.title: line.color for line in lines}
    if any(line.demand for line in lines):
        colors[_DEMAND[0]] = _DEMAND[1]
    if any(line.saturated for line in lines):
        colors[_SATURATED[0]] = _SATURATED[1]
    highest = _highest(lines)
    if any((line.shown.max_replicas or highest + 1) <= highest for line in lines):
        colors[_LIMIT] = look.INK
    panels = [_panel(line, lines[0], stretch, highest, colors) for line in lines]
    chart = alt.vconcat(*panels, spacing=14)
    return look.titled(chart, f"{name}: replicas under {words}", facts)


def _word(line: _Line) -> str:
    if line.shown.word == AS_TODAY:
        return "today's setting"
    return f"the {line.shown.word} one"


def _highest(lines: Sequence[_Line]) -> float:
    """Return the upper end of the axes: all of replicas and demand, and a maximum near them."""
    reached = max(
        1.0,
        *(float(row["replicas"]) for line in lines for row in line.replicas),
        *(row["demand"] or 0.0 for line in lines for row in line.demand),
    )
    limits = [v.shown.max_replicas for v in lines if v.shown.max_replicas is not None]
    return max([reached, *(m for m in limits if m <= reached * NEAR_MAX)]) * 1.08


def _panel(
    line: _Line, first: _Line, stretch: Stretch, highest: float, colors: dict[str, str]
) -> alt.LayerChart:
    """Chart a setting's replicas over demand and saturation, and today's replicas thinly."""
    import altair as alt

    time = stretch.axis()
    pods = {
        "scale": alt.Scale(domain=[0, highest], nice=False),
        "axis": alt.Axis(title="pods", tickMinStep=1, format="d", tickCount=6),
    }
    names = alt.Scale(domain=list(colors), range=list(colors.values()))

    def chart(rows: list[dict[str, Any]], kind: str) -> alt.Chart:
        own = look.rows({**row, "kind": kind} for row in rows)
        return alt.Chart(own).encode(color=alt.Color("kind:N", scale=names))

    def step(own: _Line, **style: Any) -> alt.Chart:
        return (
            chart(own.replicas, own.title)
            .mark_line(interpolate="step-after", clip=True, **style)
            .encode(x=time, y=alt.Y("replicas:Q", **pods))
        )

    layers: list[Any] = []
    if line.demand:
        layers.append(
            chart(line.demand, _DEMAND[0])
            .mark_area(interpolate="step-after", invalid="break-paths-filter-domains", clip=True)
            .encode(x=time, y=alt.Y("demand:Q", **pods))
        )
    if line.saturated:
        layers.append(
            chart(line.saturated, _SATURATED[0])
            .mark_rect(opacity=0.5, clip=True, stroke=_SATURATED[1], strokeWidth=1)
            .encode(x=time, x2="until:T")
        )
    if line is not first:
        layers.append(step(first, strokeWidth=1, opacity=0.6))
    layers.append(step(line, strokeWidth=2))
    limit = line.shown.max_replicas
    if limit is not None and limit <= highest:
        layers.append(
            chart([{"replicas": limit}], _LIMIT)
            .mark_rule(strokeDash=[4, 3])
            .encode(y=alt.Y("replicas:Q", **pods))
        )
    word = printable(line.shown.word)
    told = printable(line.shown.changes or line.shown.setting)
    is_named = line.shown.setting != line.shown.word
    title = alt.TitleParams(
        f"{word}: {told}" if is_named else word, subtitle=line.facts, color=line.color, fontSize=12,
        anchor="start", subtitleColor=look.GREY, limit=look.WIDTH,
    )  # fmt: skip
    return alt.layer(*layers).properties(title=title, width=look.WIDTH, height=_PANEL_HEIGHT)


def _instant(at_ms: int) -> str:
    return day_text(datetime.fromtimestamp(at_ms / 1000, UTC))
