"""JSON from outside: one decoder, typed and bounded in size, depth and range.

Files in folders of results, objects of a cluster and replies of workers may have been written by
anybody. What this decoder returns can be walked, printed and stored by code without checks of its
own: no document exhausts the stack, and no integer exceeds a column of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

MAX_DEPTH: Final = 200
"""Levels of nesting, of YAML documents too: objects of Kubernetes have some twenty."""
_MOST_BYTES: Final = 64 * 2**20
_DEEP: Final = f"expected at most {MAX_DEPTH} levels of nesting, got more"

_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

T = TypeVar("T")


def decode_json(data: bytes | str, kind: type[T], most_bytes: int = _MOST_BYTES) -> T:
    """Return a JSON document as a value of `kind`: any type that msgspec decodes.

    Raises:
        ValueError: it is larger than `most_bytes`, no JSON or not of that type, nests deeper than
            `MAX_DEPTH` levels, or has an integer that 64 bits cannot hold.
    """
    if len(data) > most_bytes:
        raise ValueError(f"expected at most {most_bytes} bytes of JSON, got {len(data)}")
    try:
        text = data if isinstance(data, str) else data.decode()
        document = msgspec.json.decode(without_half_pairs(text))
        for item in items_of(document):
            if type(item) is int and not -(2**63) <= item < 2**63:
                raise ValueError("expected integers of 64 bits, got a larger one")
        return msgspec.convert(document, kind)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except UnicodeDecodeError:
        raise ValueError("expected JSON in UTF-8, got other bytes") from None
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def without_half_pairs(text: str) -> str:
    """Return JSON in which U+FFFD stands for half surrogate pairs, as Go's decoder reads them."""
    if r"\ud" not in text.lower():
        return text
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], text)


def items_of(value: object) -> Iterator[object]:
    """Yield a value, and all that is in its dictionaries and lists, level by level.

    Raises:
        ValueError: they nest deeper than `MAX_DEPTH` levels.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        yield from level
        containers = [item for item in level if isinstance(item, dict | list | tuple)]
        level = [
            inner
            for item in containers
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ValueError(_DEEP)
