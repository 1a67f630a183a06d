"""Selectors that a controller has seen, and its check for HPAs on the same pods.

An HPA is known from its creation on, but matches nothing until a sync of its own comes to its
metrics; from then on it keeps the selector of the last such sync. So the check is symmetric but
lazy, and an HPA that never asks its metrics never stands in another's way.
Source: horizontal.go, validateAndParseSelector, and hpa_selector_store.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hpabatch.layout import codes
from hpabatch.model import messages
from hpabatch.model.selectors import Selector, parse_selector, selector_words
from hpabatch.model.versions import Profile

_NOTHING = Selector(nothing=True)


class SelectorCheck(NamedTuple):
    """Result of checking a scale's selector: SELECTOR_* and the error, in words."""

    code: int
    error: str = ""


class SelectorStore:
    """The selectors of all HPAs of one controller, by namespace.

    A restarted controller begins with a new one, in which every HPA is registered anew.
    """

    def __init__(self) -> None:
        """Begin without HPAs."""
        self._selectors: dict[str, dict[str, Selector]] = {}

    def register(self, namespace: str, name: str) -> None:
        """Add an HPA, which matches nothing yet; one that is known stays as it is."""
        self._selectors.setdefault(namespace, {}).setdefault(name, _NOTHING)

    def forget(self, namespace: str, name: str) -> None:
        """Remove an HPA that was deleted, if it is known."""
        self._selectors.get(namespace, {}).pop(name, None)

    def put(self, namespace: str, name: str, selector: Selector) -> bool:
        """Note the selector of an HPA whose metrics are asked; False: it is not registered."""
        known = self._selectors.get(namespace, {})
        if name not in known:
            return False
        known[name] = selector
        return True

    def controlling(self, namespace: str, pods: Iterable[Mapping[str, str]]) -> list[str]:
        """Return the HPAs (`namespace/name`, ascending) that control any of the pods' labels."""
        labels = list(pods)
        return sorted(
            f"{namespace}/{name}"
            for name, selector in self._selectors.get(namespace, {}).items()
            if any(selector.matches(own) for own in labels)
        )

    def check(
        self,
        namespace: str,
        name: str,
        text: str,
        pods: Iterable[Mapping[str, str]],
        profile: Profile,
    ) -> SelectorCheck:
        """Check the selector of an HPA's scale, when its metrics are about to be asked.

        Args:
            namespace: of the HPA.
            name: of the HPA.
            text: the selector in the scale's status.
            pods: labels of the pods in the controller's cache, of the HPA's namespace.
            profile: the Kubernetes version; old ones do not look at other HPAs.
        """
        if not text:
            return SelectorCheck(codes.SELECTOR_MISSING)
        try:
            selector = parse_selector(text, selector_words(profile))
        except ValueError as error:
            return SelectorCheck(codes.SELECTOR_INVALID, str(error))
        if not profile.ambiguity_checked:
            return SelectorCheck(codes.SELECTOR_OK)
        known = self.put(namespace, name, selector)
        if not known and profile.gate_optimized_selectors:
            return SelectorCheck(
                codes.SELECTOR_GONE, f"HPA {namespace}/{name} was deleted during reconciliation"
            )
        selected = [labels for labels in pods if selector.matches(labels)]
        controlling = self.controlling(namespace, selected)
        if len(controlling) <= 1:
            return SelectorCheck(codes.SELECTOR_OK)
        error_text = messages.ambiguous_selector(text, controlling, profile)
        return SelectorCheck(codes.SELECTOR_AMBIGUOUS, error_text)
