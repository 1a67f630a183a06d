"""Exports of kube-state-metrics on HPAs, scrape by scrape, reduced to what a window saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.quantity import Quantity
from tests.importers.prometheus.made import Series, seen

Json = dict[str, Any]
Moment = tuple[int, HPA | None]
"""From a second on: an HPA, or None: there is none."""

LABELS: Mapping[str, tuple[str, ...]] = {
    "hpa_info": ("scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name",
                 "container"),
    "hpa_min": (),
    "hpa_max": (),
    "hpa_target": ("metric_name", "metric_target_type", "container"),
    "hpa_generation": (),
    "hpa_current": (),
    "hpa_desired": (),
    "hpa_metric": ("metric_name", "metric_target_type", "container"),
    "hpa_condition": ("condition", "status"),
}  # fmt: skip
KEY = ("namespace", "horizontalpodautoscaler")
START = 1_800_000_000
"""s; a multiple of 30."""

CPU: Json = {"type": "Resource", "resource": {"name": "cpu", "target": {
    "type": "Utilization", "averageUtilization": 50}}}  # fmt: skip
MEMORY: Json = {"type": "Resource", "resource": {"name": "memory", "target": {
    "type": "AverageValue", "averageValue": "500Mi"}}}  # fmt: skip
RPS: Json = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {
    "type": "AverageValue", "averageValue": "100"}}}  # fmt: skip
QUEUE: Json = {"type": "External", "external": {
    "metric": {"name": "queue", "selector": {"matchLabels": {"q": "jobs"}}},
    "target": {"type": "Value", "value": "30"}}}  # fmt: skip
HITS: Json = {"type": "Object", "object": {
    "metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "main"},
    "target": {"type": "Value", "value": "2500m"}}}  # fmt: skip


def of_container(name: str = "cpu", container: str = "app", share: int = 60) -> Json:
    target = {"type": "Utilization", "averageUtilization": share}
    source = {"name": name, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def spec(*metrics: Json, low: int = 2, high: int = 10, **more: Any) -> Json:
    return {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": low, "maxReplicas": high, "metrics": list(metrics or [CPU]), **more,
    }  # fmt: skip


def hpa(fields: Json | None = None, name: str = "web", **more: Any) -> HPA:
    import json
    from dataclasses import replace

    found, problems = hpa_from_json(json.dumps(spec() if fields is None else fields))
    assert not problems
    return replace(found, name=name, namespace="shop", **more)


def scrapes(begin_s: int, end_s: int, step_s: int = 30) -> list[int]:
    """Return ms of scrapes, counted in s from START."""
    return [1000 * (START + s) for s in range(begin_s, end_s + 1, step_s)]


def exported(found: HPA, version: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the series of an HPA by gauge; `version`: old (to 2.6), middle, new (containers)."""
    ref = found.spec.scale_target_ref
    info = {"scaletargetref_kind": ref.kind, "scaletargetref_name": ref.name}
    if ref.api_version:
        info["scaletargetref_api_version"] = ref.api_version
    series: dict[str, list[tuple[dict[str, str], float]]] = {
        "hpa_info": [(info, 1)],
        "hpa_min": [({}, found.spec.min_replicas or 1)],
        "hpa_max": [({}, found.spec.max_replicas)],
        "hpa_target": [],
    }
    if found.generation is not None:
        series["hpa_generation"] = [({}, found.generation)]
    for metric in found.spec.metrics:
        labels = {}
        if metric.container_resource is not None:
            if version == "old":
                continue
            name, target = metric.container_resource.name, metric.container_resource.target
            if version == "new":
                labels["container"] = metric.container_resource.container
        elif metric.resource is not None:
            name, target = metric.resource.name, metric.resource.target
        else:
            source = metric.pods or metric.object or metric.external
            assert source is not None
            name, target = source.metric.name, source.target
        for kind, value in (
            ("value", target.value), ("average", target.average_value),
            ("utilization", target.average_utilization),
        ):  # fmt: skip
            if value is None:
                continue
            number = value.milli() / 1000 if isinstance(value, Quantity) else float(value)
            if version == "old" and number != int(number):
                continue
            told = {"metric_name": name, "metric_target_type": kind, **labels}
            series["hpa_target"].append((told, number))
    return series


def series_of(
    history: Mapping[str, Sequence[Moment]],
    times: Sequence[int],
    version: str = "new",
    scrape: Mapping[str, str] | None = None,
) -> dict[str, list[Series]]:
    """Return all samples by gauge: of HPAs by name, at the scrapes (ms).

    `scrape`: labels that the scrape adds to series that have none of that name.
    """
    points: dict[str, dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]] = {}
    for name, moments in history.items():
        for ts in times:
            now = [found for since, found in moments if 1000 * (START + since) <= ts]
            if not now or now[-1] is None:
                continue
            for gauge, series in exported(now[-1], version).items():
                for labels, value in series:
                    key = {"namespace": "shop", "horizontalpodautoscaler": name}
                    told = tuple(sorted({**(scrape or {}), **key, **labels}.items()))
                    own = points.setdefault(gauge, {}).setdefault(told, [])
                    if not own or own[-1][0] != ts:  # of equal series the server takes the first
                        own.append((ts, value))
    return {
        gauge: [(dict(labels), own) for labels, own in series.items()]
        for gauge, series in points.items()
    }


def gauges(series: Mapping[str, list[Series]], span: Span) -> dict[str, Gauge]:
    return {
        name: seen(series.get(name, []), (*KEY, *labels), span) for name, labels in LABELS.items()
    }


def span(begin_s: int, end_s: int, lookback_s: int = 300) -> Span:
    return Span(1000 * (START + begin_s), 1000 * (START + end_s), 1000 * lookback_s)


def beats(times: Sequence[int], window: Span) -> list[int]:
    return [ts for ts in times if window.from_ms < ts <= window.until_ms]
