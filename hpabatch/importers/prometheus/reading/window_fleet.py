"""HPAs of a window and their scale targets: presence, first sighting, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.history.columns import INT32_MAX
from hpabatch.importers.common.rows import is_new, ms_schema
from hpabatch.importers.prometheus.client.queries import Queries, Scalable
from hpabatch.importers.prometheus.client.samples import Findings, Samples, Span
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


# kube-state-metrics exports no selector of a scale.
SCALES: Final = ms_schema("scales", "error")
_SIZES = ("spec_replicas", "status_replicas")


def scale_rows(
    kind: str,
    label: str,
    spec: Gauge,
    status: Gauge,
    span: Span,
    *,
    initial: bool,
    findings: Findings | None = None,
) -> pl.DataFrame:
    """Return the changes of targets' sizes: at each change of either gauge, the latest of both.

    Args:
        kind: of the targets, as in scaleTargetRef.
        label: with their name.
        spec: spec.replicas, by namespace and label.
        status: status.replicas, alike. Where one of both says nothing, it is as the other one.
        span: the window.
        initial: whether the sizes at span.after_ms are written, too.
        findings: gets ("assumed", …) per target of which only one of both is known, and
            ("value", …) per size that is none.

    Returns:
        SCALES (ts in ms; selector null), sorted by namespace, target and ts.
    """
    noted = Findings() if findings is None else findings
    key = ["namespace", label]
    parts = [
        _whole(gauge.changes, noted).select(*key, "ts", pl.col("value").alias(name))
        for gauge, name in zip((spec, status), _SIZES, strict=True)
    ]
    rows = pl.concat(parts, how="diagonal").group_by([*key, "ts"]).agg(pl.col(_SIZES).max())
    rows = rows.drop_nulls(key).sort([*key, "ts"])
    rows = rows.with_columns(pl.col(_SIZES).forward_fill().over(key))
    unknown = rows.group_by(key).agg(pl.col(_SIZES).is_null().all())
    for name in _SIZES:
        noted.note("assumed", f"{name} of a {kind}: as its other size", int(unknown[name].sum()))
    spec_of, status_of = (pl.col(name) for name in _SIZES)
    rows = rows.with_columns(
        spec_replicas=pl.coalesce(spec_of, status_of),
        status_replicas=pl.coalesce(status_of, spec_of),
    )
    rows = rows.filter(is_new(key, _SIZES))
    if not initial:
        rows = rows.filter(pl.col("ts") > span.after_ms)
    named = rows.rename({label: "target"}).with_columns(
        target_kind=pl.lit(kind), selector=pl.lit(None, dtype=pl.String)
    )
    return named.select(list(SCALES)).cast(SCALES)


def _whole(changes: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return changes whose value can be a size."""
    good = changes.filter(pl.col("value").is_between(0, INT32_MAX))
    findings.note("value", "a size that is none", changes.height - good.height)
    return good.with_columns(pl.col("value").round(0).cast(pl.Int64))
