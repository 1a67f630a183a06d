"""Differences of two specs, field by field, in words: old to new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPASpec, MetricSpec

_ABSENT = "none"


def spec_differences(old: HPASpec, new: HPASpec) -> list[str]:
    """Return each field that differs, such as `minReplicas 2 -> 3`, in the order of a spec.

    API versions of references are not compared: servers and people write them differently.
    """
    before, after = dict(_leaves(_comparable(old), "")), dict(_leaves(_comparable(new), ""))
    return [
        f"{path} {before.get(path, _ABSENT)} -> {after.get(path, _ABSENT)}"
        for path in dict.fromkeys((*before, *after))
        if before.get(path) != after.get(path)
    ]


def _comparable(spec: HPASpec) -> Mapping[str, object]:
    target = replace(spec.scale_target_ref, api_version="")
    return encode_spec(replace(spec, scale_target_ref=target))


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the path and value of everything that holds no other value."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from _leaves(part, f"{path}[{place}]")
    else:
        yield path, "{}" if value == {} else "[]" if value == [] else value


def metric_name(metric: MetricSpec) -> str:
    """Return a metric's type and name, such as `Resource cpu` or `Pods requests`."""
    if metric.source is None:
        return metric.type
    container = metric.container_resource
    place = "" if container is None else f" of {container.container}"
    return f"{metric.type} {metric.subject}{place}"
