"""Recommendations on recorded weeks, judged on later ones by the true plant.

    python -m benchmarks.recommend_truth --seed 1 --hpas 120 --out build/recommend_truth.json

Fleets whose plants are known are run under today's settings; the first weeks of it are recorded as
a history, which is all that sweep and recommend get. What they advise is judged with the *true*
plant on the weeks after, which nobody saw: is it better than today's in the stated objective, and
is the constraint held? A random choice among the same candidates, an oracle that knows the truth
but only the recorded weeks (hindsight), and one that knows the future stand beside it. A batch's
history comes in one of several ways (`benchmarks.truth_ways`); what came as CSV comes as the full
export and as totals, too, and the answers stand side by side. Stated specs that are wrong are asked
about, and not judged. Work is done in batches, each a file in --work: a run that was ended goes on.
Seeds below 100 are for tuning, those from 100 on are for the proof.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks
import hpabatch
from benchmarks.readme import replace_part
from benchmarks.truth_fleet import KINDS, FleetOptions, Truth, make_fleet
from benchmarks.truth_judge import (
    ADVICE,
    KEEP,
    NO_ADVICE,
    Answer,
    Goal,
    Key,
    Span,
    best,
    is_right,
    judge,
)
from benchmarks.truth_record import TODAY
from benchmarks.truth_report import grades, summary_of, table
from benchmarks.truth_ways import (
    CSV,
    FULL,
    TOTALS,
    WAYS,
    WRONG,
    Recording,
    as_it_is,
    write_history,
)
from hpabatch.engine.advise.answer import CHANGE
from hpabatch.engine.advise.answer import KEEP as KEPT
from hpabatch.engine.advise.bounds import Bounds, below, floor_of, parse_bounds
from hpabatch.engine.advise.judge import saving_pct
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.request import DEFAULT_GRID, JudgeRules
from hpabatch.engine.advise.run import Recommendation, recommend
from hpabatch.engine.fleet.request import AUTO_LENS
from hpabatch.engine.sweep.context import Context
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.run import plan_request
from hpabatch.history.reader import open_history
from hpabatch.inputs.grid import read_grids
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, SweepRefusedError, sweep_to_disk
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.setting import SettingError, apply_setting, setting_of
from hpabatch.model.versions import Profile, profile_for

Row = dict[str, Any]
Candidates = Mapping[str, HPASpec]
Recommender = Callable[["Options", Path, Sequence[Truth]], Mapping[Key, Answer]]


@dataclass(frozen=True, slots=True)
class Options:
    """What is run; weeks and times of recording and judging, the grid and the objective."""

    seed: int = 1
    hpas: int = 240
    batch: int = 12
    recorded_weeks: int = 3
    judged_weeks: int = 4
    sync_ms: int = 30_000
    sample_ms: int = 30_000
    k8s: str = "1.37"
    grids: tuple[str, ...] = DEFAULT_GRID
    least_saving_pct: float = JudgeRules.least_saving_pct
    ways: tuple[str, ...] = WAYS
    kinds: tuple[str, ...] = KINDS
    goal: Goal = field(default_factory=Goal)

    @property
    def fleet(self) -> FleetOptions:
        """The whole fleet."""
        weeks = self.recorded_weeks + self.judged_weeks
        return FleetOptions(self.hpas, weeks, self.seed, self.sample_ms, kinds=self.kinds)

    @property
    def profile(self) -> Profile:
        """The rules in force."""
        return profile_for(self.k8s)

    @property
    def digest(self) -> str:
        """Names the batches: whatever a batch's rows hang on, the code too."""
        text = json.dumps(asdict(replace(self, hpas=0)), sort_keys=True)
        return blake2b((text + code_digest()).encode(), digest_size=6).hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of the sources of hpabatch and of the benchmarks."""
    digest = blake2b(digest_size=8)
    for package in (hpabatch, benchmarks):
        for folder in package.__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.read_bytes())
    return digest.hexdigest()


# ---- one batch


def run_batch(options: Options, number: int, work: Path, recommender: Recommender) -> list[Row]:
    """Return one row per HPA of a batch, from its file if it is done."""
    first = number * options.batch
    size = min(options.batch, options.hpas - first)
    done = work / f"{options.digest}-{number}-{size}.json"
    if done.exists():
        rows: list[Row] = json.loads(done.read_text())
        return rows
    way = options.ways[number % len(options.ways)]
    drawn = make_fleet(replace(options.fleet, hpas=first + size))
    fleet = as_it_is(drawn[first:], way, options.seed, number)
    folder = work / f"{options.digest}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    asked = Recording(fleet, options.recorded_weeks, options.sync_ms, options.seed, options.profile)
    seconds = {}
    began = time.perf_counter()
    write_history(asked, way, number, folder)
    seconds["record"] = time.perf_counter() - began
    answers = recommender(options, folder, fleet)
    seconds["recommend"] = time.perf_counter() - began - seconds["record"]
    others = {}
    for name, other in (("full", FULL), ("totals", TOTALS)) if way == CSV else ():
        write_history(asked, other, 0, folder / name)
        others[name] = recommender(options, folder / name, fleet)
    if way == WRONG:
        rows = [answer_row(way, truth, answers[truth.key]) for truth in fleet]
    else:
        rows = judged_rows(options, way, fleet, answers, others)
    seconds["judge"] = time.perf_counter() - began - sum(seconds.values())
    for row in rows:
        row["seconds"] = {name: round(s / len(rows), 3) for name, s in seconds.items()}
    shutil.rmtree(folder)
    unfinished = done.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(rows))
    unfinished.rename(done)
    return rows


def answer_row(way: str, truth: Truth, answer: Answer) -> Row:
    """Return what was answered of an HPA."""
    return {
        "hpa": "/".join(truth.key[1:]),
        "way": way,
        "shape": truth.shape,
        "habit": truth.habit,
        "limit": truth.limit,
        "kind": truth.kind,
        "verdict": answer.verdict,
        "confidence": answer.confidence,
        "why": answer.why,
        "doubts": list(answer.doubts),
        "saved_pct": answer.saved_pct,
    }


def judged_rows(
    options: Options,
    way: str,
    fleet: Sequence[Truth],
    answers: Mapping[Key, Answer],
    others: Mapping[str, Mapping[Key, Answer]],
) -> list[Row]:
    """Return a row per HPA: what was answered, and what the truth says of some settings.

    `others` are the answers on the same by other exports, by their names.
    """
    candidates = candidates_of(options, fleet)
    span = Span(options.recorded_weeks, options.judged_weeks, options.sync_ms, options.seed)
    settings = {t.key: {TODAY: t.spec, **candidates[t.key]} for t in fleet}
    verdicts = judge(fleet, settings, span, options.goal, options.profile)
    recorded = Span(0, options.recorded_weeks, options.sync_ms, options.seed, is_recorded=True)
    seen = judge(fleet, settings, recorded, options.goal, options.profile)
    rows = []
    for truth in fleet:
        known, answer = verdicts[truth.key], answers[truth.key]
        names = {
            "today": TODAY,
            "advised": _setting(answer),
            "random": random_setting(options.seed, truth, list(candidates[truth.key])),
            "hindsight": best(seen[truth.key], options.goal),
            "oracle": best(known, options.goal),
        }
        row = answer_row(way, truth, answer)
        row["right"] = is_right(answer, known, options.goal, options.least_saving_pct)
        row |= {role: {"setting": name, **asdict(known[name])} for role, name in names.items()}
        for name, theirs in others.items():
            other = theirs[truth.key]
            row[name] = {
                "verdict": other.verdict,
                "confidence": other.confidence,
                "saved_pct": other.saved_pct,
                "setting": _setting(other),
                **asdict(known[_setting(other)]),
            }
        rows.append(row)
    return rows


def _setting(answer: Answer) -> str:
    """Return the setting that an answer leads to."""
    return answer.setting if answer.verdict == ADVICE else TODAY


def random_setting(seed: int, truth: Truth, names: Sequence[str]) -> str:
    """Return any candidate of an HPA but today's: the recommender that knows nothing."""
    others = [name for name in names if name != TODAY]
    digest = blake2b("/".join((*truth.key, str(seed))).encode(), digest_size=8).digest()
    random = np.random.Generator(np.random.PCG64(int.from_bytes(digest)))
    return others[int(random.integers(len(others)))] if others else TODAY


