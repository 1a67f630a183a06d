"""Rows of a recording: written where they differ from the last one of their key, and ended once.

Rows of a change table hold until the next one of their key. A row with an end stays open until
then: it is written when it begins, changes and ends, and the last writing counts.

While there is no memory for rows (`lose`), only the ends of rows whose beginning was written are
kept; `regain` writes the state of everything, as if nothing had been written before.
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
        self._open: dict[tuple[str, Key], tuple[int, Row]] = {}  # since when they were seen
        self._kept: Segment | None = None
        self._gap_ms = 0

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

    def begin(self, table: str, key: Key, row: Row, at_ms: int) -> None:
        """Write a row that is open from now on, or has changed."""
        began_ms, before = self._open.get((table, key), (at_ms, None))
        self._open[table, key] = began_ms, row
        if row != before:
            self.segment.table(table).add(**row)

    def resume(self, table: str, key: Key, row: Row) -> None:
        """Take an open row of the store."""
        self._open[table, key] = 0, row

    def open_row(self, table: str, key: Key) -> Row | None:
        """Return the open row of a key."""
        return self._open.get((table, key), (0, None))[1]

    def end(self, table: str, key: Key, at_ms: int) -> None:
        """Write the end of an open row."""
        began_ms, row = self._open.pop((table, key))
        ended = {**row, _ENDS[table]: at_ms}
        self.segment.table(table).add(**ended)
        if self._kept is not None and began_ms < self._gap_ms:
            self._kept.table(table).add(**ended)

    # ---- segments

    def take(self) -> Segment:
        """Return the segment so far, and begin another."""
        found, self.segment = self.segment, Segment(self.cluster)
        return found

    @property
    def is_losing(self) -> bool:
        """Whether rows are lost."""
        return self._kept is not None

    def lose(self, gap_ms: int) -> None:
        """Lose the rows from that time on, but the ends of those that began before."""
        self._kept, self._gap_ms = Segment(self.cluster), gap_ms

    def regain(self, at_ms: int) -> None:
        """Write the state of everything as of `at_ms`, after what was kept."""
        assert self._kept is not None
        self.segment, self._kept = self._kept, None
        for (table, _), (_, row) in self._open.items():
            self.segment.table(table).add(**row)
        self._last["metric_fetches"].clear()  # the next pass writes them, with their own times
        for table, known in self._last.items():
            for key, values in known.items():
                self._write(table, key, values, at_ms)
