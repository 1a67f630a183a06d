"""Answer for a unit in words: change, keep or no advice, with what speaks against relying on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.advise.doubts import doubts_of_change, doubts_of_keep, held_open, passed_over
from hpabatch.engine.advise.judge import (
    TODAY,
    Judged,
    beats,
    choose,
    only_modelled,
    saving_pct,
    tightest,
)
from hpabatch.engine.advise.objective import SATURATED, saving_told
from hpabatch.engine.advise.request import MEDIUM
from hpabatch.engine.advise.rules import HELD_OPEN, WHAT_PODS_CAN, Doubt
from hpabatch.engine.advise.specs import Inputs, labels_of, name_of
from hpabatch.engine.advise.unit import Key, Mask
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.inputs.lenses import Lens, lenses_of_spec, ratio_words
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.printable import counted
from hpabatch.model.settings.fields import FIELDS, SPEC

CHANGE: Final = "change"
KEEP: Final = "keep"
NONE: Final = "no advice"
EDGE: Final = "at the edge of the grid"
_PARTS: Final = tuple(dict.fromkeys(f.name.split(".")[0] for f in FIELDS if f.where == SPEC))
"""The parts of a spec that a setting may change."""


class Answer(NamedTuple):
    """What is advised for a unit: its reasons, and the doubts of the judging."""

    answer: str
    reasons: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()


def answer(found: Judged, inputs: Inputs) -> Answer:
    """Return the answer for a unit."""
    lacking = tuple(_lacking(found, inputs))
    if lacking:
        return Answer(NONE, lacking)
    if found.choice is None:
        return Answer(NONE, (_none_holds(found, inputs),))
    if found.choice == TODAY:
        return _kept(found, inputs, _why_keep(found, inputs))
    if held_open(found, found.choice, inputs):
        return Answer(NONE, (f"{HELD_OPEN}; what would tell: {WHAT_PODS_CAN}",))
    against, rules = _against(found, inputs), inputs.options.rules
    if against:
        return _kept(found, inputs, against)
    sure = found.resampled
    if sure is not None and sure.better_share < rules.least_better:
        return _kept(
            found,
            inputs,
            f"{name_of(found, found.choice, inputs)} is better than today's in only "
            f"{sure.better_share:.0%} of the resamples of the training blocks (less than "
            f"{rules.least_better:.0%})",
        )
    return Answer(CHANGE, (_why_change(found, inputs),), tuple(doubts_of_change(found, inputs)))


def _kept(found: Judged, inputs: Inputs, why: str) -> Answer:
    """Return "keep" where today's setting holds the SLO all along, else no advice."""
    robust, labels = inputs.options.rules.robust, labels_of(found.unit)
    for stands, where in ((found.trained, "training"), (found.judged, "judged")):
        if not stands.holds(robust)[TODAY]:
            worst = tightest(stands, TODAY, labels, robust)
            broken = f"today's setting breaks the SLO on the {where} blocks: {worst}"
            return Answer(NONE, (why, broken) if found.choice != TODAY else (broken,))
    reasons = [f"nothing better found: {why}{_unjudged(found, inputs)}"]
    doubts = [*doubts_of_keep(found, inputs)]
    if found.choice == TODAY:
        # (held at a ceiling that is not known, others hold the SLO only beside today's peaks)
        passed = [] if held_open(found, TODAY, inputs) else list(passed_over(found, inputs))
        doubts += passed
        reasons += [f"but {doubt.long}" for doubt in passed[:1]]
    # (one crowded week refutes it: against known plants "keep" was right less often than a change)
    doubts.append(Doubt(MEDIUM, "that nothing saves enough rests on the runs of all settings"))
    return Answer(KEEP, tuple(reasons), tuple(doubts))


def _lacking(found: Judged, inputs: Inputs) -> Iterator[str]:
    names = inputs.options.goal.minimize
    if np.isnan(found.trained.objective[TODAY]) or np.isnan(found.judged.objective[TODAY]):
        yield f"{names} is not known"
    for measure in found.trained.unknown():
        yield f"{measure} is not known of every HPA here, so the SLO cannot be checked"


def _none_holds(found: Judged, inputs: Inputs) -> str:
    rules = inputs.options.rules
    worst = tightest(found.trained, found.closest, labels_of(found.unit), rules.robust)
    margin = f" with {rules.margin:.0%} of it left free" if rules.margin else ""
    return (
        f"no setting within the bounds holds the SLO on the training blocks{margin}; the closest "
        f"is {name_of(found, found.closest, inputs)}: {worst}{_unjudged(found, inputs)}"
    )


