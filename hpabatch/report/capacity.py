"""The result of `hpabatch plan`: one row per HPA and growth, and sums with quotas and money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hpabatch.engine.capacity.run import CapacityPlan
from hpabatch.engine.columns.capacity import PLAN_HPAS, PLAN_TOTALS
from hpabatch.engine.simulate.result import CENSORED_PCT
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
    skipped_rows,
)
from hpabatch.report.numbers import amount, minute, percent, share_of_minutes
from hpabatch.report.replay import rules_line

SHOWN_ROWS: Final = 40
SHOWN_REASONS: Final = 10
_KEY: Final = ["cluster", "namespace", "hpa"]
_NAMES: Final = {
    "pods": "pods",
    "cores": "cores",
    "gib": "GiB",
    "limit_cores": "limit cores",
    "limit_gib": "limit GiB",
}
_FACTOR: Final = "{:g}".format
TOTAL_HEADS: Final = (
    Head.of(PLAN_TOTALS["scope"], "SCOPE", left=True, folds=True)._replace(value="where"),
    Head("WHAT", "what is added up",
         lambda row: f"{row['unit']}/month" if _is_money(row) else _NAMES[row["resource"]],
         left=True),
    Head("GROWTH", "factor of the work", "growth", _FACTOR),
    Head("HPAS", "HPAs in the sum without maxReplicas, of all",
         lambda row: f"{row['hpas']}/{row['of']}"),
    Head("TODAY", "the highest sum with minReplicas and maxReplicas as they are",
         lambda row: amount(row["today"]["month_total" if _is_money(row) else "max"])),
    Head("P50", PLAN_TOTALS["p50"].meaning, lambda row: _at_least(row, "p50")),
    Head("P95", PLAN_TOTALS["p95"].meaning, lambda row: _at_least(row, "p95")),
    Head("P99", PLAN_TOTALS["p99"].meaning, lambda row: _at_least(row, "p99")),
    Head("MAX", "the highest sum without maxReplicas; `>`: at least so much",
         lambda row: _at_least(row, "month_total" if _is_money(row) else "max")),
    Head("PEAKS", PLAN_TOTALS["sum_of_peaks"].meaning, lambda row: _at_least(row, "sum_of_peaks")),
    Head.of(PLAN_TOTALS["quota"], "QUOTA", amount, needs="quota"),
    Head("ABOVE", "share of the time above the tightest quota", "exceeded_pct", percent,
         needs="quota"),
    Head("FIRST", "the first time above the tightest quota", "first_exceeded", minute,
         needs="quota"),
    Head("ROOM", "the least that is left of the quota", "lowest_headroom", amount, needs="quota"),
)  # fmt: skip
HPA_HEADS: Final = (
    HPA,
    Head("GROWTH", "factor of the work", "growth", _FACTOR),
    Head.of(PLAN_HPAS["min_replicas"], "MIN"),
    Head.of(PLAN_HPAS["max_replicas"], "MAX"),
    Head("P50", "median of the size without maxReplicas; `>`: at least so much",
         lambda row: _least(row, "desired_p50")),
    Head("P95", "95th percentile of the size without maxReplicas",
         lambda row: _least(row, "desired_p95")),
    Head("P99", "99th percentile of the size without maxReplicas",
         lambda row: _least(row, "desired_p99")),
    Head("PEAK", "the highest size without maxReplicas", lambda row: _least(row, "desired_max")),
    Head("MAX OK", "the maxReplicas that would have sufficed",
         lambda row: _least(row, "max_sufficient")),
    Head("MIN OK", "the minReplicas that would have sufficed", "min_sufficient",
         lambda fewest: "none" if fewest is None else f"{fewest:,}"),
    Head("AT MAX", "share of the run in which maxReplicas held it: the metrics asked for more",
         lambda row: share_of_minutes(row, "held_minutes")),
    Head("FIRST", "the first time at maxReplicas", "first_at_max", minute),
    Head("MONTH", "cost of 30 days today", "month", amount, needs="month"),
    Head("WITHOUT", "cost of 30 days without maxReplicas", "month_unclamped", amount,
         needs="month"),
    UNRELIABLE,
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Plan(CapacityPlan, Result):
    """What HPAs ask for without maxReplicas.

    Attributes:
        hpas: one row per HPA and growth.
        totals: one row per growth, scope, bounds, covers and resource: sums, quotas and money.
        skipped: HPAs that could not be simulated.
        notes: sentences on what is not judged, or cannot be relied on; `quota_notes` come first.
        evidence: the versions, parameters and digests that the plan rests on.
        written: the places of files.
    """

    quota_notes: tuple[str, ...] = ()
    written: Sequence[str] = ()
    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        every, held = (
            frame.select(_KEY).n_unique()
            for frame in (self.hpas, self.hpas.filter(pl.col("held_minutes") > 0))
        )
        line = f"{counted(every, 'HPA')} planned; maxReplicas holds {held:,} of them"
        if self.hpas["growth"].n_unique() > 1:
            line += " at some growth"
        if self.totals["quota"].null_count() < self.totals.height:
            over = self.totals.filter(pl.col("exceeded_minutes") > 0)
            line += f"; {counted(over['namespace'].n_unique(), 'namespace')} above a quota"
        return line

    @property
    def frame(self) -> pl.DataFrame:
        return self.hpas

    def body(self, view: View) -> Iterator[str | Grid]:
        yield _totals_grid(self.totals, self.hpas)
        yield ""
        yield _hpas_grid(self.hpas)
        yield ""
        yield from _unusable(self)

    def basis(self) -> list[str]:
        evidence = self.evidence
        return [
            rules_line(evidence),
            "planned by simulation with maxReplicas removed (docs/plan.md); growth "
            f"{evidence['growth']}, scenario {evidence.get('scenario', 'none')}, seed "
            f"{evidence['seed']}",
        ]

    def hints(self) -> Sequence[str]:
        return self.written

    def document(self) -> dict[str, Any]:
        return {
            "evidence": self.evidence,
            "hpas": Rows(self.hpas),
            "totals": Rows(self.totals),
            "skipped": skipped_rows(self.skipped),
            "warnings": list(self.notes[len(self.quota_notes) :]),
            "written": Line(list(self.written)),
        }


def _unusable(plan: CapacityPlan) -> Iterator[str]:
    refused = plan.hpas.filter(~pl.col("usable")).unique(_KEY, keep="first", maintain_order=True)
    if refused.height:
        yield f"not to be relied on ({counted(refused.height, 'HPA')}, under one growth or more):"
        many = many_clusters(plan.hpas)
        for row in refused.head(SHOWN_REASONS).iter_rows(named=True):
            yield f"  {printable(row_label(row, many))}: {row['why_not']}"
        if line := more(refused.height - SHOWN_REASONS, "why_not in --output csv"):
            yield f"  {line}"
    if plan.skipped:
        yield f"not planned: {counted(len(plan.skipped), 'HPA')} (why: on stderr)"


# ---- sums


def _totals_grid(totals: pl.DataFrame, hpas: pl.DataFrame) -> Grid:
    many = totals.filter(pl.col("scope") == "cluster")["cluster"].n_unique() > 1
    censored = hpas.filter(pl.col("censored_pct") > CENSORED_PCT)
    places = censored.select("growth", "cluster", "namespace").unique().rows()
    least = {place[:depth] for place in places for depth in (1, 2, 3)}
    rows = [
        row
        | {"today": old, "where": _scope(row, many), "least": ">" if _place(row) in least else ""}
        for row, old in _ranked(totals, many)
    ]
    where, columns = "--totals FILE has all", PLAN_TOTALS.columns
    return Grid.of(TOTAL_HEADS, rows, SHOWN_ROWS, where, frame=totals, columns=columns)


def _is_money(row: Mapping[str, Any]) -> bool:
    return row["resource"] == "money"  # type: ignore[no-any-return]


def _at_least(row: Mapping[str, Any], name: str) -> str:
    text = amount(row[name])
    return f"{row['least']}{text}" if text else text


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a sum's growth, cluster and namespace, as far as it has them."""
    place = (row["growth"], row["cluster"], row["namespace"])
    return place[: ("fleet", "cluster", "namespace").index(row["scope"]) + 1]


