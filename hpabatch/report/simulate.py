"""The result of `hpabatch simulate`: one row per HPA and setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.engine.simulate.run import RECORDED
from hpabatch.model.printable import counted, printable
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Line,
    Report,
    Rows,
    View,
    many_clusters,
    row_label,
    skipped_rows,
)
from hpabatch.report.numbers import number, percent
from hpabatch.report.replay import rules_line

if TYPE_CHECKING:
    from rich.text import Text

    from hpabatch.engine.fit.workload import Fact
    from hpabatch.engine.fleet.candidates import Skipped

SHOWN_ROWS: Final = 40
Facts = Mapping[tuple[str, str, str], Sequence["Fact"]]

HEADS: Final = (
    HPA,
    Head(
        "SETTING",
        "all are simulated; as recorded: with the HPA as it was in force; proposed: with that of "
        "the manifests",
        left=True,
    ),
    Head("CAPACITY", "the work that one pod is meant to do; `*`: assumed"),
    Head("POD-HOURS", "pods that are scheduled and there, over time"),
    Head("COST", "money for the requested hours"),
    Head("TOO FEW", "share of the time with fewer serving pods than the work asks for"),
    Head("θU", "under-provisioning accuracy of SPEC RG: how far too few pods there are"),
    Head("θO", "over-provisioning accuracy of SPEC RG: how far too many pods there are"),
    Head("SATURATED", "minutes in which at least one pod is at its ceiling"),
    Head("UNSERVED", "unserved work, or waiting work where it queues, in units times seconds"),
    Head("RESCALES", "number of rescales"),
    Head("REVERSALS", "rescales against the direction of the one before"),
    Head("AT MAX", "minutes at maxReplicas while the metrics asked for more"),
    Head("REGRET", "surplus and missing pod-hours, in percent of those of a perfect forecast"),
    Head("SPEED-UP", "elastic speed-up against the recorded setting; above 1 is better"),
    Head("", "`?`: the row is not to be relied on"),
)


@dataclass(frozen=True, slots=True)
class SimulateReport(Report):
    """A simulation; `written` are the places of files."""

    evidence: Mapping[str, str]
    measures: pl.DataFrame
    facts: Facts
    skipped: Sequence[Skipped]
    warnings: Sequence[str]
    written: Sequence[str] = ()

    def verdict(self) -> str:
        """Return the sums of today's settings and what a proposal changes."""
        if self.measures.is_empty():
            return "No HPA could be simulated (why: on stderr)."
        sums = {
            setting: rows["pod_hours"].sum()
            for (setting,), rows in self.measures.group_by("setting", maintain_order=True)
        }
        hpas = self.measures.select("cluster", "namespace", "hpa").n_unique()
        told = ", ".join(f"{_setting(name)} {hours:,.1f}" for name, hours in sums.items())
        line = f"{counted(hpas, 'HPA')} simulated; pod-hours: {told}"
        refused = self.measures.filter(~pl.col("usable")).height
        return line + (f"; {counted(refused, 'row')} not to be relied on" if refused else "")

    def body(self, view: View) -> Iterator[str | Text | Grid]:
        """Generate sums by setting, HPAs, and what is not to be relied on."""
        if self.measures.is_empty():
            return
        yield from _totals(self.measures)
        yield ""
        yield _grid(self.measures, self.facts)
        refused = self.measures.filter(~pl.col("usable"))
        if refused.height:
            yield ""
            rows = counted(refused.height, "row")
            yield f"not to be relied on ({rows}, why_not in --output csv); the first:"
            yield from (f"  {line}" for line in _reasons(refused))
        yield ""
        if self.skipped:
            yield f"skipped: {counted(len(self.skipped), 'HPA')} (why: on stderr)"

    def basis(self) -> list[str]:
        """Return rules and model."""
        evidence = self.evidence
        return [
            rules_line(evidence),
            "simulated: the rules are exact, the pods and their work are modelled "
            f"(docs/simulation.md); scenario {evidence.get('scenario', 'none')}, "
            f"seed {evidence['seed']}",
        ]

    def hints(self) -> Sequence[str]:
        """Return the places of files."""
        return self.written

    def frame(self) -> pl.DataFrame:
        """Return one row per HPA and setting."""
        return self.measures

    def metadata(self) -> Mapping[str, str]:
        """Return the evidence."""
        return self.evidence

    def document(self) -> dict[str, Any]:
        """Return evidence, a row per HPA and setting, the plants' parameters."""
        return {
            "evidence": dict(self.evidence),
            "hpas": Rows(self.measures),
            "parameters": Rows(
                {"cluster": key[0], "namespace": key[1], "hpa": key[2], **asdict(fact)}
                for key, facts in self.facts.items()
                for fact in facts
            ),
            "skipped": skipped_rows(self.skipped),
            "warnings": list(self.warnings),
            "written": Line(list(self.written)),
        }


def _reasons(refused: pl.DataFrame) -> Iterator[str]:
    many = many_clusters(refused)
    first = refused.unique(["cluster", "namespace", "hpa"], maintain_order=True).head(5)
    for row in first.iter_rows(named=True):
        yield f"{printable(row_label(row, many))}: {row['why_not']}"


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
        minutes = float(rows["saturated_minutes"].sum())
        yield (
            f"{_setting(setting)}, simulated: {counted(rows.height, 'HPA')}, "
            f"{rows['pod_hours'].sum():,.1f} pod-hours{money}, "
            f"{counted(int(rows['rescales'].sum()), 'rescale')}, {minutes:,.0f} saturated minutes"
        )


def _setting(name: str) -> str:
    """Return the name of a setting: that of the history is simulated, too, as any other."""
    return f"as {name}" if name.startswith(RECORDED) else name


def _grid(measures: pl.DataFrame, facts: Facts) -> Grid:
    many = many_clusters(measures)
    key = ["cluster", "namespace", "hpa"]
    most = measures.group_by(key).agg(most=pl.col("pod_hours").max())
    largest = measures.join(most, on=key, maintain_order="left").sort(
        ["most", *key], descending=[True, False, False, False], maintain_order=True
    )
    rows = [
        (
            row_label(row, many),
            _setting(row["setting"]),
            _capacity(row, facts),
            number(row["pod_hours"]),
            number(row["cost"], 2, "-"),
            percent(row["tau_u_pct"]),
            percent(row["theta_u_pct"]),
            percent(row["theta_o_pct"]),
            number(row["saturated_minutes"], 0, "-"),
            number(row["unserved"] if row["waiting"] is None else row["waiting"], 0, "-"),
            str(row["rescales"]),
            str(row["reversals"]),
            number(row["at_max_minutes"], 0, "-"),
            percent(row["regret_pct"]),
            number(row["elastic_speedup"], 2),
            "" if row["usable"] else "?",
        )
        for row in largest.head(SHOWN_ROWS).iter_rows(named=True)
    ]
    more = measures.height - SHOWN_ROWS
    grid = Grid(
        HEADS,
        rows,
        f"… and {more} more rows: --output csv shows all" if more > 0 else "",
        frame=measures,
        columns=MEASURES.columns,
    )
    priced = measures["cost"].null_count() < measures.height
    return grid if priced else grid.without("COST")


def _capacity(row: Mapping[str, object], facts: Facts) -> str:
    """Return what one pod is meant to do, with its unit; `*`: assumed."""
    key = str(row["cluster"]), str(row["namespace"]), str(row["hpa"])
    found = next((f for f in reversed(facts.get(key, ())) if f.name == "capacity"), None)
    if found is None or found.value is None:
        return ""
    return f"{found.value:.3g} {found.unit}".strip() + ("*" if found.source == "assumed" else "")
