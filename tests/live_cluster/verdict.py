"""Judging a run from the files that it left: a row for each case, every difference, an exit code.

`run.json` says what was run; beside it lie the audit log, what the loop said, and its recording.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live_cluster.cases import Case
from tests.live_cluster.compare import Agreement, compare_decisions
from tests.live_cluster.plug import told_sizes
from tests.live_cluster.recording import Recording, open_recording
from tests.live_cluster.sequences import Difference, compare_told
from tests.live_cluster.truth import Hpa, Truth, read_truth

MOST_EXPLAINED = 0.02  # of all decisions at the controller's instants
LATE_MS = 250  # a pass may come that much later than it should, on a busy machine


@dataclass(frozen=True)
class Run:
    """What was run, until when it counts; `lively`: each case is to move as its table says."""

    folder: Path
    namespace: str
    end_ms: int
    every_ms: int
    window_ms: int
    k8s: str | None
    gates: str
    audit: Path | None
    lively: bool

    def save(self) -> None:
        kept = {
            "namespace": self.namespace, "end_ms": self.end_ms, "every_ms": self.every_ms,
            "window_ms": self.window_ms, "k8s": self.k8s,
            "gates": self.gates, "audit": str(self.audit) if self.audit else None,
            "lively": self.lively,
        }  # fmt: skip
        (self.folder / "run.json").write_text(json.dumps(kept))

    def hpa(self, case: Case) -> Hpa:
        return Hpa(self.namespace, case.name)


def load_run(folder: Path) -> Run:
    """Return what `save` kept."""
    kept: dict[str, Any] = json.loads((folder / "run.json").read_text())
    audit = Path(kept["audit"]) if kept["audit"] else None
    texts = (kept["k8s"], kept["gates"])
    times = (kept["end_ms"], kept["every_ms"], kept["window_ms"])
    return Run(folder, kept["namespace"], *times, *texts, audit, bool(kept["lively"]))


@dataclass
class Row:
    """How a case went. `sizes` are the controller's; None: it was not compared."""

    case: Case
    syncs: int
    sizes: list[int]
    dull: bool
    told: list[Difference] | None = None
    replayed: Agreement | None = None

    def all_differences(self) -> list[tuple[str, Difference]]:
        found = [("recording", one) for one in self.told or ()]
        return found + [("decision", one) for one in (self.replayed or Agreement()).differences]


@dataclass
class Verdict:
    """Rows of all cases."""

    rows: list[Row] = field(default_factory=list)

    @property
    def explained_share(self) -> float:
        """Share of the decisions at the controller's instants that had to be explained."""
        replayed = [row.replayed for row in self.rows if row.replayed is not None]
        decisions = sum(one.decisions for one in replayed)
        return sum(len(one.differences) for one in replayed) / max(decisions, 1)

    @property
    def failed(self) -> bool:
        return self.dull or self.differs

    @property
    def dull(self) -> bool:
        """Whether the controller moved too little to be compared with: the machine was busy."""
        return any(row.dull for row in self.rows)

    @property
    def differs(self) -> bool:
        """Whether the decisions differ, or too many of them had to be explained."""
        unexplained = any(not one.why for row in self.rows for _, one in row.all_differences())
        return unexplained or self.explained_share > MOST_EXPLAINED


def judge_truth(run: Run, cases: Sequence[Case]) -> tuple[Truth, Verdict]:
    """Judge what the controller did: is there something to compare?"""
    verdict = Verdict()
    truth = Truth()
    if run.audit is not None:
        targets = {case.target_in(run.namespace): run.hpa(case) for case in cases}
        known = {target: hpa for target, hpa in targets.items() if target is not None}
        truth = read_truth(run.audit, known).until(run.end_ms)
    for case in cases:
        hpa = run.hpa(case)
        sizes = truth.sizes(hpa)
        dull = run.lively and len(sizes) < case.moves
        verdict.rows.append(Row(case, len(truth.syncs.get(hpa, ())), sizes, dull))
    return truth, verdict


def judge(run: Run, cases: Sequence[Case]) -> Verdict:
    """Judge a run of the loop beside its cluster's controller."""
    truth, verdict = judge_truth(run, cases)
    recording = open_recording(run.folder / "history", run.k8s, run.gates)
    again, told = recording.at_passes(), told_sizes(run.folder)
    replayed = _replayed(run, recording, truth, cases)
    for row in verdict.rows:
        hpa = run.hpa(row.case)
        row.told = compare_told(hpa, told.get(hpa, []), again)
        row.replayed = replayed.get(hpa)
    return verdict


def _replayed(
    run: Run, recording: Recording, truth: Truth, cases: Sequence[Case]
) -> dict[Hpa, Agreement]:
    if run.audit is None:
        return {}
    hpas = [run.hpa(case) for case in cases if case.target is not None]
    gap_ms = run.every_ms + LATE_MS
    return compare_decisions(recording, truth, hpas, run.window_ms, gap_ms)
