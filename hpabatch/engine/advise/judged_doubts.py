"""Doubts about an answer that the judging of its settings gives reason for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from hpabatch.engine.advise.bounds import has_no_more_pods
from hpabatch.engine.advise.confidence import LOW, MEDIUM, Doubt
from hpabatch.engine.advise.facts import Facts, name_of
from hpabatch.engine.advise.judge import TODAY, Judged, choose
from hpabatch.engine.advise.objective import SATURATED
from hpabatch.engine.advise.standing import saving_pct
from hpabatch.engine.advise.unit import MOST_OUTSIDE, OUTSIDE_SHARE

STATED_BASE: Final = "its base stated in a plant file (`hpabatch fit HISTORY --init-plant FILE`)"
RARE_WORDS: Final = "beyond 99 % of the recorded minutes"
_MOST_USED_BY_KEEP: Final = 0.5
_MOST_USED_BY_CHANGE: Final = 0.2
"""Share of an SLO's limit above which a setting's use of it in the worst stretch is a doubt."""
_STEADY: Final = 1.2
"""Times the mean that a worst stretch may be, for a measure that is much the same in all."""
_NEARLY: Final = 0.5
"""Share of the least saving that makes a setting worth a doubt in "keep"."""


def doubts_of_change(found: Judged, facts: Facts) -> tuple[Doubt, ...]:
    """Return what speaks against relying on the chosen change."""
    return (
        *unreliable_runs(found, facts),
        *_modelled_worse(found, facts),
        *_outside(found, facts),
        *tight_slo(found, found.choice or TODAY, facts),
        *_unsteady(found, facts),
        *_little(found, facts),
    )


def passed_over(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield doubts in "keep": settings that save enough, against which little is certain."""
    rules, blocks = facts.options.rules, slice(0, found.split)
    easy = replace(rules, margin=0.0)
    best = choose(found.unit, found.trained, easy, found.allowed, blocks)
    less = replace(rules, least_saving_pct=rules.least_saving_pct * _NEARLY)
    nearly = choose(found.unit, found.trained, less, found.allowed, blocks)
    if best not in (None, TODAY):
        yield Doubt(
            MEDIUM,
            f"another setting saves enough and only leaves less than {rules.margin:.0%} of the SLO "
            "free",
            "a wider SLO, or a smaller --margin",
            name_of(found, best, facts),
        )
    elif nearly not in (None, TODAY):
        objective = found.trained.objective
        saved = saving_pct(float(objective[nearly]), float(objective[TODAY])) or 0.0
        yield Doubt(
            LOW,
            f"another setting holds the SLO and saves {saved:.1f}%, just less than "
            f"{rules.least_saving_pct:g}%",
            "a smaller --least-saving",
            name_of(found, nearly, facts),
        )
    best = choose(found.unit, found.trained, easy, found.possible, blocks)
    if best not in (None, TODAY) and not found.allowed[best]:
        yield Doubt(
            LOW,
            f"another setting may save enough: it asks pods for usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
            name_of(found, best, facts),
        )
    # (every other limit still counts, and so does one of saturation where a ceiling is known)
    unlimited = found.trained.without(SATURATED, found.unit.is_open)
    best = choose(found.unit, unlimited, easy, found.possible, blocks)
    if best not in (None, TODAY) and found.unit.is_open.any():
        yield Doubt(
            LOW,
            "another setting may save enough: only assumed ceilings speak against it",
            "limits of its pods recorded, or a ceiling stated in a plant file (--plant)",
            name_of(found, best, facts),
        )


def unreliable_runs(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield the runs of today's setting and of the choice that cannot be relied on."""
    for key in found.unit.members:
        for place in dict.fromkeys((TODAY, found.considered)):
            why = facts.unusable.get((key, int(found.unit.settings[place])))
            if why:
                whose = f"{key[1]}/{key[2]} under {name_of(found, place, facts)}"
                yield Doubt(LOW, "a run cannot be relied on", detail=f"{whose}: {why}")


def _modelled_worse(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield that more pods may do less than is modelled: what each uses by itself is taken as 0."""
    setting_id = int(found.unit.settings[found.considered])
    for key in found.unit.members:
        specs = facts.specs.today(key), facts.specs.under(key, setting_id)
        if key in facts.baseless and not all(
            has_no_more_pods(*specs, flags) for flags in facts.specs.flags
        ):
            yield Doubt(
                LOW,
                "its base is not known, and with one the pods that it adds do less than modelled",
                STATED_BASE,
            )


def _outside(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield how much of the time the choice asks pods for what they were never seen to do."""
    share = float(found.unit.outside_share(slice(None))[found.considered])
    # (up to a known ceiling the model says what pods do: that was right where it was checked)
    if share > (OUTSIDE_SHARE if found.unit.is_open.any() else MOST_OUTSIDE):
        yield Doubt(
            MEDIUM,
            f"for {share:.0%} of the time it asks pods for usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
        )


def tight_slo(found: Judged, place: int, facts: Facts) -> Iterator[Doubt]:
    """Yield that much of the SLO is used in the worst stretch, and others were not like it.

    A few weeks do not show the worst one. A change leaves medium then, "keep" low.
    """
    worst = max(float(s.pressure("worst")[place]) for s in (found.trained, found.judged))
    parts = (found.split, found.unit.blocks - found.split)
    mean = np.average(
        [float(s.pressure("mean")[place]) for s in (found.trained, found.judged)], weights=parts
    )
    keeps = place == TODAY
    who = name_of(found, TODAY, facts) if keeps else "it"
    if worst > (_MOST_USED_BY_KEEP if keeps else _MOST_USED_BY_CHANGE) and worst > _STEADY * mean:
        yield Doubt(
            LOW if keeps else MEDIUM,
            f"{who} uses {worst:.0%} of the SLO in the worst "
            f"{facts.block_unit} and {mean:.0%} on average: a worse one may break it",
            "a wider SLO" if keeps else "a wider SLO, or a larger --margin",
        )


def _unsteady(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield what the resamples and the walk-forward say against a change."""
    if found.resampled is None:
        why = "one training block says nothing about how much weeks differ"
        yield Doubt(MEDIUM, why, "more weeks of history")
    changed = [fold for fold in found.folds if fold.choice not in (None, TODAY)]
    if not changed:
        why = "no choice made on earlier blocks was a change that a later one could confirm"
        yield Doubt(MEDIUM, why, "more weeks of history")
    missed = [fold for fold in changed if not fold.better]
    if missed:
        yield Doubt(
            LOW if 2 * len(missed) > len(changed) else MEDIUM,
            f"in {len(missed)} of {len(changed)} blocks a choice made before was no better there",
            "more weeks of history",
        )


def _little(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield that a change saves less on the judged blocks than is worth one."""
    if not found.judged.holds(facts.options.rules.robust)[TODAY]:
        return
    objective, least = found.judged.objective, facts.options.rules.least_saving_pct
    saved = saving_pct(float(objective[found.considered]), float(objective[TODAY]))
    if saved is not None and saved < least:
        yield Doubt(
            MEDIUM,
            f"on the judged blocks it saves {saved:.1f}%, less than {least:g}%",
            "more weeks of history",
        )
