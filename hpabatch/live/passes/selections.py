"""Pods matched by each selector, kept up to date as pods and selectors change.

Most selectors require one label's value, so pods and selectors find each other by that label.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from hpabatch.model.selectors import Selector

Owner = Hashable
"""The owner of a selector."""

_At = tuple[str, str, str]  # namespace, label, value
_KeyT = TypeVar("_KeyT", bound=Hashable)
_MemberT = TypeVar("_MemberT", bound=Hashable)


class Selections:
    """Pods by slot and selectors by owner, each in a namespace.

    Attributes:
        dirty: owners whose pods changed since the reader last emptied this set.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.dirty: set[Owner] = set()
        self._labels: dict[int, tuple[str, Mapping[str, str]]] = {}
        self._by_label: dict[_At, set[int]] = {}
        self._by_namespace: dict[str, set[int]] = {}
        self._selectors: dict[Owner, tuple[str, Selector, _At | None]] = {}
        self._asking: dict[_At, set[Owner]] = {}
        self._general: dict[str, set[Owner]] = {}
        self._members: dict[Owner, set[int]] = {}
        self._owners: dict[int, set[Owner]] = {}
        self._shared: set[int] = set()

    def put_pod(self, slot: int, namespace: str, labels: Mapping[str, str]) -> None:
        """Add a pod, or update its labels."""
        before = self._owners.get(slot, set())
        self._unindex(slot)
        self._labels[slot] = (namespace, labels)
        self._by_namespace.setdefault(namespace, set()).add(slot)
        for key, value in labels.items():
            self._by_label.setdefault((namespace, key, value), set()).add(slot)
        after = set(self._owners_of(namespace, labels))
        for owner in after - before:
            self._members[owner].add(slot)
        for owner in before - after:
            self._members[owner].discard(slot)
        self.dirty |= after | before  # a recreated pod has the slot of its predecessor
        self._owners[slot] = after
        self._count(slot)

    def remove_pod(self, slot: int) -> None:
        """Remove a pod."""
        self._unindex(slot)
        self._labels.pop(slot, None)
        for owner in self._owners.pop(slot, set()):
            self._members[owner].discard(slot)
            self.dirty.add(owner)
        self._shared.discard(slot)

    def put_selector(self, owner: Owner, namespace: str, selector: Selector) -> None:
        """Set or replace an owner's selector."""
        self.remove_selector(owner)
        at = _first_label(namespace, selector)
        self._selectors[owner] = (namespace, selector, at)
        if at is None:
            self._general.setdefault(namespace, set()).add(owner)
        else:
            self._asking.setdefault(at, set()).add(owner)
        self._members[owner] = found = self.matching(namespace, selector)
        for slot in found:
            self._owners[slot].add(owner)
            self._count(slot)
        self.dirty.add(owner)

    def remove_selector(self, owner: Owner) -> None:
        """Remove an owner's selector, if there is one."""
        known = self._selectors.pop(owner, None)
        if known is None:
            return
        namespace, _, at = known
        if at is None:
            _drop(self._general, namespace, owner)
        else:
            _drop(self._asking, at, owner)
        for slot in self._members.pop(owner, set()):
            self._owners[slot].discard(owner)
            self._count(slot)
        self.dirty.add(owner)

    def slots_of(self, namespace: str) -> set[int]:
        """Return the slots of a namespace's pods; read-only."""
        return self._by_namespace.get(namespace, _NONE)

    def members(self, owner: Owner) -> set[int]:
        """Return the slots that an owner's selector matches; read-only."""
        return self._members.get(owner, _NONE)

    def owners(self, slot: int) -> set[Owner]:
        """Return the owners whose selectors match a pod; read-only."""
        return self._owners.get(slot, set())

    def sharing(self) -> set[Owner]:
        """Return the owners that share a pod with another owner."""
        return {owner for slot in self._shared for owner in self._owners[slot]}

    def matching(self, namespace: str, selector: Selector) -> set[int]:
        """Return the slots of a namespace that a selector matches."""
        at = _first_label(namespace, selector)
        slots = self._by_namespace.get(namespace, _NONE)
        if at is not None:
            slots = self._by_label.get(at, _NONE)
        return {slot for slot in slots if selector.matches(self._labels[slot][1])}

    def _count(self, slot: int) -> None:
        """Note whether several owners share a pod."""
        (self._shared.add if len(self._owners[slot]) > 1 else self._shared.discard)(slot)

    def _owners_of(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Owner]:
        for key, value in labels.items():
            for owner in self._asking.get((namespace, key, value), ()):
                if self._selectors[owner][1].matches(labels):
                    yield owner
        for owner in self._general.get(namespace, ()):
            if self._selectors[owner][1].matches(labels):
                yield owner

    def _unindex(self, slot: int) -> None:
        namespace, labels = self._labels.get(slot, ("", {}))
        for at in [(namespace, key, value) for key, value in labels.items()]:
            _drop(self._by_label, at, slot)
        _drop(self._by_namespace, namespace, slot)


_NONE: set[int] = set()


def _drop(table: dict[_KeyT, set[_MemberT]], key: _KeyT, member: _MemberT) -> None:
    """Remove a member from a set, and the set once it is empty: label values come and go."""
    found = table.get(key)
    if found is not None:
        found.discard(member)
        if not found:
            del table[key]


def _first_label(namespace: str, selector: Selector) -> _At | None:
    for requirement in selector.requirements:
        if requirement.operator in ("=", "=="):
            return namespace, requirement.key, requirement.values[0]
    return None
