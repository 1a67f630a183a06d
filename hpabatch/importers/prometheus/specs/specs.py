"""HPAs of a window: specs with their provenance, statuses, scale targets, missing facts.

kube-state-metrics exports what an HPA scales, its bounds, and its metrics' names and targets: no
behavior, no types, no selectors. Documents beside (manifests, KEDA's ScaledObjects) or recorded
events give the rest. An HPA whose metrics are not known is left out and named: with other metrics
its decisions would be others.

A row of `hpa_status` stands at each scrape that showed something new: sizes, current metrics or
conditions. What is exported of a metric is its name and current values; its type is that of the
HPA's spec, and where that is not known, or several metrics share a name, `current_metrics` is null.
Reasons and messages of conditions, lastScaleTime and observedGeneration are not exported. Usage is
new at most scrapes, so the rows are made by columns: a thousand HPAs have millions a day.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.cluster.objects.rows import compact_json
from hpabatch.history.provenance import ABSENT, BEHAVIOR, EVENTS, MANIFEST, METRICS
from hpabatch.importers.common.rows import in_ms, is_new, ms_schema
from hpabatch.importers.hpa_events.run import SPECS, Events
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.window_objects import Fleet, Target
from hpabatch.importers.prometheus.result import Source
from hpabatch.importers.prometheus.site import Beside
from hpabatch.importers.prometheus.specs.recorded import Place, recorded_lives
from hpabatch.importers.prometheus.specs.timeline import (
    Exact,
    Known,
    Row,
    Timeline,
    named,
    timeline,
)
from hpabatch.inputs.keda import ScaledObject
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPA

STATUS: Final = ms_schema("hpa_status", "uid", "last_scale_time", "observed_generation")
"""Columns of `hpa_status` without cluster and uid, times in ms."""

Kinds = Mapping[tuple[str, str, str], str]
"""Type of a metric by namespace, HPA and the metric's name."""

_CONDITION: Final = "condition."
_TAIL: Final = "}}}"
_HPA: Final = "horizontalpodautoscaler"
_KEY: Final = ["namespace", _HPA]
_AT: Final = [*_KEY, "ts"]
_CONDITIONS: Final = ("AbleToScale", "ScalingActive", "ScalingLimited")
_STATUSES: Final = {"true": "True", "false": "False", "unknown": "Unknown"}
_FORMS: Final = {
    "value": "value",
    "average": "averageValue",
    "utilization": "averageUtilization",
}
_MEMBERS: Final = {"Resource": "resource", "Pods": "pods", "External": "external"}
"""Types of which the name is all that a status says beside the numbers (an External metric has a
selector, too)."""


def status_rows(
    gauges: Mapping[str, Gauge], kinds: Kinds, span: Span, *, initial: bool
) -> pl.DataFrame:
    """Return a row for each instant at which an HPA showed another status.

    Args:
        gauges: by name: `hpa_current`, `hpa_desired`, `hpa_metric` (metric_name,
            metric_target_type) and `hpa_condition` (condition, status), by namespace and
            `horizontalpodautoscaler`; the last two may be absent.
        kinds: types of metrics; one that is absent is not known.
        initial: whether what was shown at span.after_ms is written, too.

    Returns:
        STATUS, sorted by namespace, name and ts.
    """
    if "hpa_current" not in gauges or "hpa_desired" not in gauges:
        return pl.DataFrame(schema=STATUS)
    metrics, conditions = gauges.get("hpa_metric"), gauges.get("hpa_condition")
    parts = [
        _sizes(gauges["hpa_current"], "current_replicas"),
        _sizes(gauges["hpa_desired"], "desired_replicas"),
    ]
    parts += [] if conditions is None else [_condition_texts(conditions)]
    places = None if metrics is None else _places(metrics, kinds)
    parts += [] if metrics is None or places is None else [_values(metrics, places)]
    frame = _filled(parts)
    named = sorted(name for name in frame.columns if name.startswith(_CONDITION))
    frame = frame.with_columns(conditions=_json_list([pl.col(name) for name in named]))
    told = pl.lit(None, dtype=pl.String) if places is None else _current_metrics(places)
    frame = _with_metrics(frame, places).with_columns(current_metrics=told)
    rows = frame.rename({_HPA: "name"}).select(STATUS.names()).cast(STATUS)
    rows = rows.drop_nulls(["current_replicas", "desired_replicas"])
    rows = rows.filter(is_new((), [name for name in STATUS.names() if name != "ts"]))
    return rows if initial else rows.filter(pl.col("ts") > span.after_ms)


