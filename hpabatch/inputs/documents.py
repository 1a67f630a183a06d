"""A small YAML document as places: each value knows the file, the line and the path it stands at.

Every complaint is one sentence that begins with them:
`scenario peak.yaml, line 4: steps[0].spike.for: …`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from yaml.nodes import MappingNode, Node, SequenceNode

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular, read_regular
from hpabatch.inputs.fields import show
from hpabatch.inputs.kubernetes_yaml import start_line
from hpabatch.inputs.manifest_documents import DocumentError, parse_documents
from hpabatch.model.suggestions import did_you_mean

MAX_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """A value of a document. `source` is what messages call the file; `line` counts from 1.

    `folder` is the one of the file, from which paths in it are meant.
    """

    source: str
    path: str
    value: object
    line: int | None = None
    node: Node | None = None
    folder: Path = Path()

    def __str__(self) -> str:
        """Return `scenario peak.yaml, line 4: steps[0].spike`."""
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.source}{line}" + (f": {self.path}" if self.path else "")

    def within(self, path: str, value: object, line: int | None, node: Node | None) -> Place:
        """Return the place of a part of the value; without a line of its own it has this one's."""
        return Place(self.source, path, value, line or self.line, node, self.folder)

    def refuse(self, problem: str) -> NoReturn:
        """Raise a UsageError about the value: where it stands, and the problem."""
        raise UsageError(f"{self}: {problem}")

    def refuse_key(self, key: str, known: Iterable[str], what: str = "unknown key") -> NoReturn:
        """Raise a UsageError about a key of this mapping, with what is known here."""
        names = list(known)
        text = f"{what}{did_you_mean(key, names)} (known here: {', '.join(names)})"
        self.members()[key].refuse(text)

    def items(self) -> list[Place]:
        """Return the places of a list's items; the value must be a list."""
        assert isinstance(self.value, list)
        found = self.node.value if isinstance(self.node, SequenceNode) else ()
        nodes: list[Node | None] = [*found] if found else [None] * len(self.value)
        return [
            self.within(f"{self.path}[{k}]", item, _line(node), node)
            for k, (item, node) in enumerate(zip(self.value, nodes, strict=True))
        ]

    def members(self) -> dict[str, Place]:
        """Return the places of a mapping's values by key; the value must be a mapping."""
        assert isinstance(self.value, Mapping)
        nodes: dict[str, tuple[Node, Node]] = {}
        if isinstance(self.node, MappingNode):
            nodes = {pair[0].value: pair for pair in self.node.value if pair[0].value}
        found: dict[str, Place] = {}
        for key, value in self.value.items():
            # A key that came by a merge, or is not written as it is read, has no node of its own.
            key_node, node = nodes.get(key, (None, None))
            path = f"{self.path}.{key}" if self.path else str(key)
            found[key] = self.within(path, value, _line(key_node), node)
        return found


def read_document(path: Path | str, what: str) -> Place:
    """Return the one YAML or JSON document of a file; `what` is what messages call it.

    Raises:
        UsageError: the file cannot be read, is not YAML, holds not exactly one document, or gives
            a key twice.
    """
    source = f"{what} {path}"
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
        raise UsageError(f"{source} cannot be read: {reason}; name another file") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{source} is larger than {MAX_BYTES >> 20} MiB; name another file")
    return parse_document(text, source, Path(path).parent)


def parse_document(text: str, source: str, folder: Path = Path()) -> Place:
    """Return the one document of a text; `source` is what messages call it.

    Raises:
        UsageError: not YAML, not exactly one document, or a key that is given twice.
    """
    try:
        documents = parse_documents(text)
    except DocumentError as error:
        raise UsageError(f"{source}: {error.describe(0)}{_star_hint(text, error)}") from None
    if len(documents) != 1:
        raise UsageError(f"{source} holds {len(documents)} documents; one is wanted")
    document = documents[0]
    for key, line, _, first in document.duplicates:
        raise UsageError(
            f"{source}, line {line + 1}: the key {key!r} stands twice, first in line {first + 1}; "
            "keep one"
        )
    return Place(source, "", document.value, _line(document.node), document.node, folder)


def _star_hint(text: str, error: DocumentError) -> str:
    """Return what to do where a glob such as `*/web` was read as a YAML alias, else ""."""
    lines = text.split("\n")
    if error.column is None or error.line >= len(lines):
        return ""
    is_star = "*" in lines[error.line][max(0, error.column - 1) : error.column + 1]
    return "; put a name that begins with * in quotes" if is_star else ""


def _line(node: Node | None) -> int | None:
    return None if node is None else start_line(node) + 1


__all__ = ["Place", "parse_document", "read_document", "show"]


def digests_of(paths: Iterable[Path | str | None]) -> dict[str, str]:
    """Return what an evidence says of files that people wrote: `sha256:NAME` and the digest."""
    found = {}
    for path in paths:
        if path is not None:
            found[f"sha256:{Path(path).name}"] = hashlib.sha256(read_regular(path)).hexdigest()
    return found
