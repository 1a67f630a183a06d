"""Prometheus metrics of the live loop: upstream's names, and those of passes, shadow and cluster.

The loop publishes a pass, a scrape renders the newest one: series of deleted HPAs vanish with the
first pass without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hpabatch.cluster.connection.wire import Request
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.live.apply.applier import Figures as Applied
from hpabatch.live.passes.result import (
    ACTIONS,
    ERRORS,
    PHASES,
    PassResult,
    metric_actions,
    metric_errors,
)
from hpabatch.live.passes.shadow import DIFFERS, Comparison, Totals
from hpabatch.live.record.recorder import Figures
from hpabatch.live.serve import metric_names as names
from hpabatch.live.serve.metric_names import MetricName
from hpabatch.model.versions import Profile

# Upstream's buckets: 0.001·2^i, 15 of them.
_FINE_BUCKETS: Final = tuple(0.001 * 2**i for i in range(15))
_PASS_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0)

_TYPES: Final = {number: name for name, number in codes.SOURCE_TYPES.items()} | {
    codes.SOURCE_UNKNOWN: "Unknown"
}
_OUTCOMES: Final = [(action, error) for action in ACTIONS for error in ERRORS]
_COMPUTED: Final = [(*outcome, _TYPES[s]) for s in range(len(_TYPES)) for outcome in _OUTCOMES]


@dataclass(frozen=True, slots=True)
class About:
    """Identity of the process: its version, the rules in use and the cluster's name.

    `dry_run`: it stores no size, so it has no metric of who may write.
    """

    version: str
    k8s: str
    cluster: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class WatchState:
    """State of a watch; `synced`: its objects are up to date, as far as known.

    `listed`: it has listed once, or is not needed; None: as `synced`.
    """

    name: str
    synced: bool
    objects: int = 0
    relists: int = 0
    errors: int = 0
    listed: bool | None = None

    @property
    def has_listed(self) -> bool:
        """Whether it need not be waited for."""
        return self.synced if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of values that no pass holds; each is called from the scrape's thread.

    `requests` gives a `RequestCounter`'s snapshot.
    """

    watches: Callable[[], Iterable[WatchState]] = tuple
    requests: Callable[[], Mapping[Request, int]] = dict
    clock_skew_s: Callable[[], float | None] = lambda: None


