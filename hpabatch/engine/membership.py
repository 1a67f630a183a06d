"""Which pods a scale's selector matches, and which targets an HPA has to be read with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from hpabatch.arrays.layout import I64
from hpabatch.engine.candidates import Candidate
from hpabatch.engine.pod_columns import PodColumns
from hpabatch.model import codes
from hpabatch.model.selectors import parse_selector

Place = tuple[str, str | None]
"""A namespace and the name of a target in it; None: pods without one."""

ScaleKey = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a scale's target."""


@lru_cache(maxsize=100_000)
def label_map(text: str) -> dict[str, str]:
    """Return labels from their JSON text; the pods of a workload share a handful of texts."""
    return {str(key): str(value) for key, value in json.loads(text).items()}


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


def matched_pods(
    pods: PodColumns, namespace: str, target: str, selectors: Sequence[str | None]
) -> tuple[I64, I64]:
    """Return the numbers of the pods that any selector matches, and (pods, selectors) of 0/1."""
    table = np.zeros((len(pods.kinds), len(selectors)), np.int64)
    for k, (space, owner, labels) in enumerate(pods.kinds):
        if space == namespace:
            table[k] = [selects(text, target, owner, labels) for text in selectors]
    matched = table.max(axis=1, initial=0)[pods.kind] > 0
    return np.flatnonzero(matched).astype(np.int64), table[pods.kind[matched]]


Labelled = tuple[str | None, str]
"""The target and the labels (JSON) of some pods."""


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
        self._pods: dict[tuple[str, str], list[Labelled]] = {}
        self._by_label: dict[tuple[str, str, str, str], list[Labelled]] = {}
        for cluster, namespace, owner, labels in pods.select(
            "cluster", "namespace", "target", "labels"
        ).iter_rows():
            self._pods.setdefault((cluster, namespace), []).append((owner, labels))
            for key, value in label_map(labels).items():
                at = (cluster, namespace, key, value)
                self._by_label.setdefault(at, []).append((owner, labels))

    def places(self, candidate: Candidate) -> list[Place]:
        """Return where pods are that any selector of the candidate's target matches."""
        _, namespace, _, target = candidate.target
        found: dict[Place, None] = {(namespace, target): None}
        for text in self.selectors.get(candidate.target, []):
            if text is not None and selector_code(text) == codes.SELECTOR_OK:
                for owner, labels in self._possible(candidate, text):
                    if selects(text, target, owner, labels):
                        found[namespace, owner] = None
        return list(found)

    def _possible(self, candidate: Candidate, text: str) -> Sequence[Labelled]:
        """Return the pods with a label that the selector asks for, or all of the namespace."""
        place = candidate.target[:2]
        for requirement in parse_selector(text).requirements:
            if requirement.operator in ("=", "=="):
                return self._by_label.get((*place, requirement.key, requirement.values[0]), ())
        return self._pods.get(place, ())
