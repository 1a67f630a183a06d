"""Exported series of each HPA's spec as states over time.

Its gauges are scraped together: where one of them is new, all others of that HPA were told, too.
So a series that says nothing from then on has ended, and several changes of one instant are one
edit.

Source: kube-state-metrics internal/store/horizontalpodautoscaler.go. The label `container` (of
ContainerResource metrics) came late; where the scrape adds one of its own, `info` has it, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.reading.gauges import Gauge

HPA: Final = "horizontalpodautoscaler"
INFO, LEAST, MOST = "hpa_info", "hpa_min", "hpa_max"
TARGETS, GENERATION = "hpa_target", "hpa_generation"
_ALWAYS: Final = (INFO, LEAST, MOST)
"""Gauges that every HPA has; those of the site that are there tell whether an HPA is."""

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    INFO: ("scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name"),
    LEAST: (),
    MOST: (),
    TARGETS: ("metric_name", "metric_target_type", "container"),
    GENERATION: (),
}

_NEVER: Final = 1 << 62

Place = tuple[str, str]
"""Namespace and name."""

Metric = tuple[str, str]
"""Name of a metric and, of a container's resource, the container if exported, else ""."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The exported values at a time; None: the gauge is absent.

    Attributes:
        target: API version, kind and name of the scale target.
        least, most: minReplicas and maxReplicas.
        targets: of each metric, by `value`, `average` or `utilization`.
        generation: metadata.generation.
    """

    target: tuple[str, str, str] | None = None
    least: int | None = None
    most: int | None = None
    targets: Mapping[Metric, Mapping[str, float]] = field(default_factory=dict)
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedLife:
    """An HPA from when it was there until it was not.

    Attributes:
        end_ms: the first scrape without it; None: none is known.
        fresh: it was seen not to be there before.
        states: since when what was exported; nothing where it was not read in the window.
    """

    end_ms: int | None
    fresh: bool
    states: tuple[tuple[int, Recorded], ...]


@dataclass(slots=True)
class _Series:
    """One series: a gauge's name, its labels, its new values, and when it was there.

    `away`: last sight before, and first sight after, an absence longer than the lookback; `stays`:
    from when until when it is known to have been there.
    """

    gauge: str
    labels: tuple[str, ...]
    first_ms: int
    last_ms: int
    away: list[tuple[int, int]] = field(default_factory=list)
    values: list[tuple[int, float]] = field(default_factory=list)
    stays: list[tuple[int, int]] = field(default_factory=list)

    def said(self, ts: int, since: int) -> tuple[int, float] | None:
        """Return instant and value in force, None where the series has ended or not begun."""
        at = bisect_right(self.values, (ts, math.inf)) - 1
        there = any(begin <= ts < end for begin, end in self.stays)
        return self.values[at] if there and at >= 0 and self.values[at][0] >= since else None


def recorded_lives(
    gauges: Mapping[str, Gauge], span: Span, heartbeats: Sequence[int]
) -> dict[Place, list[RecordedLife]]:
    """Return the lives of every HPA in a window, or right before it, in order.

    Args:
        gauges: by name: `hpa_info`, `hpa_min`, `hpa_max`, `hpa_target`, `hpa_generation`; those
            that are absent are not exported.
        heartbeats: when the exporter was read (ms, sorted), also right before the window.
    """
    series: dict[Place, list[_Series]] = {}
    scraped = _scrape_containers(gauges)
    for name in _LABELS:
        if name in gauges:
            _collect(name, gauges[name], scraped, series)
    found = {place: _lives(own, span, heartbeats) for place, own in sorted(series.items())}
    return {place: lives for place, lives in found.items() if lives}


def _scrape_containers(gauges: Mapping[str, Gauge]) -> set[str]:
    """Return values of `container` that are the exporter's own container, added by the scrape."""
    if INFO in gauges and "container" in gauges[INFO].labels:
        return {str(text) for text in gauges[INFO].seen["container"].drop_nulls()}
    if TARGETS in gauges and "container" in gauges[TARGETS].labels:
        told = gauges[TARGETS].seen["container"].drop_nulls().unique()
        return {str(text) for text in told if "state-metrics" in str(text)}
    return set()


