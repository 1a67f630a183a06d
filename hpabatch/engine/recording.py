"""A history's tables as columns by pod and by target: what the plain alignment looks things up in.

Everything is sorted once; a pod is a number, and its rows of any table lie together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from hpabatch.arrays.layout import I8, I64
from hpabatch.engine.candidates import ALWAYS_MS, NEVER_MS
from hpabatch.history.reader import History
from hpabatch.kernels.usage import sum_containers
from hpabatch.model.selectors import parse_selector

CUSTOM_WINDOW_MS = 60_000  # metrics/client.go: what a custom metric without a window has
MILLI_PER_BYTE = 1000


def milliseconds(column: pl.Series, absent: int = NEVER_MS) -> I64:
    """Return a time column as ms since 1970, nulls as `absent`."""
    return column.to_physical().fill_null(absent).to_numpy().astype(np.int64)


def integers(column: pl.Series, absent: int = 0) -> I64:
    """Return a whole-number column, nulls as `absent`."""
    return column.fill_null(absent).to_numpy().astype(np.int64)


def positions(keys: I64, count: int) -> I64:
    """Return where the rows of key k begin in a sorted column of keys, shape (count + 1,)."""
    return np.searchsorted(keys, np.arange(count + 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples sorted by owner (a pod, or a series) and time; owner k has first[k]:first[k+1].

    `seen_ms` is when a sample becomes visible, `ts_ms` when it was taken.
    """

    first: I64
    ts_ms: I64
    seen_ms: I64
    window_ms: I64
    present: I8
    value_milli: I64


@dataclass(frozen=True, slots=True)
class ScaleColumns:
    """The recorded scale of one target, sorted by time; selector numbers into `selectors`."""

    ts_ms: I64
    replicas: I64
    status_replicas: I64
    selector: I64
    selectors: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class PodColumns:
    """All pods, one row each; times in ms, NEVER_MS where a thing never happened."""

    name: list[str]
    labels: list[str]
    created_ms: I64
    started_ms: I64
    deleted_ms: I64
    gone_ms: I64
    of_namespace: dict[tuple[str, str], I64]
    of_target: dict[tuple[str, str, str], I64]


