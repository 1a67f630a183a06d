"""Ambiguous selectors among the HPAs of a running cluster: symmetric but lazy, as upstream.

An HPA matches nothing for the others until a pass asks its metrics; then it keeps the selector of
its last such pass. Within a pass HPAs are taken in the order of their names.
Source: horizontal.go, validateAndParseSelector; `engine.ambiguity` is the same over a recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpabatch.live.lanes import Lane, LaneKey
from hpabatch.live.pods import PodTable
from hpabatch.model.config import Profile
from hpabatch.model.messages import ambiguous_selector
from hpabatch.model.selectors import parse_selector, selector_words


class Registry:
    """The selectors that the controller of one cluster has seen."""

    def __init__(self, profile: Profile) -> None:
        """Begin with none, as a controller that has just started."""
        self._profile = profile
        self._known: dict[LaneKey, str] = {}

    def check(
        self, lanes: Sequence[Lane], reached: Sequence[bool], pods: PodTable
    ) -> dict[int, str]:
        """Return for each lane whose selector is ambiguous what the controller says of it.

        Args:
            lanes: all, in the order of their names.
            reached: which of them ask their metrics in this pass.
            pods: as the cluster's cache holds them.
        """
        if not self._profile.ambiguity_checked:
            return {}
        present = {lane.key for lane in lanes}
        for key in [key for key in self._known if key not in present]:
            del self._known[key]
        current = {lane.key: _selector(lane) for lane in lanes}
        moved = {key for key, text in self._known.items() if text != current[key]}
        sharing = pods.selections.sharing()
        found: dict[int, str] = {}
        for h, lane in enumerate(lanes):
            if not reached[h]:
                continue
            self._known[lane.key] = current[lane.key]
            moved.discard(lane.key)
            if lane.key not in sharing and not moved:
                continue
            others = self._others(lane.key, current, moved, pods)
            if others:
                names = sorted(f"{namespace}/{name}" for namespace, name in (lane.key, *others))
                found[h] = ambiguous_selector(current[lane.key], names, self._profile)
        return found

    def _others(
        self, key: LaneKey, current: Mapping[LaneKey, str], moved: set[LaneKey], pods: PodTable
    ) -> set[LaneKey]:
        """Return the other HPAs whose registered selectors match any pod of an HPA."""
        members = pods.selections.members(key)
        owners: set[LaneKey] = set()
        for slot in members:
            owners |= pods.selections.owners(slot)  # type: ignore[arg-type]
        found = {o for o in owners if o != key and self._known.get(o) == current[o]}
        for other in moved:
            if other == key or other[0] != key[0]:
                continue
            # It has another selector by now, but the controller knows the one of its last sync.
            selector = parse_selector(self._known[other], selector_words(self._profile))
            if any(selector.matches(pods.labels(slot)) for slot in members):
                found.add(other)
        return found


def _selector(lane: Lane) -> str:
    return lane.scale.selector if lane.scale is not None and not lane.scale.error else ""