def _collect(
    name: str, gauge: Gauge, scraped: set[str], series: dict[Place, list[_Series]]
) -> None:
    """Add the series of a gauge to those of its HPAs."""
    absent = [pl.lit(None, pl.String).alias(n) for n in _LABELS[name] if n not in gauge.labels]
    own: dict[tuple[str, ...], _Series] = {}

    def rows(frame: pl.DataFrame, *columns: str) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
        if frame.is_empty():
            return
        told = frame.with_columns(absent).select("namespace", HPA, *_LABELS[name], *columns)
        for namespace, hpa, *said, one, two in told.rows():
            labels = ("" if text in (None, *scraped) else str(text) for text in said)
            yield (str(namespace), str(hpa), *labels), one, two

    for key, first, last in rows(gauge.seen, "first", "last"):
        if key in own:
            own[key].first_ms = min(own[key].first_ms, first)
            own[key].last_ms = max(own[key].last_ms, last)
        else:
            own[key] = _Series(name, key[2:], first, last)
            series.setdefault((key[0], key[1]), []).append(own[key])
    for key, last, back in rows(gauge.away, "last", "back"):
        own[key].away.append((last, back))
    for key, ts, value in rows(gauge.changes, "ts", "value"):
        own[key].values.append((ts, value))
    for one in own.values():
        one.away.sort()
        one.values.sort()


def _lives(own: Sequence[_Series], span: Span, heartbeats: Sequence[int]) -> list[RecordedLife]:
    """Return the lives of an HPA with these series."""
    always = [one for one in own if one.gauge in _ALWAYS]
    if not always:
        return []
    instants = sorted({ts for one in own for ts, _ in one.values})

    def ended(last_ms: int) -> int:
        """Return when what was seen last then had ended: others spoke, or the exporter was read.

        Two scrapes count: one alone may be that of another shard, read a little later.
        """
        at, missed = bisect_right(instants, last_ms), bisect_right(heartbeats, last_ms)
        return min(
            instants[at] if at < len(instants) else _NEVER,
            heartbeats[missed] if missed + 1 < len(heartbeats) else _NEVER,
        )

    def was_read(before_ms: int) -> bool:
        """Whether the exporter was read, more than once, in the lookback before an instant."""
        low = bisect_left(heartbeats, before_ms - span.lookback_ms)
        return bisect_left(heartbeats, before_ms) - low > 1

    for one in own:
        begin = one.first_ms
        for last, back in one.away:
            if was_read(back):  # else it was there all the time, as far as anybody knows
                one.stays.append((begin, ended(last)))
                begin = back
        one.stays.append((begin, ended(one.last_ms)))
    begun = min((ts for one in always for ts, _ in one.values), default=None)
    if begun is None:
        # Its end may be in the next window.
        end = ended(max(one.last_ms for one in always))
        return [RecordedLife(None if end == _NEVER else end, False, ())]
    whole: list[tuple[int, int]] = []
    for begin, end in sorted(stay for one in always for stay in one.stays):
        if whole and begin <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
        else:
            whole.append((begin, end))
    found = []
    for k, (begin, end) in enumerate(whole):
        since = max(begin, begun)
        fresh = k > 0 or (since > span.after_ms and was_read(since))
        found.append(RecordedLife(None if end == _NEVER else end, fresh, _states(own, since, end)))
    return found


def _states(own: Sequence[_Series], start: int, until: int) -> tuple[tuple[int, Recorded], ...]:
    """Return since when in a life what was exported."""
    changed = {ts for one in own for ts, _ in one.values}
    ended = {end for one in own for _, end in one.stays}
    found: list[tuple[int, Recorded]] = []
    for ts in sorted(changed | ended):
        if start <= ts < until:
            state = _at(own, ts, start)
            if not found or found[-1][1] != state:
                found.append((ts, state))
    return tuple(found)


def _at(own: Sequence[_Series], ts: int, since: int) -> Recorded:
    told = [(one, said) for one in own if (said := one.said(ts, since)) is not None]
    numbers = {one.gauge: _whole(value) for one, (_, value) in told}
    # Of two scale targets the one that was told last counts.
    infos = [(begun, one.labels) for one, (begun, _) in told if one.gauge == INFO]
    targets: dict[Metric, dict[str, float]] = {}
    for one, (_, value) in told:
        if one.gauge == TARGETS:
            name, kind, container = one.labels
            targets.setdefault((name, container), {})[kind] = value
    version, kind, name = max(infos)[1] if infos else ("", "", "")
    return Recorded(
        (version, kind, name) if infos else None, numbers.get(LEAST), numbers.get(MOST),
        targets, numbers.get(GENERATION),
    )  # fmt: skip


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) and abs(value) < 2**53 else None
