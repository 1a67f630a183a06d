"""The result of `hpabatch findings`: a row per HPA and finding, the worst first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import SEVERITIES
from hpabatch.engine.findings.run import judged_findings, unjudged
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import join_notes, replay_shards
from hpabatch.engine.replay.summary import join_summaries
from hpabatch.model.printable import counted
from hpabatch.model.progress import Progress, silent
from hpabatch.report.base import (
    HPA,
    Fault,
    Grid,
    Head,
    Result,
    View,
    label,
    many_clusters,
    row_label,
)
from hpabatch.report.replay import evidence_lines

HEADS: Final = (
    Head.of(FINDINGS["severity"], "SEVERITY", left=True),
    HPA,
    Head.of(FINDINGS["finding"], "FINDING", left=True),
    Head.of(FINDINGS["why"], "WHY", left=True, folds=True),
    Head.of(FINDINGS["fix"], "FIX", left=True, folds=True, room=140),
)


_NOT_JUDGED: Final = (
    Head("NOT JUDGED", "the HPA", 0, left=True, folds=True),
    Head("BECAUSE", "the reason", 1, left=True, folds=True),
)
_MOST_NOT_JUDGED: Final = 20


@dataclass(frozen=True, repr=False)
class Findings(Result):
    """Findings.

    Attributes:
        found: one row per HPA and finding.
        hpas: how many HPAs were looked at.
        facts: what the findings rest on.
        warnings: what was odd.
        skipped: HPAs that could not be looked at, or judged.
        ignored: findings that an annotation ignores until a day.
    """

    found: pl.DataFrame
    hpas: int
    facts: Mapping[str, str]
    warnings: Sequence[str] = ()
    skipped: Sequence[Skipped] = ()
    ignored: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FINDINGS.schema))

    @property
    def verdict(self) -> str:
        """How many findings there are of each severity, and how many HPAs could not be judged."""
        counts = Counter(self.found["severity"])
        parts = [f"{counts[name]} {name}" for name in SEVERITIES if counts[name]]
        line = f"{counted(self.hpas, 'HPA')}: "
        if parts:
            line += f"{counted(self.found.height, 'finding')} ({', '.join(parts)})"
        else:
            line += "nothing stands out" if self.hpas else "nothing could be judged"
        if self.ignored.height:
            line += f", {self.ignored.height} ignored"
        left_out = len({item.key for item in self.skipped})
        return line + (f"; {counted(left_out, 'HPA')} not judged" if left_out else "")

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
        if self.found.height and self.skipped:
            yield ""
        if self.skipped:
            lines = [
                (label(*item.key, with_cluster=bool(item.cluster)), item.reason)
                for item in self.skipped
            ]
            yield Grid.of(_NOT_JUDGED, lines, _MOST_NOT_JUDGED, "stderr has all")

    def basis(self) -> list[str]:
        """Return rules and parameters."""
        return evidence_lines(self.facts) if self.facts else []

    def faults(self) -> Iterator[Fault]:
        """Generate the findings, ignored ones too, with the place of the manifest."""
        for ignored, frame in ((False, self.found), (True, self.ignored)):
            yield from faults_of(frame, ignored=ignored)

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
    judged = judged_findings(summary, plan)
    left_out = tuple(unjudged(summary, judged))
    return Findings(
        judged.found,
        summary.height - len(left_out),
        notes.evidence,
        notes.warnings,
        (*notes.skipped, *left_out),
        judged.ignored,
    )


def faults_of(frame: pl.DataFrame, *, ignored: bool = False) -> Iterator[Fault]:
    """Generate the faults of a frame of findings."""
    many = many_clusters(frame)
    for row in frame.iter_rows(named=True):
        place = json.loads(row["evidence"])
        source, line = str(place.get("source", "")), place.get("line", 0)
        yield Fault(row["finding"], row_label(row, many), row["why"], source, line, ignored)
