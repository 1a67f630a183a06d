"""Samples of series: responses of a server, checked and decoded; spans of time and findings.

A complete response with status "success" may still be wrong: a proxy mixed up two responses, a
cache served another time, a store was absent. The checks need the response alone; after a failed
check the request is sent again (http.py). Samples are decoded series by series: as Python objects
they take five times the memory of their text.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.importers.prometheus.client.errors import InvalidResponseError

LAST_S = 4e9
"""Unix seconds after which no time is recorded (the year 2096)."""

POINTS = pl.Schema({"series": pl.UInt32(), "ts": pl.Int64(), "value": pl.Float64()})


@dataclass(frozen=True, slots=True)
class Span:
    """The instants that a window gives rows of: after_ms < ts <= until_ms (ms UTC).

    Raw samples are asked from `after_ms - lookback_ms` on, so that a difference, and whether a
    value is a change, do not depend on where windows are cut.
    """

    after_ms: int
    until_ms: int
    lookback_ms: int

    @property
    def from_ms(self) -> int:
        """From when on samples are asked."""
        return self.after_ms - self.lookback_ms


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of some series.

    Attributes:
        series: a row per series, in the order of their labels: `series` (UInt32, from 0) and a
            String column per label name, null where the series has no such label.
        points: `series`, `ts` (ms) and `value`, sorted by series and ts.
    """

    series: pl.DataFrame
    points: pl.DataFrame

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.points.height

    @property
    def names(self) -> list[str]:
        """The label names."""
        return self.series.columns[1:]

    def with_labels(self, names: Sequence[str]) -> Samples:
        """Return the same with a column for each of these labels at least."""
        absent = [name for name in names if name not in self.series.columns]
        added = [pl.lit(None, dtype=pl.String).alias(name) for name in absent]
        return Samples(self.series.with_columns(added), self.points)

    def joined(self, names: Sequence[str]) -> pl.DataFrame:
        """Return a row per sample: these labels, `ts` and `value`, in the points' order."""
        labels = self.with_labels(names).series.select("series", *names)
        return self.points.join(labels, on="series", how="left", maintain_order="left").select(
            *names, "ts", "value"
        )

    def cut(self, after_ms: int, until_ms: int) -> Samples:
        """Return the samples of after_ms < ts <= until_ms; series without any stay."""
        inside = (pl.col("ts") > after_ms) & (pl.col("ts") <= until_ms)
        return Samples(self.series, self.points.filter(inside))


def make_samples(labels: Sequence[Mapping[str, str]], points: pl.DataFrame) -> Samples:
    """Return samples with their series in the order of their labels.

    Args:
        labels: of each series; `points.series` are places in this list.
        points: see `Samples.points`, in any order of series, each series sorted by ts.
    """
    order = sorted(range(len(labels)), key=lambda place: sorted(labels[place].items()))
    names = sorted({name for one in labels for name in one})
    columns = {name: [labels[place].get(name) for place in order] for name in names}
    numbers = pl.Series("series", range(len(order)), dtype=pl.UInt32)
    series = pl.DataFrame([numbers, *(pl.Series(n, v, pl.String) for n, v in columns.items())])
    if order != list(range(len(order))):
        rank = [0] * len(order)
        for new, old in enumerate(order):
            rank[old] = new
        renamed = pl.Series(rank, dtype=pl.UInt32).gather(points["series"])
        points = points.with_columns(series=renamed).sort("series", maintain_order=True)
    return Samples(series, points)


def empty_samples() -> Samples:
    """Return samples of no series."""
    return make_samples([], pl.DataFrame(schema=POINTS))


def joined_samples(parts: Iterable[Samples]) -> Samples:
    """Return the samples of several responses as of one; of equal (series, ts) the last counts."""
    numbered: dict[tuple[tuple[str, str], ...], int] = {}
    frames = [pl.DataFrame(schema=POINTS)]
    for part in parts:
        places = []
        for row in part.series.drop("series").rows(named=True):
            key = tuple(sorted((n, v) for n, v in row.items() if v is not None))
            places.append(numbered.setdefault(key, len(numbered)))
        if part.count:
            mapped = pl.Series(places, dtype=pl.UInt32).gather(part.points["series"])
            frames.append(part.points.with_columns(series=mapped))
    whole = pl.concat(frames).unique(["series", "ts"], keep="last", maintain_order=True)
    return make_samples([dict(key) for key in numbered], whole.sort("series", "ts"))


