"""hpabatch from Python: open a history, look at its tables, replay it; all as Polars frames.

Errors are those of `hpabatch.errors`; each is one sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import polars as pl
from polars.io.plugins import register_io_source

from hpabatch.api_sweep import Advice, Sweep, SweepChoices, Values, open_sweep, run_sweep
from hpabatch.engine.attention import rank_attention
from hpabatch.engine.candidates import (
    Candidate,
    candidate_frame,
    candidates_of,
)
from hpabatch.engine.capacity import CapacityOptions, CapacityPlan, growths_of, plan_capacity
from hpabatch.engine.closed_loop import LoopOptions, prepare_loop
from hpabatch.engine.fit import fit_history
from hpabatch.engine.loop_result import LoopResult, run_loop
from hpabatch.engine.observe import observe
from hpabatch.engine.parameters import INSTANTS, ReplayParameters
from hpabatch.engine.plan import ReplayPlan, Select, plan_replay
from hpabatch.engine.quality import quality
from hpabatch.engine.replay import ReplayResult, join_results, replay_shards
from hpabatch.engine.score import Score, score
from hpabatch.engine.sensitivity import compare, settings_of
from hpabatch.engine.summary import FleetTotals, join_summaries, summarize, summarize_part, total
from hpabatch.engine.versions import history_profile, versions_of
from hpabatch.engine.workload import facts_frame
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.history.base import History
from hpabatch.history.info import HistoryInfo, describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.schema import empty_frame
from hpabatch.jobs.choices import parse_duration, selection
from hpabatch.jobs.parquet import write_parquet
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.replay import ReplayDone, ReplayJob, replay_to_disk
from hpabatch.model.hpa import HPA
from hpabatch.model.overrides import PlantOverride
from hpabatch.model.scenario import Scenario
from hpabatch.sources.manifest_checks import check_manifests
from hpabatch.sources.manifests import load_manifests
from hpabatch.sources.plant_file import read_plant_file
from hpabatch.sources.price_file import read_price_file
from hpabatch.sources.quota_file import read_quotas
from hpabatch.sources.scenario_file import parse_growth, read_scenario

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["Advice", "Recording", "Replay", "Sweep", "open", "open_sweep"]

Duration = str | timedelta
"""A time such as "500ms", "15s" or "1m", or a timedelta."""


class Options(TypedDict, total=False):
    """What a replay can be told; everything may be left out.

    Attributes:
        k8s: Kubernetes version whose rules apply; as recorded, else the default.
        feature_gates: gates that are not as in that version: `HPAScaleToZero=false,…`.
        where: an SQL condition on the columns of `Recording.hpas`.
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
        schema = empty_frame(name).schema
        return register_io_source(_Source(self.history, name), schema=schema)

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
        entries = _plant_entries(plant)
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
        parameters, manifests, select = self._parameters(options)
        asked = LoopOptions(
            manifests=None if manifests is None else tuple(manifests),
            scenario=_scenario(scenario, growth),
            plants=_plant_entries(plant),
            prices=None if prices is None else read_price_file(prices),
            seed=seed,
            keep_gaps=not fill_gaps,
            noise=noise,
            length_ms=_milliseconds(length, "length", 1000),
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
            plants=_plant_entries(plant),
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
        plan, _ = self._plan(options, only=_named(hpa))
        if not plan.chosen:
            raise UsageError(f"{hpa}: {plan.skipped[-1].reason}")
        return observe(plan, plan.chosen[0])

    def _plan(
        self, options: Options, only: Select | None = None
    ) -> tuple[ReplayPlan, list[HPA] | None]:
        parameters, manifests, select = self._parameters(options)
        if manifests is None:
            self.history.require("replay")
        return plan_replay(self.history, parameters, manifests, only or select), manifests

    def _parameters(
        self, options: Options
    ) -> tuple[ReplayParameters, list[HPA] | None, Select | None]:
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
            sync_period_ms=_milliseconds(options.get("sync_period"), "sync_period", 1000),
            phase_ms=_milliseconds(options.get("phase"), "phase"),
            delay_ms=_milliseconds(options.get("delay"), "delay"),
            max_age_ms=_milliseconds(options.get("max_age"), "max_age", 1),
        )
        where = options.get("where")
        select = None if where is None else selection(where, "where")
        return parameters, self._load(options.get("manifests"), parameters), select

    def _load(
        self, paths: Sequence[str | Path] | str | Path | None, parameters: ReplayParameters
    ) -> list[HPA] | None:
        """Return the HPAs of manifests (RefusedError: the first that is not valid)."""
        if not paths:
            return None
        each = [paths] if isinstance(paths, str | Path) else paths
        profile = history_profile(self.history, parameters.k8s, parameters.feature_gates)
        checked = check_manifests(load_manifests([str(p) for p in each]).entries, profile)
        for item in checked:
            if item.hpa is None:
                raise RefusedError(f"{item.entry.place}: {item.complaints[0]}")
        return [item.hpa for item in checked if item.hpa is not None]


