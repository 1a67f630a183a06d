"""Lens of a workload's signals: what a simulated controller sees of them, as parameters and facts.

The plant stays in recorded units: usage, base, ceiling and work are what pods used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hpabatch.engine.fit.measured import SignalFit
from hpabatch.engine.fit.pipeline import Recording, api_of
from hpabatch.engine.fit.usage import Usage
from hpabatch.engine.fit.workload import FITTED, GIVEN, NOT_IDENTIFIED, Fact
from hpabatch.inputs.lenses import Lens, lens_of_metric
from hpabatch.model.plant import EXTERNAL, Pipeline


def lens_of_signal(usage: Usage, recording: Recording, name: str) -> Lens:
    """Return the lens of a workload's signal; one that changes nothing where there is none."""
    return lens_of_metric(recording.lenses or (), usage.candidate.cluster, name)


def with_sights(
    fits: Mapping[str, SignalFit], usage: Usage, recording: Recording
) -> dict[str, SignalFit]:
    """Return fitted signals as the controller sees them, each with its lens as facts."""
    found = {}
    for name, fitted in fits.items():
        lens = lens_of_signal(usage, recording, name)
        signal = replace(fitted.signal, sight=lens.sight)
        found[name] = replace(fitted, signal=signal, facts=(*fitted.facts, *_facts(name, lens)))
    return found


def _facts(name: str, lens: Lens) -> Iterator[Fact]:
    source = GIVEN if lens.place else FITTED

    def fact(what: str, value: float, unit: str, note: str) -> Fact:
        return Fact(f"signals.{name}.lens.{what}", value, unit, None, None, source, note)

    if lens.lag_ms > 0:
        yield fact("lag", lens.lag_ms / 1000, "s", "seen so much later, beside the pipeline's lag")
    if lens.lag_ms < 0:
        note = "recorded late: usage was so much earlier, and is seen with the pipeline's lag alone"
        yield fact("lag", lens.lag_ms / 1000, "s", note)
    if lens.smoothing_ms:
        note = "seen as the mean of the samples over so long"
        yield fact("smoothing", lens.smoothing_ms / 1000, "s", note)
    if lens.scale != 1:
        yield fact("scale", lens.scale, "", "seen times this; the plant is as recorded")


def windows_told(
    facts: list[Fact], pipelines: Mapping[str, Pipeline], usage: Usage, recording: Recording
) -> list[Fact]:
    """Return facts of pipelines, with those windows not identified that a recording hides.

    Of means that are longer than a sync nobody knows what the controller saw within them, but
    where its own samples were recorded, or where it is known to have seen longer means.
    """
    if recording.lenses is None or recording.fetched:
        return facts
    sync_ms = int(usage.now_ms[1] - usage.now_ms[0]) if usage.now_ms.size > 1 else 0
    smoothed = {
        api_of(signal)
        for name, signal in usage.signals.items()
        if lens_of_signal(usage, recording, name).smoothing_ms > 0
    }
    hidden = {
        f"pipelines.{api}.window"
        for api, pipeline in pipelines.items()
        if api not in (EXTERNAL, *smoothed) and pipeline.window_ms > sync_ms > 0
    }
    note = "recorded; jumps within it are hidden, so the controller's own may be shorter"
    return [
        replace(fact, source=NOT_IDENTIFIED, note=note) if fact.name in hidden else fact
        for fact in facts
    ]
