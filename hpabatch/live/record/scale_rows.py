"""Targets' scales as rows of `scales`."""

from __future__ import annotations

from collections.abc import Mapping

from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.live.passes.rows import replicas
from hpabatch.live.record.segments import Segment

NOT_THERE = "the scale is no longer there"

Target = tuple[str, str, str]
"""Namespace, kind and name."""

ScaleRow = tuple[int, int, str, str | None]
"""Sizes, selector and error."""


class ScaleRows:
    """All scales that there are, and what was last written of them.

    The table knows a target by kind and name. Of several groups' scales with one kind and name
    (an HPA that names the wrong group, say) the one counts that can be read.
    """

    def __init__(self, stored: Mapping[Target, ScaleRow] | None = None) -> None:
        """Begin with the last rows of the store."""
        self._groups: dict[Target, dict[str, ScaleObject]] = {}
        self._written: dict[Target, ScaleRow] = {}
        self._stored = dict(stored or {})

    def put(self, key: ScaleKey, scale: ScaleObject | None, at_ms: int, into: Segment) -> None:
        """Take in a scale as it is from `at_ms` on; None: it is no longer there."""
        place = (key.namespace, key.kind, key.name)
        groups = self._groups.setdefault(place, {})
        if scale is None:
            groups.pop(key.group, None)
        else:
            groups[key.group] = scale
        before = self._written.get(place) or self._stored.pop(place, None)
        row = _row_of(groups, before)
        self._written[place] = row
        if row != before:
            into.table("scales").add(*place, at_ms, *row, text_bytes=len(row[3] or ""))
        if not groups:
            # What is forgotten is written again when it is back.
            del self._groups[place], self._written[place]

    def write_all(self, at_ms: int, into: Segment) -> None:
        """Write how every scale is at an instant."""
        for place, row in self._written.items():
            into.table("scales").add(*place, at_ms, *row)


def _row_of(groups: dict[str, ScaleObject], before: ScaleRow | None) -> ScaleRow:
    for _, scale in sorted(groups.items()):
        if not scale.error:
            return replicas(scale.replicas), replicas(scale.status_replicas), scale.selector, None
    sizes = before[:3] if before is not None else (0, 0, "")
    error = groups[min(groups)].error if groups else NOT_THERE
    return (*sizes, error)
