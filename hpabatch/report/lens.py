"""Estimated lenses in a report: one that is used, as an entry of a file; why another is not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hpabatch.inputs.lenses import Lens
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration

if TYPE_CHECKING:  # what searches for lenses is large, and most commands have none
    from hpabatch.engine.fidelity.lens import LensEstimate
    from hpabatch.engine.fidelity.lens_search import Interval

_TIMES: Final = ("lag_ms", "smoothing_ms")


def lens_lines(lenses: Sequence[LensEstimate]) -> Iterator[str]:
    """Yield what was found of each source; a ratio has a line of its own (`ratio_lines`)."""
    for one in lenses:
        source = printable(f"{one.cluster}: {one.signal}")
        if not one.used:
            yield f"Lens of {source}: none is used; {one.why}"
        else:
            yield (
                f"Lens of {source}, searched on {counted(one.searched_changes, 'change')} of "
                f"{counted(one.searched_hpas, 'HPA')}; of {counted(one.judged_changes, 'other')} "
                f"{one.better} half hours fit better through it, {one.worse} worse:"
            )
            yield f"  - {printable(_entry(one.lens))}"
        if one.lag_ms is not None:
            yield f"  95 %: {_intervals(one)}"


def ratio_lines(evidence: Mapping[str, str]) -> Iterator[str]:
    """Yield in a line the sources of which only the ratio of scale to targets is known."""
    if "ratio" in evidence:
        yield f"Ratio of scale to targets: {printable(evidence['ratio'])}"


def lens_told(evidence: Mapping[str, str]) -> str:
    """Return the lens for the end of a line on what a result rests on; "": none was asked for."""
    return f"; lens: {printable(evidence['lens'])}" if "lens" in evidence else ""


def lens_rows(lenses: Sequence[LensEstimate]) -> list[dict[str, Any]]:
    """Return a row per source; a bound beyond all that was tried is null."""
    return [_row(one) for one in lenses]


def _row(one: LensEstimate) -> dict[str, Any]:
    names = ("cluster", "signal", "used", "why")
    row: dict[str, Any] = {name: getattr(one, name) for name in names}
    row |= {name: getattr(one.lens, name) for name in (*_TIMES, "scale")}
    row |= {"as_if": one.as_if}
    for name in (*_TIMES, "ratio"):
        interval = getattr(one, name)
        low, high = (None, None) if interval is None else map(_finite, interval)
        row |= {f"found_{name}": getattr(one.found, name) if interval else None}
        row |= {f"{name}_low": low, f"{name}_high": high}
    counts = ("searched_hpas", "searched_changes", "judged_hpas", "judged_changes")
    return row | {name: getattr(one, name) for name in (*counts, "better", "worse", "p")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _entry(lens: Lens) -> str:
    """Return a lens as an entry of a lens file."""
    parts = [f"cluster: {lens.cluster}", f"signal: {lens.signal}"]
    parts += [f"lag: {show_duration(lens.lag_ms)}"] if lens.lag_ms else []
    parts += [f"smoothing: {show_duration(lens.smoothing_ms)}"] if lens.smoothing_ms else []
    parts += [f"scale: {lens.scale:g}"] if lens.scale != 1 else []
    return f"{{{', '.join(parts)}}}"


def _intervals(one: LensEstimate) -> str:
    assert one.lag_ms is not None
    assert one.smoothing_ms is not None
    assert one.ratio is not None
    smoothing = one.smoothing_ms._replace(low=max(one.smoothing_ms.low, 0))
    return (
        f"lag {_span(one.lag_ms, time=True)}, smoothing {_span(smoothing, time=True)}, "
        f"scale / targets {_span(one.ratio, time=False)}"
    )


def _span(interval: Interval, time: bool) -> str:
    low, high = (_bound(value, time) for value in interval)
    if not low:
        return f"up to {high}" if high else "not known"
    return f"{low} to {high}" if high else f"from {low} on"


def _bound(value: float, time: bool) -> str:
    if not math.isfinite(value):
        return ""
    return show_duration(int(value)) if time else f"{value:g}"