# ---- what is asked: sweep and recommend, on the recorded weeks


def swept(options: Options, folder: Path, fleet: Sequence[Truth]) -> dict[Key, Answer]:
    """Return what sweep and recommend say of the HPAs of a folder's history."""
    answers = {t.key: Answer(NO_ADVICE, why="left out of the sweep") for t in fleet}
    request = SweepRequest(
        grid=tuple(options.grids),
        lens=AUTO_LENS,
        k8s=options.k8s,
        sync_period_ms=options.sync_ms,
    )
    plan = plan_request(open_history(folder / "history", "replay"), request)
    job = SweepJob(request, plan, Destination(folder / "sweep", is_folder=True))
    try:
        result = sweep_to_disk(job)
    except SweepRefusedError:
        return answers

    def apply(values: Mapping[str, str], spec: HPASpec) -> HPASpec:
        return apply_setting(setting_of(values), spec, SHIPPED, options.profile)

    goal = parse_goal([options.goal.words], options.goal.cost, result.blocks)
    for item in recommend(result, RecommendOptions(goal), apply).items:
        reasons, told = "; ".join(item.reasons), tuple(f"{d.most}: {d.why}" for d in item.doubts)
        if item.answer == CHANGE:
            assert item.setting_id is not None
            name = str(result.settings["setting"][item.setting_id])
            saved = _saved_pct(item)
            answers[item.key] = Answer(ADVICE, name, reasons, item.confidence, told, saved)
        elif item.answer == KEPT:
            answers[item.key] = Answer(KEEP, TODAY, reasons, item.confidence, told)
        else:
            answers[item.key] = Answer(NO_ADVICE, why=reasons)
    return answers


