"""Answers to queries about the made-up fleet, as Prometheus 2.42 gives them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.prometheus_standin_bytes import cpu_rows, flat, gauge_rows, memory_rows
from benchmarks.prometheus_standin_fleet import MINUTE_MS, SCRAPE_MS, Fleet, Ints
from benchmarks.prometheus_standin_promql import (
    Aggregation,
    Expression,
    OverTime,
    Selector,
    parse,
)
from benchmarks.prometheus_standin_series import (
    CPU,
    METRICS,
    Gauge,
    Labels,
    Series,
    Subject,
    Usage,
    subjects,
)

LOOKBACK_MS: Final = 300_000
NEVER: Final = 1 << 40
Chunk = bytes | memoryview


class TooManyError(Exception):
    """Prometheus would answer 422: the query loads too many samples."""


@dataclass(slots=True)
class Body:
    """An answer, in pieces, and how many samples it has."""

    chunks: list[Chunk]
    samples: int = 0
    raw: Counter[str] = field(default_factory=Counter)
    """Raw samples by metric."""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return sum(len(chunk) for chunk in self.chunks)


@dataclass
class Answers:
    """What answers.

    Attributes:
        fleet: of whom.
        max_samples: more are refused.
        left_open: a range, and the time looked back, leave their first instant out, as in
            Prometheus 3.
    """

    fleet: Fleet
    max_samples: int = 50_000_000
    left_open: bool = False
    _everyone: dict[str, list[Subject]] = field(init=False)
    _named: dict[str, dict[str, list[Subject]]] = field(init=False)

    def __post_init__(self) -> None:
        """Find everybody."""
        self._everyone = subjects(self.fleet)
        self._named = {}
        for label, listed in self._everyone.items():
            named: dict[str, list[Subject]] = {}
            for one in listed:
                named.setdefault(one.name, []).append(one)
            self._named[label] = named

    # ---- the HTTP API's questions

    def query(self, text: str, at_ms: int) -> Body:
        """Return the answer to an instant query.

        Raises:
            QueryError: it is none that is understood here.
            TooManyError: it loads too many samples.
        """
        expression = parse(text)
        if isinstance(expression, Selector) and expression.range_ms is not None:
            return self._matrix(expression, at_ms)
        vector = self._vector(expression, at_ms)
        time = _seconds(at_ms)
        parts = [
            b'{"metric":%s,"value":[%s,"%s"]}' % (_json(labels), time, value.encode())
            for labels, value in vector
        ]
        head = b'{"status":"success","data":{"resultType":"vector","result":['
        return Body([head, b",".join(parts), b"]}}"], len(parts))

    def query_range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Body:
        """Return the values of an instant query at every step."""
        expression = parse(text)
        found: dict[str, tuple[Labels, list[bytes]]] = {}
        for at in range(start_ms, end_ms + 1, step_ms):
            for labels, value in self._vector(expression, at):
                _, values = found.setdefault(json.dumps(labels, sort_keys=True), (labels, []))
                values.append(b'[%s,"%s"]' % (_seconds(at), value.encode()))
        parts = [
            b'{"metric":%s,"values":[%s]}' % (_json(labels), b",".join(values))
            for _, (labels, values) in sorted(found.items())
        ]
        head = b'{"status":"success","data":{"resultType":"matrix","result":['
        count = sum(len(values) for _, values in found.values())
        return Body([head, b",".join(parts), b"]}}"], count)

    def series(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[Labels]:
        """Return the labels of series that have samples in a time."""
        found: dict[str, Labels] = {}
        for text in matchers:
            selector = parse(text)
            assert isinstance(selector, Selector)
            for series in self._select(selector, start_ms, end_ms):
                found[json.dumps(series.labels, sort_keys=True)] = series.labels
        return list(found.values())

    # ---- finding series

    def _select(self, selector: Selector, from_ms: int, until_ms: int) -> Iterator[Series]:
        """Generate the series of a selector that have a sample in a time, both ends included."""
        named = [one for one in selector.matchers if one.label == "__name__"]
        others = [one for one in selector.matchers if one.label != "__name__"]
        for name, metric in METRICS.items():
            if not all(one.fits(name) for one in named):
                continue
            for subject in self._subjects(selector, metric.label, from_ms, until_ms):
                for series in metric.make(self.fleet, subject):
                    labels = series.labels
                    if all(one.fits(labels.get(one.label, "")) for one in others) and any(
                        True for _ in self._inside(series, from_ms, until_ms)
                    ):
                        yield series

    def _subjects(
        self, selector: Selector, label: str, from_ms: int, until_ms: int
    ) -> Iterator[Subject]:
        names = selector.wanted(label) if label else None
        spaces = selector.wanted("namespace")
        if names is not None:
            listed = [one for name in names for one in self._named[label].get(name, ())]
        else:
            listed = self._everyone[label]
        first = (from_ms - self.fleet.start_ms) // MINUTE_MS - 1
        last = (until_ms - self.fleet.start_ms) // MINUTE_MS + 1
        for one in listed:
            if spaces is not None and one.namespace not in spaces:
                continue
            if one.pod is None or (one.pod.first <= last and one.pod.last >= first):
                yield one

    def _inside(
        self, series: Series, from_ms: int, until_ms: int
    ) -> Iterator[tuple[int, int, str]]:
        """Generate the stretches of minutes (last exclusive) with samples in a time."""
        if isinstance(series, Usage):
            low, high = self._usage_bounds(series, from_ms, until_ms)
            if low < high:
                yield low, high, ""
            return
        scrapes = self.fleet.start_ms + SCRAPE_MS
        first = max(0, -(-(from_ms - scrapes) // MINUTE_MS))
        last = min(self.fleet.minutes, (until_ms - scrapes) // MINUTE_MS + 1)
        for begin, end, value in series.steps:
            if begin < last and end > first:
                yield max(begin, first), min(end, last), value

    def _usage_bounds(self, series: Usage, from_ms: int, until_ms: int) -> tuple[int, int]:
        """Return the first minute, and the last one (exclusive), of samples in a time."""
        number, sample_ms = series.pod.number, self.fleet.sample_ms
        low = max(series.first, (from_ms - self.fleet.start_ms) // MINUTE_MS - 1)
        while low < series.last and sample_ms(number, low) < from_ms:
            low += 1
        high = min(series.last, (until_ms - self.fleet.start_ms) // MINUTE_MS + 2)
        while high > low and sample_ms(number, high - 1) > until_ms:
            high -= 1
        return low, high

    # ---- instant vectors

    def _vector(self, expression: Expression, at_ms: int) -> list[tuple[Labels, str]]:
        if isinstance(expression, Aggregation):
            return _aggregated(expression, self._vector(expression.of, at_ms))
        if isinstance(expression, OverTime):
            return list(self._over_time(expression, at_ms))
        return list(self._now(expression, at_ms))

    def _now(self, selector: Selector, at_ms: int) -> Iterator[tuple[Labels, str]]:
        from_ms = at_ms - LOOKBACK_MS + int(self.left_open)
        for series in self._select(selector, from_ms, at_ms):
            *_, (_, last, value) = self._inside(series, from_ms, at_ms)
            if isinstance(series, Usage):
                yield series.labels, self.printed(series, np.array([last - 1]))[0]
            elif last == self.fleet.minutes or self.scrape_ms(last) > at_ms:
                yield series.labels, value  # else a scrape without it came: it is stale

    def scrape_ms(self, minute: int) -> int:
        return self.fleet.start_ms + SCRAPE_MS + minute * MINUTE_MS

    def _over_time(self, call: OverTime, at_ms: int) -> Iterator[tuple[Labels, str]]:
        assert call.of.range_ms is not None
        from_ms = at_ms - call.of.range_ms + int(self.left_open)
        loaded = 0
        for series in self._select(call.of, from_ms, at_ms):
            stretches = list(self._inside(series, from_ms, at_ms))
            count = sum(last - first for first, last, _ in stretches)
            loaded += count
            if loaded > self.max_samples:
                raise TooManyError
            if isinstance(series, Usage):
                first, last, _ = stretches[0]
                texts = self.printed(series, np.arange(first, last))
            else:
                texts = [value for _, _, value in stretches]
            labels = series.labels
            if call.name != "last_over_time":
                labels = {name: text for name, text in labels.items() if name != "__name__"}
            yield labels, _OVER_TIME[call.name](texts, count)

    def _values(self, series: Usage, minutes: Ints) -> Ints:
        number = np.full(len(minutes), series.pod.number)
        if series.labels["__name__"] == CPU:
            restarted = NEVER if series.pod.restarted is None else series.pod.restarted
            restarts = np.full(len(minutes), restarted)
            return self.fleet.usage_us(number, minutes, restarts)
        return self.fleet.memory_bytes(number, minutes)

    def printed(self, series: Usage, minutes: Ints) -> list[str]:
        values = self._values(series, minutes) * series.factor
        if series.labels["__name__"] != CPU:
            return [str(value) for value in values]
        return [f"{value // 1_000_000}.{value % 1_000_000:06d}" for value in values]

    # ---- raw samples

    def _matrix(self, selector: Selector, at_ms: int) -> Body:
        assert selector.range_ms is not None
        from_ms = at_ms - selector.range_ms + int(self.left_open)
        chosen = list(self._select(selector, from_ms, at_ms))
        usage = [one for one in chosen if isinstance(one, Usage)]
        gauges = [one for one in chosen if isinstance(one, Gauge)]
        body = Body([b'{"status":"success","data":{"resultType":"matrix","result":['])
        for series in gauges:
            parts: list[Chunk] = []
            for first, last, value in self._inside(series, from_ms, at_ms):
                rows, length = gauge_rows(self.fleet, value)
                parts.append(rows[first * length : last * length])
                self._count(body, series, last - first)
            self._add(body, series.labels, parts)
        for name in sorted({one.labels["__name__"] for one in usage}):
            self._add_usage(
                body, [u for u in usage if u.labels["__name__"] == name], from_ms, at_ms
            )
        body.chunks.append(b"]}}")
        return body

    def _count(self, body: Body, series: Series, samples: int) -> None:
        body.samples += samples
        body.raw[series.labels["__name__"]] += samples

    def _add(self, body: Body, labels: Labels, parts: list[Chunk]) -> None:
        """Add a series to an answer; each row of its parts ends in a comma."""
        if body.samples > self.max_samples:
            raise TooManyError
        comma = b"," if len(body.chunks) > 1 else b""
        body.chunks += [comma + b'{"metric":%s,"values":[' % _json(labels), *parts[:-1]]
        body.chunks += [parts[-1][:-1], b"]}"]

    def _add_usage(self, body: Body, usage: list[Usage], from_ms: int, until_ms: int) -> None:
        bounds = [self._usage_bounds(one, from_ms, until_ms) for one in usage]
        low, high = np.array(bounds, np.int64).reshape(-1, 2).T
        if body.samples + int((high - low).sum()) > self.max_samples:
            raise TooManyError
        for factor in sorted({one.factor for one in usage}):
            chosen = [k for k, one in enumerate(usage) if one.factor == factor]
            self._add_rows(body, [usage[k] for k in chosen], low[chosen], high[chosen])

    def _add_rows(self, body: Body, usage: list[Usage], low: Ints, high: Ints) -> None:
        count = high - low
        ends = np.cumsum(count)
        number = np.repeat([one.pod.number for one in usage], count)
        minute = np.arange(ends[-1]) - np.repeat(ends - count - low, count)
        ts = self.fleet.sample_ms(number, minute)
        if usage[0].labels["__name__"] == CPU:
            restarts = [NEVER if u.pod.restarted is None else u.pod.restarted for u in usage]
            micros = self.fleet.usage_us(number, minute, np.repeat(restarts, count))
            rows = cpu_rows(ts, micros * usage[0].factor)
        else:
            rows = memory_rows(ts, self.fleet.memory_bytes(number, minute) * usage[0].factor)
        length, text = rows.shape[1], flat(rows)
        for one, first, last in zip(usage, ends - count, ends, strict=True):
            self._count(body, one, int(last - first))
            self._add(body, one.labels, [text[int(first) * length : int(last) * length]])


_OVER_TIME: Final[dict[str, Callable[[list[str], int], str]]] = {
    "last_over_time": lambda texts, count: texts[-1],
    "min_over_time": lambda texts, count: min(texts, key=float),
    "max_over_time": lambda texts, count: max(texts, key=float),
    "count_over_time": lambda texts, count: str(count),
    "present_over_time": lambda texts, count: "1",
}


def _aggregated(call: Aggregation, vector: list[tuple[Labels, str]]) -> list[tuple[Labels, str]]:
    groups: dict[tuple[str, ...], list[float]] = {}
    for labels, value in vector:
        key = tuple(labels.get(name, "") for name in call.by)
        groups.setdefault(key, []).append(float(value))
    made: dict[str, Callable[[list[float]], float]] = {
        "count": len, "group": lambda values: 1, "sum": sum, "min": min, "max": max,
    }  # fmt: skip
    return [
        (
            {name: text for name, text in zip(call.by, key, strict=True) if text},
            f"{made[call.name](values):.15g}",
        )
        for key, values in sorted(groups.items())
    ]


def _json(labels: Labels) -> bytes:
    return json.dumps(labels, separators=(",", ":")).encode()


def _seconds(ms: int) -> bytes:
    return (f"{ms // 1000}" if ms % 1000 == 0 else f"{ms / 1000:.3f}".rstrip("0")).encode()
