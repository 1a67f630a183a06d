"""Strategic-merge patches of an HPA's spec that name only what changes; differences in words.

`spec.metrics` and a direction's `policies` are atomic lists: a patch carries the whole list. What
a patch leaves out of a behavior the API server fills in as it always does. Source: the list types
in k8s.io/api autoscaling/v2 types.go; strategic merge as in
apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hpabatch.model.objects.decode import KIND, V2, V2BETA2
from hpabatch.model.objects.defaults import default_behavior, default_spec
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import Behavior, HPASpec, MetricSpec
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import Profile

_FIRST_V2_MINOR = 23
_ZERO = Quantity.from_milli(0)
_TOP = ("minReplicas", "maxReplicas", "metrics")
_DIRECTIONS = ("scaleUp", "scaleDown")
_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")


def patch_version(profile: Profile) -> str:
    """Return the API version of patches: autoscaling/v2, under 1.20's rules (to 1.25) v2beta2."""
    return V2 if profile.minor >= _FIRST_V2_MINOR else V2BETA2


def spec_patch(today: HPASpec, wanted: HPASpec) -> dict[str, object]:
    """Return the part of a spec that a strategic-merge patch must send; empty: nothing changes.

    Both are specs of one HPA. `today` is as written, or as stored; `wanted` has its defaults filled
    in, and its scaleTargetRef is ignored. A null removes a field.
    """
    old, new = encode_spec(default_spec(today)), encode_spec(wanted)
    behavior = _behavior_patch(today, wanted)
    changed = [name for name in _TOP if old.get(name) != new.get(name)]
    if not changed and behavior is None:
        return {}
    metrics = tuple(map(_as_accepted, wanted.metrics))
    if metrics != wanted.metrics:  # then they must be sent whatever changes
        changed = [name for name in _TOP if name in (*changed, "metrics")]
        new = encode_spec(replace(wanted, metrics=metrics))
    return {name: new[name] for name in changed} | (behavior or {})


def _as_accepted(metric: MetricSpec) -> MetricSpec:
    """Return a metric without the fields that servers with v1 storage return but refuse.

    They add a value of 0 to an Object metric's average (autoscaling/v1 conversion.go), and refuse
    every update of a spec in which it stands (validation.go: must be positive).
    """
    member = metric.object
    if member is None or member.target.average_value is None or member.target.value != _ZERO:
        return metric
    return replace(metric, object=replace(member, target=replace(member.target, value=None)))


def _behavior_patch(today: HPASpec, wanted: HPASpec) -> dict[str, object] | None:
    """Return {"behavior": …}, None where it stays as it is."""
    stored = default_behavior(today.behavior)
    if stored == wanted.behavior:
        return None
    if wanted.behavior is None:
        return {"behavior": None}
    assumed = replace(today, behavior=stored or default_behavior(Behavior()))
    old = _parts(encode_spec(assumed)["behavior"])
    new = _parts(encode_spec(wanted)["behavior"])
    patch: dict[str, object] = {}
    for way in _DIRECTIONS:
        before, after = _parts(old.get(way)), _parts(new.get(way))
        changed = {n: after.get(n) for n in _RULES if before.get(n) != after.get(n)}
        if changed:
            patch[way] = changed
    if not patch:  # defaults alone: one of them must be named for a behavior to be there at all
        patch = {"scaleDown": {"selectPolicy": _parts(new["scaleDown"])["selectPolicy"]}}
    return {"behavior": patch}


def _parts(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}


def patch_document(
    name: str, namespace: str, patch: Mapping[str, object], version: str = V2
) -> dict[str, object]:
    """Return a patch as the partial object that `kubectl patch` and kustomize take."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": KIND, "metadata": metadata, "spec": dict(patch)}


def apply_patch(value: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Return an object with a patch merged in: mappings member by member, null removes.

    All lists of an HPA's spec are replaced as a whole, so this is what a strategic merge does too.
    """
    merged = dict(value)
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        elif isinstance(part, Mapping):
            merged[name] = apply_patch(_parts(merged.get(name)), part)
        else:
            merged[name] = part
    return merged


# ---- differences in words ------------------------------------------------------------------------

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
