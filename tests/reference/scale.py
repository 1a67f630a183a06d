"""The scale target: is it known, and can its scale be read?

Upstream: ``pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler`` and the REST mapper.
"""

from __future__ import annotations

from typing import Any

from .selector import go_quote

Json = dict[str, Any]

# What the golden data's REST mapper knows: (group, kind).
KNOWN_TARGETS = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
}


class ScaleError(Exception):
    """The scale cannot be read: the inner text (event, condition) and the returned error."""

    def __init__(self, inner: str, prefix: str, is_spec: bool = False) -> None:
        super().__init__(inner)
        self.inner = inner
        self.error = f"{prefix}: {inner}"
        self.is_spec = is_spec


def read_scale(target: Json, tick: Json, reference: str) -> None:
    """Reconcile, steps 2 to 4; raises ScaleError."""
    version = target.get("apiVersion") or ""
    parts = version.split("/")
    if len(parts) > 2:
        raise ScaleError(
            f"unexpected GroupVersion string: {version}",
            "invalid API version in scale target reference",
            is_spec=True,
        )
    group = parts[0] if len(parts) == 2 else ""
    if (group, target["kind"]) not in KNOWN_TARGETS:
        raise ScaleError(
            f"no matches for kind {go_quote(target['kind'])} in group {go_quote(group)}",
            "unable to determine resource for scale target reference",
        )
    if tick.get("scale_get_error") is not None:
        raise ScaleError(
            tick["scale_get_error"], f"failed to query scale subresource for {reference}"
        )