def _sizes(gauge: Gauge, name: str) -> pl.DataFrame:
    size = pl.col("value").round().cast(pl.Int64, strict=False).alias(name)
    return gauge.changes.select(*_AT, size).unique(_AT, keep="last", maintain_order=True)


def _filled(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return a row per HPA and instant at which something was new, and all that held then."""
    instants = pl.concat([part.select(_AT) for part in parts]).unique().sort(_AT)
    for part in parts:
        instants = instants.join(part, on=_AT, how="left", maintain_order="left")
    held = [name for name in instants.columns if name not in _AT]
    return instants.with_columns(pl.col(held).forward_fill().over(_KEY))


def _json_list(texts: Sequence[pl.Expr]) -> pl.Expr:
    """Return texts as a JSON list, null where there is none."""
    if not texts:
        return pl.lit(None, dtype=pl.String)
    inner = pl.concat_str(texts, separator=",", ignore_nulls=True)
    some = pl.any_horizontal(text.is_not_null() for text in texts)
    return pl.when(some).then(pl.concat_str(pl.lit("["), inner, pl.lit("]")))


def _condition_texts(gauge: Gauge) -> pl.DataFrame:
    """Return when a condition was new: a column of texts for each, named in the API's order."""
    places = {name: str(place) for place, name in enumerate(_CONDITIONS)}
    place = pl.col("condition").replace_strict(places, default="9", return_dtype=pl.String)
    status = pl.col("status").str.to_lowercase()
    now = gauge.changes.filter(pl.col("value") == 1, status.is_in(list(_STATUSES)))
    word = status.replace_strict(_STATUSES, default=None, return_dtype=pl.String)
    text = [pl.lit('{"type":"'), "condition", pl.lit('","status":"'), word, pl.lit('"}')]
    texts = now.select(
        *_AT,
        pl.concat_str(pl.lit(_CONDITION), place, pl.lit("."), "condition").alias("column"),
        pl.concat_str(text).alias("text"),
    )
    return texts.pivot("column", index=_AT, values="text", aggregate_function="last")


def _places(gauge: Gauge, kinds: Kinds) -> pl.DataFrame | None:
    """Return where each metric stands in its HPA's list; None: there are none.

    Columns: the HPA, metric_name, metric_target_type, `last` (ms), `place` (by name), and `head`:
    the text before the numbers, null where the type is not known or two metrics share the name.
    """
    series = [*_KEY, "metric_name", "metric_target_type"]
    form = pl.col("metric_target_type").is_in(list(_FORMS))
    inside = gauge.seen.join(gauge.changes.select(gauge.labels).unique(), on=gauge.labels,
                             how="semi", nulls_equal=True)  # fmt: skip
    seen = inside.filter(form).group_by(series).agg(
        pl.col("last").max(), pl.len().alias("series")
    )  # fmt: skip
    if seen.is_empty():
        return None
    heads = [
        (namespace, hpa, name, _head(kinds.get((namespace, hpa, name)), name))
        for namespace, hpa, name in seen.select(*_KEY, "metric_name").unique().rows()
    ]
    schema = dict.fromkeys((*_KEY, "metric_name", "head"), pl.String)
    told = seen.join(pl.DataFrame(heads, schema=schema, orient="row"), on=[*_KEY, "metric_name"])
    return told.with_columns(
        place=pl.col("metric_name").rank("dense").over(_KEY) - 1,
        head=pl.when(pl.col("series").max().over(*_KEY, "metric_name") == 1).then("head"),
    ).drop("series")


def _head(kind: str | None, name: str) -> str | None:
    if kind not in _MEMBERS:
        return None
    metric = {"name": name} if kind == "Resource" else {"metric": {"name": name}}
    text = compact_json({"type": kind, _MEMBERS[kind]: {**metric, "current": {}}})
    return text.removesuffix(_TAIL)


def _values(gauge: Gauge, places: pl.DataFrame) -> pl.DataFrame:
    """Return when a metric's number was new: a column `value.0`, `average.0`, … for each."""
    key = [*_KEY, "metric_name", "metric_target_type"]
    rows = gauge.changes.join(places.select(*key, "place"), on=key, how="inner")
    name = pl.concat_str("metric_target_type", pl.lit("."), pl.col("place").cast(pl.String))
    return rows.with_columns(column=name).pivot(
        "column", index=_AT, values="value", aggregate_function="last"
    )


def _with_metrics(frame: pl.DataFrame, places: pl.DataFrame | None) -> pl.DataFrame:
    """Add until when each number was shown (`last.value.0`, …), and the heads (`head.0`, …)."""
    if places is None:
        return frame
    number = pl.col("place").cast(pl.String)
    ends = places.with_columns(
        column=pl.concat_str(pl.lit("last."), "metric_target_type", pl.lit("."), number)
    ).pivot("column", index=_KEY, values="last", aggregate_function="max")
    heads = places.with_columns(column=pl.concat_str(pl.lit("head."), number)).pivot(
        "column", index=_KEY, values="head", aggregate_function="first"
    )
    joined = frame.join(ends, on=_KEY, how="left", maintain_order="left")
    return joined.join(heads, on=_KEY, how="left", maintain_order="left")


def _current_metrics(places: pl.DataFrame) -> pl.Expr:
    """Return status.currentMetrics as JSON; null where a metric of an unknown type is shown."""
    told = {form: set(rows["place"]) for (form,), rows in places.group_by("metric_target_type")}
    entries, unknown = [], []
    for place in range(int(places["place"].max()) + 1):  # type: ignore[arg-type]
        forms = [form for form in _FORMS if place in told.get(form, ())]
        texts = [_number(form, place) for form in forms]
        inner = pl.concat_str(texts, separator=",", ignore_nulls=True)
        shown = pl.any_horizontal(text.is_not_null() for text in texts)
        head = pl.col(f"head.{place}")
        entries.append(pl.when(shown).then(pl.concat_str(head, inner, pl.lit(_TAIL))))
        unknown.append(shown & head.is_null())
    return pl.when(~pl.any_horizontal(unknown)).then(_json_list(entries))


def _number(form: str, place: int) -> pl.Expr:
    """Return the text of a number as long as it was shown: a percentage, or an amount to 1/1000."""
    value = pl.col(f"{form}.{place}")
    there = value.is_finite() & (pl.col("ts") <= pl.col(f"last.{form}.{place}"))
    if form == "utilization":
        number = value.round().cast(pl.Int64, strict=False).cast(pl.String)
    else:
        milli = (value * 1000).round().cast(pl.Int64, strict=False)
        whole = (milli // 1000).cast(pl.String)
        thousandths = pl.concat_str(milli.cast(pl.String), pl.lit("m"))
        text = pl.when(milli % 1000 == 0).then(whole).otherwise(thousandths)
        number = pl.concat_str(pl.lit('"'), text, pl.lit('"'))
    return pl.when(there).then(pl.concat_str(pl.lit(f'"{_FORMS[form]}":'), number))


EXPORTED: Final = "exported"
"""Method of facts from kube-state-metrics."""

_DEFAULTS: Final = "not exported; Kubernetes' defaults are assumed"
_AROUND: Final = "recorded at another time"
_RESOURCES: Final = "cpu and memory are taken for resources of whole pods; their order is assumed"
_NUMBERS: Final = "bounds and targets as exported"
_OTHERS: Final = "bounds, targets, and at times other metrics or another target, as exported"


@dataclass(slots=True)
class SpecWindow:
    """The specs of a window; `merge_specs` makes the rows for the store.

    Attributes:
        read_ms: the exporter's first reading inside the window; None: it was not read.
        rows: of `hpas` without its cluster, times in ms (`SPECS`), sorted.
        begun: namespace, name and valid_from of rows that begin a life of an HPA that was seen
            not to be there before.
        ends: when the row ends that a store may have of an HPA.
        shown: all HPAs that the window knows of.
        hpas: the specs, each once, with the namespace and name of its HPA.
        left_out: HPAs whose spec is not known, at times or always, and why.
        without_behavior: HPAs whose behavior is not known; they have Kubernetes' defaults.
        sources: how behavior and metrics of each HPA were come by.
        warnings: documents that cannot be those of the HPAs that were exported.
    """

    after_ms: int
    read_ms: int | None
    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SPECS))
    begun: set[tuple[str, str, int]] = field(default_factory=set)
    ends: dict[Place, int] = field(default_factory=dict)
    shown: set[Place] = field(default_factory=set)
    hpas: list[HPA] = field(default_factory=list)
    left_out: dict[Place, str] = field(default_factory=dict)
    without_behavior: set[Place] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def kinds(self) -> dict[tuple[str, str, str], str]:
        """Return the type of each metric by namespace, HPA and the metric's name.

        Of a name that has several types in one HPA there is none.
        """
        found: dict[tuple[str, str, str], set[str]] = {}
        for hpa in self.hpas:
            for metric in hpa.spec.metrics:
                key = (hpa.namespace, hpa.name, named(metric)[0])
                found.setdefault(key, set()).add(metric.type)
        return {key: next(iter(types)) for key, types in found.items() if len(types) == 1}


