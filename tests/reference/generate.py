"""Seeded random inputs in golden JSON form; the same seed always gives the same JSON.

``calculator_case`` draws one calculator case, ``timeline`` a whole sequence with pods,
``behavior_timeline`` a cheap one with external metrics only and many edits of the behavior.
"""

from __future__ import annotations

from .generate_cases import calculator_case
from .generate_timelines import behavior_timeline, timeline

__all__ = ["behavior_timeline", "calculator_case", "timeline"]
