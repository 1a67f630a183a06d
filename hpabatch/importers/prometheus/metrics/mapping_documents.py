"""The documents of mapping files: which of the kinds each is, by its content.

A file that is given by its name must hold something that is understood. Of a folder's files those
count that do; what cannot be read there is told, because it might have been meant.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpabatch.history.files import open_regular
from hpabatch.importers.prometheus.metrics import adapter_file, keda, mapping_file
from hpabatch.importers.prometheus.metrics.adapter_file import AdapterConfig, read_adapter
from hpabatch.importers.prometheus.metrics.config_fields import Mistakes
from hpabatch.importers.prometheus.metrics.keda import ScaledObject
from hpabatch.importers.prometheus.metrics.keda_file import read_scaled_object
from hpabatch.importers.prometheus.metrics.mapping_file import MappingFile, read_mapping_file
from hpabatch.inputs.kubernetes_yaml import end_line, start_line
from hpabatch.inputs.manifest_documents import (
    Document,
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.inputs.manifests import SUFFIXES

MAX_BYTES: Final = 64 * 2**20
_WHAT: Final = "mapping"
_WANTED: Final = (
    "wanted: the configuration of prometheus-adapter or its ConfigMap, ScaledObjects of KEDA, or a "
    "mapping file with `metrics` or `scalables`"
)


@dataclass(slots=True)
class Mapped:
    """What was read: of each kind in the order of the files; other kinds are counted."""

    adapters: list[AdapterConfig] = field(default_factory=list)
    scaled_objects: list[ScaledObject] = field(default_factory=list)
    files: list[MappingFile] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many documents were understood."""
        return len(self.adapters) + len(self.scaled_objects) + len(self.files)


def read_path(path: Path, into: Mapped, mistakes: Mistakes) -> None:
    """Read a file, or all manifests below a folder."""
    before = into.count + len(mistakes.found)
    if os.path.isdir(path):
        for one in _files(path, mistakes):
            _read_file(one, into, mistakes, in_folder=True)
        if into.count + len(mistakes.found) == before:
            mistakes.add(f"{_WHAT} folder {path}", f"nothing in it is understood; {_WANTED}")
        return
    others = into.others.copy()
    _read_file(path, into, mistakes, in_folder=False)
    if into.count + len(mistakes.found) == before:
        kinds = ", ".join(sorted(into.others - others)) or "no document"
        mistakes.add(f"{_WHAT} {path}", f"holds {kinds}; {_WANTED}")


def _files(folder: Path, mistakes: Mistakes) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        mistakes.add(f"{_WHAT} folder {error.filename}", f"cannot be read: {error.strerror}")

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(root, name)


def _read_file(path: Path, into: Mapped, mistakes: Mistakes, in_folder: bool) -> None:
    source = f"{_WHAT} {path}"
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
        mistakes.add(source, f"cannot be read: {reason}; name another file")
        return
    if len(data) > MAX_BYTES:
        mistakes.add(source, f"is larger than {MAX_BYTES >> 20} MiB: split it")
        return
    for piece, offset in split_documents(text):
        try:
            documents = parse_documents(piece)
            for document in documents:
                _read_document(document, source, offset, into, mistakes)
        except DocumentError as error:
            if in_folder:
                into.notes.append(f"{source}: left out: {error.describe(offset)}")
            else:
                mistakes.add(source, error.describe(offset))


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
            continue
        line = start_line(node) + offset + 1
        if not _read_object(value, source, line, into, mistakes):
            continue
        for key, again, _, first in document.duplicates:
            if node is None or start_line(node) <= again <= end_line(node):
                mistakes.add(
                    f"{source}, line {again + offset + 1}",
                    f"the key {key!r} stands twice, first in line {first + offset + 1}; keep one",
                )


def _read_object(
    value: Mapping[str, object], source: str, line: int, into: Mapped, mistakes: Mistakes
) -> bool:
    """Read an object of a kind that is understood; False for another, which is counted."""
    kind = value.get("kind")
    if kind == keda.KIND:
        found = read_scaled_object(value, source, line, mistakes)
        into.scaled_objects += [] if found is None else [found]
        return True
    if kind == "ConfigMap":
        return _read_config_map(value, source, into, mistakes)
    if "kind" not in value and any(key in value for key in adapter_file.TOP_KEYS):
        into.adapters.append(read_adapter(value, source, mistakes))
        return True
    if "kind" not in value and any(key in value for key in mapping_file.TOP_KEYS):
        into.files.append(read_mapping_file(value, source, mistakes))
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
                mistakes.add(inner, error.describe(0))
                found = True
            continue
        for document in documents:
            config = document.value
            if not isinstance(config, Mapping):
                continue
            if not any(name in config for name in adapter_file.TOP_KEYS):
                continue
            found = True
            into.adapters.append(read_adapter(config, inner, mistakes))
            for name, line, _, first in document.duplicates:
                mistakes.add(
                    f"{inner}, line {line + 1}",
                    f"the key {name!r} stands twice, first in line {first + 1}; keep one",
                )
    if not found:
        into.others["ConfigMap"] += 1
    return found
