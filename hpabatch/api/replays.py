"""A replay in Python: its decisions, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.attention import rank_attention
from hpabatch.engine.replay.run import ReplayResult
from hpabatch.engine.replay.score import Score, score
from hpabatch.engine.replay.summary import FleetTotals, summarize, total
from hpabatch.history.atomic import atomic_path
from hpabatch.jobs.parquet import write_parquet


@dataclass(frozen=True)
class Replay:
    """What a replay decided.

    Attributes:
        plan: what was replayed, and under which assumptions.
        result: what came of it.
    """

    plan: ReplayPlan
    result: ReplayResult

    def __repr__(self) -> str:
        """Return how much it is."""
        return f"<replay of {self.result.hpas.height} HPAs: {self.decisions.height} decisions>"

    @property
    def decisions(self) -> pl.DataFrame:
        """One row per HPA and tick; docs/output.md explains the columns."""
        return self.result.decisions

    @property
    def hpas(self) -> tuple[Candidate, ...]:
        """The HPAs that were replayed, with their specs."""
        return self.plan.chosen

    @property
    def evidence(self) -> dict[str, str]:
        """What the result rests on: version, profile, parameters and their sources, digests."""
        return self.result.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd."""
        return self.result.warnings

    @cached_property
    def skipped(self) -> pl.DataFrame:
        """HPAs that could not be replayed: cluster, namespace, hpa, reason."""
        rows = [(s.cluster, s.namespace, s.hpa, s.reason) for s in self.result.skipped]
        columns = ["cluster", "namespace", "hpa", "reason"]
        return pl.DataFrame(rows, dict.fromkeys(columns, pl.String()), orient="row")

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per HPA."""
        return summarize(self.result.decisions, self.result.hpas)

    @cached_property
    def totals(self) -> FleetTotals:
        """Sums over the summary."""
        return total(self.summary)

    @cached_property
    def score(self) -> Score:
        """How well the decided rescales meet the recorded ones: `hpas` and `events`."""
        return score(self.result.decisions, self.result.hpas)

    def attention(self, top: int = 20) -> pl.DataFrame:
        """Return the HPAs most worth a look: rank, key, rule, score, why."""
        return rank_attention(self.summary, top)

    def write(self, path: Path | str) -> None:
        """Write the decisions as Parquet, with the evidence; the file is whole or not there.

        Raises:
            UsageError: it cannot be written.
        """
        with atomic_path(path) as temporary:
            write_parquet(self.decisions, self.evidence, temporary)