def spec_rows(
    gauges: Mapping[str, Gauge],
    span: Span,
    heartbeats: Sequence[int],
    *,
    cluster: str,
    manifests: Sequence[HPA] = (),
    methods: Mapping[Place, str] | None = None,
    events: Events | None = None,
    namespaces: Collection[str] = (),
) -> SpecWindow:
    """Return the specs of a window.

    Args:
        gauges: by name (`recorded`): `hpa_info`, `hpa_min`, `hpa_max`, `hpa_target`,
            `hpa_generation`; by namespace, `horizontalpodautoscaler` and their own labels, and
            `hpa_info` and `hpa_target` by `container`, too, if it is to be heeded.
        heartbeats: when the exporter was read (ms, sorted), also in the lookback.
        cluster: for the uid of HPAs of which none is told.
        manifests: documents of HPAs, one for each; a namespace of "" is `default`.
        methods: how a document was come by, where it is not by a manifest.
        events: what was recorded of HPAs; None: nothing.
        namespaces: only events of these; empty: all.
    """
    lives = recorded_lives(gauges, span, heartbeats)
    documents = {(hpa.namespace or "default", hpa.name): hpa for hpa in manifests}
    exact = _exact(events, span, namespaces)
    inside = (ts for ts in heartbeats if span.after_ms < ts <= span.until_ms)
    found, rows = SpecWindow(span.after_ms, next(inside, None)), []
    for place in sorted({*lives, *exact}):
        known = Known(
            place, cluster, lives.get(place, ()), documents.pop(place, None), exact.get(place)
        )
        one = timeline(known, span, heartbeats)
        rows += one.rows
        _take(found, known, one, (methods or {}).get(place, MANIFEST))
    found.rows = pl.DataFrame(rows, schema=SPECS)
    specs = found.rows.select("namespace", "name", "spec").unique(maintain_order=True)
    found.hpas = [
        HPA(name=name, namespace=namespace, spec=hpa_from_json(text)[0].spec)
        for namespace, name, text in specs.rows()
    ]
    return found


