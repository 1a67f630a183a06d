"""The keys `hpa` and `where`, by which a part of a file says for which HPAs it is."""

from __future__ import annotations

from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key
from hpabatch.inputs.documents import Place
from hpabatch.model.selection import Selector

SELECTOR_KEYS: Final = (
    Key("hpa", kinds.HPA_GLOBS, "only for these HPAs; `*` and `?` are wild", field="hpas",
        default="all"),
    Key("where", kinds.text("a condition"), "only for HPAs for which this condition is "
        "true, as `--where`", field="where", default="all"),
)  # fmt: skip


def selector_of(place: Place, given: dict[str, Any]) -> Selector:
    """Return the selector among what a shape with `SELECTOR_KEYS` has read."""
    name = next((name for name in ("where", "hpa") if name in place.members()), None)
    stands = place if name is None else place.members()[name]
    return Selector(given.get("hpas", ()), given.get("where"), str(stands))
