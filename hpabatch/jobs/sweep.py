"""Sweep to disk: parts of the fleet x chunks of settings, run one by one and resumable.

A part's HPAs are fitted once and stay in memory while its chunks run. An interrupted sweep goes on
where it stopped; the tables appear at their place when all are whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.specs import sets_to_json
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import See, as_recorded
from hpabatch.engine.simulate.run import KEY
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.run import (
    SweepPlan,
    SweptPart,
    finish_results,
    hpas_frame,
    plan_request,
    prepare_part,
    run_part,
    settings_frame,
    trajectory_points,
    units_frame,
)
from hpabatch.errors import HistoryError, RefusedError, UsageError
from hpabatch.history.base import History
from hpabatch.history.files import atomic_folder
from hpabatch.history.reader import open_history
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import (
    DIGEST,
    PUBLISHED,
    Identity,
    JobFolder,
    concat_frames,
    finishing,
    first_difference,
    identity_of,
    made_by,
    open_job,
)
from hpabatch.jobs.frames import known_lenses, lens_values, lenses_of, read_part
from hpabatch.jobs.job import (
    Job,
    Part,
    Report,
    Task,
    Tasks,
    Values,
    executor_of,
    options_of,
    run_job,
)
from hpabatch.jobs.joining import join_parquet
from hpabatch.jobs.parquet import evidence_metadata
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep_files import (
    ABOUT,
    is_sweep_folder,
    read_sweep,
    sweep_origin,
    write_about,
    write_table,
)

HPAS: Final = "hpas"
PLAN_JOB: Final = "hpabatch.jobs.sweep:plan_job"
_RESULTS: Final = "results"
_BLOCKS: Final = "blocks"
# Fitting and scoring an HPA costs about as much as that many of its settings.
_FIT_WEIGHT: Final = 40


@dataclass(frozen=True, slots=True)
class SweepJob:
    """A sweep to disk: its request, its plan and its destination.

    `replace`: another sweep that is there, finished or not, may go. `spread` says who computes it.
    """

    request: SweepRequest
    sweep: SweepPlan
    destination: Destination
    replace: bool = False
    spread: Spread = field(default_factory=Spread)

    @property
    def values(self) -> dict[str, Any]:
        """The request and its history as plain values: enough to do it again."""
        own = options_of(SweepRequest.part_of(self.request))
        return {"history": self.sweep.plan.history.location, **own}


@dataclass(slots=True)
class Sweeping:
    """Runs (part, first setting, last setting); settings of 0:0 are about the HPAs alone."""

    sweep: SweepPlan
    kept: tuple[int, SweptPart] | None = None

    def part(self, number: int, *, scored: bool) -> SweptPart:
        """Return a part, fitted; the last one is kept, its task on the HPAs comes first."""
        if self.kept is None or self.kept[0] != number or scored:
            self.kept = None  # (its memory is needed)
            self.kept = number, prepare_part(self.sweep, number, scored=scored)
        return self.kept[1]

    def results(self, arguments: Sequence[tuple[int, int, int]]) -> Iterator[Part]:
        """Yield the frames of tasks; once for each part, also its skipped HPAs and notes."""
        for number, first, last in arguments:
            part = self.part(number, scored=first == last)
            if first == last:
                told = {"skipped": [astuple(one) for one in part.skipped], "notes": part.notes}
                yield {HPAS: hpas_frame(self.sweep, part)}, told
            else:
                results, blocks = run_part(self.sweep, part, first, last)
                yield {_RESULTS: results, _BLOCKS: blocks}, {"skipped": [], "notes": []}


def sweep_to_disk(job: SweepJob, report: Report = lambda status: None) -> SweepResult:
    """Run a sweep, or what an interrupted run of the same has left of it; return its tables.

    Raises:
        HistoryError: a table is broken; finished parts are removed.
        RefusedError: another sweep is there; no HPA could be simulated (`SweepRefusedError` has
            the reasons).
        UsageError: the destination cannot be written, or another job left its parts there.
    """
    whole = _whole(job)
    _refuse_another(job)  # (again with the lock: another process may have finished meanwhile)
    if (done := _done_before(job)) is not None:
        return done
    execute = executor_of(job.spread, whole)
    with open_job(job.destination.job_path, whole.identity, replace=job.replace) as folder:
        _refuse_another(job)
        with finishing(folder, len(whole.tasks)):
            records = run_job(whole, folder, report, execute)
            _finish(job, whole.tasks, records, folder)
    return read_sweep(job.destination.path)


def _whole(job: SweepJob) -> Job:
    sweep = job.sweep

    def identify() -> Identity:
        facts = {name: _fact(v) for name, v in job.values.items() if v not in (None, [])}
        same = identity_of({}, [_digest(job), sweep.parts, sweep.chunks])
        # (the facts are told only: the same options in other words go on with the same files)
        return Identity(same.fingerprint, {**sweep.evidence, **facts})

    return Job(
        tasks=tasks_of(sweep),
        results=Sweeping(sweep).results,
        identify=identify,
        plan_job=PLAN_JOB,
        values={**job.values, "lenses": lenses_of(sweep.plan)},
        kernel="simulate_fleet",
        history=sweep.plan.history,
    )


def plan_job(values: Values) -> Job:
    """Plan a sweep in a worker, from its order (HistoryError, UsageError: it cannot be)."""
    request = SweepRequest.from_json(values)
    see = known_lenses(values["lenses"])
    sweep = plan_request(open_history(values["history"], "replay"), request, see)
    return _whole(SweepJob(request, sweep, Destination(Path(PUBLISHED), is_folder=True)))


def _refuse_another(job: SweepJob) -> None:
    """Refuse to replace a sweep of another request, or of other data (RefusedError)."""
    place = job.destination.real_path
    empty = not place.is_dir() or not any(place.iterdir())
    if job.replace or empty or not is_sweep_folder(place):
        return
    there, differs = sweep_origin(place), f"its {ABOUT} cannot be read"
    if there is not None:
        differs = first_difference(_own_facts(*there), _own_facts(job.sweep.evidence, job.values))
    if differs:
        raise RefusedError(
            f"{job.destination.path} holds another sweep ({differs}), and nothing was changed: "
            "name another folder, or replace it with --replace"
        )


def _done_before(job: SweepJob) -> SweepResult | None:
    """Return the sweep that is there if the very same job wrote it, and it can be read.

    What an interrupted run has left of it goes the whole way, which removes that.
    """
    place = job.destination.real_path
    if (
        job.replace
        or job.destination.job_path.exists()
        or not place.is_dir()
        or not is_sweep_folder(place)
    ):
        return None
    try:
        found = read_sweep(job.destination.path)
    except HistoryError:
        return None
    origin = found.parameters
    same = (origin.get("job"), origin.get("request")) == (_digest(job), job.values)
    return found if same else None


def _own_facts(evidence: Mapping[str, str], values: Values) -> dict[str, str]:
    """Return what makes a sweep another one: its options and what it read, wherever that was."""
    facts = {name: text for name, text in evidence.items() if name.startswith(DIGEST)}
    options = {name: _fact(v) for name, v in values.items() if v not in (None, [])}
    return {name: text for name, text in {**options, **facts}.items() if name != "history"}


def tasks_of(sweep: SweepPlan) -> Tasks:
    """Return the tasks of a sweep, part by part: that on its HPAs first, then its chunks."""

    def task(k: int) -> Task:
        number, chunk = divmod(k, len(sweep.chunks) + 1)
        first, last = sweep.parts[number]
        group = f"{number:05}"
        if chunk == 0:
            return Task(f"{group}-{HPAS}", (last - first) * _FIT_WEIGHT, (number, 0, 0), group)
        begin, end = sweep.chunks[chunk - 1]
        weight = (last - first) * (end - begin)
        return Task(f"{group}-{chunk - 1:05}", weight, (number, begin, end), group)

    return Tasks(task, range(len(sweep.parts) * (len(sweep.chunks) + 1)))


def _digest(job: SweepJob) -> str:
    sweep, options = job.sweep, job.sweep.options
    parts = [
        made_by(),
        sweep.plan.evidence,
        [[*c.key, repr(c.spec)] for c in sweep.plan.chosen],
        [setting.name for setting in options.grid.settings],
        repr(sorted(options.sets.items())),
        repr(options.loop),
        [repr(sweep.units), sweep.unit, options.fidelity],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _fact(value: Any) -> str:
    """Return a value of a command line as a string."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _finish(
    job: SweepJob, tasks: Sequence[Task], records: Iterable[dict[str, Any]], folder: JobFolder
) -> None:
    skipped, notes = dict.fromkeys(job.sweep.plan.skipped), dict[str, None]()
    for record in records:
        skipped |= dict.fromkeys(Skipped(*row) for row in record["skipped"])
        notes |= dict.fromkeys([*record["notes"], *record["warnings"]])
    hpas = _joined(folder, (t for t in tasks if t.argument[1] == t.argument[2]), HPAS)
    if hpas.is_empty():
        raise SweepRefusedError(list(skipped))
    sweep, evidence = job.sweep, job.sweep.evidence
    with atomic_folder(job.destination.real_path, is_sweep_folder, folder.path / PUBLISHED) as new:
        write_table(settings_frame(sweep.options.grid), evidence, new, "settings")
        write_table(hpas.sort("cluster", "namespace", "hpa"), evidence, new, "hpas")
        _write_parts(sweep, tasks, folder, new, evidence)
        write_about(new, evidence, _parameters(job, list(skipped), list(notes)))


