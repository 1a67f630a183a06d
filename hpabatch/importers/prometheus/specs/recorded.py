"""Exported series of each HPA's spec as states over time.

Its gauges are scraped together: where one of them is new, all others of that HPA were told, too.
So a series that says nothing from then on has ended, and several changes of one instant are one
edit. Of a series that ended and came back within a window a gauge tells only that it was away for
longer than the lookback: when it ended is then inferred from what else was new.

Source: kube-state-metrics internal/store/horizontalpodautoscaler.go. The label `container` (of
ContainerResource metrics) came late; where the scrape adds one of its own, `info` has it, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

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

_SIGNS: Final = ("hpa_current", "hpa_desired", "hpa_metric", "hpa_condition")
"""Gauges of which only the presence counts."""

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
class _Thing:
    """One series: a gauge's name, its labels, its new values, and when it was seen last.

    `away`: from when to when it was not there, though it was before and after.
    """

    gauge: str
    labels: tuple[str, ...]
    last_ms: int
    values: list[tuple[int, float]] = field(default_factory=list)
    away: list[tuple[int, int]] = field(default_factory=list)

    def said_again(self) -> list[tuple[int, int]]:
        """Return the times at which it came back with the same value after over the lookback."""
        return [(old, ts) for (old, said), (ts, new) in pairwise(self.values) if new == said]


def recorded_lives(
    gauges: Mapping[str, Gauge], span: Span, heartbeats: Sequence[int]
) -> dict[Place, list[RecordedLife]]:
    """Return the lives of every HPA in a window, or right before it, in order.

    Args:
        gauges: by name: `hpa_info`, `hpa_min`, `hpa_max`, `hpa_target`, `hpa_generation`; those
            that are absent are not exported. With those of the status it is known better when
            an HPA ended that was made anew within the window.
        heartbeats: when the exporter was read (ms, sorted), also right before the window.
    """
    things: dict[Place, list[_Thing]] = {}
    scraped = _scrape_containers(gauges)
    for name in _LABELS:
        if name in gauges:
            _collect(name, gauges[name], scraped, things)
    clock, signs = _Clock(tuple(heartbeats), span), _signs(gauges)
    found = {
        place: _OneHpa(own, clock, signs.get(place, ())).lives()
        for place, own in sorted(things.items())
    }
    return {place: lives for place, lives in found.items() if lives}


def _scrape_containers(gauges: Mapping[str, Gauge]) -> set[str]:
    """Return values of `container` that are the exporter's own container, added by the scrape."""
    if INFO in gauges and "container" in gauges[INFO].labels:
        return {str(text) for text in gauges[INFO].seen["container"].drop_nulls()}
    if TARGETS in gauges and "container" in gauges[TARGETS].labels:
        told = gauges[TARGETS].seen["container"].drop_nulls().unique()
        return {str(text) for text in told if "state-metrics" in str(text)}
    return set()


def _collect(name: str, gauge: Gauge, scraped: set[str], things: dict[Place, list[_Thing]]) -> None:
    """Add the series of a gauge to those of its HPAs."""
    wanted = _LABELS[name]
    absent = [pl.lit(None, pl.String).alias(one) for one in wanted if one not in gauge.labels]
    own: dict[tuple[str, ...], _Thing] = {}
    for namespace, hpa, *said, last in (
        gauge.seen.with_columns(absent).select("namespace", HPA, *wanted, "last").rows()
    ):
        labels = tuple("" if text in (None, *scraped) else str(text) for text in said)
        key = (str(namespace), str(hpa), *labels)
        if key in own:
            own[key].last_ms = max(own[key].last_ms, last)
            continue
        own[key] = _Thing(name, labels, last)
        things.setdefault((str(namespace), str(hpa)), []).append(own[key])
    for namespace, hpa, *said, ts, value in (
        gauge.changes.with_columns(absent).select("namespace", HPA, *wanted, "ts", "value").rows()
    ):
        labels = tuple("" if text in (None, *scraped) else str(text) for text in said)
        own[(str(namespace), str(hpa), *labels)].values.append((ts, value))
    for thing in own.values():
        thing.values.sort()


def _signs(gauges: Mapping[str, Gauge]) -> dict[Place, list[int]]:
    """Return when the status of each HPA was new, sorted."""
    found: dict[Place, list[int]] = {}
    frames = [
        gauges[name].changes.select("namespace", HPA, "ts") for name in _SIGNS if name in gauges
    ]
    if frames:
        for namespace, hpa, ts in pl.concat(frames).unique().sort("ts").rows():
            found.setdefault((str(namespace), str(hpa)), []).append(ts)
    return found


class _Clock:
    def __init__(self, heartbeats: tuple[int, ...], span: Span) -> None:
        self._heartbeats = heartbeats
        self.span = span

    def missed(self, last_ms: int) -> int:
        """Return the first of two scrapes after an instant, `_NEVER` if there were not as many.

        One alone may be that of another shard, which is read a little later.
        """
        at = bisect_right(self._heartbeats, last_ms)
        return self._heartbeats[at] if at + 1 < len(self._heartbeats) else _NEVER

    def first_from(self, ts: int) -> int:
        """Return the first scrape from an instant on; the instant itself where there is none."""
        at = bisect_left(self._heartbeats, ts)
        return self._heartbeats[at] if at < len(self._heartbeats) else ts

    def was_read(self, before_ms: int) -> bool:
        """Whether the exporter was read, more than once, in the lookback before an instant."""
        low = bisect_left(self._heartbeats, before_ms - self.span.lookback_ms)
        return bisect_left(self._heartbeats, before_ms) - low > 1


