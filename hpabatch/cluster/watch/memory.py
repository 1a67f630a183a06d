"""Known objects of a watch, and the changes that lists and events make to them.

Of each object only uid and resource version are kept. They tell what is new, what was deleted and
created again, and, after a list, what vanished.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from hpabatch.cluster.connection.errors import InvalidResponse, error_of_event
from hpabatch.cluster.objects.inbox import Inbox
from hpabatch.cluster.objects.objects import UNREADABLE, Decoder, WireBytes
from hpabatch.cluster.objects.types import PodKey, ScaleKey

_MOST_NAMED: Final = 1000
"""The most broken objects that are kept by name."""


class _Meta(msgspec.Struct, gc=False):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    object: msgspec.Raw = msgspec.Raw()


class _Seen(NamedTuple):
    """An object's last state; `key` None: it could not be decoded, and gave no change."""

    uid: str
    version: str
    key: PodKey | ScaleKey | None


_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(_Object)


class Memory:
    """The known objects of one collection; turns lists and events into changes of an inbox.

    One thread uses it; `count`, `broken` and `events` may be read by others.

    Attributes:
        version: the resource version that a watch resumes from, "": a list is needed.
        events: number of events, including bookmarks.
        broken: number of objects and events that could not be decoded.
    """

    def __init__(
        self,
        decoder: Decoder,
        inbox: Inbox,
        lock: threading.Lock | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """Begin with no objects.

        Args:
            decoder: makes the values.
            inbox: takes the changes, of the decoder's kind.
            lock: held while the decoder works, where several memories share it.
            hide: removes secrets from the server's error messages.
        """
        self.version = ""
        self.events = 0
        self.broken = 0
        self._decoder = decoder
        self._put = inbox.put
        self._lock = lock or threading.Lock()
        self._hide = hide
        self._seen: dict[PodKey, _Seen] = {}
        self._listed: set[PodKey] = set()
        self._wrong: dict[str, str] = {}
        self._nameless: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._seen)

    @property
    def wrong(self) -> dict[str, str]:
        """Errors of objects that cannot be decoded now, by `namespace/name`; at most 1000.

        Objects without a readable name are those of the last list or its watch.
        """
        return {**self._nameless, **self._wrong}

    def begin_list(self) -> None:
        """Begin a list, possibly before another one ended."""
        self.version = ""
        self._listed = set()
        self._nameless = {}

    def add_page(self, items: Iterable[msgspec.Raw]) -> None:
        """Take a page of the list: new and changed objects become changes."""
        for item in items:
            meta = self._meta(item)
            if meta is not None:
                self._listed.add((meta.namespace or "", meta.name or ""))
                self._set(item, meta, listed=True)

    def end_list(self, version: str) -> None:
        """End the list: objects that it did not have become removals."""
        for name in [name for name in self._seen if name not in self._listed]:
            self._remove(name, listed=True)
        self._listed = set()
        self.version = version

    def is_of_same_storage(self, items: Sequence[msgspec.Raw], version: str) -> bool:
        """Return whether the beginning of a list continues what is known.

        It does not after the API server's storage was emptied or restored: resource versions are
        lower than before, or objects are others. It may not if the first object was made since.
        """
        if version.isdecimal() and self.version.isdecimal() and int(version) < int(self.version):
            return False
        meta = self._meta(items[0]) if items else None
        if meta is None:
            return not items and not self._seen
        known = self._seen.get((meta.namespace or "", meta.name or ""))
        return known is not None and known.uid == (meta.uid or "")

    def event(self, line: bytes) -> None:
        """Take a line of a watch.

        Raises:
            ApiError: it is an error, or cannot be decoded: then an update is lost.
        """
        self.events += 1
        try:
            event = _EVENT.decode(line)
        except UNREADABLE as error:
            self.broken += 1
            raise InvalidResponse(f"an event cannot be read: {error}", 200) from None
        if event.type == "ERROR":
            raise error_of_event(event.object, hide=self._hide)
        if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            self._break("event", f"an event of the unknown type {event.type!r}")
            return
        meta = self._meta(event.object, nameless=event.type == "BOOKMARK")
        if meta is None:
            return
        if event.type == "DELETED":
            self._remove((meta.namespace or "", meta.name or ""), listed=False)
        elif event.type != "BOOKMARK":
            self._set(event.object, meta, listed=False)
        if meta.resourceVersion:
            self.version = meta.resourceVersion

    def _meta(self, item: WireBytes, nameless: bool = False) -> _Meta | None:
        try:
            meta = _OBJECT.decode(item).metadata
        except UNREADABLE as error:
            self._break("object", f"an object whose metadata cannot be read: {error}")
            return None
        if meta is None or not (meta.name or nameless):
            self._break("object", "an object without a name")
            return None
        return meta

    def _set(self, item: WireBytes, meta: _Meta, listed: bool) -> None:
        name = (meta.namespace or "", meta.name or "")
        uid, version = meta.uid or "", meta.resourceVersion or ""
        old = self._seen.get(name)
        if old is not None and old.uid != uid:
            self._remove(name, listed)
            old = None
        if old is not None and old.version == version != "":
            return
        try:
            with self._lock:
                found = self._decoder.decode(item)
        except Exception as error:  # noqa: BLE001 - one object must not end the whole watch
            self._break("/".join(name), str(error) or type(error).__name__)
            self._seen[name] = _Seen(uid, version, old.key if old is not None else None)
            return
        self._mend(name)
        self._put(self._decoder.kind, found.key, found.thing, listed)
        # Last, so that an object counts as unknown until its change was put.
        self._seen[found.key if found.key == name else name] = _Seen(uid, version, found.key)

    def _remove(self, name: PodKey, listed: bool) -> None:
        old = self._seen.get(name)
        if old is None:
            return
        if old.key is not None:
            self._put(self._decoder.kind, old.key, None, listed)
        del self._seen[name]
        self._mend(name)

    def _break(self, name: str, text: str) -> None:
        """Count an object, and keep its error; `name` has a "/" if the object has a name."""
        self.broken += 1
        known = self._wrong if "/" in name else self._nameless
        if name in known or len(known) < _MOST_NAMED:
            known[name] = self._hide(text)

    def _mend(self, name: PodKey) -> None:
        """Note that an object can be decoded, or is gone."""
        if self._wrong:
            self._wrong.pop("/".join(name), None)
