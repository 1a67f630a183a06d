"""Fits, scores, looks at recordings and capacity plans by workers: a part is some HPAs.

Without workers these are computed in one walk and keep no parts. With them the parts stand in a
temporary folder (or at `--parts`) until the command has put them together.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.capacity.parts import PlannedPart
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.run import (
    CapacityOptions,
    CapacityPlan,
    Planning,
    growths_of,
    joined_plan,
    prepare_planning,
)
from hpabatch.engine.capacity.sums import Span
from hpabatch.engine.fidelity.lens import through_lens
from hpabatch.engine.fidelity.parameters import FidelityParameters
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fidelity.run import Fidelity, ScoredPart, Scoring
from hpabatch.engine.fit.fleet import Fitted, FleetFit, fit_plan, fleet_fit
from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fit.workload import Fact
from hpabatch.engine.fleet.candidates import Candidate, Skipped
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, chosen_hpas, narrow_plan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.quality.run import Look
from hpabatch.engine.simulate.read import read_work
from hpabatch.engine.simulate.run import Progress
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import temporary_root
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.executor import Order, executor_of
from hpabatch.jobs.folder import (
    DIGEST,
    Identity,
    JobFolder,
    concat_frames,
    made_by,
    open_job,
    read_frame,
    write_frame,
)
from hpabatch.jobs.loop import Records, Status, Task, Tasks, run_job
from hpabatch.jobs.parts import notes_from_json, notes_to_json
from hpabatch.jobs.seen import Told, seen_again, told_lenses
from hpabatch.jobs.worker import Made
from hpabatch.model.settings.overrides import PlantOverride

_HERE: Final = "hpabatch.jobs.pieces"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a result: frames by name, and plain values."""

    frames: Mapping[str, pl.DataFrame]
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PiecesWork:
    """Computes pieces; a task's argument is its number."""

    compute_piece: Callable[[int], Piece]
    warnings: Sequence[str]

    def compute(self, tasks: Sequence[Task]) -> Iterator[Piece]:
        """Yield the pieces."""
        for task in tasks:
            yield self.compute_piece(task.argument)

    def save(self, result: Piece, place: Path) -> dict[str, Any]:
        """Write the frames; return the plain values, and the history's warnings up to here."""
        for name, frame in result.frames.items():
            write_frame(frame, place / f"{name}.arrow")
        record = json.loads(json.dumps(result.record, default=lambda number: number.item()))
        return {**record, "frames": list(result.frames), "warnings": list(self.warnings)}


def is_spread(spread: Spread) -> bool:
    """Whether others than this process are to compute."""
    return spread.workers is not None or spread.scheduler is not None


def fit_by_workers(history: History, request: FitRequest, progress: Progress) -> FleetFit:
    """Fit the workloads of a history; raises as `fit_fleet` does."""
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan = through_lens(plan, request.lens, progress)[0]
    made, told = _fits(plan, request), _told(history, request, told_lenses(plan))
    order = Order(f"{_HERE}:fits_again", told, made.identity, "observe_usage")
    with _done(made, order, request, history, progress) as pieces:
        found = [_fitted_from(row) for piece in pieces for row in piece.record["hpas"]]
    return fleet_fit(plan, found)


def fits_again(told: Mapping[str, Any]) -> Made[PiecesWork]:
    """Plan a fit in a worker."""
    request = FitRequest.from_json(told)
    return _fits(_planned_again(told, request), request)


def _fits(plan: ReplayPlan, request: FitRequest) -> Made[PiecesWork]:
    overrides = read_plants(request)

    def piece(k: int) -> Piece:
        some = narrow_plan(plan, range(*plan.shards[k]))
        return Piece({}, {"hpas": [asdict(found) for found in fit_plan(some, overrides)]})

    return _made(plan, request, piece, [repr(overrides)])


def _fitted_from(row: Mapping[str, Any]) -> Fitted:
    """Return the fit of an HPA from plain values."""
    parts = {
        "facts": tuple(Fact(**fact) for fact in row["facts"]),
        "problems": tuple(row["problems"]),
        "questions": tuple(Question(**question) for question in row["questions"]),
    }
    return Fitted(**{**row, **parts})


def fidelity_by_workers(history: History, request: FidelityRequest, progress: Progress) -> Fidelity:
    """Score the rules and the plants of a history; raises as `fidelity` does."""
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan, lenses = through_lens(plan, request.lens, progress)
    made, told = _scores(plan, request), _told(history, request, told_lenses(plan))
    scoring = _scoring(plan, request, read_plants(request))
    order = Order(f"{_HERE}:scores_again", told, made.identity, "walk_observations")
    with _done(made, order, request, history, progress) as pieces:
        for piece in pieces:
            notes = [notes_from_json(found) for found in piece.record["notes"]]
            scoring.add(ScoredPart(piece.frames, notes))
    return replace(scoring.fidelity(), lenses=tuple(lenses))


