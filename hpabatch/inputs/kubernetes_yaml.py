"""YAML loader with Kubernetes' rules, on libyaml: YAML 1.1 with goyaml.v2's plain scalars.

Differences from PyYAML: `y` and `n` are booleans, `1e3` is a number, `0o14` is 12,
sexagesimals, dates and `=` are strings, map keys become strings, unknown tags are ignored. A key
that occurs twice is remembered with its line and column; the last one counts, as in Kubernetes.
Follows sigs.k8s.io/yaml and goyaml.v2 resolve.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hpabatch._json import MAX_DEPTH, items_of
from hpabatch.model.quantity import json_number

MAX_EXPANDED_NODES = 1_000_000

_PREFIX = "tag:yaml.org,2002:"
_TEXT = _PREFIX + "str"
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES"), True),
    **dict.fromkeys(("true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO"), False),
    **dict.fromkeys(("false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[oO]?(?P<o>[0-7]+)|0[bB](?P<b>[01]+)"
    r"|(?P<d>0|[1-9][0-9]*))"
)
_BASES = {"x": 16, "o": 8, "b": 2, "d": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TAGS: dict[type, str] = {bool: "bool", int: "int", float: "float", type(None): "null"}

# A line that opens a block collection, and a bound on how many it can open.
_OPENING = re.compile(r"^[ ?\-]*", re.MULTILINE)


class TooDeepError(yaml.YAMLError):
    """A document is nested too deeply, or its aliases expand too far."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@lru_cache(maxsize=65_536)
def plain_value(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    match = _INTEGER.fullmatch(plain)
    if match is not None and len(plain) <= 80:
        base, digits = next((_BASES[k], v) for k, v in match.groupdict().items()
                            if v is not None and k != "sign")  # fmt: skip
        number = int(digits, base) * (-1 if match["sign"] == "-" else 1)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(plain):
        number_float = float(plain)
        if abs(number_float) != float("inf"):
            return number_float
    return text


class KubernetesLoader(yaml.CSafeLoader):
    """PyYAML's C loader with Kubernetes' resolver; `duplicates` collects repeated keys."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # key, line and column of the repetition, line of the first; all from 0
        self.duplicates: list[tuple[str, int, int, int]] = []

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> Any:
        """Return the tag of an untagged node."""
        if kind is ScalarNode and implicit[0]:
            if value == "<<":
                return _PREFIX + "merge"
            return _PREFIX + _TAGS.get(type(plain_value(value)), "str")
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping with string keys, noting duplicates before merge keys are resolved."""
        names = [key_node.value for key_node, _ in node.value if key_node.tag == _TEXT]
        if len(names) == len(node.value) == len(set(names)):  # as good as always
            values = [self.construct_object(value, deep=deep) for _, value in node.value]
            return dict(zip(names, values, strict=True))
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == _PREFIX + "merge":
                continue
            key, mark = self._key(key_node), key_node.start_mark
            if key in seen:
                self.duplicates.append((key, mark.line, mark.column, seen[key]))
            seen.setdefault(key, mark.line)
        self.flatten_mapping(node)
        return {
            self._key(key_node): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def _key(self, node: Node) -> str:
        """Return a key as the JSON that Kubernetes makes of it has it."""
        key = self.construct_object(node) if isinstance(node, ScalarNode) else None
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int | float):
            return json_number(key)
        if isinstance(key, str):
            return key
        raise ConstructorError(None, None, "a key is neither text nor number", node.start_mark)


def _construct_plain(loader: KubernetesLoader, node: ScalarNode) -> object:
    """Build a null, bool, int or float; an explicit tag must agree with the text."""
    value = plain_value(loader.construct_scalar(node))
    if isinstance(value, str):
        text = f"{value!r} is not a {node.tag.removeprefix(_PREFIX)}"
        raise ConstructorError(None, None, text, node.start_mark)
    return value


def _construct_text(loader: KubernetesLoader, node: ScalarNode) -> str:
    return str(loader.construct_scalar(node))


def _construct_any(loader: KubernetesLoader, node: Node) -> Iterator[object]:
    """Build a node of any kind, whatever its tag says."""
    if isinstance(node, MappingNode):
        mapping: dict[Hashable, Any] = {}
        yield mapping
        mapping.update(loader.construct_mapping(node))
    elif isinstance(node, SequenceNode):
        items: list[object] = []
        yield items
        items.extend(loader.construct_sequence(node))
    else:
        assert isinstance(node, ScalarNode)
        yield loader.construct_scalar(node)


for _name in ("null", "bool", "int", "float"):
    KubernetesLoader.add_constructor(_PREFIX + _name, _construct_plain)
KubernetesLoader.add_constructor(_TEXT, _construct_text)
for _name in ("map", "seq", "binary", "timestamp", "set", "omap", "pairs"):
    KubernetesLoader.add_constructor(_PREFIX + _name, _construct_any)
# None stands for any other tag.
KubernetesLoader.add_constructor(None, _construct_any)


def compose(loader: KubernetesLoader, text: str) -> Node:
    """Return the nodes of the next document (there must be one), with its aliases checked.

    Raises:
        TooDeepError: an alias inside its own anchor, or aliases that expand without measure.
        yaml.YAMLError: not YAML.
    """
    node = loader.get_node()
    assert node is not None
    if "*" in text:
        _check_aliases(node)
    return node


def check_depth(text: str) -> None:
    """Refuse nesting that would exhaust the C loader's stack.

    Only a text that might be deep, by a quick bound, is scanned event by event.

    Raises:
        TooDeepError: more than `MAX_DEPTH` levels.
        yaml.YAMLError: not YAML.
    """
    brackets = text.count("[") + text.count("{")
    opening = max((len(match) for match in _OPENING.findall(text)), default=0)
    if brackets + opening <= MAX_DEPTH or _is_shallow_json(text):
        return
    depth = 0
    for event in yaml.parse(text, KubernetesLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise TooDeepError(f"nested deeper than {MAX_DEPTH} levels", start_line(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _is_shallow_json(text: str) -> bool:
    """Whether a text is JSON, which spares the scan, and not too deep."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        for _ in items_of(json.loads(text)):
            pass
    except (ValueError, RecursionError):
        return False
    return True


def start_line(part: Node | yaml.Event | None) -> int:
    """Return the line (from 0) on which a node or event starts, 0 where it is unknown."""
    return part.start_mark.line if part is not None and part.start_mark is not None else 0


def end_line(node: Node | None) -> int:
    """Return the line (from 0) on which a node ends, 0 where it is unknown."""
    return node.end_mark.line if node is not None and node.end_mark is not None else 0


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _check_aliases(root: Node) -> None:
    """Measure the document with every alias written out; a node stands once in memory."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        key = id(node)
        if done:
            open_nodes.discard(key)
            sizes[key] = 1 + sum(sizes[id(child)] for child in _children(node))
            continue
        if key in sizes:
            continue
        if key in open_nodes:
            raise TooDeepError("an anchor contains an alias of itself", start_line(node))
        open_nodes.add(key)
        stack.append((node, True))
        stack.extend((child, False) for child in _children(node))
    if sizes[id(root)] > MAX_EXPANDED_NODES:
        raise TooDeepError(
            f"its aliases expand to more than {MAX_EXPANDED_NODES:,} values", start_line(root)
        )