def _against(found: Judged, inputs: Inputs) -> str:
    """Return what the judged blocks say against the choice; "": nothing."""
    choice, robust = found.choice, inputs.options.rules.robust
    assert choice is not None
    name = name_of(found, choice, inputs)
    held = found.judged.holds(robust)
    if not held[choice]:
        worst = tightest(found.judged, choice, labels_of(found.unit), robust)
        told = f"{name}, chosen on the training blocks, breaks the SLO on the judged ones: {worst}"
        asked = {slo.measure for slo in inputs.options.goal.slos}
        if SATURATED in asked and found.unit.is_open.any():
            told += "; without a known ceiling what today's setting does counts as good enough"
        return told
    dearer = found.trained.objective[choice] > found.trained.objective[TODAY]
    if dearer and not found.trained.holds(robust)[TODAY]:
        parts = (slice(0, found.split), slice(found.split, None))
        broken = only_modelled(found.unit, inputs.options.goal, parts, inputs.block_unit, robust)
        if broken:
            return (
                f"{name} costs more, and today's setting breaks {' and '.join(broken)} by the "
                "model alone: by the recording it holds"
            )
    value, today = float(found.judged.objective[choice]), float(found.judged.objective[TODAY])
    if beats(bool(held[choice]), value, bool(held[TODAY]), today):
        return ""
    goal = inputs.options.goal.minimize
    before = ", and today's, which broke the SLO on the training blocks, holds it there"
    before = "" if found.trained.holds(robust)[TODAY] else before
    return (
        f"{name} is not better than today's on the judged blocks: {goal} {value:,.4g} "
        f"instead of {today:,.4g}{before}"
    )


def _why_keep(found: Judged, inputs: Inputs) -> str:
    least, others = inputs.options.rules.least_saving_pct, int(found.allowed[1:].sum())
    if not others:
        return "no other setting of the grid is a candidate"
    which = f"none of {others} other candidates holds the SLO and saves"
    if others == 1:
        which = "the only other candidate does not hold the SLO and save"
    return f"{which} {least:g}% of {inputs.options.goal.minimize} or more on the training blocks"


def _unjudged(found: Judged, inputs: Inputs) -> str:
    """Return which fields no setting changes, and how many settings were no candidates."""
    swept = {name for values in inputs.specs.values.values() for name in values}
    covered = {part for name in swept for part in name.split(".")}
    left = [name for name in _PARTS if name not in covered]
    fields = " or ".join(filter(None, [", ".join(left[:-1]), *left[-1:]]))
    parts = [f"settings that differ in {fields}"] if left else []
    if kept := inputs.specs.kept_targets(found.unit):
        parts.append(f"other targets of {', '.join(kept)}")
    if refused := int((~found.allowed).sum()):
        are = "is no candidate" if refused == 1 else "are no candidates"
        parts.append(f"{counted(refused, 'setting')} that {are}")
    return f"; not judged: {', and '.join(parts)}" if parts else ""


def _why_change(found: Judged, inputs: Inputs) -> str:
    choice, rules = found.choice, inputs.options.rules
    assert choice is not None
    goal = inputs.options.goal.minimize
    saved = saving_pct(float(found.judged.objective[choice]), float(found.judged.objective[TODAY]))
    text = "it holds the SLO" if inputs.options.goal.slos else "it does better"
    broken = [s for s in (found.judged, found.trained) if not s.holds(rules.robust)[TODAY]]
    if broken:
        worst = tightest(broken[0], TODAY, labels_of(found.unit), rules.robust)
        text += f", which today's breaks ({worst}),"
    if saved is None:
        return text
    much = saving_told([saved], goal, is_lower_bound=found.is_held_at_max)
    text += f" on blocks it was not chosen on, with {much}"
    # A pod's base goes with it: of a saving by fewer pods that part rests on the fit.
    base = max(inputs.base_shares[key] for key in found.unit.members)
    least = saved * (1 - min(base, 1.0))
    return f"{text} ({least:.1f}% without the fitted base)" if base > 0 and saved > 0 else text


def notes(found: Judged, why_not: Sequence[str], raised: Mask, inputs: Inputs) -> Iterator[str]:
    """Yield what the grid leaves open: a choice at its edge, and a better one that is refused.

    That is the setting that would have been chosen if every setting were a candidate, but for
    those that raise a maxReplicas that nothing asks for (`raised`).
    """
    rules = inputs.options.rules
    setting = TODAY if found.choice is None else int(found.unit.settings[found.choice])
    if edges := inputs.edges[inputs.specs.names[setting]]:
        fields = " and ".join(edge.partition("=")[0] for edge in edges)
        yield f"{fields} {EDGE}: a wider one may have a better setting"
    best = choose(found.unit, found.trained, rules, ~raised, slice(0, found.split))
    if best is None or best == found.choice or not why_not[best]:
        return
    value = float(found.trained.objective[best])
    saved = saving_pct(value, float(found.trained.objective[TODAY]))
    much = "" if saved is None else f" ({saved:.1f}% less than today's on the training blocks)"
    yield f"compared only: {name_of(found, best, inputs)}{much}: {why_not[best]}"


def relative_notes(key: Key, today: HPASpec, result: SweepResult) -> tuple[str, ...]:
    """Return which of an HPA's targets its advice is relative to: their scale is not known."""
    ratios = [Lens(**found) for found in result.parameters.get("lens_ratios", ())]
    return tuple(
        "relative to today's target, as the recording cannot tell scaled samples from other "
        f"targets: {ratio_words(lens)}"
        for lens in lenses_of_spec(ratios, key[0], today)
    )
