"""Specs and statuses of HPAs over time, from sightings in any order.

A life belongs to one uid. Kept are the timestamps at which its spec, labels or annotations differed
from before, so a log of millions of events needs little memory. Many statuses go to disk.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from hpabatch.cluster.objects.rows import ShownStatus, compact_json
from hpabatch.history.store.storage import temporary_root
from hpabatch.importers.common.rows import ms_schema
from hpabatch.importers.common.work import disk_errors
from hpabatch.model.objects.decode import V1, V2BETA1, hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.versions import profile_for

LOSSY: Final = (V1, V2BETA1)
"""Versions whose conversion changes a spec's form, e.g. the order of metrics."""

_STORED_AS_V1: Final = profile_for("1.20")
_NEVER: Final = 1 << 62

SpecRow = dict[str, Any]
"""A row of `hpas` without its cluster, times in ms."""


class State(NamedTuple):
    """The state of an HPA at a time.

    Attributes:
        labels, annotations: JSON objects.
        generation: metadata.generation; None: not told.
        lossy: the spec was read in one of the versions that are.
    """

    text: str
    labels: str
    annotations: str
    generation: int | None
    lossy: bool

    def same(self, other: State) -> bool:
        """Whether nothing was edited between the two.

        Readers of different versions of the API see the same spec in different forms.
        """
        if (self.labels, self.annotations) != (other.labels, other.annotations):
            return False
        if self.text == other.text:
            return True
        return (self.lossy or other.lossy) and _form(self.text) == _form(other.text)

    def better(self, same: State) -> State:
        """Return this state, or the same one as read in a version that loses nothing."""
        return same if self.lossy and not same.lossy else self


class Moment(NamedTuple):
    """A state at an instant.

    `version` is the object's resourceVersion, 0: not known; `written`: it became so just then, by a
    request that was logged.
    """

    at_ms: int
    version: int
    state: State
    written: bool = False


class Deletion(NamedTuple):
    """The end of an HPA; `uid`: "" where it is not recorded."""

    at_ms: int
    uid: str = ""


@dataclass(slots=True)
class Life:
    """An HPA from its creation to its end, as far as it was seen.

    Attributes:
        uid: "" where nothing has told it.
        created_ms: metadata.creationTimestamp; None: not seen.
        written_ms: when it was written last; 0: no request is known.
        since_known: the first moment is when that spec began, not only when it was first seen.
    """

    uid: str
    created_ms: int | None = None
    written_ms: int = 0
    since_known: bool = False
    moments: list[Moment] = field(default_factory=list)

    def end(self, deletions: Iterable[Deletion], until_ms: int) -> int | None:
        """Return when this life ended, None if it did not.

        What is written after a deletion shows that this was not the end (a finalizer holds the
        object); what is only read may be old.

        Args:
            until_ms: when the next life began; what names no uid is about the one of its time.
        """
        first = min(one.at_ms for one in self.moments)
        ends = [
            one.at_ms
            for one in deletions
            if (one.uid == self.uid if one.uid else first <= one.at_ms < until_ms)
            and one.at_ms >= self.written_ms
        ]
        return min(ends, default=None)

    def add(self, moment: Moment) -> None:
        """Add a state; of a run of equal ones the first and the last are kept."""
        if moment.written:
            self.written_ms = max(self.written_ms, moment.at_ms)
        tail = self.moments[-2:]
        run = len(tail) == 2 and all(one.state.same(moment.state) for one in tail)
        if run and tail[0].at_ms <= tail[1].at_ms <= moment.at_ms:
            self.moments[-1] = moment._replace(state=tail[1].state.better(moment.state))
        else:
            self.moments.append(moment)

    def changes(self) -> list[Moment]:
        """Return the moments at which the state was another than before, in order.

        The order is that of the instants, but the server's where versions tell it: requests are
        logged under the instant at which they came in. Of several sightings of a version that
        counts which was the request that made it.
        """
        made = {one.version: one for one in self.moments if one.written and one.version}
        once = [
            one if one.written or one.version not in made
            else (known := made[one.version])._replace(state=known.state.better(one.state))
            for one in self.moments
        ]  # fmt: skip
        ordered = sorted(once, key=lambda one: one.at_ms)
        places = [k for k, one in enumerate(ordered) if one.version]
        numbered = sorted((ordered[k] for k in places), key=lambda one: one.version)
        for k, one in zip(places, numbered, strict=True):
            ordered[k] = one
        found: list[Moment] = []
        at_ms = 0
        for one in ordered:
            at_ms = max(at_ms, one.at_ms)
            if found and found[-1].at_ms == at_ms and not found[-1].state.same(one.state):
                found.pop()  # Two within a millisecond: the later one counts.
            if not found or not found[-1].state.same(one.state):
                found.append(Moment(at_ms, one.version, one.state))
            else:
                found[-1] = found[-1]._replace(state=found[-1].state.better(one.state))
        return found


