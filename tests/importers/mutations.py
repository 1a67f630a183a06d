"""Valid files with one thing wrong: every key renamed, dropped, or given another value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from hpabatch.errors import UsageError
from hpabatch.inputs.document_keys import ListOf, MapOf, Record

VALUES: tuple[Any, ...] = (
    [], {}, "", "x", "-1s", -1, 0, 1.5, 10**30, True, float("nan"), [[1]], {"x": 1}, [None], "1h",
    "999999w", "1970-01-01T00:00:00Z", "150%", "80% of nothing", "a/b/c/d", "1/0", "١",
)  # fmt: skip

Path = tuple[str | int, ...]


def places_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of everything in a document but itself."""
    pairs: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, item in pairs:
        yield (*path, key)
        yield from places_of(item, (*path, key))


def changed(document: Any, path: Path, change: Callable[[Any, Any], None]) -> str:
    """Return a document as YAML after a change of what holds a path, by its last part."""
    made = copy.deepcopy(document)
    holder = made
    for part in path[:-1]:
        holder = holder[part]
    change(holder, path[-1])
    text: str = yaml.dump(
        made, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text


def key_of(path: Path) -> str:
    """Return the key that a complaint about a path must name: the last that is a text."""
    return next((part for part in reversed(path) if isinstance(part, str)), "steps")


def complaint(parse: Callable[[str, str], object], text: str) -> str | None:
    """Return what is complained of about a text, None where it is fine.

    Anything but a sentence that begins with the file fails the test.
    """
    try:
        parse(text, "file f.yaml")
    except UsageError as error:
        found = str(error)
        assert "file f.yaml" in found, found
        assert all(len(line) < 1010 for line in found.splitlines())
        return found
    return None


def check_mutations(parse: Callable[[str, str], object], document: Any, free: set[str]) -> int:
    """Mutate a valid document in every place; return how many mutations were refused.

    The keys of mappings at the keys of `free` are names: some others are as good.
    """
    assert complaint(parse, yaml.safe_dump(document)) is None
    refused = 0
    for path in places_of(document):
        key = key_of(path)

        def put(value: Any) -> Callable[[Any, Any], None]:
            return lambda holder, part: holder.__setitem__(part, value)

        for value in VALUES:
            found = complaint(parse, changed(document, path, put(value)))
            if found is not None:
                refused += 1
                assert key in found, (found, path, value)
                assert "(file f.yaml, line " in found
        found = complaint(parse, changed(document, path, put(None)))
        assert found is not None, path
        assert key in found
        if isinstance(path[-1], int):
            continue
        dropped = complaint(parse, changed(document, path, lambda holder, part: holder.pop(part)))
        if dropped is not None:
            assert key in dropped or "is stated" in dropped, (dropped, path)
        if len(path) > 1 and path[-2] in free:
            continue

        def rename(holder: Any, part: Any) -> None:
            holder[f"{part}_"] = holder.pop(part)

        renamed = complaint(parse, changed(document, path, rename))
        assert renamed is not None, path
        assert f"{key}_" in renamed, (renamed, path)
        assert f"; did you mean {key}?" in renamed, (renamed, path)
        refused += 3
    return refused


def keys_of(shape: Record) -> set[tuple[str, str]]:
    """Return (title, key) of a shape and of all shapes within."""
    found: set[tuple[str, str]] = set()
    for key in shape.keys:
        found.add((shape.title, key.name))
        for inner in _shapes(key.kind):
            found |= keys_of(inner)
    return found


def _shapes(kind: Any) -> list[Record]:
    if isinstance(kind, Record):
        return [kind]
    if isinstance(kind, ListOf | MapOf):
        return _shapes(kind.item)
    inner = getattr(kind, "shape", None)
    return [inner] if isinstance(inner, Record) else []


def given_keys(value: Any) -> set[str]:
    """Return every key that is given anywhere in a document."""
    return {part for path in places_of(value) for part in path if isinstance(part, str)}


def refusal(parse: Callable[[str, str], object], text: str) -> str:
    """Return the complaint about a text; it must be refused."""
    with pytest.raises(UsageError) as caught:
        parse(text, "file f.yaml")
    return str(caught.value)


def says(message: str, told: str) -> bool:
    """Whether a message has the mistake `path: problem`, as `problem (file, line: path)`."""
    path, _, problem = told.partition(": ")
    return told in message or (problem in message and f": {path})" in message)