class Recording:
    """The tables of a history, read, sorted and numbered.

    `delay_ms` is added to a sample's time where its fetch was not recorded.
    """

    def __init__(self, history: History, delay_ms: int) -> None:
        """Read everything but the `hpas` table.

        Raises:
            HistoryError: a table is missing or is not what the registry says.
        """
        self.delay_ms = delay_ms
        frame = history.read("pods").with_row_index("p")
        self._numbers = frame.select("cluster", "uid", "p")
        self.pods = _pods(frame)
        self.count = len(self.pods.name)
        self.states = self._by_pod(history.read("pod_states"), ["ts"])
        self.state_first = positions(integers(self.states["p"]), self.count)
        self.state_ms = milliseconds(self.states["ts"])
        self.state_values = _state_values(self.states)
        self.requests = self._by_pod(history.read("pod_requests"), ["valid_from"])
        self.request_first = positions(integers(self.requests["p"]), self.count)
        usage = history.read("pod_metrics")
        self.usage = self._by_pod(usage, ["ts", "container"])
        self.strays = usage.height - self.usage.height
        self.custom = self._by_pod(history.read("pod_custom_metrics"), ["metric", "ts"])
        self.object = history.read("object_metrics")
        self.external = history.read("external_metrics")
        self.scales = _scales(history.read("scales"))
        self._usage_cache: dict[tuple[str, str], SampleColumns] = {}
        self._labels: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = {}

    def _by_pod(self, frame: pl.DataFrame, order: list[str]) -> pl.DataFrame:
        """Return a table's rows of known pods, numbered and sorted by pod."""
        numbered = frame.join(self._numbers, on=["cluster", "uid"], how="inner")
        return numbered.sort("p", *order, maintain_order=True)

    def span_ms(self) -> tuple[int, int] | None:
        """Return the times of the first and last sample of any kind, None without samples."""
        ends = [
            (int(t.min()), int(t.max()))
            for f in (self.usage, self.custom, self.object, self.external)
            if (t := milliseconds(f["ts"])).size
        ]
        return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else None

    def sample_spacing_ms(self) -> int:
        """Return the median time between two samples of one pod (or series); 0 if unknown."""
        steps = [
            _steps(integers(self.usage["p"]), milliseconds(self.usage["ts"])),
            _steps(integers(self.custom["p"]), milliseconds(self.custom["ts"])),
        ]
        for frame in (self.object, self.external):
            rows = frame.sort("metric", "ts")
            names = rows["metric"].rank("dense").cast(pl.Int64)
            steps.append(_steps(integers(names), milliseconds(rows["ts"])))
        known = np.concatenate(steps)
        return int(np.median(known)) if known.size else 0

    def pod_samples(self, resource: str, container: str) -> SampleColumns:
        """Return pods' usage of cpu or memory, of one container or ("") of all together."""
        key = (resource, container)
        if key not in self._usage_cache:
            self._usage_cache[key] = self._sum_usage(resource, container)
        return self._usage_cache[key]

    def _sum_usage(self, resource: str, container: str) -> SampleColumns:
        rows = self.usage
        if container:
            rows = rows.filter(pl.col("container") == container)
        pod, ts = integers(rows["p"]), milliseconds(rows["ts"])
        starts = np.flatnonzero(np.diff(pod, prepend=-1) | np.diff(ts, prepend=-1))
        amount = rows["cpu_milli"] if resource == "cpu" else rows["memory_bytes"]
        known = amount.is_not_null().to_numpy().astype(np.int8)
        if resource not in ("cpu", "memory"):
            known = np.zeros_like(known)
        scale = 1 if resource == "cpu" else MILLI_PER_BYTE
        present, total = np.zeros(starts.size, np.int8), np.zeros(starts.size, np.int64)
        first = np.append(starts, pod.size).astype(np.int64)
        sum_containers(first, known, integers(amount) * scale, present, total)
        fetched = np.maximum(milliseconds(rows["fetched_at"], ALWAYS_MS), ALWAYS_MS)
        seen = np.maximum.reduceat(fetched, starts) if starts.size else fetched
        return SampleColumns(
            first=positions(pod[starts], self.count),
            ts_ms=ts[starts],
            seen_ms=np.where(seen == ALWAYS_MS, ts[starts] + self.delay_ms, seen),
            window_ms=integers(rows["window_ms"])[starts],
            present=present,
            value_milli=total,
        )

    def custom_samples(self, metric: str, selector: str) -> SampleColumns:
        """Return pods' samples of a Pods metric; `selector` in Kubernetes' string form."""
        rows = _of_metric(self.custom, metric, selector).sort("p", "ts", maintain_order=True)
        first = positions(integers(rows["p"]), self.count)
        return self._plain(rows, first, integers(rows["window_ms"], CUSTOM_WINDOW_MS))

    def series(self, rows: pl.DataFrame, column: str) -> SampleColumns:
        """Return the samples of an Object or External metric, one owner per value of `column`."""
        rows = rows.sort(column, "ts", maintain_order=True)
        number = integers(rows[column].rank("dense").cast(pl.Int64)) - 1
        count = int(number.max()) + 1 if number.size else 0
        return self._plain(rows, positions(number, count), np.zeros(number.size, np.int64))

    def _plain(self, rows: pl.DataFrame, first: I64, window_ms: I64) -> SampleColumns:
        ts, fetched = milliseconds(rows["ts"]), milliseconds(rows["fetched_at"], ALWAYS_MS)
        return SampleColumns(
            first=first,
            ts_ms=ts,
            seen_ms=np.where(fetched == ALWAYS_MS, ts + self.delay_ms, fetched),
            window_ms=window_ms,
            present=np.ones(ts.size, np.int8),
            value_milli=integers(rows["value_milli"]),
        )

    def object_rows(
        self, place: tuple[str, str], kind: str, name: str, metric: str, selector: str
    ) -> pl.DataFrame:
        """Return the samples of an Object metric in (cluster, namespace)."""
        rows = _in_place(self.object, place).filter(
            (pl.col("kind") == kind) & (pl.col("name") == name)
        )
        return _of_metric(rows, metric, selector)

    def external_rows(self, place: tuple[str, str], metric: str, selector: str) -> pl.DataFrame:
        """Return the samples of an External metric in (cluster, namespace)."""
        return _of_metric(_in_place(self.external, place), metric, selector)

    def pods_of(self, place: tuple[str, str], target: str, selector: str | None) -> I64:
        """Return the pods that a scale's selector matches, or the target's own without one."""
        if selector is None:
            return self.pods.of_target.get((*place, target), np.zeros(0, np.int64))
        if selector == "":
            return np.zeros(0, np.int64)
        try:
            parsed = parse_selector(selector)
        except ValueError:
            return np.zeros(0, np.int64)
        index = self._label_index(place)
        equal = [r for r in parsed.requirements if r.operator in ("=", "==")]
        everyone = self.pods.of_namespace.get(place, np.zeros(0, np.int64))
        pods: Sequence[int] | I64 = everyone
        if equal:
            pods = index.get((equal[0].key, equal[0].values[0]), [])
        return np.array(
            [p for p in pods if parsed.matches(_label_map(self.pods.labels[p]))], np.int64
        )

    def _label_index(self, place: tuple[str, str]) -> dict[tuple[str, str], list[int]]:
        if place not in self._labels:
            index: dict[tuple[str, str], list[int]] = {}
            for p in self.pods.of_namespace.get(place, np.zeros(0, np.int64)).tolist():
                for label in _label_map(self.pods.labels[p]).items():
                    index.setdefault(label, []).append(p)
            self._labels[place] = index
        return self._labels[place]