class _OneHpa:
    def __init__(self, things: list[_Thing], clock: _Clock, signs: Sequence[int]) -> None:
        self._things = things
        self._signs = signs
        self._clock = clock
        self._always = [one for one in things if one.gauge in _ALWAYS]
        self._instants = sorted({ts for one in things for ts, _ in one.values})
        self._spoken = self._all_spoke()
        self._find_away()

    def lives(self) -> list[RecordedLife]:
        if not self._always:
            return []
        last_ms = max(one.last_ms for one in self._always)
        end = self._clock.missed(last_ms)
        begun = [ts for one in self._always for ts, _ in one.values]
        if not begun:
            # Its end may be in the next window.
            return [RecordedLife(None if end == _NEVER else end, False, ())]
        first, span = min(begun), self._clock.span
        fresh = first > span.after_ms and self._clock.was_read(first)
        starts = [first, *(ts for ts in self._returns() if ts > first)]
        found = []
        for k, start in enumerate(starts):
            until = end
            if k + 1 < len(starts):
                until = self._vanished(start, starts[k + 1])
            states = self._states(start, until)
            told = None if until == _NEVER else until
            found.append(RecordedLife(told, fresh or k > 0, tuple(states)))
        return found

    def _vanished(self, start: int, back: int) -> int:
        """Return when an HPA was gone that was there again at `back`.

        Its gauges tell only that it was away for longer than the lookback: it ended after the last
        thing that was new of it. Where no status is read, nothing may be new for days; it is taken
        to have been there as long as it can have been.
        """
        latest = back - self._clock.span.lookback_ms
        signs = [ts for ts in self._signs if start <= ts < latest]
        if not signs:
            return self._clock.first_from(latest)
        told = max(ts for ts in (*signs, *self._instants) if ts < latest)
        return min(self._clock.first_from(told + 1), self._clock.first_from(latest))

    def _returns(self) -> list[int]:
        """Return when all gauges spoke anew, after the exporter had been read without the HPA."""
        again = {ts for one in self._always for _, ts in one.said_again()}
        return sorted(
            ts
            for ts in again & self._spoken
            if ts > self._clock.span.after_ms and self._clock.was_read(ts)
        )

    def _all_spoke(self) -> set[int]:
        """Return when all of the gauges that every HPA has were new at once."""
        by_gauge = [
            {ts for one in self._always if one.gauge == gauge for ts, _ in one.values}
            for gauge in {one.gauge for one in self._always}
        ]
        return set.intersection(*by_gauge) if by_gauge else set()

    def _find_away(self) -> None:
        """Find out when series were not there that came back, while their HPA was.

        One ended when another series of its gauge began, if one did, else when anything was new:
        the first time, but what comes back together left together.
        """
        left: dict[int, int] = {}
        pairs = [
            (thing, old, back)
            for thing in self._things
            if thing.gauge in (INFO, TARGETS)
            for old, back in thing.said_again()
            if back not in self._spoken  # Nothing was read: it was there before and is again.
        ]
        for thing, old, back in pairs:
            latest = back - self._clock.span.lookback_ms
            kin = [
                one.values[0][0] for one in self._things if one.gauge == thing.gauge and one.values
            ]
            begun = [ts for ts in kin if old < ts <= latest]
            new = [ts for ts in self._instants if old < ts <= latest]
            first = min(begun or new, default=self._clock.first_from(latest))
            left[back] = max(first, left.get(back, first))
        for thing, _, back in pairs:
            thing.away.append((left[back], back))

    def _states(self, start: int, until: int) -> list[tuple[int, Recorded]]:
        ends = {self._end(one) for one in self._things}
        away = {gone for one in self._things for gone, _ in one.away}
        inside = sorted({*self._instants, *ends, *away})
        found: list[tuple[int, Recorded]] = []
        for ts in inside:
            if start <= ts < until:
                state = self._at(ts, start)
                if not found or found[-1][1] != state:
                    found.append((ts, state))
        return found

    def _at(self, ts: int, since: int) -> Recorded:
        alive = [
            (said, one) for one in self._things if (said := self._said(one, ts, since)) is not None
        ]
        infos = [(said[0], one.labels) for said, one in alive if one.gauge == INFO]
        numbers = {one.gauge: _whole(said[1]) for said, one in alive}
        targets: dict[Metric, dict[str, float]] = {}
        for (_, value), one in alive:
            if one.gauge == TARGETS:
                name, kind, container = one.labels
                targets.setdefault((name, container), {})[kind] = value
        target = max(infos)[1] if infos else None
        return Recorded(
            None if target is None else (target[0], target[1], target[2]),
            numbers.get(LEAST),
            numbers.get(MOST),
            targets,
            numbers.get(GENERATION),
        )

    def _said(self, thing: _Thing, ts: int, since: int) -> tuple[int, float] | None:
        """Return a series' instant and value in force, None where it has ended or not begun."""
        at = bisect_right(thing.values, (ts, math.inf)) - 1
        if at < 0 or thing.values[at][0] < since or ts >= self._end(thing):
            return None
        if any(gone <= ts < back for gone, back in thing.away):
            return None
        return thing.values[at]

    def _end(self, thing: _Thing) -> int:
        """Return when a series had ended: others of the HPA spoke, or the exporter was read."""
        at = bisect_right(self._instants, thing.last_ms)
        spoken = self._instants[at] if at < len(self._instants) else _NEVER
        return min(spoken, self._clock.missed(thing.last_ms))


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) and abs(value) < 2**53 else None
