"""Input of an import: what its columns mean, and the parts in which it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpabatch.history.files import read_regular
from hpabatch.importers.common.objects import load_hpas
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import TableFile, digest_files, find_files, open_parts
from hpabatch.importers.table.map import TableMap
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.request import TableRequest
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.model.objects.encode import spec_to_json

READER_VERSION = 4
"""Raise it when the same input and map give other rows: what was imported before is then redone."""


@dataclass(frozen=True, slots=True)
class TableInput:
    """What an import reads: the map, and the files cut into parts.

    `context` is a digest of the map and of the lists, manifests and objects that it names.
    """

    table: TableMap
    parts: tuple[TableFile, ...]
    context: str

    @property
    def paths(self) -> list[Path]:
        """The files, each once."""
        return list(dict.fromkeys(part.path for part in self.parts))


def open_input(request: TableRequest) -> TableInput:
    """Return the input that a request names; of its files only the beginnings are read.

    Raises:
        UsageError, HistoryError: something cannot be read.
    """
    assert request.map is not None, "the request's check asks for it"
    beside = Beside(read_objects(request.objects)) if request.objects else None
    table = read_map(request.map, beside, request.start_ms)
    parts = open_parts(find_files(request.inputs), table)
    return TableInput(table, tuple(parts), _context(Path(request.map), table))


def _context(map_file: Path, table: TableMap) -> str:
    """Return a digest of a map and of what it names."""
    digest = hashlib.sha256(read_regular(map_file))
    hpas = load_hpas(table.hpas.manifests) if table.hpas.manifests else []
    specs = [(hpa.namespace, hpa.name, spec_to_json(hpa)) for hpa in hpas]
    digest.update(repr((READER_VERSION, table.requests, table.limits, specs)).encode())
    if table.time.start_ms is not None:
        digest.update(str(table.time.start_ms).encode())
    if table.beside is not None:
        digest.update(table.beside.objects.digest.encode())
    return digest.hexdigest()


def digest_input(found: TableInput, digests: Mapping[Path, str]) -> str:
    """Return a digest of all that an import reads."""
    return hashlib.sha256(f"{found.context}{digest_files(digests)}".encode()).hexdigest()
