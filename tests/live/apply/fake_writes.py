"""An API server in memory for a `WriteClient`: versions, conflicts, failures on demand."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from hpabatch.cluster.connection.errors import ApiError, InvalidResponse, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient

_NUMBERS = itertools.count()
Hook = Callable[[str, str], ApiError | None]


class FakeClient(WriteClient):
    """`objects` by path; `before` and `after` a request may do anything, also return an error.

    The scale of an object is the object itself.
    """

    def __init__(self, objects: dict[str, Json] | None = None) -> None:
        self.objects = objects if objects is not None else {}
        self.sent: list[tuple[str, str]] = []
        self.before: Hook = lambda method, path: None
        self.after: Hook = lambda method, path: None
        self.dry_run = False
        self.version = 100

    def put(self, path: str, **fields: Any) -> None:
        """Store an object, as someone else does."""
        self.version += 1
        path = self._stored(path)
        known = self.objects.get(path, {})
        metadata = {**known.get("metadata", {"uid": f"u{next(_NUMBERS)}"})}
        metadata |= fields.pop("metadata", {}) | {"resourceVersion": str(self.version)}
        self.objects[path] = {**known, **fields, "metadata": metadata}

    def read(self, path: str, timeout: float) -> Json:
        self._do("GET", path, self.before)
        if self._stored(path) not in self.objects:
            raise NotFound(f"{path} not found", 404)
        return copy.deepcopy(self.objects[self._stored(path)])

    def write(
        self, method: str, path: str, document: Mapping[str, Any] | None, timeout: float
    ) -> Json:
        self._do(method, path, self.before)
        asked, path = path, self._stored(path)
        if method == "POST":
            assert document is not None
            path = f"{path}/{document['metadata']['name']}"
            if path in self.objects:
                raise InvalidResponse("already exists", 409, "AlreadyExists")
            self.put(path, **document)
        elif path not in self.objects:
            raise NotFound(f"{path} not found", 404)
        elif method == "DELETE":
            return self.objects.pop(path)
        else:
            assert document is not None
            metadata = document.get("metadata", {})
            for name in ("resourceVersion", "uid"):
                if metadata.get(name) not in (None, self.objects[path]["metadata"].get(name)):
                    raise InvalidResponse("the object has been modified", 409, "Conflict")
            kept = {k: v for k, v in metadata.items() if k == "annotations"}
            fields = {k: v for k, v in document.items() if k != "metadata"}
            self.put(path, **fields, metadata=kept)
        self._do(method, asked, self.after)
        return copy.deepcopy(self.objects[path])

    def _stored(self, path: str) -> str:
        return path.removesuffix("/scale").removesuffix("/status")

    def _do(self, method: str, path: str, hook: Hook) -> None:
        if hook == self.before:
            self.sent.append((method, path))
        error = hook(method, path)
        if error is not None:
            raise error


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
