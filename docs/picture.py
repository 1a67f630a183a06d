"""Draw the README's picture from the demo's decisions.

hpabatch replay data/demo --out build/demo/decisions.parquet
python docs/picture.py build/demo/decisions.parquet docs/payments-api.svg
"""

from __future__ import annotations

import sys
from datetime import date
from typing import Final

import altair as alt
import polars as pl

from hpabatch.report.pictures import style as look

LINES: Final = {
    "proposal": ("metrics ask for", look.VERMILION, 1),
    "max_replicas": ("maxReplicas", look.GREY, 1.5),
    "desired": ("the rules decide", look.BLUE, 2),
}


def draw(decisions: str, out: str) -> None:
    """Draw the last day of one HPA: replicas asked for, allowed and decided."""
    day = (
        pl.scan_parquet(decisions)
        .filter((pl.col("namespace") == "payments") & (pl.col("hpa") == "api"))
        .filter(pl.col("ts").dt.date() == date(2026, 10, 7))
        .select(pl.col("ts").dt.timestamp("ms"), *LINES)
        .collect()
    )
    names, colors, _ = zip(*LINES.values(), strict=True)
    layers = []
    for column, (name, _, width) in LINES.items():
        moved = pl.col(column).ne_missing(pl.col(column).shift()) | (pl.col("ts") == day["ts"][-1])
        some = day.filter(moved).select("ts", replicas=column, line=pl.lit(name))
        dash = [4, 3] if column == "max_replicas" else [1, 0]
        line = alt.Chart(look.rows(some.to_dicts())).mark_line(
            interpolate="step-after", strokeWidth=width, strokeDash=dash
        )
        layers.append(
            line.encode(
                x=alt.X("ts:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(
                    labelExpr="utcFormat(datum.value, '%H:%M')", tickCount=9)),
                y=alt.Y("replicas:Q", title="replicas", axis=alt.Axis(tickMinStep=1, format="d")),
                color=alt.Color("line:N", scale=alt.Scale(domain=names, range=colors)),
            )
        )  # fmt: skip
    chart = alt.layer(*layers).properties(width=look.WIDTH, height=230)
    title = "payments/api: held at maxReplicas 8 until the limit was raised at 14:06"
    look.save_chart(look.titled(chart, title, ()), out)


if __name__ == "__main__":
    draw(*sys.argv[1:])