def _exact(events: Events | None, span: Span, namespaces: Collection[str]) -> dict[Place, Exact]:
    """Return what events say of each HPA that there was until the end of the window."""
    if events is None or events.last_ms is None:
        return {}
    rows: dict[Place, list[Row]] = {}
    ours = events.hpas.filter(pl.col("valid_from") <= span.until_ms).sort("valid_from")
    for row in ours.rows(named=True):
        if not namespaces or row["namespace"] in namespaces:
            rows.setdefault((row["namespace"], row["name"]), []).append(row)
    return {
        place: Exact(own, events.last_ms, place in events.seen_first)
        for place, own in rows.items()
        if own[-1]["valid_to"] is None or own[-1]["valid_to"] > span.from_ms
    }


def _take(found: SpecWindow, known: Known, one: Timeline, method: str) -> None:
    """Add what an HPA was, but its rows."""
    place = known.place
    found.shown.add(place)
    found.begun |= {(*place, since) for since in one.begun}
    if one.ended_ms is not None:
        found.ends[place] = one.ended_ms
    if one.reasons:
        found.left_out[place] = "; ".join(one.reasons)
    if "gauges" in one.used:
        found.without_behavior.add(place)
    alone = known.document is not None and known.exact is None
    if alone and one.built and one.contradicted == one.built:
        found.warnings.append(
            f"the document of HPA {'/'.join(place)} ({method}) has another target or other metrics "
            "than what was exported all the time: is it the right one, of the right time?"
        )
    found.sources += _sources(place, one, method)