StateValue = tuple[str, str | None, int | None]


def _state_values(states: pl.DataFrame) -> list[StateValue]:
    """Return (phase, ready, last transition in ms) of each row."""
    return list(
        zip(
            states["phase"].to_list(),
            states["ready"].to_list(),
            states["last_transition"].to_physical().to_list(),
            strict=True,
        )
    )


@lru_cache(maxsize=100_000)
def _label_map(text: str) -> dict[str, str]:
    """Return labels from their JSON text; the pods of a workload share a handful of texts."""
    return {str(key): str(value) for key, value in json.loads(text).items()}


def _steps(owner: I64, ts_ms: I64) -> I64:
    """Return the positive time steps between neighbouring rows of one owner."""
    steps = np.diff(ts_ms)[np.diff(owner) == 0]
    return steps[steps > 0]


def _in_place(frame: pl.DataFrame, place: tuple[str, str]) -> pl.DataFrame:
    cluster, namespace = place
    return frame.filter((pl.col("cluster") == cluster) & (pl.col("namespace") == namespace))


def _of_metric(frame: pl.DataFrame, metric: str, selector: str) -> pl.DataFrame:
    return frame.filter((pl.col("metric") == metric) & (pl.col("selector") == selector))


def _groups(frame: pl.DataFrame, columns: list[str], values: I64) -> dict[tuple[str, ...], I64]:
    """Return `values` by the distinct rows of some columns, in order."""
    found: dict[tuple[str, ...], list[int]] = {}
    for key, value in zip(frame.select(columns).iter_rows(), values.tolist(), strict=True):
        found.setdefault(key, []).append(value)
    return {key: np.array(rows, np.int64) for key, rows in found.items()}


def _pods(frame: pl.DataFrame) -> PodColumns:
    numbers = integers(frame["p"].cast(pl.Int64))
    by_place = _groups(frame, ["cluster", "namespace"], numbers)
    owned = frame.filter(pl.col("target").is_not_null())
    by_target = _groups(
        owned, ["cluster", "namespace", "target"], integers(owned["p"].cast(pl.Int64))
    )
    return PodColumns(
        name=frame["pod"].to_list(),
        labels=frame["labels"].to_list(),
        created_ms=milliseconds(frame["created"]),
        started_ms=milliseconds(frame["started"]),
        deleted_ms=milliseconds(frame["deletion_requested"]),
        gone_ms=milliseconds(frame["gone"]),
        of_namespace={(k[0], k[1]): v for k, v in by_place.items()},
        of_target={(k[0], k[1], k[2]): v for k, v in by_target.items()},
    )


def _scales(frame: pl.DataFrame) -> dict[tuple[str, str, str, str], ScaleColumns]:
    keys = ["cluster", "namespace", "target_kind", "target"]
    found = {}
    for key, rows in frame.partition_by(keys, as_dict=True, maintain_order=True).items():
        texts = rows["selector"].to_list()
        selectors = tuple(dict.fromkeys(texts))
        number = {text: k for k, text in enumerate(selectors)}
        found[(str(key[0]), str(key[1]), str(key[2]), str(key[3]))] = ScaleColumns(
            ts_ms=milliseconds(rows["ts"]),
            replicas=integers(rows["spec_replicas"]),
            status_replicas=integers(rows["status_replicas"]),
            selector=np.array([number[text] for text in texts], np.int64),
            selectors=selectors,
        )
    return found
