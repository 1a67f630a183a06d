"""The package against the naive reference on drawn inputs: batches and differences.

    make fuzz                      200,000 calculator cases and 5,000 timelines
    make fuzz N=1000000 SEED=7     a million cases and 25,000 timelines, drawn from another seed
    make test                      a hundredth of the first, always the same

Four kinds of inputs, in the form of the golden data (tests/reference/generate.py describes what
goes beyond it): calculator cases; timelines with pods, half of them extended by edits of metrics,
generations, feature gates and statuses that could not be written; timelines of behavior, long and
without pods; groups of HPAs of one namespace, half of them extended. Each is compared whole, with
all texts, times and events, under 1.38, 1.36 and one more version, drawn for it.

An input that differs is written to build/fuzz, without the ticks after the first difference, with
the answers of both and with the seed that draws it again. A batch is named by a few numbers, so
that it can be drawn, and drawn again, in any process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hpabatch import _jit
from tests.conformance.decide import decide_calculator_case, decide_timeline
from tests.conformance.groups import decide_group
from tests.reference.calculator import evaluate_case
from tests.reference.controller import run_timeline
from tests.reference.generate import behavior_timeline, calculator_case, group_timeline, timeline
from tests.reference.group import run_group
from tests.reference.profiles import VERSIONS

Json = dict[str, Any]

ALWAYS = ("1.38", "1.36")
OTHERS = tuple(version for version in VERSIONS if version not in ALWAYS)
FAILURES = Path("build") / "fuzz"
CASE, TIMELINE, BEHAVIOR_TIMELINE, GROUP = "calculator", "timeline", "behavior_timeline", "group"
KINDS = (CASE, TIMELINE, BEHAVIOR_TIMELINE, GROUP)
TIMELINES_PER_CASE = 1 / 40
_MOST_REPORTED = 4  # differences per batch
_LONGEST = {TIMELINE: 100, BEHAVIOR_TIMELINE: 300, GROUP: 60}  # ticks
_BATCH = {CASE: 1000, TIMELINE: 50, BEHAVIOR_TIMELINE: 50, GROUP: 25}
_QUIET_S = 60  # between two lines of progress

AGREE, DIFFER, OURS_FAILED, REFERENCE_FAILED = "agree", "differ", "hpabatch failed", "refused"


class Batch(NamedTuple):
    """`size` drawn inputs of one kind, from number `first` on of a run with this seed."""

    kind: str
    seed: int
    first: int
    size: int


@dataclass
class Figures:
    """What was compared: inputs by kind, decisions by kind and version, files of differences."""

    inputs: Counter[str] = field(default_factory=Counter)
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: tuple[str, ...] = ()

    def add(self, other: Figures) -> None:
        """Add another batch's figures."""
        self.inputs += other.inputs
        self.decisions += other.decisions
        self.differences += other.differences

    def __str__(self) -> str:
        inputs = ", ".join(f"{self.inputs[kind]:,} {kind}" for kind in KINDS)
        total = sum(self.decisions.values())
        return f"{inputs}: {total:,} decisions compared, {len(self.differences)} differences"

    def by_version(self) -> str:
        """Return the decisions of each version and kind as a table."""
        lines = ["version" + "".join(f"{kind:>20}" for kind in KINDS)]
        for version in VERSIONS:
            counts = "".join(f"{self.decisions[kind, version]:>20,}" for kind in KINDS)
            lines.append(f"{version:<7}{counts}")
        return "\n".join(lines)


def draw(kind: str, rng: random.Random, longest: int = 0) -> Json:
    """Draw one input in golden form; `longest` bounds a timeline's ticks (0: the usual bound)."""
    if kind == CASE:
        return calculator_case(rng)
    ticks = rng.randint(1, longest or _LONGEST[kind])
    if kind == BEHAVIOR_TIMELINE:
        return behavior_timeline(rng, ticks)
    extended = rng.random() < 0.5
    return (timeline if kind == TIMELINE else group_timeline)(rng, ticks, extended)


def draw_versions(rng: random.Random) -> tuple[str, ...]:
    """Draw the versions under which an input is compared."""
    return (*ALWAYS, rng.choice(OTHERS))


def decisions(row: Json, k8s: str) -> tuple[list[Any], list[Any]]:
    """Return (the package's, the reference's) decisions: of a case one, of a group per tick."""
    return ours(row, k8s), theirs(row, k8s)


def ours(row: Json, k8s: str) -> list[Any]:
    """Return the package's decisions of an input."""
    if "hpas" in row:
        return list(decide_group(row, k8s))
    return decide_timeline(row, k8s) if "ticks" in row else [decide_calculator_case(row, k8s)]