class SweepRefusedError(RefusedError):
    """No HPA could be simulated; `skipped` has the reasons."""

    def __init__(self, skipped: Sequence[Skipped]) -> None:
        """Keep the skipped HPAs."""
        super().__init__("no HPA could be simulated, so nothing is written")
        self.skipped = tuple(skipped)


def _joined(folder: JobFolder, tasks: Iterable[Task], name: str) -> pl.DataFrame:
    """Return the rows of some tasks' file; tasks without any have an empty one."""
    frames = (read_part(folder, task, name) for task in tasks)
    return concat_frames(frame for frame in frames if frame.width and frame.height)


def _write_parts(
    sweep: SweepPlan,
    tasks: Sequence[Task],
    folder: JobFolder,
    new: Path,
    evidence: dict[str, str],
) -> None:
    """Write results and blocks: one part of the fleet at a time, in the order of their keys."""
    units = units_frame(sweep)
    parts: dict[str, list[Path]] = {"results": [], "blocks": []}
    for number, grouped in groupby(tasks, key=lambda t: int(t.argument[0])):
        theirs = [t for t in grouped if t.argument[1] != t.argument[2]]
        results = _joined(folder, theirs, _RESULTS)
        if results.is_empty():
            continue
        order = ["cluster", "namespace", "hpa", "setting_id", "block"]
        blocks = _joined(folder, theirs, _BLOCKS).sort(order)
        leading = [*order, "start"]
        blocks = blocks.select(*leading, *(n for n in blocks.columns if n not in leading))
        frames = {"results": finish_results(results, units), "blocks": blocks}
        for name, frame in frames.items():
            write_table(frame, evidence, new, f"{name}-{number}")
            parts[name].append(new / f"{name}-{number}.parquet")
    for name, files in parts.items():
        join_parquet(files, evidence_metadata(evidence), new / f"{name}.parquet")
        for file in files:
            file.unlink()


