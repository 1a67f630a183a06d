"""Intervals of fitted bases against fleets whose truth is known, by kind of plant and of export.

python -m benchmarks.base_truth --seed 101 --hpas 48 --work build/base_truth
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.truth_fleet import CPU, KINDS, FleetOptions, Truth, make_fleet
from benchmarks.truth_judge import Share
from benchmarks.truth_ways import CSV, FULL, Recording, write_history
from hpabatch.engine.fit.run import fit_history
from hpabatch.engine.fit.workload import FITTED
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.model.versions import profile_for

SYNC_MS: Final = 30_000
BATCH: Final = 12


def rows_of(seed: int, hpas: int, weeks: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield what was fitted of each HPA, by way."""
    fleet = make_fleet(FleetOptions(hpas, weeks, seed, SYNC_MS, kinds=KINDS))
    for first in range(0, hpas, BATCH):
        some = fleet[first : first + BATCH]
        asked = Recording(some, weeks, SYNC_MS, seed, profile_for("1.37"))
        for way in (FULL, CSV):
            folder = work / f"{seed}-{first}-{way.split()[0]}"
            history = folder / "history"
            if not history.exists():
                write_history(asked, way, 0, folder)
            yield from _fitted(some, way, history)


def _fitted(fleet: Sequence[Truth], way: str, history: Path) -> Iterator[dict[str, Any]]:
    truths = {t.key[1:]: t for t in fleet}
    plan = plan_replay(open_history(history), ReplayParameters("1.37", sync_period_ms=SYNC_MS))
    for fit in fit_history(plan):
        truth = truths[fit.candidate.namespace, fit.candidate.name]
        signal, fact = truth.workload.plant.signals[CPU], fit.fact(f"signals.{CPU}.base")
        row: dict[str, Any] = {"hpa": truth.key[2], "way": way, "kind": truth.kind}
        row |= {"true": signal.base_milli / 1000, "request": (signal.request_milli or 0) / 1000}
        if fact is not None:
            row |= {name: getattr(fact, name) for name in ("value", "low", "high", "source")}
        yield row | {"problems": "; ".join(fit.problems)}


def holds(row: dict[str, Any]) -> bool:
    """Say whether the interval holds the true base."""
    return bool(row["low"] <= row["true"] + 1e-9 and row["true"] - 1e-9 <= row["high"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; print each row, and the share of intervals that hold by way and kind."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, default in (("seed", 101), ("hpas", 48), ("weeks", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--work", type=Path, default=Path("build/base_truth"))
    given = parser.parse_args(arguments)
    held: Counter[tuple[str, str]] = Counter()
    told: Counter[tuple[str, str]] = Counter()
    hpas: Counter[tuple[str, str]] = Counter()
    for row in rows_of(given.seed, given.hpas, given.weeks, given.work):
        print(row, flush=True)
        keys = [(row["way"], kind) for kind in (row["kind"], "all")]
        hpas.update(keys)
        if row.get("source") == FITTED:
            told.update(keys)
            held.update(keys if holds(row) else [])
    for key in sorted(hpas):
        share = Share(held[key], told[key]).words
        print(f"{key[0]:20s}{key[1]:16s}{hpas[key]:4d} HPAs, intervals hold {share}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
