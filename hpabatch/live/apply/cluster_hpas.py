"""HPAs of the cluster as an applier needs them: how well they are known, and own ones instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hpabatch.cluster.objects.types import HpaObject, ScaleKey
from hpabatch.live.passes.lanes import LaneKey


class ClusterHpas(Protocol):
    """The watch of the cluster's HPAs."""

    def blindness(self) -> str:
        """Return why the HPAs of the cluster may be others than are known, "" if they are known."""

    def unreadable(self) -> Mapping[LaneKey, str]:
        """Return the HPAs whose present state cannot be decoded, and why not."""


class OwnDocuments(Protocol):
    """The cluster's site while it decides HPAs of manifests."""

    def named_targets(self) -> Mapping[ScaleKey, str]:
        """Return the targets that HPAs of the cluster name, and one that does."""

    def put_own(self, item: HpaObject) -> None:
        """Replace an own document, which has another status."""
