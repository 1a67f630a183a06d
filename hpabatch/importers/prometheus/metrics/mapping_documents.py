"""Documents of mapping files, whose content shows their kind.

A file that is given by its name must hold a known kind of document. Of a folder's files those that
do are read; a note names each file that cannot be read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpabatch.importers.prometheus.metrics import adapter_file, mapping_file
from hpabatch.importers.prometheus.metrics.adapter_file import AdapterConfig, read_adapter
from hpabatch.importers.prometheus.metrics.mapping_file import MappingFile, read_mapping_file
from hpabatch.inputs import keda
from hpabatch.inputs.documents import Mistakes, Place, duplicate_keys, place_of, read_text
from hpabatch.inputs.keda import ScaledObject
from hpabatch.inputs.keda_file import read_scaled_object
from hpabatch.inputs.manifest_documents import (
    Document,
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.inputs.manifests import manifest_files

MAX_BYTES: Final = 64 * 2**20
_WHAT: Final = "mapping"
_WANTED: Final = (
    "expected the configuration of prometheus-adapter or its ConfigMap, ScaledObjects of KEDA, or "
    "a mapping file with `metrics` or `scalables`"
)


@dataclass(slots=True)
class Mapped:
    """The documents by kind, in the order of the files; other kinds are counted."""

    adapters: list[AdapterConfig] = field(default_factory=list)
    scaled_objects: list[ScaledObject] = field(default_factory=list)
    files: list[MappingFile] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of documents of known kinds."""
        return len(self.adapters) + len(self.scaled_objects) + len(self.files)


def read_path(path: Path, into: Mapped, mistakes: Mistakes) -> None:
    """Read a file, or all manifests below a folder."""
    before = into.count + len(mistakes.found)
    if os.path.isdir(path):

        def refuse(error: OSError) -> None:
            mistakes.add(f"{_WHAT} folder {error.filename} cannot be read: {error.strerror}")

        for one in manifest_files(path, refuse):
            _read_file(one, into, mistakes, in_folder=True)
        if into.count + len(mistakes.found) == before:
            mistakes.add(f"{_WANTED}, got nothing of that ({_WHAT} folder {path})")
        return
    others = into.others.copy()
    _read_file(path, into, mistakes, in_folder=False)
    if into.count + len(mistakes.found) == before:
        kinds = ", ".join(sorted(into.others - others)) or "no document"
        mistakes.add(f"{_WANTED}, got {kinds} ({_WHAT} {path})")


def _read_file(path: Path, into: Mapped, mistakes: Mistakes, in_folder: bool) -> None:
    source = f"{_WHAT} {path}"
    with mistakes.gather():
        text = read_text(path, source, MAX_BYTES)
        for piece, offset in split_documents(text):
            try:
                for document in parse_documents(piece):
                    _read_document(document, source, offset, into, mistakes)
            except DocumentError as error:
                if in_folder:
                    into.notes.append(f"{source}: left out: {error.describe(offset)}")
                else:
                    mistakes.add(f"{source}: {error.describe(offset)}")


def _read_document(
    document: Document, source: str, offset: int, into: Mapped, mistakes: Mistakes
) -> None:
    if document.value is None:
        return
    if not isinstance(document.value, Mapping | list):
        into.others["text"] += 1
        return
    for value, node in expand(document.value, document.node):
        if isinstance(value, str):
            into.others["a list of something else"] += 1
        elif _read_object(place_of(value, node, source, offset), value, into, mistakes):
            mistakes.add(*duplicate_keys(document, source, offset, node))


def _read_object(
    place: Place, value: Mapping[str, object], into: Mapped, mistakes: Mistakes
) -> bool:
    """Read an object of a kind that is understood; False for another, which is counted."""
    kind = value.get("kind")
    if kind == keda.KIND:
        found = read_scaled_object(place, mistakes)
        into.scaled_objects += [] if found is None else [found]
        return True
    if kind == "ConfigMap":
        return _read_config_map(value, place.source, into, mistakes)
    if "kind" not in value and any(key in value for key in adapter_file.TOP_KEYS):
        into.adapters.append(read_adapter(place, mistakes))
        return True
    if "kind" not in value and any(key in value for key in mapping_file.TOP_KEYS):
        into.files.append(read_mapping_file(place, mistakes))
        return True
    keys = ", ".join(list(value)[:5]) or "nothing"
    into.others[kind if isinstance(kind, str) and kind else f"a mapping of {keys}"] += 1
    return False


def _read_config_map(
    value: Mapping[str, object], source: str, into: Mapped, mistakes: Mistakes
) -> bool:
    """Read the adapter's configurations among a ConfigMap's data."""
    data, found = value.get("data"), False
    for key, text in (data if isinstance(data, Mapping) else {}).items():
        if not isinstance(text, str):
            continue
        inner = f'{source}: data["{key}"]'
        try:
            documents = parse_documents(text)
        except DocumentError as error:
            if any(word in text for word in adapter_file.TOP_KEYS):
                mistakes.add(f"{inner}: {error.describe(0)}")
                found = True
            continue
        for document in documents:
            config = document.value
            if not isinstance(config, Mapping):
                continue
            if not any(name in config for name in adapter_file.TOP_KEYS):
                continue
            found = True
            into.adapters.append(read_adapter(place_of(config, document.node, inner), mistakes))
            mistakes.add(*duplicate_keys(document, inner))
    if not found:
        into.others["ConfigMap"] += 1
    return found
