"""Label selector objects as the API writes them."""

from __future__ import annotations

import msgspec

from hpabatch.cluster.objects.objects import NOTHING, Text
from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement


class _Requirement(msgspec.Struct, gc=False):
    key: Text = None
    operator: Text = None
    values: list[Text] | None = None


class _Selector(msgspec.Struct, gc=False):
    matchLabels: dict[str, Text] | None = None  # noqa: N815
    matchExpressions: list[_Requirement | None] | None = None  # noqa: N815


_SELECTOR = msgspec.json.Decoder(_Selector)


def read_label_selector(raw: bytes) -> LabelSelector | None:
    """Return a selector object as written, None where it is absent or null.

    Raises:
        msgspec.DecodeError: it is no selector object.
    """
    if raw in NOTHING:
        return None
    found = _SELECTOR.decode(raw)
    return LabelSelector(
        tuple((key, value or "") for key, value in (found.matchLabels or {}).items()),
        tuple(_requirement(item or _Requirement()) for item in found.matchExpressions or ()),
    )


def _requirement(item: _Requirement) -> LabelSelectorRequirement:
    values = tuple(value or "" for value in item.values or ())
    return LabelSelectorRequirement(item.key or "", item.operator or "", values)