def theirs(row: Json, k8s: str) -> list[Any]:
    """Return the reference's decisions of an input."""
    if "hpas" in row:
        return list(run_group(row, k8s))
    return run_timeline(row, k8s) if "ticks" in row else [evaluate_case(row, k8s)]


def compare(row: Json, k8s: str) -> str:
    """Say whether the two agree, and if not, in which way."""
    try:
        expected = theirs(row, k8s)
    except Exception:  # noqa: BLE001 - the failing input is wanted, whatever failed
        return REFERENCE_FAILED
    try:
        found = ours(row, k8s)
    except Exception:  # noqa: BLE001 - as above
        return OURS_FAILED
    return AGREE if found == expected else DIFFER


def count_decisions(row: Json) -> int:
    """Return how many decisions an input asks for."""
    if "hpas" in row:
        return sum(len(tick["hpas"]) for tick in row["ticks"])
    return len(row.get("ticks", (row,)))


def report_difference(row: Json, k8s: str, where: str) -> str:
    """Write an input up to where it first differs to build/fuzz; return a line about it."""
    way = compare(row, k8s)
    for count in range(1, len(row.get("ticks", ()))):
        first = row | {"ticks": row["ticks"][:count]}
        if compare(first, k8s) == way:
            row = first
            break
    report: Json = {"k8s": k8s, "drawn": where, "way": way, "input": row}
    answers: tuple[tuple[str, Callable[[Json, str], list[Any]]], ...]
    answers = (("hpabatch", ours), ("reference", theirs))
    for name, answer in answers:
        try:
            report[name] = answer(row, k8s)
        except Exception as error:  # noqa: BLE001 - part of the report
            report[name] = repr(error)
    FAILURES.mkdir(parents=True, exist_ok=True)
    path = FAILURES / f"{row['id']}-{k8s}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return f"{path}: {way} under {k8s}, drawn with {where}"


# --- batches --------------------------------------------------------------------------------------


def run_batch(batch: Batch) -> Figures:
    """Draw and compare one batch; a few differences end it."""
    rng = random.Random(f"{batch.kind} {batch.seed} {batch.first}")
    figures = Figures()
    for number in range(batch.first, batch.first + batch.size):
        row = draw(batch.kind, rng)
        figures.inputs[batch.kind] += 1
        for k8s in draw_versions(rng):
            figures.decisions[batch.kind, k8s] += count_decisions(row)
            if compare(row, k8s) != AGREE:
                where = f"SEED={batch.seed}: {batch.kind} number {number} (batch {batch.first})"
                figures.differences += (report_difference(row, k8s, where),)
        if len(figures.differences) >= _MOST_REPORTED:
            break
    return figures


def plan(seed: int, cases: int, timelines: int) -> list[Batch]:
    """Return the batches of a run: of the timelines 40 % have pods, 40 % no pods, 20 % are groups.

    Kinds take turns, so that a run that is ended early has seen all of them.
    """
    groups = timelines // 5
    with_pods = (timelines - groups + 1) // 2
    counts = {
        CASE: cases,
        TIMELINE: with_pods,
        BEHAVIOR_TIMELINE: timelines - groups - with_pods,
        GROUP: groups,
    }
    batches = []
    for kind, count in counts.items():
        size = _BATCH[kind]
        for first in range(0, count, size):
            batch = Batch(kind, seed, first, min(size, count - first))
            batches.append((first / count, KINDS.index(kind), batch))
    return [batch for _, _, batch in sorted(batches)]


def run_batches(
    batches: Iterable[Batch], processes: int, tell: Callable[[str], None] = lambda line: None
) -> Figures:
    """Run all batches here or in fresh processes, which have one thread each.

    `tell` gets a line every minute, and one for every difference as soon as it is known.
    """
    wanted, total = list(batches), Figures()
    started = told = time.monotonic()
    for done, figures in enumerate(_results(wanted, processes), 1):
        total.add(figures)
        for line in figures.differences:
            tell(line)
        now = time.monotonic()
        if now - told >= _QUIET_S:
            told = now
            tell(f"fuzz: {done} of {len(wanted)} batches in {now - started:.0f} s; {total}")
    return total


def _results(batches: list[Batch], processes: int) -> Iterator[Figures]:
    if processes <= 1:
        yield from map(run_batch, batches)
        return
    context = multiprocessing.get_context("spawn")  # compiled code with threads must not be forked
    with ProcessPoolExecutor(processes, context, _one_thread) as pool:
        for future in as_completed([pool.submit(run_batch, batch) for batch in batches]):
            yield future.result()


def _one_thread() -> None:
    _jit.THREADS = 1  # the processes are the threads


def available_processes() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def tell_at_once(line: str) -> None:
    """Show a line of a long run."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
