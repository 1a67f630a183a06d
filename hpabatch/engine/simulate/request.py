"""Options of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fit.request import PlantFiles
from hpabatch.engine.fleet.request import ChosenHpas, Instants, Lensed, Rules, StatedRequests, Syncs
from hpabatch.model.options import Request, option


@dataclass(frozen=True, kw_only=True)
class Prices(Request):
    """Prices of what pods request."""

    prices: str | None = option(
        "path", "Prices of cores, GiB and pods (YAML).", metavar="FILE", unset="no cost"
    )


@dataclass(frozen=True, kw_only=True)
class Work(PlantFiles, Prices):
    """The work that is simulated, and how."""

    scenario: str | None = option(
        "path", "Changes of the recorded work and settings (YAML).", metavar="FILE", unset="none"
    )
    seed: int = option("number", "Seed of all random draws.", 0, metavar="N", minimum=0)
    gaps: str = option(
        "choice",
        "Stretches without samples: kept as gaps that the controller sees, or filled.",
        "keep",
        values=("keep", "fill"),
    )
    length_ms: int | None = option(
        "duration",
        "Length of the runs.",
        metavar="TIME",
        flag="--for",
        minimum=1000,
        unset="the history's",
    )


@dataclass(frozen=True, kw_only=True)
class VariedWork(Work, Lensed):
    """The same, more or less of it, seen through a lens."""

    growth: str | None = option(
        "factors", "Factor on the recorded work, such as 1.4.", metavar="FACTOR", unset="1"
    )


@dataclass(frozen=True, kw_only=True)
class SimulateRequest(VariedWork, Instants, Syncs, Rules, StatedRequests, ChosenHpas):
    """A simulation of the recorded settings, and of proposed ones beside them."""

    instants: str = option(
        "choice",
        "Begin with the first sync of the estimated grid (grid), with the first one that was "
        "recorded (recorded), or with the first pass of the live loop that recorded the history, "
        "and decide as often as it did (passes).",
        "grid",
        values=("grid", "recorded", "passes"),
    )

    hpas: tuple[str, ...] = option(
        "paths",
        "Manifests of proposed HPAs, simulated beside the recorded ones; may be repeated.",
        (),
        metavar="PATH",
    )
