"""What a recorded pod requests at a time, looked up row by row."""

from __future__ import annotations

from hpabatch.engine.fleet.requests import Row, request_of_rows
from hpabatch.model.requests import RequestRules
from tests.engine.plain.recording import Recording, milliseconds


class RequestLookup:
    """Requests of a recording's pods, valid from a time on (resizes in place)."""

    def __init__(self, recording: Recording, rules: RequestRules) -> None:
        """Take the rows out of the frame once; they are looked at pod by pod."""
        self.first = recording.request_first
        frame = recording.requests
        self.valid_from = milliseconds(frame["valid_from"])
        columns = ["container", "kind", "index", "cpu_milli", "memory_milli"]
        self.rows: list[Row] = list(frame.select(columns).iter_rows())
        self.rules = rules

    def change_times(self, p: int) -> list[int]:
        """Return the times in ms at which a pod's requests change."""
        first, last = int(self.first[p]), int(self.first[p + 1])
        return sorted(set(self.valid_from[first:last].tolist()))

    def request(self, p: int, ms: int, resource: str, container: str) -> tuple[int, int]:
        """Return (known 0/1, milli) of a pod's request at a time.

        Before its first row a pod has what that row says.
        """
        first, last = int(self.first[p]), int(self.first[p + 1])
        if first == last:
            return 0, 0
        at = max(ms, int(self.valid_from[first]))
        latest: dict[tuple[str, str, int], Row] = {}
        for k in range(first, last):
            if self.valid_from[k] <= at:
                row = self.rows[k]
                latest[row[:3]] = row
        return request_of_rows(tuple(latest.values()), resource, container, self.rules)
