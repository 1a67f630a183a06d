"""Rules of doubts: one table over what is known of an HPA, a unit or a setting.

Each doubt says which confidence it leaves at most, why, and what would raise it; the lowest counts.
How often answers of each confidence are right is measured (`benchmarks.recommend_truth`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpabatch.engine.advise.objective import SATURATED
from hpabatch.engine.advise.request import CONFIDENCES, HIGH, LOW, MEDIUM
from hpabatch.engine.advise.specs import base_taken
from hpabatch.engine.advise.unit import (
    MOST_OUTSIDE,
    OUTSIDE_SHARE,
)
from hpabatch.engine.fidelity.answer import UNTOLD
from hpabatch.engine.fit.pods import STARTS, TOTALS
from hpabatch.engine.fit.workload import FITTED
from hpabatch.engine.simulate.result import CENSORED_PCT


class Doubt(NamedTuple):
    """Something that speaks against relying on an answer.

    Attributes:
        most: the highest confidence that it leaves.
        why: what it is, in a sentence of under 100 characters.
        remedy: what would make the answer surer; "": nothing that a user can do.
        detail: names and words that the sentence leaves out; "": none.
    """

    most: str
    why: str
    remedy: str = ""
    detail: str = ""

    @property
    def long(self) -> str:
        """The sentence with its detail."""
        return f"{self.why}: {self.detail}" if self.detail else self.why


def confidence_of(doubts: Iterable[Doubt]) -> str:
    """Return the confidence that all doubts leave; without any it is high."""
    return max((doubt.most for doubt in doubts), key=CONFIDENCES.index, default=HIGH)


def weighed(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Return each doubt once, those that lower the confidence most first."""
    return tuple(sorted(dict.fromkeys(doubts), key=lambda doubt: -CONFIDENCES.index(doubt.most)))


def remedies(doubts: Sequence[Doubt]) -> list[str]:
    """Return what would raise the confidence: of those doubts alone that hold it where it is."""
    lowest = confidence_of(doubts)
    return list(dict.fromkeys(d.remedy for d in doubts if d.most == lowest and d.remedy))


def accepted(accept: str) -> tuple[str, ...]:
    """Return the confidences from the highest down to one."""
    return CONFIDENCES[: CONFIDENCES.index(accept) + 1]


SATURATION: Final = frozenset({SATURATED, "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given", FITTED})
MOST_BASE_SHARE: Final = 1 / 3
"""Of a pod's usage, and so of a saving by fewer pods: a larger fitted base leaves medium."""
USUAL_SKILL: Final = 0.6
"""Of 26 simulated workloads that follow the model, 25 had a higher skill."""
MOST_RESCALES_OFF: Final = 0.5
"""Of the recorded rescales: a model that is off by more leaves medium."""
MOST_RESCALES_TIMES: Final = 2.0
"""Times the recorded rescales: a model with more leaves low, as one with fewer than half does. A
controller that decides once a minute rescales a flapping HPA a third as often as one that decides
on each sample four times."""
FEWEST_RESCALES: Final = 20.0
"""Recorded ones below which being off says little."""
MOST_CENSORED_PCT: Final = 10.0
"""Above this share of work that is only a lower bound confidence is low."""
_MOST_USED_BY_KEEP: Final = 0.5
MOST_USED_BY_CHANGE: Final = 0.2
"""Share of an SLO's limit above which a setting's use of it in the worst stretch is a doubt."""
_STEADY: Final = 1.2
"""Times the mean that a worst stretch may be, for a measure that is much the same in all."""
_MOST_USED_STEADILY: Final = 0.5
"""Share of an SLO's limit that even such a measure of a change may use."""
NEARLY: Final = 0.5
"""Share of the least saving that makes a setting worth a doubt in "keep"."""

