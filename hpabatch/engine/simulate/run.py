"""Simulation of a history's HPAs: every workload fitted, its HPA run under settings.

RECORDED: the HPA as it was in force; PROPOSED: that of manifests, with the same work and draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fit.overrides import Draws, override, plan_overrides, read_plants
from hpabatch.engine.fit.run import Fit, Recorded, fit_history
from hpabatch.engine.fit.usage import Usage
from hpabatch.engine.fit.workload import RECORDED as RECORDED_FACT
from hpabatch.engine.fit.workload import Fact
from hpabatch.engine.fleet.candidates import Candidate, Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import (
    ReplayPlan,
    See,
    Select,
    as_recorded,
    plan_replay,
    with_lenses,
)
from hpabatch.engine.fleet.request import MIN_SYNC_PERIOD_MS, lens_file
from hpabatch.engine.fleet.requested import NOT_REQUESTED, Requested, requested_of
from hpabatch.engine.fleet.selection import with_others
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.request import VariedWork, Work
from hpabatch.engine.simulate.scenario import Applied, apply, plan_scenario, with_gaps
from hpabatch.engine.simulate.work import (
    Key,
    Target,
    assumed_facts,
    ceilings_told,
    censored_pct,
    gaps_by_api,
    guesses_told,
    hangs_on_guess,
    has_no_ceiling,
    joined,
    lacking_signals,
    not_identified,
    ratios_told,
    unproved,
    without_effect,
)
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.lenses import read_lens_file
from hpabatch.inputs.plants import PlantOverride
from hpabatch.inputs.prices import PriceList, read_price_file
from hpabatch.inputs.scenarios import Repeat, Scenario, grown_scenario
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.progress import Progress, silent
from hpabatch.packing.workloads import Workload

RECORDED: Final = "recorded"
PROPOSED: Final = "proposed"

KEY: Final = ("cluster", "namespace", "hpa")


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What is asked of a simulation beside what a replay is told.

    `keep_gaps`: where the history lacks samples the simulated controller sees none either.
    `length_ms` None: as long as the history. `files` are digests of the files that were read, for
    the evidence.
    """

    manifests: tuple[HPA, ...] | None = None
    scenario: Scenario | None = None
    plants: tuple[PlantOverride, ...] = ()
    prices: PriceList | None = None
    seed: int = 0
    keep_gaps: bool = True
    length_ms: int | None = None
    keep_points: bool = False
    files: Mapping[str, str] = field(default_factory=dict)


def read_work(
    request: Work,
    manifests: Sequence[HPA] | None = None,
    keep_points: bool = False,
    files: Sequence[str | None] = (),
) -> LoopOptions:
    """Return the options of a simulation, with the contents of its files.

    `files` are further ones that belong into the evidence.

    Raises:
        UsageError: a file is wrong, or the growth is no factor.
    """
    growth, lens = None, None
    if isinstance(request, VariedWork):
        growth, lens = request.growth, lens_file(request)
    if lens is not None:
        read_lens_file(lens)  # (its mistakes are told before anything is done)
    return LoopOptions(
        manifests=None if manifests is None else tuple(manifests),
        scenario=grown_scenario(request.scenario, growth),
        plants=read_plants(request),
        prices=None if request.prices is None else read_price_file(request.prices),
        seed=request.seed,
        keep_gaps=request.gaps == "keep",
        length_ms=request.length_ms,
        keep_points=keep_points,
        files=digests_of((request.scenario, *request.plant, request.prices, lens, *files)),
    )


@dataclass(slots=True)
class Loop:
    """HPAs ready to be simulated: the cases of all settings, and what is known of the plants.

    `facts` by (cluster, namespace, hpa); `problems` say why a result of an HPA gives no advice.
    `scenarios` are, of an HPA for which a scenario has steps, these; of one without `recorded` is
    what was recorded.
    """

    plan: ReplayPlan
    cases: Sequence[SimulationCase] = ()
    facts: dict[Key, tuple[Fact, ...]] = field(default_factory=dict)
    problems: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    censored: dict[Key, float] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()
    notes: Sequence[str] = ()
    evidence: dict[str, str] = field(default_factory=dict)
    scenarios: dict[Key, Scenario] = field(default_factory=dict)
    recorded: dict[Key, Recorded] = field(default_factory=dict)