@dataclass(slots=True)
class Findings:
    """What was noticed, counted by (kind, detail), e.g. ("reset", "namespace shop")."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, kind: str, detail: str = "", count: int = 1) -> None:
        """Count something; a count of 0 leaves no trace."""
        if count:
            self.counts[kind, detail] += count

    def add(self, other: Findings) -> None:
        """Add the counts of another part."""
        self.counts.update(other.counts)


Kind = Literal["vector", "matrix"]

_ANNOTATION: Final = re.compile(r"PromQL (info|warning)\b")
_BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ABSENT: Final = msgspec.Raw()
_SERIES: Final = POINTS.names()[0]
_POSITION: Final = re.compile(r"\s*\(\d+:\d+\)$")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a response must be.

    Attributes:
        from_ms: no sample is before (ms UTC). Prometheus 2 includes the left end of a range.
        until_ms: no sample is after.
        must: a label to the values of which every series has one.
        kind: the type of the result; None: a vector or a matrix.
        step_ms: samples stand this far from each other, at `from_ms` or at 0; 0: anywhere.
    """

    from_ms: int
    until_ms: int
    must: Mapping[str, Collection[str]] = field(default_factory=dict)
    kind: Kind | None = None
    step_ms: int = 0


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: msgspec.Raw = _ABSENT
    value: msgspec.Raw = _ABSENT
    histograms: msgspec.Raw = _ABSENT
    histogram: msgspec.Raw = _ABSENT


class _Result(msgspec.Struct):
    resultType: str = ""  # noqa: N815 - spelled as in the response
    result: msgspec.Raw = _ABSENT


class _Head(msgspec.Struct):
    status: str
    data: msgspec.Raw = _ABSENT
    error: str | None = None
    warnings: list[str] | None = None
    infos: list[str] | None = None
    isPartial: bool = False  # noqa: N815 - VictoriaMetrics, spelled as in the response


_HEAD = msgspec.json.Decoder(_Head)
_RESULT = msgspec.json.Decoder(_Result)
_LIST = msgspec.json.Decoder(list[_Series] | None)
_TEXTS = msgspec.json.Decoder(list[str])
_FACTS = msgspec.json.Decoder(dict[str, object])
_SAMPLE = msgspec.json.Decoder(tuple[float, str])
_SAMPLES = msgspec.json.Decoder(list[tuple[float, str]])
T = TypeVar("T")


def decode(body: bytes | bytearray, asked: Expected, findings: Findings | None = None) -> Samples:
    """Return the samples of a response to an instant or a range query.

    A label `series`, the name of a column, becomes `exported_series`.

    Args:
        body: JSON; NaN and infinite values come through.
        findings: where "annotation" (PromQL's remarks) and "histogram" (series of native
            histograms, whose histograms are left out) are counted.

    Raises:
        InvalidResponseError: the response is no JSON, does not match the request, or is partial.
    """
    noted = Findings()
    result = _decoded(_RESULT, _data(body, noted), "a query result")
    kind = result.resultType
    if kind not in ("vector", "matrix") or (asked.kind is not None and kind != asked.kind):
        said = f"{kind!r}" if kind else "no type"
        raise InvalidResponseError(f"expected {asked.kind or 'series'} in the response, got {said}")
    listed = _decoded(_LIST, result.result, "a query result") or []
    series = [one for one in listed if not _is_histogram(one, noted)]
    for one in series:
        if _SERIES in one.metric:  # the column of their numbers, and a rare label
            one.metric[f"exported_{_SERIES}"] = one.metric.pop(_SERIES)
    # In the order of `make_samples`, so that it need not sort the samples.
    series.sort(key=lambda one: sorted(one.metric.items()))
    metrics = [one.metric for one in series]
    for metric in metrics:
        for name, allowed in asked.must.items():
            value = metric.get(name, "")  # Prometheus: an absent label is an empty one
            if value not in allowed:
                raise InvalidResponseError(
                    f"{_named(metric)} was not asked for: {name} is {value!r}"
                )
    times, values, counts = _points(series, kind == "vector")
    _check_times(times, counts, metrics, asked)
    if findings is not None:
        findings.add(noted)
    numbers = np.repeat(np.arange(len(series), dtype=np.uint32), counts)
    columns = {"series": numbers, "ts": times.astype(np.int64), "value": values}
    samples = make_samples(metrics, pl.DataFrame(columns, schema=POINTS))
    _check_unique(samples)
    return samples


def decode_values(body: bytes | bytearray, findings: Findings | None = None) -> list[str]:
    """Return the values of a response that lists a label's values, each once, in order.

    Raises:
        InvalidResponseError: the response is no JSON, no list of strings, or partial.
    """
    data = _data(body, Findings() if findings is None else findings)
    texts: list[str] = _decoded(_TEXTS, data, "a list of label values")
    return sorted(set(texts))


def decode_facts(body: bytes | bytearray) -> dict[str, str]:
    """Return the build information of a response, e.g. the version; other values are left out.

    Raises:
        InvalidResponseError: the response is no JSON, or no build information.
    """
    facts = _decoded(_FACTS, _data(body, Findings()), "build information")
    return {name: value for name, value in facts.items() if isinstance(value, str)}


