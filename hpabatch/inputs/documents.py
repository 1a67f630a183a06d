"""YAML documents that people write: values with their file, line and path; their mistakes.

All mistakes of a document come in one message, each as
`expected a duration such as 15s, got 'x' (scenario peak.yaml, line 4: steps[0].spike.for)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, TypeVar, cast

from yaml.nodes import MappingNode, Node, SequenceNode

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular, read_regular
from hpabatch.inputs.kubernetes_yaml import end_line, start_line
from hpabatch.inputs.manifest_documents import Document, DocumentError, parse_documents
from hpabatch.model.suggestions import nearest

MAX_BYTES = 16 * 2**20
_SHOWN: Final = 20
_MOST: Final = 100
_LONGEST: Final = 1000
_P = ParamSpec("_P")
_T = TypeVar("_T")


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, its end replaced by `…`."""
    return text if len(text) <= most else text[: most - 1] + "…"


class MistakesError(UsageError):
    """One or more mistakes of what somebody wrote: a line each, the first 20 of them."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))
        lines = [shortened(mistake, _LONGEST) for mistake in self.mistakes]
        if len(lines) > 1:
            shown = [f"  - {line}" for line in lines[:_SHOWN]]
            more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
            lines = [f"there are {len(lines)} mistakes; correct all of them:", *shown, *more]
        super().__init__(*lines)


class Mistakes:
    """Mistakes that are collected while a document is read; reading ends at the 100th."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def add(self, *mistakes: str) -> None:
        """Note mistakes.

        Raises:
            MistakesError: there are too many to go on.
        """
        self.found.update(dict.fromkeys(mistakes))
        if len(self.found) >= _MOST:
            self.refuse()

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Note the mistakes that the block raises."""
        try:
            yield
        except MistakesError as error:
            self.add(*error.mistakes)

    def tried(self, read: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return what `read` returns; after a mistake None, which only `refuse` may follow."""
        found = cast(_T, None)
        with self.gather():
            found = read(*args, **kwargs)
        return found

    def refuse(self) -> None:
        """Raise a MistakesError of what was noted, if anything was."""
        if self.found:
            raise MistakesError(self.found)


