"""Amounts of a fleet: money, cores and pods today and with all recommended changes.

The table of `advise` and the page sum up the same numbers, those of `engine.advise.frames.amounts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from hpabatch.engine.advise.answer import NONE
from hpabatch.engine.advise.frames import AMOUNTS
from hpabatch.engine.capacity.sums import MONTH_HOURS
from hpabatch.model.printable import counted
from hpabatch.report.numbers import number

MODEL_DIFFERS: Final = 0.1
"""Share of what is recorded from which on the model of today's settings is named beside it."""

Own = Mapping[str, Mapping[str, float]]
"""By measure what an HPA takes in an hour."""


class Amount(NamedTuple):
    """What the HPAs take of a measure on average; money in a month.

    Attributes:
        measure: cost, core_hours or pod_hours.
        now: as recorded where that is known, else by the model.
        modelled: by the model of today's settings.
        low, high: with all changes.
        unjudged: the part of `now` without advice.
        known, asked: the HPAs in it, and all that were asked for.
    """

    measure: str
    now: float
    modelled: float
    low: float
    high: float
    unjudged: float
    known: int
    asked: int

    @property
    def change(self) -> str:
        """What all changes come to: `-12.7% to -12.4%`."""
        ends = [f"{end / self.now - 1:+.1%}" for end in (self.low, self.high) if self.now]
        return " to ".join(dict.fromkeys(ends)) or "+0.0%"

    @property
    def covers(self) -> str:
        """Of which HPAs it is, and what the model says where that is another amount."""
        text = f"{self.known:,} of {counted(self.asked, 'HPA')}"
        if abs(self.modelled - self.now) > MODEL_DIFFERS * self.now:
            text += f"; as recorded, by the model of today's settings {number(self.modelled)}"
        return text


def fleet_amounts(answers: Collection[tuple[str, Own]], asked: int) -> Iterator[Amount]:
    """Yield each measure that is known of any HPA; `answers`: what is advised on each."""
    for measure in AMOUNTS:
        known = [(answer, own[measure]) for answer, own in answers if measure in own]
        times = MONTH_HOURS if measure == "cost" else 1.0
        now, modelled, low, high = (
            times * sum(own[part] for _, own in known)
            for part in ("now", "modelled", "low", "high")
        )
        if known and now:
            unjudged = times * sum(own["now"] for answer, own in known if answer == NONE)
            yield Amount(measure, now, modelled, low, high, unjudged, len(known), asked)
