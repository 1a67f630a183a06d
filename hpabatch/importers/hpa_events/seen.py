"""Sightings of HPAs in the documents of audit logs and recorded watches.

Audit logs: audit.k8s.io Event of the stage ResponseComplete (k8s.io/apiserver apis/audit). At the
level RequestResponse an event holds the object as the server stored it, at Request what was
written, at Metadata the timestamp only. Requests that failed, or were dry runs, change nothing.

Watches: {"type", "object"} as in the API and in `kubectl get -w --output-watch-events -o json`.
They have no timestamp: the recorder adds `received` (RFC 3339, or seconds since 1970).

A document stands on one line, so one that was cut short (its writer was killed, or still writes)
costs only itself. One document at a time is in memory.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from hpabatch.cluster.objects.rows import instant_or_none
from hpabatch.errors import UnreadableError
from hpabatch.history.files import open_regular

MAX_BYTES: Final = 256 * 2**20
"""Of one document; the largest are lists of all HPAs."""

_MAX_REMARKS: Final = 5
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object of a file, and its line, from 1."""

    path: Path
    line: int
    value: dict[str, Any]

    @property
    def place(self) -> str:
        """Return `file:line`."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class Remarks:
    """Warnings; of many of a kind the first ones, and the number of the others."""

    told: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, text: str) -> None:
        """Add a warning of a kind, which is a phrase for the plural, e.g. "documents cut short"."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= _MAX_REMARKS:
            self.told.append(text)

    def count(self, kind: str) -> None:
        """Count an event of a kind that is reported as a number."""
        self.numbers[kind] = self.numbers.get(kind, 0) + 1

    def all(self) -> tuple[str, ...]:
        """Return all warnings."""
        more = [
            f"{count - _MAX_REMARKS} more {kind}"
            for kind, count in self.counts.items()
            if count > _MAX_REMARKS
        ]
        return (*self.told, *more, *(f"{count} {kind}" for kind, count in self.numbers.items()))


def documents(path: Path, remarks: Remarks) -> Iterator[Document]:
    """Yield the documents of a file, which gzip may have compressed, in order.

    Lines of an audit log that cannot be about an HPA or a scale are not decoded.

    Raises:
        UnreadableError: the file cannot be read, or does not hold JSON documents.
    """
    any_read, of_audit = False, False
    for number, line in _lines(path, remarks):
        text, place = line.strip(), f"{path}:{number}"
        is_whole = text.startswith(b"{") and text.endswith(b"}")
        if is_whole and of_audit and HPAS.encode() not in text and b'"scale"' not in text:
            continue
        value = _loads(text)
        if value is not None:
            of_audit = is_audit(value) if not any_read else of_audit
            any_read = True
            yield Document(path, number, value)
        elif text.startswith(b"{") and (any_read or not is_whole):
            remarks.add("documents that are cut short", f"{place}: cut short, ignored")
        elif text and not any_read:
            shown = text[:60].decode("utf-8", "replace")
            raise UnreadableError(
                f"{place}: expected a JSON object on a line, got {shown!r}; see "
                "docs/prometheus.md for how to record an audit log or a watch"
            )
        elif text:
            remarks.add("lines that are not JSON", f"{place}: not JSON, ignored")


def _lines(path: Path, remarks: Remarks) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        with open_regular(path) as file:
            packed = file.peek(len(_GZIP)).startswith(_GZIP)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            while line := stream.readline(MAX_BYTES + 1):
                number += 1
                if len(line) > MAX_BYTES:
                    raise UnreadableError(
                        f"{path}:{number}: a document of more than {MAX_BYTES // 2**20} MiB; an "
                        "audit log has a JSON object on each line"
                    )
                yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except EOFError:
        remarks.add("files that are cut short", f"{path}: the gzip file is cut short")
    except (OSError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UnreadableError(f"{path} cannot be read: {reason}") from error


def _loads(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object, None if the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


HPAS: Final = "horizontalpodautoscalers"
KIND: Final = "HorizontalPodAutoscaler"
RECEIVED: Final = "received"
_WRITES = ("create", "update", "patch")
_AUDIT = "audit.k8s.io/"
_DONE = "ResponseComplete"
_WATCHED = ("ADDED", "MODIFIED", "DELETED")
_RECORD: Final = "see docs/prometheus.md for how to record them"
_SCALED: Final = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")

Json = dict[str, Any]


class Act(StrEnum):
    """The action on an object, as far as it is recorded."""

    created = "created"
    edited = "edited"  # spec or metadata were written
    reported = "reported"  # the status was written
    seen = "seen"  # it had that state, since an unknown time
    deleted = "deleted"


@dataclass(frozen=True, slots=True)
class Sighting:
    """An HPA at an instant.

    Attributes:
        namespace, name: of the HPA; a name of "": every HPA of the namespace.
        object: the object afterwards; None: not recorded.
        stored: whether `object` is what the server stored, rather than what was asked for.
        uid: where known, else "".
    """

    place: str
    act: Act
    namespace: str
    name: str
    at_ms: int
    object: Json | None = None
    stored: bool = True
    uid: str = ""


def is_audit(value: Json) -> bool:
    """Whether a document is of an audit log: an event, or a list of them."""
    return str(value.get("apiVersion", "")).startswith(_AUDIT)


def sightings(document: Document) -> Iterator[Sighting | int]:
    """Yield the sightings of a document, often none; of a scale only when that was, in ms.

    Raises:
        UnreadableError: it is neither of an audit log nor of a watch.
    """
    value = document.value
    if is_audit(value):
        events = value.get("items") if "items" in value else [value]
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict):
                yield from _audited(event, document.place)
        return
    if isinstance(value.get("object"), dict) and isinstance(value.get("type"), str):
        yield from _watched(value, document.place)
    else:
        kind = value.get("kind") or "JSON object"
        raise UnreadableError(
            f"{document.place}: expected an event of an audit log (audit.k8s.io) or of a watch, "
            f"got a {kind}; {_RECORD}"
        )


def _watched(value: Json, place: str) -> Iterator[Sighting]:
    kind, found = value["type"], value["object"]
    if kind not in _WATCHED:  # BOOKMARK and ERROR are of the watch itself.
        return
    received = _instant(value.get(RECEIVED))
    if received is None:
        raise UnreadableError(
            f"{place}: expected the time of a watch event in {RECEIVED}, got none; {_RECORD}"
        )
    act = Act.deleted if kind == "DELETED" else Act.seen
    yield from (_shown(act, item, received, place) for item in _hpas(found))


def _shown(act: Act, item: Json, at_ms: int, place: str) -> Sighting:
    metadata = object_of(item, "metadata")
    return Sighting(
        place, act, str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or ""), at_ms, item, uid=str(metadata.get("uid") or ""),
    )  # fmt: skip


