"""Statuses of HPAs as kube-state-metrics exported them: rows of `hpa_status`.

A row stands at each scrape that showed something new: sizes, current metrics or conditions. What
is exported of a metric is its name and current values; its type is that of the HPA's spec, and
where that is not known, or several metrics share a name, `current_metrics` is null. Reasons and
messages of conditions, lastScaleTime and observedGeneration are not exported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from hpabatch.sources.prometheus.gauges import Gauge
from hpabatch.sources.prometheus.samples import Span

STATUS: Final = pl.Schema(
    {
        **dict.fromkeys(("namespace", "name"), pl.String()),
        **dict.fromkeys(("ts", "current_replicas", "desired_replicas"), pl.Int64()),
        **dict.fromkeys(("current_metrics", "conditions"), pl.String()),
    }
)
"""Columns of `hpa_status` without cluster and uid, times in ms."""

Kinds = Mapping[tuple[str, str, str], str]
"""Type of a metric by namespace, HPA and the metric's name."""

_HPA = "horizontalpodautoscaler"
_GAUGES = ("hpa_current", "hpa_desired", "hpa_metric", "hpa_condition")
_CONDITIONS = ("AbleToScale", "ScalingActive", "ScalingLimited")
_STATUS = {"true": "True", "false": "False", "unknown": "Unknown"}
_FORMS = {
    "value": "value",
    "average": "averageValue",
    "utilization": "averageUtilization",
}

_State = dict[tuple[str, ...], float]


def status_rows(
    gauges: Mapping[str, Gauge], kinds: Kinds, span: Span, *, initial: bool
) -> pl.DataFrame:
    """Return a row for each instant at which an HPA showed another status.

    Args:
        gauges: by name: `hpa_current`, `hpa_desired`, `hpa_metric` (metric_name,
            metric_target_type) and `hpa_condition` (condition, status), by namespace and
            `horizontalpodautoscaler`.
        kinds: types of metrics; one that is absent is not known.
        span: the window.
        initial: whether what was shown at span.after_ms is written, too.

    Returns:
        STATUS, sorted by namespace, name and ts.
    """
    rows: list[tuple[object, ...]] = []
    last: tuple[object, ...] | None = None
    for place, ts, state in _states(gauges, span):
        current, desired = state.get(("hpa_current",)), state.get(("hpa_desired",))
        if current is None or desired is None:
            continue
        shown = (
            int(current),
            int(desired),
            _metrics(place, state, kinds),
            _conditions(state),
        )
        row = (*place, *shown)
        if row != last and (ts > span.after_ms or initial):
            rows.append((*place, max(ts, span.after_ms), *shown))
        last = row
    return pl.DataFrame(rows, schema=STATUS, orient="row")


def _states(
    gauges: Mapping[str, Gauge], span: Span
) -> Iterator[tuple[tuple[str, str], int, _State]]:
    """Yield (namespace, HPA), an instant at which something is new, and all that holds then."""
    events: list[tuple[str, str, int, tuple[str, ...], float | None]] = []
    for name in _GAUGES:
        gauge = gauges.get(name)
        if gauge is None:
            continue
        more = [label for label in gauge.labels if label not in ("namespace", _HPA)]
        for namespace, hpa, *labels, ts, value in gauge.changes.select(
            "namespace", _HPA, *more, "ts", "value"
        ).rows():
            events.append((namespace, hpa, ts, (name, *map(str, labels)), value))
        for namespace, hpa, *labels, end in gauge.seen.select(
            "namespace", _HPA, *more, "last"
        ).rows():
            # What is not shown any more ends with the next thing that is.
            if end < span.until_ms:
                events.append((namespace, hpa, end + 1, (name, *map(str, labels)), None))
    events.sort(key=lambda event: (event[0], event[1], event[2], event[3]))
    state: _State = {}
    for number, (namespace, hpa, ts, key, value) in enumerate(events):
        if number and events[number - 1][:2] != (namespace, hpa):
            state = {}
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
        following = events[number + 1] if number + 1 < len(events) else None
        more_now = following is not None and following[:3] == (namespace, hpa, ts)
        if value is not None and not more_now:
            yield (namespace, hpa), ts, state


def _metrics(place: tuple[str, str], state: _State, kinds: Kinds) -> str | None:
    """Return status.currentMetrics as JSON, null where a type is not known."""
    found: dict[str, dict[str, float]] = {}
    for key, value in state.items():
        if key[0] == "hpa_metric":
            found.setdefault(key[1], {})[key[2]] = value
    listed = []
    for name in sorted(found):
        kind = kinds.get((*place, name))
        if kind not in ("Resource", "Pods", "External"):
            return None
        current = {
            _FORMS[form]: _number(form, value)
            for form, value in sorted(found[name].items())
            if form in _FORMS
        }
        inner = {"name": name} if kind == "Resource" else {"metric": {"name": name}}
        listed.append({"type": kind, kind.lower(): {**inner, "current": current}})
    return json.dumps(listed, separators=(",", ":")) if listed else None


def _number(form: str, value: float) -> int | str:
    """Return a percentage, or a quantity to the thousandth."""
    if form == "utilization":
        return round(value)
    milli = round(value * 1000)
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def _conditions(state: _State) -> str | None:
    """Return status.conditions as JSON: types and statuses."""
    shown = {key[1]: key[2] for key, value in state.items() if key[0] == "hpa_condition" and value}
    listed = [
        {"type": name, "status": _STATUS[shown[name].lower()]}
        for name in sorted(shown, key=lambda one: (one not in _CONDITIONS, one))
        if shown[name].lower() in _STATUS
    ]
    return json.dumps(listed, separators=(",", ":")) if listed else None
