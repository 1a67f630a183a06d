"""Trajectories of a sweep that was written: some settings of one HPA, simulated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from hpabatch.engine.fleet.plan import See, as_recorded
from hpabatch.engine.simulate.run import KEY
from hpabatch.engine.sweep.read import plan_request
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.run import SweepPlan, prepare_part, trajectory_points
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.jobs.folder import DIGEST
from hpabatch.jobs.orders import known_lenses


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
    sweep = plan_request(history, request, _seen_as(result))
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


def _seen_as(result: SweepResult) -> See:
    """Return what puts a sweep's lenses in again, which took a while to estimate."""
    if "lens" not in result.evidence:
        return as_recorded
    return known_lenses([result.parameters[name] for name in ("lenses", "lens_ratios")])


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

    def digests(evidence: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in evidence.items() if name.startswith(DIGEST)}

    now, then = digests(sweep.evidence), digests(result.evidence)
    other = sorted(name for name in {**now, **then} if now.get(name) != then.get(name))
    if other:
        what = ", ".join(name.removeprefix(DIGEST) for name in other)
        raise HistoryError(
            f"{sweep.plan.history.location} or a file that was swept with it has changed ({what}): "
            "sweep again"
        )
    names = [setting.name for setting in sweep.options.grid.settings]
    if names != result.settings["setting"].to_list():
        raise HistoryError("the sweep's grid has other settings in this version: sweep again")
