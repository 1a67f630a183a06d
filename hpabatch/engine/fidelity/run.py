"""Fidelity of the two halves of a simulation, HPA by HPA: the rules and the plant.

The *controller score* is that of a replay (`engine.replay.score`): whether the rules decide the
rescales that were recorded. The *plant score* measures whether the fitted plant predicts the usage
after a change of the number of pods better than persistence does. A simulation of the recorded
setting on the recorded demand would prove nothing: the number of pods cancels out, so any plant
agrees. docs/fidelity.md explains both scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.columns.fidelity import FIDELITY_HPAS
from hpabatch.engine.fidelity.answer import ANSWER_SCHEMA, UNEXPLAINED, UNTOLD, WRONG, answers
from hpabatch.engine.fidelity.lens import LensEstimate
from hpabatch.engine.fidelity.plant import (
    CHANGE_COLUMNS,
    SIGNAL_COLUMNS,
    Skill,
    score_plant,
    skill_of,
)
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.walk import Walk, walk_shards
from hpabatch.engine.fit.kinds import has_age
from hpabatch.engine.fit.overrides import plan_overrides, signal_statement
from hpabatch.engine.fit.pipeline import recording_of
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.usage import (
    POD_COUNTS,
    TICK_COLUMNS,
    Lives,
    Probes,
    SignalUsage,
    Usage,
    observed_usage,
)
from hpabatch.engine.fleet.candidates import NEVER_IN_FORCE, Candidate, Skipped
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan, as_used, narrow_plan
from hpabatch.engine.replay.decisions import SCHEMA
from hpabatch.engine.replay.run import join_notes
from hpabatch.engine.replay.score import ScoreTotals, score, total
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.inputs.plants import PlantOverride
from hpabatch.model.plant import AGE, DIVISIBLE, signal_name
from hpabatch.model.progress import Progress, silent


def split_ms(usage: Usage, share: float) -> int:
    """Return the instant before which the first `share` of an HPA's ticks lies, in ms.

    The first part has at least one tick, and is all of it only if there is no other.
    """
    ticks = usage.now_ms.size
    if ticks == 1:
        return int(usage.now_ms[0]) + 1
    return int(usage.now_ms[min(max(int(share * ticks), 1), ticks - 1)])


def first_part(usage: Usage, until_ms: int) -> Usage:
    """Return what had been observed before an instant, as if the recording had ended there.

    Two exceptions: limits are those at the end, and the sums over each pod's samples
    (`SignalUsage.pods`) are those of no sample, since they cannot be divided. Growth with the age
    of pods is fitted on these sums: for it use `first_parts_read`.
    """
    emptied = {}
    for name, signal in usage.signals.items():
        pods = signal.pods.copy()
        pods.even, pods.odd, pods.settled = 0, 0, 0
        emptied[name] = replace(signal, pods=pods)
    return _until(replace(usage, signals=emptied), until_ms)


def _until(usage: Usage, until_ms: int) -> Usage:
    ticks = int(np.searchsorted(usage.now_ms, until_ms))
    by_tick = ("now_ms", "period", "replicas", *POD_COUNTS)
    return replace(
        usage,
        signals={n: _signal_until(s, ticks, until_ms) for n, s in usage.signals.items()},
        lives=_lives_until(usage.lives, until_ms),
        **{name: getattr(usage, name)[:ticks] for name in by_tick},
    )


def _signal_until(signal: SignalUsage, ticks: int, until_ms: int) -> SignalUsage:
    rows = int(np.searchsorted(signal.tick, ticks))
    probes, pods = signal.probes, signal.pods.copy()
    early = probes.ts_ms < until_ms
    pods.first_ms[pods.first_ms >= until_ms] = -1
    return replace(
        signal,
        probes=Probes(*(getattr(probes, field.name)[early] for field in fields(probes))),
        pods=pods,
        **{name: getattr(signal, name)[:rows] for name in ("tick", *TICK_COLUMNS)},
    )


def _lives_until(lives: Lives, until_ms: int) -> Lives:
    moments = ("created_ms", "started_ms", "ready_ms", "deleted_ms", "gone_ms", "again_ms")
    known: dict[str, Any] = {}
    for name in moments:
        at_ms = getattr(lives, name)
        known[name] = np.where(at_ms < until_ms, at_ms, NEVER_MS)
    steps, lost = int(np.searchsorted(lives.step_ms, until_ms)), lives.lost_ms < until_ms
    known |= {"step_ms": lives.step_ms[:steps], "step_ready": lives.step_ready[:steps]}
    known |= {"lost_pod": lives.lost_pod[lost], "lost_ms": lives.lost_ms[lost]}
    return replace(lives, **known | {"again_ms": known["again_ms"][lost]})


def first_parts_read(
    plan: ReplayPlan, usages: Sequence[Usage], until_ms: Sequence[int]
) -> Iterator[Usage]:
    """Yield the first part of each of some usages of one cluster, their pods' sums included.

    The samples are read again, once for every different instant, by a plan that ends there.

    Raises:
        HistoryError: a table is broken.
    """
    place = {id(candidate): k for k, candidate in enumerate(plan.chosen)}
    found: dict[int, Usage] = {}
    for end_ms in sorted(set(until_ms)):
        theirs = [u for u, ms in zip(usages, until_ms, strict=True) if ms == end_ms]
        part = narrow_plan(plan, [place[id(usage.candidate)] for usage in theirs])
        clocks = replace(plan.clocks, to_ms=end_ms - 1)
        part = replace(part, shards=((0, len(theirs)),), clocks=clocks)
        for usage in observed_usage(part, shards=[0]):
            found[id(usage.candidate)] = _until(usage, end_ms)
    for usage, end_ms in zip(usages, until_ms, strict=True):
        yield found.get(id(usage.candidate), first_part(usage, end_ms))


Row = Mapping[str, Any]
Key = tuple[str, ...]


def verdicts(
    keys: Sequence[str],
    controller: pl.DataFrame,
    signals: pl.DataFrame,
    relevant: Mapping[Key, frozenset[str]],
    parameters: FidelityParameters,
) -> Iterator[dict[str, Any]]:
    """Yield for each HPA of `controller` its keys and `plant_signal`, whether there is advice.

    `advice`, `why_not`, and of that `plant_why_not`, the plant's part.

    Args:
        keys: the columns that name an HPA.
        controller: controller scores with their answers, one row per HPA.
        signals: plant scores, one row per HPA and signal.
        relevant: the signals that each HPA's spec reads, by its key.
        parameters: the thresholds.
    """
    rows: dict[Key, list[Row]] = {}
    for row in signals.iter_rows(named=True):
        rows.setdefault(tuple(row[k] for k in keys), []).append(row)
    for row in controller.iter_rows(named=True):
        key = tuple(row[k] for k in keys)
        theirs = [s for s in rows.get(key, []) if s["signal"] in relevant[key]]
        worst = worst_signal(theirs, parameters)
        why = why_not(row, worst, parameters)
        yield {k: row[k] for k in keys} | {
            "plant_signal": worst["signal"] if worst is not None else None,
            "plant_why_not": plant_why_not(worst, parameters),
            "advice": why is None,
            "why_not": why,
        }


def worst_signal(signals: Sequence[Row], parameters: FidelityParameters) -> Row | None:
    """Return the worst signal of an HPA, by which its plant is scored.

    One without a score, else one that is not good enough, else the one with the lowest skill; of
    equal ones the first. None if there is no signal.
    """

    def rank(row: Row) -> tuple[bool, bool, float]:
        scored = row["unscored"] is None
        good = not any(plant_reasons(row, parameters))
        return scored, good, row["skill"] if scored else 0.0

    return min(signals, key=rank, default=None)


def why_not(controller: Row, plant: Row | None, parameters: FidelityParameters) -> str | None:
    """Return why there is no advice on an HPA, all reasons in one text; None: there is."""
    of_controller = ", ".join(controller_reasons(controller))
    of_plant = plant_why_not(plant, parameters)
    # Why there is no plant at all says which signal is at fault.
    name = "" if plant is None or plant["kind"] is None else f" ({plant['signal']})"
    told = [f"controller: {of_controller}" if of_controller else ""]
    told.append(f"plant{name}: {of_plant}" if of_plant else "")
    return "; ".join(filter(None, told)) or None


def plant_why_not(plant: Row | None, parameters: FidelityParameters) -> str | None:
    """Return why a plant score is not good enough, all reasons in one text; None: it is."""
    return NEVER_IN_FORCE if plant is None else ", ".join(plant_reasons(plant, parameters)) or None


def controller_reasons(row: Row) -> Iterator[str]:
    """Yield why a controller score refuses advice: only an answer of "wrong" does."""
    if row["answer"] == WRONG:
        what = "the stated settings are wrong"
        if row["answer_why"].startswith(UNEXPLAINED):
            what = "the stated settings, or the recorded samples, are not the controller's"
        yield f"{what}, {row['answer_why']}"


def plant_reasons(row: Row, parameters: FidelityParameters) -> Iterator[str]:
    """Yield why a signal's plant score (a row of SIGNAL_COLUMNS) is not good enough."""
    if row["unscored"] is not None:
        yield f"not scorable, {row['unscored']}"
        return
    p = parameters
    if row["kind"] != AGE or row["mean_error_pct"] > p.small_error_pct:
        if row["skill"] < p.least_skill:
            yield f"skill {row['skill']:.2f} is below {p.least_skill:g}"
        elif row["skill_low"] <= p.least_skill_low:
            low = f"{row['skill_low']:.2f}"
            yield f"the skill's interval begins at {low}, not above {p.least_skill_low:g}"
    if row["median_error_pct"] > p.most_median_error_pct:
        most = f"{p.most_median_error_pct:g} %"
        yield f"the median error of {row['median_error_pct']:.0f} % is above {most}"
    if abs(row["bias_pct"]) > p.most_bias_pct:
        yield f"the bias of {row['bias_pct']:+.0f} % is beyond {p.most_bias_pct:g} %"


