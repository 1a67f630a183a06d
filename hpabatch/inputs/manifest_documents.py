"""Documents and objects of a manifest file, with their lines.

A stream is split at its `---` lines, so one broken document does not affect others. Each is parsed
with Kubernetes' rules, and lists of objects are expanded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from hpabatch._json import without_half_pairs
from hpabatch.inputs.kubernetes_yaml import (
    KubernetesLoader,
    TooDeepError,
    check_depth,
    compose,
    start_line,
)

_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_BLANK = re.compile(r"\A(?:[ \t]*(?:#[^\n]*|%[^\n]*)?(?:\r?\n|\Z))*\Z")
# `{{ … }}` of Helm; `${{NAME}}` is a parameter of an OpenShift template, which is YAML.
_TEMPLATE = re.compile(r"(?<!\$)\{\{.*?(?:\}\}|$)")
_FIELDS = ("apiVersion", "kind", "metadata", "spec")
_MAX_LIST_DEPTH = 10
_JSON = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


def split_documents(text: str) -> Iterator[tuple[str, int]]:
    """Split a stream at its `---` lines.

    Yields the text of each document with its first line's number from 0; no blank ones.
    """
    starts = [0, *(match.end() for match in _SEPARATOR.finditer(text))]
    ends = [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    offset = position = 0
    for start, end in zip(starts, ends, strict=True):
        offset += text.count("\n", position, start)
        position = start
        piece = text[start:end]
        if not _BLANK.match(piece):
            yield piece, offset


class DocumentError(Exception):
    """A document that cannot be read, at a line from 0 within its piece."""

    def __init__(self, message: str, line: int = 0, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def describe(self, offset: int) -> str:
        """Return the message with the line in its file, whose line `offset` the piece starts."""
        column = "" if self.column is None else f", column {self.column + 1}"
        return f"{self} (line {self.line + offset + 1}{column})"


class TemplateError(DocumentError):
    """An unrendered template; the message is its first expression."""

    def describe(self, offset: int) -> str:
        """Return the sentence about templates, with the line in the file."""
        where = f"line {self.line + offset + 1}: `{self}`"
        return (
            f"looks like an unrendered Helm template ({where}); "
            "render it first with `helm template`"
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document; `duplicates` are (key, line, column, first line), from 0.

    `node` is None where the JSON parser had to read it.
    """

    value: object
    node: Node | None
    duplicates: list[tuple[str, int, int, int]]


def parse_documents(piece: str) -> list[Document]:
    """Parse the documents of a piece: YAML, else JSON (whose surrogate pairs YAML refuses)."""
    try:
        return _parse_yaml(piece)
    except TooDeepError as error:
        raise DocumentError(f"refused: {error.problem}", error.line) from None
    except yaml.YAMLError as error:
        documents = parse_json(piece)
        if documents is None:
            raise _yaml_error(piece, error) from None
        return documents
    except RecursionError:
        raise DocumentError("refused: nested too deeply") from None


def _parse_yaml(piece: str) -> list[Document]:
    check_depth(piece)
    documents: list[Document] = []
    loader = KubernetesLoader(piece)
    try:
        while loader.check_node():
            node = compose(loader, piece)
            _check_separated(node)
            loader.duplicates = []
            documents.append(Document(loader.construct_document(node), node, loader.duplicates))
    finally:
        loader.dispose()
    return documents


def _check_separated(node: Node) -> None:
    """Refuse an object that begins twice: files that were joined without `---` between them."""
    seen: set[str] = set()
    for key, _ in node.value if isinstance(node, MappingNode) else ():
        if key.value in _FIELDS and key.value in seen:
            told = f"{key.value} stands twice: documents are separated by ---"
            raise DocumentError(told, start_line(key))
        seen.add(key.value if isinstance(key.value, str) else "")


