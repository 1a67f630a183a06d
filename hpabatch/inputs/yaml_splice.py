"""Changes of values in a YAML or JSON text; every other character stays as it is.

The parser locates a value and the text is replaced there, so comments, order, quotes, indentation
and line ends elsewhere cannot change. (A round trip through a YAML library rewraps and reindents.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from hpabatch.inputs.kubernetes_yaml import plain_value

Path = Sequence[str | int]

_PLAIN: Final = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")  # anchors and tags
_DEFAULT_STEP: Final = 2


class SpliceError(Exception):
    """A text that cannot be changed there; the message says why."""


def set_value(text: str, root: Node, path: Path, value: object, after: Sequence[str] = ()) -> str:
    """Return the text with a value at a path below `root`, changed or added.

    What is missing of the path is added: after the first of the keys `after` that is there, else at
    the end of the mapping. `value` is text, a number, a mapping or a list of them.

    Raises:
        SpliceError: something on the path is no mapping, or stands twice.
    """
    node = root
    for depth, step in enumerate(path):
        rest = path[depth + 1 :]
        below = _step(node, step)
        if below is None:
            places = () if rest else after
            return _add(text, root, node, str(step), _nested(rest, value), places)
        if _is_empty(below) and (rest or isinstance(value, Mapping | list)):
            return _fill(text, root, node, str(step), below, _nested(rest, value))
        node = below
    return _replace(text, root, node, value)


def delete_key(text: str, root: Node, path: Path) -> str:
    """Return the text without a key and its value, whole lines.

    Raises:
        SpliceError: it is not on lines of its own, or the only one of its mapping.
    """
    parent = root
    for step in path[:-1]:
        found = _step(parent, step)
        if found is None:
            return text
        parent = found
    node = _step(parent, path[-1])
    if node is None:
        return text
    key = _key(parent, str(path[-1]))
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    alone = text[start : key.start_mark.index].strip() == ""
    if not alone or _is_flow(parent) or len(parent.value) < 2:
        raise SpliceError(f"{path[-1]} does not stand on lines of its own")
    return text[:start] + text[_line_end(text, _content_end(node)) :]


# ---- where things stand -------------------------------------------------------------------------


def _step(node: Node, step: str | int) -> Node | None:
    """Return a member or item of a node, None where it is not there."""
    if isinstance(step, int):
        if not isinstance(node, SequenceNode) or step >= len(node.value):
            raise SpliceError(f"there is no item {step}")
        item: Node = node.value[step]
        return item
    if not isinstance(node, MappingNode):
        raise SpliceError(f"{step} is not in a mapping")
    found = [value for key, value in node.value if key.value == step]
    if len(found) > 1:
        raise SpliceError(f"{step} stands there twice")
    return found[0] if found else None


def _key(node: Node, name: str) -> Node:
    key: Node = next(key for key, _ in node.value if key.value == name)
    return key


def _is_null(node: Node) -> bool:
    plain = isinstance(node, ScalarNode) and not node.style
    return plain and plain_value(node.value) is None


def _is_empty(node: Node) -> bool:
    return _is_null(node) or (isinstance(node, CollectionNode) and not node.value)


def _is_flow(node: Node) -> bool:
    return isinstance(node, CollectionNode) and bool(node.flow_style)


def _content_end(node: Node) -> int:
    """Return where a node's own text ends; a block collection's mark is beyond what follows it."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple):
            key, value = last
            return max(int(key.end_mark.index), _content_end(value))
        return _content_end(last)
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    """Return where the next line starts."""
    if index and text[index - 1] == "\n":  # a block scalar ends with its line
        return index
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _column(node: Node) -> int:
    return int(node.start_mark.column)


def _steps(root: Node) -> tuple[int, int]:
    """Return by how much an object's mappings, and the dashes of its lists, are indented."""
    mapping = dash = None
    stack = [root]
    while stack and (mapping is None or dash is None):
        node = stack.pop(0)
        if isinstance(node, MappingNode) and not node.flow_style:
            for key, value in node.value:
                if _is_flow(value) or value.start_mark.line == key.start_mark.line:
                    continue
                if isinstance(value, MappingNode) and mapping is None and value.value:
                    mapping = _column(value) - _column(key)
                elif isinstance(value, SequenceNode) and dash is None and value.value:
                    dash = _column(value) - _column(key)
            stack += [value for _, value in node.value]
        elif isinstance(node, SequenceNode):
            stack += node.value
    if mapping is None or mapping <= 0:
        mapping = _DEFAULT_STEP
    return mapping, mapping if dash is None or dash < 0 else dash


