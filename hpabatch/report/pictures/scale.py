"""The part of a measure that an axis shows, on a linear or a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hpabatch.engine.advise.unit import Array, Mask

_WIDE: Final = 60.0  # the largest value to a small one: from here on orders of magnitude
_FAR: Final = 4.0  # times as wide as what matters: from here on the rest is cut off
_PAD: Final = 0.06


@dataclass(frozen=True, slots=True)
class View:
    """The part of an axis from `low` to `high`; from `linear` on upwards it is logarithmic.

    `linear` None: all of it is plain.
    """

    low: float
    high: float
    linear: float | None = None

    def shows(self, values: Array) -> Mask:
        """Return which values lie within."""
        found: Mask = (values >= self.low) & (values <= self.high)
        return found

    def share(self, values: Array) -> Array:
        """Return where values stand, from 0 at the lower end to 1 at the upper one."""
        ends = np.array([self.low, self.high])
        if self.linear is not None:
            values, ends = (
                np.sign(v) * np.log1p(np.abs(v) / self.linear) for v in (np.asarray(values), ends)
            )
        found: Array = (values - ends[0]) / (ends[1] - ends[0])
        return found

    def axis(self, channel: Any, title: str, **more: Any) -> Any:
        """Return a channel (`alt.X`, `alt.Y`) of field `x` or `y` that shows this part."""
        import altair as alt

        ends = [self.low, self.high]
        plain = self.linear is None
        scale = alt.Scale(domain=ends, zero=False, nice=False) if plain else alt.Scale(
            type="symlog", constant=self.linear, domain=ends, nice=False
        )  # fmt: skip
        ticks: dict[str, Any] = {"tickCount": 7} if plain else {"values": self._ticks()}
        axis = alt.Axis(
            title=title if plain else f"{title} (logarithmic)",
            labelExpr="abs(datum.value) < 1e4 ? format(datum.value, ',~r') "
            ": format(datum.value, '~s')",
            **ticks,
        )
        field = "x:Q" if channel is alt.X else "y:Q"
        return channel(field, scale=scale, axis=axis, **more)

    def _ticks(self) -> list[float]:
        """Return 0 and the tens within; with few of them also twice and five times each."""
        assert self.linear is not None
        first = math.floor(math.log10(self.linear))
        last = math.ceil(math.log10(self.high))
        factors = (1, 2, 5) if last - first <= 3 else (1,)
        found = [f * 10.0**k for k in range(first, last + 1) for f in factors]
        return [t for t in [0.0, *found] if self.low <= t <= self.high]


def view_of(values: Array, core: Sequence[float], limits: Sequence[float] = ()) -> View:
    """Return what to show of values (all finite), of which those of `core` matter most.

    Where a few orders of magnitude lie between them, the scale is logarithmic. Otherwise what is
    far away from the core, such as a setting of four times the cost, is cut off, up to half of all.
    """
    all_of = np.array([*values, *core, *limits])
    low, high = float(all_of.min()), float(all_of.max())
    positive = all_of[all_of > 0]
    if low >= 0 and positive.size and high / float(np.quantile(positive, 0.1)) > _WIDE:
        small = min(float(np.quantile(positive, 0.1)), *limits, *(c for c in core if c > 0), high)
        linear = 10.0 ** math.floor(math.log10(max(small, high * 1e-6)))
        return _padded(View(0.0 if low < linear else low, high, linear))
    least, most = min([*core, *limits]), max([*core, *limits])
    span = most - least
    if span > 0:
        middle = float(np.median(values))
        low = min(least - span, middle) if least - low > (_FAR - 1) * span else low
        high = max(most + span, middle) if high - most > (_FAR - 1) * span else high
    return _padded(View(low, high))


def _padded(view: View) -> View:
    """Leave room at both ends, so that signs are not cut."""
    if view.linear is None:
        room = (view.high - view.low) * _PAD
        if not room:  # one value only; a measure is never below 0
            high = view.high * 1.5 or 1.0
            return View(-high * _PAD if view.low == 0 else view.low * 0.5, high)
        return View(view.low - room, view.high + room)
    top = view.high * (view.high / view.linear) ** (_PAD + 0.02)
    bottom = -view.linear * 0.3 if view.low <= 0 else view.low * 0.85
    return View(bottom, max(top, view.linear * 1.5), view.linear)
