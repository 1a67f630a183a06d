"""The worked case: a default HPA under a public web site's requests, and a better one.

    HPABATCH_TRACES=FOLDER python -m benchmarks.worked_case docs/worked-case.md

The run of the default HPA (`benchmarks.worked_case_input`) is recorded as a history; from there on
it is what a user would do, command by command. The section stands between two markers of the page;
the pictures are put beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl

from benchmarks.readme import ROOT, replace_part
from benchmarks.worked_case_input import (
    FROM,
    NAME,
    NAMESPACE,
    TRACES,
    UNTIL,
    Stated,
    case_of,
    default_spec,
    read_series,
    record_today,
)
from hpabatch.engine.simulate.loop import run_cases
from hpabatch.engine.simulate.measures import Bounds
from hpabatch.engine.sweep.blocks import UNITS, blocks_frame
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.jobs.sweep_files import read_sweep
from hpabatch.model.settings.policy_sets import SHIPPED
from hpabatch.model.settings.setting import apply_setting, parse_setting
from hpabatch.model.versions import profile_for

Row = dict[str, Any]

WORK: Final = "build/worked-case"
GRIDS: Final = (
    "target=70:85:1",
    "scaleUp.tolerance=today,0.02,0.05",
    "scaleDown.window=today,120,900",
)
SLO_MEASURE: Final = "under_minutes"
MOST: Final = 10
MARGIN: Final = 0.5
"""Two weeks are little: half of the limit is to stay free."""

GOAL: Final = ("--slo", f"{SLO_MEASURE}<{MOST}/week", "--minimize", "pod_hours")
K8S: Final = "1.38"
SUMS: Final = (SLO_MEASURE, "pod_hours", "rescales", "hours")
PICTURES: Final = {"front": "front.svg", "timeline": "before-after.svg"}
MARK: Final = "worked-case"
TODAY: Final = "today"


# ---- what a user does


def commands() -> dict[str, list[str]]:
    """Return the commands: the sweep, the recommendation and, but for --setting, the pictures."""
    grids = [word for grid in GRIDS for word in ("--grid", grid)]
    return {
        "sweep": ["hpabatch", "sweep", f"{WORK}/history", *grids, "--out", f"{WORK}/sweep"],
        "recommend": ["hpabatch", "recommend", f"{WORK}/sweep", *GOAL, "--margin", str(MARGIN)],
        "plot": [
            *("hpabatch", "plot", f"{WORK}/sweep", "--front", "--timeline", f"{NAMESPACE}/{NAME}"),
            *(*GOAL, "--measure", f"pod_hours,{SLO_MEASURE}", "--out", f"{WORK}/pictures"),
        ],
    }


def run(words: Sequence[str]) -> str:
    """Return what a command prints.

    Raises:
        SystemExit: it failed; its own words are the message.
    """
    found = subprocess.run(
        [sys.executable, "-c", "from hpabatch.cli import main; main()", *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ) | {"COLUMNS": "100"},
    )
    if found.returncode:
        raise SystemExit(f"{shlex.join(words)}: {found.stderr}")
    return found.stdout


# ---- what is told


@dataclass(frozen=True, slots=True)
class Told:
    """What the section tells: all of it from the files of the commands, and from the stated pods.

    Rows have SUMS, `setting` of whole weeks (168 h each). `judged` are those of the days that the
    recommendation was judged on; `true` the same of the stated pods.
    `worst` is by setting what its worst week has of the SLO's measure with the stated pods; `loose`
    the setting that is recommended with the default margin.
    """

    series: pl.DataFrame
    settings: int
    weekly: dict[str, Row]
    judged: tuple[Row, Row]
    true: tuple[Row, Row]
    judged_from: datetime
    worst: dict[str, float]
    loose: str


TARGET_ONLY: Final = "the cheapest target alone"
CHOSEN: Final = "the recommended one"


def sums_of(blocks: pl.DataFrame, setting: str, since: datetime | None = None) -> Row:
    """Return the sums of a setting's blocks, those that begin at `since` or later."""
    rows = blocks.filter(pl.col("setting") == setting)
    if since is not None:
        rows = rows.filter(pl.col("start") >= since)
    return {"setting": setting, **rows.select(pl.col(SUMS).sum()).row(0, named=True)}


def a_week(row: Row) -> Row:
    """Return sums for a week."""
    return {k: v if k == "setting" else v * 168 / row["hours"] for k, v in row.items()}


