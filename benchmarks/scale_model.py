"""Measured parts of docs/scale.md: speed with the scale model, and cores for a job.

    python -m benchmarks.scale_speed     # build/scale/speed.json
    python -m benchmarks.scale_model     # writes both parts of the page

The model: work grows with rows and decisions; what the command alone does (planning, putting
together) and what every worker does once (planning) does not get faster with more workers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.readme import replace_part
from benchmarks.scale_speed import RESULT, median_ratio, ratios

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
HPAS, DAYS = 100_000, 365
ROWS = HPAS * DAYS * 1440
DECISIONS = HPAS * DAYS * 5760
CORES = (16, 64, 256)
CORE_HOUR = 0.04
"""Price of a core-hour in dollars: an assumption, of the order of a small machine on demand."""


def work_hours(found: dict[str, Any]) -> dict[str, float]:
    """Return the core-hours of the parts of a replay, and of a sweep of as many settings."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    per_day = seconds["local"] / (sweep["hpas"] * sweep["days"])
    return {
        "replay": replay["work_s"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS / 3600,
        "sweep": per_day * HPAS * DAYS / 3600,
    }


def alone_hours(found: dict[str, Any]) -> dict[str, float]:
    """Return the hours that the command works alone: planning twice, and putting together."""
    wide, replay, swept = found["wide"], found["replay"], found["swept"]
    plan = 2 * wide["plan_s"] / wide["hpas"] * HPAS / 3600
    join = replay["finish_s"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS / 3600
    tables = swept["finish_s"] / swept["hpas"] * HPAS / 3600  # (with one block a setting)
    return {"replay": plan + join, "sweep": plan + tables}


def efficiency(found: dict[str, Any]) -> float:
    """Return the share of a second worker that counts."""
    return min(1 / (2 * median_ratio(found, "dask_2", "dask_1")), 1.0)


def longer(found: dict[str, Any], kind: str) -> str:
    """Return how much longer one worker takes than this process: median and range."""
    low, *_, high = ratios(found, f"{kind}_1", "local")
    middle = median_ratio(found, f"{kind}_1", "local")
    return f"{middle - 1:+.0%} ({low - 1:+.0%} to {high - 1:+.0%})"


def halved(found: dict[str, Any], kind: str) -> str:
    """Return which share of one worker's time two take: median and range."""
    low, *_, high = ratios(found, f"{kind}_2", f"{kind}_1")
    return f"{median_ratio(found, f'{kind}_2', f'{kind}_1'):.2f} ({low:.2f} to {high:.2f})"


def speed_lines(found: dict[str, Any]) -> list[str]:
    """Return the tables of speed and of the model."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    work, alone = work_hours(found), alone_hours(found)
    share = efficiency(found)
    size = replay["bytes_in"] / replay["rows"] * ROWS
    out = replay["bytes"] / (replay["hpas"] * replay["days"]) * HPAS * DAYS
    text = [
        f"Measured on {found['machine']} (`python -m benchmarks.scale_speed`): a sweep of "
        f"{sweep['hpas']} HPAs x {sweep['days']} day x {sweep['settings']} settings, one core a "
        "worker.",
        "",
        "| computed by | cores | seconds |",
        "|---|---:|---:|",
        f"| this process | 1 | {seconds['local']:.1f} |",
        f"| `--workers 1` | 1 | {seconds['workers_1']:.1f} |",
        f"| `--workers 2` | 2 | {seconds['workers_2']:.1f} |",
        f"| `--workers 4` | 2 | {seconds['workers_4_on_2']:.1f} |",
        f"| Dask, 1 worker | 1 | {seconds['dask_1']:.1f} |",
        f"| Dask, 2 workers | 2 | {seconds['dask_2']:.1f} |",
        "",
        f"Times are medians of {len(found['rounds'])} rounds, in each of which all took turns. "
        "Ratios within a round, median and range: one worker against this process "
        f"{longer(found, 'workers')}, one of Dask {longer(found, 'dask')}; two against one "
        f"{halved(found, 'workers')}, of Dask {halved(found, 'dask')}.",
        "",
        f"{HPAS:,} HPAs with one pod each, a year at one row a minute and a sync of 15 s: "
        f"{ROWS / 1e9:.0f} G rows, {DECISIONS / 1e9:.0f} G decisions. The history takes "
        f"{size / 1e9:,.0f} GB ({replay['bytes_in'] / replay['rows']:.1f} B a row), the decisions "
        f"of a replay {out / 1e9:,.0f} GB.",
        "",
        f"| | core-hours | at ${CORE_HOUR} | alone | {' | '.join(f'{n} cores' for n in CORES)} |",
        f"|---|---:|---:|---:|{'---:|' * len(CORES)}",
    ]
    for name, label in (("replay", "replay"), ("sweep", f"sweep, {sweep['settings']} settings")):
        walls = [alone[name] + work[name] / (n * share) for n in CORES]
        text.append(
            f"| {label} | {work[name]:,.0f} | ${work[name] * CORE_HOUR:,.0f} | {alone[name]:.2f} h "
            f"| {' | '.join(f'{wall:,.1f} h' for wall in walls)} |"
        )
    limit = work["replay"] / share / alone["replay"]
    text += [
        "",
        "`alone` is what one process does while no other can help: planning (by the command, then "
        "by every worker for itself) and putting the parts together (of the sweep with one block a "
        "setting; a year of weeks makes `blocks` longer). Wall time is that, and the "
        f"core-hours over cores, of which {share:.0%} counts, as with two workers on this machine.",
        "",
        "**The first thing that stops scaling** is that one process: a replay takes as long for it "
        f"as for its parts at {limit:,.0f} cores. It writes all decisions once more into its "
        "result; without `--out` only summaries come back. Then the history's storage: a core "
        f"reads {replay['bytes_in'] / replay['work_s'] / 1e6:.1f} MB/s of it.",
    ]
    return text


def sizing_lines(found: dict[str, Any]) -> list[str]:
    """Return the rule for the number of cores."""
    replay, sweep, seconds = found["replay"], found["sweep"], found["seconds"]
    samples = f"{round(replay['rows'] / replay['work_s'], -4):,.0f}"
    swept = sweep["hpas"] * sweep["days"] * sweep["settings"]
    days = f"{round(swept / seconds['local'], -1):,.0f}"
    return [
        "| | a core and second | cores for T seconds |",
        "|---|---:|---|",
        f"| replay, HPAs with one pod | {samples} samples | samples / {samples} / T |",
        f"| sweep, HPAs with five pods | {days} days of an HPA under a setting "
        f"| HPAs x days x settings / {days} / T |",
        "",
        f"Divide by {efficiency(found):.2f} with more than one worker: that share of it counts.",
    ]


def main() -> None:
    """Write both parts of the page."""
    found = json.loads(RESULT.read_text())
    for name, lines in (("speed", speed_lines), ("sizing", sizing_lines)):
        PAGE.write_text(replace_part(PAGE.read_text(), name, lines(found)))


if __name__ == "__main__":
    main()
