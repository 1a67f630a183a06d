"""Sightings of HPAs in the documents of audit logs and recorded watches.

Audit logs: audit.k8s.io Event of the stage ResponseComplete (k8s.io/apiserver apis/audit), at the
level RequestResponse, whose events hold the object as the server stored it. Requests that failed,
or were dry runs, change nothing.

Watches: {"type", "object"} as in the API and in `kubectl get -w --output-watch-events -o json`.
They have no timestamp: the recorder adds `received` (RFC 3339, or seconds since 1970).

A document stands on one line, so one that was cut short (its writer was killed, or still writes)
costs only itself. One document at a time is in memory.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpabatch.cluster.objects.rows import instant_or_none
from hpabatch.errors import UnreadableError
from hpabatch.history.files import open_regular

MAX_BYTES: Final = 256 * 2**20
"""Of one document; the largest are lists of all HPAs."""

_MAX_REMARKS: Final = 5
_GZIP: Final = b"\x1f\x8b"
HPAS: Final = "horizontalpodautoscalers"
KIND: Final = "HorizontalPodAutoscaler"
RECEIVED: Final = "received"
_WRITES: Final = ("create", "update", "patch")
_DONE: Final = "ResponseComplete"
_SEE: Final = "see docs/prometheus.md for how to record"
_SCALED: Final = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")

Json = dict[str, Any]


class Remarks:
    """Warnings by kind, a phrase for the plural; of many of a kind the first ones and a number."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._counts: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()

    def add(self, kind: str, text: str = "") -> None:
        """Add a warning of a kind, e.g. "documents cut short"; without a text it is counted."""
        if not text:
            self._numbers[kind] += 1
            return
        self._counts[kind] += 1
        if self._counts[kind] <= _MAX_REMARKS:
            self._told.append(text)

    def all(self) -> tuple[str, ...]:
        """Return all warnings."""
        more = {kind: count - _MAX_REMARKS for kind, count in self._counts.items()}
        return (
            *self._told,
            *(f"{count} more {kind}" for kind, count in more.items() if count > 0),
            *(f"{count} {kind}" for kind, count in self._numbers.items()),
        )


def documents(path: Path, remarks: Remarks) -> Iterator[tuple[str, Json]]:
    """Yield place (`file:line`) and value of a file's JSON objects; gzip may have compressed it.

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
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            of_audit = is_audit(value) if not any_read else of_audit
            any_read = True
            yield place, value
        elif text.startswith(b"{") and (any_read or not is_whole):
            remarks.add("documents that are cut short", f"{place}: cut short, ignored")
        elif text and not any_read:
            shown = text[:60].decode("utf-8", "replace")
            raise UnreadableError(
                f"{place}: expected a JSON object on a line, got {shown!r}; {_SEE} an audit log or "
                "a watch"
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


class Act(StrEnum):
    """The action on an object, as far as it is recorded."""

    created = "created"
    edited = "edited"  # spec or metadata were written
    reported = "reported"  # the status was written
    seen = "seen"  # it had that state, since an unknown time
    deleted = "deleted"


class Sighting(NamedTuple):
    """An HPA at an instant.

    Attributes:
        namespace, name: of the HPA; a name of "": every HPA of the namespace.
        object: the object afterwards; None: not recorded.
        uid: where known, else "".
    """

    place: str
    act: Act
    namespace: str
    name: str
    at_ms: int
    object: Json | None = None
    uid: str = ""


def is_audit(value: Json) -> bool:
    """Whether a document is of an audit log: an event, or a list of them."""
    return str(value.get("apiVersion", "")).startswith("audit.k8s.io/")


def sightings(value: Json, place: str) -> Iterator[Sighting | int]:
    """Yield the sightings of a document, often none; of a scale only when that was, in ms.

    Raises:
        UnreadableError: it is neither of an audit log nor of a watch.
    """
    if is_audit(value):
        events = value.get("items") if "items" in value else [value]
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict):
                yield from _audited(event, place)
        return
    kind, found = value.get("type"), value.get("object")
    if not isinstance(found, dict) or not isinstance(kind, str):
        raise UnreadableError(
            f"{place}: expected an event of an audit log (audit.k8s.io) or of a watch, got a "
            f"{value.get('kind') or 'JSON object'}; {_SEE} them"
        )
    if kind not in ("ADDED", "MODIFIED", "DELETED"):  # BOOKMARK and ERROR are of the watch itself.
        return
    at_ms = _instant(value.get(RECEIVED))
    if at_ms is None:
        raise UnreadableError(
            f"{place}: expected the time of a watch event in {RECEIVED}, got none; {_SEE} them"
        )
    yield from _shown(Act.deleted if kind == "DELETED" else Act.seen, found, at_ms, place)


def _shown(act: Act, value: Json, at_ms: int, place: str) -> Iterator[Sighting]:
    """Yield the HPAs of a document: itself, or the items of a list.

    Lists of the API leave kind and apiVersion of their items out.
    """
    kind, listed = str(value.get("kind") or ""), value.get("items")
    items = [value] if kind == KIND else []
    if not items and isinstance(listed, list) and kind in ("List", f"{KIND}List"):
        items = [one for one in listed if isinstance(one, dict) and one.get("kind", KIND) == KIND]
    for one in items:
        metadata = object_of(one, "metadata")
        if one is not value and "apiVersion" not in one and kind != "List":
            one = {"apiVersion": value.get("apiVersion"), "kind": KIND, **one}
        yield Sighting(
            place, act, str(metadata.get("namespace") or "default"),
            str(metadata.get("name") or ""), at_ms, one, uid=str(metadata.get("uid") or ""),
        )  # fmt: skip


def _audited(event: Json, place: str) -> Iterator[Sighting | int]:
    about, verb = object_of(event, "objectRef"), event.get("verb")
    code = object_of(event, "responseStatus").get("code", 200)
    at_ms = _instant(event.get("requestReceivedTimestamp") or event.get("timestamp"))
    failed = isinstance(code, int) and code >= 400
    tried = "dryRun=" in str(event.get("requestURI", ""))
    if event.get("stage", _DONE) != _DONE or failed or tried or at_ms is None:
        return
    response = object_of(event, "responseObject")
    namespace, name = str(about.get("namespace") or ""), str(about.get("name") or "")
    if about.get("subresource") == "scale":
        if about.get("resource") in _SCALED and (verb in _WRITES or (verb == "get" and response)):
            yield at_ms
    elif about.get("resource") != HPAS:
        return
    elif verb in ("get", "list"):
        yield from _shown(Act.seen, response, at_ms, place)
    elif verb in ("delete", "deletecollection"):
        listed = [] if name else list(_shown(Act.deleted, response, at_ms, place))
        yield from listed
        # Without a name or a list: of all HPAs of the namespace, unless some were selected.
        if name or not (listed or "elector=" in str(event.get("requestURI", ""))):
            details, metadata = object_of(response, "details"), object_of(response, "metadata")
            uid = str(details.get("uid") or metadata.get("uid") or "")
            yield Sighting(place, Act.deleted, namespace, name, at_ms, uid=uid)
    elif verb in _WRITES:
        is_status = about.get("subresource") == "status"
        act = Act.reported if is_status else Act.created if verb == "create" else Act.edited
        found = response if response.get("kind") == KIND else None
        metadata = object_of(found or {}, "metadata")
        name = name or str(metadata.get("name") or "")
        if name:  # else a generated one that is not recorded
            uid = str(metadata.get("uid") or about.get("uid") or "")
            yield Sighting(place, act, namespace, name, at_ms, found, uid)


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
