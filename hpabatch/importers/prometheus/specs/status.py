"""Statuses of HPAs as kube-state-metrics exported them: rows of `hpa_status`.

A row stands at each scrape that showed something new: sizes, current metrics or conditions. What
is exported of a metric is its name and current values; its type is that of the HPA's spec, and
where that is not known, or several metrics share a name, `current_metrics` is null. Reasons and
messages of conditions, lastScaleTime and observedGeneration are not exported.

Usage is new at most scrapes, so the rows are made by columns: a thousand HPAs have millions a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from hpabatch.cluster.objects.rows import compact_json
from hpabatch.importers.common.rows import is_new, ms_schema
from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.reading.gauges import Gauge

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
        span: the window.
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
    """Return when a number of replicas was new."""
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
