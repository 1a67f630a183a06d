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

from hpabatch.history.reader import History
from hpabatch.layout.records import I8, I64
from hpabatch.model.selectors import parse_selector

NEVER_MS, ALWAYS_MS = 2**62, -(2**62)

CUSTOM_WINDOW_MS = 60_000  # metrics/client.go: what a custom metric without a window has
MILLI_PER_BYTE = 1000
LACKING = -1  # a sample without the container that is asked for
GONE = -2  # one that says that there is none any more

SAMPLE_TABLES = ("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics")
CUSTOM_KEY = ["metric", "selector"]
OBJECT_KEY = ["cluster", "namespace", "kind", "name", "metric", "selector"]
EXTERNAL_KEY = ["cluster", "namespace", "metric", "selector"]


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

    `seen_ms` is when a sample becomes visible, `ts_ms` when it was taken; `present` is 1, 0 where
    the resource is missing, LACKING or GONE.
    """

    first: I64
    ts_ms: I64
    seen_ms: I64
    window_ms: I64
    present: I8
    value_milli: I64


@dataclass(frozen=True, slots=True)
class ScaleColumns:
    """The recorded scale of one target, sorted by time; selector numbers into `selectors`.

    `error` is "" where it was read.
    """

    ts_ms: I64
    replicas: I64
    status_replicas: I64
    selector: I64
    selectors: tuple[str | None, ...]
    error: list[str]


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


class KeyedRows:
    """A frame sorted by some columns first: the rows of each key lie together and are found once.

    A fleet asks thousands of times; filtering the whole table each time took 5 ms per million rows.
    """

    def __init__(self, frame: pl.DataFrame, keys: list[str]) -> None:
        """Find where each distinct key begins."""
        self.frame = frame
        starts = _group_starts(frame, keys)
        lengths = np.diff(np.append(starts, frame.height)).tolist()
        found = frame.select(keys)[starts].rows()
        self._slices = dict(zip(found, zip(starts.tolist(), lengths, strict=True), strict=True))

    def rows(self, *key: str) -> pl.DataFrame:
        """Return the rows of one key, none if there is no such key."""
        return self.frame.slice(*self._slices.get(key, (0, 0)))


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
        rows = history.read("pods")
        frame = rows.unique(["cluster", "uid"], keep="last", maintain_order=True)
        frame = frame.with_row_index("p")
        self._numbers = frame.select("cluster", "uid", "p")
        self.pods = _pods(frame)
        self.count = len(self.pods.name)
        self.states = self._by_pod(history.read("pod_states"), ["ts"])
        self.state_first = positions(integers(self.states["p"]), self.count)
        self.state_ms = milliseconds(self.states["ts"])
        self.state_values = _state_values(self.states)
        self.requests = self._by_pod(history.read("pod_requests"), ["valid_from"])
        self.request_first = positions(integers(self.requests["p"]), self.count)
        self._recorded = [history.read(table) for table in SAMPLE_TABLES]
        self.usage = self._by_pod(self._recorded[0], ["ts", "container"])
        custom = self._by_pod(self._recorded[1], ["ts"])
        custom = custom.sort(CUSTOM_KEY, maintain_order=True)
        self.custom = KeyedRows(custom, CUSTOM_KEY)
        self.object = KeyedRows(self._recorded[2], OBJECT_KEY)
        self.external = KeyedRows(self._recorded[3], EXTERNAL_KEY)
        self.scales = _scales(history.read("scales"))
        self._usage_cache: dict[tuple[str, str], SampleColumns] = {}
        self._custom_cache: dict[tuple[str, str], SampleColumns] = {}
        self._labels: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = {}

    def _by_pod(self, frame: pl.DataFrame, order: list[str]) -> pl.DataFrame:
        """Return a table's rows of known pods, numbered and sorted by pod."""
        numbered = frame.join(self._numbers, on=["cluster", "uid"], how="inner")
        return numbered.sort("p", *order, maintain_order=True)

    def span_ms(self) -> tuple[int, int]:
        """Return when the first and the last sample of anything become visible."""
        seen = np.concatenate([_seen_ms(frame, self.delay_ms) for frame in self._recorded])
        return int(seen.min()), int(seen.max())

    def pod_samples(self, resource: str, container: str) -> SampleColumns:
        """Return pods' usage of cpu or memory, of one container or ("") of all together."""
        key = (resource, container)
        if key not in self._usage_cache:
            self._usage_cache[key] = self._sum_usage(resource, container)
        return self._usage_cache[key]

    def _sum_usage(self, resource: str, container: str) -> SampleColumns:
        """Return one sample per pod and time; LACKING where the container has no row in it."""
        rows = self.usage
        starts = _group_starts(rows, ["p", "ts"])
        pod, ts = integers(rows["p"])[starts], milliseconds(rows["ts"])[starts]
        amount = rows["cpu_milli"] if resource == "cpu" else rows["memory_bytes"]
        known = amount.is_not_null().to_numpy().astype(np.int8)
        if resource not in ("cpu", "memory"):
            known = np.zeros_like(known)
        scale = 1 if resource == "cpu" else MILLI_PER_BYTE
        chosen = np.arange(rows.height)
        if container:
            chosen = np.flatnonzero((rows["container"] == container).to_numpy())
        sample = np.searchsorted(starts, chosen, side="right") - 1
        count = np.bincount(sample, minlength=starts.size)
        lacking = np.bincount(sample, weights=known[chosen] == 0, minlength=starts.size)
        present = np.where(count == 0, LACKING, lacking == 0).astype(np.int8)
        either = rows["cpu_milli"].is_not_null() | rows["memory_bytes"].is_not_null()
        if starts.size:
            said = np.add.reduceat(either.to_numpy().astype(np.int64), starts)
            present = np.where(said == 0, GONE, present).astype(np.int8)
        total = np.zeros(starts.size, np.int64)
        np.add.at(total, sample, (integers(amount) * scale)[chosen])
        fetched = milliseconds(rows["fetched_at"], ALWAYS_MS)
        seen = np.maximum.reduceat(fetched, starts) if starts.size else fetched
        return SampleColumns(
            first=positions(pod, self.count),
            ts_ms=ts,
            seen_ms=np.where(seen == ALWAYS_MS, ts + self.delay_ms, seen),
            window_ms=integers(rows["window_ms"])[starts],
            present=present,
            value_milli=total * (present > 0),
        )

    def custom_samples(self, metric: str, selector: str) -> SampleColumns:
        """Return pods' samples of a Pods metric; `selector` in Kubernetes' string form."""
        key = (metric, selector)
        if key not in self._custom_cache:
            rows = self.custom.rows(*key)
            first = positions(integers(rows["p"]), self.count)
            window_ms = integers(rows["window_ms"], CUSTOM_WINDOW_MS)
            self._custom_cache[key] = self._plain(rows, first, window_ms)
        return self._custom_cache[key]

    def object_samples(
        self, place: tuple[str, str], kind: str, name: str, metric: str, selector: str
    ) -> SampleColumns:
        """Return the samples of an Object metric in (cluster, namespace): one owner, or none."""
        return self._series(self.object.rows(*place, kind, name, metric, selector), "name")

    def external_samples(self, place: tuple[str, str], metric: str, selector: str) -> SampleColumns:
        """Return the samples of an External metric in (cluster, namespace), an owner per series."""
        return self._series(self.external.rows(*place, metric, selector), "series")

    def _series(self, rows: pl.DataFrame, column: str) -> SampleColumns:
        """Return samples sorted by a column and time, one owner per value of that column."""
        first = np.append(_group_starts(rows, [column]), rows.height)
        return self._plain(rows, first, np.zeros(rows.height, np.int64))

    def _plain(self, rows: pl.DataFrame, first: I64, window_ms: I64) -> SampleColumns:
        return SampleColumns(
            first=first,
            ts_ms=milliseconds(rows["ts"]),
            seen_ms=_seen_ms(rows, self.delay_ms),
            window_ms=window_ms,
            present=np.where(rows["value_milli"].is_null().to_numpy(), GONE, 1).astype(np.int8),
            value_milli=integers(rows["value_milli"]),
        )

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