def state_of(hpa: HPA) -> State:
    """Return the state that a decoded object shows."""
    return State(
        compact_json(encode_spec(hpa.spec)),
        compact_json(dict(hpa.labels)),
        compact_json(dict(hpa.annotations)),
        hpa.generation,
        hpa.api_version in LOSSY,
    )


def spec_rows(
    namespace: str, name: str, lives: Sequence[Life], deletions: Sequence[Deletion]
) -> Iterator[SpecRow]:
    """Yield the rows of a name, in order; a life ends when it was deleted or another began."""
    begun = [(changes, life) for life in lives if (changes := life.changes())]
    begun.sort(key=lambda one: one[0][0].at_ms)
    for k, (changes, life) in enumerate(begun):
        following = begun[k + 1] if k + 1 < len(begun) else None
        next_ms = _NEVER if following is None else following[0][0].at_ms
        end = life.end(deletions, next_ms)
        if end is None or end > next_ms:
            end = next_ms
            # It began with its creation, if that is after what is known of the one before.
            created = None if following is None else following[1].created_ms
            if created is not None and changes[-1].at_ms < created < next_ms:
                end = created
        bounds = [one.at_ms for one in changes if one.at_ms < end] + [end]
        for (since, until), one in zip(pairwise(bounds), changes, strict=False):
            yield {
                "namespace": namespace, "name": name, "uid": life.uid, "valid_from": since,
                "valid_to": None if until == _NEVER else until, "spec": one.state.text,
                "labels": one.state.labels, "annotations": one.state.annotations,
                "created": life.created_ms, "generation": one.state.generation,
            }  # fmt: skip


@lru_cache(maxsize=4096)
def _form(text: str) -> str:
    """Return what all versions of the API have of a spec, in one form."""
    spec = hpa_from_json(text)[0].spec
    fields = encode_spec(as_stored(default_spec(spec), _STORED_AS_V1))
    metrics = fields.get("metrics")
    if isinstance(metrics, list):
        fields["metrics"] = sorted(metrics, key=compact_json)
    return json.dumps(fields, sort_keys=True)


CHUNK_ROWS: Final = 1 << 16
"""So many rows are held as Python objects, some 100 MB, before they go to disk."""

STATUS: Final = ms_schema("hpa_status")
"""Columns of `hpa_status` without its cluster, times in ms."""

_VERSION = "version"
_WRITTEN = "written"
_STORED = pl.Schema({**STATUS, _VERSION: pl.Int64(), _WRITTEN: pl.Boolean()})


class StatusStore:
    """Rows of `hpa_status`, in any order; the files of many rows go with the object."""

    def __init__(self, chunk_rows: int = CHUNK_ROWS) -> None:
        self._chunk_rows = chunk_rows
        self._rows: list[tuple[Any, ...]] = []
        self._files: list[Path] = []
        self._folder: Path | None = None
        self._last: dict[tuple[str, str, str], tuple[int, bool]] = {}

    def add(
        self,
        key: tuple[str, str, str],
        at_ms: int,
        version: int,
        status: ShownStatus,
        written: bool = False,
    ) -> None:
        """Add what was seen of (namespace, name, uid), unless it was seen the last time, too.

        Args:
            version: the object's resourceVersion, 0: not known.
            written: it was written just then, by a request that was logged.

        Raises:
            UsageError: there is no room for the files.
        """
        last = self._last.get(key)
        if last is not None and last[0] == hash(status) and (last[1] or not written):
            return
        self._last[key] = (hash(status), written)
        self._rows.append((*key, at_ms, *status, version, written))
        if len(self._rows) >= self._chunk_rows:
            self._close()

    def rows(self, after_ms: int | None = None, until_ms: int | None = None) -> pl.DataFrame:
        """Return the rows of after_ms < ts <= until_ms, sorted; None: without that bound.

        Of several rows of a version the one counts that was written, of an HPA's rows with the same
        ts the newest version.

        Raises:
            UsageError: the files cannot be read.
        """
        inside = pl.col("ts").is_between(
            -_NEVER if after_ms is None else after_ms + 1, _NEVER if until_ms is None else until_ms
        )
        parts = [self._frame().filter(inside)]
        for file in self._files:
            with disk_errors(file.parent):
                parts.append(pl.scan_parquet(file, glob=False).filter(inside).collect())
        key = ["namespace", "name", "uid", "ts"]
        found = pl.concat(parts).sort([*key[:3], _VERSION, _WRITTEN, "ts"], maintain_order=True)
        told = pl.col(_VERSION) > 0
        once = found.filter(told).unique([*key[:3], _VERSION], keep="last", maintain_order=True)
        rows = pl.concat([found.filter(~told), once]).sort([*key, _VERSION], maintain_order=True)
        return rows.unique(key, keep="last", maintain_order=True).select(STATUS.names())

    def _frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._rows, schema=_STORED, orient="row")

    def _close(self) -> None:
        root = temporary_root()
        with disk_errors(Path(root)):
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="hpabatch-", dir=root))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            file = self._folder / f"{len(self._files)}.parquet"
            self._frame().sort("ts").write_parquet(file)
        self._files.append(file)
        self._rows = []