def show(value: object) -> str:
    """Return a value for a message, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


@dataclass(frozen=True, slots=True)
class Place:
    """A value of a document.

    Attributes:
        path: of the value in the document, "" of the document itself.
        line: from 1; None where it is unknown.
        node: None where the JSON parser had to read the document.
        folder: of the file; paths in it are relative to it.
        offset: the number of lines of the file before the document.
    """

    source: str
    path: str
    value: object
    line: int | None = None
    node: Node | None = None
    folder: Path = Path()
    offset: int = 0

    def __str__(self) -> str:
        """Return `scenario peak.yaml, line 4: steps[0].spike`."""
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.source}{line}" + (f": {self.path}" if self.path else "")

    def within(self, path: str, value: object, node: Node | None = None) -> Place:
        """Return the place of a part of the value; without a node it has the line of the whole."""
        line = self.line if node is None else start_line(node) + self.offset + 1
        return Place(self.source, path, value, line, node, self.folder, self.offset)

    def problem(self, problem: str, fix: str = "") -> str:
        """Return the sentence of a problem with the value: what, where, what to do."""
        return f"{problem} ({self})" + (f"; {fix}" if fix else "")

    def refuse(self, problem: str, fix: str = "") -> NoReturn:
        """Raise a MistakesError of one problem with the value."""
        raise MistakesError([self.problem(problem, fix)])

    def expected(self, wanted: str, fix: str = "") -> NoReturn:
        """Raise a MistakesError: another value than the wanted."""
        self.refuse(f"expected {wanted}, got {show(self.value)}", fix)

    def unknown(self, known: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return by key of this mapping that is not known a sentence, and the nearest known key."""
        names, found = list(known), {}
        for key, member in self.members().items():
            if key not in names:
                expected = f"expected one of {', '.join(names)}" if names else "expected no key"
                near = nearest(key, names)
                hint = f"did you mean {near}?" if near else ""
                found[key] = member.problem(f"{expected}, got {show(key)}", hint), near
        return found

    def unknown_keys(self, known: Iterable[str]) -> list[str]:
        """Return a sentence for each key of this mapping that is not known."""
        return [sentence for sentence, _ in self.unknown(known).values()]

    def at(self, name: str) -> Place:
        """Return the place of a key of this mapping, whether it is there or not."""
        path = f"{self.path}.{name}" if self.path else name
        members = self.members() if isinstance(self.value, Mapping) else {}
        return members.get(name) or self.within(path, None)

    def items(self) -> list[Place]:
        """Return the places of a list's items; the value must be a list."""
        assert isinstance(self.value, list)
        found = self.node.value if isinstance(self.node, SequenceNode) else ()
        nodes: list[Node | None] = [*found] if found else [None] * len(self.value)
        return [
            self.within(f"{self.path}[{k}]", item, node)
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
            found[key] = replace(self.within(path, value, key_node), node=node)
        return found


def read_document(path: Path | str, what: str) -> Place:
    """Return the one YAML or JSON document of a file; `what` is what messages call it.

    Raises:
        UsageError: the file cannot be read, is not YAML, holds not exactly one document, or gives
            a key twice.
    """
    source = f"{what} {path}"
    return parse_document(read_text(path, source), source, Path(path).parent)


def read_text(path: Path | str, source: str, most: int = MAX_BYTES, *, pipes: bool = False) -> str:
    """Return the text of a regular file of at most so many bytes; `source` is its name in errors.

    Raises:
        MistakesError: it cannot be read, is no text, or is larger.
    """
    try:
        with open_regular(path, pipes=pipes) as stream:
            data = stream.read(most + 1)
        text = decode_text(data) if len(data) <= most else ""
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise MistakesError([f"{source} cannot be read: {reason}; name another file"]) from None
    if len(data) > most:
        raise MistakesError([f"{source}: expected at most {most >> 20} MiB, got more; split it"])
    return text


def decode_text(data: bytes) -> str:
    """Return the text of UTF-8, or of UTF-16 with a byte-order mark.

    Raises:
        ValueError: other bytes; the message says where.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig"
    if b"\0" in data[:4096] and encoding != "utf-16":
        raise ValueError("not YAML: a binary file (it holds NUL bytes)")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise ValueError(f"not UTF-8 text: byte 0x{byte:02x} in line {line}") from None


def parse_document(text: str, source: str, folder: Path = Path()) -> Place:
    """Return the one document of a text; `source` is what messages call it.

    Raises:
        MistakesError: not YAML, not exactly one document, or keys that are given twice.
    """
    try:
        documents = parse_documents(text)
    except DocumentError as error:
        told = f"{source}: {error.describe(0)}"
        lines, column = text.split("\n"), error.column
        # (a glob such as `*/web` is read as a YAML alias)
        if column is not None and error.line < len(lines):
            is_star = "*" in lines[error.line][max(0, column - 1) : column + 1]
            told += "; put a name that begins with * in quotes" if is_star else ""
        raise MistakesError([told]) from None
    if len(documents) != 1:
        raise MistakesError([f"{source}: expected one document, got {len(documents)}"])
    document = documents[0]
    mistakes = Mistakes()
    mistakes.add(*duplicate_keys(document, source))
    mistakes.refuse()
    return place_of(document.value, document.node, source, folder=folder)


def place_of(
    value: object, node: Node | None, source: str, offset: int = 0, folder: Path = Path()
) -> Place:
    """Return the place of a document or of an object in it."""
    line = None if node is None else start_line(node) + offset + 1
    return Place(source, "", value, line, node, folder, offset)


def duplicate_keys(
    document: Document, source: str, offset: int = 0, part: Node | None = None
) -> list[str]:
    """Return a sentence for each key that stands twice, of the whole document or of a part.

    `offset` is the number of lines before the document.
    """
    return [
        f"expected the key {show(key)} once, got it twice ({source}, line {line + offset + 1}; "
        f"first in line {first + offset + 1}); keep one"
        for key, line, _, first in document.duplicates
        if part is None or start_line(part) <= line <= end_line(part)
    ]


def digests_of(paths: Iterable[Path | str | None]) -> dict[str, str]:
    """Return what an evidence says of files that people wrote: `sha256:NAME` and the digest."""
    found = {}
    for path in paths:
        if path is not None:
            found[f"sha256:{Path(path).name}"] = hashlib.sha256(read_regular(path)).hexdigest()
    return found
