"""Membership: the pods that a scale's selector matches, and the targets to read for an HPA."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.history.base import History
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
        # Labels and items by space, by space and owner, and by space and label.
        self._at: defaultdict[Hashable, list[tuple[str, T]]] = defaultdict(list)

    def add(self, space: Space, owner: str | None, labels: str, item: T) -> None:
        """Add an item of a space, owned by a target or (None) by none."""
        for place in ((), (owner,), *label_map(labels).items()):
            self._at[space, place].append((labels, item))

    def matching(self, space: Space, target: str, text: str | None) -> list[T]:
        """Return the items of a space that the selector of a target's scale matches."""
        if text is None:
            return [item for _, item in self._at.get((space, (target,)), ())]
        if selector_code(text) != codes.SELECTOR_OK:
            return []
        selector, place = parse_selector(text), tuple[str, ...]()
        for requirement in selector.requirements:
            if requirement.operator in ("=", "=="):
                place = requirement.key, requirement.values[0]
        known = self._at.get((space, place), ())
        return [item for labels, item in known if selector.matches(label_map(labels))]


Place = tuple[str, str | None]
"""A namespace and the name of a target in it; None: pods without one."""

ScaleKey = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a scale's target."""


class Selections:
    """The distinct selectors of every scale, and the distinct labels of every namespace's pods."""

    def __init__(self, scales: pl.DataFrame, pods: pl.DataFrame) -> None:
        """Take distinct rows.

        `scales` has cluster, namespace, target_kind, target, selector; `pods` cluster, namespace,
        target, labels.
        """
        self.selectors: dict[ScaleKey, list[str | None]] = {}
        columns = ["cluster", "namespace", "target_kind", "target", "selector"]
        for cluster, namespace, kind, target, text in scales.select(columns).iter_rows():
            self.selectors.setdefault((cluster, namespace, kind, target), []).append(text)
        self._owners: LabelIndex[str | None] = LabelIndex()
        columns = ["cluster", "namespace", "target", "labels"]
        for cluster, namespace, owner, labels in pods.select(columns).iter_rows():
            self._owners.add((cluster, namespace), owner, labels, owner)

    def places(self, candidate: Candidate) -> list[Place]:
        """Return where pods are that any selector of the candidate's target matches."""
        _, namespace, _, target = candidate.target
        found: dict[Place, None] = {(namespace, target): None}
        for text in self.selectors.get(candidate.target, []):
            for owner in self._owners.matching(candidate.target[:2], target, text):
                found[namespace, owner] = None
        return list(found)


def foreign_pods(
    history: History, candidate: Candidate, places: Sequence[Place]
) -> list[tuple[str, str]]:
    """Return pods that the target's recorded selectors match and that are not its own.

    Each with its owner: `Deployment web`, or `no workload`. `places` are the candidate's, of
    `Selections.places`. Raises HistoryError if a table is broken.
    """
    cluster, namespace, _, target = candidate.target
    others = [place for place in places if place != (namespace, target)]
    if not others:
        return []
    scales = history.select("scales", cluster, places)
    kinds = dict(scales.select("target", "target_kind").iter_rows())
    selectors = scales.filter(pl.col("target") == target)["selector"].unique().drop_nulls()
    columns = ["pod", "target", "owner", "labels"]
    rows = history.select("pods", cluster, others).select(columns).unique(maintain_order=True)
    found = []
    for pod, workload, owner, labels in rows.iter_rows():
        if any(selects(text, target, workload, labels) for text in selectors):
            name = f"{kinds.get(workload, 'workload')} {workload}" if workload else None
            found.append((pod, name or (owner or "no workload").replace("/", " ")))
    return found
