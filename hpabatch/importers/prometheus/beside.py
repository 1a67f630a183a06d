"""The files beside a server: what it does not export, and where its series are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hpabatch.importers.hpa_events.run import Events, read_hpa_events
from hpabatch.importers.prometheus.client.queries import Queries, read_queries
from hpabatch.importers.prometheus.metrics.mapping import Mappings, read_mappings
from hpabatch.importers.prometheus.request import ImportRequest
from hpabatch.importers.table.hpas import load_hpas
from hpabatch.model.objects.hpa import HPA


@dataclass(frozen=True, slots=True)
class Beside:
    """What files say.

    Attributes:
        queries: names of series, with the scale targets that mapping files add.
        mappings: where custom metrics are.
        hpas: of manifests.
        events: recorded edits and statuses of HPAs; None: no file was given.
        notes: sentences that a reader of the history should know.
    """

    queries: Queries
    mappings: Mappings = field(default_factory=Mappings)
    hpas: tuple[HPA, ...] = ()
    events: Events | None = None
    notes: tuple[str, ...] = ()


def read_beside(request: ImportRequest) -> Beside:
    """Read all files that a request names.

    Raises:
        UsageError, UnreadableError: a file cannot be read or understood.
        RefusedError: an HPA is not valid.
    """
    queries = read_queries(request.queries)
    mappings = read_mappings(request.mappings)
    if mappings.scalables:
        added = {one.kind: one for one in mappings.scalables}
        queries = replace(queries, scalables={**queries.scalables, **added})
    hpas = load_hpas([str(path) for path in request.manifests]) if request.manifests else []
    events = read_hpa_events(request.events) if request.events else None
    return Beside(queries, mappings, tuple(hpas), events, tuple(mappings.notes()))
