"""The check of a scale's selector, and the selectors that several HPAs of a namespace share.

Upstream: ``pkg/controller/podautoscaler/horizontal.go validateAndParseSelector`` and
``hpa_selector_store.go``.
"""

from __future__ import annotations

from typing import Any

from .profiles import Profile
from .selector import Requirement, SelectorError, matches, parse_selector

Json = dict[str, Any]


class SelectorCheckError(Exception):
    """Why no metric is asked for: the error, the event's reason (empty: none), the condition."""

    def __init__(self, text: str, event: str, reason: str, message: str) -> None:
        super().__init__(text)
        self.text = text
        self.event = event
        self.reason = reason
        self.message = message


def convert_selector(text: str, profile: Profile) -> tuple[Requirement, ...]:
    """Parse the selector of a scale; raises SelectorCheckError."""
    if not text:
        raise SelectorCheckError(
            "selector is required",
            "SelectorRequired",
            "InvalidSelector",
            "the HPA target's scale is missing a selector",
        )
    try:
        return parse_selector(text, profile.selectors)
    except SelectorError as error:
        message = (
            f"couldn't convert selector into a corresponding internal selector object: {error}"
        )
        raise SelectorCheckError(message, "InvalidSelector", "InvalidSelector", message) from error


class SelectorStore:
    """The last known selectors of the HPAs of a namespace, by "namespace/name".

    An HPA is registered when it appears, but its selector is known (not None) only after a sync
    of its own that came to the metrics.
    """

    def __init__(self) -> None:
        self.selectors: dict[str, tuple[Requirement, ...] | None] = {}

    def register(self, key: str) -> None:
        """Add an HPA, which matches nothing yet; a known one stays as it is."""
        self.selectors.setdefault(key, None)

    def remove(self, key: str) -> None:
        """Forget an HPA."""
        self.selectors.pop(key, None)

    def forget_selectors(self) -> None:
        """Restart: every HPA is registered anew."""
        self.selectors = dict.fromkeys(self.selectors)

    def put(self, key: str, requirements: tuple[Requirement, ...]) -> bool:
        """Note the selector of a registered HPA; False: it is not registered."""
        if key not in self.selectors:
            return False
        self.selectors[key] = requirements
        return True

    def controlling(self, pods: list[Json]) -> list[str]:
        """Return the HPAs whose selectors match one of the pods, in the order of their names.

        The order is random upstream.
        """
        return sorted(
            key
            for key, requirements in self.selectors.items()
            if requirements is not None
            and any(matches(requirements, pod.get("labels") or {}) for pod in pods)
        )


def check_ambiguity(
    store: SelectorStore,
    key: str,
    text: str,
    requirements: tuple[Requirement, ...],
    pods: list[Json],
    profile: Profile,
) -> None:
    """Selector check, steps 3 and 4; raises SelectorCheckError. ``pods`` are those selected."""
    if not store.put(key, requirements) and profile.on("HPAOptimizedSelectorStore"):
        gone = f"HPA {key} was deleted during reconciliation"
        raise SelectorCheckError(gone, "", "", "")
    controlling = store.controlling(pods)
    if len(controlling) <= 1:
        return
    if profile.ambiguity_text_new:
        message = (
            f"pods by selector {text} are controlled by more than one HPA "
            f"(e.g. [{' '.join(controlling[:2])}])"
        )
    else:
        shown = controlling[:2] if profile.ambiguity_shows_two else controlling
        message = f"pods by selector {text} are controlled by multiple HPAs: [{' '.join(shown)}]"
    raise SelectorCheckError(message, "AmbiguousSelector", "AmbiguousSelector", message)
