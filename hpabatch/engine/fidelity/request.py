"""Options of a fidelity score."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from hpabatch.engine.fit.request import PlantFiles
from hpabatch.engine.fleet.request import ChosenHpas, Lensed, Pipeline, Rules, Syncs
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import option

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, kw_only=True)
class FidelityRequest(Spread, PlantFiles, Lensed, Syncs, Pipeline, Rules, ChosenHpas):
    """A score of how far each HPA's rules and plant can be trusted."""

    split: float = option(
        "real",
        "Share of each HPA's ticks that its plant is fitted on; the rest judges it.",
        0.5,
        metavar="SHARE",
        minimum=0.01,
        maximum=0.99,
    )
    horizon_ms: int = option(
        "duration",
        "Time after a change of the number of pods over which their usage is judged.",
        5 * _MINUTE_MS,
        metavar="TIME",
        minimum=_MINUTE_MS,
        maximum=1440 * _MINUTE_MS,
    )


@dataclass(frozen=True, slots=True)
class FidelityParameters:
    """The choices of the plant score, and the thresholds from which on there is advice.

    Plant score: the plant is fitted on the first `split_share` of each HPA's ticks. A change is
    judged by the mean usage over the settled samples of the `horizon_ms` after it; what was before
    it is their mean over the last `level_ms` (and no trend: docs/fidelity.md says why). Between the
    two at most `longest_ms` may pass. Fewer than `fewest_changes` are no score.

    Advice asks of the controller that its answer is not "wrong"; of the
    plant score for `least_skill`, an interval of it above `least_skill_low`, and no more than
    `most_median_error_pct` and `most_bias_pct` (either way). What hangs on the age of pods hardly
    changes with their number, so persistence is hard to beat: a mean error of `small_error_pct`,
    half of the tolerance within which no HPA acts, does there too.
    """

    split_share: float = 0.5
    horizon_ms: int = 5 * _MINUTE_MS
    level_ms: int = _MINUTE_MS
    longest_ms: int = 10 * _MINUTE_MS
    fewest_changes: int = 5
    least_skill: float = 0.2
    least_skill_low: float = 0.0
    most_median_error_pct: float = 25.0
    most_bias_pct: float = 15.0
    small_error_pct: float = 5.0

    def texts(self) -> dict[str, str]:
        """Return every choice as a text, by name, as evidence holds them."""
        return {f"fidelity_{f.name}": f"{getattr(self, f.name):g}" for f in fields(self)}