def _parameters(job: SweepJob, skipped: Sequence[Skipped], notes: Sequence[str]) -> dict[str, Any]:
    sweep = job.sweep
    prices = sweep.options.loop.prices
    return {
        "request": job.values,
        "policy_sets": sets_to_json(sweep.options.sets),
        "profile": sweep.plan.versions.one().name,
        "fields": list(sweep.options.grid.fields),
        "settings": len(sweep.options.grid.settings),
        "block": {"unit": sweep.unit},
        "lenses": [lens_values(lens) for lens in sweep.plan.lenses],
        "lens_ratios": [lens_values(lens) for lens in sweep.plan.ratios],
        "currency": None if prices is None else prices.prices.currency,
        "skipped": [astuple(one) for one in skipped],
        "notes": [*sweep.notes, *notes],
        "job": _digest(job),
    }


def trajectories(
    result: SweepResult,
    key: tuple[str, str, str],
    setting_ids: Sequence[int],
    history: History | None = None,
) -> pl.DataFrame:
    """Return every tick of some settings of one HPA of a sweep, run again.

    Columns as of `simulate --trajectories`. `history` None: the one that was swept, at its place.

    Raises:
        UsageError: there is no such HPA in the sweep, or a setting that it does not have; a file
            that was given is not there.
        HistoryError: the history or a file cannot be read, or is not what it was.
    """
    told = result.parameters["request"]
    location, request = str(told["history"]), SweepRequest.from_json(told)
    _check_places([location] if history is None else [], request)
    history = open_history(location, "replay") if history is None else history
    see: See = as_recorded
    if "lens" in result.evidence:  # (which took a while to estimate)
        see = known_lenses([result.parameters[name] for name in ("lenses", "lens_ratios")])
    sweep = plan_request(history, request, see)
    _check_unchanged(sweep, result)
    hpa, settings = "/".join(key), result.settings["setting"].to_list()
    if key not in sweep.places or key not in result.hpas.select(KEY).rows():
        raise UsageError(f"{hpa}: there is no such HPA in the sweep")
    wrong = [k for k in setting_ids if not 0 <= k < len(settings)]
    if wrong:
        raise UsageError(f"setting {wrong[0]}: the sweep has settings 0 to {len(settings) - 1}")
    place = sweep.places[key]
    alone = replace(sweep, parts=((place, place + 1),))
    part = prepare_part(alone, 0)
    for k in setting_ids:
        if not part.cases[0].fits(sweep.options.grid.settings[k]):
            raise UsageError(f"setting {k} ({settings[k]}) does not fit {hpa}")
    return trajectory_points(part, alone, setting_ids)