def _seen_ms(rows: pl.DataFrame, delay_ms: int) -> I64:
    """Return when samples become visible: at their fetch, else `delay_ms` after their time."""
    fetched = milliseconds(rows["fetched_at"], ALWAYS_MS)
    return np.where(fetched == ALWAYS_MS, milliseconds(rows["ts"]) + delay_ms, fetched)


def _group_starts(frame: pl.DataFrame, keys: list[str]) -> I64:
    """Return the positions at which the key of neighbouring rows changes, the first included."""
    owner = integers(frame.select(pl.struct(keys).rle_id()).to_series().cast(pl.Int64))
    return np.flatnonzero(np.diff(owner, prepend=-1)).astype(np.int64)


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
    starts = _group_starts(frame, keys)
    ts_ms, texts = milliseconds(frame["ts"]), frame["selector"].to_list()
    replicas, status = integers(frame["spec_replicas"]), integers(frame["status_replicas"])
    found = {}
    ends = np.append(starts, frame.height)[1:]
    for key, first, last in zip(frame.select(keys)[starts].rows(), starts, ends, strict=True):
        selectors = tuple(dict.fromkeys(texts[first:last]))
        number = {text: k for k, text in enumerate(selectors)}
        found[(str(key[0]), str(key[1]), str(key[2]), str(key[3]))] = ScaleColumns(
            ts_ms=ts_ms[first:last],
            replicas=replicas[first:last],
            status_replicas=status[first:last],
            selector=np.array([number[text] for text in texts[first:last]], np.int64),
            selectors=selectors,
            error=frame["error"].fill_null("").to_list()[first:last],
        )
    return found
