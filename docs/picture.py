"""Draw the README's picture from the demo's decisions (needs matplotlib).

hpabatch replay data/demo --out build/demo/decisions.parquet
python docs/picture.py build/demo/decisions.parquet docs/payments-api.svg
"""

from __future__ import annotations

import sys
from datetime import date

import matplotlib
import matplotlib.dates
import polars as pl
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "hpabatch"  # the same bytes at every run


def draw(decisions: str, out: str) -> None:
    """Draw the last day of one HPA: replicas asked for, allowed and recorded."""
    day = (
        pl.scan_parquet(decisions)
        .filter((pl.col("namespace") == "payments") & (pl.col("hpa") == "api"))
        .filter(pl.col("ts").dt.date() == date(2026, 10, 7))
        .collect()
    )
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.add_subplot()
    ts = day["ts"].to_list()
    axes.step(ts, day["proposal"], where="post", color="#c44", lw=0.8, label="metrics ask for")
    axes.step(ts, day["max_replicas"], where="post", color="#888", ls="--", label="maxReplicas")
    axes.step(ts, day["desired"], where="post", color="#06c", lw=1.6, label="the rules decide")
    axes.set_title("payments/api: held at maxReplicas 8 until the limit was raised at 14:06")
    axes.set_ylabel("replicas")
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    draw(*sys.argv[1:])
