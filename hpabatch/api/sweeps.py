"""Sweeps in Python: run one, look at it, ask it for advice.

::

    sweep = hpabatch.open("history/").sweep({"target": "50:85:5"}, out="sweep/")
    advice = sweep.recommend("saturated_minutes<10/week", minimize="pod_hours")
    advice.table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import polars as pl

from hpabatch.engine.advise.answer import RecommendOptions
from hpabatch.engine.advise.apply import settings_of
from hpabatch.engine.advise.bounds import parse_bounds
from hpabatch.engine.advise.frames import advice_frame, candidates_frame, folds_frame
from hpabatch.engine.advise.judge import JudgeRules
from hpabatch.engine.advise.objective import parse_goal
from hpabatch.engine.advise.run import Recommendations, recommend
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.summary import summarize_sweep
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk, trajectories
from hpabatch.jobs.sweep_files import read_sweep
from hpabatch.jobs.sweep_request import SweepRequest

Values = str | Iterable[object]
"""Values of a field: as on the command line ("50:85:5", "x0.8,x1"), or one after the other."""


class SweepChoices(TypedDict, total=False):
    """What a sweep can be told beside its grid, as on the command line; see `SweepRequest`."""

    sample: int | None
    policy_sets: str | None
    groups: Sequence[str]
    where: str | None
    scenario: str | None
    growth: str | None
    plants: Sequence[str]
    prices: str | None
    k8s: str | None
    feature_gates: str
    seed: int
    keep_gaps: bool
    noise: bool
    length_ms: int | None
    fidelity: bool


@dataclass(frozen=True)
class Sweep:
    """A sweep, done."""

    result: SweepResult

    def __repr__(self) -> str:
        """Return how much it is."""
        return f"<sweep of {self.hpas.height} HPAs: {self.settings.height} settings>"

    @property
    def settings(self) -> pl.DataFrame:
        """One row per setting; 0 is today's."""
        return self.result.settings

    @property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA."""
        return self.result.hpas

    @property
    def results(self) -> pl.DataFrame:
        """One row per HPA and setting, with all measures (docs/output.md)."""
        return self.result.results

    @property
    def blocks(self) -> pl.DataFrame:
        """One row per HPA, setting and week (of a short history day)."""
        return self.result.blocks

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per HPA: today's measures, and the cheapest setting that harms no more."""
        return summarize_sweep(self.result)

    def recommend(
        self,
        slo: str | Sequence[str] = (),
        *,
        minimize: str | None = None,
        bounds: Sequence[str] = (),
        min_history_days: float = 14.0,
        rules: JudgeRules | None = None,
    ) -> Advice:
        """Choose on the first blocks, judge on the last; see docs/recommend.md.

        Args:
            slo: what must hold, such as "saturated_minutes<10/week".
            minimize: what should be least; None: cost, without prices pod_hours.
            bounds: how far from today's a setting may be, such as "target=10".
            min_history_days: less history gives no advice.
            rules: how it is judged; None: the defaults.

        Raises:
            UsageError: a measure that there is not, or a limit that is none.
        """
        slos = [slo] if isinstance(slo, str) else list(slo)
        options = RecommendOptions(
            goal=parse_goal(slos, minimize, self.blocks),
            rules=rules or JudgeRules(),
            bounds=parse_bounds(list(bounds)),
            min_history_days=min_history_days,
        )
        return Advice(recommend(self.result, options, settings_of(self.result)))

    def trajectories(self, hpa: str, settings: Sequence[int] = (0,)) -> pl.DataFrame:
        """Return every tick of some settings of an HPA (`cluster/namespace/name`), run again.

        Raises:
            UsageError: there is no such HPA or setting.
            HistoryError: the history is not what it was.
        """
        parts = hpa.split("/")
        names = ["cluster", "namespace", "hpa"][-len(parts) :]
        same = [pl.col(name) == part for name, part in zip(names, parts, strict=False)]
        found = self.hpas.filter(same).select("cluster", "namespace", "hpa").rows()
        if len(parts) > 3 or len(found) != 1:
            raise UsageError(f"hpa {hpa!r}: {len(found)} of the sweep match; give one by its name")
        return trajectories(self.result, found[0], settings)


@dataclass(frozen=True)
class Advice:
    """What a sweep says should change; every answer has its reasons."""

    found: Recommendations

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per HPA: answer, setting, measures before and after, reasons."""
        return advice_frame(self.found)

    @cached_property
    def candidates(self) -> pl.DataFrame:
        """One row per unit and setting: how it stands, and whether it is on the front."""
        return candidates_frame(self.found)

    @cached_property
    def folds(self) -> pl.DataFrame:
        """One row per unit and fold: chosen on the blocks before, judged on one."""
        return folds_frame(self.found)

    @cached_property
    def patches(self) -> dict[str, str]:
        """By `namespace.hpa.yaml` (and `.json`) the patches and certificates as texts."""
        from hpabatch.report.recommend_files import recommendation_files

        return recommendation_files(self.found)


def open_sweep(path: Path | str) -> Sweep:
    """Return a sweep from its folder (HistoryError: it is none)."""
    return Sweep(read_sweep(path))


def run_sweep(
    history: History,
    grid: Mapping[str, Values],
    out: Path | str,
    restart: bool,
    choices: SweepChoices,
) -> Sweep:
    """Run a sweep to a folder; see `Recording.sweep`."""
    unknown = sorted(set(choices) - set(SweepChoices.__annotations__))
    if unknown:
        known = ", ".join(SweepChoices.__annotations__)
        raise UsageError(f"there is no option {', '.join(unknown)}; the options are {known}")
    texts = tuple(f"{name}={_values(values)}" for name, values in grid.items())
    given = {k: tuple(v) if k in ("groups", "plants") else v for k, v in choices.items()}  # type: ignore[arg-type]
    request = SweepRequest(str(history.location), texts, **given)  # type: ignore[arg-type]
    destination = Destination(Path(out), is_folder=True)
    return Sweep(sweep_to_disk(SweepJob(request, request.plan(history), destination, restart)))


def _values(values: Values) -> str:
    return values if isinstance(values, str) else ",".join(str(value) for value in values)