STATED_BASE: Final = "its base stated in a plant file (`hpabatch fit HISTORY --init-plant FILE`)"
_MORE_CHANGES: Final = "more changes of size recorded"
_MORE_WEEKS: Final = "more weeks of history"
_SMALL_STEPS: Final = "a time with a higher target, in small steps"
_CEILINGS: Final = "limits of its pods recorded, or a ceiling stated in a plant file (--plant)"
_UNKNOWN: Final = "whether these are the controller's settings is not known"
NO_BASE: Final = "base: what a pod uses without work cannot be told, and is taken as 0"
_RARE: Final = "usage beyond 99 % of the recorded minutes"
HELD_OPEN: Final = (
    "at maxReplicas its metrics asked for more, and how much its pods can do is not known"
)
WHAT_PODS_CAN: Final = (
    "limits of its pods recorded (is one equal to the request that they reach?), a ceiling stated "
    "in a plant file (--plant), or a sweep of a larger maxReplicas"
)
_ASSUMED: Final = (
    "ceiling assumed: no limit of its pods is known, so saturation is judged over a range of "
    "ceilings"
)

Facts = Mapping[str, Any]
"""What a rule reads, by name."""


class Rule(NamedTuple):
    """A doubt that facts give reason for.

    Attributes:
        left: the highest confidence that it leaves by some facts; nothing: it does not apply.
        why: as in `Doubt`, with facts in braces; `remedy` and `detail` likewise.
    """

    left: Callable[[Facts], object]
    why: str
    remedy: str = ""
    detail: str = ""


def doubts_by(rules: Iterable[Rule], facts: Facts) -> Iterator[Doubt]:
    """Yield the doubts of the rules that apply to some facts."""
    for left, *texts in rules:
        if most := left(facts):
            yield Doubt(str(most), *(text.format(**facts) for text in texts))


def below(value: float | None, least: float) -> bool:
    """Say whether a value is known and below a bound."""
    return value is not None and value < least


def above(value: float | None, most: float) -> bool:
    """Say whether a value is known and above a bound."""
    return value is not None and value > most


SCORE_RULES: Final = (
    Rule(
        lambda f: f["controller_answer"] is None and f["scored"] and LOW,
        f"the recording gives no fidelity score: {_UNKNOWN}",
        "a history with ticks and samples of this HPA (`hpabatch fidelity` says what it lacks)",
    ),
    Rule(
        lambda f: f["controller_answer"] is None and not f["scored"] and LOW,
        f"fidelity was not measured: {_UNKNOWN}",
        "a sweep without --no-fidelity",
    ),
    Rule(
        lambda f: f["controller_answer"] == UNTOLD and MEDIUM,
        "whether the stated settings are the controller's cannot be told from this recording",
        "samples at a shorter interval, or a longer history with more rescales "
        "(`hpabatch fidelity` says which settings look alike)",
    ),
    Rule(  # (what that means for an answer hangs on the setting: see CHANGE_RULES, KEEP_RULES)
        lambda f: f["problems"] and (MEDIUM if base_taken(f["problems"]) else LOW),
        "{problem}",
        f"{STATED_BASE}, or {_MORE_CHANGES}",
        "{problem_detail}",
    ),
    Rule(
        lambda f: f["plant_unscored"] is not None and MEDIUM,
        "model: not checked against the recording",
        _MORE_CHANGES,
        "{plant_unscored}",
    ),
    Rule(
        lambda f: f["plant_unscored"] is None and f["plant_why_not"] is not None and MEDIUM,
        "model: it does not predict the recorded usage well",
        STATED_BASE,
        "{plant_why_not}",
    ),
    Rule(
        lambda f: (
            (f["plant_unscored"] or f["plant_why_not"]) is None
            and below(f["plant_skill"], USUAL_SKILL)
            and MEDIUM
        ),
        f"model: skill {{plant_skill:.2f}} (1: perfect); a right one has {USUAL_SKILL:g} or more",
        STATED_BASE,
    ),
    Rule(
        lambda f: above(f["base_share"], MOST_BASE_SHARE) and MEDIUM,
        "base: {base_share:.0%} of a pod's usage is a fitted base; the same share of a saving by "
        "fewer pods rests on it",
        STATED_BASE,
    ),
    # What is assumed of when pods are ready matters where changes of size show that starting pods
    # use something of their own, or where only totals are recorded, which cannot show it.
    Rule(
        lambda f: f["starts"] == STARTS[TOTALS] and MEDIUM,
        "pods: only their total is recorded, so what they use while they start counts as work",
        "rows per pod",
    ),
    Rule(
        lambda f: (
            f["starts"] not in (None, STARTS[TOTALS])
            and (HIGH if f["starting_share"] is None else MEDIUM)
        ),
        "{starts}; {starting}",
        "when pods are ready, recorded (`columns.ready` or `lives.ready_after` of a map)",
    ),
)
"""By the scores of an HPA: facts are those of `_score_facts`."""

