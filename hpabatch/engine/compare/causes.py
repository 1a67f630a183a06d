"""Causes of differences: of many changes, those that make an HPA's first difference.

Each change is tried alone: one side is run again with that one thing as on the other side. If the
HPA then decides at that tick as the other side does, the change makes the difference alone. If no
change does, each is taken back from the other side: the changes without which the tick is as it was
are needed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.compare.frames import DECIDES, DECISION, EXPLANATION, FROM, TICK, TO
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.summary import KEY

ALONE: Final = "alone"
TOGETHER: Final = "together"

Key = tuple[str, str, str]
Report = Callable[[float], None]

Change = Callable[[ReplayPlan], ReplayPlan]
"""Change of a replay plan: other rules or specs, without the HPAs that these refuse."""

Runner = Callable[[Change, pl.DataFrame], pl.DataFrame]
"""Run of a change on one side, for rows of differences (`KEY` and `first_ts` count).

It returns ticks of these HPAs, those of the first differences at least; an HPA that it says nothing
of was not tried.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One change: to be made on the first side, and to be taken back on the other."""

    name: str
    alone: Change
    without: Change


@dataclass(frozen=True, slots=True)
class Cause:
    """The changes that make an HPA's first difference, and how: `ALONE` or `TOGETHER`."""

    names: tuple[str, ...]
    how: str


def find_causes(
    differences: pl.DataFrame,
    trials: Sequence[Trial],
    runners: tuple[Runner, Runner],
    report: Report = lambda share: None,
) -> dict[Key, Cause]:
    """Return the causes that could be found, by HPA.

    Args:
        differences: of `frames.find_differences`.
        trials: of everything that changed, in the order in which causes are to be named.
        runners: of the first side and the second.
        report: called with the share that is done.
    """
    half = 0.5  # of the time, at most: few differences are left for the second round
    alone = {trial.name: trial.alone for trial in trials}
    found = _named(differences, alone, runners[0], TO, lambda share: report(half * share))
    known = pl.DataFrame(list(found), schema=dict.fromkeys(KEY, pl.String()), orient="row")
    left = differences.join(known, on=KEY, how="anti", maintain_order="left")
    if not left.is_empty():
        without = {trial.name: trial.without for trial in trials}
        found |= _named(left, without, runners[1], FROM, lambda share: report(half + half * share))
    return found


def _named(
    differences: pl.DataFrame, changes: Mapping[str, Change], run: Runner, side: str, report: Report
) -> dict[Key, Cause]:
    """Return by HPA the changes with which its tick is that of a side."""
    names: dict[Key, list[str]] = {}
    for k, (name, change) in enumerate(changes.items()):
        for key in _alike(differences, run(change, differences), side):
            names.setdefault(key, []).append(name)
        report((k + 1) / len(changes))
    how = ALONE if side == TO else TOGETHER
    return {key: Cause(tuple(theirs), how) for key, theirs in names.items()}


def _alike(differences: pl.DataFrame, ticks: pl.DataFrame, side: str) -> list[Key]:
    """Return the HPAs whose tick at the first difference equals that of a side."""
    compared = [n for n in (*DECISION, *EXPLANATION) if f"{n}{FROM}" in differences.columns]
    tried = ticks.select(*TICK, *compared).rename({"ts": "first_ts"})
    rows = differences.join(tried, on=[*KEY, "first_ts"], maintain_order="left")

    def same(name: str) -> pl.Expr:
        return pl.col(name).eq_missing(pl.col(f"{name}{side}"))

    decided = pl.all_horizontal(same(name) for name in compared if name in DECISION)
    # Of a difference in the explanation alone, what the two sides have in common says nothing.
    explained = pl.all_horizontal(
        same(name) | pl.col(f"{name}{FROM}").eq_missing(pl.col(f"{name}{TO}")) for name in compared
    )
    alike = pl.when(pl.col("differs") == DECIDES).then(decided).otherwise(explained)
    return [(c, n, h) for c, n, h in rows.filter(alike).select(KEY).iter_rows()]


def sentence(cause: Cause | None, words: Mapping[str, str]) -> str | None:
    """Return a cause in words; `words` say what each change is."""
    if cause is None:
        return None
    told = [words[name] for name in cause.names]
    if len(told) == 1:
        alone = cause.how == ALONE
        return told[0] if alone else f"{told[0]}, but not alone"
    joined = "; ".join(told)
    return f"each alone: {joined}" if cause.how == ALONE else f"only together: {joined}"