# ---- cutting ------------------------------------------------------------------------------------


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _replace(text: str, root: Node, node: Node, value: object) -> str:
    """Put a value in a node's place, in its style."""
    start, end = int(node.start_mark.index), _content_end(node)
    found = _PROPERTIES.match(text, start, end)
    start = start if found is None else found.end()
    if isinstance(node, ScalarNode) and not isinstance(value, Mapping | list):
        ended = _newline(text) if node.style and node.style in "|>" else ""
        return text[:start] + _like(value, node.style) + ended + text[end:]
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        step, dash = _steps(root)
        lines = _block(value, _column(node), step, dash)
        return text[:start] + _newline(text).join(lines).lstrip(" ") + text[end:]
    return text[:start] + json.dumps(value) + text[end:]


def _fill(text: str, root: Node, parent: Node, name: str, node: Node, value: object) -> str:
    """Put a mapping or list where a key has no value."""
    if _is_flow(parent):
        return _replace(text, root, node, value)
    key = _key(parent, name)
    colon = text.index(":", int(key.end_mark.index)) + 1
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if colon <= start < end:  # null, ~ or {} in words
        text = text[:start].rstrip(" ") + text[end:]
    step, dash = _steps(root)
    indent = _column(key) + (dash if isinstance(value, list) else step)
    return _insert_lines(text, _line_end(text, colon), _block(value, indent, step, dash))


def _add(
    text: str, root: Node, parent: Node, name: str, value: object, after: Sequence[str]
) -> str:
    """Add a key to a mapping."""
    if not isinstance(parent, MappingNode):
        raise SpliceError(f"{name} is not in a mapping")
    if _is_flow(parent):
        return _add_to_flow(text, parent, name, value)
    by_name = {key.value: (key, node) for key, node in parent.value}
    key, last = next((by_name[k] for k in after if k in by_name), parent.value[-1])
    step, dash = _steps(root)
    lines = _block({name: value}, _column(parent), step, dash)
    end = max(int(key.end_mark.index), _content_end(last))
    return _insert_lines(text, _line_end(text, end), lines)


def _add_to_flow(text: str, parent: MappingNode, name: str, value: object) -> str:
    """Add a key behind the last one of `{…}`, on a line of its own if they have one each."""
    new = f"{json.dumps(name)}: {json.dumps(value)}"
    if not parent.value:
        start = text.index("{", int(parent.start_mark.index)) + 1
        return text[:start] + new + text[start:]
    first, (_, last) = parent.value[0][0], parent.value[-1]
    between = ", "
    if first.start_mark.line != parent.start_mark.line:
        between = "," + _newline(text) + " " * _column(first)
    end = _content_end(last)
    return text[:end] + between + new + text[end:]


def _insert_lines(text: str, index: int, lines: Sequence[str]) -> str:
    newline = _newline(text)
    before = text[:index]
    if before and not before.endswith("\n"):
        return before + newline + newline.join(lines) + text[index:]
    return before + "".join(line + newline for line in lines) + text[index:]


# ---- writing ------------------------------------------------------------------------------------


def _nested(path: Path, value: object) -> object:
    for step in reversed(path):
        if isinstance(step, int):
            raise SpliceError(f"there is no item {step}")
        value = {step: value}
    return value


def _like(value: object, style: str | None) -> str:
    """Return a scalar in the quotes that one before it had."""
    words = str(value)
    if style == "'" and "'" not in words:
        return f"'{words}'"
    if style:
        return json.dumps(words, ensure_ascii=False)
    return words if _NUMBER.fullmatch(words) else _scalar(value)


def _scalar(value: object) -> str:
    """Return a scalar so that Kubernetes reads it as what it is."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    words = str(value)
    plain = _PLAIN.fullmatch(words) or re.fullmatch(
        r"\d+(?:\.\d+)?(?:[numkMGTPE]|[KMGTPE]i)", words
    )
    if plain and isinstance(plain_value(words), str):
        return words
    if '"' in words and "'" not in words and words.isprintable():
        return f"'{words}'"
    return json.dumps(words, ensure_ascii=False)


def _block(value: Any, indent: int, step: int, dash: int) -> list[str]:
    """Return the lines of a mapping or list in block style."""
    blank = " " * indent
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            if not isinstance(item, Mapping):
                lines.append(f"{blank}- {_scalar(item)}")
                continue
            inner = _block(item, indent + 2, step, dash)
            lines += [f"{blank}- {inner[0].lstrip(' ')}", *inner[1:]]
        return lines
    for name, part in value.items():
        if isinstance(part, Mapping | list) and part:
            below = indent + (dash if isinstance(part, list) else step)
            lines += [f"{blank}{_scalar(name)}:", *_block(part, below, step, dash)]
        else:
            words = json.dumps(part) if isinstance(part, Mapping | list) else _scalar(part)
            lines.append(f"{blank}{_scalar(name)}: {words}")
    return lines