def _saved_pct(item: Recommendation) -> float | None:
    """Return what a change saves on the weeks that it was judged on."""
    assert item.advice is not None
    judged = item.advice.judged
    assert judged is not None
    objective = judged.judged.objective
    return saving_pct(float(objective[judged.considered]), float(objective[0]))


def candidates_of(options: Options, fleet: Sequence[Truth]) -> dict[Key, Candidates]:
    """Return the settings of the grid that fit each HPA and change it, as specs.

    Those beyond the default bounds, or below the floor of minReplicas, are nobody's candidates.
    """
    grid, bounds = read_grids(options.grids, SHIPPED), parse_bounds(())
    found: dict[Key, Candidates] = {}
    for truth in fleet:
        today, theirs = default_spec(truth.spec), {}
        for setting in grid.settings:
            try:
                spec = apply_setting(setting, truth.spec, SHIPPED, options.profile)
            except SettingError:
                continue
            if spec != today and not refused(bounds, today, spec):
                theirs[setting.name] = spec
        found[truth.key] = theirs
    return found


def refused(bounds: Bounds, today: HPASpec, spec: HPASpec) -> bool:
    """Say whether no recommendation may go from today's spec to another."""
    return bool(bounds.broken(today, spec) or below(floor_of(Context(), bounds), today, spec))


# ---- the run


def run(options: Options, work: Path, workers: int, recommender: Recommender = swept) -> list[Row]:
    """Return the rows of all batches, `workers` at once, each with one thread."""
    work.mkdir(parents=True, exist_ok=True)
    numbers = range(-(-options.hpas // options.batch))
    one = partial(_batch, options, work, recommender)
    if workers == 1:
        return [row for number in numbers for row in one(number)]
    for name in ("NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ[name] = "1"
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return [row for rows in pool.map(one, numbers) for row in rows]


def _batch(options: Options, work: Path, recommender: Recommender, number: int) -> list[Row]:
    began = time.perf_counter()
    rows = run_batch(options, number, work, recommender)
    print(f"batch {number}: {len(rows)} HPAs, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table and write the summary."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    defaults = Options()
    for name in ("seed", "hpas", "batch", "recorded_weeks", "judged_weeks"):
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=getattr(defaults, name))
    parser.add_argument("--grid", action="append", default=[])
    parser.add_argument("--kind", action="append", choices=KINDS, help="beside plain HPAs")
    parser.add_argument("--most", type=float, default=defaults.goal.most)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("build/recommend_truth"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, help="whose part `truth` is renewed")
    parser.add_argument("--grades", type=Path, help="whose part `confidence` is renewed")
    given = parser.parse_args(arguments)
    options = Options(
        seed=given.seed,
        hpas=given.hpas,
        batch=given.batch,
        recorded_weeks=given.recorded_weeks,
        judged_weeks=given.judged_weeks,
        grids=tuple(given.grid) or defaults.grids,
        kinds=tuple(given.kind or defaults.kinds),
        goal=Goal(most=given.most),
    )
    rows = run(options, given.work, given.workers)
    summary = summary_of(asdict(options), options.goal, rows)
    print(table(summary))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(summary, indent=1) + "\n")
    if given.page is not None:
        lines = ["```", *table(summary).rstrip().splitlines(), "```"]
        given.page.write_text(replace_part(given.page.read_text(), "truth", lines))
    if given.grades is not None:
        text = replace_part(given.grades.read_text(), "confidence", grades(summary))
        given.grades.write_text(text)


if __name__ == "__main__":
    main()