HPA_RULES: Final = (
    Rule(
        lambda f: not f["slos"] and LOW,
        "nothing limits what least {minimize} does to users: there is no --slo",
        "a limit that must hold (--slo 'saturated_minutes<10/week')",
    ),
    *SCORE_RULES,
    Rule(
        lambda f: f["days"] < f["asked"] and (LOW if f["days"] < f["asked"] / 2 else MEDIUM),
        "history: {days:.1f} days are fewer than {asked:g}",
        "{asked:g} days of history",
    ),
    Rule(
        lambda f: (
            above(f["censored_pct"], CENSORED_PCT)
            and (LOW if f["censored_pct"] > MOST_CENSORED_PCT and not f["lifts"] else MEDIUM)
        ),
        "demand: {censored_pct:.0f}% of its work is only a lower bound, as pods were at their "
        "ceiling",
        "a history in which pods are at their limit less of the time",
    ),
    Rule(
        lambda f: f.get("ceiling") == FITTED and MEDIUM,
        "ceiling: no limit of its pods is recorded; usage is cut off as if there were one",
        _CEILINGS,
    ),
)
"""By what is known of an HPA, whatever setting the answer is."""

UNIT_RULES: Final = (
    Rule(
        lambda f: (
            f.get("seen", 0) >= FEWEST_RESCALES
            and abs(f["ran"] - f["seen"]) > MOST_RESCALES_OFF * f["seen"]
            and (MEDIUM if f["seen"] < f["ran"] <= MOST_RESCALES_TIMES * f["seen"] else LOW)
        ),
        "model: {ran:,.0f} rescales under today's setting, {seen:,.0f} recorded",
        "the controller's sync period, where it is not the assumed one (--sync-period), or sizes "
        "recorded at every sync",
        "{name}",
    ),
    Rule(
        lambda f: f.get("disagree") and MEDIUM,
        "model: {slo} today: recorded {recorded}, modelled {modelled}; the worse counts",
        "a look at what its pods do at their ceiling (`hpabatch simulate`)",
        "{name}",
    ),
    Rule(
        lambda f: f.get("lenses") and MEDIUM,
        "the controller saw samples through a lens (lag, scale), not as recorded",
        "a recording of what the metrics API answers (`hpabatch record`)",
        "{lenses}",
    ),
    Rule(
        lambda f: f.get("scaled") and MEDIUM,
        "usage or every target is off by one factor: compare the targets with the cluster's",
        "the scale stated in a lens file (--lens)",
        "{scaled}",
    ),
    Rule(
        lambda f: f.get("ratios") and LOW,
        "targets or samples are off by a factor; advice is relative to today's targets",
        "the scale stated in a lens file (--lens)",
        "{ratios}",
    ),
)
"""By recording, model and lenses of a unit: facts are each of `_unit_facts`, in their order."""