def target_only(swept: SweepResult, blocks: pl.DataFrame) -> Row | None:
    """Return the cheapest setting of another target alone that keeps to limit and margin."""
    others = [c for c in swept.settings.columns if c not in ("setting_id", "setting", "target")]
    as_today = [pl.col(name).fill_null(TODAY) == TODAY for name in others]
    alone = swept.settings.filter(pl.all_horizontal(as_today), pl.col("setting_id") > 0)
    rows = [a_week(sums_of(blocks, name)) for name in alone["setting"]]
    kept = [row for row in rows if row[SLO_MEASURE] < MOST * (1 - MARGIN)]
    return min(kept, key=lambda row: float(row["pod_hours"]), default=None)


def told_of(
    series: pl.DataFrame, stated: Stated, swept: SweepResult, advice: Row, loose: Row
) -> Told:
    """Return what there is to tell of a sweep and the advice on its one HPA.

    `loose` is the advice with the default margin.

    Raises:
        SystemExit: there is no change to tell of.
    """
    if advice["answer"] != "change":
        raise SystemExit(f"nothing to tell: {advice['answer']}, because {advice['reasons']}")
    names = swept.settings.select("setting_id", "setting")
    blocks = swept.blocks.join(names, on="setting_id", how="left")
    chosen, since = advice["setting"], datetime.fromisoformat(advice["judged_from"])
    weekly = {"today's HPA": a_week(sums_of(blocks, TODAY))}
    other = target_only(swept, blocks)
    if other is not None:
        weekly[TARGET_ONLY] = other
    weekly[CHOSEN] = a_week(sums_of(blocks, chosen))
    real = true_blocks(series, stated, (TODAY, chosen), "day")
    others = dict.fromkeys((chosen, loose["setting"] or TODAY))
    weeks = true_blocks(series, stated, tuple(others), "week")
    worst = weeks.group_by("setting").agg(pl.col(SLO_MEASURE).max())
    return Told(
        series=series,
        settings=swept.settings.height,
        weekly=weekly,
        judged=(sums_of(blocks, TODAY, since), sums_of(blocks, chosen, since)),
        true=(sums_of(real, TODAY, since), sums_of(real, chosen, since)),
        judged_from=since,
        worst=dict(worst.iter_rows()),
        loose=loose["setting"] or TODAY,
    )


def true_blocks(
    series: pl.DataFrame, stated: Stated, settings: Sequence[str], unit: str
) -> pl.DataFrame:
    """Return the days or weeks of settings with the stated pods and the real demand."""
    profile, spec = profile_for(K8S), default_spec(stated)
    cases = [
        case_of(
            series["value"].to_numpy(),
            stated,
            apply_setting(parse_setting(name), spec, SHIPPED, profile),
            name,
        )
        for name in settings
    ]
    length_ms, bounds = UNITS[unit], Bounds()
    runs = run_cases(cases, profile, 0, block_ms=length_ms)
    return pl.concat([blocks_frame(ran, length_ms, bounds) for ran in runs])


def section(told: Told, stated: Stated, printed: str) -> list[str]:
    """Return the page's section; `printed` is what the recommendation prints."""
    words = commands()
    return [
        *_setting_the_scene(told, stated),
        "",
        "```",
        f"$ {shlex.join(words['sweep'])}",
        f"$ {shlex.join(words['recommend'])}",
        *printed.rstrip().splitlines(),
        "```",
        "",
        *_table(told),
        "",
        *_judged(told),
        "",
        "![pod-hours against minutes with too few pods, all settings](front.svg)",
        "",
        "![the busiest day: demand, replicas, before and after](before-after.svg)",
    ]


def _setting_the_scene(told: Told, stated: Stated) -> list[str]:
    values = told.series["value"]
    peak = told.series.row(int(values.arg_max() or 0), named=True)
    at: datetime = peak["ts"]
    last = UNTIL - timedelta(days=1)
    kubectl = (
        f"kubectl autoscale deployment {NAME} --cpu={stated.target_pct}% "
        f"--min={stated.min_replicas} --max={stated.max_replicas}"
    )
    return [
        "The demand is recorded: the requests of each minute to the web site of the Football "
        f"World Cup 1998, {FROM:%-d} to {last:%-d %B} (the first match was on the 10th). The "
        f"median is {values.quantile(0.5):,.0f} a minute, the highest {peak['value']:,.0f}, on the "
        f"{at:%-d}th at {at:%H:%M} UTC. (M. Arlitt and T. Jin's log of the site, Internet "
        "Traffic Archive; taken from the series in PasanBhanu/time-series-forcasting-with-"
        "facebook-prophet-lstm-hybrid-model, CC-BY-4.0; its days are those of June 2026 here.) "
        "The pods are stated, because no log describes them: a request costs "
        f"{stated.request_cpu_ms} ms of a core; a pod requests {stated.cpu_request_milli}m, has a "
        f"limit of {stated.cpu_limit_milli}m, uses {stated.idle_milli}m idle, and serves "
        f"{min(stated.startup_s) // 60} to {max(stated.startup_s) // 60} minutes after it is "
        "requested, as where a node must "
        "start first. A pod is meant to do 80 % of what it can.",
        "",
        f"The HPA is the one that `{kubectl}` creates. It was simulated with these pods and "
        "recorded; the commands below know only the recording (`HPABATCH_TRACES=… python -m "
        "benchmarks.worked_case docs/worked-case.md` makes it from the series, and this section):",
    ]


