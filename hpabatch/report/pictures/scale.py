"""The part of a measure that an axis shows, on a linear or a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hpabatch.engine.advise.unit import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    @property
    def note(self) -> str:
        """Return what must be said beside the axis."""
        return "" if self.linear is None else " (logarithmic)"

    def shows(self, values: Array) -> Mask:
        """Return which values lie within."""
        found: Mask = (values >= self.low) & (values <= self.high)
        return found


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


def set_scale(axes: Axes, view: View, *, is_x: bool) -> None:
    """Give one axis of some axes a view's ends, scale and ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    axis = axes.xaxis if is_x else axes.yaxis
    if view.linear is not None:
        (axes.set_xscale if is_x else axes.set_yscale)("symlog", linthresh=view.linear)
    (axes.set_xlim if is_x else axes.set_ylim)(view.low, view.high)
    if view.linear is None:
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    else:
        axis.set_major_locator(FixedLocator(list(_ticks(view))))
        axis.set_minor_locator(FixedLocator([]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick_text(value)))


def _tick_text(value: float) -> str:
    """Return a tick's number, from ten thousand on in thousands and so on."""
    size = abs(value)
    for sign, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= max(factor, 1e4):
            return f"{value / factor:.6g}{sign}"
    return f"{value:,.6g}"


def _ticks(view: View) -> list[float]:
    """Return 0 and the tens within a view; with few of them also twice and five times each."""
    assert view.linear is not None
    first = math.floor(math.log10(view.linear))
    last = math.ceil(math.log10(view.high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    found = [f * 10.0**k for k in range(first, last + 1) for f in factors]
    return [t for t in [0.0, *found] if view.low <= t <= view.high]