CHANGE_RULES: Final = (
    Rule(
        lambda f: f["more_without_base"] and LOW,
        "its base is not known; if pods have one, those that it adds do less than modelled",
        STATED_BASE,
    ),
    Rule(lambda f: f["nears_assumed"] and MEDIUM, _ASSUMED, _CEILINGS),
    Rule(  # (no limit is below a request, and a node keeps that free)
        lambda f: f["is_assumed"] and not f["nears_assumed"] and HIGH,
        "no limit of its pods is known, but it hardly reaches the lowest assumed ceiling",
        _CEILINGS,
    ),
    Rule(  # (up to a ceiling the model says what pods do: it was right where it was checked)
        lambda f: (
            f["outside"] > (OUTSIDE_SHARE if f["is_open"] else MOST_OUTSIDE)
            and (MEDIUM if f["is_open"] and (f["nears_assumed"] or not f["is_assumed"]) else HIGH)
        ),
        f"for {{outside:.0%}} of the time it asks pods for {_RARE}",
        _SMALL_STEPS,
    ),
    Rule(  # (a few weeks do not show the worst one)
        lambda f: (
            f["worst"] > max(MOST_USED_BY_CHANGE, min(_STEADY * f["mean"], _MOST_USED_STEADILY))
            and MEDIUM
        ),
        "it uses {worst:.0%} of the SLO in the worst {block} and {mean:.0%} on average: a worse "
        "one may break it",
        "a wider SLO, or a larger --margin",
    ),
    Rule(
        lambda f: f["resampled"] is None and MEDIUM,
        "one training block says nothing about how much weeks differ",
        "three weeks of history or more: two to choose on, one to judge",
    ),
    Rule(
        lambda f: not f["changed"] and MEDIUM,
        "no choice made on earlier blocks was a change that a later one could confirm",
        _MORE_WEEKS,
    ),
    Rule(
        lambda f: f["missed"] and (LOW if 2 * f["missed"] > f["changed"] else MEDIUM),
        "in {missed} of {changed} blocks a choice made on earlier ones was no better than today's",
        _MORE_WEEKS,
    ),
    Rule(
        lambda f: f["today_holds"] and below(f["saved"], f["least"]) and MEDIUM,
        "on the judged blocks it saves {saved:.1f}%, less than {least:g}%",
        _MORE_WEEKS,
    ),
)
"""By the judging of a change: facts are those of `_change_facts`."""

KEEP_RULES: Final = (
    Rule(
        lambda f: f["worst"] > max(_MOST_USED_BY_KEEP, _STEADY * f["mean"]) and LOW,
        "today's setting uses {worst:.0%} of the SLO in the worst {block} and {mean:.0%} on "
        "average: a worse one may break it",
        "a wider SLO",
    ),
    Rule(lambda f: f["is_assumed"] and MEDIUM, _ASSUMED, _CEILINGS),
    Rule(lambda f: f["held_open"] and LOW, HELD_OPEN, WHAT_PODS_CAN),
    Rule(  # (of 23 such answers on fleets whose plant is known all were right)
        lambda f: f["baseless"] and MEDIUM,
        "its base is not known, and with one settings with fewer pods may save more",
        STATED_BASE,
    ),
    Rule(  # (with two metrics the larger proposal counts: the one that is kept may be what binds)
        lambda f: f["kept"] and LOW,
        "other targets of {kept} were not tried: one may be better",
        "a grid with that target, too (--grid 'target.NAME=...')",
    ),
    Rule(
        lambda f: f["rejected"] and LOW,
        "another setting may be better than today's",
        _MORE_WEEKS,
    ),
)
PASSED_RULES: Final = (
    Rule(
        lambda f: f.get("easy") and MEDIUM,
        "another setting saves enough and only leaves less than {margin:.0%} of the SLO free",
        "a wider SLO, or a smaller --margin",
        "{easy}",
    ),
    Rule(
        lambda f: f.get("nearly") and LOW,
        "another setting holds the SLO and saves {saved:.1f}%, just less than {least:g}%",
        "a smaller --least-saving",
        "{nearly}",
    ),
    Rule(
        lambda f: f.get("outside") and LOW,
        f"another setting may save enough: it asks pods for {_RARE}",
        _SMALL_STEPS,
        "{outside}",
    ),
    Rule(
        lambda f: f.get("unlimited") and LOW,
        "another setting may save enough: only assumed ceilings speak against it",
        _CEILINGS,
        "{unlimited}",
    ),
)
"""By the settings that "keep" passes over, against which little is certain."""