def _audited(event: Json, place: str) -> Iterator[Sighting | int]:
    about = object_of(event, "objectRef")
    code = object_of(event, "responseStatus").get("code", 200)
    at_ms = _instant(event.get("requestReceivedTimestamp") or event.get("timestamp"))
    failed = isinstance(code, int) and code >= 400
    tried = "dryRun=" in str(event.get("requestURI", ""))
    if event.get("stage", _DONE) != _DONE or failed or tried or at_ms is None:
        return
    if about.get("subresource") == "scale":
        is_read = event.get("verb") == "get" and object_of(event, "responseObject")
        if about.get("resource") in _SCALED and (is_read or event.get("verb") in _WRITES):
            yield at_ms
    elif about.get("resource") == HPAS:
        yield from _audited_hpa(event, about, at_ms, place)


def _audited_hpa(event: Json, about: Json, at_ms: int, place: str) -> Iterator[Sighting]:
    verb, status = event.get("verb"), about.get("subresource") == "status"
    namespace, name = str(about.get("namespace") or ""), str(about.get("name") or "")
    response = object_of(event, "responseObject")
    if verb in ("delete", "deletecollection"):
        yield from _deleted(event, namespace, name, at_ms, place)
    elif verb in _WRITES:
        act = Act.reported if status else Act.created if verb == "create" else Act.edited
        stored = response.get("kind") == KIND
        asked = object_of(event, "requestObject")
        found = response if stored else asked if asked.get("kind") == KIND else None
        metadata = object_of(found or {}, "metadata")
        name = name or str(metadata.get("name") or "")
        if name:  # else a generated one that is not recorded
            uid = str(metadata.get("uid") or about.get("uid") or "")
            yield Sighting(place, act, namespace, name, at_ms, found, stored, uid)
    elif verb in ("get", "list"):
        yield from (_shown(Act.seen, item, at_ms, place) for item in _hpas(response))


def _deleted(event: Json, namespace: str, name: str, at_ms: int, place: str) -> Iterator[Sighting]:
    """Yield one deletion, those of a list, or (name "") that of all HPAs of a namespace."""
    response = object_of(event, "responseObject")
    items = list(_hpas(response))
    if items and not name:
        yield from (_shown(Act.deleted, item, at_ms, place) for item in items)
    elif name or "elector=" not in str(event.get("requestURI", "")):
        uid = (
            object_of(response, "details").get("uid")
            or object_of(response, "metadata").get("uid")
            or ""
        )
        yield Sighting(place, Act.deleted, namespace, name, at_ms, uid=str(uid))


def _hpas(value: Json) -> Iterator[Json]:
    """Yield the HPAs of a document: itself, or the items of a list, which may not say their kind.

    Lists of the API leave kind and apiVersion of their items out.
    """
    if value.get("kind") == KIND:
        yield value
        return
    items = value.get("items")
    kind, version = str(value.get("kind") or ""), value.get("apiVersion")
    if not isinstance(items, list) or kind not in ("List", f"{KIND}List"):
        return
    for item in items:
        if not isinstance(item, dict) or item.get("kind", KIND) != KIND:
            continue
        if "apiVersion" in item or kind == "List":
            yield item
        else:
            yield {"apiVersion": version, "kind": KIND, **item}


def object_of(value: Mapping[str, Any], name: str) -> Json:
    """Return a member that is an object, an empty one in place of any other."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _instant(value: object) -> int | None:
    """Return ms of RFC 3339 text or of seconds since 1970, None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11:
        return int(value * 1000)
    return instant_ms(value)


def instant_ms(value: object) -> int | None:
    """Return ms since 1970 of an RFC 3339 text, None if it is none."""
    return instant_or_none(value) if isinstance(value, str) else None
