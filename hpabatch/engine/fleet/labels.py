"""Index of pods by label: most selectors of scales ask for one label's value."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Generic, TypeVar

from hpabatch.history.checks import decode_cell
from hpabatch.layout import codes
from hpabatch.model.selectors import parse_selector

T = TypeVar("T")
Space = Hashable
"""Scope of selectors: a namespace."""


@lru_cache(maxsize=100_000)
def label_map(text: str) -> dict[str, str]:
    """Return labels from their JSON text; the pods of a workload share a handful of texts."""
    return {str(key): str(value) for key, value in decode_cell(text, dict, "labels").items()}


def selector_code(text: str | None) -> int:
    """Return SELECTOR_* of a scale's selector; null means that only the owner is known."""
    if text is None:
        return codes.SELECTOR_OK
    if text == "":
        return codes.SELECTOR_MISSING
    try:
        parse_selector(text)
    except ValueError:
        return codes.SELECTOR_INVALID
    return codes.SELECTOR_OK


def selects(text: str | None, target: str, owner: str | None, labels: str) -> bool:
    """Say whether a scale's selector matches a pod; without one its target's own pods count."""
    if text is None:
        return owner == target
    if selector_code(text) != codes.SELECTOR_OK:
        return False
    return parse_selector(text).matches(label_map(labels))


class LabelIndex(Generic[T]):
    """Items with an owner and labels, in spaces; found by a scale's selector."""

    def __init__(self) -> None:
        """Begin empty."""
        self._all: dict[Space, list[tuple[str | None, str, T]]] = {}
        self._by_label: dict[tuple[Space, str, str], list[tuple[str | None, str, T]]] = {}
        self._by_owner: dict[tuple[Space, str | None], list[tuple[str | None, str, T]]] = {}

    def add(self, space: Space, owner: str | None, labels: str, item: T) -> None:
        """Add an item of a space, owned by a target or (None) by none."""
        entry = (owner, labels, item)
        self._all.setdefault(space, []).append(entry)
        self._by_owner.setdefault((space, owner), []).append(entry)
        for key, value in label_map(labels).items():
            self._by_label.setdefault((space, key, value), []).append(entry)

    def matching(self, space: Space, target: str, text: str | None) -> list[T]:
        """Return the items of a space that the selector of a target's scale matches."""
        return [
            item
            for owner, labels, item in self._possible(space, target, text)
            if selects(text, target, owner, labels)
        ]

    def _possible(
        self, space: Space, target: str, text: str | None
    ) -> list[tuple[str | None, str, T]]:
        if text is None:
            return self._by_owner.get((space, target), [])
        if selector_code(text) != codes.SELECTOR_OK:
            return []
        for requirement in parse_selector(text).requirements:
            if requirement.operator in ("=", "=="):
                at = (space, requirement.key, requirement.values[0])
                return self._by_label.get(at, [])
        return self._all.get(space, [])
