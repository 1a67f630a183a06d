"""Options of a recommendation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpabatch.engine.fleet.request import AUTO_LENS
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import Request, option

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"
CONFIDENCES: Final = (HIGH, MEDIUM, LOW)
"""The best first."""

DEFAULT_SLO: Final = ("saturated_minutes<10/week",)


@dataclass(frozen=True, kw_only=True)
class Aim(Request):
    """The limits that must hold, and the measure that is to be least."""

    slo: tuple[str, ...] = option(
        "texts",
        "Limit that must hold, such as 'saturated_minutes<10/week'; may be repeated.",
        (),
        metavar="LIMIT",
    )
    minimize: str | None = option(
        "text",
        "Measure that is to be least.",
        metavar="MEASURE",
        unset="cost, without prices pod_hours",
    )


@dataclass(frozen=True, kw_only=True)
class Reach(Request):
    """The settings and the HPAs for which there is advice at all."""

    bound: tuple[str, ...] = option(
        "texts",
        "Greatest change of a field from today's; may be repeated.",
        (),
        metavar="FIELD=LIMIT",
        unset="target=20, min=x2, max=x2, all else free",
    )
    min_history_ms: int = option(
        "duration",
        "Length of a history below which confidence is medium at most; of half of it low.",
        14 * 86_400_000,
        metavar="TIME",
    )
    accept: str = option(
        "choice",
        "Lowest confidence of a change that is written as a patch or into a manifest.",
        HIGH,
        values=CONFIDENCES,
    )
    objects: tuple[str, ...] = option(
        "paths",
        "Objects of the cluster as it is now, as kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o "
        "yaml prints them: owners, budgets and edited specs count; may be repeated.",
        (),
        metavar="FILE",
    )
    instance_label: str = option(
        "choice",
        "Meaning of app.kubernetes.io/instance where nothing else says who writes an HPA: Argo "
        "CD's label, so that its HPA gets no patch, or a plain label.",
        "argocd",
        values=("argocd", "plain"),
    )


@dataclass(frozen=True, kw_only=True)
class JudgeRules(Request):
    """How a choice is made and judged.

    Attributes:
        tie_pct: settings whose objective is that near the best count as equal; of these the one
            that leaves most of the limits free is taken, then the one with fewest rescales.
        interval: share of the resamples that the saving's interval holds.
    """

    robust: str = option(
        "choice",
        "Stretches over which an SLO must hold: the worst week, their mean, or both.",
        "both",
        values=("both", "worst", "mean"),
    )
    margin: float = option(
        "real",
        "Share of an SLO's limit that a new setting must leave free on the training blocks.",
        0.1,
        metavar="SHARE",
        minimum=0,
        maximum=0.99,
    )
    least_saving_pct: float = option(
        "real",
        "Saving below which nothing changes, in percent.",
        5.0,
        metavar="PERCENT",
        flag="--least-saving",
        minimum=0,
    )
    least_better: float = option(
        "real",
        "Share of the resamples in which a change must be better than today's setting.",
        0.9,
        metavar="SHARE",
        minimum=0,
        maximum=1,
    )
    tie_pct: float = 0.5
    judged_blocks: int | None = option(
        "number",
        "Number of last weeks (of a short history days) to judge on.",
        metavar="N",
        minimum=1,
        unset="a third, at least one",
    )
    resamples: int = option(
        "number", "Number of draws of training weeks.", 1000, metavar="N", minimum=1
    )
    interval: float = 0.95
    seed: int = option("number", "Seed of the draws.", 0, metavar="N", minimum=0)


@dataclass(frozen=True, kw_only=True)
class RecommendRequest(JudgeRules, Reach, Aim):
    """Advice on the HPAs of a sweep."""

    slo: tuple[str, ...] = option(
        "texts",
        "Limit that must hold, such as 'saturated_minutes<10/week', or none; may be repeated.",
        DEFAULT_SLO,
        metavar="LIMIT",
    )


DEFAULT_GRID: Final = (
    "target=x0.7,x0.8,x0.9,today,x1.05,x1.1,x1.15,x1.2,x1.3",
    "min=x0.5,today",
    "max=today,x1.5,x2",
    "scaleDown.window=today,120,300",
)
"""Policies, tolerances and longer windows are left out: on fleets whose plant is known
(`benchmarks.recommend_truth`, seed 161) faster policies and 900 s added 0.1 points of saving each,
at 2.7 times the work."""


@dataclass(frozen=True, kw_only=True)
class SweptAdviceRequest(RecommendRequest, SweepRequest):
    """A sweep, and the advice that it gives; one seed for both."""


@dataclass(frozen=True, kw_only=True)
class AdviseRequest(Spread, SweptAdviceRequest):
    """Everything from data to advice, by defaults that are stated with the result."""

    grid: tuple[str, ...] = option(
        "grids",
        "Values of a field; repeated, all combinations are settings.",
        DEFAULT_GRID,
        metavar="FIELD=VALUES",
    )
    lens: str = option(
        "path",
        "How the controller saw recorded samples: none (as they are), auto (lag, smoothing and "
        "scale are estimated), ratio (the same; where targets are alike, usage is multiplied by "
        "the ratio of scale to targets), or a lens file (docs/fidelity.md).",
        AUTO_LENS,
        metavar="none|auto|ratio|FILE",
    )
    map: str | None = option(
        "path", "Map file of a table (see `import table`): meaning and units.", metavar="FILE"
    )
