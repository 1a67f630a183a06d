"""The package against the naive reference on drawn cases: batches, differences, smallest cases.

A batch is named by a few numbers, so that it can be drawn, and drawn again, in any process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.decide import decide_calculator_case, decide_timeline
from tests.reference.calculator import evaluate_case
from tests.reference.controller import run_timeline
from tests.reference.generate import behavior_timeline, calculator_case, timeline

Json = dict[str, Any]

VERSIONS = ("1.38", "1.36")
FAILURES = Path("build") / "fuzz"
CASE, TIMELINE, BEHAVIOR_TIMELINE = "calculator", "timeline", "behavior_timeline"
_MOST_REPORTED = 4  # differences per batch: each is made small, which takes a while
_LONGEST = {TIMELINE: 100, BEHAVIOR_TIMELINE: 300}  # ticks


class Batch(NamedTuple):
    """`size` drawn inputs of one kind, from number `first` on of a run with this seed."""

    kind: str
    seed: int
    first: int
    size: int


@dataclass
class Figures:
    """What was compared: inputs, decisions under both versions, and the files of differences."""

    cases: int = 0
    case_decisions: int = 0
    timelines: int = 0
    ticks: int = 0
    files: tuple[str, ...] = ()

    def add(self, other: Figures) -> None:
        """Add another batch's figures."""
        self.cases += other.cases
        self.case_decisions += other.case_decisions
        self.timelines += other.timelines
        self.ticks += other.ticks
        self.files += other.files

    def __str__(self) -> str:
        return (
            f"{self.cases:,} calculator cases ({self.case_decisions:,} decisions under both "
            f"versions), {self.timelines:,} timelines ({self.ticks:,} ticks), "
            f"{len(self.files)} differences"
        )


def draw(kind: str, rng: random.Random, longest: int = 0) -> Json:
    """Draw one input in golden form; `longest` bounds a timeline's ticks (0: the usual bound)."""
    if kind == CASE:
        return calculator_case(rng)
    ticks = rng.randint(1, longest or _LONGEST[kind])
    return (timeline if kind == TIMELINE else behavior_timeline)(rng, ticks)


def decisions(row: Json, k8s: str) -> tuple[list[Json], list[Json]]:
    """Return (the package's, the reference's) decisions of a case (one) or a timeline."""
    if "ticks" in row:
        return decide_timeline(row, k8s), run_timeline(row, k8s)
    return [decide_calculator_case(row, k8s)], [evaluate_case(row, k8s)]


def differs(row: Json, k8s: str) -> bool:
    """Say whether the two disagree; a failure of either is a disagreement."""
    try:
        ours, reference = decisions(row, k8s)
    except Exception:  # noqa: BLE001 - the failing input is wanted, whatever failed
        return True
    return ours != reference


# --- the smallest failing input -------------------------------------------------------------------


def _without(row: Json, key: str, index: int) -> Json:
    entries = row[key]
    return row | {key: entries[:index] + entries[index + 1 :]}


def _smaller_cases(case: Json) -> Iterator[Json]:
    yield from (_without(case, "pods", k) for k in range(len(case["pods"])))
    for name in case.get("pod_metrics") or ():
        yield case | {"pod_metrics": {k: v for k, v in case["pod_metrics"].items() if k != name}}
    for k in range(len(case.get("external_values") or ())):
        yield _without(case, "external_values", k)


def _smaller_timelines(row: Json) -> Iterator[Json]:
    ticks = row["ticks"]
    size = len(ticks) // 2
    while size > 0:  # whole blocks first, from the end
        for first in range(len(ticks) - size, -1, -size):
            yield row | {"ticks": ticks[:first] + ticks[first + size :]}
        size //= 2
    for t, tick in enumerate(ticks):
        for k in range(len(tick["pods"])):
            yield row | {"ticks": [*ticks[:t], _without(tick, "pods", k), *ticks[t + 1 :]]}


def shrink(row: Json, is_failing: Callable[[Json], bool], attempts: int = 2000) -> Json:
    """Return a smaller input that still fails, dropping one part at a time."""
    smaller = _smaller_timelines if "ticks" in row else _smaller_cases
    candidates = smaller(row)
    for _ in range(attempts):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if is_failing(candidate):
            row, candidates = candidate, smaller(candidate)
    return row


def report_difference(row: Json, k8s: str) -> str:
    """Write the smallest failing form of an input to build/fuzz; return the file's name."""
    smallest = shrink(row, lambda candidate: differs(candidate, k8s))
    report: Json = {"k8s": k8s, "input": smallest}
    try:
        report["hpabatch"], report["reference"] = decisions(smallest, k8s)
    except Exception as error:  # noqa: BLE001 - part of the report
        report["error"] = repr(error)
    FAILURES.mkdir(parents=True, exist_ok=True)
    path = FAILURES / f"{row['id']}-{k8s}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return str(path)


# --- batches --------------------------------------------------------------------------------------


def run_batch(batch: Batch) -> Figures:
    """Draw and compare one batch under both versions; a few differences end it."""
    rng = random.Random(f"{batch.kind} {batch.seed} {batch.first}")
    figures = Figures()
    for _ in range(batch.size):
        row = draw(batch.kind, rng)
        compared = len(VERSIONS) * len(row.get("ticks", (row,)))
        if batch.kind == CASE:
            figures.add(Figures(cases=1, case_decisions=compared))
        else:
            figures.add(Figures(timelines=1, ticks=compared))
        for k8s in VERSIONS:
            if differs(row, k8s):
                figures.files += (report_difference(row, k8s),)
        if len(figures.files) >= _MOST_REPORTED:
            break
    return figures


def plan(seed: int, cases: int, timelines: int) -> list[Batch]:
    """Return the batches of a run; half of the timelines have pods, half edits of behavior."""
    counts = {CASE: cases, TIMELINE: (timelines + 1) // 2, BEHAVIOR_TIMELINE: timelines // 2}
    sizes = {CASE: 2000, TIMELINE: 50, BEHAVIOR_TIMELINE: 50}
    batches = []
    for kind, count in counts.items():
        for first in range(0, count, sizes[kind]):
            batches.append(Batch(kind, seed, first, min(sizes[kind], count - first)))
    return batches


def run_batches(batches: Iterable[Batch], processes: int) -> Figures:
    """Run all batches here or in fresh processes; threads of the kernels stay out of the way."""
    total = Figures()
    if processes <= 1:
        for batch in batches:
            total.add(run_batch(batch))
        return total
    context = multiprocessing.get_context("spawn")  # compiled code with threads must not be forked
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for figures in pool.map(run_batch, batches):
            total.add(figures)
    return total


def available_processes() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
