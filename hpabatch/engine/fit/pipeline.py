"""Metric pipeline of a workload: scrapes, windows and lags; the syncs of its HPA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.stats import F64, int_median
from hpabatch.engine.fit.usage import SignalUsage, Usage, spacing_ms, window_ms
from hpabatch.engine.fit.workload import ASSUMED, FITTED, GIVEN, NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.inputs.lenses import Lens, lens_of_metric
from hpabatch.layout.records import I64
from hpabatch.model.plant import CUSTOM, EXTERNAL, RESOURCE, Pipeline

IN_STEP: Final = 0.7
"""Length of the mean vector of scrapes on a circle of their interval, from which on they have a
phase; below it pods are scraped each at its own time."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Parameters of the recording of an HPA's cluster, with sources as in `Fact`.

    `lenses` say how its controller saw what was recorded; None: nothing was asked of that.
    """

    delay_ms: int
    delay_source: str
    max_age_ms: int
    max_age_source: str
    period_source: str
    phase_source: str
    fetched: bool
    lenses: tuple[Lens, ...] | None = None


_SOURCES: Final = {"given": GIVEN, "recorded": RECORDED, "estimated": FITTED}


def recording_of(plan: ReplayPlan, candidate: Candidate) -> Recording:
    """Return what a plan knows of the recording of one of its HPAs."""
    key = candidate.key
    sources = plan.settled.sources

    def source(name: str) -> str:
        # Of several sources the first is that of the HPAs without instants of their own.
        return _SOURCES.get(sources[name].split(",")[0].split(" ")[0], ASSUMED)

    own = None
    if plan.clocks.known(key) is not None:
        own = RECORDED
    elif key in plan.clocks.estimated:
        own = FITTED
    shared = bool(plan.clocks.estimated)  # then the phase's source tells of the estimated ones
    return Recording(
        delay_ms=plan.settled.delay_ms,
        delay_source=source("delay"),
        max_age_ms=plan.settled.max_age_ms,
        # (where samples stood until they were replaced, a model still takes the usual age)
        max_age_source=FITTED if candidate.cluster in plan.settled.standing else source("max_age"),
        period_source=own or source("sync_period"),
        phase_source=own or (ASSUMED if shared else source("phase")),
        fetched=candidate.cluster in plan.fetched,
        lenses=plan.lenses if "lens" in plan.evidence else None,
    )


def api_of(signal: SignalUsage) -> str:
    """Return the metrics API that a signal comes from."""
    if signal.is_total:
        return EXTERNAL
    return CUSTOM if signal.metric.type == "Pods" else RESOURCE


def fit_pipelines(usage: Usage, recording: Recording) -> tuple[dict[str, Pipeline], list[Fact]]:
    """Return the pipeline of each API that the workload is measured by, and its facts."""
    pipelines: dict[str, Pipeline] = {}
    facts: list[Fact] = []
    by_api: dict[str, dict[str, SignalUsage]] = {}
    for name, signal in usage.signals.items():
        by_api.setdefault(api_of(signal), {})[name] = signal
    for api, signals in by_api.items():
        pipelines[api], found = _pipeline(usage, api, signals, recording)
        facts += found
    return pipelines, facts


def _pipeline(
    usage: Usage, api: str, signals: Mapping[str, SignalUsage], recording: Recording
) -> tuple[Pipeline, list[Fact]]:
    # Signals of one API are scraped together; the one with the most samples tells best.
    signal = max(signals.values(), key=lambda s: s.probes.spacing_ms.size)
    default, facts = Pipeline(), _Facts(f"pipelines.{api}")
    interval = round(spacing_ms(signal) / 1000) * 1000
    if interval > 0:
        facts.quantiles("interval", signal.probes.spacing_ms, "median spacing of samples, 5, 95 %")
    else:
        interval = default.interval_ms
        facts.add("interval", interval, ASSUMED, "too few samples")
    window = window_ms(signal)
    if not signal.is_total and _hides_jumps(usage, signals, window, recording):
        note = "recorded; jumps within it are hidden, so the controller's own may be shorter"
        facts.quantiles("window", signal.probes.window_ms, note, NOT_IDENTIFIED)
    elif not signal.is_total:
        facts.quantiles("window", signal.probes.window_ms, "median, 5, 95 %")
    lag, waited = recording.delay_ms, signal.probes.lag_ms
    if recording.fetched and waited.size:
        facts.quantiles("lag", waited, "from a sample's time until it was fetched, 5, 95 %")
        lag = max(int(np.median(waited)), 0)
    else:
        facts.add("lag", lag, recording.delay_source, "no fetch times were recorded")
    first = _first_sample(usage, signal, interval, facts)
    phase = _phase(signal, interval, facts)
    facts.add("max_age", recording.max_age_ms, recording.max_age_source)
    return Pipeline(
        interval_ms=interval,
        phase_ms=phase,
        window_ms=window,
        lag_ms=lag,
        first_sample_ms=first,
        max_age_ms=recording.max_age_ms,
    ), facts.found


def _hides_jumps(usage: Usage, names: Iterable[str], window_ms: int, recording: Recording) -> bool:
    """Say whether samples are means over more than a sync: then nobody knows what was seen within.

    But where the controller's own samples were recorded, or where it is known to have seen longer
    means.
    """
    if recording.lenses is None or recording.fetched:
        return False
    sync_ms = int(usage.now_ms[1] - usage.now_ms[0]) if usage.now_ms.size > 1 else 0
    cluster, lenses = usage.candidate.cluster, recording.lenses
    smoothed = any(lens_of_metric(lenses, cluster, name).smoothing_ms > 0 for name in names)
    return window_ms > sync_ms > 0 and not smoothed


class _Facts:
    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Fact] = []

    def add(self, name: str, ms: float, source: str, note: str = "") -> None:
        """Add a fact without an interval."""
        self.found.append(Fact(f"{self.path}.{name}", ms / 1000, "s", None, None, source, note))

    def quantiles(self, name: str, ms: I64 | F64, note: str, source: str = RECORDED) -> None:
        """Add a recorded median with its 5 % and 95 % quantiles."""
        if ms.size:
            middle, low, high = (float(np.quantile(ms, q)) / 1000 for q in (0.5, 0.05, 0.95))
            name = f"{self.path}.{name}"
            self.found.append(Fact(name, middle, "s", low, high, source, note))


def _first_sample(usage: Usage, signal: SignalUsage, interval: int, facts: _Facts) -> int:
    """Return from when on after its start a pod has a sample.

    The first scrape comes up to an interval later, half of one on average.
    """
    if signal.is_total:
        return 0
    started, first = usage.lives.started_ms, signal.pods.first_ms
    born = (started >= usage.now_ms[0]) & (started < NEVER_MS) & (first >= started)
    if not born.any() or usage.lives.generated:
        default = Pipeline().first_sample_ms
        facts.add("first_sample", default, ASSUMED, "no pod was seen to start")
        return default
    waited = np.maximum((first - started)[born] - interval / 2, 0)
    facts.quantiles(
        "first_sample", waited, f"{waited.size} pods, half an interval taken off; median, 5, 95 %"
    )
    return int(np.median(waited))


def _phase(signal: SignalUsage, interval: int, facts: _Facts) -> int:
    """Return when within the interval scrapes happen, 0 if each pod has its own time."""
    if signal.is_total or not signal.newest_ms.size:
        facts.add("phase", 0, ASSUMED)
        return 0
    angle = 2 * np.pi / interval * (signal.mean_ms[signal.counted > 0] % interval)
    sine, cosine = (float(v.mean()) if v.size else 0.0 for v in (np.sin(angle), np.cos(angle)))
    if np.hypot(sine, cosine) < IN_STEP:
        facts.add("phase", 0, ASSUMED, "scrapes have no common phase")
        return 0
    phase = round(float(np.arctan2(sine, cosine)) / (2 * np.pi) * interval) % interval
    facts.add("phase", phase, FITTED, "mean of the scrapes on a circle of the interval")
    return phase


def sync_facts(usage: Usage, recording: Recording) -> list[Fact]:
    """Return the effective sync period and its phase as facts."""
    now_ms = usage.now_ms
    period = int_median(np.diff(now_ms)) if now_ms.size > 1 else 15_000
    phase = int(now_ms[0]) % max(period, 1)
    exact = float(now_ms[-1] - now_ms[0]) / max(now_ms.size - 1, 1)
    length = exact if abs(exact - period) < 0.1 * period else float(period)
    return [
        Fact("sync.period", length / 1000, "s", None, None, recording.period_source),
        Fact("sync.phase", phase / 1000, "s", None, None, recording.phase_source),
    ]


def gap_facts(gaps: Mapping[str, Sequence[tuple[int, int]]]) -> list[Fact]:
    """Return per signal how much of the time has no samples."""
    told = []
    for name, found in gaps.items():
        note = f"{len(found)} gap{'s' * (len(found) > 1)}, filled by straight lines"
        seconds = sum(to_ms - from_ms for from_ms, to_ms in found) / 1000
        name = f"signals.{name}.gaps"
        told.append(Fact(name, seconds, "s", None, None, RECORDED, note if found else "none"))
    return told