class _Histogram:
    """Counts by label set and bucket; `cells` (labels, buckets + 1), the last for larger values."""

    def __init__(self, labels: int, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.cells = np.zeros((labels, len(bounds) + 1), np.int64)
        self.sums = np.zeros(labels)

    def add(self, counts: I64, value: float) -> None:
        """Count `value` (labels,) times."""
        self.cells[:, int(np.searchsorted(self.bounds, value))] += counts
        self.sums += counts * value

    def copy(self) -> _Histogram:
        """Return a copy of the counts."""
        copied = _Histogram(0, self.bounds)
        copied.cells, copied.sums = self.cells.copy(), self.sums.copy()
        return copied

    def family(self, name: MetricName, labels: Sequence[tuple[str, ...]]) -> Metric:
        """Return the metric family, without label sets that never occurred."""
        family = HistogramMetricFamily(name.name, name.help, labels=name.labels)
        bounds = [*(str(bound) for bound in self.bounds), "+Inf"]
        for values, row, total in zip(labels, self.cells, self.sums, strict=True):
            if row.any():
                buckets = list(zip(bounds, np.cumsum(row).tolist(), strict=True))
                family.add_metric(values, buckets, float(total))
        return family


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts since the loop began."""

    reconciliations: I64
    computations: I64
    reconcile_s: _Histogram
    compute_s: _Histogram
    pass_s: _Histogram
    phase_s: _Histogram

    def copy(self) -> _Counts:
        return _Counts(
            self.reconciliations.copy(), self.computations.copy(), self.reconcile_s.copy(),
            self.compute_s.copy(), self.pass_s.copy(), self.phase_s.copy(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shown:
    """Values of a pass for scrapes: copies, because the decider reuses its arrays."""

    now_s: float
    hpas: int
    problems: int
    desired: list[tuple[tuple[str, str], float]]
    differences: list[tuple[tuple[str, str], float]]
    counts: dict[str, int]
    share: float | None
    totals: Totals
    recorder: Figures | None
    applied: Applied | None


def _shown(
    comparison: Comparison, totals: Totals, recorder: Figures | None, applied: Applied | None
) -> _Shown:
    result = comparison.result
    lanes = list(zip(result.namespaces, result.names, strict=True))
    ours, by = result.ours_desired.tolist(), result.ours_desired - result.theirs_desired
    # An HPA without a decision has no number.
    decided = np.flatnonzero(result.decided).tolist()
    differ = np.flatnonzero(comparison.state == DIFFERS).tolist()
    return _Shown(
        now_s=result.now_ms / 1000,
        hpas=len(result) + len(result.problems),
        problems=len(result.problems),
        desired=[(lanes[h], ours[h]) for h in decided],
        differences=[(lanes[h], int(by[h])) for h in differ],
        counts=comparison.counts(),
        share=comparison.share(),
        totals=totals,
        recorder=recorder,
        applied=None if applied is None else replace(applied),
    )


class Exporter(Collector):
    """Renders the newest pass; the loop calls `publish`, scrapes the other methods.

    `registry` holds this collector and the process's own cpu, memory and handles.
    """

    def __init__(self, about: About, profile: Profile, sources: Sources | None = None) -> None:
        """Begin with nothing published."""
        self._about, self._profile, self._sources = about, profile, sources or Sources()
        self._lock = threading.Lock()
        self._newest: _Shown | None = None
        self._counts = _Counts(
            np.zeros(len(_OUTCOMES), np.int64),
            np.zeros(len(_COMPUTED), np.int64),
            _Histogram(len(_OUTCOMES), _FINE_BUCKETS),
            _Histogram(len(_COMPUTED), _FINE_BUCKETS),
            _Histogram(1, _PASS_BUCKETS),
            _Histogram(len(PHASES), _FINE_BUCKETS),
        )
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that the registry does not collect at registration."""
        return ()

    def publish(
        self,
        comparison: Comparison,
        totals: Totals,
        recorder: Figures | None = None,
        applied: Applied | None = None,
    ) -> None:
        """Count a pass and show it from now on, with recorder's and applier's figures after it."""
        result = comparison.result
        outcomes = (result.action * len(ERRORS) + result.error)[result.decided]
        reconciled = np.bincount(outcomes, minlength=len(_OUTCOMES))
        computed = self._computed(result)
        shown = _shown(comparison, totals, recorder, applied)
        with self._lock:
            counts = self._counts
            counts.reconciliations[:] += reconciled
            counts.computations[:] += computed
            counts.reconcile_s.add(reconciled, result.duration_s / max(len(result), 1))
            spent = sum(result.phases.get(name, 0.0) for name in ("fetch", "decide"))
            counts.compute_s.add(computed, spent / max(int(computed.sum()), 1))
            counts.pass_s.add(np.ones(1, np.int64), result.duration_s)
            for place, name in enumerate(PHASES):
                if name in result.phases:
                    one = (np.arange(len(PHASES)) == place).astype(np.int64)
                    counts.phase_s.add(one, result.phases[name])
            self._newest = shown

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family for the registry."""
        about = self._about
        yield _gauge(names.INFO, [((about.version, about.k8s, about.cluster), 1)])
        with self._lock:
            newest, counts = self._newest, self._counts.copy()
        yield from _counted(counts)
        if newest is not None:
            yield from _of_pass(newest)
            yield from _shadow(newest)
            yield from _recorder(newest.recorder)
            yield from _applied(newest.applied, about.dry_run)
        yield from self._cluster()

    # ---- parts

    def _computed(self, result: PassResult) -> I64:
        """Return the number of computed metrics of a pass by outcome."""
        metrics = result.metrics
        outcome = metric_actions(result) * len(ERRORS) + metric_errors(result, self._profile)
        place = metrics.source.astype(np.int64) * len(_OUTCOMES) + outcome
        return np.bincount(
            place[metrics.code != codes.METRIC_NOT_COMPUTED], minlength=len(_COMPUTED)
        )

    def _cluster(self) -> Iterator[Metric]:
        requests = self._sources.requests().items()
        sent = [((r.verb, r.resource, str(r.status)), count) for r, count in requests]
        yield _counter(names.REQUESTS, sent)
        watches = list(self._sources.watches())
        yield _gauge(names.WATCH_SYNCED, [((w.name,), int(w.synced)) for w in watches])
        yield _gauge(names.WATCH_OBJECTS, [((w.name,), w.objects) for w in watches])
        yield _counter(names.WATCH_RELISTS, [((w.name,), w.relists) for w in watches])
        yield _counter(names.WATCH_ERRORS, [((w.name,), w.errors) for w in watches])
        skew_s = self._sources.clock_skew_s()
        if skew_s is not None:
            yield _gauge(names.CLOCK_SKEW, [((), skew_s)])


_Samples = Iterable[tuple[Sequence[str], float]]


def _gauge(name: MetricName, samples: _Samples) -> Metric:
    family = GaugeMetricFamily(name.name, name.help, labels=name.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _counter(name: MetricName, samples: _Samples) -> Metric:
    family = CounterMetricFamily(name.name, name.help, labels=name.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _occurred(
    labels: Sequence[tuple[str, ...]], counts: NDArray[np.int64]
) -> list[tuple[tuple[str, ...], int]]:
    """Return the label sets with a count."""
    return [pair for pair in zip(labels, counts.tolist(), strict=True) if pair[1]]


def _counted(counts: _Counts) -> Iterator[Metric]:
    yield _counter(names.RECONCILIATIONS, _occurred(_OUTCOMES, counts.reconciliations))
    yield counts.reconcile_s.family(names.RECONCILIATION_DURATION, _OUTCOMES)
    yield _counter(names.COMPUTATIONS, _occurred(_COMPUTED, counts.computations))
    yield counts.compute_s.family(names.COMPUTATION_DURATION, _COMPUTED)
    yield counts.pass_s.family(names.PASS_DURATION, [()])
    yield counts.phase_s.family(names.PHASE_DURATION, [(name,) for name in PHASES])


def _of_pass(newest: _Shown) -> Iterator[Metric]:
    yield _gauge(names.HPAS, [((), newest.hpas)])
    yield _gauge(names.DESIRED, newest.desired)
    yield _counter(names.PASSES, [((), newest.totals.passes)])
    yield _gauge(names.LAST_PASS, [((), newest.now_s)])
    yield _gauge(names.PROBLEMS, [((), newest.problems)])


def _shadow(newest: _Shown) -> Iterator[Metric]:
    totals = newest.totals
    yield _gauge(names.SHADOW_HPAS, [((state,), n) for state, n in newest.counts.items()])
    yield _counter(names.SHADOW_SECONDS, [((state,), s) for state, s in totals.seconds.items()])
    yield _counter(names.SHADOW_BEGUN, [((), totals.begun)])
    yield _counter(names.SHADOW_ENDED, [((), totals.ended)])
    if newest.share is not None:
        yield _gauge(names.SHADOW_AGREEMENT, [((), newest.share)])
    yield _gauge(names.SHADOW_DIFFERENCE, newest.differences)


def _applied(figures: Applied | None, dry_run: bool) -> Iterator[Metric]:
    if figures is None:
        return
    counts = (figures.written, figures.failed, figures.held, figures.void)
    if not dry_run:
        yield _gauge(names.APPLY_LEADS, [((), int(figures.leads))])
    rows = zip(("written", "failed", "waiting", "void"), counts, strict=True)
    yield _counter(names.APPLY_WRITES, [((result,), count) for result, count in rows])
    yield _counter(names.APPLY_FOREIGN, [((), figures.foreign)])


def _recorder(figures: Figures | None) -> Iterator[Metric]:
    if figures is None:
        return
    yield _counter(names.RECORDER_ROWS, [((), figures.rows_written)])
    yield _counter(names.RECORDER_PARTS, [((), figures.parts_written)])
    yield _counter(names.RECORDER_LOST, [((), figures.rows_lost + figures.rows_refused)])
    yield _gauge(names.RECORDER_WAITING, [((), figures.rows_waiting)])
    yield _gauge(names.RECORDER_WAITING_BYTES, [((), figures.bytes_waiting)])
    yield _gauge(names.RECORDER_FAILING, [((), int(bool(figures.trouble)))])
