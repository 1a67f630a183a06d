"""Real controllers before and after a lens that did not see them.

    HPABATCH_TRACES=... python -m benchmarks.lens_real

The six runs of ScalerEval under a plain HPA (tests/real/maps) are one source with three stated
targets. Each run is judged under the lens that was searched on the other five.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.lens_truth import Tables, write
from hpabatch.engine.fidelity.answer import Judge, sign_p
from hpabatch.engine.fidelity.lens import found_on
from hpabatch.engine.fidelity.lens_search import Setting, Tried, parts_of
from hpabatch.engine.fidelity.trials import recordings_of
from hpabatch.engine.fidelity.walk import stated_trials
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay, with_lenses
from hpabatch.engine.shards.read import read_shard
from hpabatch.history.reader import open_history
from hpabatch.inputs.lenses import CPU, Lens
from tests.real.replays import K8S, import_map, phase_ms

RUNS: Final = [(app, target) for app in ("hipster", "sockshop") for target in (20, 50, 80)]


def joined(folder: Path) -> Path:
    """Import all runs as one history: each is a namespace, and all begin at one time."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for app, target in RUNS:
        name = f"{app}-{target}"
        import_map(f"scalereval-{app}-KHPA-{target}", folder / name)
        history = open_history(folder / name)
        scales = history.read("scales")
        # The syncs of the runs fall together then: one phase is all that a replay is told.
        first = scales["ts"].dt.epoch("ms").min()
        assert isinstance(first, int)
        shift_ms = -(first // 86_400_000 * 86_400_000) - phase_ms(scales) + 86_400_000 * 20_000
        for table in history.tables:
            frame = _renamed(history.read(table), name, shift_ms)
            parts.setdefault(table, []).append(frame)
    tables: Tables = {t: pl.concat(f, how="vertical_relaxed") for t, f in parts.items()}
    return write(tables, folder / "all")


def _renamed(frame: pl.DataFrame, name: str, shift_ms: int) -> pl.DataFrame:
    later = pl.duration(milliseconds=shift_ms, time_unit="ms")
    times = [c for c, dtype in frame.schema.items() if dtype == pl.Datetime("ms", "UTC")]
    changed: list[pl.Expr] = [pl.col(c) + later for c in times]
    if "namespace" in frame.columns:
        changed.append(pl.lit(name).alias("namespace"))
    if "uid" in frame.columns:
        changed.append(pl.concat_str(pl.lit(f"{name}/"), "uid").alias("uid"))
    return frame.with_columns(changed)


def judged(plan: ReplayPlan, lens: Lens) -> dict[str, float]:
    """Return how the rules decide a plan's recorded changes through a lens."""
    seen = with_lenses(plan, [lens] if lens.changes else [])
    held = explained = sized = 0
    chance, near, same, ticks = 0.0, 0, 0, 0
    for first, last in plan.shards:
        places = plan.places[first:last]
        given = read_shard(plan, plan.chosen[first:last], places)
        recordings = recordings_of(plan, given, places)
        for recording, trial in zip(
            recordings, stated_trials(seen, given, recordings), strict=True
        ):
            found = Judge(recording).evidence(trial)
            held, explained = held + found.held, explained + found.matched
            sized, chance = sized + found.sized, chance + found.chance
            plain = trial.plain
            apart = np.abs(plain.wished - plain.seen)
            near, same = near + int((apart <= 1).sum()), same + int((apart == 0).sum())
            ticks += plain.seen.size
    return {"held": held, "explained": explained, "sized": sized, "chance": chance,
            "same": same / ticks, "within_1": near / ticks}  # fmt: skip


def main() -> int:
    """Print a row for each run: the lens searched on the others, before and after."""
    with tempfile.TemporaryDirectory() as folder:
        history = open_history(joined(Path(folder)))
        plan = plan_replay(history, ReplayParameters(K8S, phase_ms=0))
        rows = [_row(plan, f"{app}-{target}") for app, target in RUNS]
    for row in rows:
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    counts = [n for n in rows[0] if n.startswith(("better", "worse", "held", "exp", "siz", "cha"))]
    print({name: round(sum(float(row[name]) for row in rows), 1) for name in counts})
    return 0


def _row(plan: ReplayPlan, run: str) -> dict[str, Any]:
    numbers = [k for k, c in enumerate(plan.chosen) if c.namespace == run]
    others = [k for k, c in enumerate(plan.chosen) if c.namespace != run]
    own = narrow_plan(plan, numbers)
    span = [(plan.clocks.from_ms, plan.clocks.to_ms + 1)]
    searched = parts_of(narrow_plan(plan, others), [span] * len(others))
    tried, setting = found_on(searched, "scalereval", CPU)
    judge = Tried(parts_of(own, [span] * len(numbers)), "scalereval", CPU)
    raw, seen = judge.of(Setting()), judge.of(setting)
    row: dict[str, Any] = {"run": run, "lens": str(setting.lens("", CPU)).removeprefix(": ")}
    better, worse = int((seen < raw).sum()), int((seen > raw).sum())
    row |= {"lost_before": raw.sum(), "lost_after": seen.sum()}
    row |= {"better": better, "worse": worse, "p": sign_p(better, worse)}
    for when, lens in (("before", Lens(CPU)), ("after", setting.lens("scalereval", CPU))):
        row |= {f"{name}_{when}": value for name, value in judged(own, lens).items()}
    row |= {name: str(tuple(tried.interval(name))) for name in ("lag_ms", "smoothing_ms", "ratio")}
    return row


if __name__ == "__main__":
    sys.exit(main())
