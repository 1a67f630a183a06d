"""Ambiguous selectors among the HPAs of a running cluster: symmetric but lazy, as upstream.

An HPA matches nothing for the others until a pass computes its metrics; then it keeps the selector
of its last such pass. Within a pass HPAs are taken in the order of their names.
Source: horizontal.go, validateAndParseSelector; `engine.shards.ambiguity` is the same over a
recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpabatch.layout.records import I64
from hpabatch.live.passes.columns import PodColumns
from hpabatch.live.passes.lanes import Lane, LaneKey
from hpabatch.model.messages import ambiguous_selector
from hpabatch.model.selectors import parse_selector, selector_words
from hpabatch.model.versions import Profile


class Registry:
    """Registered selectors of one cluster's HPAs."""

    def __init__(self, profile: Profile) -> None:
        """Begin empty, as a controller that has just started."""
        self._profile = profile
        self._known: dict[LaneKey, str] = {}

    def known(self, key: LaneKey) -> str | None:
        """Return the selector that an HPA is registered with, None if it is not."""
        return self._known.get(key)

    def restore(self, key: LaneKey, selector: str) -> None:
        """Register an HPA as an earlier loop did."""
        self._known[key] = selector

    def check(
        self,
        lanes: Sequence[Lane],
        reached: Sequence[bool],
        pods: PodColumns,
        members: Sequence[I64],
    ) -> dict[int, str]:
        """Return the controller's message for each lane with an ambiguous selector.

        Args:
            lanes: all, in the order of their names.
            reached: which of them compute their metrics in this pass.
            pods: as in the cluster's cache.
            members: by lane the slots of the pods that its selector matches.
        """
        if not self._profile.ambiguity_checked:
            return {}
        # A recreated HPA is registered again.
        present = {lane.key for lane in lanes if not lane.recreated}
        for key in [key for key in self._known if key not in present]:
            del self._known[key]
        current = {lane.key: _selector(lane) for lane in lanes}
        moved, moved_on = self._moved(current, pods)
        owners: dict[int, set[LaneKey]] = {}
        for lane, slots in zip(lanes, members, strict=True):
            for slot in slots.tolist():
                owners.setdefault(slot, set()).add(lane.key)
        found: dict[int, str] = {}
        for h, lane in enumerate(lanes):
            if not reached[h]:
                continue
            self._known[lane.key] = current[lane.key]
            moved.discard(lane.key)
            others: set[LaneKey] = set()
            for slot in members[h].tolist():
                if len(owners[slot]) > 1:
                    others |= {o for o in owners[slot] if self._known.get(o) == current[o]}
                if slot in moved_on:
                    others |= moved_on[slot] & moved
            others.discard(lane.key)
            if others:
                names = sorted(f"{namespace}/{name}" for namespace, name in (lane.key, *others))
                found[h] = ambiguous_selector(current[lane.key], names, self._profile)
        return found

    def _moved(
        self, current: Mapping[LaneKey, str], pods: PodColumns
    ) -> tuple[set[LaneKey], dict[int, set[LaneKey]]]:
        """Return the HPAs whose selector changed since their last sync, and these by matched pod.

        The controller knows the selector of an HPA's last sync.
        """
        moved = {key for key, text in self._known.items() if text != current[key]}
        on: dict[int, set[LaneKey]] = {}
        for key in moved:
            selector = parse_selector(self._known[key], selector_words(self._profile))
            for slot in pods.matching(key[0], selector).tolist():
                on.setdefault(slot, set()).add(key)
        return moved, on


def _selector(lane: Lane) -> str:
    return lane.scale.selector if lane.scale is not None and not lane.scale.error else ""