def scores_again(told: Mapping[str, Any]) -> Made[PiecesWork]:
    """Plan a score in a worker."""
    request = FidelityRequest.from_json(told)
    return _scores(_planned_again(told, request), request)


def _scores(plan: ReplayPlan, request: FidelityRequest) -> Made[PiecesWork]:
    plants = read_plants(request)

    def piece(k: int) -> Piece:
        scoring = _scoring(narrow_plan(plan, range(*plan.shards[k])), request, plants)
        for _ in scoring.usages():
            pass
        part = scoring.part()
        return Piece(part.frames, {"notes": [notes_to_json(notes) for notes in part.notes]})

    return _made(plan, request, piece, [repr(plants)])


def _scoring(
    plan: ReplayPlan, request: FidelityRequest, plants: Sequence[PlantOverride]
) -> Scoring:
    choices = FidelityParameters(split_share=request.split, horizon_ms=request.horizon_ms)
    return Scoring(plan, choices, plants)


def plan_by_workers(
    history: History, request: PlanRequest, options: CapacityOptions, progress: Progress
) -> CapacityPlan:
    """Plan the HPAs of a history; raises as `plan_capacity` does.

    Sums over HPAs are made here, of the changes of size that workers leave, HPA by HPA.
    """
    parameters = replay_parameters(request, events="decided")
    planning = prepare_planning(history, parameters, options, selection_of(request))
    made = _plans(planning, request)
    told = {**_told(history, request, None), "quota": [], "limits": planning.limits}
    order = Order(f"{_HERE}:plans_again", told, made.identity, "simulate_fleet")
    with _ran(made, order, request, history, progress) as (folder, records):
        told_of = (text for record in records for text in record["warnings"])
        history.warnings[:] = list(dict.fromkeys([*told_of, *history.warnings]))
        return joined_plan(planning, _PlannedParts(folder, made.tasks, records), options)


def plans_again(told: Mapping[str, Any]) -> Made[PiecesWork]:
    """Prepare a capacity plan in a worker; quotas are for the sums, and stay with the command."""
    request = PlanRequest.from_json(told)
    options = CapacityOptions(growths_of(request.growth), (), read_work(request))
    parameters = replay_parameters(request, events="decided")
    history = open_history(told["history"], "replay")
    planning = prepare_planning(history, parameters, options, selection_of(request))
    return _plans(replace(planning, limits=told["limits"]), request)


def _plans(planning: Planning, request: PlanRequest) -> Made[PiecesWork]:
    def piece(k: int) -> Piece:
        part = planning.part(k)
        keys = [[*key, part.guessed[key], part.without_ceiling[key]] for key in part.guessed]
        record = {
            "span": part.span,
            "skipped": [astuple(one) for one in part.skipped],
            "notes": part.notes,
            "assumed": keys,
        }
        return Piece(part.frames, record)

    plan, options = planning.plan, planning.options
    own = {k: v for k, v in request.to_json().items() if k not in (*Spread.options(), "quota")}
    chosen = [[c.cluster, c.namespace, c.name, repr(c.periods)] for c in plan.chosen]
    given = repr((options.scenario, options.plants, options.prices))
    when = repr((plan.settled, plan.clocks.grid))
    files = digests_of((request.scenario, *request.plant, request.prices))
    identity = _identity(
        plan.evidence | files, [own, planning.limits, chosen, planning.cuts, when, given]
    )
    weights = [last - first for first, last in planning.cuts]
    return Made(_tasks(weights), PiecesWork(piece, plan.history.warnings), identity, plan.history)


@dataclass(frozen=True, slots=True)
class _PlannedParts:
    """The parts of a capacity plan that a folder keeps; frames are read when they are used."""

    folder: JobFolder
    tasks: Sequence[Task]
    records: Records

    def __iter__(self) -> Iterator[PlannedPart]:
        for task, record in zip(self.tasks, self.records, strict=True):
            assumed = {(c, n, h): told for c, n, h, *told in record["assumed"]}
            yield PlannedPart(
                frames=_Frames(self.folder.place(task.key), record["frames"]),
                span=None if record["span"] is None else Span(*record["span"]),
                skipped=tuple(Skipped(*row) for row in record["skipped"]),
                notes=tuple(record["notes"]),
                guessed={key: told[0] for key, told in assumed.items()},
                without_ceiling={key: told[1] for key, told in assumed.items()},
            )