def _decoded(
    decoder: msgspec.json.Decoder[T], data: bytes | bytearray | msgspec.Raw, what: str
) -> T:
    try:
        return decoder.decode(data)
    except _BROKEN as error:
        raise InvalidResponseError(f"expected {what}, got another response: {error}") from None


def _data(body: bytes | bytearray, noted: Findings) -> msgspec.Raw:
    """Return the data of a successful and complete response."""
    head = _decoded(_HEAD, body, "the JSON of a Prometheus API")
    if head.status != "success":
        told = head.error or "without a reason"
        raise InvalidResponseError(
            f"expected status success in the response, got {head.status!r}: {told}"
        )
    for remark in [*(head.infos or []), *(head.warnings or [])]:
        if not _ANNOTATION.match(remark) and remark not in (head.infos or []):
            raise InvalidResponseError(f"the server warns that data may be missing: {remark}")
        noted.note("annotation", _POSITION.sub("", remark))
    if head.isPartial:
        raise InvalidResponseError("the server says that the response is partial")
    if not memoryview(head.data).nbytes:
        raise InvalidResponseError("the response holds no data")
    return head.data


def _is_histogram(one: _Series, noted: Findings) -> bool:
    """Count a series with native histograms; say whether it has nothing else."""
    if not any(memoryview(raw).nbytes for raw in (one.histograms, one.histogram)):
        return False
    noted.note("histogram", one.metric.get("__name__", ""))
    return not any(memoryview(raw).nbytes for raw in (one.values, one.value))


def _check_unique(samples: Samples) -> None:
    labels, count = samples.series.drop("series"), samples.series.height
    # Without any label a frame has no rows; no two series may be without.
    if count > max(labels.n_unique() if labels.width else 0, 1):
        twice = labels.filter(labels.is_duplicated()).row(0, named=True) if labels.width else {}
        told = _named({name: value for name, value in twice.items() if value is not None})
        raise InvalidResponseError(f"{told} comes twice")


def _named(metric: Mapping[str, str]) -> str:
    told = ", ".join(f"{k}={v!r}" for k, v in sorted(metric.items()) if k != "__name__")
    return f"series {metric.get('__name__', '')}{{{told}}}"[:300]


def _points(
    series: Sequence[_Series], vector: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the times (whole ms), the values, and how many of them each series has."""
    seconds, values, counts = array("d"), array("d"), array("q")
    for one in series:
        raw = one.value if vector else one.values
        if not memoryview(raw).nbytes:
            raise InvalidResponseError(f"{_named(one.metric)} has no samples of the result's type")
        try:
            if vector:  # of many series, one sample each
                time, value = _SAMPLE.decode(raw)
                seconds.append(time)
                values.append(float(value))
                counts.append(1)
                continue
            pairs = _SAMPLES.decode(raw)
            seconds.extend([time for time, _ in pairs])
            values.extend([float(value) for _, value in pairs])
            counts.append(len(pairs))
        except (*_BROKEN, ValueError) as error:
            raise InvalidResponseError(
                f"expected samples of a time and a number in quotes, got others in "
                f"{_named(one.metric)}: {error}"
            ) from None
    times = np.rint(np.frombuffer(seconds, np.float64) * 1000.0)
    return times, np.frombuffer(values, np.float64), np.frombuffer(counts, np.int64)


def _check_times(
    times: NDArray[np.float64],
    counts: NDArray[np.int64],
    metrics: Sequence[dict[str, str]],
    asked: Expected,
) -> None:
    """Check that times (ms) are within the request and ascend in each series."""

    def refuse(wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            place = int(np.argmax(wrong))
            number = int(np.searchsorted(np.cumsum(counts), place, side="right"))
            where = f"the sample at {times[place] / 1000:.3f} of {_named(metrics[number])}"
            raise InvalidResponseError(f"{where} {why}")

    # A comparison with NaN is false, so NaN counts as outside.
    outside = ~((times >= asked.from_ms) & (times <= asked.until_ms))
    told = f"the times are {asked.from_ms / 1000:.3f} to {asked.until_ms / 1000:.3f}"
    refuse(outside, f"was not asked for: {told}")
    if asked.step_ms:
        between = ~np.isin(times % asked.step_ms, (asked.from_ms % asked.step_ms, 0))
        refuse(between, f"was not asked for: {told} in steps of {asked.step_ms / 1000:g} s")
    back = np.diff(times, prepend=-np.inf) <= 0
    ends = np.cumsum(counts)
    back[ends[ends < len(times)]] = False  # where a series begins
    refuse(back, "does not come after the one before")