def _sources(place: Place, one: Timeline, method: str) -> list[Source]:
    numbers = _OTHERS if one.contradicted else _NUMBERS if one.edited else None
    told: dict[str, tuple[str, str | None]] = {}
    if "gauges" in one.used:
        told = {BEHAVIOR: (ABSENT, _DEFAULTS), METRICS: (EXPORTED, _RESOURCES)}
    elif "document" in one.used:
        told = {BEHAVIOR: (method, None), METRICS: (method, numbers)}
    elif "around" in one.used:
        told = {BEHAVIOR: (EVENTS, _AROUND), METRICS: (EVENTS, numbers or _AROUND)}
    elif "events" in one.used:
        told = {BEHAVIOR: (EVENTS, None), METRICS: (EVENTS, None)}
    elif one.reasons:
        told = {METRICS: (ABSENT, one.reasons[0])}
    return [Source(subject, *said, *place) for subject, said in told.items()]


_MADE_UP: Final = "hpa-"
"""Prefix of uids that this package makes; those of clusters are hexadecimal."""


def merge_specs(
    found: SpecWindow, stored: pl.DataFrame | None, *, namespaces: Collection[str] = ()
) -> pl.DataFrame:
    """Return the rows of `hpas` to add, without cluster and with times in ms (`SPECS`), sorted.

    An HPA that the store has and the window does not know ended before the exporter was first read
    in it.

    Args:
        stored: the rows of the cluster that the store has; None: it has none.
        namespaces: those that the window is about; empty: all.
    """
    known = _by_place(stored)
    new: dict[Place, list[Row]] = {}
    for row in found.rows.rows(named=True):
        new.setdefault((row["namespace"], row["name"]), []).append(row)
    added: list[Row] = []
    for place in sorted({*new, *known}):
        end = found.ends.get(place)
        if place not in found.shown and (not namespaces or place[0] in namespaces):
            end = found.read_ms
        whole = [dict(row) for row in known.get(place, ())]
        if whole and whole[-1]["valid_to"] is None and end is not None:
            whole[-1]["valid_to"] = max(end, whole[-1]["valid_from"] + 1)
        for row in new.get(place, ()):
            fresh = (*place, row["valid_from"]) in found.begun
            _add(whole, row, fresh=fresh, after_ms=found.after_ms)
        added += [row for row in whole if row not in known.get(place, ())]
    return pl.DataFrame(added, schema=SPECS).sort("namespace", "name", "uid", "valid_from")


def _by_place(stored: pl.DataFrame | None) -> dict[Place, list[Row]]:
    rows: dict[Place, list[Row]] = {}
    if stored is None:
        return rows
    frame = in_ms(stored).select(
        pl.col(name) if name in stored.columns else pl.lit(None, kind).alias(name)
        for name, kind in SPECS.items()
    )
    for row in frame.cast(SPECS).sort("valid_from").rows(named=True):
        rows.setdefault((row["namespace"], row["name"]), []).append(row)
    return rows


def _add(whole: list[Row], row: Row, *, fresh: bool, after_ms: int) -> None:
    """Add a row to those of an HPA, which are sorted and end before it or go on into it."""
    if not whole:
        whole.append(row)
        return
    last = whole[-1]
    if row["valid_from"] < last["valid_from"]:
        # Rows of the store from before this window stay.
        row = {**row, "valid_from": max(after_ms, last["valid_from"])}
    joined = not fresh and last["valid_to"] in (None, row["valid_from"])
    if joined and row["uid"].startswith(_MADE_UP):
        row = {**row, "uid": last["uid"]}
    if row["valid_from"] == last["valid_from"]:
        # Of the same key, so that it stands in place of the other one.
        whole[-1] = {**row, "uid": last["uid"]}
    elif joined and _same(last, row):
        last["valid_to"] = row["valid_to"]
    else:
        if last["valid_to"] is None or last["valid_to"] > row["valid_from"]:
            last["valid_to"] = row["valid_from"]
        whole.append(row)


def _same(last: Row, row: Row) -> bool:
    """Whether a row equals the one before it, as far as it has values."""
    if row["spec"] != last["spec"]:
        return False
    told = all(row[name] in (None, last[name]) for name in ("labels", "annotations"))
    return told and (row["uid"] == last["uid"] or last["uid"].startswith(_MADE_UP))


