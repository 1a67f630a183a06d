"""Ledger of size changes in the cluster, for instances that start after them.

A standby that runs sees the leader's changes. One that starts later does not, and its policies
would have their whole budget again. So the leader writes each change into a ConfigMap before it
makes it, and an instance that begins to lead books those from before its own start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.live.apply.scales import TIMEOUT_S, Fence
from hpabatch.live.passes.lanes import LaneKey

NAME: Final = "hpabatch-ledger"
_FIELD: Final = "changes"
_KEPT_MS: Final = 3_600_000  # longer than any policy's period, which is at most half an hour
_MOST: Final = 8_000  # entries: within a ConfigMap's 1 MiB
_CONFLICT: Final = 409


class Entry(NamedTuple):
    """A change of a target's size: instant of its decision (UTC ms), HPA, size before and after."""

    ms: int
    namespace: str
    name: str
    before: int
    after: int

    @property
    def key(self) -> LaneKey:
        """The HPA."""
        return self.namespace, self.name


class Ledger:
    """The ledger. For one thread."""

    def __init__(self, client: WriteClient, namespace: str, fence: Fence) -> None:
        """Prepare; nothing is sent yet. `client` must store what it writes (no dry run)."""
        self._client, self._fence = client, fence
        self._place = f"ConfigMap {namespace}/{NAME}"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._found: Json | None = None
        self._entries: list[Entry] = []

    @property
    def known(self) -> list[Entry]:
        """All entries as last read or written."""
        return self._entries

    def read(self) -> list[Entry]:
        """Return all entries, in their order.

        Raises:
            ApiError: they cannot be read.
        """
        try:
            self._found = self._client.read(f"{self._collection}/{NAME}", TIMEOUT_S)
        except NotFound:
            self._found = None
        data = (self._found or {}).get("data") or {}
        self._entries = _decoded(str(data.get(_FIELD, "")))
        return self._entries

    def add(self, entries: Sequence[Entry]) -> str:
        """Write entries, before their changes are made: "", or why that is not possible."""
        if self._fence.refusal(TIMEOUT_S):
            return self._fence.refusal(TIMEOUT_S)
        try:
            try:
                self._put(entries)
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
                self.read()
                self._put(entries)
        except ApiError as error:
            self._found = None
            return f"the ledger ({self._place}) cannot be written: {error.text}"
        return ""

    def _put(self, entries: Sequence[Entry]) -> None:
        newest = max(entry.ms for entry in entries)
        kept = [entry for entry in self._entries if newest - entry.ms < _KEPT_MS]
        whole = [*kept, *entries][-_MOST:]
        data = {_FIELD: json.dumps(whole, separators=(",", ":"))}
        if self._found is None:
            document = {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data
            }  # fmt: skip
            made = self._client.write("POST", self._collection, document, TIMEOUT_S)
        else:
            document = {**self._found, "data": data}
            made = self._client.write("PUT", f"{self._collection}/{NAME}", document, TIMEOUT_S)
        self._found, self._entries = made, whole


def _decoded(text: str) -> list[Entry]:
    """Return the entries in a ledger; what is not one is left out."""
    try:
        rows = json.loads(text) if text else []
    except ValueError:
        return []
    types = (int, str, str, int, int)
    return [
        Entry(*row)
        for row in rows if isinstance(rows, list)
        and isinstance(row, list) and tuple(map(type, row)) == types
    ]  # fmt: skip
