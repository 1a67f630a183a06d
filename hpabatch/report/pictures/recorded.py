"""The timeline of a recording: what the metrics asked for, the rules decide and was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.report.numbers import percent
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import NothingToDrawError
from hpabatch.report.pictures.timeline import NEAR_MAX, stretch_of

if TYPE_CHECKING:
    import altair as alt

_HEIGHT: Final = 230
LINES: Final[dict[str, tuple[str, str, float, list[int]]]] = {
    "applied": ("recorded", look.SKY, 6, [1, 0]),
    "proposal": ("metrics ask for", look.VERMILION, 1, [1, 0]),
    "max_replicas": ("maxReplicas", look.INK, 1, [5, 3]),
    "min_replicas": ("minReplicas", look.GREY, 1.5, [1, 3]),
    "desired": ("the rules decide", look.BLUE, 2, [1, 0]),
}
RULES: Final = {
    "metric": look.PALE,
    "tolerance": look.LINE,
    "window_up": "#a5d8f3",
    "window_down": "#56b4e9",
    "policy_up": "#66c2a5",
    "policy_down": "#007a5a",
    "min": "#f0e442",
    "max": look.VERMILION,
    "invalid_metric": "#cc79a7",
}
OTHER: Final = look.GREY
"""Color of the rules that are rare."""


def recorded_chart(
    decisions: pl.DataFrame,
    name: str,
    *,
    profile: str,
    from_ms: int | None = None,
    length_ms: int | None = None,
) -> alt.VConcatChart:
    """Chart an HPA's sizes over time, with the rule that made each decision as a strip below.

    Args:
        decisions: those of one HPA, as a replay has them.
        name: what the HPA is called.
        profile: the rules that they were decided by.
        from_ms: start, in ms since 1970; None: of the UTC day on which the metrics asked for most.
        length_ms: how long; None: a day.

    Raises:
        UsageError: altair is not installed.
        NothingToDrawError: there are no decisions, or none of that time.
    """
    look.require_altair()
    import altair as alt

    if decisions.is_empty():
        raise NothingToDrawError(f"{name}: there is nothing to draw: it could not be replayed")
    stretch = stretch_of(decisions, "proposal", name, from_ms, length_ms)
    ts = pl.col("ts").dt.timestamp("ms")
    inside = ts.is_between(stretch.from_ms, stretch.to_ms, closed="left")
    ticks = decisions.filter(inside).select(ts, *LINES, "binding").sort("ts")
    highest: dict[str, int] = ticks.select(pl.col(*LINES).max()).to_dicts()[0]
    reached = max(*(highest[name] or 0 for name in ("applied", "proposal", "desired")), 1)
    lowest = min(ticks["max_replicas"].drop_nulls().to_list(), default=0)
    shown = {
        column: line
        for column, line in LINES.items()
        if highest[column] is not None
        and (column != "max_replicas" or lowest <= NEAR_MAX * reached)
    }
    if not shown:
        raise NothingToDrawError(f"{name}: no size is known of that time")
    names, colors, _, dashes = (list(column) for column in zip(*shown.values(), strict=True))
    style = {
        "color": alt.Color("line:N", scale=alt.Scale(domain=names, range=colors)),
        "strokeDash": alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes)),
    }
    most = max(reached, highest["min_replicas"] or 0, lowest if "max_replicas" in shown else 0)
    y = alt.Y(
        "size:Q",
        scale=alt.Scale(domain=[0, 1.08 * most], nice=False),
        axis=alt.Axis(title="replicas", tickMinStep=1, format="d", tickCount=6),
    )
    layers = [
        alt.Chart(look.rows(_steps(ticks, column, stretch.to_ms, label)))
        .mark_line(
            interpolate="step-after",
            invalid="break-paths-show-domains",
            clip=True,
            strokeWidth=wide,
        )
        .encode(x=stretch.axis(title=None, labels=False), y=y, **style)
        for column, (label, _, wide, _) in shown.items()
    ]
    plot = alt.layer(*layers).properties(width=look.WIDTH, height=_HEIGHT)
    chart = alt.vconcat(plot, _strip(ticks, stretch.to_ms, stretch.axis()), spacing=8)
    facts = [stretch.words, f"rules of Kubernetes {profile}", *_facts(ticks)]
    return look.titled(chart, f"{name}: what the metrics ask for, the rules decide", facts)


def _facts(ticks: pl.DataFrame) -> list[str]:
    both = ticks.filter(pl.col("applied").is_not_null() & pl.col("desired").is_not_null())
    moved = int((both["applied"] != both["applied"].shift()).sum())
    told = [f"{moved:,} recorded rescale{'s' * (moved != 1)}"]
    if both.height:
        same = int((both["applied"] == both["desired"]).sum()) / both.height
        told.append(f"{percent(100 * same, 1)} of the decisions are as recorded")
    return told


def _columns(ticks: pl.DataFrame, to_ms: int) -> pl.Expr:
    """Return the column of pixels of each tick."""
    first = int(ticks["ts"][0])
    return (pl.col("ts") - first).floordiv(max((to_ms - first) / look.WIDTH, 1.0))


def _steps(ticks: pl.DataFrame, column: str, to_ms: int, label: str) -> list[dict[str, Any]]:
    """Return the changes of a size, and where it ends; null: not known.

    Of more changes than the pixels show it is the highest size of each column.
    """
    sizes = ticks.select("ts", size=column)
    moved = pl.col("size").ne_missing(pl.col("size").shift()) | (pl.int_range(pl.len()) == 0)
    if int(sizes.select(moved.sum()).item()) > 2 * look.WIDTH:
        by_column = sizes.group_by(at=_columns(ticks, to_ms), maintain_order=True)
        sizes = by_column.agg(pl.col("ts").first(), pl.col("size").max()).drop("at")
    last = pl.DataFrame({"ts": [to_ms], "size": [sizes["size"][-1]]}, schema=sizes.schema)
    sizes = pl.concat([sizes, last])
    # A line ends with the last known point before a gap: the size stands at the gap's start, too.
    ends = pl.col("size").is_null() & pl.col("size").shift().is_not_null()
    kept = sizes.with_columns(before=pl.col("size").shift(), ends=ends).filter(
        moved | (pl.int_range(pl.len()) == pl.len() - 1)
    )
    found: list[dict[str, Any]] = []
    for row in kept.iter_rows(named=True):
        if row["ends"]:
            found.append({"ts": row["ts"], "size": row["before"], "line": label})
        found.append({"ts": row["ts"], "size": row["size"], "line": label})
    return found


def _strip(ticks: pl.DataFrame, to_ms: int, time: Any) -> alt.Chart:
    """Chart the rule that made the decision, of each column of pixels the most frequent one."""
    import altair as alt

    counts = ticks.group_by("binding", at=_columns(ticks, to_ms)).agg(
        pl.col("ts").min(), count=pl.len()
    )
    most = pl.col("binding").sort_by("count", "ts", descending=[True, False]).first()
    rules = counts.group_by("at").agg(pl.col("ts").min(), most).sort("ts")
    rules = rules.filter(pl.col("binding").ne_missing(pl.col("binding").shift()))
    rules = rules.select("ts", until=pl.col("ts").shift(-1, fill_value=to_ms), rule="binding")
    there = set(rules["rule"].drop_nulls())
    found = [*(rule for rule in RULES if rule in there), *sorted(there - set(RULES))]
    scale = alt.Scale(domain=found, range=[RULES.get(rule, OTHER) for rule in found])
    legend = alt.Legend(orient="bottom", title="rule that made the decision")
    return (
        alt.Chart(look.rows(rules.to_dicts()))
        .mark_rect()
        .encode(
            x=time, x2="until:T",
            fill=alt.Fill("rule:N", scale=scale, legend=legend),
            tooltip=["rule:N"],
        )
        .properties(width=look.WIDTH, height=14)
    )  # fmt: skip
