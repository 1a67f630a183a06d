"""The result of `hpabatch findings`: a row per HPA and finding, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import SEVERITIES
from hpabatch.engine.findings.run import findings_of
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import join_notes, replay_shards
from hpabatch.engine.replay.summary import join_summaries
from hpabatch.model.printable import counted
from hpabatch.model.progress import Progress, silent
from hpabatch.report.base import HPA, Grid, Head, Result, View
from hpabatch.report.replay import evidence_lines

HEADS: Final = (
    Head.of(FINDINGS["severity"], "SEVERITY", left=True),
    HPA,
    Head.of(FINDINGS["finding"], "FINDING", left=True),
    Head.of(FINDINGS["why"], "WHY", left=True, folds=True),
    Head.of(FINDINGS["fix"], "FIX", left=True, folds=True, room=140),
)


@dataclass(frozen=True, repr=False)
class Findings(Result):
    """Findings.

    Attributes:
        found: one row per HPA and finding.
        hpas: how many HPAs were looked at.
        facts: what the findings rest on.
        warnings: what was odd.
        skipped: HPAs that could not be looked at.
    """

    found: pl.DataFrame
    hpas: int
    facts: Mapping[str, str]
    warnings: Sequence[str] = ()
    skipped: Sequence[Skipped] = ()

    @property
    def verdict(self) -> str:
        """How many findings there are of each severity."""
        if self.found.is_empty():
            return f"{counted(self.hpas, 'HPA')}: nothing stands out"
        counts = Counter(self.found["severity"])
        parts = [f"{counts[name]} {name}" for name in SEVERITIES if counts[name]]
        total = counted(self.found.height, "finding")
        return f"{counted(self.hpas, 'HPA')}: {total} ({', '.join(parts)})"

    @property
    def frame(self) -> pl.DataFrame:
        """The findings."""
        return self.found

    @property
    def evidence(self) -> Mapping[str, str] | None:
        """What they rest on."""
        return self.facts or None

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate the findings."""
        if self.found.height:
            yield Grid.of(HEADS, self.found, frame=self.found, columns=FINDINGS.columns)

    def basis(self) -> list[str]:
        """Return rules and parameters."""
        return evidence_lines(self.facts) if self.facts else []

    def hints(self) -> list[str]:
        """Return where each finding is explained."""
        return ["what to do: docs/findings.md, or --output wide"] if self.found.height else []


def findings_in(plan: ReplayPlan, progress: Progress = silent) -> Findings:
    """Return the findings of the HPAs of a replay plan; memory is bounded by a shard.

    Raises:
        HistoryError: a table is broken.
    """
    facts, parts = [], []
    for k, shard in enumerate(replay_shards(plan, range(len(plan.shards)), keep=False)):
        progress("deciding", k / len(plan.shards))
        facts.append(shard.facts)
        parts.append(shard.summary)
    notes, summary = join_notes(plan, facts), join_summaries(parts)
    found = findings_of(summary, plan)
    return Findings(found, summary.height, notes.evidence, notes.warnings, notes.skipped)
