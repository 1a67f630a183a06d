"""hpabatch from Python: open a history, look at its tables, replay it; all as Polars frames.

Errors are those of `hpabatch.errors`; each is one sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from hpabatch.api.options import (
    Duration,
    Options,
    milliseconds,
    named,
    parameters_of,
    plant_entries,
    scenario_of,
)
from hpabatch.api.replays import Replay
from hpabatch.api.sweeps import Advice, Sweep, SweepChoices, Values, open_sweep, run_sweep
from hpabatch.engine.capacity.run import CapacityOptions, CapacityPlan, growths_of, plan_capacity
from hpabatch.engine.fit.run import fit_history
from hpabatch.engine.fit.workload import facts_frame
from hpabatch.engine.fleet.candidates import (
    Candidate,
    candidate_frame,
    candidates_of,
)
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, Select, plan_replay
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.run import quality
from hpabatch.engine.replay.run import join_results, replay_shards
from hpabatch.engine.replay.sensitivity import compare, settings_of
from hpabatch.engine.replay.summary import join_summaries, summarize_part
from hpabatch.engine.shards.observe import observe
from hpabatch.engine.simulate.result import LoopResult, run_loop
from hpabatch.engine.simulate.run import LoopOptions, prepare_loop
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.history.info import HistoryInfo, describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.scan import scan_table
from hpabatch.inputs.prices import read_price_file
from hpabatch.inputs.quotas import read_quotas
from hpabatch.jobs.choices import selection
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.replay import ReplayDone, ReplayJob, replay_to_disk
from hpabatch.model.objects.hpa import HPA

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["Advice", "Recording", "Replay", "Sweep", "open", "open_sweep"]


def open(path: Path | str) -> Recording:
    """Open a history: a folder of Parquet tables, or a store (a folder or an s3://, gs://, abfs://).

    Raises:
        HistoryError: there is no history.
    """
    return Recording(open_history(path))


class Recording:
    """A history, opened for reading. It does not change while it is open."""

    def __init__(self, history: History) -> None:
        """Use `hpabatch.open`."""
        self.history = history

    def __repr__(self) -> str:
        """Return where it is and what it holds."""
        return f"<history {self.history.location}: {', '.join(self.tables)}>"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are there."""
        return self.history.tables

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table as a lazy frame: checked, without equal keys, read day by day.

        Collect it with `engine="streaming"` where it is larger than memory. A table that is not
        there has no rows.

        Raises:
            HistoryError: there is no such table in any history; reading: the table is broken.
        """
        return scan_table(self.history, name)

    @cached_property
    def hpas(self) -> pl.DataFrame:
        """The recorded HPAs that can be replayed, one row each: the columns that `where` knows."""
        return candidate_frame(self._candidates())

    def info(self) -> HistoryInfo:
        """Return what the history holds: layout, clusters, per table rows, bytes and times."""
        return describe_history(self.history)

    def quality(self) -> pl.DataFrame:
        """Return what the recording of each HPA is worth: coverage, gaps, intervals and more."""
        return quality(self.history, self._candidates())

    def _candidates(self) -> list[Candidate]:
        versions = versions_of(self.history.read("controller"), None)
        return candidates_of(self.history, versions.of)[0]

    def replay(self, **options: Unpack[Options]) -> Replay:
        """Replay all HPAs, or those of `where`, in memory. For options see `Options`.

        Raises:
            HistoryError: a table is broken, or there is nothing to replay.
            UsageError: an option is not possible.
        """
        plan, _ = self._plan(options)
        results = list(replay_shards(plan, range(len(plan.shards))))
        return Replay(plan, join_results(plan, results))

    def replay_to(
        self,
        out: Path | str,
        *,
        score: bool = False,
        sensitivity: bool = False,
        restart: bool = False,
        **options: Unpack[Options],
    ) -> ReplayDone:
        """Replay to a Parquet file, or a folder of them if `out` ends with a slash.

        For results larger than memory: all but the decisions is returned. An interrupted call goes
        on where it was when it is made again; `restart` begins anew.

        Raises:
            HistoryError, UsageError: as `replay`, and where `out` cannot be written.
            RefusedError: no HPA could be replayed.
        """
        from hpabatch.jobs.publish import is_result_folder

        plan, manifests = self._plan(options)
        if Path(out).resolve().is_relative_to(self.history.path.resolve()):
            raise UsageError(f"{out} is inside the history that is replayed; name another place")
        folder = str(out).endswith("/") or (Path(out).is_dir() and is_result_folder(Path(out)))
        return replay_to_disk(
            ReplayJob(
                plan=plan,
                destination=Destination(Path(out), folder),
                manifests=manifests,
                score=score,
                sensitivity=sensitivity,
                restart=restart,
            )
        )

    def fit(
        self, where: str | None = None, plant: Sequence[str | Path] | str | Path = ()
    ) -> pl.DataFrame:
        """Return what is known of each workload: a row per parameter, with interval and source.

        `plant` are plant files (docs/scenarios.md) with what you state yourself.

        Raises:
            HistoryError, UsageError: as `replay`.
        """
        plan, _ = self._plan({"where": where})
        entries = plant_entries(plant)
        return facts_frame(
            {
                (f.candidate.cluster, f.candidate.namespace, f.candidate.name): f.facts
                for f in fit_history(plan, entries)
            }
        )

    def simulate(
        self,
        *,
        scenario: str | Path | None = None,
        growth: float | None = None,
        plant: Sequence[str | Path] | str | Path = (),
        prices: str | Path | None = None,
        seed: int = 0,
        fill_gaps: bool = False,
        noise: bool = False,
        length: Duration | None = None,
        trajectories: bool = False,
        **options: Unpack[Options],
    ) -> LoopResult:
        """Simulate all HPAs, or those of `where`, in a closed loop with fitted workloads.

        With `manifests` in `options` they run beside the recorded ones; with `noise` every setting
        runs a second time with what finer stretches say happens within a piece of work.
        `scenario`, `plant` and `prices` name YAML files. The result's `measures` has one row per
        HPA and setting, `points` (with `trajectories`) one per tick, `loop.skipped` who was left
        out and why.

        Raises:
            HistoryError, UsageError: as `replay`; a file that is wrong.
        """
        self.history.require("replay")
        if not isinstance(seed, int) or seed < 0:
            raise UsageError(f"seed={seed!r} is not a whole number of at least 0")
        parameters, manifests, select = parameters_of(self.history, options)
        asked = LoopOptions(
            manifests=None if manifests is None else tuple(manifests),
            scenario=scenario_of(scenario, growth),
            plants=plant_entries(plant),
            prices=None if prices is None else read_price_file(prices),
            seed=seed,
            keep_gaps=not fill_gaps,
            noise=noise,
            length_ms=milliseconds(length, "length", 1000),
            keep_points=trajectories,
        )
        loop = prepare_loop(self.history, parameters, asked, select)
        return run_loop(loop, asked)

    def sweep(
        self,
        grid: Mapping[str, Values],
        out: Path | str,
        *,
        restart: bool = False,
        **choices: Unpack[SweepChoices],
    ) -> Sweep:
        """Simulate every HPA under every setting of a grid; `out` becomes a folder of tables.

        An interrupted call goes on where it was when it is made again; `restart` begins anew.

        Args:
            grid: values by field, such as `{"target": "50:85:5", "scaleDown.window": [60, 300]}`.
            out: the folder; a sweep that is there is replaced.
            restart: throw away what an interrupted call has left.
            choices: see `SweepChoices`.

        Raises:
            UsageError: all that is wrong with grid and groups, in one message.
            HistoryError: a table is broken, or there is nothing to simulate.
            RefusedError: no HPA could be simulated.
        """
        return run_sweep(self.history, grid, out, restart, choices)

    def plan(
        self,
        *,
        growth: Sequence[float] = (1.0,),
        quotas: Sequence[str] = (),
        prices: str | Path | None = None,
        plant: Sequence[str | Path] | str | Path = (),
        where: str | None = None,
        k8s: str | None = None,
        seed: int = 0,
    ) -> CapacityPlan:
        """Return what the HPAs would ask for without a maximum, under each growth of the work.

        `hpas` of the result has a row per HPA and growth, `totals` the sums over time with
        headroom against `quotas` (paths of ResourceQuota manifests) and money; docs/plan.md
        explains both.

        Raises:
            HistoryError, UsageError: as `replay`; a file that is wrong.
            RefusedError: no HPA could be simulated.
        """
        self.history.require("replay")
        clusters = self.history.distinct("scales", ["cluster"])["cluster"].to_list()
        options = CapacityOptions(
            growths=growths_of(",".join(str(factor) for factor in growth), "growth"),
            plants=plant_entries(plant),
            prices=None if prices is None else read_price_file(prices),
            quotas=read_quotas(tuple(quotas), clusters).quotas,
            seed=seed,
        )
        select = None if where is None else selection(where, "where")
        parameters = ReplayParameters(k8s=k8s, events="decided")
        return plan_capacity(self.history, parameters, options, select)

    def sensitivity(self, **options: Unpack[Options]) -> pl.DataFrame:
        """Return how the agreement changes with delay, max age and phase, a row per setting."""
        plan, _ = self._plan(options)
        settings = settings_of(plan)
        return compare(settings, [_summary(setting.plan) for setting in settings])

    def observations(self, hpa: str, **options: Unpack[Options]) -> pl.DataFrame:
        """Return what the rules saw of one HPA: a row per tick, metric and pod.

        Args:
            hpa: its name, `namespace/name` or `cluster/namespace/name`.
            options: see `Options`.

        Raises:
            UsageError: there is no such HPA, or there are several.
        """
        if "where" in options:
            raise UsageError("observations are those of one HPA: leave out `where`")
        plan, _ = self._plan(options, only=named(hpa))
        if not plan.chosen:
            raise UsageError(f"{hpa}: {plan.skipped[-1].reason}")
        return observe(plan, plan.chosen[0])

    def _plan(
        self, options: Options, only: Select | None = None
    ) -> tuple[ReplayPlan, list[HPA] | None]:
        parameters, manifests, select = parameters_of(self.history, options)
        if manifests is None:
            self.history.require("replay")
        return plan_replay(self.history, parameters, manifests, only or select), manifests


def _summary(plan: ReplayPlan) -> pl.DataFrame:
    results = replay_shards(plan, range(len(plan.shards)))
    return join_summaries([summarize_part(r.decisions, r.hpas) for r in results])