def _table(told: Told) -> list[str]:
    """Return the settings that matter, a week of each, as the sweep has them."""
    lines = [
        "| a week under | minutes with too few pods | pod-hours | rescales |",
        "|---|---:|---:|---:|",
    ]
    base = told.weekly["today's HPA"]["pod_hours"]
    for name, row in told.weekly.items():
        setting = "" if row["setting"] == TODAY else f", `{row['setting']}`"
        more = "" if row["setting"] == TODAY else f" ({row['pod_hours'] / base - 1:+.1%})"
        lines.append(
            f"| {name}{setting} | {row[SLO_MEASURE]:.1f} | {row['pod_hours']:,.0f}{more} | "
            f"{row['rescales']:,.0f} |"
        )
    return lines


def _judged(told: Told) -> list[str]:
    """Return the walk-forward result, and what the stated pods say of it."""
    (today, chosen), (true_today, true_chosen) = told.judged, told.true
    days = round(today["hours"] / 24)

    def pair(a: Row, b: Row) -> str:
        return (
            f"{a[SLO_MEASURE]:.1f} minutes with too few pods at {a['pod_hours']:,.0f} pod-hours "
            f"become {b[SLO_MEASURE]:.1f} at {b['pod_hours']:,.0f}"
        )

    return [
        f"The setting was chosen among {told.settings} on the first days, with half of the limit "
        f"left free, and judged on the last {days}, which it was not chosen on: "
        f"{pair(today, chosen)}. With the pods as they were stated, "
        f"which neither command knows: {pair(true_today, true_chosen)}. The price is more "
        "rescales. A limit on rescales (`--slo 'rescales<400/week'`) gives another answer.",
        "",
        _caveat(told),
    ]


def _caveat(told: Told) -> str:
    """Return what was picked after the outcome was known, and the default margin's result."""
    chosen = told.weekly[CHOSEN]["setting"]
    text = (
        "Picked after looking at outcomes: the slow start of the pods (with a start of one "
        "minute the default HPA holds the SLO), their limit, the measure, and the margin. Two "
        "weeks are little: with the stated pods the worst week has "
        f"{told.worst[chosen]:.1f} minutes."
    )
    if told.loose != chosen:
        text += (
            f" With the default margin of 10 % the same sweep recommends `{told.loose}`, whose "
            f"worst week has {told.worst[told.loose]:.1f} with the stated pods."
        )
    return text


# ---- all of it


def make(traces: str, stated: Stated) -> list[str]:
    """Record, run the commands, draw the pictures; return the section's lines."""
    folder = ROOT / WORK
    shutil.rmtree(folder, ignore_errors=True)
    series = read_series(traces)
    record_today(folder, series, stated, profile_for(K8S))
    words = commands()
    run(words["sweep"])
    printed = run(words["recommend"])
    advice = json.loads(run([*words["recommend"], "-o", "json"]))["hpas"][0]
    plain = [word for word in words["recommend"] if word not in ("--margin", str(MARGIN))]
    loose = json.loads(run([*plain, "-o", "json"]))["hpas"][0]
    told = told_of(series, stated, read_sweep(folder / "sweep"), advice, loose)
    run([*words["plot"], "--setting", advice["setting"]])
    for stem, name in PICTURES.items():
        (drawn,) = (folder / "pictures").glob(f"{stem}-*.svg")
        shutil.copy(drawn, ROOT / "docs" / name)
    return section(told, stated, printed)


def main(page_path: str) -> None:
    """Renew the page's section and the pictures."""
    traces = os.environ.get(TRACES)
    if not traces:
        raise SystemExit(f"{TRACES} does not name the folder of demand.parquet")
    page = Path(page_path)
    text = page.read_text()
    replace_part(text, MARK, [])  # (without its markers nothing is run)
    page.write_text(replace_part(text, MARK, make(traces, Stated())))


if __name__ == "__main__":
    main(*sys.argv[1:])
