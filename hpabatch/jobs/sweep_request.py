"""What is asked of a sweep, in the words of its command line: enough to do it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.engine.sweep.run import SweepOptions, SweepPlan, plan_sweep
from hpabatch.history.reader import History, open_history
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.grid import read_grids
from hpabatch.inputs.plants import read_plant_file
from hpabatch.inputs.policies import all_policy_sets, read_policy_sets
from hpabatch.inputs.prices import read_price_file
from hpabatch.inputs.scenarios import grown_scenario
from hpabatch.jobs.choices import selection


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """The texts, paths and numbers of a command line; times in ms, None: not given."""

    history: str
    grids: tuple[str, ...]
    sample: int | None = None
    policy_sets: str | None = None
    groups: tuple[str, ...] = ()
    where: str | None = None
    scenario: str | None = None
    growth: str | None = None
    plants: tuple[str, ...] = ()
    prices: str | None = None
    k8s: str | None = None
    feature_gates: str = ""
    seed: int = 0
    keep_gaps: bool = True
    noise: bool = False
    length_ms: int | None = None
    sync_period_ms: int | None = None
    phase_ms: int | None = None
    fidelity: bool = True

    def plan(self, history: History | None = None) -> SweepPlan:
        """Read what is named and return what the sweep is to do.

        Args:
            history: the history, if it is open already.

        Raises:
            UsageError: a text, a file or the grid is wrong; all that is wrong with grid, policy
                sets and groups in one message.
            HistoryError: the history cannot be read, or lacks what a simulation needs.
        """
        history = open_history(self.history, "replay") if history is None else history
        own = {} if self.policy_sets is None else read_policy_sets(self.policy_sets)
        sets = all_policy_sets(own)
        grid = read_grids(self.grids, sets, self.sample, self.seed)
        options = SweepOptions(grid, sets, self.groups, self._loop(), self.fidelity)
        parameters = ReplayParameters(
            k8s=self.k8s,
            feature_gates=self.feature_gates,
            sync_period_ms=self.sync_period_ms,
            phase_ms=self.phase_ms,
        )
        select = None if self.where is None else selection(self.where)
        return plan_sweep(history, parameters, options, select)

    def _loop(self) -> LoopOptions:
        files = (self.scenario, *self.plants, self.prices, self.policy_sets)
        return LoopOptions(
            scenario=grown_scenario(self.scenario, self.growth),
            plants=tuple(entry for path in self.plants for entry in read_plant_file(path)),
            prices=None if self.prices is None else read_price_file(self.prices),
            seed=self.seed,
            keep_gaps=self.keep_gaps,
            noise=self.noise,
            length_ms=self.length_ms,
            files=digests_of(files),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def request_from_json(found: Mapping[str, Any]) -> SweepRequest:
    """Return what `to_json` has written (TypeError, KeyError: it has not)."""
    names = {field.name for field in fields(SweepRequest)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in found.items() if k in names
    }
    return SweepRequest(**values)
