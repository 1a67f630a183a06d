"""Import of audit logs and recorded watches: specs and statuses of HPAs.

Sightings of HPAs are collected from several files, in any order. docs/prometheus.md says how to
record them and which timestamps are exact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from hpabatch.cluster.objects.rows import shown_status
from hpabatch.errors import UnreadableError
from hpabatch.importers.common.rows import ms_schema
from hpabatch.importers.hpa_events.lives import (
    Deletion,
    Life,
    Moment,
    SpecRow,
    StatusStore,
    spec_rows,
    state_of,
)
from hpabatch.importers.hpa_events.seen import (
    Act,
    Json,
    Remarks,
    Sighting,
    documents,
    instant_ms,
    is_audit,
    object_of,
    sightings,
)
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.hpa import HPA, HPAStatus

SPECS: Final = ms_schema("hpas")
"""Columns of `hpas` without its cluster, times in ms."""


@dataclass(frozen=True)
class Events:
    """Content of logs and watches; times in ms.

    Attributes:
        hpas: rows of `hpas` (`SPECS`).
        seen_first: namespace and name of HPAs whose first row begins when they were first seen,
            though they were there before.
        last_ms: the time of the last sighting; None: there was none.
        statuses: rows of `hpa_status`; see `StatusStore.rows`.
    """

    hpas: pl.DataFrame
    seen_first: frozenset[tuple[str, str]]
    last_ms: int | None
    warnings: tuple[str, ...]
    statuses: StatusStore


def read_hpa_events(paths: Sequence[str | Path]) -> Events:
    """Read audit logs and recorded watches, in any order and overlapping as they may be.

    Args:
        paths: files, which gzip may have compressed, or folders of such files.

    Raises:
        UnreadableError: a file cannot be read, or is neither an audit log nor a watch.
        UsageError: there is no room for intermediate files.
    """
    recorder = Recorder()
    for path in _files(paths):
        recorder.read(path)
    return recorder.events()


def _files(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
        except OSError as error:
            raise UnreadableError(f"{path} cannot be read: {error.strerror}") from error
        files = [one for one in inside if not os.path.isdir(one) and not one.name.startswith(".")]
        if not files:
            raise UnreadableError(f"the folder {path} holds no file; name audit logs or watches")
        found += files if path.is_dir() else [path]
    return found


Place = tuple[str, str]
"""Namespace and name of an HPA; a name of "": all of the namespace."""


@dataclass(slots=True)
class Recorder:
    """Sightings so far, in any order.

    Attributes:
        last_ms: the time of the last sighting; None: there was none.
    """

    remarks: Remarks = field(default_factory=Remarks)
    statuses: StatusStore = field(default_factory=StatusStore)
    last_ms: int | None = None
    _lives: dict[Place, list[Life]] = field(default_factory=dict)
    _deletions: dict[Place, list[Deletion]] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        """Take in a file.

        Raises:
            UnreadableError: it cannot be read, or is neither an audit log nor a watch.
            UsageError: there is no room for intermediate files.
        """
        seen = set[str]()
        kind, told = "", 0
        for place, value in documents(path, self.remarks):
            try:
                found = list(sightings(value, place))
            except UnreadableError as error:
                if not kind:
                    raise
                self.remarks.add("documents of other kinds", f"{error}")
                continue
            told += len(found)
            for sighting in found:
                if isinstance(sighting, int):
                    self._span(sighting)
                else:
                    self._see(sighting, seen)
            kind = kind or ("audit log" if is_audit(value) else "watch")
        if not told:
            why = "; does the audit policy log horizontalpodautoscalers?" * (kind == "audit log")
            self.remarks.add("files without HPAs", f"{path}: nothing about an HPA{why}")

    def events(self) -> Events:
        """Return what was seen, sorted."""
        rows: list[SpecRow] = []
        seen_first: set[Place] = set()
        for place, lives in sorted(self._lives.items()):
            rows += spec_rows(*place, lives, self._deleted(place))
            begun = [life for life in lives if life.moments]
            first = min(begun, key=lambda life: life.changes()[0].at_ms, default=None)
            if first is not None and not first.since_known:
                seen_first.add(place)
        specs = pl.DataFrame(rows, schema=SPECS)
        warnings = self.remarks.all()
        return Events(specs, frozenset(seen_first), self.last_ms, warnings, self.statuses)

    def _see(self, sighting: Sighting, seen: set[str]) -> None:
        """Take in a sighting; `seen`: uids of the HPAs that its file has shown before."""
        if sighting.act is Act.deleted:
            self._span(sighting.at_ms)
            self._deletions.setdefault((sighting.namespace, sighting.name), []).append(
                Deletion(sighting.at_ms, sighting.uid)
            )
            return
        if sighting.object is None:
            if sighting.act is not Act.reported:
                self.remarks.add("writes of HPAs without the object: log the level RequestResponse")
            return
        hpa, problems = decode_hpa(sighting.object or {})
        errors = [str(one) for one in problems if one.severity is Severity.error]
        if errors:
            self.remarks.add("HPAs that cannot be read", f"{sighting.place}: {errors[0]}")
            return
        life = self._life(sighting)
        first = not life.moments
        since_ms, is_exact = sighting.at_ms, True
        if sighting.act not in (Act.created, Act.edited) and (first or sighting.uid not in seen):
            since_ms, is_exact = _spec_since(sighting.object, sighting.at_ms)
        seen.add(sighting.uid)
        self._span(sighting.at_ms)
        life.created_ms = instant_ms(hpa.creation_timestamp) or life.created_ms
        if first:
            life.since_known = is_exact and sighting.act is not Act.edited
        self._add_spec(life, sighting, hpa, since_ms, is_exact)
        self._add_status(life, sighting, hpa.status)

    def _add_spec(
        self, life: Life, sighting: Sighting, hpa: HPA, since_ms: int, is_exact: bool
    ) -> None:
        version, state = _version(sighting), state_of(hpa)
        if life.moments and not is_exact and not life.moments[-1].state.same(state):
            self.remarks.add("edits of HPAs that may have been earlier than recorded here")
        written = sighting.act is not Act.seen
        life.add(Moment(since_ms, version, state, written))

    def _add_status(self, life: Life, sighting: Sighting, status: HPAStatus) -> None:
        if sighting.act not in (Act.reported, Act.seen):
            return
        shown = shown_status(status)
        if shown is None:
            return
        key = (sighting.namespace, sighting.name, life.uid)
        written = sighting.act is Act.reported
        self.statuses.add(key, sighting.at_ms, _version(sighting), shown, written)

    def _life(self, sighting: Sighting) -> Life:
        lives = self._lives.setdefault((sighting.namespace, sighting.name), [])
        uid = sighting.uid
        same = next((life for life in lives if uid and life.uid == uid), None)
        if same is not None:
            return same
        seen = [life for life in lives if life.moments]
        newest = max(seen, key=lambda life: life.moments[-1].at_ms, default=None)
        deletions = self._deleted((sighting.namespace, sighting.name))
        # It may be one whose uid was not recorded, or is not recorded now.
        if newest is None or (uid and newest.uid) or newest.end(deletions, 1 << 62) is not None:
            newest = Life(uid)
            lives.append(newest)
        newest.uid = newest.uid or uid
        return newest

    def _deleted(self, place: Place) -> list[Deletion]:
        everything = self._deletions.get((place[0], ""), [])
        return [*self._deletions.get(place, []), *everything]

    def _span(self, at_ms: int) -> None:
        self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)


def _spec_since(item: Json, seen_ms: int) -> tuple[int, bool]:
    """Return since when an HPA that was first seen at a time has its spec, and whether it is known.

    `managedFields` names the writes of the spec in whole seconds, rounded down.
    """
    metadata = object_of(item, "metadata")
    created = instant_ms(metadata.get("creationTimestamp")) or 0
    entries = metadata.get("managedFields")
    written = 0
    for entry in entries if isinstance(entries, list) else ():
        fields = object_of(entry, "fieldsV1") if isinstance(entry, dict) else {}
        of_status = "f:status" in fields and "f:spec" not in fields
        if isinstance(entry, dict) and not of_status and entry.get("subresource") != "status":
            written = max(written, instant_ms(entry.get("time")) or 0)
    if _is_new(item) or 0 < written <= created:
        return min(created or seen_ms, seen_ms), True
    return min(written or seen_ms, seen_ms), False


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


def _version(sighting: Sighting) -> int:
    """Return the resourceVersion of an object as a number, 0 where it is none."""
    text = object_of(sighting.object or {}, "metadata").get("resourceVersion")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0
