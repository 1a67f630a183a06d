"""What `hpabatch recommend` found, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.certificate import parameters
from hpabatch.engine.advise.frames import advice_frame, candidates_frame, folds_frame
from hpabatch.engine.advise.run import Recommendations
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_ROWS: Final = 40
SHOWN_REASONS: Final = 10
FEW_BLOCKS: Final = 5
"""Of fewer blocks there are fewer than 126 different resamples."""
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_ORDER: Final = {CHANGE: 0, KEEP: 1, NONE: 2}
_LEGEND: Final = (
    "Before -> after, on the judged blocks, which the setting was not chosen on (keep: today's). "
    "PODS: pod-hours. SAT: minutes in which pods are at their ceiling. SHORT: pod-hours that were "
    "missing. MOVES: rescales. SAVES: of the objective, in the judged blocks; TRAINING: on the "
    "blocks it was chosen on, with its interval over resampled blocks; BETTER: share of these "
    "resamples in which it beats today's; WALK: blocks of the rolling walk-forward in which the "
    "choice of the time beat today's, of those with another choice."
)


@dataclass(frozen=True, slots=True)
class RecommendReport:
    """Everything that is told; `written` are lines about files, `warnings` go to stderr too."""

    found: Recommendations
    written: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def evidence(self) -> Mapping[str, str]:
        """Return the sweep's evidence with what was asked of the recommender."""
        asked = json.dumps(parameters(self.found), sort_keys=True)
        sweep = {"sha256:sweep": self.found.options.sweep} if self.found.options.sweep else {}
        return {**self.found.result.evidence, **sweep, "recommend": asked}