def _check_places(places: Sequence[str], request: SweepRequest) -> None:
    """Refuse relative paths that are not there: a sweep holds them as they were given."""
    files = (request.prices, request.scenario, request.policy_sets, *request.plant)
    named = [Path(path) for path in (*places, *files) if path is not None and "://" not in path]
    away = [str(path) for path in named if not path.is_absolute() and not path.exists()]
    if away:
        raise HistoryError(
            f"expected {', '.join(away)} as the sweep names them, found none in {Path.cwd()}: run "
            "this in the folder in which the sweep was made"
        )


def _check_unchanged(sweep: SweepPlan, result: SweepResult) -> None:
    """Refuse a history, files or settings that are not those of the sweep (HistoryError)."""

    now, then = sweep.evidence, result.evidence
    named = {name for name in {**now, **then} if name.startswith(DIGEST)}
    other = sorted(name for name in named if now.get(name) != then.get(name))
    if other:
        what = ", ".join(name.removeprefix(DIGEST) for name in other)
        raise HistoryError(
            f"{sweep.plan.history.location} or a file that was swept with it has changed ({what}): "
            "sweep again"
        )
    names = [setting.name for setting in sweep.options.grid.settings]
    if names != result.settings["setting"].to_list():
        raise HistoryError("the sweep's grid has other settings in this version: sweep again")
