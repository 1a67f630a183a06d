"""The result of `hpabatch simulate`: one row per HPA and setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.engine.fit.workload import ASSUMED, Fact, facts_frame
from hpabatch.engine.simulate.result import LoopResult, self_judged
from hpabatch.engine.simulate.run import KEY, RECORDED
from hpabatch.model.plant import CEILINGS_PCT
from hpabatch.model.printable import counted, printable
from hpabatch.report.base import (
    HPA,
    UNRELIABLE,
    Grid,
    Head,
    Line,
    Result,
    Rows,
    View,
    many_clusters,
    more,
    row_label,
    skipped_line,
    skipped_rows,
)
from hpabatch.report.lens import lens_told
from hpabatch.report.numbers import BESIDE, beside, number, percent, share_of_minutes
from hpabatch.report.replay import rules_line

SHOWN_ROWS: Final = 40
Facts = Mapping[tuple[Any, ...], Sequence[Fact]]
_OF_DEMAND: Final = ("tau_u_pct", "theta_u_pct", "theta_o_pct", "regret_pct", "elastic_speedup")
"""Shown measures of the pods that the work asks for, which follow from the capacity."""
_COUNT: Final = partial(number, digits=0, zero="-")

HEADS: Final = (
    HPA,
    Head("SETTING",
         "all are simulated; today: with the recorded HPA; proposed: with that of the manifests",
         lambda row: _setting(row["setting"]), left=True),
    Head("CAPACITY", "the work that one pod is meant to do; `*`: assumed", "capacity"),
    Head("POD-HOURS", "pods that are scheduled and there, over time",
         lambda row: beside(
             number(row["pod_hours"]), row["pod_hours"], row["pod_hours_recorded"], 1)),
    Head("COST", "money for the requested hours", "cost", partial(number, digits=2, zero="-"),
         needs="cost"),
    Head("TOO FEW", "share of the time with fewer serving pods than the work asks for", "tau_u_pct",
         percent),
    Head("θU", "under-provisioning accuracy of SPEC RG: how far too few pods there are",
         "theta_u_pct", percent),
    Head("θO", "over-provisioning accuracy of SPEC RG: how far too many pods there are",
         "theta_o_pct", percent),
    Head("SATURATED", "minutes in which at least one pod is at its ceiling; open: it is not known",
         lambda row: _saturated(row)),
    Head("UNSERVED", "unserved work, or waiting work where it queues, in units times seconds",
         lambda row: row["unserved"] if row["waiting"] is None else row["waiting"], _COUNT),
    Head("RESCALES", "number of rescales",
         lambda row: beside(str(row["rescales"]), row["rescales"], row["rescales_recorded"])),
    Head("REVERSALS", "rescales against the direction of the one before", "reversals"),
    Head("AT MAX", "share of the run in which maxReplicas held it: the metrics asked for more",
         lambda row: share_of_minutes(row, "at_max_minutes")),
    Head("REGRET", "surplus and missing pod-hours, in percent of those of a perfect forecast",
         "regret_pct", percent),
    Head("SPEED-UP", "elastic speed-up against the recorded setting; above 1 is better",
         "elastic_speedup", partial(number, digits=2)),
    UNRELIABLE,
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Simulation(LoopResult, Result):
    """A simulation of the recorded settings, and of proposed ones where manifests were given.

    Attributes:
        loop: the runs' cases, with what was left out and why.
        measures: one row per HPA and setting, "recorded" or "proposed".
        points: one row per tick of every run; None unless trajectories were asked for.
        written: the places of files.
    """

    written: Sequence[str] = ()
    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        if self.measures.is_empty():
            return "No HPA could be simulated (why: on stderr)."
        common = _common(self.measures)
        sums = {
            setting: rows["pod_hours"].sum()
            for (setting,), rows in common.group_by("setting", maintain_order=True)
        }
        hpas, both = (m.select(KEY).n_unique() for m in (self.measures, common))
        of = f" of the {both:,} under every setting" if both < hpas else ""
        told = ", ".join(f"{_setting(name)} {hours:,.1f}" for name, hours in sums.items())
        line = f"{counted(hpas, 'HPA')} simulated; pod-hours{of}: {told}"
        refused = self.measures.filter(~pl.col("usable")).height
        return line + (f"; {counted(refused, 'row')} not to be relied on" if refused else "")

    @property
    def frame(self) -> pl.DataFrame:
        return self.measures

    @property
    def facts(self) -> pl.DataFrame:
        """One row per HPA and fact of its workload: value, interval, source."""
        return facts_frame(self.loop.facts)

    @property
    def evidence(self) -> dict[str, str]:
        return self.loop.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self.loop.plan.warnings, *self.loop.notes)

    def body(self, view: View) -> Iterator[str | Grid]:
        if self.measures.is_empty():
            return
        yield from _totals(_common(self.measures))
        yield ""
        own = self_judged(self.loop)
        yield _grid(self.measures, self.loop.facts, own)
        yield from _of_capacities(self.measures, self.loop.facts, own)
        yield from _of_ceilings(self.measures)
        refused = self.measures.filter(~pl.col("usable"))
        if refused.height:
            yield ""
            rows = counted(refused.height, "row")
            yield f"not to be relied on ({rows}, why_not in --output csv); the first:"
            yield from (f"  {line}" for line in _reasons(refused))
        yield ""
        yield from skipped_line(self.loop.skipped)

    def basis(self) -> list[str]:
        evidence = self.evidence
        return [
            rules_line(evidence),
            "simulated: the rules are exact, the pods and their work are modelled "
            f"(docs/simulation.md); scenario {evidence.get('scenario', 'none')}, "
            f"seed {evidence['seed']}{lens_told(evidence)}",
        ]

    def hints(self) -> Sequence[str]:
        return self.written

    def document(self) -> dict[str, Any]:
        return {
            "evidence": dict(self.evidence),
            "hpas": Rows(self.measures),
            "parameters": Rows(
                {"cluster": key[0], "namespace": key[1], "hpa": key[2], **asdict(fact)}
                for key, facts in self.loop.facts.items()
                for fact in facts
            ),
            "skipped": skipped_rows(self.loop.skipped),
            "warnings": list(self.warnings),
            "written": Line(list(self.written)),
        }


def _reasons(refused: pl.DataFrame) -> Iterator[str]:
    many = many_clusters(refused)
    first = refused.unique(["cluster", "namespace", "hpa"], maintain_order=True).head(5)
    for row in first.iter_rows(named=True):
        yield f"{printable(row_label(row, many))}: {row['why_not']}"


def _common(measures: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the HPAs that were simulated under every setting, or all without any."""
    settings = measures["setting"].n_unique()
    found = measures.filter(pl.col("setting").n_unique().over(KEY) == settings)
    return measures if found.is_empty() else found


