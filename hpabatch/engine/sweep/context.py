"""Context of HPAs at a history's end: who writes their spec, and what keeps their pods available.

Advice needs both, and reads only the sweep: it is kept there as two columns of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hpabatch._json import decode_json
from hpabatch.history.checks import decode_cell
from hpabatch.history.reader import History
from hpabatch.model.availability import Availability, availability_of, with_known_domains
from hpabatch.model.owners import Metadata, telling

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Context:
    """An HPA's metadata that says who writes it; what keeps its pods available, None: not known."""

    metadata: Metadata = field(default_factory=Metadata)
    availability: Availability | None = None

    def columns(self) -> dict[str, str | None]:
        """Return it as the columns of a sweep's HPA."""
        known = self.availability
        return {
            "metadata": json.dumps(asdict(self.metadata), sort_keys=True),
            "availability": None
            if known is None
            else json.dumps({"budgets": known.budgets_json(), "spreads": known.spreads_json()}),
        }


def context_of(row: Mapping[str, Any]) -> Context:
    """Return the context that `columns` put into a row.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: something else stands there.
    """
    metadata = decode_json(row["metadata"], Metadata) if row["metadata"] else Metadata()
    if row["availability"] is None:
        return Context(metadata)
    known = decode_json(row["availability"], dict[str, Any])
    return Context(metadata, availability_of(known["budgets"], known["spreads"]))


def contexts(history: History) -> dict[Key, Context]:
    """Return the last recorded context of every HPA of a history.

    Raises:
        HistoryError: a table is broken.
    """
    columns = ["cluster", "namespace", "name", "valid_from", "labels", "annotations"]
    told: dict[Key, tuple[dict[str, str], dict[str, str]]] = {}
    for row in history.read("hpas", columns).sort("valid_from").iter_rows(named=True):
        key = row["cluster"], row["namespace"], row["name"]
        told[key] = _texts(row["labels"]), _texts(row["annotations"])
    beside = _beside(history)
    found = {}
    for key, texts in told.items():
        owner, known = beside.get(key, ("", None))
        labels, annots = map(telling, texts)
        found[key] = Context(Metadata(labels, annots, owner), known)
    return found


def _beside(history: History) -> dict[Key, tuple[str, Availability | None]]:
    """Return owner and availability of HPAs.

    The last row says the owner, null: none. What of the availability it leaves open is that of the
    row before.
    """
    found: dict[Key, tuple[str, Availability | None]] = {}
    rows = history.read("hpa_context", optional=True)  # in the order of their times
    for row in rows.iter_rows(named=True):
        key = row["cluster"], row["namespace"], row["name"]
        _, known = found.get(key, ("", None))
        found[key] = row["owner"] or "", _renewed(known, row["budgets"], row["spreads"])
    return found


def _renewed(
    before: Availability | None, budgets: str | None, spreads: str | None
) -> Availability | None:
    if budgets is None and spreads is None:
        return before
    known = before or Availability()
    told = availability_of(
        decode_cell(budgets or "[]", list, "hpa_context.budgets"),
        decode_cell(spreads or "[]", list, "hpa_context.spreads"),
    )
    return Availability(
        known.budgets if budgets is None else told.budgets,
        known.spreads if spreads is None else with_known_domains(told.spreads, known.spreads),
    )


def _texts(value: str | None) -> dict[str, str]:
    found = decode_cell(value or "{}", dict, "hpas")
    return {str(key): str(text) for key, text in found.items()}
