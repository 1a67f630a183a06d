"""Timestamps of changes that a document shows without naming the time.

An audit event has a timestamp. A watch event has none, unless its recorder adds one. The object
itself may name the time of what is new in it: `managedFields` that of a write of the spec,
conditions and lastScaleTime that of a status (whole seconds, rounded down). Otherwise only a lower
bound is known: nothing in a watch is earlier than what was shown before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hpabatch.importers.hpa_events.seen import Act, Json, Sighting, instant_ms, object_of


@dataclass(frozen=True, slots=True)
class Times:
    """Timestamps of an object's state, in ms.

    Attributes:
        spec_ms: the start of its spec, labels and annotations.
        spec_exact: whether they began then; False: they may have begun before (or, in a watch
            without instants, later).
        status_ms: the time of its status; None: not known.
    """

    spec_ms: int
    spec_exact: bool
    status_ms: int | None


@dataclass(frozen=True, slots=True)
class _Inside:
    """The latest instants that an object names of its writes; 0: none."""

    created: int
    spec: int
    status: int


@dataclass(slots=True)
class Instants:
    """Timestamps of the sightings of one file, in its order."""

    _floor: int = 0
    _before: dict[str, _Inside] = field(default_factory=dict)

    def of(self, sighting: Sighting, *, first: bool) -> Times:
        """Return the instants of a sighting with an object.

        Args:
            sighting: of this file, after all before it.
            first: nothing was seen of this HPA before, in any file.
        """
        inside = _look(sighting.object or {})
        before = self._before.get(sighting.uid)
        self._before[sighting.uid] = inside
        self._floor = max(self._floor, inside.created, inside.spec, inside.status)
        at_ms = sighting.at_ms
        written = sighting.act in (Act.created, Act.edited)
        if at_ms is not None and written:
            return Times(at_ms, True, at_ms)
        if before is None or first:
            return self._first(inside, at_ms, _is_new(sighting.object or {}))
        if at_ms is not None:
            return Times(at_ms, True, at_ms)
        status = inside.status if inside.status > before.status else None
        if inside.spec > before.spec:
            return Times(inside.spec, True, status)
        return Times(self._floor, False, status)

    def gone(self, sighting: Sighting) -> int:
        """Return when an HPA was deleted, or could have been at the earliest."""
        if sighting.at_ms is not None:
            return sighting.at_ms
        inside = _look(sighting.object or {})
        metadata = object_of(sighting.object or {}, "metadata")
        asked = instant_ms(metadata.get("deletionTimestamp")) or 0
        self._floor = max(self._floor, inside.created, inside.spec, inside.status, asked)
        # Objects name whole seconds, rounded down: what came last came before that second's end.
        return asked or self._floor + 1000

    def _first(self, inside: _Inside, at_ms: int | None, new: bool) -> Times:
        seen = at_ms if at_ms is not None else max(inside.created, inside.spec, inside.status)
        status = at_ms if at_ms is not None else inside.status or None
        if new or (inside.spec and inside.spec <= inside.created):
            return Times(min(inside.created or seen, seen), True, status)
        if inside.spec:
            return Times(min(inside.spec, seen), False, status)
        return Times(seen, False, status)


def _look(item: Json) -> _Inside:
    created = instant_ms(object_of(item, "metadata").get("creationTimestamp")) or 0
    entries = object_of(item, "metadata").get("managedFields")
    specs, reports = [0], [0]
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        fields, at_ms = entry.get("fieldsV1"), instant_ms(entry.get("time")) or 0
        of_status = entry.get("subresource") == "status"
        if isinstance(fields, dict) and "f:status" in fields:
            reports.append(at_ms)
            of_status = of_status or "f:spec" not in fields
        if not of_status:
            specs.append(at_ms)
    status = item.get("status")
    if isinstance(status, dict):
        reports.append(instant_ms(status.get("lastScaleTime")) or 0)
        conditions = status.get("conditions")
        for condition in conditions if isinstance(conditions, list) else ():
            if isinstance(condition, dict):
                reports.append(instant_ms(condition.get("lastTransitionTime")) or 0)
    return _Inside(created, max(specs), max(reports))


def _is_new(item: Json) -> bool:
    """Whether no controller has looked at an object yet."""
    status = item.get("status")
    if not isinstance(status, dict):
        return True
    names = ("conditions", "currentReplicas", "desiredReplicas", "lastScaleTime")
    annotations = object_of(item, "metadata").get("annotations") or {}
    return not any(status.get(name) for name in names) and not any(
        str(name).endswith("/conditions") for name in annotations
    )