def prepare_loop(
    history: History,
    parameters: ReplayParameters,
    options: LoopOptions,
    select: Select | None = None,
    progress: Progress = silent,
    see: See = as_recorded,
) -> Loop:
    """Fit the workloads and put their HPAs under all settings and the scenario.

    `see` says how the controllers saw what was recorded, and so do the simulated ones.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to simulate.
        UsageError: an option, a scenario or a plant file that does not fit the history.
    """
    progress("planning", 0.0)
    plan = see(plan_replay(history, parameters, None, select))
    return _Preparing(plan, options, parameters, select, progress, plan).loop()


def prepare_planned(
    plan: ReplayPlan,
    parameters: ReplayParameters,
    options: LoopOptions,
    whole: ReplayPlan | None = None,
    progress: Progress = silent,
    usages: Iterator[Usage] | None = None,
) -> Loop:
    """Do the same for the HPAs of a plan that is there already; `options` name no manifests.

    `whole` is the plan of the fleet of which `plan` has a part: nothing depends on how it is cut.
    `usages` are those of the plan's HPAs where they are walked for something else too.
    """
    return _Preparing(plan, options, parameters, None, progress, whole or plan, usages).loop()


FEWEST_SYNCS: Final = 20  # fewer recorded syncs say nothing about the effective period
FEWEST_PASSES: Final = 2


def effective_sync(plan: ReplayPlan, candidate: Candidate, is_given: bool) -> Fact | None:
    """Return the effective sync period of an HPA as a fact, None where too few syncs were recorded.

    Upstream's controller has a request rate and so many HPAs may take it longer than its flag says:
    1,000 HPAs some 50 s at the default rate. A live loop's passes come evenly but for late ones,
    and so do a run's ticks; they count even where a period is given.
    """
    whose = "passes of the live loop"
    instants = plan.clocks.passes.get(candidate.cluster, np.zeros(0, np.int64))
    if instants.size < FEWEST_PASSES:
        if is_given:
            return None
        whose, names = "recorded syncs of this HPA", [(candidate.namespace, candidate.name)]
        fetches = plan.history.select("metric_fetches", candidate.cluster, names, columns=["ts"])
        instants = np.unique(fetches["ts"].to_physical().to_numpy())
        if instants.size <= FEWEST_SYNCS:
            return None
    seconds = max(round(float(np.median(np.diff(instants)))), MIN_SYNC_PERIOD_MS) / 1000
    note = f"median time between the {whose}"
    return Fact("sync.period", seconds, "s", None, None, RECORDED_FACT, note)


class Run(NamedTuple):
    """The ticks of an HPA's runs; `sync` is its effective period where that was recorded."""

    start_ms: int
    period_ms: int
    steps: int
    sync: Fact | None

    @property
    def end_ms(self) -> int:
        """When it ends (exclusive)."""
        return self.start_ms + self.period_ms * self.steps


