"""Prometheus metrics of the live loop: upstream's names, and those of passes, shadow and cluster.

The loop publishes a pass, a scrape renders the newest one: series of deleted HPAs vanish with the
first pass without them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

import hpabatch
from hpabatch.cluster.connection.wire import Request
from hpabatch.cluster.watch.watch import WatchState
from hpabatch.layout import codes
from hpabatch.live.apply.applier import Figures as Applied
from hpabatch.live.passes.result import ACTIONS, ERRORS, PassResult, metric_actions, metric_errors
from hpabatch.live.passes.shadow import DIFFERS, Comparison
from hpabatch.live.record.recorder import Figures
from hpabatch.live.serve import metric_names as names
from hpabatch.live.serve.metric_names import MetricName
from hpabatch.model.versions import Profile

_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0)

_TYPES: Final = {number: name for name, number in codes.SOURCE_TYPES.items()} | {
    codes.SOURCE_UNKNOWN: "Unknown"
}


class Exporter(Collector):
    """Renders the newest pass; the loop calls `publish`, scrapes the other methods.

    `registry` holds this collector and the process's own cpu, memory and handles.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: str,
        *,
        dry_run: bool = False,
        watches: Callable[[], Iterable[WatchState]] = tuple,
        requests: Callable[[], Mapping[Request, int]] = dict,
        clock_skew_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Begin with nothing published; the functions are called from the scrape's thread.

        Args:
            dry_run: no size is stored, so there is no metric of who may write.
            requests: a `RequestCounter`'s snapshot.
            clock_skew_s: the API server's clock less the local clock; None: unknown.
        """
        self._info = hpabatch.__version__, profile.name, cluster
        self._profile, self._dry_run = profile, dry_run
        self._watches, self._requests, self._clock_skew_s = watches, requests, clock_skew_s
        self._computed = _counter(names.COMPUTATIONS)
        self._pass_s = _histogram(names.PASS_DURATION)
        self._phase_s = _histogram(names.PHASE_DURATION)
        self._passes = 0
        self._newest: list[Metric] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that the registry does not collect at registration."""
        return ()

    def publish(
        self,
        comparison: Comparison,
        recorder: Figures | None = None,
        applied: Applied | None = None,
    ) -> None:
        """Count a pass and show it from now on, with recorder's and applier's figures after it."""
        result, self._passes = comparison.result, self._passes + 1
        for labels, count in _computed(result, self._profile).items():
            self._computed.labels(*labels).inc(count)
        self._pass_s.observe(result.duration_s)
        for name, phase_s in result.phases.items():
            self._phase_s.labels(name).observe(phase_s)
        # Scrapes read this list while the next one is built.
        self._newest = [
            *self._counted(),
            *_of_pass(result, self._passes),
            *_shadow(comparison),
            *_recorder(recorder),
            *_applied(applied, self._dry_run),
        ]

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family for the registry."""
        yield names.INFO.family([(self._info, 1)])
        yield from self._newest
        yield from self._cluster()

    def _counted(self) -> Iterator[Metric]:
        for metric in (self._computed, self._pass_s, self._phase_s):
            for family in metric.collect():
                family.samples = [s for s in family.samples if not s.name.endswith("_created")]
                yield family

    def _cluster(self) -> Iterator[Metric]:
        requests = self._requests().items()
        sent = [((r.verb, r.resource, str(r.status)), count) for r, count in requests]
        yield names.REQUESTS.family(sent)
        watches = list(self._watches())
        yield names.WATCH_SYNCED.family(
            [((w.name,), int(w.synced and not w.last_error)) for w in watches]
        )
        yield names.WATCH_OBJECTS.family([((w.name,), w.objects) for w in watches])
        yield names.WATCH_RELISTS.family([((w.name,), w.relists) for w in watches])
        yield names.WATCH_ERRORS.family([((w.name,), w.failed + w.broken) for w in watches])
        skew_s = self._clock_skew_s()
        if skew_s is not None:
            yield names.CLOCK_SKEW.family([((), skew_s)])


def _counter(name: MetricName) -> Counter:
    return Counter(name.name, name.help, name.labels, registry=None)


def _histogram(name: MetricName) -> Histogram:
    return Histogram(name.name, name.help, name.labels, registry=None, buckets=_BUCKETS)


def _computed(result: PassResult, profile: Profile) -> collections.Counter[tuple[str, ...]]:
    metrics = result.metrics
    rows = np.stack([metric_actions(result), metric_errors(result, profile), metrics.source])
    computed = rows[:, metrics.code != codes.METRIC_NOT_COMPUTED].T.tolist()
    return collections.Counter((ACTIONS[a], ERRORS[e], _TYPES[kind]) for a, e, kind in computed)


def _of_pass(result: PassResult, passes: int) -> Iterator[Metric]:
    lanes = list(zip(result.namespaces, result.names, strict=True))
    ours = result.ours_desired.tolist()
    # An HPA without a decision has no number.
    decided = [(lanes[h], ours[h]) for h in np.flatnonzero(result.decided).tolist()]
    yield names.HPAS.family([((), len(result) + len(result.problems))])
    yield names.DESIRED.family(decided)
    yield names.PASSES.family([((), passes)])
    yield names.LAST_PASS.family([((), result.now_ms / 1000)])
    yield names.PROBLEMS.family([((), len(result.problems))])


def _shadow(comparison: Comparison) -> Iterator[Metric]:
    result, share = comparison.result, comparison.share()
    by = (result.ours_desired - result.theirs_desired).tolist()
    differ = np.flatnonzero(comparison.state == DIFFERS).tolist()
    yield names.SHADOW_HPAS.family([((state,), n) for state, n in comparison.counts().items()])
    if share is not None:
        yield names.SHADOW_AGREEMENT.family([((), share)])
    yield names.SHADOW_DIFFERENCE.family(
        [((result.namespaces[h], result.names[h]), by[h]) for h in differ]
    )


def _applied(figures: Applied | None, dry_run: bool) -> Iterator[Metric]:
    if figures is None:
        return
    counts = (figures.written, figures.failed, figures.held, figures.void)
    if not dry_run:
        yield names.APPLY_LEADS.family([((), int(figures.leads))])
    rows = zip(("written", "failed", "waiting", "void"), counts, strict=True)
    yield names.APPLY_WRITES.family([((result,), count) for result, count in rows])
    yield names.APPLY_FOREIGN.family([((), figures.foreign)])


def _recorder(figures: Figures | None) -> Iterator[Metric]:
    if figures is None:
        return
    yield names.RECORDER_ROWS.family([((), figures.rows_written)])
    yield names.RECORDER_LOST.family([((), figures.rows_refused)])
    yield names.RECORDER_WAITING_BYTES.family([((), figures.bytes_waiting)])
    yield names.RECORDER_FAILING.family([((), int(bool(figures.trouble)))])
