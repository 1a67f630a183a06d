"""Statuses from gauges, against a naive reading of every instant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.specs.specs import STATUS, status_rows
from tests.effort import effort
from tests.importers.prometheus.ksm_hpas import gauges, scrapes, span
from tests.importers.prometheus.made import Series

WINDOW = span(0, 600)
TIMES = scrapes(-300, 600, 30)
NAMES = ("hpa_current", "hpa_desired", "hpa_metric", "hpa_condition")
KINDS = {
    ("shop", "web", "cpu"): "Resource",
    ("shop", "web", "memory"): "Resource",
    ("shop", "web", "rps"): "Pods",
    ("shop", "web", "queue"): "External",
    ("shop", "web", "hits"): "Object",
    ("shop", "api", "cpu"): "Resource",
}
METRICS = [
    ("cpu", "utilization"), ("cpu", "average"), ("memory", "average"), ("rps", "average"),
    ("queue", "value"), ("queue", "average"),
]  # fmt: skip


Shown = dict[str, Any]
"""At an instant: current, desired, metrics by (name, form), conditions by name."""


def series_of(history: Mapping[str, Mapping[int, Shown]]) -> dict[str, list[Series]]:
    """Return what is exported of HPAs that show something at scrapes (ms)."""
    points: dict[str, dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]] = {}

    def say(gauge: str, hpa: str, ts: int, value: float, **labels: str) -> None:
        told = {"namespace": "shop", "horizontalpodautoscaler": hpa, **labels}
        points.setdefault(gauge, {}).setdefault(tuple(sorted(told.items())), []).append((ts, value))

    for hpa, shown in history.items():
        for ts, one in shown.items():
            for gauge in ("current", "desired"):
                if one.get(gauge) is not None:
                    say(f"hpa_{gauge}", hpa, ts, one[gauge])
            for (name, form), value in one.get("metrics", {}).items():
                say("hpa_metric", hpa, ts, value, metric_name=name, metric_target_type=form)
            for name, status in one.get("conditions", {}).items():
                for word in ("true", "false", "unknown"):
                    say("hpa_condition", hpa, ts, word == status, condition=name, status=word)
    return {
        gauge: [(dict(labels), own) for labels, own in sorted(series.items())]
        for gauge, series in points.items()
    }


def gauges_of(
    history: Mapping[str, Mapping[int, Shown]], window: Span = WINDOW
) -> dict[str, Gauge]:
    found = gauges(series_of(history), window)
    return {
        name: Gauge(*(f.drop("container", strict=False) for f in (one.changes, one.seen)))
        for name, one in found.items()
        if name in NAMES
    }


def found_rows(
    history: Mapping[str, Mapping[int, Shown]], window: Span = WINDOW, initial: bool = True
) -> pl.DataFrame:
    return status_rows(gauges_of(history, window), KINDS, window, initial=initial)


def metric(name: str, **current: Any) -> Shown:
    kind = KINDS["shop", "web", name]
    named = {"name": name} if kind == "Resource" else {"metric": {"name": name}}
    return {"type": kind, kind.lower(): {**named, "current": current}}


@pytest.mark.parametrize("name", ["hits", "unheard"])
def test_a_metric_whose_type_or_object_is_not_known_leaves_all_out(name: str) -> None:
    numbers = {("cpu", "utilization"): 50, (name, "value"): 3.0}
    shown: dict[int, Shown] = {ts: {"current": 1, "desired": 1, "metrics": numbers} for ts in TIMES}
    assert found_rows({"web": shown})["current_metrics"].to_list() == [None]
    # Once it is not shown any more, the others are told.
    for ts in TIMES[15:]:
        shown[ts] = {"current": 2, "desired": 1, "metrics": {("cpu", "utilization"): 50}}
    assert found_rows({"web": shown})["current_metrics"].to_list()[1] is not None


def test_one_name_of_two_series_is_nobodys() -> None:
    shown = {ts: {"current": 1, "desired": 1, "metrics": {("cpu", "utilization"): 5}}
             for ts in TIMES}  # fmt: skip
    found = gauges(series_of({"web": shown}), WINDOW)
    one = found["hpa_metric"]
    twice = [
        pl.concat([frame, frame.with_columns(container=pl.lit("app"))])
        for frame in (one.changes, one.seen)
    ]
    told = {**{name: found[name] for name in NAMES}, "hpa_metric": Gauge(*twice)}
    rows = status_rows(told, KINDS, WINDOW, initial=True)
    assert rows["current_metrics"].to_list() == [None]


def test_a_site_that_exports_less() -> None:
    shown = {ts: {"current": 1, "desired": 2} for ts in TIMES}
    told = gauges_of({"web": shown})
    rows = status_rows(
        {name: told[name] for name in ("hpa_current", "hpa_desired")}, KINDS, WINDOW, initial=True
    )
    assert rows.rows() == [("shop", "web", WINDOW.after_ms, 1, 2, None, None)]
    assert status_rows({}, KINDS, WINDOW, initial=True).equals(pl.DataFrame(schema=STATUS))
    nothing = found_rows({})
    assert nothing.equals(pl.DataFrame(schema=STATUS))
    half = {ts: {"current": 1} for ts in TIMES}
    assert found_rows({"web": half}).is_empty()


def naive(history: Mapping[str, Mapping[int, Shown]], window: Span) -> list[tuple[Any, ...]]:
    """Return hpa, ts and what is shown wherever it is another than at the scrape before."""
    rows: list[tuple[Any, ...]] = []
    for hpa, shown in sorted(history.items()):
        last: Any = None
        before = [ts for ts in shown if ts <= window.after_ms]
        inside = [ts for ts in sorted(shown) if window.after_ms < ts <= window.until_ms]
        for ts in [*before[-1:], *inside]:
            one = shown[ts]
            metrics: dict[str, Shown] = {}
            for (name, form), value in one["metrics"].items():
                key = {"average": "averageValue", "utilization": "averageUtilization"}.get(
                    form, form
                )
                milli = round(value * 1000)
                amount = f"{milli}m" if milli % 1000 else str(milli // 1000)
                current = metrics.setdefault(name, {})
                current[key] = round(value) if form == "utilization" else amount
            told = [metric(name, **metrics[name]) for name in sorted(metrics)] or None
            order = ["AbleToScale", "ScalingActive", "ScalingLimited"]
            conditions = [
                {"type": name, "status": one["conditions"][name].capitalize()} for name in order
            ]
            now = (one["current"], one["desired"], told, conditions)
            if now != last:
                rows.append((hpa, max(ts, window.after_ms), *now))
            last = now
    return rows


words = st.sampled_from(["true", "false", "unknown"])


@st.composite
def histories(draw: st.DrawFn, names: Sequence[str] = ("api", "web")) -> dict[str, Any]:
    """Statuses that stay for some scrapes; what is new is new for a size, too."""
    found: dict[str, dict[int, Shown]] = {}
    for name in names:
        usable = [m for m in METRICS if ("shop", name, m[0]) in KINDS]
        shown: dict[int, Shown] = {}
        chosen = draw(st.lists(st.sampled_from(usable), unique=True))
        for k, ts in enumerate(TIMES):
            if k == 0 or draw(st.booleans()):
                one = {
                    "current": k, "desired": draw(st.integers(0, 3)),
                    "metrics": {m: draw(st.integers(0, 9)) * 0.125 for m in chosen},
                    "conditions": {
                        c: draw(words) for c in ("AbleToScale", "ScalingActive", "ScalingLimited")
                    },
                }  # fmt: skip
            shown[ts] = one
        found[name] = shown
    return found


@settings(max_examples=effort(12), deadline=None)
@given(histories(), st.integers(31, 599))
def test_equals_the_naive_reading_wherever_windows_are_cut(
    history: dict[str, Any], cut: int
) -> None:
    def told(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
        return [
            (name, ts, current, desired, metrics and json.loads(metrics), json.loads(conditions))
            for _, name, ts, current, desired, metrics, conditions in frame.rows()
        ]

    assert told(found_rows(history)) == naive(history, WINDOW)
    first = found_rows(history, span(0, cut))
    second = found_rows(history, span(cut, 600), initial=False)
    assert told(pl.concat([first, second]).sort("name", "ts")) == naive(history, WINDOW)