@dataclass(frozen=True, slots=True)
class _Frames(Mapping[str, pl.DataFrame]):
    """Frames of a part by name, each read when it is asked for."""

    place: Path
    names: Sequence[str]

    def __getitem__(self, name: str) -> pl.DataFrame:
        return read_frame(self.place / f"{name}.arrow")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def quality_by_workers(
    history: History,
    request: QualityRequest,
    candidates: Sequence[Candidate],
    progress: Progress,
) -> pl.DataFrame:
    """Look at what the recording of each HPA is worth; raises as `quality` does."""
    look = Look(history, candidates)
    made, told = _looks(look, candidates), _told(history, request, None)
    order = Order(f"{_HERE}:looks_again", told, made.identity)
    with _done(made, order, request, history, progress) as pieces:
        return look.joined([concat_frames(piece.frames["hpas"] for piece in pieces)])


def looks_again(told: Mapping[str, Any]) -> Made[PiecesWork]:
    """Plan a look at recordings in a worker."""
    request = QualityRequest.from_json(told)
    history = open_history(told["history"])
    versions = versions_of(history.read("controller"), request.k8s, request.feature_gates)
    candidates, _ = chosen_hpas(history, versions.of, selection_of(request))
    return _looks(Look(history, candidates), candidates)


def _looks(look: Look, candidates: Sequence[Candidate]) -> Made[PiecesWork]:
    weights = [len(shard) for shard in look.shards]
    names = [(c.cluster, c.namespace, c.name, repr(c.periods)) for c in candidates]
    facts = {f"{DIGEST}{table}": digest for table, digest in look.history.digests().items()}
    identity = _identity(facts, [names, weights])
    work = PiecesWork(lambda k: Piece({"hpas": look.part(k)}, {}), look.history.warnings)
    return Made(_tasks(weights), work, identity, look.history)


# ---- what they have in common --------------------------------------------------------------------


def _planned_again(told: Mapping[str, Any], request: FitRequest | FidelityRequest) -> ReplayPlan:
    """Return the plan of an order, through the lenses that the command has found."""
    history = open_history(told["history"], "replay")
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    if told["seen"] is not None:
        return seen_again(told["seen"])(plan)
    return through_lens(plan, request.lens)[0]


def _told(history: History, request: Spread, seen: Told | None) -> dict[str, Any]:
    """Return what a worker makes the same job of."""
    own = {k: v for k, v in request.to_json().items() if k not in Spread.options()}
    return {"history": history.location, "seen": seen, **own}


def _made(
    plan: ReplayPlan,
    request: FitRequest | FidelityRequest,
    piece: Callable[[int], Piece],
    extra: Sequence[str],
) -> Made[PiecesWork]:
    weights = [last - first for first, last in plan.shards]
    own = {k: v for k, v in request.to_json().items() if k not in Spread.options()}
    chosen = [[c.cluster, c.namespace, c.name, repr(c.periods)] for c in plan.chosen]
    parts = [own, chosen, plan.shards, repr(plan.settled), repr(plan.clocks.grid), extra]
    work = PiecesWork(piece, plan.history.warnings)
    return Made(_tasks(weights), work, _identity(plan.evidence, parts), plan.history)


def _tasks(weights: Sequence[int]) -> Tasks:
    return Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights)))


def _identity(facts: Mapping[str, str], parts: Sequence[Any]) -> Identity:
    text = json.dumps([made_by(), dict(facts), parts])
    return Identity(hashlib.sha256(text.encode()).hexdigest(), dict(facts))


@contextmanager
def _done(
    made: Made[PiecesWork],
    order: Order,
    spread: Spread,
    history: History,
    progress: Progress,
) -> Iterator[Iterator[Piece]]:
    """Have the pieces computed by workers; yield them in their order."""
    with _ran(made, order, spread, history, progress) as (folder, records):
        yield _read(folder, made.tasks, records, history)


@contextmanager
def _ran(
    made: Made[PiecesWork],
    order: Order,
    spread: Spread,
    history: History,
    progress: Progress,
) -> Iterator[tuple[JobFolder, Records]]:
    """Have the pieces computed by workers; yield the folder that keeps them, and their records."""

    def report(status: Status) -> None:
        progress("computing", status.done_weight / max(status.weight, 1))

    execute = executor_of(Spread.part_of(spread), order)
    with (
        tempfile.TemporaryDirectory(prefix="hpabatch-", dir=temporary_root()) as place,
        open_job(Path(place) / "job", made.identity) as folder,
    ):
        records = run_job(made.tasks, made.work, folder, report, execute)
        yield folder, records


def _read(
    folder: JobFolder, tasks: Sequence[Task], records: Records, history: History
) -> Iterator[Piece]:
    """Yield the pieces; behind the last one the history has their warnings."""
    told: dict[str, None] = {}
    for task, record in zip(tasks, records, strict=True):
        place = folder.place(task.key)
        frames = {name: read_frame(place / f"{name}.arrow") for name in record["frames"]}
        told |= dict.fromkeys(record["warnings"])
        yield Piece(frames, record)
    history.warnings[:] = list(dict.fromkeys([*told, *history.warnings]))
