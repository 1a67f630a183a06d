"""The parts of a report that are told on request: the controller score and the sensitivity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from hpabatch.engine.replay.score import Score, class_table, total
from hpabatch.engine.replay.score_events import CLASSES
from hpabatch.engine.replay.summary import KEY
from hpabatch.model.printable import printable
from hpabatch.report.texts import label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_HPAS: Final = 20
_SCORE_LEGEND: Final = (
    "PREC: decided rescales that were recorded; RECALL: recorded ones that were decided. ERR: mean"
    " difference of decided and recorded size, ±10 min around recorded rescales; SKILL against a"
    " constant and against the size a tick before: 1 is perfect, 0 no better, negative worse."
)
_SENSITIVITY_LEGEND: Final = (
    "Each replays the same time with one assumption changed. CHANGE: of SAME, in percentage points;"
    " HPAS: how many changed by more than one."
)


# ---- score --------------------------------------------------------------------------------------


def score_parts(score: Score) -> Iterator[RenderableType]:
    """Generate the score for people: the fleet's, each class of disagreement, each HPA's."""
    totals = total(score.hpas)
    yield (
        f"Controller score: {totals.scored} of {totals.hpas} HPAs can be scored; "
        f"{totals.recorded_events:,} rescales recorded, {totals.decided_events:,} decided, "
        f"{totals.matched_events:,} of them match"
    )
    if totals.scored:
        yield (
            f"precision {_share(totals.precision)}, recall {_share(totals.recall)}; within 1 "
            f"replica in {_share(totals.within_1_share)} of the ticks (a constant: "
            f"{_share(totals.constant_within_1_share)})"
        )
        yield (
            f"around rescales: error {_number(totals.window_mae)}, skill "
            f"{_skill(totals.window_constant_skill)} against a constant, "
            f"{_skill(totals.window_persistence_skill)} against the size a tick before"
        )
    if totals.unscored_extra:
        yield (
            f"{totals.unscored_extra:,} more were decided for HPAs that cannot be scored "
            "(their recorded size stood still)"
        )
    classes = [f"{CLASSES[name]}: {count:,}" for name, count in totals.classes.items() if count]
    yield from (f"  {line}" for line in classes)
    if totals.scored:
        yield _score_table(score.hpas)
        if totals.scored > SHOWN_HPAS:
            yield f"… and {totals.scored - SHOWN_HPAS} with fewer rescales: --output json has all"
        yield _SCORE_LEGEND
    unscored = score.hpas["unscored"].drop_nulls().value_counts().sort("unscored")
    for reason, count in unscored.iter_rows():
        yield f"not scorable: {count} HPA{'s' * (count > 1)}: {reason}"


def _score_table(hpas: pl.DataFrame) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    names = ("RECORDED", "DECIDED", "PREC", "RECALL", "ERR", "SKILL const", "tick")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(hpas)
    scored = hpas.filter(pl.col("unscored").is_null())
    most = scored.sort(["recorded_events", *KEY], descending=[True, False, False, False])
    for row in most.head(SHOWN_HPAS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        table.add_row(
            Text(printable(name)),
            str(row["recorded_events"]),
            str(row["decided_events"]),
            _share(row["precision"]),
            _share(row["recall"]),
            _number(row["window_mae"]),
            _skill(row["window_constant_skill"]),
            _skill(row["window_persistence_skill"]),
        )
    return table


def score_json(score: Score) -> str:
    """Return the score as a JSON object: totals, classes by rule, HPAs."""
    classes = class_table(score.events).with_columns(pl.col("class", "binding").cast(pl.String))
    parts = {
        "totals": json.dumps(total(score.hpas)._asdict(), indent=2, allow_nan=False),
        "classes": json_rows(classes.iter_rows(named=True)),
        "hpas": json_rows(score.hpas.iter_rows(named=True)),
    }
    return "{" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "}"


# ---- sensitivity --------------------------------------------------------------------------------


def sensitivity_parts(sensitivity: pl.DataFrame) -> Iterator[RenderableType]:
    """Generate the sensitivity for people."""
    from rich.table import Table
    from rich.text import Text

    yield "Sensitivity to what was assumed:"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("SETTING", overflow="fold")
    for name in ("SAME", "CHANGE", "RESCALES", "HPAS"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("MOST CHANGED", overflow="fold")
    for row in sensitivity.iter_rows(named=True):
        most = row["most_changed"]
        if most is not None:
            most = f"{printable(most)} {_points(row['most_change'])}"
        table.add_row(
            row["setting"],
            _share(row["agreement_share"]),
            _points(row["agreement_change"]),
            f"{row['rescales']:,}",
            str(row["hpas_changed"]),
            Text(most or ""),
        )
    yield table
    yield _SENSITIVITY_LEGEND


def sensitivity_json(sensitivity: pl.DataFrame) -> str:
    """Return the sensitivity as a JSON array of settings."""
    return json_rows(sensitivity.iter_rows(named=True))


def json_rows(rows: Iterable[Mapping[str, object]]) -> str:
    """Return a JSON array with one object a line."""
    lines = ",\n".join(json.dumps(dict(row), allow_nan=False) for row in rows)
    return f"[\n{lines}\n]" if lines else "[]"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _skill(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _points(value: float | None) -> str:
    return "" if value is None else f"{value * 100:+.1f}"
