"""Rows of a recording: written where they differ from the last one of their key, and ended once.

Rows of a change table hold until the next one of their key. A row with an end stays open until
then: it is written when it begins, changes and ends, and the last writing counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpabatch.live.record.segments import Segment

Key = tuple[str | int, ...]
Values = tuple[object, ...]
Row = Mapping[str, Any]
"""A row by column, without the cluster."""

_CHANGES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "pod_states": (("namespace", "target", "uid"), ("phase", "ready", "last_transition")),
    "pod_requests": (
        ("namespace", "target", "uid", "container", "kind", "index"),
        ("cpu_milli", "memory_milli", "cpu_limit_milli", "memory_limit_milli"),
    ),
    "scales": (
        ("namespace", "target_kind", "target"),
        ("spec_replicas", "status_replicas", "selector", "error"),
    ),
    "hpa_status": (
        ("namespace", "name", "uid"),
        (
            "current_replicas", "desired_replicas", "current_metrics", "conditions",
            "last_scale_time", "observed_generation",
        ),
    ),
    "hpa_context": (("namespace", "name"), ("owner",)),
    "metric_fetches": (("namespace", "name", "metric_index"), ("answer", "error")),
}  # fmt: skip
"""Columns of the key, and of the values, of each change table."""
_TIMES: Final = {"pod_requests": "valid_from"}
_ENDS: Final = {"pods": "gone", "hpas": "valid_to", "provenance": "valid_to"}


class Rows:
    """The rows of one cluster, in the segment that is open now."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.segment = Segment(cluster)
        self._last: dict[str, dict[Key, Values]] = {table: {} for table in _CHANGES}
        self._open: dict[tuple[str, Key], Row] = {}

    # ---- change tables

    def put(self, table: str, key: Key, values: Values, at_ms: int) -> None:
        """Write what holds of a key from `at_ms` on, unless it is what held before."""
        if self._last[table].get(key) != values:
            self._last[table][key] = values
            self._write(table, key, values, at_ms)

    def last(self, table: str, key: Key) -> Values | None:
        """Return what holds of a key, None: nothing was written."""
        return self._last[table].get(key)

    def remember(self, table: str, key: Key, values: Values) -> None:
        """Note what the store's last row says of a key."""
        self._last[table][key] = values

    def forget(self, table: str, key: Key) -> bool:
        """Let the next values of a key be written, whatever they are; False: none were known."""
        return self._last[table].pop(key, None) is not None

    def _write(self, table: str, key: Key, values: Values, at_ms: int) -> None:
        keys, names = _CHANGES[table]
        row: dict[str, object] = dict(zip((*keys, *names), (*key, *values), strict=True))
        self.segment.table(table).add(**row, **{_TIMES.get(table, "ts"): at_ms})

    # ---- rows with an end

    def begin(self, table: str, key: Key, row: Row) -> None:
        """Write a row that is open from now on, or has changed."""
        if row != self._open.get((table, key)):
            self._open[table, key] = row
            self.segment.table(table).add(**row)

    def resume(self, table: str, key: Key, row: Row) -> None:
        """Take an open row of the store."""
        self._open[table, key] = row

    def open_row(self, table: str, key: Key) -> Row | None:
        """Return the open row of a key."""
        return self._open.get((table, key))

    def end(self, table: str, key: Key, at_ms: int) -> None:
        """Write the end of an open row."""
        row = self._open.pop((table, key))
        self.segment.table(table).add(**{**row, _ENDS[table]: at_ms})

    # ---- segments

    def take(self) -> Segment:
        """Return the segment so far, and begin another."""
        found, self.segment = self.segment, Segment(self.cluster)
        return found
