"""HPAs of a window and their scale targets: presence, first sighting, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.importers.prometheus.client.queries import Queries, Scalable
from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.importers.prometheus.pods.scales import scale_rows
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.reader import Reader, Things

_HPA = "horizontalpodautoscaler"
_TARGET = (
    "scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name", "container",
)  # fmt: skip
_HEARTBEAT_SPACES = ("default", "kube-system")
_GAUGES: Mapping[str, tuple[str, ...]] = {
    "hpa_min": (),
    "hpa_max": (),
    "hpa_target": ("metric_name", "metric_target_type", "container"),
    "hpa_generation": (),
    "hpa_current": (),
    "hpa_desired": (),
    "hpa_metric": ("metric_name", "metric_target_type"),
    "hpa_condition": ("condition", "status"),
}
"""Gauges of HPAs, with the labels that identify their series."""

Target = tuple[str, str, str]
"""Namespace, kind and name of a scale target."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The HPAs of a window.

    Attributes:
        hpas: which are there.
        gauges: by name (`hpa_info`, `hpa_min`, …).
        heartbeats: instants (ms) at which the exporter was read, as far as known.
    """

    hpas: Things
    gauges: Mapping[str, Gauge]
    heartbeats: tuple[int, ...]

    def scaled(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """Return (namespace, HPA) with (kind, name) of what it scaled at any time, in order."""
        rows = self.gauges["hpa_info"].changes
        columns = ("namespace", _HPA, "scaletargetref_kind", "scaletargetref_name")
        found = rows.select(columns).drop_nulls().unique().sort(columns)
        return [((str(n), str(h)), (str(k), str(t))) for n, h, k, t in found.rows()]


def read_fleet(reader: Reader, namespaces: tuple[str, ...]) -> Fleet:
    """Return the HPAs that were there in a window, and all that is exported of them."""
    there = reader.facts("hpa_info", "last", namespace=namespaces)
    at_ends = [
        _names(reader.at(ms, "hpa_info", namespace=namespaces))
        for ms in (reader.span.after_ms, reader.span.until_ms)
    ]
    everyone = _names(there)
    always = at_ends[0] & at_ends[1] & everyone
    hpas = Things(_HPA, tuple(sorted(everyone)), frozenset(everyone - always))
    gauges = {"hpa_info": reader.gauge("hpa_info", _TARGET, hpas)}
    for name, labels in _GAUGES.items():
        gauges[name] = reader.gauge(name, labels, hpas)
    return Fleet(hpas, gauges, read_heartbeats(reader, hpas))


def read_heartbeats(reader: Reader, hpas: Things) -> tuple[int, ...]:
    """Return when kube-state-metrics was read, from a series that is always there.

    Without one (a tenant may see its own namespaces only) the HPAs' own series serve.
    """
    found = reader.raw_facts("heartbeat", namespace=_HEARTBEAT_SPACES)
    if not found.count:
        some = Things(hpas.label, hpas.names[:20])
        query = reader.queries["hpa_info"]
        found = reader.raw(query, some, 1)
    return tuple(found.points["ts"].unique().sort().to_list())


def read_scales(
    reader: Reader,
    queries: Queries,
    names: frozenset[str],
    targets: Sequence[Target],
    initial: bool,
    findings: Findings,
) -> pl.DataFrame:
    """Return the `scales` rows of targets; a kind without series is noted."""
    frames = []
    for kind in sorted({kind for _, kind, _ in targets}):
        things = tuple((n, t) for n, k, t in targets if k == kind)
        scalable = queries.scalables.get(kind)
        if scalable is None or scalable.spec not in names:
            findings.note("no replicas", f"{kind} (no series; see `scalables` in a mapping file)",
                          len(things))  # fmt: skip
            continue
        frames.append(_sizes(reader, queries, scalable, things, names, initial))
    return pl.concat(frames) if frames else pl.DataFrame()


def _sizes(
    reader: Reader,
    queries: Queries,
    scalable: Scalable,
    names: tuple[tuple[str, str], ...],
    present: frozenset[str],
    initial: bool,
) -> pl.DataFrame:
    spec, status = queries.replicas(scalable)
    things = reader.with_presence(spec, Things(scalable.label, names))
    wanted = reader.gauge_of(spec, (), things)
    there = status if scalable.status in present else None
    return scale_rows(
        scalable.kind, scalable.label, wanted, reader.gauge_of(there, (), things),
        reader.span, initial=initial, findings=reader.findings,
    )  # fmt: skip


def _names(samples: Samples) -> set[tuple[str, str]]:
    rows = samples.with_labels(["namespace", _HPA]).series.select("namespace", _HPA)
    return {(str(a), str(b)) for a, b in rows.drop_nulls().rows()}
