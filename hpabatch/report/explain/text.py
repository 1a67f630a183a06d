"""The lines of an explanation, and how numbers and times stand in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hpabatch.model.quantity import Quantity
from hpabatch.model.times import show_instant

SHOWN_PODS: Final = 6
SHOWN_VALUES: Final = 8
SHOWN_RUNS: Final = 6

HORIZONTAL: Final = "horizontal.go"
CALCULATOR: Final = "replica_calculator.go"
RATIOS: Final = "metrics/utilization.go"


class Step(NamedTuple):
    """One line: which step of the rules, what it came to, and the upstream function it follows.

    `metric` is the number of the metric that it belongs to, None where it belongs to none; further
    lines of a step have its name too.
    """

    step: str
    text: str
    upstream: str = ""
    metric: int | None = None


def number_text(value: float) -> str:
    """Return a ratio, shortened: `1.66667`; what Go prints for what is no number."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.6g}"


def number_texts(*values: float) -> list[str]:
    """Return ratios that are compared: unequal ones never look equal."""
    texts = [number_text(value) for value in values]
    pairs = set(zip(values, texts, strict=True))
    unequal = len({text for _, text in pairs}) < len(pairs) and not any(map(math.isnan, values))
    return [repr(float(value)) for value in values] if unequal else texts


def amount_text(milli: int, is_memory: bool = False) -> str:
    """Return a quantity as a status shows it: `250m`, `90Mi`."""
    return Quantity.from_milli(milli, binary=is_memory).canonical()


def count_text(count: int, what: str) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def clock_text(instant_ms: int, sync_ms: int) -> str:
    """Return a time, without its date where that is the sync's."""
    text, sync = show_instant(instant_ms), show_instant(sync_ms)
    day = len("2026-10-07T")
    return text[day:] if text[:day] == sync[:day] else text


def list_text(items: Sequence[str], most: int) -> str:
    """Return items with commas, the first ones and how many more there are."""
    shown = ", ".join(items[:most])
    more = len(items) - most
    return f"{shown} + {more} more" if more > 0 else shown


def run_texts(values: Iterable[tuple[int, int]], sync_ms: int) -> list[str]:
    """Return (value, time) pairs as runs of equal values: `3 (14:00:00Z to 14:01:45Z)`."""
    runs: list[tuple[int, int, int]] = []
    for value, ms in values:
        if runs and runs[-1][0] == value:
            runs[-1] = value, runs[-1][1], ms
        else:
            runs.append((value, ms, ms))
    texts = []
    for value, first, last in runs:
        times = dict.fromkeys(clock_text(ms, sync_ms) for ms in (first, last))
        texts.append(f"{value} ({' to '.join(times)})")
    return texts
