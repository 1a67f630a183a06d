"""Numbers as strings: counts, shares, percentages, differences, amounts.

An absent number is the empty string. A share of exactly 0 is `-`, and one that is not quite 0 or
100 percent does not look like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final


def number(value: float | None, digits: int = 1, zero: str | None = None) -> str:
    """Return `1,234.5`; `zero` replaces 0."""
    if value is None:
        return ""
    return zero if zero is not None and value == 0 else f"{value:,.{digits}f}"


def significant(value: float, digits: int = 4) -> str:
    """Return a number with some digits, without an exponent: `38.12`, `12,345`, `<0.0001`."""
    if 0 < abs(value) < 1e-4:
        return f"{'' if value > 0 else '-'}<0.0001"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def amount(value: float | None) -> str:
    """Return `12`, `12.5` or `1,234`: a digit after the point only below 1000."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.1f}"


def percent(value: float | None, digits: int = 0) -> str:
    """Return a percentage."""
    if value is None:
        return ""
    if digits:
        return f"{value:.{digits}f}%"
    if value == 0:
        return "-"
    if 0 < value < 0.5:
        return "<1%"
    return f"{value:.0f}%" if value >= 100 else f"{min(round(value), 99)}%"


def share(value: float | None, digits: int = 0) -> str:
    """Return a share, 0 to 1, in percent."""
    return "" if value is None else percent(value * 100, digits)


def signed(value: float | None, digits: int) -> str:
    """Return a difference with its sign; one that is not quite 0 does not look like it."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    text = f"{value:+,.{digits}f}"
    return text if float(text.replace(",", "")) else f"{'+' if value > 0 else '-'}<{10**-digits:g}"


def skill(value: float | None) -> str:
    """Return a skill: `+0.85`; `-` where none is known."""
    return "-" if value is None else f"{value:+.2f}"


def points(value: float | None) -> str:
    """Return the difference of two shares in percentage points."""
    return "" if value is None else f"{value * 100:+.1f}"


def share_of_minutes(row: Mapping[str, float | None], name: str) -> str:
    """Return which part of a run's `hours` some minutes of it are, in percent."""
    minutes, hours = row[name], row["hours"]
    return "" if minutes is None or not hours else share(minutes / (60 * hours))


def minute(value: object) -> str:
    """Return a timestamp to the minute."""
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else ""


def memory(value: float) -> str:
    """Return bytes in Mi."""
    return f"{value / 2**20:.4g}Mi"


DIFFERS: Final = 0.05
"""Recorded and modelled measures that are further apart, of the larger, stand side by side."""

BESIDE: Final = "in brackets: as recorded, where the model of today's setting differs by 5% or more"


def beside(shown: str, modelled: float | None, recorded: float | None, digits: int = 0) -> str:
    """Return a cell, with what was recorded in brackets where the model differs: `0 (79)`."""
    if modelled is None or recorded is None:
        return shown
    apart = abs(modelled - recorded)
    told = number(recorded, digits)
    if apart < DIFFERS * max(modelled, recorded) or told == number(modelled, digits):
        return shown
    return f"{shown} ({told})"


def nonempty(text: str) -> str:
    """Return a cell that shows that there is nothing."""
    return text or "-"