OBJECTS = "objects"
"""Method of the table `provenance`: the spec is that of an object, as it is now."""

KEDA = "keda"
"""Method of the table `provenance`: the spec is made of a ScaledObject, as KEDA does."""


@dataclass(frozen=True, slots=True)
class WindowHpas:
    """The HPAs of a window.

    Attributes:
        rows: of `hpas`, such that they continue what the store has.
        status: of `hpa_status`.
    """

    fleet: Fleet
    found: SpecWindow
    rows: pl.DataFrame
    status: pl.DataFrame

    def targets_by_hpa(self) -> dict[Place, frozenset[tuple[str, str]]]:
        """Return kind and name of all that an HPA scaled in the window."""
        found: dict[Place, set[tuple[str, str]]] = {}
        for hpa in self.found.hpas:
            reference = hpa.spec.scale_target_ref
            place = (hpa.namespace, hpa.name)
            found.setdefault(place, set()).add((reference.kind, reference.name))
        for place, target in self.fleet.scaled():
            found.setdefault(place, set()).add(target)
        return {place: frozenset(targets) for place, targets in found.items()}

    def targets(self) -> set[Target]:
        """Return all that is scaled."""
        by_hpa = self.targets_by_hpa()
        return {(ns, kind, name) for (ns, _), all_ in by_hpa.items() for kind, name in all_}


def read_hpas(
    fleet: Fleet,
    beside: Beside,
    stored: pl.DataFrame | None,
    cluster: str,
    span: Span,
    initial: bool,
    namespaces: Collection[str],
    findings: Findings,
) -> WindowHpas:
    """Return what is known of the HPAs of a window.

    Args:
        stored: the rows of `hpas` that the store has of the cluster; None: it has none.
        initial: nothing was imported right before.
        namespaces: only these; empty: all.
        findings: gets what was noticed.
    """
    own = () if beside.objects is None else {id(hpa) for hpa in beside.objects.hpas.values()}
    of_objects = {(hpa.namespace, hpa.name): OBJECTS for hpa in beside.hpas if id(hpa) in own}
    scaled = _of_keda(beside.mappings.scaled_objects, fleet)
    given = {(hpa.namespace or "default", hpa.name) for hpa in beside.hpas}
    made = {place: hpa for place, hpa in scaled.items() if place not in given}
    wanted = [
        hpa
        for hpa in (*beside.hpas, *made.values())
        if not namespaces or (hpa.namespace or "default") in namespaces
    ]
    found = spec_rows(
        fleet.gauges, span, fleet.heartbeats, cluster=cluster, manifests=wanted,
        methods={**of_objects, **dict.fromkeys(made, KEDA)},
        events=beside.events, namespaces=namespaces,
    )  # fmt: skip
    rows = merge_specs(found, stored, namespaces=namespaces)
    since = ("namespace", "name", "uid", "valid_from")
    known = [in_ms(part).select(since) for part in (stored, rows) if part is not None]
    status = status_rows(fleet.gauges, found.kinds(), span, initial=initial)
    status = status.sort("ts").join_asof(
        pl.concat(known).sort("valid_from"), left_on="ts", right_on="valid_from",
        by=["namespace", "name"], strategy="nearest", check_sortedness=False,
    ).filter(pl.col("uid").is_not_null())  # fmt: skip
    if beside.events is not None:
        # Recorded statuses count before exported ones.
        exact = beside.events.statuses.rows(span.after_ms, span.until_ms)
        place = ["namespace", "name"]
        others = status.join(exact.select(place).unique(), on=place, how="anti")
        status = pl.concat([others, exact], how="diagonal_relaxed")
    return WindowHpas(fleet, found, rows, status)


def _of_keda(objects: Collection[ScaledObject], fleet: Fleet) -> dict[Place, HPA]:
    """Return the HPAs that KEDA makes, with the metric names that were exported of them."""
    names: dict[Place, list[str]] = {}
    for gauge in ("hpa_target", "hpa_metric"):
        told = fleet.gauges[gauge].seen.select("namespace", fleet.hpas.label, "metric_name")
        for namespace, name, metric in told.drop_nulls().rows():
            names.setdefault((namespace, name), []).append(metric)
    found = {}
    for one in objects:
        hpa = one.hpa()
        place = (hpa.namespace or "default", hpa.name)
        found[place] = one.hpa(sorted(set(names.get(place, ()))))
    return found