def run_of(
    plan: ReplayPlan,
    candidate: Candidate,
    workload: Workload | None,
    sync_period_ms: int | None,
    length_ms: int | None,
    *,
    repeats: bool,
) -> Run:
    """Return the run of an HPA: its own syncs while spec and work are known.

    `sync_period_ms` and `length_ms` are those that were asked for. With `repeats` the work goes on.

    Raises:
        UsageError: it is to be longer than that, and nothing says what the work is then.
    """
    clocks, key = plan.clocks, candidate.key
    sync = effective_sync(plan, candidate, sync_period_ms is not None)
    period_ms = clocks.grid.period_ms
    if sync is not None and sync.value is not None:
        period_ms = round(1000 * sync.value)
    elif key in clocks.estimated:
        period_ms = max(round(clocks.estimated[key].period_ms), MIN_SYNC_PERIOD_MS)
    from_ms, to_ms = candidate.periods[0].from_ms, candidate.periods[-1].to_ms
    if workload is not None:
        # A piece more at each end: samples begin some time within the first one.
        piece_ms = workload.resolution_ms
        pieces = max((work.size for work in workload.work.values()), default=0)
        if pieces:
            to_ms = min(to_ms, workload.work_start_ms + (pieces + 1) * piece_ms)
        from_ms = max(from_ms, workload.work_start_ms - (piece_ms if pieces else 0))
    instants = clocks.instants(clocks.of(key))
    instants = instants[(instants >= from_ms) & (instants < to_ms)]
    start_ms = int(instants[0]) if instants.size else max(from_ms, clocks.from_ms)
    known_ms = (int(instants[-1]) if instants.size else start_ms) - start_ms + period_ms
    wanted_ms = length_ms or known_ms
    if wanted_ms > known_ms and not repeats:
        raise UsageError(
            f"{candidate.namespace}/{candidate.name} was recorded for {known_ms // 60_000} "
            f"minutes, a run of {wanted_ms // 60_000} needs more work: give a shorter --for, "
            "or a scenario with a `repeat` step"
        )
    return Run(start_ms, period_ms, max(wanted_ms // period_ms, 1), sync)


@dataclass(slots=True)
class _Preparing:
    """Collects cases, HPA by HPA, into `made`."""

    plan: ReplayPlan
    options: LoopOptions
    parameters: ReplayParameters
    select: Select | None
    progress: Progress
    whole: ReplayPlan
    usages: Iterator[Usage] | None = None
    cases: list[SimulationCase] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fits: dict[Target, Fit] = field(default_factory=dict)
    entries: dict[Key, tuple[PlantOverride, ...]] = field(default_factory=dict)
    requested: dict[Target, Requested] = field(default_factory=dict)
    runs: dict[Target, Run] = field(default_factory=dict)
    sync_facts: dict[Key, Fact] = field(default_factory=dict)
    made: Loop = field(init=False)

    def loop(self) -> Loop:
        """Return everything."""
        plan, options = self.plan, self.options
        self.skipped += plan.skipped
        evidence = loop_evidence(plan, options)
        self.made = Loop(
            plan, self.cases, skipped=self.skipped, notes=self.notes, evidence=evidence
        )
        plans = {RECORDED: plan}
        if options.manifests is not None:
            proposed = plan_replay(
                plan.history, self.parameters, list(options.manifests), self.select
            )
            is_seen = "lens" in plan.evidence
            plans[PROPOSED] = with_lenses(proposed, plan.lenses) if is_seen else proposed
        for theirs in plans.values():
            self._fit(theirs)
        wanted = [
            (setting, candidate)
            for setting, theirs in plans.items()
            for candidate in theirs.chosen
            if self._may_run(setting, candidate, theirs.rivals)
        ]
        scenarios = self._scenarios([c for _, c in wanted])
        self.requested = requested_of(plan, [c for _, c in wanted])
        for (setting, candidate), scenario in zip(wanted, scenarios, strict=True):
            if scenario is not None and scenario.steps:
                self.made.scenarios[candidate.key] = scenario
            self._add(setting, candidate, scenario)
        if self.whole is plan:
            self.notes += ratios_told(plan)
            place = plan.history.location
            guessed = {key: hangs_on_guess(facts) for key, facts in self.made.facts.items()}
            without = {key: has_no_ceiling(facts) for key, facts in self.made.facts.items()}
            self.notes += [*guesses_told(guessed, place), *ceilings_told(without, place)]
        return self.made

    def _fit(self, plan: ReplayPlan) -> None:
        """Fit the workloads of a plan's HPAs; what a second one measures more is added."""
        others, plants = (*self.plan.everyone, *plan.everyone), self.options.plants
        chosen = plan_overrides(plants, plan.chosen, others)
        for candidate, entries in zip(plan.chosen, chosen, strict=True):
            self.entries[candidate.key] = entries
        for k, found in enumerate(fit_history(plan, plants, others, self.usages)):
            target = found.candidate.target
            known = self.fits.get(target)
            self.fits[target] = found if known is None else joined(known, found)
            self.progress("fitting workloads", (k + 1) / len(plan.chosen))

    def _may_run(
        self, setting: str, candidate: Candidate, rivals: Mapping[Key, Sequence[Candidate]]
    ) -> bool:
        """Say whether an HPA can be simulated, and note why not."""
        key = candidate.key
        if key in rivals:
            others = ", ".join(c.name for c in rivals[key] if c.name != candidate.name)
            self._skip(candidate, f"{setting}: it shares pods with {others}: neither can scale")
            return False
        found = self.fits.get(candidate.target)
        if found is None or found.workload is None:
            problems = found.problems if found is not None else ()
            self._skip(candidate, problems[0] if problems else "its pods were never measured")
            return False
        lacking = lacking_signals(candidate, found.workload.plant)
        if lacking:
            self._skip(candidate, f"{setting}: {lacking[0]} was not recorded for its pods")
            return False
        return True

    def _skip(self, candidate: Candidate, reason: str) -> None:
        skipped = Skipped(candidate.cluster, candidate.namespace, candidate.name, reason)
        if skipped not in self.skipped:
            self.skipped.append(skipped)

    def _scenarios(self, candidates: Sequence[Candidate]) -> tuple[Scenario | None, ...]:
        scenario = self.options.scenario
        if scenario is None:
            return (None,) * len(candidates)
        spans = [self._run(c) for c in candidates]
        if not spans:
            return ()
        start_ms = min(run.start_ms for run in spans)
        end_ms = max(run.end_ms for run in spans)
        if len(self.whole.chosen) > len(self.plan.chosen):
            # The fleet's run; a time that is only outside of an HPA's own is told for that HPA.
            clocks = self.whole.clocks
            start_ms, end_ms = min(start_ms, clocks.from_ms), max(end_ms, clocks.to_ms)
        known = with_others(candidates, self.plan.everyone)
        return plan_scenario(scenario, known, start_ms, end_ms)[: len(candidates)]

    def _run(self, candidate: Candidate) -> Run:
        """Return an HPA's run: the same under every setting, that of the first one's HPA."""
        if candidate.target not in self.runs:
            scenario = self.options.scenario
            repeats = scenario is not None and any(
                isinstance(s.action, Repeat) for s in scenario.steps
            )
            run = run_of(
                self.plan,
                candidate,
                self.fits[candidate.target].workload,
                self.parameters.sync_period_ms,
                self.options.length_ms,
                repeats=repeats,
            )
            self.runs[candidate.target] = run
            if run.sync is not None:
                self.sync_facts[candidate.key] = run.sync
        return self.runs[candidate.target]

    def _add(self, setting: str, candidate: Candidate, scenario: Scenario | None) -> None:
        """Add the case of an HPA under a setting."""
        key = candidate.key
        found = self.fits[candidate.target]
        assert found.workload is not None  # see _may_run
        run = self._run(candidate)
        start_ms, end_ms = run.start_ms, run.end_ms
        try:
            workload = self._workload(candidate, found.workload, end_ms - start_ms)
            applied = Applied(workload, candidate.periods)
            if scenario is not None:
                applied = apply(
                    scenario,
                    workload,
                    candidate.periods,
                    start_ms,
                    end_ms,
                    profile=self.plan.profile_of(candidate.cluster),
                )
        except (RefusedError, UsageError) as error:
            # (the scenario as a whole was checked against the fleet's run; this is about one HPA)
            self._skip(candidate, str(error))
            return
        self.notes += [note for note in applied.notes if note not in self.notes]
        found = self.fits[candidate.target]
        own = (self.sync_facts[key],) if key in self.sync_facts else ()
        known = (*(f for f in found.facts if f.name not in {o.name for o in own}), *own)
        self.made.facts[key] = (*known, *assumed_facts(applied.workload.plant, known))
        plant = applied.workload.plant
        self.made.problems[key] = (
            *found.problems,
            *not_identified(found, plant),
            *unproved(candidate, found, plant),
        )
        if found.recorded is not None and (scenario is None or not scenario.steps):
            self.made.recorded[key] = found.recorded
        self.made.censored[key] = censored_pct(found, applied.workload.plant)
        self.cases.append(
            SimulationCase(
                workload=applied.workload,
                periods=applied.periods,
                setting=setting,
                start_ms=start_ms,
                period_ms=run.period_ms,
                steps=run.steps,
                flags=self.plan.flags_of(candidate.cluster)[-1].flags,
                events=applied.events,
                requested=self.requested.get(candidate.target, NOT_REQUESTED),
            )
        )

    def _workload(self, candidate: Candidate, workload: Workload, length_ms: int) -> Workload:
        """Return the fitted workload under the HPA's name, as the user states it."""
        entries = self.entries[candidate.key]
        most = max(period.spec.max_replicas for period in candidate.periods)
        name = f"{candidate.cluster}/{candidate.namespace}/{candidate.name}"
        plant, facts = override(
            workload.plant, entries, Draws(self.options.seed, name, 2 * most * length_ms)
        )
        found = self.fits[candidate.target]
        self.notes += without_effect(candidate, entries, plant)
        if self.options.keep_gaps:
            plant = with_gaps(plant, gaps_by_api(found, plant))
        if facts:
            own = tuple(f for f in found.facts if f.name not in {given.name for given in facts})
            self.fits[candidate.target] = replace(found, facts=(*own, *facts))
        return replace(
            workload,
            cluster=candidate.cluster,
            namespace=candidate.namespace,
            hpa=candidate.name,
            plant=plant,
        )


def loop_evidence(plan: ReplayPlan, options: LoopOptions) -> dict[str, str]:
    """Return what a simulation's results rest on."""
    scenario = options.scenario
    return plan.evidence | {
        "simulation": "closed loop of the exact rules with a modelled plant",
        "events": "decided",
        "seed": str(options.seed),
        "gaps": "kept" if options.keep_gaps else "filled",
        **options.files,
        "scenario": (scenario.description or "given") if scenario else "none",
    }