@dataclass(frozen=True)
class Replay:
    """What a replay decided.

    Attributes:
        plan: what was replayed, and under which assumptions.
        result: what came of it.
    """

    plan: ReplayPlan
    result: ReplayResult

    def __repr__(self) -> str:
        """Return how much it is."""
        return f"<replay of {self.result.hpas.height} HPAs: {self.decisions.height} decisions>"

    @property
    def decisions(self) -> pl.DataFrame:
        """One row per HPA and tick; docs/output.md explains the columns."""
        return self.result.decisions

    @property
    def hpas(self) -> tuple[Candidate, ...]:
        """The HPAs that were replayed, with their specs."""
        return self.plan.chosen

    @property
    def evidence(self) -> dict[str, str]:
        """What the result rests on: version, profile, parameters and their sources, digests."""
        return self.result.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd."""
        return self.result.warnings

    @cached_property
    def skipped(self) -> pl.DataFrame:
        """HPAs that could not be replayed: cluster, namespace, hpa, reason."""
        rows = [(s.cluster, s.namespace, s.hpa, s.reason) for s in self.result.skipped]
        columns = ["cluster", "namespace", "hpa", "reason"]
        return pl.DataFrame(rows, dict.fromkeys(columns, pl.String()), orient="row")

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per HPA."""
        return summarize(self.result.decisions, self.result.hpas)

    @cached_property
    def totals(self) -> FleetTotals:
        """Sums over the summary."""
        return total(self.summary)

    @cached_property
    def score(self) -> Score:
        """How well the decided rescales meet the recorded ones: `hpas` and `events`."""
        return score(self.result.decisions, self.result.hpas)

    def attention(self, top: int = 20) -> pl.DataFrame:
        """Return the HPAs most worth a look: rank, key, rule, score, why."""
        return rank_attention(self.summary, top)

    def write(self, path: Path | str) -> None:
        """Write the decisions as Parquet, with the evidence; the file is whole or not there.

        Raises:
            UsageError: it cannot be written.
        """
        with atomic_path(path) as temporary:
            write_parquet(self.decisions, self.evidence, temporary)


@dataclass(frozen=True)
class _Source:
    """Reads a table for Polars, a cluster and day at a time."""

    history: History
    name: str

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = with_columns
        if with_columns is not None and predicate is not None:
            wanted = list(dict.fromkeys([*with_columns, *predicate.meta.root_names()]))
        left = n_rows
        for cluster, day, places in self._parts():
            if left is not None and left <= 0:
                return
            frame = self.history.select(self.name, cluster, places, day=day, columns=wanted)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame if with_columns is None else frame.select(with_columns)

    def _parts(self) -> Iterator[tuple[str, date | None, list[tuple[str, str | None]]]]:
        sizes = self.history.sizes(self.name)
        keys = ["cluster", "day"]
        groups = sizes.group_by(keys).agg("namespace", "place").sort(keys, nulls_last=False)
        for cluster, day, namespaces, places in groups.iter_rows():
            yield cluster, day, list(zip(namespaces, places, strict=True))


def _summary(plan: ReplayPlan) -> pl.DataFrame:
    results = replay_shards(plan, range(len(plan.shards)))
    return join_summaries([summarize_part(r.decisions, r.hpas) for r in results])


def _named(hpa: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
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


def _plant_entries(plant: Sequence[str | Path] | str | Path) -> tuple[PlantOverride, ...]:
    paths = [plant] if isinstance(plant, str | Path) else plant
    if not isinstance(paths, Sequence) or not all(isinstance(p, str | Path) for p in paths):
        raise UsageError(f"plant={plant!r} is no path of a plant file, nor several of them")
    return tuple(entry for path in paths for entry in read_plant_file(path))


def _scenario(path: str | Path | None, growth: float | None) -> Scenario | None:
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


def _milliseconds(value: Duration | None, name: str, minimum_ms: int = 0) -> int | None:
    if isinstance(value, timedelta):
        value = f"{value // timedelta(milliseconds=1)}ms"
    if value is not None and not isinstance(value, str):
        raise UsageError(
            f"{name}={value!r} is not a duration: a text such as '15s', or a timedelta"
        )
    return None if value is None else parse_duration(value, name, minimum_ms)