def _ranked(totals: pl.DataFrame, many: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return rows without maxReplicas, each with today's, in the order of `_rank`.

    Sums of clusters are there only where there are many.
    """
    keys = ["growth", "scope", "cluster", "namespace", "covers", "resource"]
    every = totals.filter(pl.col("covers") == "all")
    today = every.filter(pl.col("bounds") == "today")
    other = every.filter(pl.col("bounds") == "unclamped")
    pairs = list(zip(other.to_dicts(), today.to_dicts(), strict=True))
    assert other.select(keys).equals(today.select(keys))  # two halves of the same order
    ranked = [
        (_rank(row), k, row, old)
        for k, (row, old) in enumerate(pairs)
        if (row["hpas"] or old["hpas"]) and (many or row["scope"] != "cluster")
    ]
    return [(row, old) for *_, row, old in sorted(ranked, key=lambda item: item[:2])]


def _rank(row: Mapping[str, Any]) -> tuple[float, float]:
    """Order rows: fleet, clusters, namespaces by how little of a quota is left, then the others."""
    if row["scope"] != "namespace":
        return (0.0 if row["scope"] == "fleet" else 1.0), 0.0
    quota, room = row["quota"], row["lowest_headroom"]
    if quota is None or room is None:
        return 3.0, 0.0
    return 2.0, room / quota if quota > 0 else -1.0


def _scope(row: Mapping[str, object], many: bool) -> str:
    parts = [row["cluster"] if many or row["scope"] == "cluster" else None, row["namespace"]]
    return "/".join(str(part) for part in parts if part is not None) or "fleet"


# ---- HPAs


def _hpas_grid(hpas: pl.DataFrame) -> Grid:
    worst = hpas.group_by(_KEY).agg(
        held=pl.col("held_minutes").max(), at=pl.col("at_max_pct").max()
    )
    ordered = hpas.join(worst, on=_KEY, maintain_order="left").sort(
        ["held", "at", *_KEY, "growth"], descending=[True, True, *[False] * 4]
    )
    return Grid.of(HPA_HEADS, ordered, SHOWN_ROWS, frame=hpas, columns=PLAN_HPAS.columns)


def _least(row: Mapping[str, Any], name: str) -> str:
    """Return a size; `>`: at least so much, as the recorded work may have been cut off."""
    least = ">" if row["censored_pct"] > CENSORED_PCT else ""
    return "none" if row[name] is None else f"{least}{row[name]:,}"
