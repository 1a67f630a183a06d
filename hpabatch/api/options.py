"""What Python callers may say, and what it comes to: texts, durations and paths as parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

import polars as pl

from hpabatch.engine.fleet.parameters import INSTANTS, ReplayParameters
from hpabatch.engine.fleet.plan import Select
from hpabatch.engine.fleet.versions import history_profile
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.base import History
from hpabatch.inputs.manifest_checks import check_manifests
from hpabatch.inputs.manifests import load_manifests
from hpabatch.inputs.plants import read_plant_file
from hpabatch.inputs.scenarios import parse_growth, read_scenario
from hpabatch.jobs.choices import parse_duration, selection
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.scenario import Scenario
from hpabatch.model.settings.overrides import PlantOverride

Duration = str | timedelta
"""A time such as "500ms", "15s" or "1m", or a timedelta."""


class Options(TypedDict, total=False):
    """What a replay can be told; everything may be left out.

    Attributes:
        k8s: Kubernetes version whose rules apply; as recorded, else the default.
        feature_gates: gates that are not as in that version: `HPAScaleToZero=false,…`.
        where: a condition on the columns of `Recording.hpas`, see docs/expressions.md.
        manifests: paths of manifests whose HPAs are replayed instead of the recorded ones.
        events: "recorded" or "decided": which size changes spend the policies' budgets.
        instants: "grid", "recorded" or "passes": decide at every sync, when the controller was
            recorded to, or at the passes of the live loop that recorded it.
        sync_period, phase, delay, max_age: assumed or estimated where absent, see
            `ReplayParameters`.
    """

    k8s: str | None
    feature_gates: str | None
    where: str | None
    manifests: Sequence[str | Path] | str | Path
    events: str
    instants: str
    sync_period: Duration | None
    phase: Duration | None
    delay: Duration | None
    max_age: Duration | None


def parameters_of(
    history: History, options: Options
) -> tuple[ReplayParameters, list[HPA] | None, Select | None]:
    """Return a replay's parameters, the HPAs of manifests if there are any, and which to replay.

    Raises:
        UsageError: an option is not possible.
        RefusedError: a manifest is not valid.
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise UsageError(
            f"there is no option {', '.join(unknown)}; the options are "
            f"{', '.join(Options.__annotations__)}"
        )
    parameters = ReplayParameters(
        k8s=_text(options.get("k8s"), "k8s"),
        feature_gates=_text(options.get("feature_gates"), "feature_gates") or "",
        events=_one_of(options.get("events", "recorded"), "events", ("recorded", "decided")),
        instants=_one_of(options.get("instants", "grid"), "instants", INSTANTS),
        sync_period_ms=milliseconds(options.get("sync_period"), "sync_period", 1000),
        phase_ms=milliseconds(options.get("phase"), "phase"),
        delay_ms=milliseconds(options.get("delay"), "delay"),
        max_age_ms=milliseconds(options.get("max_age"), "max_age", 1),
    )
    where = options.get("where")
    select = None if where is None else selection(where, "where")
    return parameters, _load(history, options.get("manifests"), parameters), select


def _load(
    history: History,
    paths: Sequence[str | Path] | str | Path | None,
    parameters: ReplayParameters,
) -> list[HPA] | None:
    """Return the HPAs of manifests (RefusedError: the first that is not valid)."""
    if not paths:
        return None
    each = [paths] if isinstance(paths, str | Path) else paths
    profile = history_profile(history, parameters.k8s, parameters.feature_gates)
    checked = check_manifests(load_manifests([str(p) for p in each]).entries, profile)
    for item in checked:
        if item.hpa is None:
            raise RefusedError(f"{item.entry.place}: {item.complaints[0]}")
    return [item.hpa for item in checked if item.hpa is not None]


def named(hpa: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that finds the one HPA of a name among candidates."""
    parts = hpa.split("/")

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        names = ["cluster", "namespace", "hpa"][-len(parts) :]
        same = [pl.col(name) == part for name, part in zip(names, parts, strict=True)]
        found = candidates.filter(same)
        if found.height == 1:
            return found
        keys = candidates.select(pl.concat_str("cluster", "namespace", "hpa", separator="/"))
        if found.is_empty():
            examples = ", ".join(keys.to_series().head(3))
            raise UsageError(f"hpa {hpa!r}: there is no such HPA; there are {examples}, …")
        raise UsageError(f"hpa {hpa!r}: there are {found.height}; give cluster/namespace/name")

    if not 1 <= len(parts) <= 3:
        raise UsageError(f"hpa {hpa!r} is not name, namespace/name or cluster/namespace/name")
    return select


def plant_entries(plant: Sequence[str | Path] | str | Path) -> tuple[PlantOverride, ...]:
    """Return what plant files say (UsageError: no paths, or a file is wrong)."""
    paths = [plant] if isinstance(plant, str | Path) else plant
    if not isinstance(paths, Sequence) or not all(isinstance(p, str | Path) for p in paths):
        raise UsageError(f"plant={plant!r} is no path of a plant file, nor several of them")
    return tuple(entry for path in paths for entry in read_plant_file(path))


def scenario_of(path: str | Path | None, growth: float | None) -> Scenario | None:
    """Return a scenario file's steps after those of a growth; None without either."""
    grown = None if growth is None else parse_growth(str(growth), "growth")
    if path is None:
        return grown
    return read_scenario(path) if grown is None else grown.then(read_scenario(path))


def _text(value: object, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name}={value!r} is not a text: write {name}='{value}'")
    return value


def _one_of(text: str, name: str, values: Sequence[str]) -> str:
    if text not in values:
        raise UsageError(f"{name} {text!r}: choose one of {', '.join(values)}")
    return text


def milliseconds(value: Duration | None, name: str, minimum_ms: int = 0) -> int | None:
    """Return a duration in ms (UsageError: it is none, or shorter than allowed)."""
    if isinstance(value, timedelta):
        value = f"{value // timedelta(milliseconds=1)}ms"
    if value is not None and not isinstance(value, str):
        raise UsageError(
            f"{name}={value!r} is not a duration: a text such as '15s', or a timedelta"
        )
    return None if value is None else parse_duration(value, name, minimum_ms)
