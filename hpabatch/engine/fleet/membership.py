"""Membership: the pods that a scale's selector matches, and the targets to read for an HPA."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.labels import LabelIndex, label_map, selector_code, selects
from hpabatch.engine.fleet.pod_columns import PodColumns
from hpabatch.history.base import History
from hpabatch.layout.records import I64

__all__ = [
    "Place",
    "ScaleKey",
    "Selections",
    "foreign_pods",
    "label_map",
    "matched_pods",
    "selector_code",
    "selects",
]

Place = tuple[str, str | None]
"""A namespace and the name of a target in it; None: pods without one."""

ScaleKey = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a scale's target."""


def matched_pods(
    pods: PodColumns, namespace: str, target: str, selectors: Sequence[str | None]
) -> tuple[I64, I64]:
    """Return the numbers of the pods that any selector matches, and (pods, selectors) of 0/1."""
    matching = [set(pods.kinds.matching(namespace, target, text)) for text in selectors]
    kinds = sorted(set().union(*matching))
    if not kinds:
        return np.zeros(0, np.int64), np.zeros((0, len(selectors)), np.int64)
    numbers = [pods.of_kind[kind] for kind in kinds]
    rows = np.array([[int(kind in found) for found in matching] for kind in kinds], np.int64)
    member = np.repeat(rows, [part.size for part in numbers], axis=0)
    joined = np.concatenate(numbers)
    order = np.argsort(joined)
    return joined[order], member[order]


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