def _of_capacities(
    measures: pl.DataFrame, facts: Facts, self_judged: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """Yield what assumed capacities rest on, and what follows for rows that change that."""
    keys = measures.select(KEY).unique(maintain_order=True).rows()
    found = [fact for key in keys if (fact := _capacity_fact(facts, key)) is not None]
    for note in dict.fromkeys(fact.note for fact in found if fact.source == ASSUMED):
        yield f"* capacity assumed: {note}; state it in --plant"
    if self_judged:
        yield (
            "  a setting with another target has no TOO FEW, θU, θO, REGRET and SPEED-UP then: "
            "they would measure it against today's target"
        )


def _totals(measures: pl.DataFrame) -> Iterator[str]:
    """Yield one line per setting with the fleet's sums."""
    for setting in measures["setting"].unique(maintain_order=True):
        rows = measures.filter(pl.col("setting") == setting)
        cost = rows["cost"].sum() if rows["cost"].null_count() < rows.height else None
        priced = rows.height - rows["cost"].null_count()
        part = (
            ""
            if priced == rows.height
            else f" (of {counted(priced, 'HPA')} whose requests are known)"
        )
        money = f", {cost:,.2f} {rows['currency'][0]}{part}" if cost is not None else ""
        minutes, known = float(rows["saturated_minutes"].sum()), rows["saturated_minutes"].count()
        of = "" if known == rows.height else f" (of {counted(known, 'HPA')} with a known ceiling)"
        saturated = f"{minutes:,.0f} saturated minutes{of}" if known else "no ceiling known"
        yield (
            f"{_setting(setting)}, simulated: {counted(rows.height, 'HPA')}, "
            f"{rows['pod_hours'].sum():,.1f} pod-hours{money}, "
            f"{counted(int(rows['rescales'].sum()), 'rescale')}, "
            f"{saturated}"
        )


def _setting(name: str) -> str:
    """Return the name of a setting: "recorded" is of the HPA only, its sizes are simulated."""
    return f"today{name.removeprefix(RECORDED)}" if name.startswith(RECORDED) else name


def _grid(measures: pl.DataFrame, facts: Facts, own: Collection[tuple[str, ...]]) -> Grid:
    """Return the rows, those of HPAs with most pods first.

    `own` are the rows (key and setting) whose own change is what their capacity rests on.
    """
    most = measures.group_by(KEY).agg(most=pl.col("pod_hours").max())
    largest = measures.join(most, on=KEY, maintain_order="left").sort(
        ["most", *KEY], descending=[True, False, False, False], maintain_order=True
    )
    many = many_clusters(measures)
    rows = [
        row
        | {"label": row_label(row, many), "capacity": _capacity(row, facts)}
        | dict.fromkeys(_OF_DEMAND if (*(row[k] for k in KEY), row["setting"]) in own else ())
        for row in largest.head(SHOWN_ROWS).iter_rows(named=True)
    ]
    grid = Grid.of(HEADS, rows, frame=measures, columns=MEASURES.columns)
    return replace(grid, more=more(measures.height - SHOWN_ROWS))


def _saturated(row: Mapping[str, Any]) -> str:
    """Return the minutes at a ceiling, and of an assumed one that it is open."""
    if row["above_100_minutes"] is not None and row["saturated_minutes"] is None:
        return "open"
    shown = number(row["saturated_minutes"], 0, "-")
    return beside(shown, row["saturated_minutes"], row["saturated_minutes_recorded"])


def _of_ceilings(measures: pl.DataFrame) -> Iterator[str]:
    """Yield what `open` and the brackets mean, where they are shown."""
    if measures["above_100_minutes"].null_count() < measures.height:
        yield (
            "open: no ceiling of its pods is known, so none is reached; the minutes above assumed "
            f"ones, {CEILINGS_PCT[0]}% to {CEILINGS_PCT[-1]}% of the highest usage seen, are in "
            "--output csv"
        )
    if measures["replica_hours_recorded"].null_count() < measures.height:
        yield BESIDE


def _capacity(row: Mapping[str, object], facts: Facts) -> str:
    """Return what one pod is meant to do, with its unit; `*`: assumed."""
    found = _capacity_fact(facts, tuple(row[name] for name in KEY))
    if found is None:
        return ""
    return f"{found.value:.3g} {found.unit}".strip() + ("*" if found.source == ASSUMED else "")


def _capacity_fact(facts: Facts, key: tuple[Any, ...]) -> Fact | None:
    """Return the fact of an HPA's capacity, the last said, if it is known."""
    found = next((f for f in reversed(facts.get(key, ())) if f.name == "capacity"), None)
    return None if found is None or found.value is None else found