def parse_json(piece: str) -> list[Document] | None:
    """Parse JSON documents one after another, None where the piece is not that."""
    if not piece.lstrip().startswith(("{", "[")):
        return None
    documents: list[Document] = []
    piece = without_half_pairs(piece)
    position, end = 0, len(piece.rstrip())
    try:
        while position < end:
            # (a copy of the rest for each document would take quadratic time)
            start = _SPACE.match(piece, position).end()  # type: ignore[union-attr]
            value, position = _JSON.raw_decode(piece, start)
            documents.append(Document(value, None, []))
    except (ValueError, RecursionError):
        return None
    return documents


def _yaml_error(piece: str, error: yaml.YAMLError) -> DocumentError:
    """Return libyaml's error as one line, or the error of a template."""
    template = find_template(piece)
    if template is not None:
        return template
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:  # the reader's own errors know the offset in UTF-8 only
        before = piece.encode()[: getattr(error, "position", 0)]
        return DocumentError(f"not YAML: {problem}", before.count(b"\n"))
    lines = piece.split("\n")
    line = min(mark.line, len(lines) - 1)  # libyaml counts on beyond the last line
    rest = lines[line][mark.column :]
    hint = ""
    if rest.startswith("\t"):
        hint = ": indent with spaces, not tabs"
    elif rest.startswith(("%", "{%")):
        hint = ": looks like an unrendered Jinja template, render it first"
    return DocumentError(f"not YAML: {problem}{hint}", line, mark.column)


def find_template(piece: str) -> TemplateError | None:
    """Return the error of the first line outside comments that holds `{{` (but not `${{`)."""
    for number, line in enumerate(piece.split("\n")):
        match = _TEMPLATE.search(line)
        if match is not None and not line.lstrip().startswith("#"):
            shown = match[0].rstrip()
            return TemplateError(shown if len(shown) <= 60 else shown[:59] + "…", number)
    return None


def holds_template(value: Mapping[str, object]) -> bool:
    """Whether a document that is valid YAML has `{{ … }}` where an HPA has names or numbers."""
    metadata = value.get("metadata")
    stack: list[object] = [value.get("spec")]
    if isinstance(metadata, Mapping):
        stack += [metadata.get("name"), metadata.get("namespace")]
    while stack:
        item = stack.pop()
        if isinstance(item, str) and _TEMPLATE.search(item):
            return True
        if isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def expand(
    value: object, node: Node | None, depth: int = 0
) -> Iterator[tuple[Mapping[str, object] | str, Node | None]]:
    """Yield the objects of a document, those inside lists of objects one by one, with their node.

    An item that is no object is a string with the mistake.

    Raises:
        DocumentError: lists inside lists, too deep to be meant.
    """
    if isinstance(value, list):
        yield from _expand_items(value, node, depth, {})
    elif isinstance(value, Mapping):
        kind, items = value.get("kind"), value.get("items")
        if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
            yield value, node
            return
        inherited = {}
        if kind != "List":
            inherited = {"apiVersion": value.get("apiVersion"), "kind": kind[: -len("List")]}
        members = node.value if isinstance(node, MappingNode) else ()
        # Of a repeated key the last, as the value is.
        below = {key_node.value: value_node for key_node, value_node in members}.get("items")
        yield from _expand_items(items, below, depth, inherited)


def _expand_items(
    items: Iterable[object], node: Node | None, depth: int, inherited: Mapping[str, object]
) -> Iterator[tuple[Mapping[str, object] | str, Node | None]]:
    if depth >= _MAX_LIST_DEPTH:
        raise DocumentError(f"refused: lists inside lists, deeper than {_MAX_LIST_DEPTH}")
    nodes = node.value if isinstance(node, SequenceNode) else None
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            item = {**inherited, **item}
        elif not isinstance(item, list):
            yield f"item {index + 1} of the list is not a mapping: {item!r:.40}", None
            continue
        yield from expand(item, nodes[index] if nodes else None, depth + 1)