def to_table(report: RecommendReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn(_parts(report), width, styled=styled)


def _parts(report: RecommendReport) -> Iterator[RenderableType]:
    frame = advice_frame(report.found)
    yield evidence_lines(report.evidence)[0].split(";")[0]
    yield _asked(report.found)
    yield ""
    yield from _totals(report.found, frame)
    yield ""
    if frame.is_empty():
        return
    advised = frame.filter(pl.col("answer") != NONE)
    if advised.height:
        yield _table(advised)
        if advised.height > SHOWN_ROWS:
            yield f"… and {advised.height - SHOWN_ROWS} more rows: --output csv shows all"
        yield _LEGEND
        yield from _coarse(advised)
        yield ""
    yield from _reasons(frame)
    yield from report.written


def _coarse(frame: pl.DataFrame) -> Iterator[str]:
    """Say it where there are too few blocks for resamples to tell much."""
    fewest = frame["training_blocks"].min()
    if isinstance(fewest, int) and fewest < FEW_BLOCKS:
        yield (
            f"Of as few as {fewest} training blocks resamples are few different ones: intervals "
            "are too narrow, and BETTER says little."
        )


def _asked(found: Recommendations) -> str:
    options, rules = found.options, found.options.rules
    bounds = ", ".join(f"{k}={v}" for k, v in options.bounds.texts.items()) or "none"
    picked = "" if options.recommender == "judged" else f"; recommender {options.recommender}"
    limits = (
        f"the SLO must hold {_WHERE[rules.robust]} with {rules.margin:.0%} of it left free"
        if options.goal.slos
        else f"without --slo nothing limits what least {options.goal.minimize} does to users"
    )
    return (
        f"asked for: {options.goal} ({options.goal.source}); {limits}; bounds {bounds}; "
        f"seed {rules.seed}{picked}"
    )


_WHERE: Final = {
    "both": "in the worst block and on average",
    "worst": "in the worst block",
    "mean": "on average",
}


def _totals(found: Recommendations, frame: pl.DataFrame) -> Iterator[str]:
    counts = dict(frame["answer"].value_counts().iter_rows())
    hpas = f"{frame.height:,} HPA{'s' * (frame.height != 1)}"
    yield f"{hpas}: " + ", ".join(f"{counts.get(a, 0):,} {a}" for a in (CHANGE, KEEP, NONE))
    changed = frame.filter(pl.col("answer") == CHANGE)
    measure = found.options.goal.minimize
    before, after = f"{measure}_today", f"{measure}_choice"
    if changed.height and before in frame.columns and changed[before].null_count() == 0:
        old, new = float(changed[before].sum()), float(changed[after].sum())
        share = 100 * (1 - new / old) if old else 0.0
        saved = f" ({abs(share):.1f}% {'less' if share >= 0 else 'more'})" if old else ""
        sums = f"{measure} {old:,.1f} -> {new:,.1f}{saved}"
        yield f"the changes together, on their judged blocks: {sums}"


def _table(frame: pl.DataFrame) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    priced = frame["cost_today"].null_count() < frame.height
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    table.add_column("ANSWER", no_wrap=True)
    table.add_column("SETTING", overflow="fold")
    measures = {
        "PODS": "pod_hours",
        **({"COST": "cost"} if priced else {}),
        "SAT": "saturated_minutes",
        "SHORT": "short_pod_hours",
        "MOVES": "rescales",
    }
    for name in (*measures, "SAVES", "TRAINING", "BETTER", "WALK"):
        table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(frame)
    for row in _sorted(frame).head(SHOWN_ROWS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        is_change = row["answer"] == CHANGE
        table.add_row(
            Text(printable(name)),
            row["answer"],
            Text(printable(row["setting"])) if is_change else "",
            *(_pair(row, measure, is_change) for measure in measures.values()),
            *(_sureness(row) if is_change else ("", "", "", "")),
        )
    return table


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort changes first, those that save most at the top."""
    order = frame.with_columns(
        order=pl.col("answer").replace_strict(_ORDER, return_dtype=pl.Int8),
        saved=pl.col("judged_today") - pl.col("judged_choice"),
    )
    names = ["order", "saved", "cluster", "namespace", "hpa"]
    down = [False, True, False, False, False]
    return order.sort(names, descending=down, nulls_last=True)


def _pair(row: Mapping[str, Any], measure: str, is_change: bool) -> str:
    before, after = row[f"{measure}_today"], row[f"{measure}_choice"]
    if before is None:
        return ""
    return f"{before:,.1f} -> {after:,.1f}" if is_change and after is not None else f"{before:,.1f}"


def _sureness(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    training = _percent(row["training_saving_pct"])
    if row["saving_low_pct"] is not None:
        training += f" ({row['saving_low_pct']:.1f} to {row['saving_high_pct']:.1f})"
    better = "" if row["better_share"] is None else f"{row['better_share']:.0%}"
    walk = f"{row['folds_better']}/{row['folds_changed']}"
    return _percent(row["judged_saving_pct"]), training, better, walk


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}%"


def _reasons(frame: pl.DataFrame) -> Iterator[str]:
    """Yield why, for the first of each answer, and the notes of changes."""
    many = many_clusters(frame)
    for answer, words in ((CHANGE, "Change"), (KEEP, "Keep"), (NONE, "No advice")):
        rows = _sorted(frame.filter(pl.col("answer") == answer))
        if not rows.height:
            continue
        first = ", the first of them" if rows.height > SHOWN_REASONS else ""
        yield f"{words} ({rows.height}{first}):"
        for row in rows.head(SHOWN_REASONS).iter_rows(named=True):
            name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
            because = ", because" if answer == NONE else ":"
            notes = f" [{row['notes']}]" if row["notes"] else ""
            yield f"  {printable(name)}" + printable_line(f"{because} {row['reasons']}{notes}")
        yield ""


def to_json(report: RecommendReport) -> str:
    """Return one JSON object: evidence, what was asked, HPAs, candidates, folds, files."""
    found = report.found
    parts = {
        "evidence": json.dumps(dict(report.evidence), indent=2),
        "parameters": json.dumps(parameters(found), indent=2),
        "hpas": json_rows(_plain(advice_frame(found))),
        "candidates": json_rows(_plain(candidates_frame(found))),
        "folds": json_rows(_plain(folds_frame(found))),
        "written": json.dumps(list(report.written)),
        "warnings": json.dumps(list(report.warnings)),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def _plain(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    times = [name for name, dtype in frame.schema.items() if dtype.is_temporal()]
    texts = frame.with_columns(pl.col(name).dt.strftime(_TIME_FORMAT) for name in times)
    return texts.iter_rows(named=True)


def to_csv(report: RecommendReport) -> str:
    """Return one row per HPA as CSV with a header; an absent value is empty."""
    return frame_csv(advice_frame(report.found), _TIME_FORMAT)


def to_parquet(report: RecommendReport) -> bytes:
    """Return one row per HPA as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(advice_frame(report.found), report.evidence, buffer)
    return buffer.getvalue()
