"""Thresholds on the two scores of an HPA: whether it gets advice, and the reasons if not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from hpabatch.engine.fidelity.answer import WRONG
from hpabatch.engine.fidelity.parameters import FidelityParameters
from hpabatch.model.plant import AGE

Row = Mapping[str, Any]
Key = tuple[str, ...]

NEVER_IN_FORCE: Final = "none of its specs was in force while samples were recorded"


def advise(
    keys: Sequence[str],
    controller: pl.DataFrame,
    signals: pl.DataFrame,
    relevant: Mapping[Key, frozenset[str]],
    parameters: FidelityParameters,
) -> Iterator[dict[str, Any]]:
    """Yield for each HPA of `controller` its keys and `plant_signal`, whether there is advice.

    `advice`, `why_not`, and of that `plant_why_not`, the plant's part.

    Args:
        keys: the columns that name an HPA.
        controller: controller scores with their answers, one row per HPA.
        signals: plant scores, one row per HPA and signal.
        relevant: the signals that each HPA's spec reads, by its key.
        parameters: the thresholds.
    """
    rows: dict[Key, list[Row]] = {}
    for row in signals.iter_rows(named=True):
        rows.setdefault(tuple(row[k] for k in keys), []).append(row)
    for row in controller.iter_rows(named=True):
        key = tuple(row[k] for k in keys)
        theirs = [s for s in rows.get(key, []) if s["signal"] in relevant[key]]
        worst = worst_signal(theirs, parameters)
        why = why_not(row, worst, parameters)
        yield {k: row[k] for k in keys} | {
            "plant_signal": worst["signal"] if worst is not None else None,
            "plant_why_not": plant_why_not(worst, parameters),
            "advice": why is None,
            "why_not": why,
        }


def worst_signal(signals: Sequence[Row], parameters: FidelityParameters) -> Row | None:
    """Return the worst signal of an HPA, by which its plant is scored.

    One without a score, else one that is not good enough, else the one with the lowest skill; of
    equal ones the first. None if there is no signal.
    """

    def rank(row: Row) -> tuple[bool, bool, float]:
        scored = row["unscored"] is None
        good = not any(plant_reasons(row, parameters))
        return scored, good, row["skill"] if scored else 0.0

    return min(signals, key=rank, default=None)


def why_not(controller: Row, plant: Row | None, parameters: FidelityParameters) -> str | None:
    """Return why there is no advice on an HPA, all reasons in one text; None: there is."""
    of_controller = ", ".join(controller_reasons(controller))
    of_plant = plant_why_not(plant, parameters)
    # Why there is no plant at all says which signal is at fault.
    name = "" if plant is None or plant["kind"] is None else f" ({plant['signal']})"
    told = [f"controller: {of_controller}" if of_controller else ""]
    told.append(f"plant{name}: {of_plant}" if of_plant else "")
    return "; ".join(filter(None, told)) or None


def plant_why_not(plant: Row | None, parameters: FidelityParameters) -> str | None:
    """Return why a plant score is not good enough, all reasons in one text; None: it is."""
    return NEVER_IN_FORCE if plant is None else ", ".join(plant_reasons(plant, parameters)) or None


def controller_reasons(row: Row) -> Iterator[str]:
    """Yield why a controller score refuses advice: only an answer of "wrong" does."""
    if row["answer"] == WRONG:
        yield f"the stated settings are wrong, {row['answer_why']}"


def plant_reasons(row: Row, parameters: FidelityParameters) -> Iterator[str]:
    """Yield why a signal's plant score (a row of SIGNAL_COLUMNS) is not good enough."""
    if row["unscored"] is not None:
        yield f"not scorable, {row['unscored']}"
        return
    p = parameters
    if row["kind"] != AGE or row["mean_error_pct"] > p.small_error_pct:
        if row["skill"] < p.least_skill:
            yield f"skill {row['skill']:.2f} is below {p.least_skill:g}"
        elif row["skill_low"] <= p.least_skill_low:
            low = f"{row['skill_low']:.2f}"
            yield f"the skill's interval begins at {low}, not above {p.least_skill_low:g}"
    if row["median_error_pct"] > p.most_median_error_pct:
        most = f"{p.most_median_error_pct:g} %"
        yield f"the median error of {row['median_error_pct']:.0f} % is above {most}"
    if abs(row["bias_pct"]) > p.most_bias_pct:
        yield f"the bias of {row['bias_pct']:+.0f} % is beyond {p.most_bias_pct:g} %"