FRAMES_AT_ONCE: Final = 256
"""Frames of some HPAs each that are kept before they become one."""


class FidelityTotals(NamedTuple):
    """A fleet's scores: the controller's totals, and the plants'.

    `pooled` is the skill over all used changes of the fleet's divisible signals, those of HPAs with
    too few of their own included; None without any. HPAs that share a load are not independent, so
    its interval is too narrow.
    """

    hpas: int
    advice: int
    controller: ScoreTotals
    plant_scored: int
    changes: int
    used: int
    pooled: Skill | None


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Both scores of a fleet.

    `hpas`: one row per HPA (FIDELITY_HPAS), with the plant score of the worst of the signals that
    its spec reads. `signals`: one row per HPA and signal (SIGNAL_COLUMNS), `changes` one per judged
    change (CHANGE_COLUMNS), `controller` as in `Score.hpas`. `lenses` are what was estimated of
    each source, if it was asked for.
    """

    hpas: pl.DataFrame
    signals: pl.DataFrame
    changes: pl.DataFrame
    controller: pl.DataFrame
    totals: FidelityTotals
    parameters: FidelityParameters
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]
    lenses: tuple[LensEstimate, ...] = ()


class Scoring:
    """The scores of a plan's HPAs, made as their usage is walked, shard by shard.

    `choices` are those of the plant score and of the advice, `plants` the entries of a plant file:
    what they say of signals is taken as given. The plant score is of usage as pods had it, as the
    plants of simulations are (`fleet.plan.as_used`).

    The rules decide on what the controller saw, plants are fitted on what pods used; where a lens
    lies between the two both are walked. `frames` are the scores and answers of controllers, the
    scores of signals and the judged changes, a frame for each walk; `facts` those of its shards.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        choices: FidelityParameters,
        plants: Sequence[PlantOverride] = (),
        progress: Progress = silent,
    ) -> None:
        """Begin without any score."""
        entries = plan_overrides(plants, plan.chosen, plan.everyone)
        self.stated = {id(c): theirs for c, theirs in zip(plan.chosen, entries, strict=True)}
        self.plan, self.choices, self.progress = plan, choices, progress
        self.used = as_used(plan)
        keys = dict.fromkeys(KEY, pl.String)
        self.frames: dict[str, list[pl.DataFrame]] = {
            "hpas": [score(pl.DataFrame(schema=SCHEMA)).hpas],
            "told": [pl.DataFrame(schema=ANSWER_SCHEMA)],
            "signals": [pl.DataFrame(schema={**keys, **SIGNAL_COLUMNS})],
            "changes": [pl.DataFrame(schema={**keys, **CHANGE_COLUMNS})],
        }
        self.facts: list[ShardFacts] = []

    def usages(self) -> Iterator[Usage]:
        """Yield the observed usage of every HPA, as it was used, and score it."""
        alike = self.used.lenses == self.plan.lenses
        if not alike:
            for _ in self._walked(self.plan, plants=False):
                pass
        yield from self._walked(self.used, controllers=alike)

    def _walked(
        self, plan: ReplayPlan, *, controllers: bool = True, plants: bool = True
    ) -> Iterator[Usage]:
        """Yield usage, and score controllers, plants or both by it.

        A shard is judged in a thread of its own while the next one is walked.
        """
        with ThreadPoolExecutor(1, "judge") as pool:
            judged: Future[None] | None = None
            for k, walk in enumerate(walk_shards(plan)):
                parts = list(self._first_parts(walk.usages)) if plants else []
                if judged is not None:
                    judged.result()
                    self.progress("replaying and judging plants", k / len(plan.shards))
                judged = pool.submit(self._judge, walk if controllers else None, parts)
                yield from walk.usages
            if judged is not None:
                judged.result()
                self.progress("replaying and judging plants", 1.0)

    def _first_parts(self, usages: Sequence[Usage]) -> Iterator[tuple[Usage, Usage, int]]:
        ends = [split_ms(usage, self.choices.split_share) for usage in usages]
        # What grows with the age of pods is fitted on sums over samples, made anew for this.
        stated = (self.stated[id(usage.candidate)] for usage in usages)
        aged = [
            k
            for k, (usage, entries) in enumerate(zip(usages, stated, strict=True))
            if any(has_age(s, signal_statement(entries, n)) for n, s in usage.signals.items())
        ]
        read = first_parts_read(self.used, [usages[k] for k in aged], [ends[k] for k in aged])
        first = dict(zip(aged, read, strict=True))
        for k, usage in enumerate(usages):
            yield usage, first[k] if k in first else first_part(usage, ends[k]), ends[k]

    def _judge(self, walk: Walk | None, parts: Sequence[tuple[Usage, Usage, int]]) -> None:
        """Score a shard's controllers; fit its plants on first parts and judge them on the rest."""
        if walk is not None:
            self.frames["hpas"].append(score(walk.decisions, walk.hpas).hpas)
            self.frames["told"].append(answers(walk))
            self.facts.append(walk.facts)
        for usage, first, at_ms in parts:
            candidate = usage.candidate
            theirs = self.stated[id(candidate)]
            fitted = fit(first, recording_of(self.plan, candidate), theirs)
            scored = score_plant(usage, fitted, theirs, at_ms, self.choices)
            keys = [pl.lit(v).alias(name) for name, v in zip(KEY, candidate.key, strict=True)]
            for name, frame in zip(("signals", "changes"), scored, strict=True):
                self.frames[name].append(frame.select(*keys, pl.all()))

    def part(self) -> dict[str, pl.DataFrame]:
        """Return what the walks came to, for a scoring of more HPAs."""
        return {name: pl.concat(frames) for name, frames in self.frames.items()}

    def add(self, part: Mapping[str, pl.DataFrame], facts: Iterable[ShardFacts]) -> None:
        """Add what the walk over some of the HPAs came to, in the plan's order."""
        for name, frames in self.frames.items():
            frames.append(part[name])
            if len(frames) > FRAMES_AT_ONCE:  # (each takes much more than its rows)
                frames[:] = [pl.concat(frames, rechunk=True)]
        self.facts += facts

    def fidelity(self) -> Fidelity:
        """Return the scores, once all usages were walked."""
        notes, found = join_notes(self.plan, self.facts), self.part()
        controller = found["hpas"].join(
            found["told"], on=list(KEY), how="left", maintain_order="left"
        )
        unanswered = pl.when(pl.col("answer").is_null()).then(pl.lit("unscored"))
        controller = controller.with_columns(
            answer_why=unanswered.otherwise("answer_why"),
            answer=pl.col("answer").fill_null(UNTOLD),
        ).sort(KEY)
        signals, changes = found["signals"], found["changes"]
        hpas = _hpas(controller, signals, self.plan.chosen, self.choices)
        return Fidelity(
            hpas=hpas,
            signals=signals,
            changes=changes,
            controller=controller,
            totals=_totals(hpas, controller, signals, changes),
            parameters=self.choices,
            skipped=notes.skipped,
            warnings=notes.warnings,
            evidence=self.plan.evidence | notes.evidence | self.choices.texts(),
        )


def _hpas(
    controller: pl.DataFrame,
    signals: pl.DataFrame,
    chosen: Sequence[Candidate],
    choices: FidelityParameters,
) -> pl.DataFrame:
    keys = list(KEY)
    relevant: dict[Key, frozenset[str]] = {
        c.key: frozenset(map(signal_name, c.spec.metrics)) for c in chosen
    }
    told = pl.DataFrame(
        list(verdicts(keys, controller, signals, relevant, choices)),
        schema={**dict.fromkeys(keys, pl.String), "plant_signal": pl.String,
                "plant_why_not": pl.String, "advice": pl.Boolean, "why_not": pl.String},
    )  # fmt: skip
    left, right = (
        frame.select(*keys, pl.exclude(keys).name.prefix(f"{whose}_"))
        for whose, frame in (("controller", controller), ("plant", signals))
    )
    joined = left.join(told, on=keys, how="left", maintain_order="left").join(
        right, on=[*keys, "plant_signal"], how="left", maintain_order="left"
    )
    return joined.select(FIDELITY_HPAS.names)


def _totals(
    hpas: pl.DataFrame, controller: pl.DataFrame, signals: pl.DataFrame, changes: pl.DataFrame
) -> FidelityTotals:
    divisible = signals.filter(pl.col("kind") == DIVISIBLE).select(*KEY, "signal")
    used = changes.filter(pl.col("counts") & pl.col("error").is_not_null())
    pool = used.join(divisible, on=[*KEY, "signal"], how="semi", maintain_order="left")
    own, other = (np.abs(pool[name].to_numpy()) for name in ("error", "persistence_error"))
    return FidelityTotals(
        hpas=hpas.height,
        advice=int(hpas["advice"].sum()),
        controller=total(controller),
        plant_scored=int((hpas["plant_skill"].is_not_null()).sum()),
        changes=int(signals["changes"].sum()),
        used=int(signals["used"].sum()),
        pooled=skill_of(own, other, "fleet") if pool.height else None,
    )
